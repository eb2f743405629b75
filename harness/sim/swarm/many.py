"""Many schedules on all cores: in their order, some at a time for each process.

A light module: the process that prints verdicts imports neither driver nor servers.
"""

from __future__ import annotations

import gc
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from harness.running import interruption
from harness.sim.swarm.drawing import draw
from harness.sim.swarm.schedule import parse
from harness.sim.swarm.verdict import ScheduleVerdict
from harness.sim.sweep.processes import processes
from mongowire.garbage import frozen

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

Item: TypeAlias = int | str
"""A schedule: its text, or the seed that it is drawn from."""

_CHUNK: Final = 2
"""Schedules that a process runs before it says what came of them: after Ctrl-C it is awaited for these."""


def judged(
    items: Sequence[Item], *, jobs: int, chunk: int = _CHUNK
) -> Generator[ScheduleVerdict, None, None]:
    """Yield the verdict on each schedule, in their order, as they come.

    One job runs them in this process. Closing the iterator ends the other ones. Raises `Interrupted` between
    two verdicts when a signal has asked for the end.
    """
    chunks = [items[start : start + chunk] for start in range(0, len(items), chunk)]
    if jobs == 1:
        for item in items:
            interruption.check()
            yield from _judge_all([item])
        return
    with processes(jobs) as executor:
        futures = [executor.submit(_judge_all, each) for each in chunks]
        for each, future in zip(chunks, futures, strict=True):
            try:
                verdicts = future.result()
            except BrokenProcessPool:
                verdicts = [
                    ScheduleVerdict(text=_text(item), violations=(("end", "its process died"),))
                    for item in each
                ]
            for verdict in verdicts:
                interruption.check()
                yield verdict


def _judge_all(items: Sequence[Item]) -> list[ScheduleVerdict]:
    from harness.sim.swarm.judging import judge  # noqa: PLC0415 - for the processes that run schedules alone

    verdicts = []
    with _garbage_kept():
        for item in items:
            verdicts.append(judge(parse(_text(item))))
            gc.collect()
    return verdicts


def _text(item: Item) -> str:
    if isinstance(item, str):
        return item
    return str(draw(item))


@contextmanager
def _garbage_kept() -> Iterator[None]:
    """Look for garbage when it is asked for alone, and not among what is there already.

    A run's objects are needed until its verdict: looking among them for garbage is a fifth of its time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with frozen():
            yield
    finally:
        if was_enabled:
            gc.enable()

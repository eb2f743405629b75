"""Many schedules on all cores: seeds in their order, a chunk of them at a time for each process."""

from __future__ import annotations

import gc
import multiprocessing
import signal
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

from harness.sim.swarm.drawing import draw
from harness.sim.swarm.schedule import parse
from harness.sim.swarm.verdict import Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from contextlib import AbstractContextManager

_CHUNK: Final = 5
"""Schedules that a process runs before it says what came of them: after Ctrl-C it ends those."""
_YOUNG: Final = 100_000
"""New objects after which garbage is looked for: a run of a schedule makes few cycles, and is soon over."""


def judged(
    schedules: Sequence[str], *, jobs: int, plant: str | None = None, chunk: int = _CHUNK
) -> Generator[Verdict, None, None]:
    """Yield the verdict on each schedule, in their order, as they come.

    `plant` is the name of a planted fault (`harness.sim.swarm.planted`). Closing the iterator ends the
    processes.
    """
    chunks = [schedules[start : start + chunk] for start in range(0, len(schedules), chunk)]
    if jobs == 1:
        for each in chunks:
            yield from _judge_all(plant, each)
        return
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin)
    try:
        futures = [executor.submit(partial(_judge_all, plant), each) for each in chunks]
        for each, future in zip(chunks, futures, strict=True):
            try:
                yield from future.result()
            except BrokenProcessPool:
                yield from (Verdict(text=text, violations=(("end", "its process died"),)) for text in each)
    finally:
        executor.shutdown(cancel_futures=True)


def texts_of(seeds: Sequence[int]) -> list[str]:
    """Return the schedules of seeds, as texts."""
    return [str(draw(seed)) for seed in seeds]


def planted(name: str | None) -> AbstractContextManager[None]:
    """Return a block in which a planted fault is in driver or server; nothing without a name."""
    if name is None:
        return nullcontext()
    from harness.sim.swarm.planted import PLANTED  # noqa: PLC0415 - needed where something is planted alone

    block: AbstractContextManager[None] = PLANTED[name].apply()
    return block


def _begin() -> None:
    """Prepare a process: Ctrl-C is for its parent, and what was imported is no garbage."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    gc.set_threshold(_YOUNG, 50, 50)


def _judge_all(plant: str | None, texts: Sequence[str]) -> list[Verdict]:
    with planted(plant):
        return [judge(parse(text)) for text in texts]

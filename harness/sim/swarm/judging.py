"""Judges schedules: runs each, and holds its history against all checkers.

A verdict is plain values, because schedules run in other processes and a history is large. A run that ends
by itself in no verdict is a finding too (`end`: a deadlock, an exception, a process that died), and so is
what the event loop complained of (`loop`). Verdicts come in the order of the schedules, whichever process
was faster.
"""

from __future__ import annotations

import gc
import hashlib
from collections import Counter
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from harness.running.flake_lab.shrink import search_among
from harness.sim.swarm.checkers import violations
from harness.sim.swarm.drawing import draw
from harness.sim.swarm.run import perform
from harness.sim.swarm.schedule import Schedule, parse
from harness.world import interruption
from harness.world.clock import NothingScheduled, Spinning
from harness.world.processes import never_collecting, processes
from mongowire.garbage import frozen

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from harness.sim.swarm.history import RunHistory
    from harness.sim.swarm.run import SwarmRun


# The verdict on a schedule: what its run came to, as plain values that travel between processes.
#
# A light module: the process that prints verdicts need not import what is run (`harness.sim.swarm.judging`).


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleVerdict:
    """The verdict on a schedule."""

    text: str
    """The schedule."""
    ok: int = 0
    failed: int = 0
    unknown: int = 0
    seconds: float = 0.0
    """Virtual seconds."""
    trace: str = ""
    """A hash of all operations and requests; the same schedule gives the same one."""
    kinds: tuple[str, ...] = ()
    """The kinds of fault that took place."""
    violations: tuple[tuple[str, str], ...] = ()
    """The checker and the text of each."""

    @property
    def operations(self) -> int:
        """The number of operations."""
        return self.ok + self.failed + self.unknown

    @property
    def passed(self) -> bool:
        """Whether no checker found anything."""
        return not self.violations


def judge(schedule: Schedule) -> ScheduleVerdict:
    """Run a schedule and hold its history against all checkers."""
    try:
        run = perform(schedule)
    except (NothingScheduled, Spinning) as error:
        return ScheduleVerdict(text=str(schedule), violations=(("end", str(error)),))
    except Exception as error:  # noqa: BLE001 - a schedule that cannot be carried out is a finding
        return ScheduleVerdict(text=str(schedule), violations=(("end", f"{type(error).__name__}: {error}"),))
    return verdict_of(schedule, run)


def verdict_of(schedule: Schedule, run: SwarmRun) -> ScheduleVerdict:
    """Hold a run against all checkers."""
    told = run.history
    outcomes = Counter(operation.outcome for operation in told.operations)
    found = [(each.checker, str(each)) for each in violations(told)]
    found += [("loop", complaint) for complaint in run.complaints]
    return ScheduleVerdict(
        text=str(schedule),
        ok=outcomes["ok"],
        failed=outcomes["failed"],
        unknown=outcomes["unknown"],
        seconds=told.ending.at,
        trace=trace_of(told),
        kinds=tuple(sorted({fault.kind for fault in told.faults})),
        violations=tuple(found),
    )


def trace_of(told: RunHistory) -> str:
    """Return a hash of what happened: operations, faults, requests with their replies, streams."""
    digest = hashlib.sha256()
    told_of: Sequence[Any] = (*told.operations, *told.faults, *told.streams)
    for each in told_of:
        fields = {name: getattr(each, name) for name in each.__slots__}
        # Sets in their order, which is the same in every process.
        sets = {name: sorted(value) for name, value in fields.items() if isinstance(value, frozenset)}
        digest.update(repr({**fields, **sets}).encode())
    for request in told.ending.requests:
        facts = (request.at, request.server, request.command, request.reply, request.ended)
        digest.update(repr(facts).encode())
    return digest.hexdigest()[:16]


# The smallest schedule that still fails: fewer faults, clients, operations while one checker complains.


MOST: Final = 150
"""How many schedules are tried at most: some twenty seconds."""


def shrink(schedule: Schedule, checker: str, *, most: int = MOST) -> tuple[Schedule, ScheduleVerdict | None]:
    """Return the smallest schedule found in which this checker still complains, with its verdict.

    None is the verdict of a schedule that it does not complain of. Raises `Interrupted` between two runs.
    """
    smallest: tuple[Schedule, ScheduleVerdict | None] = (schedule, None)
    search = search_among(schedule, Schedule.smaller, most=most)
    candidate = next(search, None)
    while candidate is not None:
        interruption.check()
        verdict = judge(candidate)
        fails = any(name == checker for name, _ in verdict.violations)
        if fails:
            smallest = candidate, verdict
        try:
            candidate = search.send(fails)
        except StopIteration:
            break
    return smallest


# Many schedules on all cores: in their order, some at a time for each process.
#
# A light module: the process that prints verdicts imports neither driver nor servers.


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
    verdicts = []
    # A run's objects are needed until its verdict: to look among them for garbage is a fifth of its time.
    with never_collecting(), frozen():
        for item in items:
            verdicts.append(judge(parse(_text(item))))
            gc.collect()
    return verdicts


def _text(item: Item) -> str:
    if isinstance(item, str):
        return item
    return str(draw(item))

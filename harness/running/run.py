"""A run: what it consists of, and how its items become results.

Three things are arranged here, and none of them may change a result:

Processes. Workers are worth their start only when each gets many items (`_WORTH_A_WORKER`). In virtual time
a case never waits, so there is one worker for a processor; in real time most cases wait for a clock, so
several share one. Servers by URI get no workers at all: their collections, fail points and sessions are
shared state, and two cases at a time would disturb each other.

Order. With workers the longest items start first, so that the end of the run is not one process with one
long case. Results therefore come in any order; `InOrder` hands them on in the order of the plan, so that two
runs of the same plan can be compared line by line.

Flaky cases. What an expectations file calls flaky is a case with limits that a busy machine may miss. It runs
again after all others, alone in one process, because the load of the run itself is the usual reason for the
failure. Whatever fails the third time has failed. In virtual time a repetition changes nothing, since the
same seed gives the same run.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.running import interruption
from harness.running.expectations import ATTEMPTS
from harness.running.plan import longest_first

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.flake_lab.lab import Repeats
    from harness.report.outputs import Outputs
    from harness.running.expectations import Expectations
    from harness.running.plan import Item, Settings
    from harness.running.result import Result

_WORTH_A_WORKER = {"real": 12, "virtual": 60}
"""How many items a worker must get before it has paid for the start of its interpreter."""

_WAITING_WORKERS = 3
"""How many workers share a processor in real time, where they mostly wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything that a run needs, complete before its first case.

    `expectations` are by adapter. `complaints` are about files that cannot be read, one for each. `note` is a
    sentence on cases that some drivers cannot run, or empty. `jobs` is the number of processes, None for as
    many as are worth it. With `is_watched` this run is one of several, which an interruption ends together.
    `draft` is an expectations file that cases which fail are added to.
    """

    items: tuple[Item, ...]
    settings: Settings
    expectations: Mapping[str, Expectations]
    complaints: tuple[str, ...] = ()
    note: str = ""
    jobs: int | None = None
    repeats: Repeats
    outputs: Outputs
    is_watched: bool = False
    draft: Path | None = None


def jobs_for(count: int, settings: Settings) -> int:
    """Return how many processes are worth it for `count` items on this machine; 1 is this process.

    Cases that ran at the same time on servers by URI would disturb each other.
    """
    if settings.uri:
        return 1
    most = processors() * (1 if settings.time == "virtual" else _WAITING_WORKERS)
    return max(1, min(most, count // _WORTH_A_WORKER[settings.time]))


def run_items(
    items: Mapping[int, Item], settings: Settings, *, jobs: int, on_result: Callable[[int, Result], None]
) -> None:
    """Run items, which come by their index in the plan, and report each as it ends.

    With more than one job they run on worker processes. Raises `Interrupted`, and what `on_result` raises.
    """
    if jobs > 1 and len(items) > 1:
        from harness.running.worker_pool import WorkerPool  # noqa: PLC0415 - most runs need no processes

        interruption.run(
            WorkerPool(settings, jobs=jobs, on_result=on_result).run(items, longest_first(items))
        )
    elif items:
        from harness.running.executor import Executor  # noqa: PLC0415 - with workers, only they need servers and drivers

        with Executor(settings) as executor:
            for index, item in items.items():
                interruption.check()
                on_result(index, executor.run(item))


def run_patiently(
    items: Mapping[int, Item],
    settings: Settings,
    *,
    jobs: int,
    on_result: Callable[[int, Result], None],
    is_flaky: Callable[[Result], bool],
) -> None:
    """Run items as `run_items` does; those that fail and are flaky run again, alone, at most twice more."""
    left = items
    for _ in range(ATTEMPTS - 1):
        failed: dict[int, Item] = {}

        def pass_on_or_repeat(index: int, result: Result, failed: dict[int, Item] = failed) -> None:
            if is_flaky(result):
                failed[index] = items[index]
            else:
                on_result(index, result)

        run_items(left, settings, jobs=jobs, on_result=pass_on_or_repeat)
        left, jobs = failed, 1
    run_items(left, settings, jobs=jobs, on_result=on_result)


class InOrder:
    """Passes results on in the order of the plan, each as soon as all before it have come."""

    def __init__(self, deliver: Callable[[Result], None]) -> None:
        self._deliver = deliver
        self._waiting: dict[int, Result] = {}
        self._next = 0

    def add(self, index: int, result: Result) -> None:
        """Take a result, and pass on all whose turn it is."""
        self.hold(index, result)
        while self._next in self._waiting:
            self._deliver(self._waiting.pop(self._next))
            self._next += 1

    def hold(self, index: int, result: Result) -> None:
        """Take a result that `flush` passes on."""
        self._waiting[index] = result

    def flush(self) -> None:
        """Pass on what still waits: the run was interrupted, so what it waits for will not come."""
        for index in sorted(self._waiting):
            self._deliver(self._waiting.pop(index))


def processors() -> int:
    """Return how many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1

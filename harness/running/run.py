"""A run: what it consists of, and how its items become results.

Three things are arranged here, and none of them may change a result:

Processes. Workers are worth their start only when each gets many items (`_WORTH_A_WORKER`). In virtual time
a case never waits, so there is one worker for a processor; in real time most cases wait for a clock, so
several share one. Servers by URI get no workers at all: their collections, fail points and sessions are
shared state, and two cases at a time would disturb each other.

Order. With workers the longest items start first, so that the end of the run is not one process with one
long case. Results therefore come in any order; `InOrder` hands them on in the order of the plan, so that two
runs of the same plan can be compared line by line.

Late cases. On the wall clock a busy machine makes any driver miss a limit. A case that fails there, or that
an expectations file calls flaky, runs again after all others, alone in one process, because the load of the
run itself is the usual reason. A driver that breaks a rule breaks it again; whatever fails the third time has
failed, and what passes says at which run. More than `MOST_LATE` failures are no accident, and run once. In
virtual time a repetition changes nothing, since the same seed gives the same run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from harness.planning.plan import longest_first
from harness.planning.result import ResultStatus
from harness.world import cancelling, interruption
from harness.world.processes import collecting_seldom, processors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from harness.planning.expectations import Expectations
    from harness.planning.plan import Item, Settings
    from harness.planning.result import Result
    from harness.report.outputs import Outputs
    from harness.running.flake_lab.lab import Repeats

_WORTH_A_WORKER = {"real": 12, "virtual": 60}
"""How many items a worker must get before it has paid for the start of its interpreter."""

MOST_LATE: Final = 20
"""How many failures of a run may be the machine's fault."""

RERUNS: Final = 2
"""The times that a case runs again, as in PyMongo's own suite."""

_WAITING_WORKERS = 3
"""How many workers share a processor in real time, where they mostly wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """Everything that a run needs, complete before its first case.

    `expectations` are by adapter. `complaints` are about files that cannot be read, one for each. `note` is a
    sentence on cases that some drivers cannot run, or empty. `jobs` is the number of processes, None for as
    many as are worth it; with `scheduler`, the address of a cluster's, they run there. `reruns` is how often
    a case that was late may run again. With `is_watched` this run is one of several, which an interruption
    ends together. `draft` is an expectations file that cases which fail are added to.
    """

    items: tuple[Item, ...]
    settings: Settings
    expectations: Mapping[str, Expectations]
    complaints: tuple[str, ...] = ()
    note: str = ""
    jobs: int | None = None
    scheduler: str | None = None
    reruns: int = RERUNS
    repeats: Repeats
    outputs: Outputs
    is_watched: bool = False
    draft: Path | None = None
    failures: int | None = None
    """The number of failures that ends the run; None for no such end."""


def jobs_for(count: int, settings: Settings) -> int:
    """Return how many processes are worth it for `count` items on this machine; 1 is this process.

    Cases that ran at the same time on servers by URI would disturb each other.
    """
    if settings.uri:
        return 1
    most = processors() * (1 if settings.time == "virtual" else _WAITING_WORKERS)
    return max(1, min(most, count // _WORTH_A_WORKER[settings.time]))


def run_items(
    items: Mapping[int, Item],
    settings: Settings,
    *,
    jobs: int,
    on_result: Callable[[int, Result], None],
    scheduler: str | None = None,
) -> None:
    """Run items, which come by their index in the plan, and report each as it ends.

    With more than one job they run on worker processes, with a scheduler on its cluster. Raises
    `Interrupted`, `ClusterError`, and what `on_result` raises.
    """
    if scheduler and items:
        from harness.running.cluster import ClusterPool  # noqa: PLC0415 - most runs use no cluster

        ClusterPool(settings, address=scheduler, on_result=on_result).run(items, longest_first(items))
    elif jobs > 1 and len(items) > 1:
        from harness.running.worker_pool import WorkerPool  # noqa: PLC0415 - most runs need no processes

        cancelling.run(WorkerPool(settings, jobs=jobs, on_result=on_result).run(items, longest_first(items)))
    elif items:
        from harness.running.executor import ItemExecutor  # noqa: PLC0415 - with workers, only they need servers and drivers

        with ItemExecutor(settings) as executor, collecting_seldom():
            for index, item in items.items():
                interruption.check()
                on_result(index, executor.run(item))


@dataclass(frozen=True, slots=True)
class Patience:
    """The cases that run again, and how often.

    `is_flaky` says of a failure that the case is known for it, `is_late` that the machine may have caused it.
    """

    is_flaky: Callable[[Result], bool]
    is_late: Callable[[Result], bool] = lambda _: False
    reruns: int = RERUNS

    def again(self, failed: Mapping[int, Result]) -> Iterator[int]:
        """Yield which of some failures run again."""
        late = {index for index, result in failed.items() if not self.is_flaky(result)}
        yield from (index for index in failed if index not in late or len(late) <= MOST_LATE)

    def may_pass(self, result: Result) -> bool:
        """Return whether a result is a failure that may go away when the case runs again."""
        return result.status is ResultStatus.FAILED and (self.is_flaky(result) or self.is_late(result))


def run_patiently(
    items: Mapping[int, Item],
    settings: Settings,
    *,
    jobs: int,
    on_result: Callable[[int, Result], None],
    patience: Patience,
    scheduler: str | None = None,
) -> None:
    """Run items as `run_items` does; failures that may go away run again, alone, and tell the last result.

    They run again here, also those of a cluster.

    An exception that ends the run tells the results so far of those that were to run again.
    """
    failed: dict[int, Result] = {}
    left, number = items, 1

    def hold_or_tell(index: int, result: Result) -> None:
        told = replace(result, runs=number)
        if number <= patience.reruns and patience.may_pass(result):
            failed[index] = told
        else:
            failed.pop(index, None)
            on_result(index, told)

    try:
        while left:
            run_items(left, settings, jobs=jobs, on_result=hold_or_tell, scheduler=scheduler)
            chosen = {*patience.again(failed)}
            for index in failed.keys() - chosen:
                on_result(index, failed.pop(index))
            left, jobs, number = {index: items[index] for index in sorted(chosen)}, 1, number + 1
            scheduler = None
    finally:
        for index, result in failed.items():
            on_result(index, result)


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

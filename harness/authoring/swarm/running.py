"""Runs schedules: writes their scenarios to a folder of its own, and has the harness run them as any.

A schedule that is skipped says in the reason what the driver cannot do. It runs again without that, for as
long as something is left to take away; each round takes at least one step or option, so it ends. Files get a
number beside the seed, because a search writes many schedules of one seed and the harness keeps what it has
read by path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from harness.authoring.swarm.scenario import text_of
from harness.planning.plan import Item, forget
from harness.planning.result import ResultStatus
from harness.running.run import RERUNS, Patience, run_items, run_patiently
from harness.unified.server_side.oracles import ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from harness.authoring.swarm.schedule import SwarmSchedule
    from harness.authoring.swarm.work import SwarmDriver
    from harness.planning.plan import Settings
    from harness.planning.result import Result


@dataclass(slots=True)
class SwarmRunner:
    """Runs schedules with one driver. `jobs` is the number of processes. A context manager."""

    driver: SwarmDriver
    settings: Settings
    jobs: int
    _folder: TemporaryDirectory[str] = field(default_factory=lambda: TemporaryDirectory(prefix="swarm-"))
    _written: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.cleanup()

    def run(
        self,
        schedules: Sequence[SwarmSchedule],
        on_result: Callable[[SwarmSchedule, Result], None],
        rules: Sequence[str] | str = ALL,
    ) -> None:
        """Run schedules, and report each as it ends. Raises `Interrupted`.

        What fails in real time runs twice more, alone: the machine may have been busy. What is skipped runs
        again without what the driver lacks, and is reported as the schedule that is left.
        """
        while schedules:
            schedules = self._left_of(schedules, on_result, rules)
            forget()  # no schedule comes again, and thousands may follow

    def _left_of(
        self,
        schedules: Sequence[SwarmSchedule],
        on_result: Callable[[SwarmSchedule, Result], None],
        rules: Sequence[str] | str,
    ) -> Sequence[SwarmSchedule]:
        """Run schedules, and return what is left of those that were skipped."""
        left: list[SwarmSchedule] = []

        def take(index: int, result: Result) -> None:
            skipped = result.status is ResultStatus.SKIPPED
            rest = schedules[index].without_what_lacks(result.reason) if skipped else None
            if rest is None:
                on_result(schedules[index], result)
            else:
                left.append(rest)

        items = dict(enumerate(self._item(schedule, rules) for schedule in schedules))
        jobs = min(self.jobs, len(items))
        run_patiently(items, self.settings, jobs=jobs, on_result=take, patience=self._patience)
        return left

    def failure(self, schedule: SwarmSchedule, rules: Sequence[str]) -> Result | None:
        """Run one schedule here; return its result if it fails, None otherwise."""
        results: list[Result] = []
        items: Mapping[int, Item] = {0: self._item(schedule, rules)}
        run_items(items, self.settings, jobs=1, on_result=lambda _, result: results.append(result))
        forget()
        (result,) = results
        return result if result.status is ResultStatus.FAILED else None

    @property
    def _patience(self) -> Patience:
        reruns = RERUNS if self.settings.time == "real" else 0
        return Patience(is_flaky=lambda _: True, reruns=reruns)

    def _item(self, schedule: SwarmSchedule, rules: Sequence[str] | str) -> Item:
        self._written += 1
        path = Path(self._folder.name) / f"seed-{schedule.seed}-{self._written}.yml"
        return item_of(schedule, self.driver, path, rules)


def item_of(
    schedule: SwarmSchedule, driver: SwarmDriver, path: Path, rules: Sequence[str] | str = ALL
) -> Item:
    """Write the scenario of a schedule to a file, and return the item that runs it. Raises `OSError`."""
    path.write_text(text_of(schedule, driver.features, rules), encoding="utf-8")
    name = f"swarm/{schedule.seed}::seed {schedule.seed}"
    return Item(name, str(path), 0, driver.name, schedule.edition, schedule.target)

"""The lab: every case with one seed after the other, then the search in those that failed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from harness.deployment import servers
from harness.expectations import SKIP
from harness.flake_lab.cases import Repeated, Shrinking
from harness.flake_lab.schedule import draw
from harness.result import ResultStatus
from harness.targets import NO_SERVER, topology_of
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.expectations import Expectations
    from harness.plan import Item, Settings
    from harness.result import Result

TRIES: Final = {"virtual": 1, "real": 5}
"""How often a schedule is tried: in virtual time, once tells all."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often each case runs, and how it is disturbed.

    With `perturb` each run has a schedule of its own, drawn from its seed; `schedule` is one for all.
    """

    count: int = 1
    perturb: bool = False
    schedule: str | None = None
    max_delay_ms: int = 50

    @property
    def disturbs(self) -> bool:
        """Whether runs are disturbed."""
        return self.perturb or self.schedule is not None

    @property
    def wanted(self) -> bool:
        """Whether this is a job for the lab."""
        return self.count > 1 or self.disturbs


class FlakeLab:
    """Runs items many times. `run` runs items by their places, and hands on each result as it ends."""

    def __init__(
        self,
        repeats: Repeats,
        settings: Settings,
        books: Mapping[str, Expectations],
        run: Callable[[Mapping[int, Item], Callable[[int, Result], None]], None],
    ) -> None:
        self._repeats = repeats
        self._settings = settings
        self._books = books
        self._run_items = run
        self.runs_left = 0
        """How many runs have not come to an end."""
        self.cases: list[Repeated] = []
        """What is known so far, also when the run is interrupted."""

    def run(self, items: Sequence[Item]) -> None:
        """Run everything. Raises `Interrupted` when the user has enough of it."""
        self.cases = [
            Repeated(item, self._book(item).find(item.id, item.topology, item.edition)) for item in items
        ]
        for case in self.cases:
            if case.entry is not None and case.entry.kind == SKIP:
                case.add(case.item, case.item.result(ResultStatus.SKIPPED, case.entry.reason))
        self.runs_left = self._repeats.count * sum(not case.is_skipped for case in self.cases)
        self._repeat(range(1))  # which tells what does not apply here
        self.runs_left = (self._repeats.count - 1) * sum(not case.is_skipped for case in self.cases)
        self._repeat(range(1, self._repeats.count))
        if self._repeats.perturb:
            self._shrink()

    def not_run(self, reason: str) -> list[Result]:
        """Return a result for each case without one, because of what has ended the run."""
        left = (case.item for case in self.cases if case.sample is None)
        return [item.result(ResultStatus.NOT_RUN, reason) for item in left]

    def _repeat(self, repetitions: Sequence[int]) -> None:
        left = [case for case in self.cases if not case.is_skipped]
        runs = [(case, self._prepared(case.item, number)) for number in repetitions for case in left]

        def on_result(place: int, result: Result) -> None:
            case, item = runs[place]
            self.runs_left -= 1
            case.add(item, self._book(item).judge(result))

        self._run_items({place: item for place, (_, item) in enumerate(runs)}, on_result)

    def _prepared(self, item: Item, number: int) -> Item:
        """Return an item as it is for the repetition of this number, from 0."""
        seed, schedule = self._settings.seed + number, self._repeats.schedule
        if item.topology == NO_SERVER:
            return replace(item, seed=seed)
        if self._repeats.perturb:
            dice = SeededRng(f"{seed}/{item.topology}/{item.id}", "schedule")
            names = servers(topology_of(item.topology))
            schedule = str(draw(dice, names, max_delay_ms=self._repeats.max_delay_ms))
        return replace(item, seed=seed, schedule=schedule)

    def _shrink(self) -> None:
        """Search in all cases that failed at once, a schedule of each at a time."""
        left = [Shrinking(case) for case in self.cases if case.first is not None and not case.is_flaky]
        while left:
            self._try([(each, each.items(TRIES[self._settings.time])) for each in left])
            left = [each for each in left if each.items(1)]

    def _try(self, asked: Sequence[tuple[Shrinking, Sequence[Item]]]) -> None:
        runs = [(search, item) for search, items in asked for item in items]
        results: dict[Shrinking, list[Result]] = {search: [] for search, _ in asked}
        self._run_items(
            {place: item for place, (_, item) in enumerate(runs)},
            lambda place, result: results[runs[place][0]].append(result),
        )
        for search, items in asked:
            search.hear(items[0], results[search])

    def _book(self, item: Item) -> Expectations:
        return self._books[item.adapter]

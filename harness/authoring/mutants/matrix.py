"""A run over mutants: which of them a suite of cases kills, and by which case.

A mutant is tried with the cases of its own specification first, those that name its rule before the others,
and only with those that reach what it has changed.

A thorough search has three rounds, each with the survivors of the one before: the cases of the mutant's own
specification, each on the first deployment that it passes on; all other cases in the same way; all cases on
every deployment. The dear rounds come last, for the few that are left. A mutant gets its verdict when
something kills it, or when the last round has not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from harness.adapters.registry import EDITIONS
from harness.authoring.mutants.overlay import load_modules
from harness.authoring.mutants.survey import concerns, grouped, names_rule, survey
from harness.authoring.mutants.trial import MutantVerdict, Trial, of_items, run_trials
from harness.planning import expectations
from harness.planning.discovery import BadInputError, discover
from harness.planning.expectations import KNOWN_FAILING, SKIP
from harness.planning.plan import cost, load_all, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.authoring.mutants.mutant import Mutant
    from harness.planning.plan import Item


Belongs: TypeAlias = "Callable[[Mutant, Item], bool]"
"""Whether an item is for a mutant, in one round of a search."""


class KillerSearch(Enum):
    """The reach of a search for the killer of a mutant: its own specification, or all cases."""

    OWN = "own"
    THOROUGH = "thorough"


DEPLOYMENTS: Final = {
    EDITIONS[0]: (
        *("replicaset", "sharded", "load-balanced", "single"),
        *("replicaset+auth", "load-balanced+auth", "replicaset@4.2", "sharded@4.2"),
    ),
    EDITIONS[1]: ("replicaset", "sharded", "load-balanced", "replicaset@9.0"),
}
"""The deployments of our scenarios, in each edition."""


def scenario_items(paths: Iterable[Path] = ()) -> tuple[Item, ...]:
    """Return the items of our scenarios, or of those in `paths`. Raises BadInputError."""
    return planned(discover(paths), DEPLOYMENTS)


def planned(files: Iterable[Path], deployments: Mapping[str, Sequence[str]]) -> tuple[Item, ...]:
    """Return the items that are expected to pass, with the reference driver."""
    # A case that is expected to fail with the right driver would be no witness against a wrong one.
    cases, known = tuple(load_all(files).cases), expectations.of_adapter("reference")

    def expected(item: Item) -> bool:
        entry = known.find(item.id, item.topology, item.edition)
        return entry is None or entry.kind not in (KNOWN_FAILING, SKIP)

    planned = (
        item
        for edition, topologies in deployments.items()
        for item in plan(cases, drivers={"reference": edition}, topologies=topologies)
    )
    return tuple(item for item in planned if expected(item))


def _order(mutant: Mutant, item: Item) -> tuple[bool, int]:
    """Return the key of an item's place: those that name the rule first, short ones first."""
    return not names_rule(mutant, item), cost(item.case())


def _is_foreign(mutant: Mutant, item: Item) -> bool:
    return not concerns(mutant, item)


def is_any(_mutant: Mutant, _item: Item) -> bool:
    """Say of every item that it is for a mutant."""
    return True


@dataclass(slots=True)
class MutantMatrix:
    """The verdicts of one suite of cases on mutants, by name."""

    suite: str
    items: Sequence[Item]
    jobs: int
    advance: Callable[[str, int], None] = lambda _what, _count: None
    """Called with what is being done, and how much of it."""
    on_verdict: Callable[[Mutant, MutantVerdict], None] = lambda _mutant, _verdict: None
    verdicts: dict[str, MutantVerdict] = field(default_factory=dict)
    is_named: bool = False
    """Whether the items were named, so that each is for every mutant, whatever its folder is called."""
    reached: dict[str, int] = field(default_factory=dict)
    """The number of cases that reach what a mutant has changed, where that was asked."""

    def run(
        self, mutants: Sequence[Mutant], *, search: KillerSearch = KillerSearch.OWN, everything: bool = False
    ) -> None:
        """Try all mutants without a verdict; with `everything`, with all cases and not only until one kills.

        Raises BadInputError for a mutant that cannot be loaded.
        """
        rounds = self._rounds(search, everything=everything)
        for number, (belongs, everywhere) in enumerate(rounds, 1):
            if left := [mutant for mutant in mutants if mutant.name not in self.verdicts]:
                is_last = number == len(rounds)
                self._search(left, belongs, everywhere=everywhere, is_last=is_last, stops=not everything)

    def _rounds(self, search: KillerSearch, *, everything: bool) -> list[tuple[Belongs, bool]]:
        """Return which items each round of a search tries, and whether on every deployment."""
        own: tuple[Belongs, bool] = (is_any if self.is_named else concerns, everything)
        if search is KillerSearch.OWN:
            return [own]
        return [(is_any, True)] if everything else [own, (_is_foreign, False), (is_any, True)]

    def _conclude(self, mutant: Mutant, verdict: MutantVerdict) -> None:
        if verdict.broken:
            raise BadInputError(f"{mutant.location}: '{mutant.name}' cannot be loaded: {verdict.broken}")
        self.verdicts[mutant.name] = verdict
        self.on_verdict(mutant, verdict)

    def _search(
        self,
        mutants: Sequence[Mutant],
        belongs: Belongs,
        *,
        everywhere: bool,
        is_last: bool,
        stops: bool,
    ) -> None:
        """Try mutants with the items that belong to each and that reach what it has changed.

        `everywhere` is on every deployment, otherwise a case is run on the first that it passes on.
        """
        # `belongs` asks for specification and rule alone, so one mutant stands for all that share them.
        specimens = {(mutant.specification, mutant.rule): mutant for mutant in mutants}.values()
        items = [item for item in self.items if any(belongs(mutant, item) for mutant in specimens)]
        # Before the survey forks: only what is loaded here can be marked there, and given other code later.
        load_modules(change.file for mutant in mutants for change in mutant.changes)
        self.advance(f"{self.suite}: without a mutant", len(grouped(items, everywhere=everywhere)))
        surveyed = survey(
            items,
            mutants,
            everywhere=everywhere,
            jobs=self.jobs,
            advance=lambda count: self.advance("", count),
        )
        trials: list[Trial] = []
        for mutant in mutants:
            chosen = [item for item in surveyed.reaching(mutant) if belongs(mutant, item)]
            if not stops and not everywhere:
                # Each case once, in the first edition in which the mutant is wrong.
                chosen = list({item.id: item for item in reversed(chosen)}.values())
            self.reached[mutant.name] = self.reached.get(mutant.name, 0) + len(chosen)
            trials.append(of_items(mutant, sorted(chosen, key=partial(_order, mutant))))
        self._take(trials, f"{self.suite}: search", is_last=is_last, stops=stops)

    def _take(self, trials: Sequence[Trial], what: str, *, is_last: bool, stops: bool = True) -> None:
        """Run trials; what survives the last ones has survived."""

        def end(trial: Trial) -> None:
            self.advance("", 1)
            if is_last or trial.verdict.killed_by or trial.verdict.broken:
                self._conclude(trial.mutant, trial.verdict)

        self.advance(what, len(trials))
        run_trials(trials, jobs=self.jobs, on_end=end, stops=stops)

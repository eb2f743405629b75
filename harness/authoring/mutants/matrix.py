"""A run over mutants: which of them each suite kills, and by which case.

The case that killed a mutant the last time is tried first, and in most runs that is all. The rest goes the
long way: cases of the mutant's own specification first, those that name its rule before the others,
and only those that reach what it has changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from harness.authoring.mutants.overlay import load_modules
from harness.authoring.mutants.record import SURVIVED, MutantRecord
from harness.authoring.mutants.survey import concerns, grouped, names_rule, passing, survey
from harness.authoring.mutants.trial import MutantVerdict, Trial, key_of, of_items, run_trials
from harness.running.discovery import BadInputError
from harness.running.plan import cost

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.authoring.mutants.mutant import Mutant
    from harness.running.plan import Item

    Belongs: TypeAlias = Callable[[Mutant, Item], bool]
    """Whether an item is for a mutant, in one round of a search."""


class KillerSearch(Enum):
    """How far to look for the killer of a mutant: the recorded one, its specification, or all cases."""

    KNOWN = "known"
    OWN = "own"
    THOROUGH = "thorough"


def _order(mutant: Mutant, item: Item) -> tuple[bool, int]:
    """Return the key of an item's place: those that name the rule first, short ones first."""
    return not names_rule(mutant, item), cost(item.case())


def _is_foreign(mutant: Mutant, item: Item) -> bool:
    return not concerns(mutant, item)


def _is_any(_mutant: Mutant, _item: Item) -> bool:
    return True


@dataclass(slots=True)
class MutantMatrix:
    """The verdicts of one suite of cases on mutants, by name."""

    suite: str
    items: Sequence[Item]
    record: MutantRecord
    jobs: int
    advance: Callable[[str, int], None] = lambda _what, _count: None
    """Called with what is being done, and how much of it."""
    on_verdict: Callable[[Mutant, MutantVerdict], None] = lambda _mutant, _verdict: None
    verdicts: dict[str, MutantVerdict] = field(default_factory=dict)
    is_named: bool = False
    """Whether the items were named, so that each is for every mutant, whatever its folder is called."""
    is_drawn: bool = False
    """Whether the items are of no specification: each is tried with every mutant, on its own deployment."""
    reached: dict[str, int] = field(default_factory=dict)
    """How many cases reach what a mutant has changed, where that was asked."""

    def kills(self, mutants: Sequence[Mutant]) -> dict[str, tuple[str, ...]]:
        """Return the ids of all cases that kill each mutant; a case runs where it passes first.

        Raises BadInputError for a mutant that cannot be loaded.
        """
        self._search(mutants, _is_any, everywhere=False, is_last=True, stops=False)
        return {
            mutant.name: tuple(
                sorted({key.rpartition(" [")[0] for key in self.verdicts[mutant.name].killed_by})
            )
            for mutant in mutants
        }

    def run(
        self, mutants: Sequence[Mutant], *, search: KillerSearch = KillerSearch.OWN, everything: bool = False
    ) -> None:
        """Try all mutants; with `everything`, with all cases and not only until one kills.

        Raises BadInputError for a mutant that cannot be loaded.
        """
        if not everything:
            self._try_known_killers(mutants)
        left = [mutant for mutant in mutants if mutant.name not in self.verdicts]
        if search is KillerSearch.KNOWN:
            for mutant in left:
                self._conclude(
                    mutant, MutantVerdict(), tried=self.record.killer(mutant.name, self.suite) is not None
                )
            return
        rounds: list[tuple[Belongs, bool]] = [(_is_any if self.is_named else concerns, everything)]
        if self.is_drawn:
            rounds = [(_is_any, True)]
        elif search is KillerSearch.THOROUGH:
            rounds = [(_is_any, True)] if everything else [*rounds, (_is_foreign, False), (_is_any, True)]
        for number, (belongs, everywhere) in enumerate(rounds, 1):
            if left:
                is_last = number == len(rounds)
                self._search(left, belongs, everywhere=everywhere, is_last=is_last, stops=not everything)
            left = [mutant for mutant in left if mutant.name not in self.verdicts]

    def _conclude(self, mutant: Mutant, verdict: MutantVerdict, *, tried: bool = True) -> None:
        if verdict.broken:
            raise BadInputError(f"{mutant.location}: '{mutant.name}' cannot be loaded: {verdict.broken}")
        self.verdicts[mutant.name] = verdict
        if tried:
            self.record.note(mutant.name, self.suite, next(iter(verdict.killed_by), SURVIVED))
        self.on_verdict(mutant, verdict)

    def _try_known_killers(self, mutants: Sequence[Mutant]) -> None:
        wanted = {mutant.name: self.record.killer(mutant.name, self.suite) for mutant in mutants}
        keys = set(wanted.values())
        known = passing([item for item in self.items if key_of(item) in keys])
        trials = [
            of_items(mutant, [known[killer]])
            for mutant in mutants
            if (killer := wanted[mutant.name]) is not None and killer in known
        ]
        self._take(trials, f"{self.suite}: known killers", is_last=False)

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
        specimens = {(mutant.specification, mutant.rule): mutant for mutant in mutants}.values()
        items = [item for item in self.items if any(belongs(mutant, item) for mutant in specimens)]
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

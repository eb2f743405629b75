"""The proof of a rule: its scenario is green with the patch, red without it and with wrong neighbours.

All of them are tried in virtual time, each in a process of its own that is forked from one with everything
loaded, by the engine of the mutants.

There are two runs of trials. The first has the driver with the patch and, as a mutant without changes, the
driver of today: both run every case on all deployments, for the table and the pictures. The second has the
neighbours, which stop at the first case that finds them. It is left out while the patch itself fails, for a
neighbour that fails with it would say nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from harness.authoring.mutants.mutant import Mutant, path_of
from harness.authoring.mutants.overlay import load_modules
from harness.authoring.mutants.trial import Trial, key_of, run_trials
from harness.authoring.proposals.neighbours import neighbours
from harness.planning.discovery import BadInputError
from harness.planning.plan import Item, Settings, load_all, plan
from harness.planning.result import Result, ResultStatus
from harness.running.executor import ItemExecutor
from harness.unified.model import Case, nested
from mongowire.documents.marks import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from harness.authoring.proposals.neighbours import Neighbour
    from harness.authoring.proposals.rule import Patch, Rule

REFERENCE: Final = "reference"


class Fate(StrEnum):
    """The fate of a wrong neighbour."""

    FOUND = "found"
    ALLOWED = "allowed"
    """No case finds it, and the patch says why none need."""
    SURVIVES = "survives"


@dataclass(slots=True, eq=False)
class ReportedTrial(Trial):
    """A trial that keeps the result of each case, by its key."""

    results: dict[str, Result] = field(default_factory=dict)

    def take(self, message: tuple[Any, ...], clock: Any) -> None:
        """Take in what the process says."""
        Trial.take(self, message, clock)
        match message:
            case ("ends", index, document):
                self.results[self.keys[index]] = Result.from_dict(document)


@dataclass(frozen=True, slots=True)
class Tried:
    """A wrong neighbour, what has come of it, and the case that found it with what it said."""

    neighbour: Neighbour
    fate: Fate
    killer: str = ""
    reason: str = ""
    because: str = ""


@dataclass(slots=True)
class Proof:
    """The outcome of the trials; results are by the keys of items."""

    rule: Rule
    patch: Patch
    items: tuple[Item, ...]
    today: Mapping[str, Result]
    wanted: Mapping[str, Result]
    tried: list[Tried] = field(default_factory=list)
    stale: tuple[str, ...] = ()
    """Sentences on what the patch allows of neighbours that do not survive, or are not there."""

    @property
    def red_with(self) -> list[Result]:
        """The results with the patch that are failures: there should be none."""
        return _failures(self.wanted)

    @property
    def red_without(self) -> list[Result]:
        """The results without the patch that are failures: there should be some."""
        return _failures(self.today)

    @property
    def survivors(self) -> list[Tried]:
        """The wrong neighbours that no case tells from the rule."""
        return [each for each in self.tried if each.fate is Fate.SURVIVES]

    @property
    def passed(self) -> int:
        """The number of cases that passed with the patch."""
        return sum(result.status is ResultStatus.PASSED for result in self.wanted.values())

    @property
    def holds(self) -> bool:
        """Whether the rule is proved: without a wrong neighbour nothing is."""
        is_shown = self.passed and self.red_without and not self.red_with
        return bool(is_shown and self.tried and not self.survivors and not self.stale)

    def verdict(self) -> str:
        """Return a sentence on what is proved, and what is not."""
        fates = Counter(each.fate for each in self.tried)
        red_with = f" and {len(self.red_with)} failed" if self.red_with else ""
        said = [
            f"{self.passed} passed with the patch{red_with}",
            f"{len(self.red_without)} failed without it",
        ]
        if self.tried:
            said.append(f"{fates[Fate.FOUND]} of {len(self.tried)} wrong neighbours were found")
        elif self.passed and not self.red_with:
            said.append("no wrong neighbour can be made of the patch's lines")
        if fates[Fate.ALLOWED]:
            said.append(f"{fates[Fate.ALLOWED]} need not be")
        return f"{'Proved' if self.holds else 'Not proved'}: {', '.join(said)}."

    def deviation(self) -> tuple[Result, Result] | None:
        """Return the first failure of the driver of today, and the result of the same case with the patch."""
        return next(
            (
                (result, self.wanted[key])
                for key, result in self.today.items()
                if result.status is ResultStatus.FAILED and key in self.wanted
            ),
            None,
        )


def items_of(rule: Rule, drivers: Mapping[str, str], deployments: Sequence[str]) -> tuple[Item, ...]:
    """Return the cases of a rule for drivers, each with its edition, on deployments."""
    return plan(tuple(load_all(rule.scenarios).cases), drivers=drivers, topologies=deployments)


def prove(
    rule: Rule,
    patch: Patch,
    *,
    deployments: Sequence[str],
    jobs: int,
    settings: Settings,
    advance: Callable[[float], None],
) -> Proof:
    """Try the driver with the patch, without it, and each wrong neighbour.

    The first two run on all `deployments`, neighbours on those of the rule. `advance` is called with
    each trial that ends. Raises BadInputError for a patch that cannot be loaded.
    """
    items = tuple(
        item for edition in rule.editions for item in items_of(rule, {REFERENCE: edition}, deployments)
    )
    # In this process, so that all forks have the patched modules at hand and only swap their code.
    load_modules(patch.after)
    wrong = neighbours(patch, _codes(items))
    wanted = Mutant("", "driver", "", "", "", patch.changes, Location(path_of("driver")))
    today = replace(wanted, changes=())
    run = _runs(items, settings, stops=False)
    both = (ReportedTrial(wanted, *run), ReportedTrial(today, *run))
    run_trials(both, jobs=jobs, on_end=lambda _: advance(1), stops=False)
    if both[0].verdict.broken:
        reason = both[0].verdict.broken.rpartition("\n")[2]
        raise BadInputError(f"{patch.path}: the driver cannot be loaded with '{patch.name}': {reason}")
    with_patch, without = (_results(trial, items) for trial in both)
    proof = Proof(rule, patch, items, without, with_patch)
    if proof.passed and not proof.red_with:
        _try_neighbours(proof, wrong, _runs(_telling(proof), settings, stops=True), jobs, advance)
    return proof


def _telling(proof: Proof) -> list[Item]:
    """Return what passes with the patch where the rule is proved, the items of a deployment together."""
    passed = [
        item
        for item in proof.items
        if item.topology in proof.rule.deployments
        and proof.wanted[key_of(item)].status is ResultStatus.PASSED
    ]

    # The cases that are red today come first on each deployment: they are what most neighbours fail.
    def order(item: Item) -> tuple[int, int, bool]:
        is_green = proof.today[key_of(item)].status is not ResultStatus.FAILED
        return proof.rule.editions.index(item.edition), proof.rule.deployments.index(item.topology), is_green

    return sorted(passed, key=order)


def _try_neighbours(
    proof: Proof,
    wrong: Iterable[Neighbour],
    run: tuple[Sequence[str], Any],
    jobs: int,
    advance: Callable[[float], None],
) -> None:
    allowed = {each.name: each for each in proof.patch.allowed}
    tried: dict[str, Tried] = {}
    by_name = {each.name: each for each in wrong}

    def end(trial: Trial) -> None:
        advance(1)
        neighbour = by_name[trial.mutant.name]
        if trial.verdict.broken:
            return  # what cannot be loaded is no driver
        found = next(iter(trial.verdict.killed_by.items()), None)
        if found is not None:
            tried[neighbour.name] = Tried(neighbour, Fate.FOUND, *found)
        elif neighbour.name in allowed:
            tried[neighbour.name] = Tried(neighbour, Fate.ALLOWED, because=allowed[neighbour.name].because)
        else:
            tried[neighbour.name] = Tried(neighbour, Fate.SURVIVES)

    trials = [Trial(each.as_mutant(), *run) for each in by_name.values()]
    run_trials(trials, jobs=jobs, on_end=end)
    proof.tried = [tried[name] for name in by_name if name in tried]
    proof.stale = tuple(_stale(proof, tried))


def _stale(proof: Proof, tried: Mapping[str, Tried]) -> Iterator[str]:
    """Yield what the patch allows without need; it keeps the proof from holding, as a survivor does.

    Otherwise an excuse would outlive the reason for it, and hide the same neighbour when it comes back.
    """
    for each in proof.patch.allowed:
        if each.name not in tried:
            yield f"{each.location}: no neighbour is called '{each.name}'"
        elif tried[each.name].fate is Fate.FOUND:
            yield f"{each.location}: '{each.name}' does not survive: {tried[each.name].killer} finds it"


def _runs(items: Sequence[Item], settings: Settings, *, stops: bool) -> tuple[Sequence[str], Any]:
    """Return the keys of items, and what runs them in a process that is another driver."""
    documents = [item.to_dict() for item in items]
    # The first two drivers get pictures of all cases, and neighbours none of what passes.
    plain = settings.to_dict() | {"time": "virtual", "detail": "failures" if stops else "all"}

    def judge(report: Callable[[tuple[Any, ...]], None], *, stops: bool) -> None:
        # By name, because it may have been imported anew, and must judge by what is loaded now.
        import_module(__name__).run_and_report(documents, plain, report, stops=stops)

    return [key_of(item) for item in items], judge


def run_and_report(
    documents: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
    report: Callable[[tuple[Any, ...]], None],
    *,
    stops: bool,
) -> None:
    """Run items in their order and report the result of each; with `stops`, end with the first that fails."""
    with ItemExecutor(Settings.from_dict(settings)) as executor:
        for index, document in enumerate(documents):
            report(("begins", index))
            result = executor.run(Item(**document))
            if not stops:
                report(("ends", index, result.to_dict()))
            if result.status is ResultStatus.FAILED:
                report(("killed", index, result.reason.strip().partition("\n")[0]))
                if stops:
                    break
    report(("ended",))


def _results(trial: ReportedTrial, items: Iterable[Item]) -> dict[str, Result]:
    """Return the result of each item; one with which the driver hung or crashed has failed."""
    found = {}
    for item in items:
        key = key_of(item)
        reason = trial.verdict.killed_by.get(key, "not run: an earlier case ended the driver")
        found[key] = trial.results.get(key) or item.result(ResultStatus.FAILED, reason)
    return found


def _failures(results: Mapping[str, Result]) -> list[Result]:
    return [result for result in results.values() if result.status is ResultStatus.FAILED]


def _codes(items: Iterable[Item]) -> set[int]:
    """Return the codes of the errors that fail points of the cases answer with."""
    found = set[int]()
    for case in {item.id: item.case() for item in items}.values():
        for operation in nested(case.operations) if isinstance(case, Case) else ():
            fail_point = operation.arguments.get("failPoint")
            data = fail_point.get("data") if isinstance(fail_point, dict) else None
            code = data.get("errorCode") if isinstance(data, dict) else None
            if isinstance(code, int):
                found.add(int(code))
    return found

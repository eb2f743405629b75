"""Observations of runs of a case: events, sessions, results of operations, and stored documents.

A case is run on several deployments and with several seeds, because only that tells what belongs to the case
from what chance or a deployment gave it.

`CaseObserver` runs cases in this process by the executor of `conform`, with two differences: it hands over a
case that need not be as its file has it, and `RunObservation.take` looks at the world when the operations
have ended and before the runner judges and takes it down. `attempts_by_command` and `expected_attempts` are
the part for what servers saw, with the words of `expectAttempts` (docs/WITNESS.md). Gaps are in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, Final, Self

from harness.adapters.base import EntityKind
from harness.lint.commands import BACKGROUND
from harness.planning.plan import Item, Settings
from harness.planning.result import ResultStatus
from harness.running.executor import ExecutorParts, ItemExecutor
from harness.unified.runner import run_case
from harness.unified.server_side.attempts import SeenOperation
from harness.unified.server_side.grouping import by_operation
from harness.unified.server_side.model import NO_GAP, OVERLOAD_BACKOFF, Range
from harness.unified.server_side.rules import Timing
from harness.unified.server_side.seen import requests_of
from harness.unified.state import stored_documents
from harness.world import interruption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from harness.adapters.base import Event
    from harness.adapters.registry import DriverEntry
    from harness.planning.plan import Time
    from harness.planning.result import Result
    from harness.unified.model import Case, Operation
    from harness.unified.operations import Context
    from harness.unified.outcome import CaseOutcome
    from harness.unified.server_side.attempt import JudgedAttempt


_LEFT_OUT: Final = BACKGROUND | {"configureFailPoint", "killCursors"}
"""Commands that drivers send when nobody asks, and those that prepare a case."""


def attempts_by_command(context: Context) -> dict[str, tuple[list[SeenOperation], Timing]]:
    """Return the operations of a run by the commands that they sent, with how exactly gaps were seen."""
    record = context.deployment.wire_record
    timing = Timing(record.round_trip, record.is_disturbed)
    requests = [each for each in requests_of(context.seen.connections) if each.name not in _LEFT_OUT]
    found: dict[str, tuple[list[SeenOperation], Timing]] = {}
    for name in dict.fromkeys(request.name for request in requests):
        of_name = [request for request in requests if request.name == name]
        grouped = by_operation(of_name, context.account.steps, context.case.operations)
        operations = [SeenOperation.of(step.operation.name, sent, timing) for step, sent in grouped]
        if operations:
            found[name] = (operations, timing)
    return found


def expected_attempts(
    runs: Sequence[Mapping[str, tuple[Sequence[SeenOperation], Timing]]], note: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return `expectAttempts`: what all runs have in common. `note` gets a sentence on what varies."""
    elements: list[dict[str, Any]] = []
    for name in runs[0]:
        if not all(name in run for run in runs):
            note(f"{name} was sent in some runs only, so no attempts of it are expected")
            continue
        of_name = [run[name] for run in runs]
        element = _one(of_name) or _several(of_name)
        if element:
            elements.append({"command": name, **element})
        else:
            note(f"the attempts of {name} vary, so nothing is expected of them")
    return elements


def _one(runs: Sequence[tuple[Sequence[SeenOperation], Timing]]) -> dict[str, Any] | None:
    """Return the attempts of a command that one operation sent, equally often in all runs."""
    if any(len(operations) != 1 for operations, _ in runs):
        return None
    lists = [(operations[0].attempts, timing) for operations, timing in runs]
    if len({len(attempts) for attempts, _ in lists}) != 1:
        return None
    count = len(lists[0][0])
    return {"attempts": [_attempt(index, lists) for index in range(count)]}


def _several(runs: Sequence[tuple[Sequence[SeenOperation], Timing]]) -> dict[str, Any] | None:
    """Return how many operations sent a command, and how many attempts each had, where these are equal."""
    numbers = {len(operations) for operations, _ in runs}
    counts = {len(each.attempts) for operations, _ in runs for each in operations}
    found = {"operations": min(numbers)} if len(numbers) == 1 else {}
    found |= {"count": min(counts)} if len(counts) == 1 else {}
    return found or None


def _attempt(index: int, lists: Sequence[tuple[Sequence[JudgedAttempt], Timing]]) -> dict[str, Any]:
    attempts = [(attempts[index], timing) for attempts, timing in lists]
    ends = list(dict.fromkeys(attempt.ends[0] for attempt, _ in attempts))
    element: dict[str, Any] = {"meets": ends[0] if len(ends) == 1 else ends}
    if index == 0:
        return element
    before = [attempts[index - 1] for attempts, _ in lists]
    same = {
        attempt.request.server == previous.request.server
        for (attempt, _), previous in zip(attempts, before, strict=True)
    }
    if len(same) == 1:
        element["on"] = "same" if same == {True} else "another"
    if all(previous.is_overloaded for previous in before):
        element["gap"] = OVERLOAD_BACKOFF
    elif all(
        attempt.gap is not None and attempt.gap.least <= timing.tolerated(Range(0, 0)).most
        for attempt, timing in attempts
    ):
        element["gap"] = NO_GAP
    return element


SEEDS: Final = 2
"""How often a case is run with each driver on each deployment.

Two, because one run cannot tell what chance decides. The seed after these is that of `hold`.
"""


@dataclass(slots=True)
class RunObservation:
    """The observations of one run of a case; `where` names the run."""

    where: str = ""
    events: dict[str, tuple[Event, ...]] = field(default_factory=dict)
    """The events that the scenario observes, by client."""
    observed: dict[str, frozenset[str]] = field(default_factory=dict)
    """The kinds of event that the scenario observes, by client."""
    sessions: dict[bytes, str] = field(default_factory=dict)
    """The names of the scenario's sessions by the bytes of their ids."""
    answers: list[tuple[Operation, Any]] = field(default_factory=list)
    """The results of operations, or the `ErrorReport`s of those that failed, in the order of their ends."""
    stored: dict[tuple[str, str], Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """The documents of each collection of the scenario, by the names of database and collection."""

    attempts: Mapping[str, tuple[Sequence[SeenOperation], Timing]] = field(default_factory=dict)
    """The operations as servers saw them, by command, where the case is to be judged by that."""

    async def take(self, context: Context) -> None:
        """Take in what is there when the operations of the case have ended."""
        self.events = dict(context.events)
        if context.seen.connections:
            self.attempts = attempts_by_command(context)
        # By their ends: operations of threads end in another order than they begin.
        for step in sorted(context.account.steps, key=lambda step: step.ended_seq):
            answer = step.result if step.error is None else step.error.report
            self.answers.append((step.operation, answer))
        for client in context.entities.of(EntityKind.CLIENT):
            self.observed[client.id] = client.value.observed
        for session in context.entities.of(EntityKind.SESSION):
            self.sessions[bytes(session.value.lsid["id"])] = session.id
        specs = context.case.entities
        databases = {spec.id: spec.body["databaseName"] for spec in specs if spec.kind is EntityKind.DATABASE}
        filled = [(data.database_name, data.collection_name) for data in context.case.initial_data]
        used = [
            (databases[spec.body["database"]], spec.body["collectionName"])
            for spec in specs
            if spec.kind is EntityKind.COLLECTION
        ]
        for database, collection in dict.fromkeys([*filled, *used]):
            documents = await stored_documents(context, database, collection)
            self.stored[database, collection] = documents


@dataclass(frozen=True, slots=True)
class RunMatrix:
    """The runs of every case: drivers, each with the edition it follows, on deployments, from a seed on."""

    drivers: Mapping[str, DriverEntry]
    editions: Mapping[str, str]
    targets: Sequence[str]
    seed: int
    case_timeout: float

    def runs(self, case: Case, seeds: Iterable[int]) -> Iterator[tuple[Settings, Item]]:
        """Yield the runs of a case with so many seeds."""
        for name, info in self.drivers.items():
            commands = ((name, info.command),) if info.command else ()
            time: Time = "virtual" if info.virtual_time else "real"
            for target, seed in product(self.targets, seeds):
                settings = Settings(time, self.seed + seed, self.case_timeout, commands=commands)
                yield settings, Item(case.id, str(case.path), case.index, name, self.editions[name], target)


class CaseFailed(Exception):  # noqa: N818 - what became of the case, not of us
    """A case failed; the message says where it ran, and why."""


class CaseObserver:
    """Runs cases with every driver on every deployment, in this process. Closed by `with`."""

    def __init__(self, matrix: RunMatrix) -> None:
        self._matrix = matrix
        self._executors: dict[Settings, ItemExecutor] = {}
        self._parts = ExecutorParts(run_case=self._play)
        self._case: Case | None = None
        self._witness: RunObservation | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for executor in self._executors.values():
            executor.close()

    def observe(self, case: Case) -> tuple[list[RunObservation], list[str]]:
        """Run a case; return what was seen, and why it does not apply elsewhere. Raises `CaseFailed`."""
        seen: list[RunObservation] = []
        reasons: list[str] = []
        for settings, item in self._matrix.runs(case, range(SEEDS)):
            observation = RunObservation(where=_where(settings, item))
            result = self._run(case, settings, item, observation)
            if result.status is ResultStatus.SKIPPED:
                reasons.append(f"{item.topology}: {result.reason}")
            else:
                seen.append(observation)
        return seen, list(dict.fromkeys(reasons))

    def hold(self, case: Case) -> None:
        """Run a case with a seed that it was not observed with. Raises `CaseFailed`."""
        for settings, item in self._matrix.runs(case, [SEEDS]):
            self._run(case, settings, item, None)

    def _run(self, case: Case, settings: Settings, item: Item, witness: RunObservation | None) -> Result:
        interruption.check()
        self._case, self._witness = case, witness
        if settings not in self._executors:
            self._executors[settings] = ItemExecutor(settings, self._parts)
        result = self._executors[settings].run(item)
        if result.status is ResultStatus.FAILED:
            raise CaseFailed(f"{result.location}: {result.reason} [{_where(settings, item)}]")
        return result

    async def _play(self, _: Case, **around: Any) -> CaseOutcome:
        """Run the case that is meant, which need not be as its file has it."""
        assert self._case is not None
        witness = self._witness.take if self._witness else None
        return await run_case(self._case, witness=witness, **around)


def _where(settings: Settings, item: Item) -> str:
    return f"{item.adapter} on {item.topology}, seed {settings.seed}"

"""A scenario's cases are run, what they saw is written into its text, and what is written must hold again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import EntityKind
from harness.authoring.recording.attempts import expected_attempts
from harness.authoring.recording.edit import Edits
from harness.authoring.recording.expected import Expecting, Names
from harness.authoring.recording.source import Source, says_the_same
from harness.unified.errors import ScenarioError
from harness.unified.loader import text_of
from harness.unified.model import UNSET, Operation
from harness.unified.server_side.model import KEY, ExpectedAttempts, ServerSide
from mongowire.documents.marks import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from harness.authoring.recording.observation import CaseObserver, RunObservation
    from harness.unified.model import Case

_EVENTS: Final = "expectEvents"
_OUTCOME: Final = "outcome"
_JUDGED: Final = frozenset({"expectResult", "expectError", "ignoreResultAndError", "saveResultAsEntity"})
"""Members of an operation that say what its result is for."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to record: the events, and what beside them; with `replace`, also where they stand already.

    `attempts` is what servers saw, for which a case must not have the key `pushbackd`.

    `case` is the description of the only case to record.
    """

    case: str = ""
    results: bool = False
    outcome: bool = False
    attempts: bool = False
    replace: bool = False


@dataclass
class Recorder:
    """Records one file. `note` gets a sentence on whatever could not be recorded as it may be meant."""

    path: Path
    observer: CaseObserver
    wanted: Wanted
    note: Callable[[str], None]
    recorded: list[Case] = field(default_factory=list)
    """The cases for which something was written."""

    def run(self) -> str:
        """Return the new text of the file, which holds under another seed too.

        Raises `ScenarioError` for a file that cannot be used, and `CaseFailed`.
        """
        source = Source.of(self.path, text_of(self.path))
        edits = Edits(source.text)
        for case in self._chosen(source):
            if _CaseRecorder(source, case, self.wanted, self.note, edits).record(self.observer):
                self.recorded.append(case)
        if not self.recorded:
            return source.text
        source.refuse_lost_anchors(edits.replaced())
        new = _with_sufficient_version(Source.of(self.path, edits.applied()))
        if not says_the_same(source, new):
            raise ScenarioError("is written in a way that cannot be edited", location=Location(self.path))
        for case in self.recorded:
            self.observer.hold(new.file.cases[case.index])
        return new.text

    def _chosen(self, source: Source) -> Sequence[Case]:
        cases, wanted = source.file.cases, self.wanted
        if wanted.case:
            return [case for case in cases if wanted.case in (case.description, case.id)]
        return [case for case in cases if case.skip_reason is None]


def _with_sufficient_version(source: Source) -> Source:
    """Raise the declared schemaVersion when what was written needs a later one."""
    enough, declared = source.sufficient_minor, source.root.at("schemaVersion")
    if enough <= source.minor or declared is None:
        return source
    edits = Edits(source.text)
    edits.scalar(declared, f'"1.{enough}"')
    return Source.of(source.document.path, edits.applied())


@dataclass
class _CaseRecorder:
    """Writes what runs of one case saw."""

    source: Source
    case: Case
    wanted: Wanted
    note_on_file: Callable[[str], None]
    edits: Edits

    def __post_init__(self) -> None:
        self._node = self.source.node(self.case)
        anchors = self.source.anchors
        names = Names(
            clients=anchors(EntityKind.CLIENT),
            databases=anchors(EntityKind.DATABASE),
            collections=anchors(EntityKind.COLLECTION),
            sessions=anchors(EntityKind.SESSION),
        )
        self._expecting = Expecting(self.source.written, names, self.source.minor, self._note)

    def record(self, observer: CaseObserver) -> bool:
        """Run the case and write; return whether there was something to write."""
        wants_events, wants_outcome = self._wants(_EVENTS), self.wanted.outcome and self._wants(_OUTCOME)
        if not (wants_events or wants_outcome or self.wanted.results or self._wants_attempts):
            return False
        if not self._node.members:
            self._note("is an alias, so there is no place to write to")
            return False
        seen, reasons = observer.observe(self._bare())
        if not seen:
            self._note(f"does not apply ({'; '.join(reasons)})")
            return False
        before = len(self.edits)
        if self.wanted.results:  # first, because what ends in the same line comes in the order of writing
            self._write_results(seen)
        if wants_events:
            expected = self._expecting.events(seen, self.source.racing(self.case))
            if expected:
                self.edits.member(self._node, _EVENTS, expected, after="operations", blocks=4)
            elif not any(seen[0].observed.values()) and not self._wants_attempts:
                self._note("no client observes events; observeEvents says which ones")
        if wants_outcome and (stored := self._expecting.outcome(seen)):
            self.edits.member(self._node, _OUTCOME, stored, blocks=1)
        if self._wants_attempts:
            self._write_attempts(seen)
        return len(self.edits) > before

    @property
    def _wants_attempts(self) -> bool:
        """Whether what servers saw is to be written; a key that is there may hold more than that."""
        return self.wanted.attempts and KEY not in self._node.members

    def _write_attempts(self, seen: Sequence[RunObservation]) -> None:
        expected = expected_attempts([each.attempts for each in seen], self._note)
        if expected:
            self.edits.member(self._node, KEY, {"expectAttempts": expected}, blocks=4)

    def _note(self, sentence: str) -> None:
        self.note_on_file(f"{self.case.description}: {sentence}")

    def _wants(self, name: str) -> bool:
        return self.wanted.replace or name not in self._node.members

    def _bare(self) -> Case:
        """Return the case without the expectations that are to be recorded."""
        case, wanted = self.case, self.wanted
        return replace(
            case,
            expected_events=() if self._wants(_EVENTS) else case.expected_events,
            outcome=() if wanted.outcome and self._wants(_OUTCOME) else case.outcome,
            operations=tuple(map(_tolerant, case.operations)) if wanted.results else case.operations,
            server_side=_recorded_only(case) if self._wants_attempts else case.server_side,
        )

    def _write_results(self, seen: Sequence[RunObservation]) -> None:
        answers: dict[Location, list[Any]] = {}
        names: dict[Location, str] = {}
        for operation, answer in (pair for each in seen for pair in each.answers):
            names[operation.location] = operation.name
            answers.setdefault(operation.location, []).append(answer)
        for place, name in names.items():
            self._write_result(f"{name} in line {place.line}", place, answers[place])

    def _write_result(self, what: str, place: Location, answers: Sequence[Any]) -> None:
        node = self.source.nodes.get((place.line, place.column))
        if node is not None and _JUDGED & node.members.keys():
            return
        members = self._expecting.answer(answers)
        if members is None:
            self._note(f"{what} fails in some runs only, so nothing is expected of it")
        elif members and (node is None or not node.members):
            self._note(f"{what} is an alias, so what it comes to is not written")
        elif node is not None:
            for name, value in members.items():
                self.edits.member(node, name, value)


def _recorded_only(case: Case) -> ServerSide:
    """Return an expectation that has servers record, and that everything meets."""
    nothing = ExpectedAttempts((), case.location)
    return ServerSide(case.location, attempts=(nothing,))


def _tolerant(operation: Operation) -> Operation:
    """Return an operation that may come to anything when nothing is expected of it, as those inside it."""
    silent = (
        operation.expect_error is None
        and operation.expect_result is UNSET
        and operation.save_result_as_entity is None
    )
    arguments = {name: _tolerant_inside(value) for name, value in operation.arguments.items()}
    ignored = operation.ignore_result_and_error or silent
    return replace(operation, arguments=arguments, ignore_result_and_error=ignored)


def _tolerant_inside(value: Any) -> Any:
    if isinstance(value, Operation):
        return _tolerant(value)
    if isinstance(value, tuple) and all(isinstance(each, Operation) for each in value):
        return tuple(map(_tolerant, value))
    return value

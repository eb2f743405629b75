"""A scenario's cases are run, what they saw is written into its text, and what is written must hold again.

Three checks stand between a recording and the file, and each refuses the whole of it: no alias may lose its
anchor to what is replaced (`refuse_lost_anchors`), the new file says the same as the old one but for the
fields that a recorder writes (`says_the_same`), and the recorded cases pass under a seed that was not
observed. The second is a guard against an edit that lands in the wrong place, which YAML would often still
read.

Places in the text come from an outline (`mongowire.documents.outline`), values from the loader; the two are
matched by line and column (`Source.nodes`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

from harness.adapters.base import EntityKind
from harness.authoring.recording.expected import Expecting, Names, WrittenValues
from harness.authoring.recording.observation import expected_attempts
from harness.authoring.recording.text import Edits
from harness.lint.commands import needs
from harness.lint.engine import flaws
from harness.lint.rules.events import racing_clients
from harness.lint.scenario import LintedScenario
from harness.unified.build import build, decoded
from harness.unified.errors import ScenarioError
from harness.unified.loader import read_yaml, text_of
from harness.unified.model import UNSET, Operation
from harness.unified.schema import check, lowest_minor
from harness.unified.server_side.model import KEY, ExpectedAttempts, ServerSide
from mongowire.documents.marks import Location
from mongowire.documents.outline import OutlineNode, outline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from harness.authoring.recording.observation import CaseObserver, RunObservation
    from harness.unified.model import Case, TestFile
    from mongowire.documents.marks import Marked


_ANCHORED: Final[Mapping[EntityKind, str]] = {
    EntityKind.CLIENT: "id",
    EntityKind.DATABASE: "databaseName",
    EntityKind.COLLECTION: "collectionName",
    EntityKind.SESSION: "id",
}
"""Where scenarios anchor the names that their expectations repeat."""

_RECORDED: Final = frozenset({"schemaVersion", "expectEvents", "expectResult", "expectError", "outcome", KEY})


@dataclass(frozen=True)
class Source:
    """A file that can be used: its text, its cases, and the outline of its text."""

    text: str
    scenario: LintedScenario
    file: TestFile
    root: OutlineNode

    @classmethod
    def of(cls, path: Path, text: str) -> Self:
        """Read a text. Raises `ScenarioError` when it is no scenario, or when every run of it would fail."""
        document, anchors = read_yaml(text, path)
        check(document)
        file = build(document)
        found = dict.fromkeys(finding for findings in flaws(document).values() for finding in findings)
        if found:
            raise ScenarioError("\n".join(map(str, found)))
        root = outline(text)
        if root is None or root.at("tests") is None:
            raise ScenarioError("is written in a way that cannot be edited", location=Location(path))
        return cls(text, LintedScenario(document, anchors), file, root)

    @property
    def document(self) -> Marked:
        """The document of the file, with its lines."""
        return self.scenario.document

    @property
    def minor(self) -> int:
        """The minor version of the format that the file declares."""
        return int(self.document.value["schemaVersion"].split(".")[1])

    @property
    def sufficient_minor(self) -> int:
        """The lowest minor version that has all that the file uses."""
        return max([lowest_minor(self.document.value), *(minor for minor, _ in needs(self.scenario))])

    def node(self, case: Case) -> OutlineNode:
        """Return where a case stands."""
        return self.root.at("tests", case.index) or OutlineNode(0, 0)

    def racing(self, case: Case) -> frozenset[str]:
        """Return the clients of a case on which operations run side by side."""
        return frozenset(racing_clients(self.scenario.tests[case.index]))

    @cached_property
    def written(self) -> WrittenValues:
        """The values that the author wrote."""
        return WrittenValues(decoded(self.document))

    @cached_property
    def nodes(self) -> Mapping[tuple[int, int], OutlineNode]:
        """The nodes by the line and column where they begin, as the loader counts; the outermost wins."""
        nodes: dict[tuple[int, int], OutlineNode] = {}
        for node in self.root.every():
            line_start = self.text.rfind("\n", 0, node.start) + 1
            place = (self.text.count("\n", 0, node.start) + 1, node.start - line_start + 1)
            nodes.setdefault(place, node)
        return nodes

    def anchors(self, kind: EntityKind) -> Mapping[str, str]:
        """Return the anchors that the names of all entities of a kind have, by these names."""
        by_place = {(each.location.line, each.location.column): each.name for each in self.scenario.anchors}
        names = [each.name for each in self.scenario.anchors]
        found: dict[str, str] = {}
        for entity in self.scenario.entities.values():
            if entity.kind is kind:
                item = entity.item[_ANCHORED[kind]]
                anchor = by_place.get((item.mark.line, item.mark.column), "")
                if names.count(anchor) == 1:
                    found.setdefault(item.value, anchor)
        return found

    def refuse_lost_anchors(self, replaced: Iterable[tuple[int, int]]) -> None:
        """Raise `ScenarioError` when an alias would stay without its anchor, which is in what is replaced."""
        extents = list(replaced)
        anchors: dict[str, OutlineNode] = {}
        for node in self.root.every():
            if node.anchor:
                anchors[node.anchor] = node
            origin = anchors.get(node.alias)
            if origin and _within(origin, extents) and not _within(node, extents):
                line = self.text.count("\n", 0, node.start) + 1
                raise ScenarioError(
                    f"the alias *{node.alias} stands for something that would be recorded anew",
                    location=Location(self.document.path, line),
                    fix="record both cases, or give this one expectations of its own",
                )


def _within(node: OutlineNode, extents: Iterable[tuple[int, int]]) -> bool:
    return any(start <= node.start and node.end <= end for start, end in extents)


def says_the_same(before: Source, after: Source) -> bool:
    """Return whether two files differ in nothing but what a recorder writes."""
    return bool(_rest(before.document.value) == _rest(after.document.value))


def _rest(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rest(member) for name, member in value.items() if name not in _RECORDED}
    return [_rest(element) for element in value] if isinstance(value, list) else value


_EVENTS: Final = "expectEvents"
_OUTCOME: Final = "outcome"
_JUDGED: Final = frozenset({"expectResult", "expectError", "ignoreResultAndError", "saveResultAsEntity"})
"""Members of an operation that say what its result is for."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parts to record: the events, and others beside them; with `replace`, also where they stand already.

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
        cases, wanted = source.file.cases, self.wanted
        # A case that is named is tried even where it says that it is to be skipped.
        if wanted.case:
            chosen = [case for case in cases if wanted.case in (case.description, case.id)]
        else:
            chosen = [case for case in cases if case.skip_reason is None]
        for case in chosen:
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


def _with_sufficient_version(source: Source) -> Source:
    """Raise the declared schemaVersion when what was written needs a later one; never lower it."""
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
            expected = expected_attempts([each.attempts for each in seen], self._note)
            if expected:
                self.edits.member(self._node, KEY, {"expectAttempts": expected}, blocks=4)
        return len(self.edits) > before

    @property
    def _wants_attempts(self) -> bool:
        """Whether what servers saw is to be written; a key that is there may hold more than that."""
        return self.wanted.attempts and KEY not in self._node.members

    def _note(self, sentence: str) -> None:
        self.note_on_file(f"{self.case.description}: {sentence}")

    def _wants(self, name: str) -> bool:
        return self.wanted.replace or name not in self._node.members

    def _bare(self) -> Case:
        """Return the case without the expectations that are to be recorded."""
        case, wanted = self.case, self.wanted
        # It has servers record, and everything meets it.
        nothing = ExpectedAttempts((), case.location)
        return replace(
            case,
            expected_events=() if self._wants(_EVENTS) else case.expected_events,
            outcome=() if wanted.outcome and self._wants(_OUTCOME) else case.outcome,
            operations=tuple(map(_tolerant, case.operations)) if wanted.results else case.operations,
            server_side=ServerSide(case.location, attempts=(nothing,))
            if self._wants_attempts
            else case.server_side,
        )

    def _write_results(self, seen: Sequence[RunObservation]) -> None:
        # By place and not by order: what runs see in a loop or on threads comes several times, or swapped.
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

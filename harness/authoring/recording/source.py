"""A scenario file as a recorder sees it: its cases, its names, and where in its text everything stands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

from harness.adapters.base import EntityKind
from harness.authoring.recording.variation import WrittenValues
from harness.lint.engine import flaws
from harness.lint.rules.events import racing_clients
from harness.lint.scenario import LintedScenario
from harness.lint.versions import needs
from harness.unified.build import build, decoded
from harness.unified.errors import ScenarioError
from harness.unified.loader import read_yaml
from harness.unified.schema import check, lowest_minor
from harness.unified.server_side.model import KEY
from mongowire.documents.marks import Location
from mongowire.documents.outline import OutlineNode, outline

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

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
        """What the file says."""
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

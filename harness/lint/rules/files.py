"""Rules about a file as a whole: its version, its descriptions, its anchors and its JSON copy.

Unified Test Format: Test Format.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from harness.lint.commands import needs
from harness.lint.findings import LintRule, Problem
from harness.lint.json_copy import copy_of, difference
from harness.unified.schema import lowest_minor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.lint.scenario import LintedScenario, NamedEntity
    from mongowire.documents.marks import Marked


def _version(scenario: LintedScenario) -> Iterator[Problem]:
    """Find a version that is too low, so that runners of it cannot know what is used, or higher than needed.

    A runner refuses files above its own version, so that a needless one keeps drivers from running the file.
    """
    declared = int(scenario.document.value["schemaVersion"].split(".")[1])
    place = scenario.document["schemaVersion"].location
    minor, what = max([(lowest_minor(scenario.document.value), "what it has"), *needs(scenario)])
    if minor > declared:
        yield Problem(place, f"{what} needs schemaVersion 1.{minor}", f'declare "1.{minor}"')
    elif minor < declared:
        yield Problem(place, f"schemaVersion 1.{minor} is enough", f'declare "1.{minor}": more can run it')


def _descriptions(scenario: LintedScenario) -> Iterator[Problem]:
    """Find cases of one name: lists of expected failures and reports know cases by it."""
    first: dict[str, int] = {}
    for test in scenario.tests:
        item = test.item["description"]
        if item.value in first:
            message = f"line {first[item.value]} has a case of the same description"
            yield Problem(item.location, message, "say what is different")
        first.setdefault(item.value, item.mark.line)


def _unused_anchors(scenario: LintedScenario) -> Iterator[Problem]:
    """Anchors of the names of entities are a habit, and whether an entity is used is another rule's."""
    names = {(item.mark.line, item.mark.column) for item in map(_name, scenario.every_entity) if item}
    for anchor in scenario.anchors:
        if not anchor.used and (anchor.location.line, anchor.location.column) not in names:
            yield Problem(anchor.location, f"anchor &{anchor.name} is never used", "remove it")


def _name(entity: NamedEntity) -> Marked | None:
    return entity.item["id"] if entity.created else None


def _drift(scenario: LintedScenario) -> Iterator[Problem]:
    """Find a JSON copy that says something else; the place is that of the first difference in this file."""
    path = copy_of(scenario.path)
    if path is None:
        return
    try:
        copy = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        yield Problem(scenario.document.location, f"its JSON copy {path.name} cannot be read: {error}")
        return
    steps = difference(scenario.document.value, copy)
    if steps is not None:
        yield Problem(
            scenario.document.locate(steps),
            f"is not the same in {path.name}",
            f"pushbackd to-json {scenario.path.name} writes it again",
        )


def _does_nothing(scenario: LintedScenario) -> Iterator[Problem]:
    """Find cases that no driver can fail. To expect events is enough, though there may be none of them."""
    for test in scenario.tests:
        case = test.item.value
        if not case["operations"] and not case.keys() & _EXPECTING and "skipReason" not in case:
            message = "the case does nothing and expects nothing, so that every driver passes it"
            yield Problem(test.item["operations"].location, message, "give it an operation, or remove it")


_EXPECTING: Final = frozenset(
    {"expectEvents", "expectLogMessages", "expectTracingMessages", "outcome", "pushbackd"}
)

RULES: Final = (
    LintRule(
        "schema-version", "The declared schemaVersion is the lowest that has all that is used.", _version
    ),
    LintRule("empty-case", "A case does something, or expects something.", _does_nothing),
    LintRule("duplicate-description", "The cases of a file have different descriptions.", _descriptions),
    LintRule("unused-anchor", "An anchor has an alias.", _unused_anchors),
    LintRule("json-drift", "A JSON file of the same name holds the same values.", _drift),
)

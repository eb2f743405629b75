"""Rules about ranges: something is in them.

Unified Test Format: runOnRequirement. The key `pushbackd` of a case: what is expected of servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.lint.findings import LintRule, Problem
from harness.unified.requirements import is_impossible
from harness.unified.server_side.model import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.lint.scenario import LintedScenario
    from mongowire.documents.marks import Marked


def _empty_range(scenario: LintedScenario) -> Iterator[Problem]:
    """Find a least above a greatest, of numbers or of versions, in what servers are to have seen.

    The case could only fail, with whatever was seen.
    """
    for test in scenario.tests:
        own = test.item.get(KEY)
        if own is None:
            continue
        for place in _mappings(own):
            least, most = place.value.get("min"), place.value.get("max")
            if isinstance(least, str) and isinstance(most, str):
                is_above = is_impossible(least, most)
            else:
                is_above = isinstance(least, (int, float)) and isinstance(most, (int, float)) and least > most
            if is_above:
                message = f"min {least} is above max {most}, and no number is in between"
                yield Problem(place["min"].location, message, "exchange the two")


def _mappings(item: Marked) -> Iterator[Marked]:
    """Yield the mappings in a value that have both ends of a range."""
    if isinstance(item.value, dict):
        if {"min", "max"} <= item.value.keys():
            yield item
        for name in item.value:
            yield from _mappings(item[name])
    elif isinstance(item.value, list):
        for each in item.items():
            yield from _mappings(each)


def _no_server(scenario: LintedScenario) -> Iterator[Problem]:
    """Find requirements that no release meets: the case, or the file, is skipped everywhere."""
    for holder in (scenario.document, *(test.item for test in scenario.tests)):
        listed = holder.get("runOnRequirements")
        for each in listed.items() if listed else ():
            low, high = each.value.get("minServerVersion"), each.value.get("maxServerVersion")
            if low is not None and high is not None and is_impossible(low, high):
                message = f"minServerVersion {low} is above maxServerVersion {high}: no server is meant"
                yield Problem(each["minServerVersion"].location, message, "exchange the two")


RULES: Final = (
    LintRule(
        "empty-range",
        "A range of what servers are to have seen has something in it.",
        _empty_range,
        refuses=True,
    ),
    LintRule("no-server", "A requirement can be met by some release of the server.", _no_server),
)

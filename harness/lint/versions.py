"""Since when operations and special operators exist, where the schema of a file cannot tell.

Unified Test Format: Test Format; the appendix with its changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.lint.scenario import LintedScenario

OPERATIONS: Final[Mapping[str, int]] = {
    "loop": 2,
    "assertNumberConnectionsCheckedOut": 3,
    "createCommandCursor": 3,
    "createFindCursor": 3,
    "createEntities": 9,
    "iterateOnce": 9,
    "assertEventCount": 10,
    "assertTopologyType": 10,
    "recordTopologyDescription": 10,
    "runOnThread": 10,
    "wait": 10,
    "waitForEvent": 10,
    "waitForPrimaryChange": 10,
    "waitForThread": 10,
    "getSnapshotTime": 27,
}
OPERATORS: Final[Mapping[str, int]] = {
    "$$lte": 9,
    "$$matchAsDocument": 13,
    "$$matchAsRoot": 13,
}


def needs(scenario: LintedScenario) -> Iterator[tuple[int, str]]:
    """Yield the minor versions that a file needs, and what for."""
    for step in scenario.steps:
        if step.name in OPERATIONS:
            yield OPERATIONS[step.name], step.name
    for test in scenario.tests:
        for operator in test.operators:
            if operator.name in OPERATORS:
                yield OPERATORS[operator.name], operator.name

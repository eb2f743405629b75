"""Rules about fail points: what is set should be hit by those it is for, and not be left.

Unified Test Format: failPoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.lint.commands import BACKGROUND, MONITORING, commands_of
from harness.lint.findings import LintRule, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.lint.scenario import LintedScenario, OperationUse


def _never_hit(scenario: LintedScenario) -> Iterator[Problem]:
    for test in scenario.tests:
        for index, step in enumerate(test.steps):
            failing = _failing(step)
            if not failing or failing & BACKGROUND:
                continue
            later = [commands_of(each) for each in test.steps[index + 1 :]]
            if None in later:
                continue  # an operation of which nobody can know what it sends
            sent = frozenset[str]().union(*filter(None, later))
            if not failing & sent:
                names = ", ".join(sorted(failing))
                yield Problem(
                    step.place_of("failPoint"),
                    f"nothing after this fail point sends {names}",
                    f"what is sent: {', '.join(sorted(sent)) or 'nothing'}",
                )


def _failing(step: OperationUse) -> frozenset[str]:
    """Return the commands that an operation makes fail, none when it sets no such fail point."""
    command = step.arguments.get("failPoint")
    if step.name not in ("failPoint", "targetedFailPoint") or not isinstance(command, dict):
        return frozenset()
    data = command.get("data")
    if command.get("configureFailPoint") != "failCommand" or not isinstance(data, dict):
        return frozenset()
    names = data.get("failCommands")
    return (
        frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()
    )


def _for_any_monitor(scenario: LintedScenario) -> Iterator[Problem]:
    """Find fail points for hello: monitors say it at times of their own, those of the runner's client too."""
    for step in scenario.steps:
        said = _failing(step) & MONITORING
        if said and "appName" not in step.arguments["failPoint"]["data"]:
            yield Problem(
                step.place_of("failPoint"),
                f"whichever client's monitor says {' or '.join(sorted(said))} next hits this fail point",
                "give it an appName, and one client the same in its uriOptions",
            )


def _left_on(scenario: LintedScenario) -> Iterator[Problem]:
    for test in scenario.tests:
        on: dict[str, OperationUse] = {}
        for step in test.steps:
            command = step.arguments.get("command")
            if step.name != "runCommand" or not isinstance(command, dict):
                continue
            name = str(command.get("configureFailPoint", ""))
            if name and command.get("mode") == "off":
                on.pop(name, None)
            elif name:
                on[name] = step
        for name, step in on.items():
            yield Problem(
                step.place_of("command"),
                f"runCommand sets the fail point {name}, and nobody turns it off after the case",
                "use the operation failPoint, which is undone, or set mode off at the end",
            )


RULES: Final = (
    LintRule("unhit-fail-point", "A later operation sends a command that the fail point is for.", _never_hit),
    LintRule(
        "racy-fail-point", "A fail point that monitors hit is for those of one client.", _for_any_monitor
    ),
    LintRule("fail-point-left-on", "A fail point is off when its case has ended.", _left_on),
)

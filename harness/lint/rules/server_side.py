"""Rules about what servers are to have seen: the key `pushbackd` of a case.

Elements of these sections select (by command, client, namespace …) and then state what is expected of the
selection. One that selects nothing would be met by an empty list of attempts, and one that expects nothing by
any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.adapters.base import EntityKind
from harness.lint.commands import all_commands, is_command
from harness.lint.findings import LintRule, Problem
from harness.unified.server_side.model import KEY
from mongowire.documents.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.lint.scenario import LintedScenario, Test
    from mongowire.documents.marks import Marked

_SELECTORS: Final = frozenset({"command", "namespace", "appName", "comment", "session"})
_CONNECTION_SELECTORS: Final = frozenset({"appName", "on", "monitoring"})
_METRIC_SELECTORS: Final = frozenset({"path", "on"})
_SECTIONS: Final = {
    "expectAttempts": _SELECTORS,
    "expectConnections": _CONNECTION_SELECTORS,
    "expectMetrics": _METRIC_SELECTORS,
}


def _elements(test: Test) -> Iterator[tuple[str, Marked]]:
    """Yield the elements of the sections of a case, with the name of the section."""
    own = test.item.get(KEY)
    for section in _SECTIONS if own is not None else ():
        listed = own.get(section) if own is not None else None
        for element in listed.items() if listed is not None else ():
            yield section, element


def _unknown_selector(scenario: LintedScenario) -> Iterator[Problem]:
    """Find an `appName` that no client of the case has, and commands that no server has."""
    for test in scenario.tests:
        for section, element in _elements(test):
            if section == "expectAttempts":
                yield from _unknown_commands(element)
            wanted = element.get("appName")
            if wanted is None:
                continue
            clients = [
                each for each in test.entities.values() if each.kind is EntityKind.CLIENT and each.created
            ]
            names = [str(each.item.value.get("uriOptions", {}).get("appName", "")) for each in clients]
            if wanted.value not in names:
                hint = did_you_mean(
                    wanted.value, filter(None, names), "give it to one: uriOptions: { appName: … }"
                )
                yield Problem(wanted.location, f"no client has the appName {wanted.value!r}", hint)


def _unknown_commands(element: Marked) -> Iterator[Problem]:
    command = element["command"]
    names = [command] if isinstance(command.value, str) else command.items()
    for name in names:
        if not is_command(name.value):
            hint = did_you_mean(name.value, all_commands(), "give the name of a server's command")
            yield Problem(name.location, f"no server has a command {name.value!r}", hint)


def _expects_nothing(scenario: LintedScenario) -> Iterator[Problem]:
    """Find elements that select and state nothing."""
    for test in scenario.tests:
        for section, element in _elements(test):
            if element.value.keys() <= _SECTIONS[section]:
                hint = f"{section} only says what it is about"
                yield Problem(element.location, "nothing is expected here", hint)


RULES: Final = (
    LintRule(
        "unknown-selector",
        "What servers are to have seen is about commands and clients that there are.",
        _unknown_selector,
    ),
    LintRule(
        "expects-nothing",
        "An element about what servers saw expects something.",
        _expects_nothing,
    ),
)

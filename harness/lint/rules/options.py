"""Rules about the options of clients: their names are those of connection strings.

URI Options. Unified Test Format: entity (uriOptions).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from driver.options import CANONICAL
from harness.adapters.base import EntityKind
from harness.lint.findings import LintRule, Problem
from mongowire.documents.suggestions import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.lint.scenario import LintedScenario

_FORMER: Final = frozenset({"waitqueuesize", "waitqueuemultiple", "fsync"})
"""Options of former connection strings, which public scenarios still give."""


def _unknown_option(scenario: LintedScenario) -> Iterator[Problem]:
    for entity in scenario.every_entity:
        if not entity.created or entity.kind is not EntityKind.CLIENT:
            continue
        options = entity.item.value.get("uriOptions", {})
        for name in options:
            if name.lower() not in _known() and name.lower() not in _FORMER:
                hint = did_you_mean(name, _known().values(), "drivers ignore it, with a warning")
                place = entity.item.locate(("uriOptions", name))
                yield Problem(place, f"no URI option is called {name!r}", hint)


@cache
def _known() -> Mapping[str, str]:
    return CANONICAL


RULES: Final = (
    LintRule("unknown-option", "An option of a client is one of a connection string.", _unknown_option),
)

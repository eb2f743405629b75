"""Rules about the options of clients: their names are those of connection strings, their values too.

URI Options. Unified Test Format: entity (uriOptions).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from driver.options import CANONICAL, OPTIONS
from harness.adapters.base import EntityKind
from harness.lint.findings import LintRule, Problem
from mongowire.documents.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from harness.lint.scenario import LintedScenario
    from mongowire.documents.marks import Marked

_FORMER: Final = frozenset({"waitqueuesize", "waitqueuemultiple", "fsync"})
"""Options of former connection strings, which public scenarios still give."""

_IGNORED: Final = "drivers ignore it, with a warning"


def _options(scenario: LintedScenario) -> Iterator[Marked]:
    """Yield the `uriOptions` of all clients that have some."""
    for entity in scenario.every_entity:
        if entity.created and entity.kind is EntityKind.CLIENT:
            found = entity.item.get("uriOptions")
            if found is not None:
                yield found


def _unknown_option(scenario: LintedScenario) -> Iterator[Problem]:
    for options in _options(scenario):
        for name in options.value:
            if name.lower() not in CANONICAL and name.lower() not in _FORMER:
                hint = did_you_mean(name, CANONICAL.values(), _IGNORED)
                yield Problem(options.locate_key((name,)), f"no URI option is called {name!r}", hint)


def _wrong_option(scenario: LintedScenario) -> Iterator[Problem]:
    for options in _options(scenario):
        for name, value in options.value.items():
            canonical = CANONICAL.get(name.lower())
            why = _reason_unusable(canonical, value) if canonical else ""
            if why:
                yield Problem(options.locate((name,)), f"{canonical}: {why}", _IGNORED)
        least, most = _pool_sizes(options.value)
        if most and least > most:
            place = options.locate((next(name for name in options.value if name.lower() == "minpoolsize"),))
            message = f"minPoolSize {least} is above maxPoolSize {most}"
            yield Problem(place, message, "no pool can have both")


def _reason_unusable(name: str, value: Any) -> str:
    """Return why drivers would not take a value; empty for one that they take."""
    if isinstance(value, dict) and "$$placeholder" in value:
        return ""
    try:
        OPTIONS[name][0](value)
    except ValueError as error:
        return str(error)
    return ""


def _pool_sizes(options: Mapping[str, Any]) -> tuple[int, int]:
    """Return the least and the most connections that options allow; 0 where they do not say so."""
    by_name = {name.lower(): value for name, value in options.items()}
    sizes = [by_name.get(name, 0) for name in ("minpoolsize", "maxpoolsize")]
    least, most = (size if isinstance(size, int) else 0 for size in sizes)
    return least, most


RULES: Final = (
    LintRule("unknown-option", "An option of a client is one of a connection string.", _unknown_option),
    LintRule("wrong-option", "An option of a client has a value that drivers take.", _wrong_option),
)

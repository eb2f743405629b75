"""Rules about entities: what has a name, and who uses it.

Unified Test Format: Entity Map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from driver.options import CANONICAL, OPTIONS
from harness.adapters.base import EntityKind
from harness.lint.findings import LintRule, Problem
from mongowire.documents.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from harness.lint.scenario import LintedScenario, NamedEntity
    from mongowire.documents.marks import Location, Marked


_KEPT_ALIVE: Final = frozenset({EntityKind.CLIENT, EntityKind.CLIENT_ENCRYPTION})
"""A client matters even when nothing names it: it connects."""


def _undefined(scenario: LintedScenario) -> Iterator[Problem]:
    """Find names that nothing bears where they stand, though something may get the name later."""
    for reference in scenario.references:
        if reference.found is None:
            known = ", ".join(reference.known) or "none"
            hint = did_you_mean(reference.name, reference.known, f"entities here: {known}")
            yield Problem(reference.item.location, f"no entity is called {reference.name!r} here", hint)


def _of_another_kind(scenario: LintedScenario) -> Iterator[Problem]:
    """Find names of the wrong kind of thing. An entity of unknown kind may be right, and is let pass."""
    for reference in scenario.references:
        found, wanted = reference.found, reference.wanted
        if found is not None and wanted is not None and found.kind not in (wanted, None):
            kind = found.kind.value
            yield Problem(
                reference.item.location,
                f"{reference.name!r} is a {kind}, a {wanted.value} is needed",
                f"name a {wanted.value}",
            )


def _repeated(scenario: LintedScenario) -> Iterator[Problem]:
    for entity in scenario.repeated:
        yield Problem(_place(entity), f"the name {entity.name!r} is taken", "give it a name of its own")


def _unused(scenario: LintedScenario) -> Iterator[Problem]:
    """Find entities of `createEntities` that nobody names; an unused result of an operation does no harm."""
    for entity in scenario.every_entity:
        if entity.created and not entity.used and entity.kind not in _KEPT_ALIVE:
            kind = entity.kind.value if entity.kind else "entity"
            yield Problem(_place(entity), f"{kind} {entity.name!r} is never used", "remove it")


def _place(entity: NamedEntity) -> Location:
    return entity.item.locate(("id",)) if entity.created else entity.item.location


RULES: Final = (
    LintRule(
        "undefined-entity", "A name that is used is that of an entity made before.", _undefined, refuses=True
    ),
    LintRule(
        "wrong-entity", "A name stands for the kind of entity that is needed.", _of_another_kind, refuses=True
    ),
    LintRule("duplicate-entity", "A name is given once.", _repeated, refuses=True),
    LintRule("unused-entity", "A database, collection, session, bucket or thread is used.", _unused),
)


# Rules about the options of clients: their names are those of connection strings, their values too.
#
# URI Options. Unified Test Format: entity (uriOptions).


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
    """Find options that drivers ignore. A case with one of them tests the default instead, and passes."""
    for options in _options(scenario):
        for name in options.value:
            if name.lower() not in CANONICAL and name.lower() not in _FORMER:
                hint = did_you_mean(name, CANONICAL.values(), _IGNORED)
                yield Problem(options.locate_key((name,)), f"no URI option is called {name!r}", hint)


def _wrong_option(scenario: LintedScenario) -> Iterator[Problem]:
    """Find values that a driver's reader of options refuses, and a least size of pools above the greatest.

    Names of options are compared without their case, as in connection strings.
    """
    for options in _options(scenario):
        for name, value in options.value.items():
            canonical = CANONICAL.get(name.lower())
            why = _reason_unusable(canonical, value) if canonical else ""
            if why:
                yield Problem(options.locate((name,)), f"{canonical}: {why}", _IGNORED)
        by_name = {name.lower(): value for name, value in options.value.items()}
        sizes = [by_name.get(name, 0) for name in ("minpoolsize", "maxpoolsize")]
        least, most = (size if isinstance(size, int) else 0 for size in sizes)
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


OPTION_RULES: Final = (
    LintRule("unknown-option", "An option of a client is one of a connection string.", _unknown_option),
    LintRule("wrong-option", "An option of a client has a value that drivers take.", _wrong_option),
)

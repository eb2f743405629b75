"""Rules about entities: what has a name, and who uses it.

Unified Test Format: Entity Map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.adapters.base import EntityKind
from harness.lint.findings import LintRule, Problem
from mongowire.documents.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.lint.scenario import LintedScenario, NamedEntity
    from mongowire.documents.marks import Location

_KEPT_ALIVE: Final = frozenset({EntityKind.CLIENT, EntityKind.CLIENT_ENCRYPTION})
"""A client matters even when nothing names it: it connects."""


def _undefined(scenario: LintedScenario) -> Iterator[Problem]:
    for reference in scenario.references:
        if reference.found is None:
            known = ", ".join(reference.known) or "none"
            hint = did_you_mean(reference.name, reference.known, f"entities here: {known}")
            yield Problem(reference.item.location, f"no entity is called {reference.name!r} here", hint)


def _of_another_kind(scenario: LintedScenario) -> Iterator[Problem]:
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

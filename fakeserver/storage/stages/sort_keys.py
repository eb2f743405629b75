"""The keys that documents were sorted by, carried through a pipeline to `$meta: "sortKey"`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.storage.values.sorting import Sorted, key_values
from fakeserver.storage.values.types import MISSING
from fakeserver.waiting.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.storage.port.scope import Scope
    from fakeserver.storage.stages.flow import PipelineStage

    Document: TypeAlias = dict[str, Any]

KEEPING_DOCUMENTS: Final = frozenset({"$match", "$limit", "$skip", "$sample"})
"""Stages whose results are documents of their input."""

ONE_BY_ONE: Final = frozenset({
    "$project", "$redact", "$addFields", "$set", "$unset", "$replaceRoot", "$replaceWith", "$unwind",
    "$lookup", "$graphLookup",
})  # fmt: skip
"""Stages that make their results of one document at a time."""


def names_sort_key(value: Any) -> bool:
    """Return whether stages say `$meta: "sortKey"` anywhere."""
    if isinstance(value, dict):
        return value.get("$meta") == "sortKey" or any(map(names_sort_key, value.values()))
    return isinstance(value, list) and any(map(names_sort_key, value))


def sort_key_of(document: Any) -> Any:
    """Return the key that a document carries, `MISSING` for none."""
    return list(document.key) if isinstance(document, Sorted) else MISSING


def keyed_by(run: PipelineStage, sort: Mapping[str, Any], scope: Scope) -> PipelineStage:
    """Return a `$sort` whose documents carry their keys."""

    def keyed(documents: list[Document]) -> list[Document]:
        return [
            Sorted(document, key_values(document, sort, scope.fold))
            for document in interruptible(run(documents))
        ]

    return keyed


def carrying(run: PipelineStage) -> PipelineStage:
    """Return a stage that hands the key of each document on to what it makes of it."""

    def carried(documents: list[Document]) -> list[Document]:
        return [
            Sorted(made, document.key) if isinstance(document, Sorted) else made
            for document in interruptible(documents)
            for made in run([document])
        ]

    return carried

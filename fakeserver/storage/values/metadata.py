"""The metadata of a search: text score, distance and geometry of each document (`{$meta: …}`).

`plans.search_rules` looks into a filter for searches and makes a `QueryMetadata` for those that it finds. The
compiled filter notes a value for each document that it lets in (`note`); projections, sorts and expressions
read it back by `readers()`, which `Scope.meta` hands to them. A filter has therefore to run before they do.

Values are kept by `_id`, since a stage between the two may have made another document of it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.storage.values.types import MISSING, identity, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    Readers: TypeAlias = Mapping[str, Callable[[Any], Any]]

TEXT_SCORE: Final = "textScore"
DISTANCE: Final = "geoNearDistance"
POINT: Final = "geoNearPoint"
NAMES: Final = frozenset({TEXT_SCORE, DISTANCE, POINT})

_UNAVAILABLE: Final = 40218
_ID: Final = "_id"


@dataclass(slots=True)
class QueryMetadata:
    """The metadata of one query's documents, by their `_id`: `known` names what the query makes."""

    known: frozenset[str]
    values: dict[str, dict[Hashable, Any]] = field(default_factory=dict)

    def note(self, name: str, document: Any, value: Any) -> None:
        """Remember a document's score, distance or point."""
        self.values.setdefault(name, {})[_key(document)] = value

    def of(self, name: str, document: Any) -> Any:
        """Return what is known of a document, `MISSING` if nothing is."""
        return self.values.get(name, {}).get(_key(document), MISSING)

    def readers(self) -> Readers:
        """Return what `$meta` may name, as functions of a document."""
        return {name: functools.partial(self.of, name) for name in self.known}


def _key(document: Any) -> Hashable:
    return identity(document.get(_ID)) if isinstance(document, dict) else None


def meta_of(value: Any) -> str | None:
    """Return the name in `{$meta: name}` where it is one of a search's, None for other values."""
    name = value.get("$meta") if isinstance(value, dict) and len(value) == 1 else None
    return name if type(name) is str and name in NAMES else None


def require(name: str, meta: Readers | None) -> Callable[[Any], Any]:
    """Return the function that knows a document's metadata of a name. Raises `CommandError` 40218."""
    if meta is None or name not in meta:
        shown = {TEXT_SCORE: "text score", DISTANCE: "$geoNear distance", POINT: "$geoNear point"}[name]
        raise CommandError(_UNAVAILABLE, f"query requires {shown} metadata, but it is not available")
    return meta[name]


def rank(value: Any) -> float:
    """Return what a document is sorted by: the best score, and the greatest distance, is the least.

    `{$meta: …}` names no direction, and a server sorts it in descending order.
    """
    return 0.0 if value is MISSING else -float(value)


_SORTABLE: Final = frozenset({
    TEXT_SCORE, DISTANCE, "randVal", "score", "searchScore", "vectorSearchScore",
})  # fmt: skip
_NOT_SORTABLE: Final = 31138


def check_sort_by(direction: Mapping[str, Any]) -> None:
    """Refuse a `{$meta: …}` in a sort that no server knows. Raises `CommandError` 9 or 31138."""
    if len(direction) != 1:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            "Cannot have additional keys in a $meta sort specification",
        )
    name = direction["$meta"]
    if type(name) is not str or name not in _SORTABLE:
        shown = name if type(name) is str else type_name(name)
        raise CommandError(_NOT_SORTABLE, f"Illegal $meta sort: {shown}")

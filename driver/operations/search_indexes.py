"""Commands about search indexes (Index Management: Search Indexes).

They take no concerns: a search index is built outside of the server, and what a read or write concern
promises does not reach it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driver.operations.base import Kind, Operation, collection_of, first_name, fixed
from driver.operations.options import timeout_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from driver.operations.base import Target

    Document = Mapping[str, Any]


def create(target: Target, models: Sequence[Document]) -> Operation:
    """Return a `createSearchIndexes`. A model has a `definition`, and may have a `name` and a `type`."""
    return _command(target, {"createSearchIndexes": target.collection, "indexes": list(models)})


def update(target: Target, name: str, definition: Document) -> Operation:
    """Return an `updateSearchIndex`, which replaces the definition."""
    return _command(target, {"updateSearchIndex": target.collection, "name": name, "definition": definition})


def drop(target: Target, name: str) -> Operation:
    """Return a `dropSearchIndex`."""
    return _command(target, {"dropSearchIndex": target.collection, "name": name})


def stage(name: str | None) -> dict[str, Any]:
    """Return the stage that lists all search indexes, or the one of this name."""
    return {"$listSearchIndexes": {} if name is None else {"name": name}}


def _command(target: Target, document: Document) -> Operation:
    return Operation(
        target.database,
        Kind.WRITE,
        fixed(document),
        name=first_name(document),
        collection=collection_of(document),
        timeout=timeout_of(None, target.concerns.timeout),
    )

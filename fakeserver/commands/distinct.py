"""The distinct command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.commands.reading import (
    check_hint,
    check_uuid,
    namespace,
    query_of,
    reader,
    snapshot_time,
)
from fakeserver.commands.table import CommandTable, Reply
from fakeserver.idl import Field, Fields
from fakeserver.storage.collation import fold_of
from fakeserver.storage.paths import read, split
from fakeserver.storage.values import MISSING, order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.engine import Document

table = CommandTable()


@table.command(
    "distinct",
    kind="read",
    in_transaction=True,
    fields=Fields.of(
        Field("key", "string", required=True),
        Field("query", "object"),
        Field("hint", "string|object"),
        Field("collation", "object"),
        Field("encryptionInformation", "object"),
        Field("collectionUUID", "binData"),
        target="collection",
    ),
)
def distinct(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return the different values of a field."""
    ns = namespace(ctx, request)
    check_uuid(request, ns, ctx.catalog.get(ns))
    source, view, collection = ctx.catalog.resolve(ns)
    at = snapshot_time(ctx, request)
    wanted = request.get("query") or {}
    hint = None if view else check_hint(collection, request.get("hint"), ns, wanted)
    options = query_of(ctx, request, collection, hint=hint, read=reader(ctx, ctx.db))
    documents = ctx.catalog.engine.aggregate(source, [*view, {"$match": wanted}], options=options)
    found = _values(documents, request["key"])
    fold = fold_of(options.collation)
    different: dict[Any, Any] = {}
    for value in found:
        different.setdefault(order(value, fold), value)
    keys = list(different)
    if collection is not None and any(
        next(iter(index.key)) == request["key"] for index in collection.indexes.values()
    ):
        keys.sort()
    reply: Reply = {"values": [different[key] for key in keys]}
    return reply if at is None else {**reply, "atClusterTime": at}


def _values(documents: Iterable[Document], key: str) -> Iterable[Any]:
    parts = split(key)
    for document in documents:
        for value in read(document, parts):
            if isinstance(value, list):
                yield from value
            elif value is not MISSING:
                yield value

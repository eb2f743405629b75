"""The distinct command: the different values of a field.

Behaviour: Arrays count element by element, one level deep. Values that compare equal, under the collation,
are one, of which the first found is returned. Values come in their order (BSON's, or the collation's), those
of a view as they are found. Without a filter, a hint and a view, an index that begins with the field answers.
A reply for a view or a time series says `ok` as an
integer. Values
that come to more than 16 MB are refused, with 17217 while they are collected and 31299 when the reply is
made.

Versions: `mirrored` since 4.4; `collectionUUID` and `encryptionInformation` since 6.0; `hint` since 8.0;
`includeQueryStatsMetrics` since 8.2. Until 4.2 `comment` must be a string.

Not modelled: A transaction may run it on a sharded collection too, which a server refuses. `mirrored`,
`encryptionInformation` and `includeQueryStatsMetrics` are accepted and have no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bson

from fakeserver.commands.context import check_uuid, namespace
from fakeserver.commands.queries.plan_cache import check_not_rejected
from fakeserver.commands.queries.reading import (
    check_hint,
    collation_of,
    query_of,
    reader,
    snapshot_time,
    view_of,
)
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.plans.index_keys import is_ordered
from fakeserver.storage.values.collation import complete, fold_of
from fakeserver.storage.values.limits import MAX_USER_BYTES, fit_one_reply
from fakeserver.storage.values.pacing import sorted_at_leisure
from fakeserver.storage.values.paths import read, split
from fakeserver.storage.values.types import MISSING, order
from fakeserver.waiting.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.store.catalog import Collection

table = CommandTable()

_ROOM_AROUND: Final = 4096
"""Bytes that a server reserves in a reply for the fields around the values."""
_NUL_IN_KEY: Final = 31032
_COLLECTED: Final = 17217
_TOO_LARGE: Final = 31299


@table.command(
    "distinct",
    kind="read",
    in_transaction=True,
    fields=Fields.of(
        Field("key", "string", required=True),
        Field("query", "object"),
        Field("hint", "hint"),
        Field("collation", "object"),
        Field("encryptionInformation", "object"),
        Field("collectionUUID", "binData"),
        Field("includeQueryStatsMetrics", "bool"),
        Field("mirrored", "bool"),
        target="collection",
    ),
)
def distinct(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return the different values of a field."""
    ns = namespace(ctx, request)
    if "\0" in request["key"]:
        raise CommandError(_NUL_IN_KEY, "Key field cannot contain an embedded null byte")
    check_not_rejected(ctx, request, "distinct")
    check_uuid(request, ns, ctx.catalog.get(ns))
    source, stages, collection = ctx.catalog.resolve(ns)
    view = view_of(ctx, ns, request)
    at = snapshot_time(ctx, request)
    wanted = request.get("query") or {}
    hint = check_hint(collection, request.get("hint"), ns, wanted)
    scanned = None if view or hint else index_to_scan(collection, request)
    options = query_of(ctx, request, collection, view=view, hint=hint or scanned, read=reader(ctx, ctx.db))
    if view is None:
        options = options._replace(now=None, cluster_time=None)  # its filter knows no variable of a server's
    documents = ctx.catalog.engine.aggregate(source, [*stages, {"$match": wanted}], options=options)
    found = _values(documents, request["key"])
    fold = fold_of(options.collation)
    different: dict[Any, Any] = {}
    for value in interruptible(found):
        different.setdefault(order(value, fold), value)
    # A server collects them in an ordered set, whatever plan finds them; those of a view come from a $group.
    keys = list(different) if view is not None and fold is None else sorted_at_leisure(list(different))
    reply: Reply = {"values": [different[key] for key in keys]}
    # Encoding a reply costs more than finding it: only what may be too large is measured.
    if view or not fit_one_reply(len(keys), ctx.catalog.engine.stats(source).size + _ROOM_AROUND):
        _check_size(reply, request["key"])
    # A pipeline answers for what is no ordinary collection, and its reply is put together anew.
    if view is not None or (collection is not None and collection.kind == "timeseries"):
        reply["ok"] = 1
    return reply if at is None else {**reply, "atClusterTime": at}


def _check_size(reply: Reply, key: str) -> None:
    """Refuse values that no reply holds. Raises `CommandError` 17217 or 31299.

    A server counts them while it collects them, by the name of their field, and the reply at its end.
    """
    size, name = len(bson.encode(reply)), split(key)[-1]
    collected = size + sum(len(name) - len(str(index)) for index in range(len(reply["values"])))
    message = "distinct too big, 16mb cap"
    if collected >= MAX_USER_BYTES - _ROOM_AROUND:
        raise CommandError(_COLLECTED, f"Executor error during distinct command :: caused by :: {message}")
    if size >= MAX_USER_BYTES - _ROOM_AROUND:
        raise CommandError(_TOO_LARGE, message)


def index_to_scan(collection: Collection | None, request: Mapping[str, Any]) -> str | None:
    """Return the index whose keys alone are all values of a field, for a command without a filter."""
    if collection is None or request.get("query"):
        return None
    collation = complete(collation_of(request, collection))
    for index in collection.indexes.values():
        document = index.document
        if (
            next(iter(index.key)) == request["key"]
            and is_ordered(index)
            and complete(document.get("collation")) == collation
            and not (index.sparse or document.get("hidden") or "partialFilterExpression" in document)
        ):
            return index.name
    return None


def _values(documents: Iterable[Document], key: str) -> Iterable[Any]:
    parts = split(key)
    for document in documents:
        for value in read(document, parts):
            if isinstance(value, list):
                yield from value
            elif value is not MISSING:
                yield value

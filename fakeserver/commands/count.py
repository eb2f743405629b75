"""The count command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.commands.reading import check_hint, check_uuid, namespace, query_of, reader
from fakeserver.commands.table import CommandTable, Reply
from fakeserver.errors import CommandError
from fakeserver.idl import Field, Fields
from fakeserver.storage.printing import show
from fakeserver.storage.values import INT64_MIN, not_an_integer, whole
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.commands.context import CommandContext

table = CommandTable()


def limit_of(request: Mapping[str, Any]) -> int:
    """Return how many documents a count counts at most, 0 for all of them; a minus means nothing.

    Raises `CommandError` 9 for what is no integer of 64 bits, 2 for the least one, which has no opposite.
    """
    limit = request.get("limit", 0)
    number, reason = whole(limit), not_an_integer(limit)
    if number is None or reason is not None:
        raise CommandError(ErrorCode.FAILED_TO_PARSE, f"{reason}: limit: {show(limit)}")
    if number == INT64_MIN:
        raise CommandError(ErrorCode.BAD_VALUE, "limit value for count cannot be min long")
    return abs(number)


@table.command(
    "count",
    kind="read",
    fields=Fields.of(
        Field("query", "object"),
        Field("limit", "number"),
        Field("skip", "long", minimum=0),
        Field("hint", "string|object"),
        Field("collation", "object"),
        Field("fields", "object"),
        Field("encryptionInformation", "object"),
        Field("collectionUUID", "binData"),
        Field("includeQueryStatsMetrics", "bool"),
        Field("mirrored", "bool"),
        target="collection",
    ),
)
def count(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return how many documents match a filter."""
    ns = namespace(ctx, request)
    check_uuid(request, ns, ctx.catalog.get(ns))
    source, view, collection = ctx.catalog.resolve(ns)
    engine, wanted = ctx.catalog.engine, request.get("query") or {}
    skip, limit = request.get("skip", 0), limit_of(request)
    if view:
        options = query_of(ctx, request, collection, read=reader(ctx, ctx.db))
        found = engine.aggregate(source, [*view, {"$match": wanted}], options=options)
        return {"n": len(found[skip : skip + limit if limit else None])}
    hint = check_hint(collection, request.get("hint"), ns, wanted)
    if not wanted and hint is None:
        total = max(engine.stats(source).count - skip, 0)
        return {"n": min(total, limit) if limit else total}
    query = query_of(ctx, request, collection, filter=wanted, skip=skip, limit=limit, hint=hint)
    return {"n": len(engine.find(source, query))}

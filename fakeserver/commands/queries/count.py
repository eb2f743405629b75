"""The count command: how many documents match a filter.

Behaviour: Without a filter and a hint the number is that of the collection's documents; with one, the
documents are found and counted. A view is counted by its pipeline. A negative `limit` means its absolute
value, 0 means all; a limit that is no number is refused with 2, null included, one that is no integer with 9,
the least 64-bit integer, which has no opposite, with 2. No transaction may hold it (263 says what to use
instead).

Versions: `mirrored` since 4.4; `collectionUUID` and `encryptionInformation` since 6.0;
`includeQueryStatsMetrics` since 8.2. Until 4.2 `comment` must be a string.

Not modelled: The number without a filter is exact; a server's may be off after a crash, and on a sharded
cluster counts orphans. `mirrored`, `encryptionInformation` and `includeQueryStatsMetrics` are accepted and
have no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands import local_collections
from fakeserver.commands.context import check_uuid, namespace
from fakeserver.commands.queries.reading import check_hint, query_of, reader, view_of
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import INT64_MIN, is_number, not_an_integer, whole
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.commands.context import CommandContext

table = CommandTable()

_NO_LIMIT: Final = 15958


def limit_of(request: Mapping[str, Any]) -> int:
    """Return how many documents a count counts at most, 0 for all of them; a minus means nothing.

    Raises `CommandError` 9 for what is no integer of 64 bits, 2 for what is no number and for the least
    integer, which has no opposite.
    """
    limit = request.get("limit", 0)
    if not is_number(limit):
        raise CommandError(ErrorCode.BAD_VALUE, "limit value is not a valid number")
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
        Field("limit"),
        Field("skip", "long", minimum=0),
        Field("hint", "hint"),
        Field("collation", "object"),
        Field("fields"),
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
    engine, wanted = ctx.catalog.engine, request.get("query") or {}
    skip, limit = request.get("skip", 0), limit_of(request)
    unstored = local_collections.documents_of(ctx, ns, wanted)
    if unstored is not None:
        options = query_of(ctx, request, None, read=reader(ctx, ctx.db))
        found = engine.aggregate(ns, [{"$match": wanted}], options=options, documents=unstored)
        return {"n": len(found[skip : skip + limit if limit else None])}
    check_uuid(request, ns, ctx.catalog.get(ns))
    source, stages, collection = ctx.catalog.resolve(ns)
    view = view_of(ctx, ns, request)
    hint = check_hint(collection, request.get("hint"), ns, wanted)
    # A view has no number of its own: the pipeline is run, then skip and limit are applied to its results.
    if view is not None:
        if "limit" in request and not limit:
            raise CommandError(_NO_LIMIT, "the limit must be positive")  # its $limit takes no zero
        options = query_of(ctx, request, collection, view=view, read=reader(ctx, ctx.db))
        found = engine.aggregate(source, [*stages, {"$match": wanted}], options=options)
        return {"n": len(found[skip : skip + limit if limit else None])}
    # The number that is kept with the collection, as in a server's fast count; a hint asks for a scan.
    if not wanted and hint is None:
        total = max(engine.stats(source).count - skip, 0)
        return {"n": min(total, limit) if limit else total}
    query = query_of(ctx, request, collection, filter=wanted, skip=skip, limit=limit, hint=hint)
    query = query._replace(now=None, cluster_time=None)  # count's filter knows no variable of a server's
    return {"n": len(engine.find(source, query))}

"""The delete command: removal of the documents of one collection.

Behaviour: `limit` must be 0 or 1 in every statement (9); then the number of statements (16) and the UUID
(361) are checked, and nothing was deleted by then. Statements run one after another; their errors go to
`writeErrors`, and an ordered command stops at the first. With a txnNumber, a statement of `limit` 0 is
refused with 72 in its write error, and one that was executed answers with its record and is named in
`retriedStmtIds`.

Versions: `deletes.hint` since 4.4; `let` and `bypassEmptyTsReplacement` since 5.0; `collectionUUID` and
`encryptionInformation` since 6.0; `deletes.sampleId` since 7.0.

Not modelled: `encryptionInformation`, `isTimeseriesNamespace` and `sampleId` are accepted and have no effect.
A mongos asks for no shard key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.context import check_uuid, namespace
from fakeserver.commands.queries.reading import check_hint, collation_of, query_of
from fakeserver.commands.writes.insert import WRITE_FIELDS
from fakeserver.commands.writes.writing import Batch, numbered, refuse_retryable_multi
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from fakeserver.profile import WIRE_70
from fakeserver.storage.port.engine import Query
from fakeserver.storage.store import time_series
from fakeserver.storage.store.catalog import check_name
from fakeserver.storage.store.scanning import is_lookup
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Accept, Document, Namespace

table = CommandTable()

_BUCKETS: Final = "system.buckets."

NO_RETRYABLE_LIMIT: Final = "Cannot use (or request) retryable writes with limit=0"

_PLAIN_STATEMENT: Final = frozenset({"q", "limit", "sampleId"})

_STATEMENT: Final = Fields.of(
    Field("q", "object", required=True),
    Field("limit", "long", required=True),
    Field("hint", "hint"),
    Field("collation", "object"),
    Field("sampleId", "binData"),
)


@table.command(
    "delete",
    kind="write",
    in_transaction=True,
    fields=Fields.of(
        Field("deletes", "array", required=True, of=_STATEMENT),
        Field("let", "object"),
        *WRITE_FIELDS,
        target="collection",
    ),
    sequences=("deletes",),
    write_concern=True,
    retryable_write=True,
)
def delete(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Delete documents."""
    ns = namespace(ctx, request)
    statements = request["deletes"]
    # Before any statement runs, as a server parses all of them first.
    for _, statement in numbered(statements):
        if statement["limit"] not in (0, 1):
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE,
                f"The limit field in delete objects must be 0 or 1. Got {statement['limit']}",
            )
    if ns.collection.startswith("system.") and not ns.collection.startswith(_BUCKETS):
        check_name(ns)
    batch = Batch.of(ctx, request, len(statements))
    check_uuid(request, ns, ctx.catalog.get(ns))
    deleted = 0
    let = request.get("let")
    for index, statement in numbered(statements):
        done = delete_one(batch, index, ns, statement if let is None else {**statement, "let": let})
        deleted += done["n"] if done is not None else 0
        if batch.stopped:
            break
    return batch.finish({"n": deleted})


def delete_one(
    batch: Batch, index: int, ns: Namespace, statement: Mapping[str, Any], no_multi: str = NO_RETRYABLE_LIMIT
) -> Document | None:
    """Run one delete statement and return `{n}`, or None if it failed."""
    ctx = batch.ctx

    def write(accept: Accept) -> Document:
        refuse_retryable_multi(ctx, multi=statement["limit"] == 0, message=no_multi)
        apply(ctx, ns, statement, accept)
        # Not what this run deleted: an earlier run may have deleted some before the command had to wait.
        return {"n": ctx.changes}

    return batch.run(index, ns, write)


def apply(ctx: CommandContext, ns: Namespace, statement: Mapping[str, Any], accept: Accept) -> list[Document]:
    """Apply a delete statement (`q`, `limit` and their options) and return what it deleted."""
    collection = ctx.catalog.get(ns)
    if collection is not None and collection.is_view:
        ctx.catalog.ensure(ns)
    if (
        collection is not None
        and collection.kind == "timeseries"
        and ctx.node.profile.max_wire_version < WIRE_70
    ):
        time_series.check_delete(collection.options["timeseries"], statement)
    wanted = statement["q"]
    if _PLAIN_STATEMENT.issuperset(statement) and is_lookup(wanted):
        query = Query(wanted, limit=statement["limit"], collation=collation_of(statement, collection))
    else:
        query = query_of(
            ctx,
            statement,
            collection,
            filter=wanted,
            limit=statement["limit"],
            sort=statement.get("sort"),
            hint=check_hint(collection, statement.get("hint"), ns, wanted),
        )
    return ctx.catalog.engine.delete(ns, query, accept=accept)

"""The delete command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.insert import WRITE_FIELDS
from fakeserver.commands.reading import check_hint, check_uuid, namespace, query_of
from fakeserver.commands.statements import Batch, numbered, refuse_retryable_multi
from fakeserver.commands.table import CommandTable, Reply
from fakeserver.errors import CommandError
from fakeserver.idl import Field, Fields
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.engine import Accept, Document, Namespace

table = CommandTable()

NO_RETRYABLE_LIMIT: Final = "Cannot use (or request) retryable writes with limit=0"

_STATEMENT: Final = Fields.of(
    Field("q", "object", required=True),
    Field("limit", "long", required=True),
    Field("hint", "string|object"),
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
    for _, statement in numbered(statements):
        if statement["limit"] not in (0, 1):
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE,
                f"The limit field in delete objects must be 0 or 1. Got {statement['limit']}",
            )
    batch = Batch.of(ctx, request, len(statements))
    check_uuid(request, ns, ctx.catalog.get(ns))
    deleted = 0
    let = request.get("let")
    for index, statement in numbered(statements):
        done = delete_one(batch, index, ns, {**statement, "let": let})
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
        return {"n": ctx.changes}

    return batch.run(index, ns, write)


def apply(ctx: CommandContext, ns: Namespace, statement: Mapping[str, Any], accept: Accept) -> list[Document]:
    """Apply a delete statement (`q`, `limit` and their options) and return what it deleted."""
    collection = ctx.catalog.get(ns)
    if collection is not None and collection.is_view:
        ctx.catalog.ensure(ns)
    query = query_of(
        ctx,
        statement,
        collection,
        filter=statement["q"],
        limit=statement["limit"],
        sort=statement.get("sort"),
        hint=check_hint(collection, statement.get("hint"), ns, statement["q"]),
    )
    return ctx.catalog.engine.delete(ns, query, accept=accept)

"""The insert command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.commands.documents import prepare
from fakeserver.commands.reading import check_uuid, namespace
from fakeserver.commands.statements import Batch, numbered
from fakeserver.commands.table import CommandTable, Reply
from fakeserver.idl import Field, Fields

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.engine import Accept, Document, Namespace

table = CommandTable()

WRITE_FIELDS = (
    Field("ordered", "bool"),
    Field("bypassDocumentValidation", "bool"),
    Field("encryptionInformation", "object"),
    Field("collectionUUID", "binData"),
    Field("isTimeseriesNamespace", "bool"),
    Field("bypassEmptyTsReplacement", "bool"),
)
"""What insert, update and delete have in common."""


@table.command(
    "insert",
    kind="write",
    in_transaction=True,
    fields=Fields.of(
        Field("documents", "array", required=True, of="object"), *WRITE_FIELDS, target="collection"
    ),
    sequences=("documents",),
    write_concern=True,
    retryable_write=True,
)
def insert(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Insert documents."""
    ns = namespace(ctx, request)
    documents = request["documents"]
    batch = Batch.of(ctx, request, len(documents))
    check_uuid(request, ns, ctx.catalog.get(ns))
    inserted = 0
    for index, document in numbered(documents):
        done = insert_one(batch, index, ns, document)
        inserted += done["n"] if done is not None else 0
        if batch.stopped:
            break
    return batch.finish({"n": inserted})


def insert_one(batch: Batch, index: int, ns: Namespace, document: Document) -> Document | None:
    """Run one insert statement and return `{n: 1}`, or None if it failed."""
    ctx = batch.ctx

    def write(accept: Accept) -> Document:
        prepared = prepare(ctx, document, keep_times=batch.keep_times)
        ctx.ensure(ns)
        ctx.catalog.engine.insert(ns, prepared, accept=accept)
        return {"n": 1}

    return batch.run(index, ns, write)

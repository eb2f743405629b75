"""The insert command: new documents of one collection.

Behaviour: The number of documents (from 1 to 100,000, 16) and the UUID (361) are checked before the first is
inserted. Each document is then a statement of its own: its size and depth, in old releases its names, its
`_id` (made if missing, moved to the front), empty timestamps (set to the present time), then the collection
(made if missing), unique keys (11000) and the validator (121). Errors of statements go to `writeErrors`, and
an ordered command stops at the first. A statement that was executed under the same txnNumber is not repeated,
and its number is in `retriedStmtIds`.

Versions: `bypassEmptyTsReplacement` since 5.0; `collectionUUID` and `encryptionInformation` since 6.0. Until
4.4 a document with a field of its own whose name begins with `$` is refused (2).

Not modelled: `encryptionInformation` and `isTimeseriesNamespace` are accepted and have no effect. A server
asks the validator before the unique keys, and stores the documents of a command in groups; here each is
stored, and visible, by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.commands.context import check_uuid, namespace
from fakeserver.commands.writes.writing import Batch, numbered, prepare
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.store import time_series

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Accept, Document, Namespace

table = CommandTable()

WRITE_FIELDS = (
    Field("ordered", "strictBool"),
    Field("bypassDocumentValidation", "bool"),
    Field("encryptionInformation", "object"),
    Field("collectionUUID", "binData"),
    Field("isTimeseriesNamespace", "bool"),
    Field("bypassEmptyTsReplacement", "bool"),
)
"""The fields that insert, update and delete have in common."""


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
    if "collectionUUID" in request:
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
        # After the document's own checks: one that is refused does not make the collection.
        collection, _made = ctx.ensure(ns)
        if collection.kind == "timeseries":
            prepared = time_series.arranged(prepared, collection.options["timeseries"])
        ctx.catalog.engine.insert(ns, prepared, accept=accept)
        return {"n": 1}

    return batch.run(index, ns, write)

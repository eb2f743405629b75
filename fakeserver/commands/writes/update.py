"""The update command: changes of the documents of one collection.

Behaviour: `u` must be an object or an array of objects in every statement (9, 14); then the number of
statements (16) and the UUID (361) are checked, and nothing was changed by then. Statements run one after
another; their errors go to `writeErrors`, and an ordered command stops at the first. An unknown stage in any
statement's pipeline fails the whole command with 40324, after the statements have run: a server counts the
stages of all pipelines at that point, and what was written stays. With a txnNumber a statement with `multi`
is refused with 72 in its write error, and a statement that was executed answers with its record: an insert is
shown as an upsert, whatever command wrote it. A replacement's empty timestamps become the present time.

Versions: `updates.upsertSupplied` since 4.4; `let` and `bypassEmptyTsReplacement` since 5.0;
`collectionUUID` and `encryptionInformation` since 6.0; `updates.sampleId` since 7.0; `updates.sort` since
8.0. Until 4.4 an update that stores a field whose name begins with `$` is refused (52, a malformed DBRef 55).

Not modelled: `upsertSupplied`, `sampleId`, `encryptionInformation` and `isTimeseriesNamespace` are accepted
and have no effect. A mongos asks for no shard key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.context import check_uuid, namespace
from fakeserver.commands.queries.reading import check_hint, collation_of, indexes_of, variables
from fakeserver.commands.writes.insert import WRITE_FIELDS
from fakeserver.commands.writes.writing import (
    Batch,
    check_id,
    check_update,
    numbered,
    refuse_retryable_multi,
    with_times,
)
from fakeserver.errors import CommandError, WriteError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.filters.match_operators import is_operators
from fakeserver.storage.port.engine import Query, Update, UpdateResult
from fakeserver.storage.stages.pipeline_stages import check_stage_name
from fakeserver.storage.store import time_series
from fakeserver.storage.store.scanning import is_lookup
from fakeserver.storage.updates.updating import looks_at_nothing_else
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Accept, Changed, Document, Namespace
    from fakeserver.storage.store.catalog import Collection

table = CommandTable()

NO_RETRYABLE_MULTI: Final = "Cannot use (or request) retryable writes with multi=true"

_STATEMENT: Final = Fields.of(
    Field("q", "object", required=True),
    Field("u", required=True),
    Field("c", "object"),
    Field("multi", "strictBool"),
    Field("upsert", "strictBool"),
    Field("upsertSupplied", "bool"),
    Field("arrayFilters", "array", of="object"),
    Field("hint", "hint"),
    Field("collation", "object"),
    Field("sort", "object"),
    Field("sampleId", "binData"),
)


@table.command(
    "update",
    kind="write",
    in_transaction=True,
    fields=Fields.of(
        Field("updates", "array", required=True, of=_STATEMENT),
        Field("let", "object"),
        *WRITE_FIELDS,
        target="collection",
    ),
    sequences=("updates",),
    write_concern=True,
    retryable_write=True,
)
def update(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Update documents."""
    ns = namespace(ctx, request)
    statements = request["updates"]
    # Before any statement runs, as a server parses all of them first.
    for _, statement in numbered(statements):
        check_change(statement["u"])
    batch = Batch.of(ctx, request, len(statements))
    check_uuid(request, ns, ctx.catalog.get(ns))
    matched = modified = 0
    upserted: list[Document] = []
    let = request.get("let")
    for index, statement in numbered(statements):
        done = update_one(batch, index, ns, statement if let is None else {**statement, "let": let})
        if done is not None:
            matched += done["n"]
            modified += done["nModified"]
            if "upserted" in done:
                upserted.append({"index": index, "_id": done["upserted"]["_id"]})
        if batch.stopped:
            break
    for _, statement in numbered(statements):
        check_stages(statement["u"])
    reply: Reply = {"n": matched}
    if upserted:
        reply["upserted"] = upserted
    return batch.finish({**reply, "nModified": modified})


def check_change(change: Any) -> None:
    """Refuse what is no update. Raises `CommandError` 9 or 14, before any statement runs."""
    if not isinstance(change, dict | list):
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "Update argument must be either an object or an array")
    if isinstance(change, list) and not all(isinstance(stage, dict) for stage in change):
        raise CommandError(ErrorCode.TYPE_MISMATCH, "Each element of the 'pipeline' array must be an object")


def check_stages(change: Any) -> None:
    """Refuse a stage that no server knows. Raises `CommandError` 40323 or 40324 for the whole command.

    A server counts the stages of a command's pipelines once it has run the statements, reached or not, and
    fails there: what they wrote stays.
    """
    for stage in change if isinstance(change, list) else ():
        check_stage_name(stage)


def update_one(
    batch: Batch, index: int, ns: Namespace, statement: Mapping[str, Any], no_multi: str = NO_RETRYABLE_MULTI
) -> Document | None:
    """Run one update statement and return `{n, nModified, upserted?: {_id}}`, or None if it failed."""

    def write(accept: Accept) -> Document:
        multi = bool(statement.get("multi", False))
        refuse_retryable_multi(batch.ctx, multi=multi, message=no_multi)
        # A sort chooses which one document is updated; of many there is no first.
        if multi and statement.get("sort"):
            raise WriteError(ErrorCode.FAILED_TO_PARSE, "Cannot specify sort with multi=true")
        return summary(apply(batch.ctx, ns, statement, accept, keep_times=batch.keep_times))

    return batch.run(index, ns, write, _replay)


def _replay(recorded: Mapping[str, Any]) -> Document:
    """Return the result of an update that was executed, whatever command did it: inserts are upserts."""
    if recorded["op"] == "i":
        return {"n": 1, "nModified": 0, "upserted": {"_id": recorded["_id"]}}
    return {"n": 1, "nModified": 1}


def apply(
    ctx: CommandContext,
    ns: Namespace,
    statement: Mapping[str, Any],
    accept: Accept,
    *,
    keep_times: bool = False,
) -> UpdateResult:
    """Apply an update statement (`q`, `u` and their options). Raises `WriteError`.

    A replacement's empty timestamps become the present time, unless `keep_times`.
    """
    collection = ctx.catalog.get(ns)
    upsert = bool(statement.get("upsert", False))
    if collection is not None and collection.is_view:
        ctx.ensure(ns)
    if collection is not None and collection.kind == "timeseries":
        time_series.check_update(collection.options["timeseries"], statement)
    change = statement["u"]
    replaces = isinstance(change, dict) and not is_operators(change)

    def check(change: Changed) -> None:
        if change.after is not None and not ctx.node.profile.stores_dollar_fields:
            check_update(change.after, None if replaces else change.before)
        if change.before is None and change.after is not None:
            check_id(change.after["_id"])
            ctx.ensure(ns)
        accept(change)

    multi = bool(statement.get("multi", False))
    update = Update(
        _query(ctx, ns, statement, collection),
        with_times(ctx, change) if replaces and not keep_times else change,
        multi,
        upsert,
        statement.get("arrayFilters") or (),
        ctx.object_id,
        ctx.updated if multi else None,
    )
    # An update of a missing collection does nothing; an upsert makes it, even if the upsert is refused then.
    if upsert and collection is None:
        ctx.ensure(ns)
    return ctx.catalog.engine.update(ns, update, accept=check)


_PLAIN_STATEMENT: Final = frozenset({"q", "u", "multi", "upsert", "upsertSupplied", "sampleId"})


def _query(
    ctx: CommandContext, ns: Namespace, statement: Mapping[str, Any], collection: Collection | None
) -> Query:
    """Return the documents that a statement is about, and what its operators may ask for."""
    wanted = statement["q"]
    collation = collation_of(statement, collection)
    if (
        collation is None
        and is_lookup(wanted)
        and _PLAIN_STATEMENT.issuperset(statement)
        and looks_at_nothing_else(statement["u"])
    ):
        return Query(wanted)
    hint = check_hint(collection, statement.get("hint"), ns, wanted)
    constants = statement.get("c")
    # `c` has no meaning for update operators; `let`, which came later, is for the filter too.
    if constants and not isinstance(statement["u"], list):
        raise CommandError(51198, "Constant values may only be specified for pipeline updates")
    let = variables(ctx, statement.get("let"))
    return Query(
        wanted,
        sort=statement.get("sort"),
        hint=hint,
        let={**(let or {}), **constants} if constants else let,
        collation=collation,
        now=ctx.present(),
        cluster_time=ctx.time_of_update(),
        make_id=ctx.object_id,
        scripts=ctx.scripts,
        indexes=indexes_of(collection),
        release=ctx.node.profile.max_wire_version,
    )


def summary(result: UpdateResult) -> Document:
    """Return what an update did in the fields of a reply."""
    if result.upserted:
        return {"n": 1, "nModified": 0, "upserted": {"_id": result.upserted_id}}
    return {"n": result.matched, "nModified": result.modified}

"""The findAndModify command: a change or removal of one document, which it returns.

Behaviour: Options that exclude each other are refused with 9, then a wrong UUID (361), then `fields` that are
no projection; the change runs as one statement of update or delete, and its error is the command's, without
`writeErrors`. `fields` are applied once the document is written: where that fails, the command does, and the
write stays. A retry is answered from the record of the write, with the whole image, whatever `fields` says. A
server compares the retry with what the oplog says of that write, not with its request, so a retry that asks
for another kind of write is refused: 40606 (not a removal), 40608 (not an upsert), 40611 and 40612 (another
image), 217 (no image was left, as another command wrote the statement).

Versions: `hint` since 4.4; `let` and `bypassEmptyTsReplacement` since 5.0; `collectionUUID` and
`encryptionInformation` since 6.0; `sampleId` since 7.0. Until 4.4 unknown fields are refused with 51177.

Not modelled: Images are kept with the session's record; there is no `config.image_collection`, and none is
lost while the session lives. `runtimeConstants`, `encryptionInformation` and `sampleId` are accepted and have
no effect. A mongos asks for no shard key.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.context import check_uuid, namespace
from fakeserver.commands.queries.reading import query_of
from fakeserver.commands.writes import delete, update
from fakeserver.commands.writes.writing import Batch
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.port.engine import Scope
from fakeserver.storage.stages.projecting import compile_projection
from fakeserver.storage.values.collation import fold_of
from fakeserver.storage.values.printing import show_document
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Accept, Document, Namespace
    from fakeserver.storage.stages.projecting import Project

table = CommandTable()

_STEP: Final = "Plan executor error during findAndModify"


@table.command(
    "findAndModify",
    kind="write",
    in_transaction=True,
    aliases=("findandmodify",),
    fields=Fields.of(
        Field("query", "object"),
        Field("fields", "object"),
        Field("sort", "object"),
        Field("hint", "hint"),
        Field("collation", "object"),
        Field("arrayFilters", "array", of="object"),
        Field("remove", "bool"),
        Field("update"),
        Field("upsert", "bool"),
        Field("new", "bool"),
        Field("bypassDocumentValidation", "bool"),
        Field("bypassEmptyTsReplacement", "bool"),
        Field("let", "object"),
        Field("encryptionInformation", "object"),
        Field("collectionUUID", "binData"),
        Field("runtimeConstants", "object"),
        Field("sampleId", "binData"),
        target="collection",
    ),
    write_concern=True,
    retryable_write=True,
)
def find_and_modify(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Change or remove one document and return it."""
    ns = namespace(ctx, request)
    _check(request)
    check_uuid(request, ns, ctx.catalog.get(ns))
    batch = Batch(ctx)
    batch.validated = not request.get("bypassDocumentValidation", False)
    batch.first_id = int(request.get("stmtId", 0))
    batch.image = _image(request)
    project = _projection(ctx, ns, request)

    def write(accept: Accept) -> Document:
        run = _remove if request.get("remove", False) else _update
        return run(ctx, ns, request, accept)

    try:
        done = batch.attempt(0, ns, write, partial(_replay, request))
    except CommandError as error:
        raise error.during(_STEP) from None
    image = done["value"]
    if batch.retried:
        return {**done, "retriedStmtId": batch.retried[0]}
    try:
        # Behind the statement, which is done and recorded: what fails here is no reason to write again.
        return {**done, "value": image if image is None or project is None else project(image)}
    except CommandError as error:
        error.executing = True
        raise error.during(_STEP) from None


def _replay(request: Mapping[str, Any], recorded: Mapping[str, Any]) -> Document:
    """Return the result of a statement that was executed.

    Raises `CommandError` 40606, 40608, 40611 or 40612 where it was another one than the request states, 217
    where it left no image of the document: only a findAndModify does.
    """
    op, image = recorded["op"], _image(request)
    _check_replay(request, op, image, recorded["image"])
    last_error = _last_error(op, recorded["_id"])
    # An upsert has no document of before, so the answer needs no image, whatever command inserted it.
    if op == "i" and image == "before":
        return {"lastErrorObject": last_error, "value": None}
    if image != recorded["image"]:
        raise CommandError(
            ErrorCode.INCOMPLETE_TRANSACTION_HISTORY,
            f"Retrying a findAndModify operation with session id {show_document(request['lsid'])} and txn"
            f" number {request['txnNumber']} after it has been executed but the {_IMAGES[image]} is no longer"
            " available",
        )
    return {"lastErrorObject": last_error, "value": recorded["document"]}


def _check_replay(request: Mapping[str, Any], op: str, image: str, stored: str) -> None:
    asked = f"findAndModify retry request: {show_document(request)}"
    # 'd' and 'i' are what the oplog says was done: the retry must ask for the same, or it is not a retry.
    for kind, name, code in (("d", "remove", 40606), ("i", "upsert", 40608)):
        if op == kind and not request.get(name, False):
            raise CommandError(
                code, f"{asked} is not compatible with previous write in the transaction of type: {op}"
            )
    # One image is stored, that which the first run returned; the other one is gone.
    if op == "u" and stored and image != stored:
        raise CommandError(
            40611 if image == "after" else 40612,
            f"{asked} wants the document {image} update returned, but only {stored} update document is"
            " stored",
        )


def _image(request: Mapping[str, Any]) -> str:
    return "after" if request.get("new", False) else "before"


_IMAGES: Final = {"before": "preImage", "after": "postImage"}


def _check(request: Mapping[str, Any]) -> None:
    removing, change = request.get("remove", False), request.get("update")
    if change is not None:
        update.check_change(change)
    if removing and change is not None:
        raise _invalid("Cannot specify both an update and remove=true")
    if not removing and change is None:
        raise _invalid("Either an update or remove=true must be specified")
    if removing and request.get("upsert", False):
        raise _invalid("Cannot specify both upsert=true and remove=true")
    if removing and request.get("new", False):
        raise _invalid(
            "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document"
        )
    if request.get("arrayFilters") and (removing or isinstance(change, list)):
        reason = "remove=true" if removing else "an update pipeline"
        raise _invalid(f"Cannot specify arrayFilters and {reason}")


def _invalid(message: str) -> CommandError:
    return CommandError(ErrorCode.FAILED_TO_PARSE, message)


def _statement(request: Mapping[str, Any]) -> dict[str, Any]:
    shared = ("collation", "hint", "sort", "let", "arrayFilters", "upsert")
    options = {name: request[name] for name in shared if request.get(name) is not None}
    return {"q": request.get("query") or {}, **options}


def _remove(ctx: CommandContext, ns: Namespace, request: Mapping[str, Any], accept: Accept) -> Document:
    removed = delete.apply(ctx, ns, {**_statement(request), "limit": 1}, accept)
    if not removed:
        return {"lastErrorObject": {"n": 0}, "value": None}
    return {"lastErrorObject": _last_error("d"), "value": removed[0]}


def _update(ctx: CommandContext, ns: Namespace, request: Mapping[str, Any], accept: Accept) -> Document:
    statement = {**_statement(request), "u": request["update"]}
    keep_times = request.get("bypassEmptyTsReplacement", False)
    result = update.apply(ctx, ns, statement, accept, keep_times=keep_times)
    if not result.images:
        return {"lastErrorObject": {"n": 0, "updatedExisting": False}, "value": None}
    (changed,) = result.images
    last_error = _last_error("i" if result.upserted else "u", result.upserted_id)
    return {"lastErrorObject": last_error, "value": changed.after if request.get("new") else changed.before}


def _last_error(op: str, upserted_id: Any = None) -> Document:
    """Return `lastErrorObject` for a document that was inserted, updated or deleted."""
    if op == "d":
        return {"n": 1}
    inserted = {"upserted": upserted_id} if op == "i" else {}
    return {"n": 1, "updatedExisting": op == "u", **inserted}


def _projection(ctx: CommandContext, ns: Namespace, request: Mapping[str, Any]) -> Project | None:
    """Return the projection that `fields` is. Raises `CommandError`, before anything is written."""
    fields = request.get("fields")
    if not fields:
        return None
    query = query_of(ctx, request, ctx.catalog.get(ns))
    variables = {**(query.let or {}), **query.builtins()}
    fold = fold_of(query.collation) if query.collation else None
    scope = Scope(fold, variables, scripts=query.scripts)
    return compile_projection(fields, scope, query=request.get("query") or {})

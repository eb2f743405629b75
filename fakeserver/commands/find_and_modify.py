"""The findAndModify command: a change or removal of one document, which it returns.

Behaviour: Options that exclude each other are refused with 9, then a wrong UUID (361); the change runs as one
statement of update or delete, and its error is the command's, without `writeErrors`. A retry is answered from
the record of the first run. A server compares the retry with what the oplog says of that run, not with its
request, so a retry that asks for another kind of write is refused: 40606 (not a removal), 40608 (not an
upsert), 40611 and 40612 (another image), 217 (no image was left, as another command wrote the statement).

Versions: `hint` since 4.4; `let` since 5.0; `collectionUUID` and `encryptionInformation` since 6.0;
`sampleId` since 7.0; `bypassEmptyTsReplacement` since 8.2. Until 4.4 unknown fields are refused with 51177.

Not modelled: Images are kept with the session's record; there is no `config.image_collection`, and none is
lost while the session lives. `runtimeConstants`, `encryptionInformation` and `sampleId` are accepted and have
no effect. A mongos asks for no shard key.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands import delete, update
from fakeserver.commands.context import check_uuid, namespace
from fakeserver.commands.reading import query_of
from fakeserver.commands.writing import Batch
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.printing import show_document
from fakeserver.storage.projecting import compile_projection
from fakeserver.storage.scope import Scope
from fakeserver.storage.values import copy_value
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.engine import Accept, Document, Namespace

table = CommandTable()


@table.command(
    "findAndModify",
    kind="write",
    in_transaction=True,
    aliases=("findandmodify",),
    fields=Fields.of(
        Field("query", "object"),
        Field("fields", "object"),
        Field("sort", "object"),
        Field("hint", "string|object"),
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

    def write(accept: Accept) -> Document:
        run = _remove if request.get("remove", False) else _update
        return run(ctx, ns, request, accept)

    # A copy, because a retry is answered with what is recorded here.
    reply: Reply = dict(batch.attempt(0, ns, write, partial(_replay, request)))
    if batch.retried:
        reply["retriedStmtId"] = batch.retried[0]
    return reply


def _replay(request: Mapping[str, Any], recorded: Mapping[str, Any]) -> Document:
    """Return the result of a statement that was executed.

    Raises `CommandError` 40606, 40608, 40611 or 40612 where it was another one than the request states, 217
    where it left no image of the document: only a findAndModify does.
    """
    op, result = recorded["op"], recorded["result"]
    image = _image(request)
    _check_replay(request, op, image, recorded["image"])
    # An upsert has no document of before, so the answer needs no image, whatever command inserted it.
    if op == "i" and image == "before":
        last_error = {"n": 1, "updatedExisting": False, "upserted": recorded["_id"]}
        return {"lastErrorObject": last_error, "value": None}
    if "lastErrorObject" not in result or image != recorded["image"]:
        raise CommandError(
            ErrorCode.INCOMPLETE_TRANSACTION_HISTORY,
            f"Retrying a findAndModify operation with session id {show_document(request['lsid'])} and txn"
            f" number {request['txnNumber']} after it has been executed but the {_IMAGES[image]} is no longer"
            " available",
        )
    return dict(result)


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
    last_error = {"n": len(removed)}
    return {"lastErrorObject": last_error, "value": _shown(ctx, ns, request, removed[0] if removed else None)}


def _update(ctx: CommandContext, ns: Namespace, request: Mapping[str, Any], accept: Accept) -> Document:
    statement = {**_statement(request), "u": request["update"]}
    keep_times = request.get("bypassEmptyTsReplacement", False)
    result = update.apply(ctx, ns, statement, accept, keep_times=keep_times)
    last_error: Document = {"n": 1 if result.images else 0, "updatedExisting": result.matched > 0}
    if result.upserted:
        last_error["upserted"] = result.upserted_id
    image = None
    if result.images:
        (changed,) = result.images
        image = changed.after if request.get("new", False) else changed.before
    return {"lastErrorObject": last_error, "value": _shown(ctx, ns, request, image)}


def _shown(
    ctx: CommandContext, ns: Namespace, request: Mapping[str, Any], image: Document | None
) -> Document | None:
    fields = request.get("fields")
    if image is None or not fields:
        return copy_value(image)  # type: ignore[no-any-return]
    query = query_of(ctx, request, ctx.catalog.get(ns))
    variables = {**(query.let or {}), "NOW": query.now}
    project = compile_projection(
        fields, Scope(variables=variables, scripts=query.scripts), query=request.get("query") or {}
    )
    return copy_value(project(image))  # type: ignore[no-any-return]

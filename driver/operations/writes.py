"""Commands that write: insert, update, delete and findAndModify (CRUD: Basic Write)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import bson

from driver.errors import (
    InvalidArgumentError,
    OperationTimeoutError,
    WriteConcernError,
    WriteError,
    under_timeout,
)
from driver.operations.base import Command, Kind, Operation, collection_of, first_name, fixed
from driver.operations.models import check_replacement, check_update, has_hint, statement
from driver.operations.options import checked, refuse_unheard_hint, without_timeout
from driver.results import DeleteResult, UpdateResult
from mongowire.messages import DocumentSequence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.errors import DriverError
    from driver.operations.base import Target
    from driver.operations.models import WriteModel
    from driver.run import Reply
    from driver.sdam.description import ServerDescription

    Document = Mapping[str, Any]

STATEMENTS = {"insert": "documents", "update": "updates", "delete": "deletes"}
MARGIN_OF_STATEMENTS = 16 * 1024
"""What a server allows a statement to have around the largest document."""


def write(target: Target, command: Document, *, retryable: bool) -> Operation:
    """Return an operation that writes; `retryable` says that Retryable Writes supports it in this shape."""
    fields, timeout = without_timeout(command, target.concerns.timeout)
    document = {**fields, **target.write_concern_field}
    return Operation(
        target.database,
        Kind.WRITE,
        fixed(document, retryable=retryable),
        acknowledged=target.acknowledged,
        name=first_name(command),
        collection=collection_of(command),
        timeout=timeout,
    )


def single(target: Target, model: WriteModel, options: Document) -> Operation:
    """Return the command of one insert, update or delete: retryable unless it may hit many documents."""
    fields, timeout = without_timeout(options, target.concerns.timeout)
    document = {model.verb: target.collection, "ordered": True, **fields, **target.write_concern_field}
    encoded = bson.encode(statement(model))

    def prepare(server: ServerDescription) -> Command:
        check_size(encoded, server)
        sequence = DocumentSequence(STATEMENTS[model.verb], (encoded,))
        return Command(document, (sequence,), retryable=not model.multi)

    operation = Operation(
        target.database,
        Kind.WRITE,
        prepare,
        acknowledged=target.acknowledged,
        name=model.verb,
        collection=collection_of(document),
        timeout=timeout,
    )
    if target.acknowledged or not has_hint(model):
        return operation
    return replace(operation, refuse=partial(refuse_unheard_hint, model.verb))


def check_size(encoded: bytes, server: ServerDescription) -> None:
    """Raise InvalidArgumentError for a document that the server cannot take."""
    limit = server.limits.max_bson_object_size + MARGIN_OF_STATEMENTS
    if len(encoded) > limit:
        raise InvalidArgumentError(f"a document of {len(encoded)} bytes is larger than {limit} bytes")


def refused(reply: Reply) -> None:
    """Raise the first write error of a reply as WriteError, or as OperationTimeoutError."""
    if reply.document.get("writeErrors"):
        error = WriteError.of_reply(reply.document, reply.address)
        raise under_timeout(error, timed=reply.deadline.is_set)


def more_telling(error: DriverError) -> DriverError:
    """Return what to raise for a reply that holds a write concern error: a write error comes first."""
    # What was refused cannot be made safer by a write concern.
    if isinstance(error, WriteConcernError) and error.response.get("writeErrors"):
        return WriteError.of_reply(error.response, error.address)
    return error


def concern_failure(error: DriverError) -> WriteConcernError | None:
    """Return the write concern error that an error is, or that made an OperationTimeoutError of it."""
    failure = error.cause if isinstance(error, OperationTimeoutError) else error
    return failure if isinstance(failure, WriteConcernError) else None


def update_result(reply: Reply, *, acknowledged: bool) -> UpdateResult:
    """Return the result of a single update."""
    upserted = reply.document.get("upserted", ())
    matched = reply.document.get("n", 0) - len(upserted)
    return UpdateResult(
        matched,
        reply.document.get("nModified", 0),
        upserted[0]["_id"] if upserted else None,
        upserted=bool(upserted),
        acknowledged=acknowledged,
    )


def delete_result(reply: Reply, *, acknowledged: bool) -> DeleteResult:
    """Return the result of a single delete."""
    return DeleteResult(reply.document.get("n", 0), acknowledged)


FIND_AND_MODIFY_NAMES = {"projection": "fields", "returnDocument": "new"}


def find_and_modify(
    target: Target, filter_: Document, change: Document, options: Document, *, method: str
) -> Operation:
    """Return a `findAndModify`; `change` is `{remove: true}` or `{update: …}`. Always retryable."""
    fields = checked(method, options)
    if method == "findOneAndUpdate":
        check_update(change["update"])
    elif method == "findOneAndReplace":
        check_replacement(change["update"])
    if "returnDocument" in fields:
        fields["returnDocument"] = str(fields["returnDocument"]).lower() == "after"
    named = {FIND_AND_MODIFY_NAMES.get(name, name): value for name, value in fields.items()}
    command = {"findAndModify": target.collection, "query": filter_, **change, **named}
    operation = write(target, command, retryable=True)
    if target.acknowledged or "hint" not in fields:
        return operation
    return replace(operation, refuse=partial(refuse_unheard_hint, "findAndModify"))

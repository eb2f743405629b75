"""PyMongo's results and errors, in the words of the unified test format.

`report` decides by the class of an exception whether an error came from a server or is the client's own,
which `isClientError` asks. A bulk write is judged by what its server answered; one that a broken connection
ended is the client's, whatever its partial result says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson.errors import BSONError
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ClientBulkWriteException,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    WaitQueueTimeoutError,
)
from pymongo.pool_shared import _PoolClosedError

from harness.adapters.base import ErrorReport
from mongowire.codes import Label, code_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pymongo.results import (
        BulkWriteResult,
        ClientBulkWriteResult,
        DeleteResult,
        InsertManyResult,
        InsertOneResult,
        UpdateResult,
    )

DRIVER_ERRORS: Final = (PyMongoError, BSONError, TypeError, ValueError, OverflowError)
"""All that PyMongo raises: besides its own, what it says of arguments that it refuses."""

_PAUSED: Final = "connection pool paused"
"""What PyMongo's error says that is the specification's PoolClearedError; it has no type of its own."""

_UNACKNOWLEDGED: Final = {"acknowledged": False}


def inserted_one(result: InsertOneResult) -> dict[str, Any]:
    """Return an InsertOneResult as a document."""
    return {"insertedId": result.inserted_id} if result.acknowledged else _UNACKNOWLEDGED


def inserted_many(result: InsertManyResult) -> dict[str, Any]:
    """Return the result of insertMany as a document."""
    if not result.acknowledged:
        return _UNACKNOWLEDGED
    return {"insertedIds": {str(index): value for index, value in enumerate(result.inserted_ids)}}


def updated(result: UpdateResult) -> dict[str, Any]:
    """Return an UpdateResult as a document."""
    if not result.acknowledged:
        return _UNACKNOWLEDGED
    upserted = {"upsertedId": result.upserted_id} if result.did_upsert else {}
    counts = {"matchedCount": result.matched_count, "modifiedCount": result.modified_count}
    return {**counts, "upsertedCount": len(upserted), **upserted}


def deleted(result: DeleteResult) -> dict[str, Any]:
    """Return a DeleteResult as a document."""
    return {"deletedCount": result.deleted_count} if result.acknowledged else _UNACKNOWLEDGED


def bulk_written(result: BulkWriteResult) -> dict[str, Any]:
    """Return a collection's BulkWriteResult as a document."""
    return _bulk_document(result.bulk_api_result) if result.acknowledged else _UNACKNOWLEDGED


def _bulk_document(counts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "insertedCount": counts["nInserted"],
        "matchedCount": counts["nMatched"],
        "modifiedCount": counts["nModified"],
        "deletedCount": counts["nRemoved"],
        "upsertedCount": counts["nUpserted"],
        "upsertedIds": {str(upsert["index"]): upsert["_id"] for upsert in counts["upserted"]},
    }


def client_bulk_written(result: ClientBulkWriteResult) -> dict[str, Any]:
    """Return a client's BulkWriteResult as a document."""
    if not result.acknowledged:
        return _UNACKNOWLEDGED
    document: dict[str, Any] = {
        "insertedCount": result.inserted_count,
        "matchedCount": result.matched_count,
        "modifiedCount": result.modified_count,
        "deletedCount": result.deleted_count,
        "upsertedCount": result.upserted_count,
    }
    if result.has_verbose_results:
        document["insertResults"] = {str(i): inserted_one(one) for i, one in result.insert_results.items()}
        document["updateResults"] = {
            str(i): {name: value for name, value in updated(one).items() if name != "upsertedCount"}
            for i, one in result.update_results.items()
        }
        document["deleteResults"] = {str(i): deleted(one) for i, one in result.delete_results.items()}
    return document


def report(error: Exception) -> ErrorReport:
    """Return what an exception says, in the words of `expectError`."""
    if isinstance(error, ClientBulkWriteException):
        return _report_client_bulk(error)
    if isinstance(error, BulkWriteError):
        return _report_bulk(error)
    if isinstance(error, (OperationFailure, NotPrimaryError)):
        return _report_server(error)
    return ErrorReport(
        message=str(error),
        is_client_error=True,
        is_timeout_error=_timed_out(error),
        labels=_labels(error, {}),
        type=_type_of(error),
    )


def _type_of(error: BaseException) -> str | None:
    """Return the name of a pool's error in the specification, or None for another error."""
    if isinstance(error, _PoolClosedError):
        return "PoolClosedError"
    if isinstance(error, WaitQueueTimeoutError):
        return "WaitQueueTimeoutError"
    return "PoolClearedError" if isinstance(error, AutoReconnect) and _PAUSED in str(error) else None


def _timed_out(error: BaseException) -> bool:
    return isinstance(error, PyMongoError) and error.timeout


def _labels(error: BaseException, details: Mapping[str, Any]) -> frozenset[str]:
    """PyMongo answers for one label at a time: ask for all that exist, and all that the reply names."""
    if not isinstance(error, PyMongoError):
        return frozenset()
    names = {label.value for label in Label} | set(details.get("errorLabels", ()))
    return frozenset(name for name in names if error.has_error_label(name))


def _report_server(error: OperationFailure | NotPrimaryError) -> ErrorReport:
    details: Any = error.details or {}
    code = error.code if isinstance(error, OperationFailure) else details.get("code")
    return ErrorReport(
        message=str(error),
        is_timeout_error=_timed_out(error),
        code=code,
        code_name=details.get("codeName"),
        labels=_labels(error, details),
        response=details or None,
    )


def _report_bulk(error: BulkWriteError) -> ErrorReport:
    """Unified Test Format: bulkWrite. The aggregated errors all count; PyMongo's own message has none."""
    details = error.details
    errors = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
    code = errors[0].get("code") if errors else error.code
    return ErrorReport(
        message=str(error),
        is_timeout_error=error.timeout,
        code=code,
        code_name=code_name(code) if code is not None else None,
        labels=_labels(error, details) | {label for one in errors for label in one.get("errorLabels", ())},
        result=_bulk_document(details),
        write_errors={one["index"]: _with_message(one) for one in _listed(details.get("writeErrors"))},
        write_concern_errors=[_with_message(one) for one in _listed(details.get("writeConcernErrors"))],
    )


def _report_client_bulk(error: ClientBulkWriteException) -> ErrorReport:
    """Unified Test Format: clientBulkWrite. Message and code are those of the top-level error."""
    top: Any = error.error
    inner = report(top) if isinstance(top, Exception) else None
    if inner is None and isinstance(top, dict):
        inner = ErrorReport(
            message=str(top.get("errmsg")), code=top.get("code"), code_name=top.get("codeName")
        )
    partial = error.partial_result
    return ErrorReport(
        message="; ".join(filter(None, (str(error), inner.message if inner else ""))),
        is_client_error=inner.is_client_error if inner else False,
        is_timeout_error=error.timeout,
        code=inner.code if inner else None,
        code_name=inner.code_name if inner else None,
        labels=_labels(error, error.details) | (inner.labels if inner else frozenset()),
        response=inner.response if inner else None,
        result=client_bulk_written(partial) if partial is not None else None,
        write_errors={one["idx"]: _with_message(one) for one in _listed(error.write_errors)},
        write_concern_errors=[_with_message(one) for one in _listed(error.write_concern_errors)],
    )


def _listed(errors: Any) -> list[Any]:
    return list(errors or ())


def _with_message(error: Mapping[str, Any]) -> dict[str, Any]:
    """PyMongo keeps the server's names: `errmsg` is the format's `message`."""
    return {**error, "message": error.get("errmsg")}


def exhausted() -> ErrorReport:
    """Return the error of a cursor that has no more documents and never will."""
    return ErrorReport(message="the cursor has no more documents", is_client_error=True)

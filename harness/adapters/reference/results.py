"""The reference driver's results, errors and events, in the words of the unified test format.

The driver's fields are in snake case and its times in seconds; the format has camel case and milliseconds.
Both are turned here, so neither the driver nor the runner knows the other's spelling. `harness.formats.cmap`
and the swarm's timeline read events by this module too.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from bson.errors import BSONError

from driver.errors import (
    BulkError,
    ClientBulkWriteError,
    DriverError,
    OperationTimeoutError,
    PoolError,
    ServerError,
    WriteError,
)
from driver.events import HeartbeatEvent
from driver.sdam.description import ServerDescription, TopologyDescription
from harness.adapters.base import ErrorReport, Event

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.events import DriverEvent
    from driver.results import (
        BulkWriteResult,
        DeleteResult,
        InsertManyResult,
        InsertOneResult,
        UpdateResult,
    )

DRIVER_ERRORS: Final = (DriverError, BSONError, OverflowError)
"""Errors that operations raise: the driver's own errors, and those of documents that cannot be encoded."""

UNACKNOWLEDGED: Final = {"acknowledged": False}


def inserted_one(result: InsertOneResult) -> dict[str, Any]:
    """Return an InsertOneResult as a document."""
    return {"insertedId": result.inserted_id} if result.acknowledged else UNACKNOWLEDGED


def inserted_many(result: InsertManyResult) -> dict[str, Any]:
    """Return an InsertManyResult as a document."""
    return {"insertedIds": _by_index(result.inserted_ids)} if result.acknowledged else UNACKNOWLEDGED


def updated(result: UpdateResult) -> dict[str, Any]:
    """Return an UpdateResult as a document."""
    if not result.acknowledged:
        return UNACKNOWLEDGED
    return {**_one_update(result), "upsertedCount": int(result.upserted)}


def _one_update(result: UpdateResult) -> dict[str, Any]:
    upserted = {"upsertedId": result.upserted_id} if result.upserted else {}
    return {"matchedCount": result.matched_count, "modifiedCount": result.modified_count, **upserted}


def deleted(result: DeleteResult) -> dict[str, Any]:
    """Return a DeleteResult as a document."""
    return {"deletedCount": result.deleted_count} if result.acknowledged else UNACKNOWLEDGED


def bulk_written(result: BulkWriteResult) -> dict[str, Any]:
    """Return a collection's BulkWriteResult as a document."""
    if not result.acknowledged:
        return UNACKNOWLEDGED
    return {
        **_counts(result),
        "insertedIds": _by_index(result.inserted_ids),
        "upsertedIds": _by_index(result.upserted_ids),
    }


def client_bulk_written(result: BulkWriteResult) -> dict[str, Any]:
    """Return a client's BulkWriteResult as a document."""
    if not result.acknowledged:
        return UNACKNOWLEDGED
    if result.insert_results is None or result.update_results is None or result.delete_results is None:
        return _counts(result)
    inserts = {index: inserted_one(one) for index, one in result.insert_results.items()}
    updates = {index: _one_update(one) for index, one in result.update_results.items()}
    deletes = {index: deleted(one) for index, one in result.delete_results.items()}
    return {
        **_counts(result),
        "insertResults": _by_index(inserts),
        "updateResults": _by_index(updates),
        "deleteResults": _by_index(deletes),
    }


def _counts(result: BulkWriteResult) -> dict[str, Any]:
    return {
        "insertedCount": result.inserted_count,
        "matchedCount": result.matched_count,
        "modifiedCount": result.modified_count,
        "deletedCount": result.deleted_count,
        "upsertedCount": result.upserted_count,
    }


def _by_index(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(index): value for index, value in values.items()}


def report(error: Exception) -> ErrorReport:
    """Return what an exception says, in the words of `expectError`."""
    if isinstance(error, BulkError):
        return _report_bulk(error)
    if isinstance(error, ServerError):
        return _report_server(error)
    if isinstance(error, OperationTimeoutError):
        # What its cause says, and that it is a time-out.
        uncaused = ErrorReport(error.message, is_client_error=True)
        cause = uncaused if error.cause is None else report(error.cause)
        labels = frozenset(error.labels)
        return replace(
            cause, message=error.message, is_timeout_error=True, labels=labels, address=error.address
        )
    labels = frozenset(error.labels) if isinstance(error, DriverError) else frozenset[str]()
    type_name = type(error).__name__ if isinstance(error, PoolError) else None
    address = error.address if isinstance(error, DriverError) else None
    return ErrorReport(str(error), is_client_error=True, labels=labels, type=type_name, address=address)


def _report_server(error: ServerError) -> ErrorReport:
    details = {0: _write_error(error.response["writeErrors"][0])} if isinstance(error, WriteError) else None
    return ErrorReport(
        error.message,
        code=error.code,
        code_name=error.code_name,
        labels=frozenset(error.labels),
        response=error.response,
        write_errors=details,
        address=error.address,
    )


def _report_bulk(error: BulkError) -> ErrorReport:
    cause = error.cause
    written = client_bulk_written if isinstance(error, ClientBulkWriteError) else bulk_written
    return ErrorReport(
        error.message,
        is_client_error=cause is not None and not isinstance(cause, ServerError),
        is_timeout_error=error.timed_out,
        code=error.code,
        code_name=cause.code_name if isinstance(cause, ServerError) else None,
        labels=frozenset(error.labels),
        response=cause.response if isinstance(cause, ServerError) else None,
        result=None if error.partial is None else written(error.partial),
        write_errors={index: _write_error(one) for index, one in error.write_errors.items()},
        write_concern_errors=[_write_error(one) for one in error.write_concern_errors],
        address=error.address,
    )


def _write_error(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return an error in the format's names beside the server's."""
    return {**error, "message": error.get("errmsg"), "details": error.get("errInfo")}


def event_of(event: DriverEvent, at: float) -> Event:
    """Return a driver's event under the format's names; fields without a value are left out."""
    named: dict[str, Any] = {}
    for name, written_name in _names_of(type(event)):  # type: ignore[arg-type]  # types do hash
        value = _value(getattr(event, name))
        if value is not None:
            named[written_name] = value
    if "duration" in named:
        named["durationMS"] = named.pop("duration") * 1000
    # Discovery and monitoring calls the server's address `connectionId` here; adapters report an `address`.
    if isinstance(event, HeartbeatEvent):
        named["address"] = named.pop("connectionId")
    return Event(event.kind, named, at)


_INTERNAL: Final = frozenset({"sensitive"})


@cache
def _names_of(kind: type[DriverEvent]) -> tuple[tuple[str, str], ...]:
    """Return the fields of a kind of event, each with its name in the format."""
    names = []
    for field in fields(kind):
        if field.name not in _INTERNAL:
            head, *tail = field.name.split("_")
            names.append((field.name, head + "".join(word.capitalize() for word in tail)))
    return tuple(names)


def _value(value: Any) -> Any:
    if isinstance(value, ServerDescription):
        return {"address": value.address, "type": value.type.value}
    if isinstance(value, TopologyDescription):
        return {"type": value.type.value, "servers": [_value(server) for server in value.servers.values()]}
    return value

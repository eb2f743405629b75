"""The reference driver's results, errors and events, in the words of the unified test format."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from bson import Int64, json_util
from bson.errors import BSONError
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from driver.errors import (
    BulkError,
    ClientBulkWriteError,
    DriverError,
    OperationTimeoutError,
    PoolError,
    ServerError,
    WriteError,
)
from driver.sdam.description import ServerDescription, TopologyDescription
from driver.tracing.options import TracingOptions
from harness.adapters.base import ErrorReport, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from driver.events import DriverEvent
    from driver.results import (
        BulkWriteResult,
        DeleteResult,
        InsertManyResult,
        InsertOneResult,
        UpdateResult,
    )

    Deliver = Callable[[dict[str, Any]], None]


DRIVER_ERRORS: Final = (DriverError, BSONError, OverflowError)
"""What operations raise: the driver's own errors, and those of documents that cannot be encoded."""

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
        return _report_timeout(error)
    labels = frozenset(error.labels) if isinstance(error, DriverError) else frozenset[str]()
    type_name = type(error).__name__ if isinstance(error, PoolError) else None
    return ErrorReport(str(error), is_client_error=True, labels=labels, type=type_name)


def _report_timeout(error: OperationTimeoutError) -> ErrorReport:
    """Return what its cause says, and that it is a time-out."""
    uncaused = ErrorReport(error.message, is_client_error=True)
    cause = uncaused if error.cause is None else report(error.cause)
    labels = frozenset(error.labels)
    return replace(cause, message=error.message, is_timeout_error=True, labels=labels)


def _report_server(error: ServerError) -> ErrorReport:
    details = {0: _write_error(error.response["writeErrors"][0])} if isinstance(error, WriteError) else None
    return ErrorReport(
        error.message,
        code=error.code,
        code_name=error.code_name,
        labels=frozenset(error.labels),
        response=error.response,
        write_errors=details,
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


# The reference driver's spans, as OpenTelemetry's SDK hands them over.


def tracing(deliver: Deliver, *, query_text_length: int) -> TracingOptions:
    """Return options of a client whose spans are delivered as they end."""
    provider = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(_Collector(deliver))
    return TracingOptions(query_text_length=query_text_length, provider=provider)


class _Collector(SpanProcessor):
    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._order = count()
        self._began: dict[int, int] = {}

    def on_start(self, span: ReadableSpan, parent_context: Any = None) -> None:  # noqa: ARG002 - OpenTelemetry's
        self._began[_id(span.context)] = next(self._order)

    def on_end(self, span: ReadableSpan) -> None:
        number = _id(span.context)
        self._deliver(
            {
                "id": number,
                "parent": None if span.parent is None else _id(span.parent),
                "name": span.name,
                "attributes": _in_the_words_of_the_format(span.attributes or {}),
                "order": self._began.pop(number),
            }
        )


def _id(context: Any) -> int:
    return int(context.span_id)


def _in_the_words_of_the_format(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as BSON: numbers have 64 bits, and a session's id is a document, not text."""
    words: dict[str, Any] = {
        name: Int64(value) if type(value) is int else value for name, value in attributes.items()
    }
    if "db.mongodb.lsid" in words:
        words["db.mongodb.lsid"] = json_util.loads(words["db.mongodb.lsid"])
    return words

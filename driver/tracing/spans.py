"""Spans: one for each operation, within it one for each command that was sent for it."""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bson import json_util
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from driver.cmap.metadata import NAME, VERSION
from driver.errors import ServerError, WriteError
from driver.execute import Executor
from driver.log.message import document_text
from driver.monitoring import is_sensitive
from driver.operations.base import collection_of
from driver.uri import split_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span, Tracer, TracerProvider

    from driver.cmap.connection import Connection
    from driver.monitoring import Observer
    from driver.operations.base import Operation
    from driver.run import Reply, Run
    from driver.session import ClientSession
    from mongowire.messages import OpMsg


SYSTEM: Final = {"db.system.name": "mongodb"}
OMITTED: Final = frozenset({"lsid", "$db", "$clusterTime", "signature"})
"""What `db.query.text` leaves out."""

OPERATION_NAMES: Final = {"create": "createCollection", "drop": "dropCollection"}
"""OpenTelemetry: Covered operations, of those whose name is not their command's."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """What makes a client's spans."""

    tracer: Tracer
    query_text_length: int = 0

    @classmethod
    def of(cls, provider: TracerProvider | None, query_text_length: int) -> Tracing:
        """OpenTelemetry: Tracer Attributes. Without a provider it is the program's."""
        return cls(trace.get_tracer(NAME, VERSION, provider), query_text_length)

    def transaction(self) -> Span:
        """OpenTelemetry: Transactions. Return the span that the operations of a transaction are part of."""
        return self.tracer.start_span("transaction", kind=SpanKind.CLIENT, attributes=SYSTEM)

    @contextmanager
    def operation(
        self, command: str, database: str, collection: str | None, parent: Span | None
    ) -> Iterator[Span]:
        """OpenTelemetry: Instrumenting Driver Operations, for as long as the block runs."""
        name = OPERATION_NAMES.get(command, command)
        summary = _summary(name, database, collection)
        attributes = {
            **SYSTEM,
            **_namespace(database, collection),
            "db.operation.name": name,
            "db.operation.summary": summary,
        }
        context = None if parent is None else trace.set_span_in_context(parent)
        with self.tracer.start_as_current_span(
            summary,
            context,
            SpanKind.CLIENT,
            attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except Exception as error:
                record(span, error, in_words=not is_sensitive(command, {}))
                raise

    def command(self, command: Mapping[str, Any], connection: Connection, inner: Observer) -> Observer:
        """OpenTelemetry: Instrumenting Server Commands. Return what ends the span and calls `inner`.

        A command that may hold secrets has no span.
        """
        name = next(iter(command))
        if is_sensitive(name, command):
            return inner
        attributes = {**self._of_command(name, command), **_of_connection(connection)}
        span = self.tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes)
        return CommandSpan(span, inner)

    def _of_command(self, name: str, command: Mapping[str, Any]) -> dict[str, Any]:
        database, collection = command["$db"], collection_of(command)
        attributes: dict[str, Any] = {
            **SYSTEM,
            **_namespace(database, collection),
            "db.command.name": name,
            "db.query.summary": _summary(name, database, collection),
        }
        if "lsid" in command:
            attributes["db.mongodb.lsid"] = json_util.dumps(command["lsid"])
        if "txnNumber" in command:
            attributes["db.mongodb.txn_number"] = int(command["txnNumber"])
        if name == "getMore":
            attributes["db.mongodb.cursor_id"] = int(command["getMore"])
        if self.query_text_length:
            shown = {field: value for field, value in command.items() if field not in OMITTED}
            attributes["db.query.text"] = document_text(shown, self.query_text_length)
        return attributes


@dataclass(frozen=True, slots=True)
class CommandSpan:
    """The span of a command on its way."""

    span: Span
    inner: Observer

    def succeed(self, reply: Mapping[str, Any]) -> None:
        """End it, with the cursor that was opened."""
        cursor = reply.get("cursor")
        if isinstance(cursor, dict) and cursor.get("id"):
            self.span.set_attribute("db.mongodb.cursor_id", int(cursor["id"]))
        self.span.end()
        self.inner.succeed(reply)

    def fail(self, error: Exception) -> None:
        """End it, with what went wrong."""
        if isinstance(error, ServerError):
            self.span.set_attribute("db.response.status_code", str(error.code))
        record(self.span, error)
        self.span.end()
        self.inner.fail(error)


def record(span: Span, error: Exception, *, in_words: bool = True) -> None:
    """OpenTelemetry: Exceptions. Record what went wrong, `in_words` unless they might hold secrets."""
    span.set_attribute("exception.type", type(error).__name__)
    if in_words:
        span.set_attribute("exception.message", str(error))
        span.set_attribute("exception.stacktrace", "".join(traceback.format_exception(error)))
    span.set_status(StatusCode.ERROR)


def _namespace(database: str, collection: str | None) -> dict[str, str]:
    named = {} if collection is None else {"db.collection.name": collection}
    return {"db.namespace": database, **named}


def _summary(name: str, database: str, collection: str | None) -> str:
    return f"{name} {database}" if collection is None else f"{name} {database}.{collection}"


def _of_connection(connection: Connection) -> dict[str, Any]:
    host, port = split_address(connection.address)
    by_server = connection.server_connection_id
    known = {} if by_server is None else {"db.mongodb.server_connection_id": by_server}
    return {
        "server.address": host,
        "server.port": port,
        "network.transport": "tcp",
        "db.mongodb.driver_connection_id": connection.id,
        **known,
    }


@dataclass(kw_only=True)
class TracedExecutor(Executor):
    """Runs each operation in a span, unless it is part of one that has its own: a command of a bulk write."""

    tracing: Tracing

    async def execute(
        self,
        operation: Operation,
        session: ClientSession | None = None,
        *,
        operation_id: int | None = None,
        **options: Any,
    ) -> Reply:
        """Run an operation to its reply. Raises DriverError."""
        if operation_id is not None:
            return await super().execute(operation, session, operation_id=operation_id, **options)
        span = self.span(operation.name, operation.database, operation.collection, session)
        with span as current:
            reply = await super().execute(operation, session, **options)
            if reply.document.get("writeErrors"):
                record(current, WriteError.of_reply(reply.document, reply.address))
            return reply

    def span(
        self, name: str, database: str, collection: str | None, session: ClientSession | None
    ) -> AbstractContextManager[Any]:
        """Return the span of an operation: in a transaction it is part of the transaction's."""
        parent = None if session is None else session.transaction.span
        return self.tracing.operation(name, database, collection, parent)

    def _monitored(self, run: Run, request: OpMsg, request_id: int, connection: Connection) -> Observer:
        inner = super()._monitored(run, request, request_id, connection)
        return self.tracing.command(request.decode(), connection, inner)


#
# Nothing here needs OpenTelemetry: what does is imported when it is asked for.

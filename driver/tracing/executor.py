"""The executor of a client that is traced: the same loop, within spans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from driver.errors import WriteError
from driver.execute import Executor
from driver.tracing.spans import record

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from driver.cmap.connection import Connection
    from driver.monitoring import Observer
    from driver.operations.base import Operation
    from driver.run import Reply, Run
    from driver.session import ClientSession
    from driver.tracing.spans import Tracing
    from mongowire.messages import OpMsg


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

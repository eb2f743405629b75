"""The run itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeserver.commands.context import CommandContext
from fakeserver.errors import CommandError
from fakeserver.pipeline import PASS, Action, Disconnect, Park, Stage, Step
from fakeserver.sessions import RetryableWrite, Use

if TYPE_CHECKING:
    from fakeserver.commands.context import StatementLog
    from fakeserver.request import RequestContext


class Execute(Stage):
    """Calls the handler. A failure is no reason to skip the write concern, so it is kept, not raised."""

    step = Step.EXECUTE

    def enter(self, request: RequestContext, now: float) -> Action:
        node, command = request.node, request.command
        assert command is not None
        try:
            context = request.context
            if context is None:
                request.before = node.oplog.last
                node.counters.count(request.spec.name, command)
                context = request.context = _context(request, now)
            else:
                context.now = now
            request.body = request.spec.handler(context, command)
        except Park as park:
            return park.action
        except CommandError as failure:
            request.failure = failure.without_frames()
            node.counters.count_failure(request.spec.name)
        request.after = node.oplog.last
        if request.connection.hang_up:
            return Disconnect("onPrimaryTransactionalWrite closes the connection")
        return PASS


def _context(request: RequestContext, now: float) -> CommandContext:
    node = request.node
    return CommandContext(
        node,
        request.connection,
        request.db,
        now,
        node.catalog,
        node.cursors,
        request,
        request.session_id,
        None if request.txn_number is None else _statements(request, request.txn_number, now),
    )


def _statements(request: RequestContext, txn_number: int, now: float) -> StatementLog | None:
    """Begin or continue the retryable write (`Retryable Writes: Server support`)."""
    session_id = request.session_id
    if session_id is None or request.has_autocommit or not request.spec.retryable_write:
        return None
    session = request.node.sessions.use(session_id, now)
    session.begin(txn_number, Use.RETRYABLE_WRITE)

    def hook(_statement: int) -> None:
        request.node.before_transactional_write(request, session)

    return RetryableWrite(session, hook)

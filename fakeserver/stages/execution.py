"""The run of a command: its session, its transaction, its data, its handler.

A real server checks out the session, begins or continues the transaction, takes locks and runs the command.
Here there are no locks. A handler works on a catalog: the deployment's, a member's that lags, a transaction's
fork, or one as of an earlier time. A command that would wait for a lock raises `Park`, and is run again with
the same context; so is one that waits for data (`awaitData`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.context import CommandContext
from fakeserver.errors import CommandError
from fakeserver.idl.fields import first_argument
from fakeserver.idl.generic_arguments import declared
from fakeserver.request.pipeline import PASS, Action, Disconnect, Stage, Step
from fakeserver.sessions.session import RetryableWrite, Use
from fakeserver.sessions.transactions import as_of, recover
from fakeserver.settings.failpoints import (
    DISABLE_AWAIT_DATA,
    FAIL_AFTER_SESSION_CHECK_OUT,
    FAIL_IN_RUN_COMMAND,
    ON_PRIMARY_TRANSACTIONAL_WRITE,
)
from fakeserver.storage.port.engine import Namespace
from fakeserver.waiting.interrupts import in_one_turn
from fakeserver.waiting.pause import Await, Park
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.commands.context import StatementLog
    from fakeserver.deployment.node import Node
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext
    from fakeserver.request.stage import Enter, Shape
    from fakeserver.sessions.session import Session
    from fakeserver.sessions.transactions import Routed, Transaction, TransactionRouter
    from fakeserver.storage.store.catalog import Catalog


_EXCLUSIVE: Final = frozenset(
    {"collMod", "convertToCapped", "drop", "dropDatabase", "dropIndexes", "renameCollection"}
)
"""The commands that need a collection for themselves, as under a server's exclusive lock."""


_WITH_A_STATE: Final = frozenset({"txnNumber", "autocommit", "startTransaction", "readConcern"})
"""The fields of retryable writes, of transactions, and of reads of earlier data."""


_COMMITTED: Final = frozenset({"majority", "snapshot"})
"""The read concerns that show what a majority has; a transaction proves by its commit that it has."""


class Execute(Stage):
    """Calls the handler.

    A failure is kept, not raised: it would end the walk, and the write concern is waited for all the same.
    """

    step = Step.EXECUTE

    def enter(self, request: RequestContext, now: float) -> Action:
        node, command = request.node, request.command
        assert command is not None
        turns = node.cluster.turns
        # A session with a transaction number is checked out by one command at a time. The other one gave way
        # in the middle of its run; a retry that overtook it would find no record of its statements.
        if request.txn_number is not None and turns.holds(request):
            return Await(turns.freed)
        try:
            context = request.execution.context
            if context is None:
                # Before anything is written; with `after` it decides on NoWritesPerformed.
                request.execution.before = node.oplog.last
                node.counters.count(request.spec.name, command)
                if node.fail_points.active:
                    _fail_before_run(request)
                context = request.execution.context = _context(request, now)
            else:
                context.run_again(now)
            if node.transactions.open and not request.has_autocommit:
                _wait_for_transactions(request, now)
            # Readers that gave way go on with the documents as they were, but not with other indexes.
            if request.spec.name in _EXCLUSIVE:
                context.check_writes(request.db)
                with in_one_turn():
                    request.response.body = request.spec.handler(context, command)
            else:
                request.response.body = request.spec.handler(context, command)
            if node.transaction_router is not None and request.routing.transaction is not None:
                _answered(request, request.routing.transaction)
        except Park as park:
            return park.action
        except CommandError as failure:
            request.response.failure = failure.without_frames()
            node.counters.count_failure(request.spec.name)
            # Any failed statement ends its transaction, as on a server: none can be half done.
            _abort(request)
        except Exception:
            _abort(request)
            raise
        request.execution.after = node.oplog.last
        _count_use(request, command, now)
        if request.connection.hang_up:
            return Disconnect("onPrimaryTransactionalWrite closes the connection")
        return PASS

    def entry(self, spec: CommandSpec | None, shape: Shape, node: Node) -> Enter:
        special = node.fail_points.active or not _WITH_A_STATE.isdisjoint(shape.names)
        if spec is None or spec.name in _EXCLUSIVE or special:
            return self.enter
        name = spec.name
        handler = spec.handler
        count, use = node.counters.counter(name), node.counters.user(name, spec.kind)
        clock = node.clock.now

        def enter(request: RequestContext, now: float) -> Action:
            execution = request.execution
            command: Any = request.command
            execution.before = node.oplog.last
            count(command)
            session_id, client = request.session_id, request.connection
            context = execution.context = CommandContext(
                node, client, request.db, now, node.catalog, node.cursors, request, session_id
            )
            try:
                if node.transactions.open:
                    node.transactions.expire(now)
                request.response.body = handler(context, command)
            except Park as park:
                return park.action
            except CommandError as failure:
                request.response.failure = failure.without_frames()
                node.counters.count_failure(name)
            execution.after = node.oplog.last
            if use is not None:
                use(request.db, command, clock() - now)
            return PASS

        return enter


def _fail_before_run(request: RequestContext) -> None:
    """Apply the fail points at the run, of which a mongos has none. Raises `CommandError`."""
    node, fail_points = request.node, request.node.fail_points
    if node.is_mongos:
        return
    if request.spec.name == "getMore" and fail_points.is_on(DISABLE_AWAIT_DATA):
        request.record_hit(DISABLE_AWAIT_DATA, "answer")
        request.execution.waits_until = request.arrived
    if request.session_id is not None and request.txn_number is not None:
        _fail_by(FAIL_AFTER_SESSION_CHECK_OUT, request)
    if request.spec.write_concern:
        _fail_by(FAIL_IN_RUN_COMMAND, request)


def _fail_by(name: str, request: RequestContext) -> None:
    code = request.node.fail_points.error_code(name)
    if code is not None:
        request.record_hit(name, "error")
        raise CommandError(code, f"{name} enabled.")


def _count_use(request: RequestContext, command: Mapping[str, Any], began: float) -> None:
    node, spec = request.node, request.spec
    use = node.counters.user(spec.name, spec.kind)
    if use is not None:
        use(request.db, command, node.clock.now() - began)


def _abort(request: RequestContext) -> None:
    """Abort the transaction that a failed command belongs to."""
    transaction = request.execution.context.transaction if request.execution.context is not None else None
    if transaction is not None and request.has_autocommit:
        request.node.transactions.abort(transaction)


def _wait_for_transactions(request: RequestContext, now: float) -> None:
    """Hold back a command that needs a collection for itself while a transaction uses it. Raises `Park`."""
    transactions = request.node.transactions
    transactions.expire(now)
    if request.spec.name not in _EXCLUSIVE or not transactions.blocks(_names(request)):
        return
    raise transactions.wait(now, request.deadline)


def _names(request: RequestContext) -> list[str]:
    command = request.command or {}
    target = first_argument(command)
    if request.spec.name == "renameCollection":
        return [str(target), str(command.get("to"))]
    return [f"{request.db}." if request.spec.name == "dropDatabase" else f"{request.db}.{target}"]


def _context(request: RequestContext, now: float) -> CommandContext:
    node = request.node
    transaction = _transaction(request, now) if request.has_autocommit else None
    catalog = node.catalog
    if transaction is not None:
        catalog = transaction.catalog or catalog
    elif "readConcern" in (request.command or {}) and request.spec.name not in {"getMore", "killCursors"}:
        # A cursor has read already, with the concern of the command that opened it.
        catalog = _as_of(request)
    return CommandContext(
        node,
        request.connection,
        request.db,
        now,
        catalog,
        node.cursors,
        request,
        request.session_id,
        None if request.txn_number is None else _statements(request, request.txn_number, now),
        transaction=transaction,
    )


def _transaction(request: RequestContext, now: float) -> Transaction:
    """Start, continue or end a transaction (`Transactions: Behavior`). Raises `CommandError`."""
    node, command = request.node, request.command or {}
    # Reads too: only the primary can order a transaction among the others. `ReplicaState` has let them pass.
    if not node.is_primary:
        raise CommandError(
            ErrorCode.NOT_WRITABLE_PRIMARY, "Not primary so we cannot begin or continue a transaction"
        )
    assert request.session_id is not None
    assert request.txn_number is not None
    # No timer runs: a transaction past its lifetime is aborted before anyone can notice that it was not.
    node.transactions.expire(now)
    session = node.sessions.use(request.session_id, now)
    if node.transaction_router is not None:
        _route(request, node.transaction_router, session, request.txn_number)
    if request.routing.transaction is not None and request.routing.transaction.recovering:
        shards = [shard.name for shard in node.cluster.shards]
        token = command.get("recoveryToken")
        return recover(node.transactions, session, request.txn_number, token, shards)
    api = declared(command)
    if not command.get("startTransaction"):
        transaction = node.transactions.proceed(session, request.txn_number, request.spec.name, api)
    else:
        source, lifetime = _as_of(request), _lifetime(request)
        transaction = node.transactions.start(
            session, request.txn_number, now, lifetime=lifetime, source=source, api=api
        )
    target = first_argument(command)
    if isinstance(target, str):
        transaction.touched[f"{request.db}.{target}"] = None
    return transaction


def _lifetime(request: RequestContext) -> float:
    """Return the lifetime of a transaction, in seconds: through a mongos it is the shard's parameter."""
    node, config = request.node, request.node.cluster.config
    if node.is_mongos and config is not None:
        shard = config.home_of(request.db)
        node = shard.primary or shard.nodes[0]
    return float(node.parameters["transactionLifetimeLimitSeconds"])


def _route(request: RequestContext, router: TransactionRouter, session: Session, number: int) -> None:
    """Begin or continue the transaction on this mongos. Raises `CommandError`."""
    starts = "startTransaction" in (request.command or {})
    commits = request.spec.name == "commitTransaction"
    routed = request.routing.transaction = router.route(session, number, starts=starts, commits=commits)
    if starts:
        routed.first_shard = _home(request, request.db)
    elif commits and not routed.recovering and not routed.answered:
        raise routed.unanswered(session)


def _answered(request: RequestContext, routed: Routed) -> None:
    """Note that a statement has succeeded, and add the recovery token to its reply."""
    routed.answered = True
    transaction = None if request.execution.context is None else request.execution.context.transaction
    if routed.recovery_shard is None and transaction is not None and transaction.changes:
        routed.recovery_shard = _home(request, transaction.changes[0].ns.db)
    request.response.body = {**(request.response.body or {}), "recoveryToken": routed.token}


def _home(request: RequestContext, db: str) -> str:
    config = request.node.cluster.config
    assert config is not None
    return config.home_of(db).name


def _as_of(request: RequestContext) -> Catalog:
    """Return the catalog for a read concern: as of `atClusterTime`, as of a majority, or the present one."""
    node, command = request.node, request.command or {}
    concern = command.get("readConcern") or {}
    at = concern.get("atClusterTime")
    if at is None:
        committed = concern.get("level") in _COMMITTED and not request.has_autocommit
        return node.committed().catalog if committed else node.catalog
    return as_of(node.history.catalog, node.oplog, at, Namespace(request.db, str(first_argument(command))))


def _statements(request: RequestContext, txn_number: int, now: float) -> StatementLog | None:
    """Begin or continue the retryable write (`Retryable Writes: Server support`)."""
    session_id = request.session_id
    if session_id is None or request.has_autocommit or not request.spec.retryable_write:
        return None
    session = request.node.sessions.use(session_id, now)
    session.begin(txn_number, Use.RETRYABLE_WRITE)

    def hook(_statement: int) -> None:
        # Without an error the statement is written and recorded, and the reply gets lost: the case that
        # a retry must recognise. So the connection is closed after the run, not here.
        fail_points = request.node.fail_points
        fault = fail_points.transactional_write() if fail_points.active else None
        if fault is None:
            return
        request.record_hit(ON_PRIMARY_TRANSACTIONAL_WRITE, "close" if fault.close else "error")
        if fault.close:
            request.connection.hang_up = True
        if fault.code is not None:
            raise CommandError(
                fault.code,
                f"Failing write for {session}:{session.txn_number} due to failpoint. The write must not be"
                " reflected.",
            )

    return RetryableWrite(session, hook, request.node.oplog)

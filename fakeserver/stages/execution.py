"""The run itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.commands.context import CommandContext
from fakeserver.commands.table import first_argument
from fakeserver.errors import CommandError
from fakeserver.failpoints import DISABLE_AWAIT_DATA, FAIL_AFTER_SESSION_CHECK_OUT, FAIL_IN_RUN_COMMAND
from fakeserver.interrupts import in_one_turn
from fakeserver.lag import committed
from fakeserver.pipeline import PASS, Action, Await, Disconnect, Park, Stage, Step
from fakeserver.sessions import RetryableWrite, Use
from fakeserver.stages.api_version import declared
from fakeserver.storage.engine import Namespace
from fakeserver.transaction_router import recover
from fakeserver.transactions import as_of
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.catalog import Catalog
    from fakeserver.commands.context import StatementLog
    from fakeserver.request import RequestContext
    from fakeserver.sessions import Session
    from fakeserver.transaction_router import Routed, TransactionRouter
    from fakeserver.transactions import Transaction


_EXCLUSIVE: Final = frozenset(
    {"collMod", "convertToCapped", "createIndexes", "drop", "dropDatabase", "dropIndexes", "renameCollection"}
)
"""What waits until no open transaction uses the collection, and has it for itself while it runs."""


class Execute(Stage):
    """Calls the handler. A failure is no reason to skip the write concern, so it is kept, not raised."""

    step = Step.EXECUTE

    def enter(self, request: RequestContext, now: float) -> Action:
        node, command = request.node, request.command
        assert command is not None
        turns = node.cluster.turns
        if request.txn_number is not None and turns.holds(request):
            return Await(turns.freed)
        try:
            context = request.context
            if context is None:
                request.before = node.oplog.last
                node.counters.count(request.spec.name, command)
                if node.fail_points.active:
                    _fail_before_run(request)
                context = request.context = _context(request, now)
            else:
                context.run_again(now)
            if node.transactions.open and not request.has_autocommit:
                _wait_for_transactions(request, now)
            if request.spec.name in _EXCLUSIVE:
                with in_one_turn():
                    request.body = request.spec.handler(context, command)
            else:
                request.body = request.spec.handler(context, command)
            if request.routed is not None:
                _answered(request, request.routed)
        except Park as park:
            return park.action
        except CommandError as failure:
            request.failure = failure.without_frames()
            node.counters.count_failure(request.spec.name)
            _abort(request)
        except Exception:
            _abort(request)
            raise
        request.after = node.oplog.last
        if request.connection.hang_up:
            return Disconnect("onPrimaryTransactionalWrite closes the connection")
        return PASS


def _fail_before_run(request: RequestContext) -> None:
    """Have the fail points at the run their way, of which a mongos has none. Raises `CommandError`."""
    node, fail_points = request.node, request.node.fail_points
    if node.is_mongos:
        return
    if request.spec.name == "getMore" and fail_points.is_on(DISABLE_AWAIT_DATA):
        node.record_hit(DISABLE_AWAIT_DATA, request, "answer")
        request.waits_until = request.arrived
    if request.session_id is not None and request.txn_number is not None:
        _fail_by(FAIL_AFTER_SESSION_CHECK_OUT, request)
    if request.spec.write_concern:
        _fail_by(FAIL_IN_RUN_COMMAND, request)


def _fail_by(name: str, request: RequestContext) -> None:
    code = request.node.fail_points.error_code(name)
    if code is not None:
        request.node.record_hit(name, request, "error")
        raise CommandError(code, f"{name} enabled.")


def _abort(request: RequestContext) -> None:
    """Abort the transaction that a failed command belongs to."""
    transaction = request.context.transaction if request.context is not None else None
    if transaction is not None and request.has_autocommit:
        request.node.transactions.abort(transaction)


def _wait_for_transactions(request: RequestContext, now: float) -> None:
    """Hold a command back that needs a collection for itself. Raises `Park`."""
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
    elif request.command is not None and "readConcern" in request.command and _selects(request):
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


def _selects(request: RequestContext) -> bool:
    """Say whether a command reads collections by itself, not what a cursor has read of them."""
    return request.spec.name not in {"getMore", "killCursors"}


def _transaction(request: RequestContext, now: float) -> Transaction:
    """Start, continue or end a transaction (`Transactions: Behavior`). Raises `CommandError`."""
    node, command = request.node, request.command or {}
    if not node.is_primary:
        raise CommandError(
            ErrorCode.NOT_WRITABLE_PRIMARY, "Not primary so we cannot begin or continue a transaction"
        )
    assert request.session_id is not None
    assert request.txn_number is not None
    node.transactions.expire(now)
    session = node.sessions.use(request.session_id, now)
    if node.transaction_router is not None:
        _route(request, node.transaction_router, session, request.txn_number)
    if request.routed is not None and request.routed.recovering:
        return _recover(request, session, request.txn_number)
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
    """Return how long a transaction may live, in seconds: behind a mongos as the shard says."""
    node, config = request.node, request.node.cluster.config
    if node.is_mongos and config is not None:
        shard = config.home_of(request.db)
        node = shard.primary or shard.nodes[0]
    return float(node.parameters["transactionLifetimeLimitSeconds"])


def _route(request: RequestContext, router: TransactionRouter, session: Session, number: int) -> None:
    """Ask the mongos what it knows of the transaction. Raises `CommandError`."""
    starts = "startTransaction" in (request.command or {})
    commits = request.spec.name == "commitTransaction"
    routed = request.routed = router.route(session, number, starts=starts, commits=commits)
    if starts:
        routed.first_shard = _home(request, request.db)
    elif commits and not routed.recovering and not routed.answered:
        raise routed.unanswered(session)


def _recover(request: RequestContext, session: Session, number: int) -> Transaction:
    """Return the transaction whose commit has come to another mongos. Raises `CommandError`."""
    node, token = request.node, (request.command or {}).get("recoveryToken")
    shards = [shard.name for shard in node.cluster.shards]
    return recover(node.transactions, session, number, token, shards)


def _answered(request: RequestContext, routed: Routed) -> None:
    """Note what a statement has come to, and add the recovery token to its reply."""
    routed.answered = True
    transaction = None if request.context is None else request.context.transaction
    if routed.recovery_shard is None and transaction is not None and transaction.changes:
        routed.recovery_shard = _home(request, transaction.changes[0].ns.db)
    request.body = {**(request.body or {}), "recoveryToken": routed.token}


def _home(request: RequestContext, db: str) -> str:
    config = request.node.cluster.config
    assert config is not None
    return config.home_of(db).name


def _as_of(request: RequestContext) -> Catalog:
    """Return the catalog at the time that a snapshot read names, as a majority has it, or the present one."""
    node, command = request.node, request.command or {}
    concern = command.get("readConcern") or {}
    at = concern.get("atClusterTime")
    if at is None:
        majority = concern.get("level") == "majority" and not request.has_autocommit
        return committed(node) if majority else node.catalog
    return as_of(node.cluster.catalog, node.oplog, at, Namespace(request.db, str(first_argument(command))))


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

"""The value that a command's handler works with: its server, its client, its data, its time.

A handler is a function of this context and the command. It never waits: where it must, it raises `Park`, and
the same context is called again later. What statements of the earlier calls came to is kept in it, so that
nothing is done twice.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final, Protocol

from bson import Timestamp

from fakeserver.access.privileges import CLUSTER
from fakeserver.commands.scripting import ScriptRunner
from fakeserver.errors import CommandError, WriteError
from fakeserver.idl.fields import first_argument
from fakeserver.settings.failpoints import FAIL_GET_MORE
from fakeserver.storage.port.engine import Changed, Namespace, Query
from fakeserver.storage.port.oplog import Written
from fakeserver.storage.store.catalog import BUILT_IN
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson import Binary, ObjectId

    from fakeserver.access.privileges import Privileges
    from fakeserver.access.session import ConnectionState
    from fakeserver.deployment.node import Node
    from fakeserver.request.context import RequestContext
    from fakeserver.sessions.cursors import CursorStore
    from fakeserver.sessions.transactions import Transaction
    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.store.catalog import Catalog, Collection


_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 -- BSON dates are decoded as naive UTC


class StatementLog(Protocol):
    """The record that makes a retried write answer with its first result.

    Retryable Writes, server side: per session and transaction number, one record per executed statement.
    """

    def executed(self, statement: int) -> Mapping[str, Any] | None:
        """Return what is recorded of a statement that was applied, or None if it was not yet."""
        ...

    def record(self, statement: int, written: Mapping[str, Any]) -> None:
        """Remember what a statement has written (`op`, `_id`), and the document that it returns (`image`)."""
        ...

    def before_write(self, statement: int) -> None:
        """Give `onPrimaryTransactionalWrite` its chance; raises to fail or to hang up instead of writing."""
        ...


class CommandContext:
    """One running command: the node it runs on, who asked, and the services it may use.

    `now` is the instant of the clock (seconds) at which the handler is called, `request.arrived` the one at
    which the request came; handlers never ask for time. `statements` is None unless the command is a
    retryable write, `transaction` unless it runs in one, whose `catalog` it then has. Class attributes hold
    until a handler sets another value.
    """

    retried: list[int] | None = None
    cursor_checked_out: bool = False
    changes: int = 0
    """Documents that the running statement has changed, those before the command had to wait included."""
    _updated: dict[Any, Changed] | None = None
    _scripts: ScriptRunner | None = None
    _present: dt.datetime | None = None
    _cluster_time: Timestamp | None = None

    def __init__(
        self,
        node: Node,
        connection: ConnectionState,
        db: str,
        now: float,
        catalog: Catalog,
        cursors: CursorStore,
        request: RequestContext,
        session_id: bytes | None = None,
        statements: StatementLog | None = None,
        transaction: Transaction | None = None,
    ) -> None:
        self.node = node
        self.connection = connection
        self.db = db
        self.finished: dict[int, Any] = {}
        """The results and errors of statements that ran before the command had to wait."""
        self.now = now
        self.catalog = catalog
        self.cursors = cursors
        self.request = request
        self.session_id = session_id
        self.statements = statements
        self.transaction = transaction

    @property
    def updated(self) -> dict[Any, Changed]:
        """The changes of an update of many documents, which another run does not repeat (`Update.done`)."""
        if self._updated is None:
            self._updated = {}
        return self._updated

    @property
    def scripts(self) -> ScriptRunner:
        """The runner of the command's JavaScript."""
        if self._scripts is None:
            self._scripts = ScriptRunner(self)
        return self._scripts

    def run_again(self, now: float) -> None:
        """Begin another run of a command that had to wait. Raises `CommandError` 50."""
        self.now = now
        if self._scripts is not None:
            self._scripts.run_again()

    def check_for_interrupt(self) -> None:
        """Say whether it may go on after others had their turn. Raises `CommandError` 290, 11601 or 11602."""
        transaction = self.transaction
        if transaction is not None and transaction.catalog is None:
            if transaction.expires <= self.node.clock.now():
                raise CommandError(
                    ErrorCode.TRANSACTION_EXCEEDED_LIFETIME_LIMIT_SECONDS,
                    "operation was interrupted because the transaction exceeded the configured"
                    " 'transactionLifetimeLimitSeconds'",
                )
            raise CommandError(ErrorCode.INTERRUPTED, "operation was interrupted")
        if self.request.spec.kind == "write" and not self.node.is_primary:
            raise CommandError(
                ErrorCode.INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
                "operation was interrupted because of a change of the replica set's state",
            )

    def statement_done(self, number: int, outcome: Any) -> None:
        """Remember what a statement came to, its result or its error: another run does not repeat it."""
        self.finished[number] = outcome
        self.changes = 0
        if self._updated:
            self._updated = None
        if self._scripts is not None:
            self._scripts.statement_done()

    def object_id(self) -> ObjectId:
        """Return a new ObjectId, later than all that the node has made."""
        return self.node.object_ids.new()

    def utc(self) -> dt.datetime:
        """Return the date and time as BSON has them: UTC, to the millisecond."""
        seconds, milliseconds = divmod(int(self.node.clock.utc() * 1000), 1000)
        return _EPOCH + dt.timedelta(0, seconds, milliseconds * 1000)

    def cluster_time(self) -> Timestamp | None:
        """Return what `$$CLUSTER_TIME` means, None on a standalone, which has no such time."""
        if self._cluster_time is None and self.node.is_replicated:
            self._cluster_time = self.node.oplog.last.timestamp
        return self._cluster_time

    def time_of_update(self) -> Timestamp:
        """Return what `$$CLUSTER_TIME` means in an update: on a standalone it is the time of the write."""
        if self._cluster_time is None:
            self._cluster_time = self.cluster_time() or self.timestamp()
        return self._cluster_time

    def renew_cluster_time(self) -> None:
        """Have `$$CLUSTER_TIME` mean the newest time again."""
        self._cluster_time = None

    def present(self) -> dt.datetime:
        """Return what `$$NOW` means: one date and time for all of the command."""
        if self._present is None:
            self._present = self.utc()
        return self._present

    def builtins(self) -> dict[str, Any]:
        """Return the values of the variables that a server brings: `$$NOW` and `$$CLUSTER_TIME`."""
        return Query(now=self.present(), cluster_time=self.cluster_time()).builtins()

    def timestamp(self) -> Timestamp:
        """Return the time of the operation that is about to be written."""
        last = self.node.oplog.last
        seconds = int(self.node.clock.utc())
        return (
            Timestamp(seconds, 1) if seconds > last.seconds else Timestamp(last.seconds, last.increment + 1)
        )

    def applied(self, ns: Namespace, change: Changed, collection: Collection | None = None) -> None:
        """Enter a change of data in the oplog, that of a transaction at its commit."""
        if self.node.cluster.write_block is not None:
            self.check_writes(ns.db)
        kind = "inserted" if change.before is None else "deleted" if change.after is None else "updated"
        self.node.counters.documents[kind] += 1
        if collection is None:
            collection = self.catalog.get(ns)
        if collection is None:
            written = Written(ns, change)
        else:
            written = Written(ns, change, collection.uuid, collection.keeps_images)
        self._enter(written)

    def check_writes(self, db: str) -> None:
        """Refuse a write while those of users are blocked. Raises `WriteError` 371."""
        if self.node.cluster.write_block is None or db in BUILT_IN:
            return
        privileges = self.privileges
        if privileges is None or not privileges.permit(CLUSTER, "bypassWriteBlockingMode"):
            raise WriteError(ErrorCode.USER_WRITES_BLOCKED, "User writes blocked")

    def command_applied(
        self, db: str, command: Document, *, uuid: Binary | None = None, detail: Document | None = None
    ) -> None:
        """Enter a change of collections or indexes in the oplog, as a command of the database."""
        written = Written(Namespace(db, "$cmd"), Changed(None, command), uuid, detail=detail or {})
        self._enter(written)

    def _enter(self, written: Written) -> None:
        if self.transaction is None:
            self.node.oplog.append((written,))
        else:
            self.transaction.changes.append(written)

    def ensure(self, ns: Namespace) -> tuple[Collection, bool]:
        """Return a collection, and whether it had to be made, which is entered in the oplog.

        Raises `WriteError` 166 for a view, and as `check_name` does.
        """
        collection = self.catalog.get(ns)
        if collection is None:
            self.check_name(ns)
        elif not collection.is_view:
            return collection, False
        collection, made = self.catalog.ensure(ns)
        if made:
            self.collection_created(collection)
        return collection, made

    def check_name(self, ns: Namespace) -> None:
        """Ask whether a collection may be made, whose name is free.

        Raises `Park` as long as a transaction is about to make it, `CommandError` 50 if that takes too long,
        `WriteError` 371 while users may not write, 263 for what a transaction before 4.4 cannot make.
        """
        self.check_writes(ns.db)
        if not self.in_transaction:
            if self.node.transactions.holds_name(ns):
                raise self.waits()
        elif not self.node.profile.makes_collections_in_transactions:
            raise WriteError(
                ErrorCode.OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                f"Cannot create namespace {ns} in multi-document transaction.",
            )

    def waits(self) -> Exception:
        """Return the exception that has a command run again when a transaction ends, or at its deadline."""
        return self.node.transactions.wait(self.now, self.request.deadline)

    def collection_created(self, collection: Collection) -> None:
        """Enter the making of a collection or a view in the oplog."""
        self._enter(collection.creation)

    @property
    def privileges(self) -> Privileges | None:
        """The privileges of the client; None where there is no access control."""
        node = self.node
        if not node.auth:
            return None
        return self.connection.identity.privileges(node.users, bypass=node.bypasses(self.connection))

    @property
    def who(self) -> frozenset[tuple[str, str]]:
        """The client's users, nobody where there is no access control."""
        return self.connection.identity.names if self.node.auth else frozenset()

    @property
    def in_transaction(self) -> bool:
        """Whether the command belongs to a multi-document transaction."""
        return self.request.has_autocommit

    @property
    def time_left(self) -> float | None:
        """The rest of the command's time limit in seconds; None without one."""
        deadline = self.request.deadline
        return None if deadline is None else max(deadline - self.now, 0.0)

    def wait_until(self, seconds: float) -> float:
        """Return the end of a wait that began when the command first asked for it.

        What delayed the command before, such as a fail point, does not count.
        """
        if self.request.execution.waits_until is None:
            self.request.execution.waits_until = self.now + seconds
        return self.request.execution.waits_until

    def check_out_cursor(self) -> None:
        """Give `failGetMoreAfterCursorCheckout` its chance, once a getMore has its cursor.

        Raises `CommandError`, upon which the cursor is to be destroyed.
        """
        if self.cursor_checked_out:
            return
        self.cursor_checked_out = True
        fail_points = self.node.fail_points
        if fail_points.active:
            failure = fail_points.get_more_failure(self.request.fail_point_target(self.node))
            if failure is not None:
                self.request.record_hit(FAIL_GET_MORE, "error")
                self.request.faults.rewrites_state_changes = False
                raise failure


def namespace(ctx: CommandContext, request: Mapping[str, Any]) -> Namespace:
    """Return the namespace that a command's first field names."""
    return Namespace(ctx.db, str(first_argument(request)))


def check_uuid(request: Mapping[str, Any], ns: Namespace, collection: Collection | None) -> None:
    """Refuse a `collectionUUID` that is not the collection's. Raises `CommandError` 361."""
    wanted = request.get("collectionUUID")
    if wanted is None or (collection is not None and collection.uuid == wanted):
        return
    raise CommandError(
        ErrorCode.COLLECTION_UUID_MISMATCH,
        "Collection UUID does not match that specified",
        extra={
            "db": ns.db,
            "collectionUUID": wanted,
            "expectedCollection": ns.collection,
            "actualCollection": None,
        },
    )

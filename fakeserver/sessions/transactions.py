"""Multi-document transactions (`Transactions`, server side): snapshot isolation over forks of the data.

A transaction works on a fork of the catalog and its engine, made when it starts: the fork is its snapshot,
and holds its own writes as well. Stored documents are values that forks share, so "changed since the
snapshot" is a comparison of identities. No version numbers are kept (docs/adr/0007).

    start     IN_PROGRESS, with an expiry (`transactionLifetimeLimitSeconds`)
    claim     before a change is stored in the fork, its unique keys are claimed for the whole deployment
    commit    COMMITTED: the changes are put into the deployment's engine, under one operation time
    abort     ABORTED: the fork is dropped. By the client, a failed statement, a higher number on the session,
              the expiry, a step-down of the primary, or killSessions

Conflicts. The first writer of a key wins: a second transaction has 112 WriteConflict at once, as on a server,
where a transaction never waits for another's write. A claim also fails if the deployment's document is no
longer the object that the fork has: somebody has committed a change since the snapshot. All unique keys of a
document are claimed, before and after the change, so that two transactions cannot both insert a value of a
unique index, nor one take a value that the other is about to free.

A plain write waits for a claim instead, as a server retries it inside until the other has ended. It asks for
each change right before that is stored, and nothing else runs between the two, so it needs no claims.

The end. A commit can be repeated and succeeds again, since the client may not have seen the first reply; for
anything else a committed transaction is 256. An aborted one is 251 for everything, a repeated abort included.
The outcome is kept in the session until the next number. Nothing here is prepared: the shards share one
store, so a commit over several of them is one step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError, expired
from fakeserver.sessions.session import Use, numbers
from fakeserver.storage.values.printing import show_document
from fakeserver.waiting.bell import Bell
from fakeserver.waiting.pause import Park
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping

    from bson import Timestamp

    from fakeserver.sessions.session import Session, SessionCatalog
    from fakeserver.storage.port.engine import Changed, Namespace
    from fakeserver.storage.port.oplog import Oplog, OpTime, Written
    from fakeserver.storage.store.catalog import Catalog, Workspace


LIFETIME: Final = 60.0
"""Seconds after which a transaction that does not end is aborted, by default."""


class State(Enum):
    """The state of a transaction, in the words of the server's messages."""

    IN_PROGRESS = "TransactionState::kInProgress"
    COMMITTED = "TransactionState::kCommitted"
    ABORTED = "TransactionState::kAbortedWithoutPrepare"


@dataclass(eq=False)
class Transaction:
    """One transaction."""

    table: Transactions
    """The deployment's transactions, to which it belongs."""
    catalog: Workspace | None
    """The fork that its statements work on, None once it has ended."""
    session_id: bytes | None = None
    number: int = -1
    """Its transaction number."""
    expires: float = math.inf
    """The instant at which it is aborted, if it has not ended."""
    state: State = State.IN_PROGRESS
    committed_at: OpTime | None = None
    """The last operation when it was committed: its own, if it wrote anything."""
    changes: list[Written] = field(default_factory=list)
    """Its writes, in order, as the commit will put them into the oplog."""
    held: dict[tuple[Namespace, Hashable], None] = field(default_factory=dict)
    """Its claims: a unique key of a collection, or None for a collection's name. Ordered, as sets are not."""
    touched: dict[str, None] = field(default_factory=dict)
    """The collections that it has used, `db.collection`; a command that needs one for itself waits."""
    api: Mapping[str, Any] = field(default_factory=dict)
    """The API parameters of its first statement, which each later one must repeat."""

    def claim(self, ns: Namespace, change: Changed) -> None:
        """Take the unique keys of a change, before it is made.

        Raises `CommandError` 112 if another was first.
        """
        assert self.catalog is not None
        engine, shared = self.catalog.engine, self.table.catalog.engine
        # The collection was dropped or replaced since the snapshot. One that is new in the fork has no other.
        if ns not in self.catalog.made and self.table.catalog.get(ns) is not self.catalog.get(ns):
            raise _write_conflict()
        for document in (change.before, change.after):
            for key in [] if document is None else engine.claims(ns, document):
                if (ns, key) not in self.held:
                    self._take(ns, key, unchanged=shared.claimant(ns, key) is engine.claimant(ns, key))

    def claim_name(self, ns: Namespace) -> None:
        """Take the name of a collection that is about to be made."""
        self._take(ns, None, unchanged=self.table.catalog.get(ns) is None)

    def _take(self, ns: Namespace, key: Hashable, *, unchanged: bool) -> None:
        claim = (ns, key)
        if claim in self.table.holders or not unchanged:
            raise _write_conflict()
        self.held[claim] = None
        self.table.holders[claim] = self


class Transactions:
    """The transactions of a deployment. Instants are seconds of the caller's clock.

    Members of a shard (`in_shard`) may start an aborted transaction again under its number.
    """

    def __init__(self, catalog: Catalog, oplog: Oplog, *, in_shard: bool = False) -> None:
        self.catalog = catalog
        self.holders: dict[tuple[Namespace, Hashable], Transaction] = {}
        """The claims of all open transactions."""
        self.open: dict[bytes, Transaction] = {}
        """The transactions in progress, by session."""
        self.ended = Bell()
        """Rings when a transaction has ended, and what it claimed is free."""
        self.started = self.committed = self.aborted = 0
        self._oplog = oplog
        self._in_shard = in_shard

    def anew(self, catalog: Catalog, oplog: Oplog) -> Transactions:
        """Return the transactions of a history that begins: none is open, for only their primary had them."""
        anew = Transactions(catalog, oplog, in_shard=self._in_shard)
        anew.started, anew.committed = self.started, self.committed
        anew.aborted = self.aborted + len(self.open)
        return anew

    # The state machine.

    def start(
        self,
        session: Session,
        number: int,
        now: float,
        *,
        lifetime: float = LIFETIME,
        source: Catalog | None = None,
        api: Mapping[str, Any] | None = None,
    ) -> Transaction:
        """Start a transaction on a session; an older one that is open is aborted.

        `source` is the catalog as it was at the time to read from, by default the present one. Raises
        `CommandError` 225 for an old number, 117 (50911 in a shard) for one that was used.
        """
        current = session.transaction
        if number == session.txn_number:
            self._check_restart(number, current)
        session.begin(number, Use.TRANSACTION)
        transaction = session.transaction = Transaction(self, None)
        transaction.catalog = (source or self.catalog).fork(transaction.claim_name)
        transaction.session_id, transaction.number = session.id, number
        transaction.expires, transaction.api = now + lifetime, api or {}
        self.open[session.id] = transaction
        self.started += 1
        return transaction

    def _check_restart(self, number: int, current: Transaction | None) -> None:
        # A mongos may have to restart a transaction on a shard under its number, after a stale routing table
        # made the first statement fail; outside of a cluster nobody has a reason to.
        if not self._in_shard:
            raise CommandError(
                ErrorCode.CONFLICTING_OPERATION_IN_PROGRESS,
                "Only servers in a sharded cluster can start a new transaction at the active transaction"
                " number",
            )
        state = "TransactionState::kExecutedRetryableWrite" if current is None else current.state.value
        if current is None or current.state is not State.ABORTED:
            raise CommandError(
                _CANNOT_RESTART,
                f"Cannot start a transaction at given transaction number {number} a transaction with the same"
                f" number is in state {state}",
            )

    def proceed(
        self, session: Session, number: int, command: str, api: Mapping[str, Any] | None = None
    ) -> Transaction:
        """Return the transaction that a statement continues or ends; `api` is what the statement declares.

        Raises `CommandError` 225, 251 NoSuchTransaction, 256 TransactionCommitted and 347 APIMismatchError.
        """
        if number < session.txn_number:
            session.begin(number, Use.TRANSACTION)  # raises 225, with the message for a transaction
        transaction = session.transaction
        if transaction is None or number != session.txn_number:
            raise CommandError(
                ErrorCode.NO_SUCH_TRANSACTION,
                f"Given transaction number {number} on session {session} using txnRetryCounter 0 does not"
                f" match any in-progress transactions. The active transaction number is {session.txn_number}",
            )
        if api is not None and api != transaction.api:
            raise CommandError(
                ErrorCode.API_MISMATCH_ERROR,
                f"API parameter mismatch: transaction-continuing command used {show_document(api)}, the"
                f" transaction's first command used {show_document(transaction.api)}",
            )
        shown = f"Transaction with {numbers(number)} has been"
        if transaction.state is State.ABORTED:
            raise CommandError(ErrorCode.NO_SUCH_TRANSACTION, f"{shown} aborted.")
        if transaction.state is State.COMMITTED and command != "commitTransaction":
            raise CommandError(ErrorCode.TRANSACTION_COMMITTED, f"{shown} committed.")
        return transaction

    def commit(self, transaction: Transaction) -> None:
        """Publish the changes, all at one operation time. Committing again changes nothing."""
        if transaction.state is not State.IN_PROGRESS:
            return
        assert transaction.catalog is not None
        for collection in transaction.catalog.made.values():
            self.catalog.adopt(collection)
        for written in transaction.changes:
            # Entries such as `create` describe what `adopt` has done already.
            if written.ns.collection != _COMMANDS:
                self.catalog.engine.put(written.ns, written.change)
        # One entry for all: change streams and causal reads see the transaction whole or not at all.
        if transaction.changes:
            self._oplog.append(
                transaction.changes, session_id=transaction.session_id, txn_number=transaction.number
            )
        self.committed += 1
        transaction.committed_at = self._oplog.last
        self._end(transaction, State.COMMITTED)

    def abort(self, transaction: Transaction) -> None:
        """Drop the changes; a transaction that has ended stays as it is."""
        if transaction.state is State.IN_PROGRESS:
            self.aborted += 1
            self._end(transaction, State.ABORTED)

    # Others that end them.

    def abort_sessions(self, session_ids: Iterable[bytes]) -> None:
        """Abort the open transactions of these sessions."""
        for session_id in session_ids:
            transaction = self.open.get(session_id)
            if transaction is not None:
                self.abort(transaction)

    def abort_all(self) -> None:
        """Abort all that are open, as a primary does that steps down: they were never replicated."""
        self.abort_sessions(list(self.open))

    def expire(self, now: float) -> None:
        """Abort those past their lifetime. A server's reaper does it every second; here whoever asks does."""
        self.abort_sessions([key for key, each in self.open.items() if each.expires <= now])

    # Writes outside of transactions.

    def holds(self, ns: Namespace, change: Changed) -> bool:
        """Say whether an open transaction has claimed a unique key of a change that is not stored yet."""
        holders, claims = self.holders, self.catalog.engine.claims
        return any(
            (ns, key) in holders
            for document in (change.before, change.after)
            if document is not None
            for key in claims(ns, document)
        )

    def holds_name(self, ns: Namespace) -> bool:
        """Say whether an open transaction is about to make a collection of that name."""
        return (ns, None) in self.holders

    def wait(self, now: float, deadline: float | None) -> Exception:
        """Return the exception for a command that is blocked: a wait for the end of a transaction, or 50."""
        if deadline is not None and now >= deadline:
            return expired()
        # No timer aborts a transaction that expires: the wait ends then, and the command asks again.
        expiry = min((each.expires for each in self.open.values()), default=now)
        return Park(self.ended, expiry if deadline is None else min(expiry, deadline))

    def blocks(self, names: Iterable[str]) -> bool:
        """Say whether an open transaction has used one of these collections (`db.collection`, or `db.`)."""
        return any(
            used == name or (name.endswith(".") and used.startswith(name))
            for each in self.open.values()
            for used in each.touched
            for name in names
        )

    def _end(self, transaction: Transaction, state: State) -> None:
        transaction.state, transaction.catalog = state, None
        for claim in transaction.held:
            del self.holders[claim]
        transaction.held, transaction.changes = {}, []
        if transaction.session_id is not None:
            del self.open[transaction.session_id]
        self.ended.ring()

    def status(self) -> dict[str, int]:
        """Return the counters of `serverStatus.transactions`; between two statements all are inactive."""
        return {
            "currentActive": 0,
            "currentInactive": len(self.open),
            "currentOpen": len(self.open),
            "totalAborted": self.aborted,
            "totalCommitted": self.committed,
            "totalStarted": self.started,
        }


_COMMANDS: Final = "$cmd"
_CANNOT_RESTART: Final = 50911


def _write_conflict() -> CommandError:
    return CommandError(
        ErrorCode.WRITE_CONFLICT,
        "Caused by :: Write conflict during plan execution and yielding is disabled. :: Please retry your"
        " operation or multi-document transaction.",
    )


def as_of(catalog: Catalog, oplog: Oplog, at: Timestamp, ns: Namespace) -> Catalog:
    """Return the catalog as it was at a time (`Read Concern: snapshot`), to read `ns` and others from.

    Later writes are undone on a fork. Raises `CommandError` 239 SnapshotTooOld for a time before
    the kept operations, 246 SnapshotUnavailable when `ns` was dropped or renamed since, and 72 for a time
    that has not come.
    """
    last = oplog.last.timestamp
    # A server would wait for a time that is close ahead; here the clock of the oplog only moves with writes.
    if at > last:
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            "readConcern atClusterTime value must not be greater than the current clusterTime. Requested"
            f" clusterTime: {_shown(at)}; current clusterTime: {_shown(last)}",
        )
    if not oplog.reaches_back_to(at):
        raise CommandError(
            ErrorCode.SNAPSHOT_TOO_OLD,
            f"Read timestamp {_shown(at)} is older than the oldest available timestamp.",
        )
    past = catalog.fork()
    for entry in reversed(oplog.after(at)):
        for written in reversed(entry.changes):
            collection = past.get(written.ns)
            if written.ns.collection == _COMMANDS:
                # What a drop or rename took away cannot be brought back by undoing documents.
                command = written.change.after or {}
                if "dropDatabase" in command:
                    removes = written.ns.db == ns.db
                elif "renameCollection" in command:
                    removes = str(ns) in (command["renameCollection"], command.get("to"))
                else:
                    removes = "drop" in command and (written.ns.db, command["drop"]) == ns
                if removes:
                    raise _snapshot_unavailable(at)
            elif collection is not None and collection.uuid == written.uuid:
                # Another collection may have the name today; its documents are not the ones to undo.
                past.engine.put(written.ns, written.change.undone)
    return past


def _snapshot_unavailable(at: Timestamp) -> CommandError:
    return CommandError(
        ErrorCode.SNAPSHOT_UNAVAILABLE,
        "Unable to read from a snapshot due to pending collection catalog changes; please retry the"
        f" operation. Snapshot timestamp is {_shown(at)}.",
    )


def _shown(time: Timestamp) -> str:
    return f"Timestamp({time.time}, {time.inc})"


# The transactions that are run through one mongos (`Transactions: Sharded Transactions`).
#
# A mongos has no other state: the shards that take part in a transaction are known to the router of its
# first statement alone. So a client pins a transaction to one mongos, and any other answers its statements
# with 251.
#
# A commit is the exception. When the first mongos has died, it may come to another one, with the recovery
# token of the replies. The token names a shard that the transaction has written to, and that shard knows
# the outcome. Without a write there is no outcome to know, and the token is empty.


_NO_RECOVERY_TOKEN: Final = 50940


@dataclass(slots=True)
class Routed:
    """One session's newest transaction as a mongos has seen it."""

    number: int
    first_shard: str = ""
    """The shard of its first statement."""
    recovering: bool = False
    """Its commit is the first command that came here: another mongos has run the statements."""
    answered: bool = False
    """A statement has succeeded, so there is something that can be committed."""
    recovery_shard: str | None = None
    """The shard of its first write."""

    @property
    def token(self) -> dict[str, str]:
        """The `recoveryToken` of its replies: empty while nothing was written."""
        return {} if self.recovery_shard is None else {"recoveryShardId": self.recovery_shard}

    def unanswered(self, session: Session) -> CommandError:
        """Return the refusal of a commit when no statement has succeeded."""
        return CommandError(
            ErrorCode.NO_SUCH_TRANSACTION,
            f"{session}:{self.number} Failed to commit transaction because a previous statement on the"
            f" transaction participant {self.first_shard} was unsuccessful.",
        )


class TransactionRouter:
    """The transactions of one mongos, by session. It forgets those whose sessions are forgotten."""

    def __init__(self) -> None:
        self._routed: dict[bytes, Routed] = {}

    def route(self, session: Session, number: int, *, starts: bool = False, commits: bool = False) -> Routed:
        """Begin or continue a transaction with a command that `starts` or `commits` it, or neither.

        Raises `CommandError` 225 for an old number, 117 for a start of one that began here, and 251 for a
        statement of one that did not.
        """
        routed = self._routed.get(session.id)
        known = -1 if routed is None else routed.number
        if number < known:
            raise CommandError(
                ErrorCode.TRANSACTION_TOO_OLD,
                f"txnNumber {number} is less than last txnNumber {known} seen in session {session}",
            )
        if routed is not None and number == known:
            if starts:
                raise CommandError(
                    ErrorCode.CONFLICTING_OPERATION_IN_PROGRESS,
                    f"txnNumber {number} txnRetryCounter 0 for session {session} already started",
                )
            return routed
        if not starts and not commits:
            raise CommandError(
                ErrorCode.NO_SUCH_TRANSACTION,
                f"cannot continue txnId {known} for session {session} with txnRetryCounter 0",
            )
        begun = self._routed[session.id] = Routed(number, recovering=not starts)
        return begun

    def clear(self) -> None:
        """Forget all transactions."""
        self._routed.clear()

    def keep_sessions(self, sessions: SessionCatalog) -> None:
        """Forget the transactions of sessions that are no longer known."""
        self._routed = {key: routed for key, routed in self._routed.items() if key in sessions}

    def __len__(self) -> int:
        """Return the number of sessions with a transaction."""
        return len(self._routed)


def recover(
    transactions: Transactions, session: Session, number: int, token: Any, shards: Collection[str]
) -> Transaction:
    """Return the transaction that a commit on another mongos asks about, once its outcome is certain.

    An open one is aborted first: the mongos that could have committed it is gone, and it would hold its
    claims until it expires. Raises `CommandError` 50940 without a token, 70 for one that names no shard, 225,
    and 251 unless the transaction was committed.
    """
    if token is None:
        raise CommandError(
            _NO_RECOVERY_TOKEN, "Cannot recover the transaction decision without a recoveryToken"
        )
    shard = token.get("recoveryShardId")
    if shard is None:
        raise CommandError(
            ErrorCode.NO_SUCH_TRANSACTION,
            "Recovery token is empty, meaning the transaction only performed reads and can be safely retried",
        )
    if shard not in shards:
        raise CommandError(ErrorCode.SHARD_NOT_FOUND, f"Shard {shard} not found")
    transaction = transactions.proceed(session, number, "commitTransaction")
    if transaction.state is State.IN_PROGRESS:
        transactions.abort(transaction)
        transactions.proceed(session, number, "commitTransaction")
    return transaction

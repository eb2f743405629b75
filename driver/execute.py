"""The one loop: select a server, check a connection out, send, decide, wait, and again.

Every command of every operation goes through `Executor.execute`. What is decided is decided elsewhere,
without waiting: which server by `sdam.selection`, whether to try again by `RetryPolicy`, which error is
raised by `worse`, what an error means for discovery by `sdam.error_handling`. This shell joins them.

The order within an attempt is the specifications'. A server comes first, as what is sent depends on it. The
message comes after the check-out, so that it carries the newest cluster time, and a server session is taken
no earlier than it is needed. Discovery hears of an error before the connection goes back, so that its pool is
cleared before it could lend the connection again. Only then is the retry decided.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from driver import message
from driver.cmap.member import ConnectionUse
from driver.cmap.pool import Lease
from driver.errors import (
    DriverError,
    InvalidArgumentError,
    NetworkError,
    OperationTimeoutError,
    PoolClearedError,
    ServerError,
    WriteConcernError,
    actionable,
    is_overload,
    is_retryable_overload,
    is_timeout,
)
from driver.monitoring import UNOBSERVED, Monitored
from driver.operations.base import Kind, Operation
from driver.policy.classification import is_retryable_read, label_write_error
from driver.policy.deadline import NEVER, NO_TIMEOUT, UNSET, after
from driver.policy.retry import Failure, GiveUp, RetryState, deposit_of_failure, deposit_of_success, worse
from driver.run import Reply, RetryImpossibleError, Run
from driver.sdam.description import ServerType, TopologyType
from driver.transaction import TransactionState, label_within
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from driver.cmap.connection import Connection, RequestIds
    from driver.editions import Edition
    from driver.events import Listener
    from driver.log.client_log import ClientLog
    from driver.monitoring import Observer
    from driver.options import ClientOptions
    from driver.policy.backpressure import NoBudget, TokenBucket
    from driver.policy.deadline import Deadline, Timeout
    from driver.policy.retry import RetryPolicy
    from driver.sdam.topology import Server, Topology
    from driver.session import ClientSession, ClusterClock
    from mongowire.messages import OpMsg
    from mongowire.ports import Clock, Rng

PINNING_TYPES = (TopologyType.LOAD_BALANCED, TopologyType.SHARDED)
"""Where a transaction stays with one mongos: no other knows which shards are part of it."""


@dataclass(slots=True)
class Executor:
    """What an execution needs of its client."""

    topology: Topology
    options: ClientOptions
    edition: Edition
    policy: RetryPolicy
    budget: TokenBucket | NoBudget
    clock: Clock
    rng: Rng
    """For the jitter of backoffs, and for nothing else."""
    request_ids: RequestIds
    cluster_clock: ClusterClock
    publish: Listener
    observed: bool
    """Whether there is a listener, for whom messages are decoded again."""
    api_fields: Mapping[str, Any]
    """What Versioned API adds to every command."""
    log: ClientLog

    async def execute(
        self,
        operation: Operation,
        session: ClientSession | None = None,
        *,
        operation_id: int | None = None,
        lease: Lease | None = None,
        opens_cursor: bool = False,
        deadline: Deadline | None = None,
    ) -> Reply:
        """Run an operation to its reply. Raises DriverError: of several, the one that `worse` keeps.

        It runs on the connection of a `lease`, if one is passed. A caller that says `opens_cursor` gets the
        lease of the connection that the cursor is pinned to, and lets go of it. A `deadline` is that of a
        longer operation, which this one is a part of; otherwise the operation's timeout begins now.
        """
        if deadline is None:
            deadline = self.deadline_of(operation.timeout, session)
        number = self.request_ids.next_operation() if operation_id is None else operation_id
        transaction = None if session is None else session.transaction_of(operation)
        if transaction is not None and not operation.ends_transaction:
            operation = transaction.adapt(operation)
        run = Run(operation, session, number, deadline, RetryState.initial(timed=deadline.is_set))
        run.transaction, run.lease, run.opens_cursor = transaction, lease, opens_cursor
        while True:
            try:
                reply = await self._attempt(run)
            except DriverError as error:
                await self._recover(run, error)
            else:
                self.budget.deposit(deposit_of_success(run.state))
                return reply

    def span(
        self, name: str, database: str, collection: str | None, session: ClientSession | None
    ) -> AbstractContextManager[Any]:
        """Return what surrounds an operation of several commands: nothing, unless the client is traced."""
        del name, database, collection, session
        return nullcontext()

    def deadline_of(self, timeout: Timeout, session: ClientSession | None) -> Deadline:
        """Return when an operation that begins now must be done. Raises what `Timeout.start` does."""
        within = None if session is None else session.deadline
        if timeout is NO_TIMEOUT and within is None:
            return UNSET
        return timeout.start(self.clock.now(), within=within)

    # --- one attempt ---

    async def _attempt(self, run: Run) -> Reply:
        """Select, check out, send; the connection goes back at the end of the block."""
        server = await self._select(run)
        self._prepare(run)
        # Who waits for a connection counts too: a server whose pool is exhausted is not the less loaded one.
        server.operations += 1
        try:
            with await self._lease(run, server) as lease:
                return await self._converse(run, lease)
        finally:
            server.operations -= 1

    async def _select(self, run: Run) -> Server:
        """Select a server, away from those that failed.

        With timeoutMS, the connection must be there by the same instant as the server (Server Selection).
        """
        run.server = None
        log = self.log.selection(run.operation.name, run.operation_id)
        avoided = run.state.deprioritized
        server = self.topology.find(run.choose, avoided) if log is None else None
        if server is None or run.deadline.is_set:
            timeout = after(self.clock.now(), self.options.server_selection_timeout)
            run.select_by = min(run.deadline.at, timeout)
        if server is None:
            server = await self.topology.select(
                run.choose, deadline=run.select_by, deprioritized=avoided, log=log
            )
        run.server = self.topology.description.servers[server.address]
        return server

    def _prepare(self, run: Run) -> None:
        """Decide, with the first server, whether this is a retryable write (Retryable Writes: Executing).

        Raises RetryImpossibleError when the server of a retry does not support what the first did.
        """
        assert run.server is not None
        if run.command is None:
            # For good: a retry that became a plain write could be applied a second time, and one that became
            # a retryable write would carry a number that the first attempt did not have.
            run.command = run.operation.prepare(run.server)
            run.retries_writes = run.operation.ends_transaction or (
                self.options.retry_writes
                and run.command.retryable
                and run.operation.acknowledged
                and run.transaction is None
                and run.server.supports_retryable_writes
            )
        elif run.retries_writes and not run.server.supports_retryable_writes:
            raise RetryImpossibleError(f"{run.server.address} does not support retryable writes")

    async def _lease(self, run: Run, server: Server) -> Lease:
        """Return a connection: the one that the operation is pinned to, or one from the pool.

        Raises NetworkError for a pinned connection that was lost.
        """
        pinned = run.pinned_to
        if pinned is None:
            # Only timeoutMS limits establishing too: serverSelectionTimeoutMS ends with the selection, and
            # connectTimeoutMS and waitQueueTimeoutMS take over.
            by = run.select_by if run.deadline.is_set else None
            lease = Lease(server.pool, await server.pool.check_out(deadline=by))
        elif pinned.connection.healthy:
            lease = pinned.hold(ConnectionUse.OPERATION)
        else:
            # Another connection may lead to another mongos, which knows nothing of the cursor.
            raise NetworkError(f"{server.address}: the pinned connection was lost", address=server.address)
        kind = self.topology.description.type
        if kind is TopologyType.LOAD_BALANCED:
            # Nobody monitors what is behind a load balancer: only the connection's handshake tells of it.
            run.server = replace(lease.connection.description, type=ServerType.LOAD_BALANCER)
        if run.within and run.transaction is not None and kind in PINNING_TYPES:
            run.transaction.pin(server.address, lease if self._balanced else None)
        return lease

    @property
    def _balanced(self) -> bool:
        return self.topology.description.type is TopologyType.LOAD_BALANCED

    async def _converse(self, run: Run, lease: Lease) -> Reply:
        """Send the command and take the reply in; what an error tells of the server is acted upon here.

        The connection is still checked out: pools are cleared before it goes back.
        """
        connection = run.connection = lease.connection
        try:
            document = await self._exchange(run, connection)
        except DriverError as error:
            if isinstance(error, NetworkError | PoolClearedError) and run.session is not None:
                # The command may still run in this session; another one in it would have to wait for that.
                run.session.mark_dirty()
            self.topology.on_error(
                connection.address, error, connection.generation, service_id=connection.service_id
            )
            raise
        cursor = lease.hold(ConnectionUse.CURSOR) if self._balanced and run.leaves_cursor(document) else None
        version = connection.description.max_wire_version
        return Reply(document, connection.address, version, cursor, run.deadline)

    async def _exchange(self, run: Run, connection: Connection) -> dict[str, Any]:
        """Send the command and return its reply, between events."""
        max_time_ms = self._max_time_ms(run)
        request = self._message(run, max_time_ms)
        if run.transaction is not None:
            run.transaction.sent()
        request_id = self.request_ids.next_request()
        monitored = self._monitored(run, request, request_id, connection)
        try:
            reply = await self._round_trip(run, request, request_id, connection)
            self._take_in(run, reply, connection.address)
        except BaseException as error:
            # A task that is cancelled here has published a start, which needs its end like any other.
            monitored.fail(error if isinstance(error, Exception) else NetworkError("cancelled"))
            raise
        # A reply with a write concern error has `ok: 1`: for monitoring the command has succeeded.
        monitored.succeed(reply)
        if run.operation.raises_write_concern_error and "writeConcernError" in reply:
            raise WriteConcernError.of_reply(reply, connection.address)
        return reply

    async def _round_trip(
        self, run: Run, request: OpMsg, request_id: int, connection: Connection
    ) -> dict[str, Any]:
        """Send and receive until the deadline; without timeoutMS, within socketTimeoutMS."""
        timeout = self.options.socket_timeout
        if run.deadline.is_set:
            deadline = run.deadline.at
        else:
            deadline = after(self.clock.now(), timeout) if timeout else NEVER
        if run.operation.acknowledged:
            return await connection.round_trip(request, request_id, deadline=deadline)
        await connection.send(request, request_id, deadline=deadline)
        return {"ok": 1}

    def _max_time_ms(self, run: Run) -> int | None:
        """Return the time that the server has (Command Execution). Raises OperationTimeoutError for none."""
        assert run.server is not None
        if run.deadline.at == NEVER:
            return None
        # The shortest of the recent round trips, so that no command is held back that could have made it.
        now, way = self.clock.now(), run.server.min_round_trip_time
        if not run.deadline.allows_round_trip(now, way):
            left = max(0.0, run.deadline.at - now) * 1000
            raise OperationTimeoutError(
                f"remaining timeout less than round trip time: {left:.0f} ms of {run.deadline.timeout} s are "
                f"left, and {run.server.address} is {way * 1000:.0f} ms away",
                address=run.server.address,
            )
        return run.deadline.max_time_ms(now, way)

    def _message(self, run: Run, max_time_ms: int | None) -> OpMsg:
        """Make the message of one attempt; the transaction number is drawn once, by the first."""
        session = self._session_to_send(run)
        if session is not None and run.transaction is not None:
            run.transaction_number = run.transaction.number
            if run.starts_transaction is None:
                # Decided by the first attempt: its retry must start the transaction too, which the server may
                # never have heard of.
                run.starts_transaction = run.transaction.state is TransactionState.STARTING
        elif session is not None and run.retries_writes and run.transaction_number is None:
            run.transaction_number = session.server_session.next_transaction_number()
        if session is not None:
            session.mark_used(self.clock.now())
        return message.assemble(
            run,
            session=session,
            cluster_time=self.cluster_clock.latest,
            topology=self.topology.description,
            edition=self.edition,
            api_fields=self.api_fields,
            max_time_ms=max_time_ms,
        )

    def _session_to_send(self, run: Run) -> ClientSession | None:
        """Return the session that the command carries (Sessions: Sending the session ID to the server)."""
        session = run.session
        if session is None:
            return None
        description = self.topology.description
        supported = self._balanced or description.logical_session_timeout_minutes is not None
        if session.implicit:
            # Nobody asked for it: it is left out where it would be refused, rather than raising an error.
            return session if supported and run.operation.acknowledged else None
        if not supported:
            raise InvalidArgumentError("Sessions are not supported by this MongoDB deployment")
        if not run.operation.acknowledged:
            raise InvalidArgumentError("Unacknowledged writes cannot be used with an explicit session")
        return session

    def _monitored(self, run: Run, request: OpMsg, request_id: int, connection: Connection) -> Observer:
        if not self.observed and not self.log.shows_commands:
            return UNOBSERVED
        return Monitored.start(
            request,
            connection,
            request_id=request_id,
            operation_id=run.operation_id,
            clock=self.clock,
            publish=self.publish,
        )

    def _take_in(self, run: Run, reply: dict[str, Any], address: str) -> None:
        """Take the times out of every reply, errors too. Raises ServerError for one that is an error."""
        if "$clusterTime" in reply:
            self.cluster_clock.advance(reply["$clusterTime"])
        if run.session is not None:
            run.session.observe(reply)
        if run.transaction is not None and "recoveryToken" in reply:
            run.transaction.recovery_token = reply["recoveryToken"]
        if reply.get("ok") != 1:
            raise ServerError.of_reply(reply, address)

    # --- after an error ---

    async def _recover(self, run: Run, error: DriverError) -> None:
        """Wait until another try, or raise the error that tells most."""
        self._label(run, error)  # first, as all that follows goes by labels
        transaction, ends, starts = run.transaction, run.operation.ends_transaction, run.starts_transaction
        if transaction is not None and transaction.unpins(error, ends=ends, starts=bool(starts)):
            transaction.unpin()
        run.error = worse(run.error, actionable(error))
        failure = self._failure(run, error)
        self.budget.deposit(deposit_of_failure(run.state, failure))
        # Drawn only where it counts, so that other errors leave the sequence of a seeded client alone.
        jitter = self.rng.random() if failure.overloaded and failure.retryable else 0.0
        decision = self.policy.decide(
            run.state, failure, now=self.clock.now(), deadline=run.deadline.at, jitter=jitter
        )
        if isinstance(decision, GiveUp):
            self._raise(run, run.error, late=decision.late or is_timeout(error))
        if not self.budget.consume(decision.cost):
            self._raise(run, run.error, late=False)
        run.state = decision.state
        # A commit that was refused for overload was not tried: it needs no majority to be certain.
        if run.operation.on_retry is not None and run.command is not None and not failure.overloaded:
            run.command = run.operation.on_retry(run.command)
        if decision.backoff:
            await self.clock.sleep_until(decision.when)

    def _raise(self, run: Run, error: DriverError, *, late: bool) -> NoReturn:
        """Raise an error; with timeoutMS, one that ended the operation for lack of time is a timeout."""
        # What a server says of itself is not made a timeout merely because it came late.
        expired = run.deadline.expired(self.clock.now()) and not isinstance(error, ServerError)
        if run.deadline.is_set and (late or expired) and not error.timed_out:
            raise OperationTimeoutError.of(error)
        raise error

    def _label(self, run: Run, error: DriverError) -> None:
        """Add the labels that are the driver's to add."""
        if run.within:
            # A write in a transaction is not retried by itself, but with the whole transaction.
            label_within(error)
            return
        # Commits and aborts are retried whatever retryWrites says, other writes only with it.
        is_write = run.operation.kind is Kind.WRITE and run.operation.acknowledged
        retried = run.operation.ends_transaction or (is_write and self.options.retry_writes)
        if retried and run.server is not None:
            label_write_error(error, run.server)

    def _failure(self, run: Run, error: DriverError) -> Failure:
        return Failure(
            overloaded=is_overload(error),
            retryable=self._is_retryable(run, error),
            server=None if run.server is None else run.server.address,
            sharded=self.topology.description.type is TopologyType.SHARDED,
            base_backoff=_base_backoff(error),
        )

    def _is_retryable(self, run: Run, error: DriverError) -> bool:
        """Return whether any of the three policies allows another attempt after this error."""
        operation = run.operation
        if not operation.acknowledged or operation.once:
            return False
        # Retryable Writes goes by the label alone: who may add it has been asked before.
        if run.retries_writes and error.has_label(Label.RETRYABLE_WRITE):
            return True
        # Retryable Reads goes by the kind of the error. A read in a transaction is no retryable read, as
        # another server, or the same one after a failover, does not know the transaction's snapshot.
        reads = operation.retryable_read and not run.within and self.options.retry_reads
        if reads and is_retryable_read(error):
            return True
        return is_retryable_overload(error) and self._retries_overload(operation)

    def _retries_overload(self, operation: Operation) -> bool:
        """Overload retry policy, rule 2.4: runCommand needs both options. See docs/adr/0011."""
        if operation.ends_transaction:
            return True
        match operation.kind:
            case Kind.READ:
                return self.options.retry_reads
            case Kind.WRITE:
                return self.options.retry_writes
            case Kind.GENERIC:  # nobody looks into it, so it may be either
                return self.options.retry_reads and self.options.retry_writes


def _base_backoff(error: DriverError) -> float | None:
    """Return the server's advice in seconds (2026-07-08: `baseBackoffMS`)."""
    advice = error.response.get("baseBackoffMS") if isinstance(error, ServerError) else None
    return float(advice) / 1000 if isinstance(advice, int | float) and advice > 0 else None

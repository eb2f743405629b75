"""The shell around `PoolState`: it performs the effects, waits, and does the input and output."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Self

from driver.cmap.member import ConnectionUse, PoolMode
from driver.cmap.state import Close, Establish, Grant, Interrupt, PoolState, Publish, Refuse
from driver.errors import ClientClosedError, DriverError, PoolClearedError, PoolError
from driver.policy.deadline import after

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
    from types import TracebackType

    from bson import ObjectId

    from driver.cmap.connection import Connection
    from driver.cmap.handshake import Handshake
    from driver.cmap.state import Effect, PoolOptions
    from driver.events import Listener
    from mongowire.ports import Clock


@dataclass(frozen=True, slots=True)
class PoolPorts:
    """What a pool needs of its client. `on_error` hears of failed handshakes before anybody else does.

    `populating` is the handshake of connections that the pool makes for itself, where that is another one.
    `hears` tells whether anybody hears of events now, which may change at any time.
    """

    clock: Clock
    handshake: Handshake
    publish: Listener
    on_error: Callable[[str, DriverError, int], None]
    populating: Handshake | None = None
    hears: Callable[[], bool] = lambda: True


class Pool:
    """CMAP: Connection Pool. Must be created, used and closed within one running event loop."""

    def __init__(self, address: str, options: PoolOptions, ports: PoolPorts) -> None:
        self.address = address
        self.state = PoolState(address, options)
        self._ports = ports
        self._connections: dict[int, Connection] = {}
        """Every established connection, by number: available and in use."""
        self._waiters: dict[int, asyncio.Future[Connection]] = {}
        """What callers wait on, by the number of their request."""
        self._numbers = count(1)
        """For requests; connections are numbered by the state."""
        self._establishing: dict[int, asyncio.Task[None]] = {}
        """The tasks of pending connections, by number."""
        self._tasks: set[asyncio.Task[None]] = set()
        """All tasks that closing the pool for good waits for."""
        self._wake = asyncio.Event()
        """Set when the background has something to do before the instant that it waits for."""
        self._background: asyncio.Task[None] | None = None
        self._next_tick = -inf
        """The instant that the background waits for, in the past while it works."""
        self._asked: deque[Effect] = deque()
        """Effects that are still to be performed."""
        self._performing = False
        self._perform(self.state.create())

    def __repr__(self) -> str:
        return repr(self.state).replace("PoolState", "Pool")

    @property
    def generation(self) -> int:
        """The pool's generation; connections of an older one are stale."""
        return self.state.generations.current

    # --- for operations ---

    async def check_out(self, *, deadline: float | None = None) -> Connection:
        """CMAP: Checking Out a Connection. Raises PoolError, and what failed while establishing one.

        A `deadline` is for waiting and for establishing; without one, waitQueueTimeoutMS is for waiting.
        """
        now, state = self._now(), self.state
        state.heard = self._ports.hears()
        # Nothing is asked for that is still to be performed: what this takes, nobody was to have.
        if not self._performing and (number := state.take(now)) is not None:
            return self._connections[number]
        waiter = next(self._numbers)
        future: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = future
        limit = after(now, state.options.wait_queue_timeout) if deadline is None else deadline
        self._perform(state.check_out(waiter, now, deadline=limit, connect_by=deadline))
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                self.check_in(future.result())  # served just before it was cancelled
            else:
                self._perform(self.state.cancel(waiter, self._now()))
            raise
        finally:
            self._waiters.pop(waiter, None)

    @asynccontextmanager
    async def connection(self, *, deadline: float | None = None) -> AsyncIterator[Connection]:
        """Lend a connection to a block; it goes back however that ends. Raises what `check_out` does.

        Operations hold theirs by a `Lease` instead, because a cursor or a transaction may keep it for longer.
        """
        connection = await self.check_out(deadline=deadline)
        try:
            yield connection
        finally:
            self.check_in(connection)

    def check_in(self, connection: Connection, error: Exception | None = None) -> None:
        """CMAP: Checking In a Connection. Raises PoolError for one that was not lent by this pool."""
        if self._connections.get(connection.id) is not connection:  # another pool's may have the same number
            raise PoolError(f"{connection.address}: the connection is not of this pool", address=self.address)
        errored = not connection.healthy
        self.state.heard = self._ports.hears()
        effects = self.state.check_in(
            connection.id, self._now(), errored=errored, error=error if errored else None
        )
        # Without effects nothing has begun but the time for which it may be idle.
        if effects or self.state.options.max_idle:
            self._perform(effects)

    # --- for monitors and errors ---

    def ready(self) -> None:
        """CMAP: Marking a Connection Pool as Ready; the background run follows."""
        self._perform(self.state.ready())
        if self._background is None and self.state.mode is PoolMode.READY:
            self._background = asyncio.get_running_loop().create_task(self._run())
        self._wake.set()

    def clear(
        self,
        cause: Exception | None = None,
        *,
        interrupt_in_use: bool = False,
        service_id: ObjectId | None = None,
    ) -> None:
        """CMAP: Clearing a Connection Pool; a background run follows at once."""
        self._perform(
            self.state.clear(
                self._now(), cause=cause, interrupt_in_use=interrupt_in_use, service_id=service_id
            )
        )
        self._wake.set()

    def close(self) -> None:
        """CMAP: Closing a Connection Pool. What is in use is closed when it is checked in."""
        self._perform(self.state.close(self._now()))
        if self._background is not None:
            self._background.cancel()
            self._tasks.add(self._background)  # so that closing for good waits for its end
            self._background = None

    async def aclose(self) -> None:
        """Close the pool for good: cut off what is in use, and wait until no socket and no task is left.

        The specification says what becomes of a connection that is checked in to a closed pool, and nothing
        of one that never is: a cursor may hold it, or a command without a timeout. Who closes a client wants
        an end in bounded time, so its operations end with an error that says so.
        """
        self.close()
        for connection in self._connections.values():
            self._interrupt(connection, ClientClosedError)
        while self._tasks:
            await asyncio.wait(self._tasks)
            self._tasks = {task for task in self._tasks if not task.done()}

    @property
    def is_drained(self) -> bool:
        """Whether no connection is left, as it is in the end after `close`."""
        return not (self._connections or self._tasks)

    def abandon(self) -> None:
        """CMAP: Forking: let go of every connection in a child process, without a word to anybody."""
        for connection in self._connections.values():
            connection.abandon()

    # --- background ---

    async def _run(self) -> None:
        """CMAP: Background Thread: run when something changed and at the state's next deadline."""
        while True:
            self._next_tick = -inf
            self._perform(self.state.tick(self._now()))
            self._wake.clear()
            self._next_tick = deadline = self.state.next_deadline(self._now())
            with suppress(TimeoutError):
                async with asyncio.timeout_at(None if deadline == inf else deadline):
                    await self._wake.wait()

    # --- effects ---

    def _now(self) -> float:
        return self._ports.clock.now()

    def _perform(self, effects: Iterable[Effect]) -> None:
        """Do what the state asks for, in its order; no other coroutine comes between, as nothing is awaited.

        What an effect makes the state ask for comes after all that it has asked for before.
        """
        self._asked.extend(effects)
        # A listener may check a connection out or in while it is called: what that asks for waits its turn,
        # so that events come in the order in which things have happened.
        if self._performing:
            return
        self._performing = True
        try:
            while self._asked:
                self._perform_one(self._asked.popleft())
        finally:
            self._performing = False
        # Woken only for what comes earlier than the instant it waits for: it would do nothing otherwise.
        if self.state.next_deadline(self._now()) < self._next_tick:
            self._wake.set()

    def _perform_one(self, effect: Effect) -> None:
        """Do what one effect says; what takes time goes into a task."""
        match effect:
            case Publish(event):
                self._ports.publish(event)
            case Establish():
                self._establishing[effect.connection_id] = self._spawn(self._establish(effect))
            case Grant(waiter, number):
                self._grant(waiter, self._connections[number])
            case Refuse(waiter, error):
                self._refuse(waiter, error)
            case Close(number):
                self._close(number)
            case Interrupt(number):
                self._interrupt(self._connections[number], PoolClearedError)

    def _grant(self, waiter: int, connection: Connection) -> None:
        future = self._waiters[waiter]
        if future.done():  # its caller was cancelled in this very turn of the loop
            self.check_in(connection)
        else:
            future.set_result(connection)

    def _refuse(self, waiter: int, error: Exception) -> None:
        future = self._waiters[waiter]
        if not future.done():
            future.set_exception(error)

    def _interrupt(self, connection: Connection, kind: type[PoolClearedError | ClientClosedError]) -> None:
        self._spawn(connection.interrupt(partial(kind.interrupted, self.address)))

    def _close(self, number: int) -> None:
        """CMAP: Closing a Connection: the socket, which nobody waits for."""
        connection = self._connections.pop(number, None)
        if connection is not None:
            # What was in the middle of a request is cut off: nobody reads the end of its reply.
            self._spawn(connection.aclose(abort=not connection.healthy))
        task = self._establishing.pop(number, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def _establish(self, asked: Establish) -> None:
        """CMAP: Establishing a Connection, in a task of its own; discovery hears of a failure first."""
        number, generation = asked.connection_id, asked.generation
        populating = self._ports.populating if asked.populates else None
        try:
            connection = await (populating or self._ports.handshake).establish(
                self.address, number=number, generation=generation, deadline=asked.deadline
            )
        except DriverError as error:
            service = error.service_id
            at = generation if service is None else self.state.generations.of(service)
            # Discovery first: it clears the pool, so that the waiter's retry does not find it ready and
            # connect once more to the same server.
            self._ports.on_error(self.address, error, at)
            self._perform(self.state.failed(number, self._now(), error))
            return
        finally:
            self._establishing.pop(number, None)
        self._connections[number] = connection
        self.state.heard = self._ports.hears()
        effects = self.state.established(number, self._now(), service_id=connection.service_id)
        connection.generation = self.state.generation_of(number)
        self._perform(effects)

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class Lease:
    """A connection and those who hold it; when the last one lets go, it is checked in.

    Behind a load balancer a transaction and its cursors hold the one that their first command was sent on.
    They take turns: like a session, a lease is not for concurrent use. As a context manager it is held by the
    command under way, which lets go of it at the end of the block (`CMAP: withConnection`); unlike with
    `Pool.connection`, another holder may outlive the block.
    """

    __slots__ = ("_holders", "_pool", "connection", "error")

    def __init__(self, pool: Pool, connection: Connection) -> None:
        """Take over a connection that was checked out, for a command."""
        self.connection = connection
        self.error: Exception | None = None
        """What the command failed with that was last sent on it."""
        self._pool = pool
        self._holders = [ConnectionUse.OPERATION]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Let the command go, and keep in mind what it failed with."""
        if error is not None:
            self.error = error if isinstance(error, Exception) else None
        self.release(ConnectionUse.OPERATION)

    def hold(self, use: ConnectionUse) -> Lease:
        """Hold it for one more, who lets go of it with `release`."""
        self._holders.append(use)
        self._report_use()
        return self

    def release(self, use: ConnectionUse) -> None:
        """Let go of it: check it in, if nobody else holds it."""
        self._holders.remove(use)
        if self._holders:
            self._report_use()
        else:
            self._pool.check_in(self.connection, self.error)

    def _report_use(self) -> None:
        """Report to the pool what the connection is used for: errors of its wait queue count the uses."""
        pinned = [use for use in (ConnectionUse.TRANSACTION, ConnectionUse.CURSOR) if use in self._holders]
        self._pool.state.note_use(self.connection.id, pinned[0] if pinned else ConnectionUse.OPERATION)

"""PyMongo's blocking API behind the runner: its calls run on threads, and the runner's loop goes on.

Three kinds of traffic cross between the loop and the threads. Calls go out by `Workers`, and their results
come back by `call_soon_threadsafe`. Events take the same way, so an event that a call has published before it
returns reaches the runner before the result. Callbacks of transactions come back by `Callbacks`, while the
thread waits.

Closing has to end calls that nobody waits for any more: a thread cannot be cancelled, only its socket can.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from gridfs.synchronous import GridFSBucket
from pymongo import MongoClient
from pymongo.synchronous.mongo_client import _ClientCheckout

from harness.adapters.base import Event, OperationFailed
from harness.adapters.pymongo.base import PyMongoAdapter
from harness.adapters.pymongo.pools import NoMonitorSync
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from harness.adapters.base import Handle
    from harness.adapters.deployment import Deployment
    from mongowire.ports import Clock


T = TypeVar("T")

_PATIENCE: Final = 0.5
"""Seconds after which a client that closes no longer waits for the answers of its servers."""


def make(deployment: Deployment) -> PyMongoSyncAdapter:
    """Return a new adapter. Its clients run on the real network, whatever the deployment's."""
    return PyMongoSyncAdapter(deployment.clock, deployment.server_version)


class PyMongoSyncAdapter(PyMongoAdapter):
    """Runs PyMongo on threads. Whatever those observe reaches the runner by its event loop, in order."""

    name = "pymongo"
    client_type = MongoClient
    bucket_type = GridFSBucket
    checkout_type = _ClientCheckout
    monitor_type = NoMonitorSync

    def __init__(self, clock: Clock, server_version: Sequence[int] = ()) -> None:
        super().__init__(clock, server_version)
        self._loop = asyncio.get_running_loop()
        self._ahead = 0.0 if isinstance(clock, SystemClock) else clock.now() - self._loop.time()
        """How many seconds the deployment's clock is ahead of the loop's, which every thread may read."""
        self._publishing = threading.Lock()
        """Events are handed to the loop in the order of their times."""
        self._workers = Workers()
        self._callbacks = Callbacks()
        self._closed: list[Handle] = []

    async def close_client(self, client: Handle) -> None:
        """Close one client, and end what it still waits for; closing twice is allowed."""
        # PyMongo's `close` sends `endSessions`, and a server that a fail point holds up may not answer it.
        closing = asyncio.ensure_future(super().close_client(client))
        while not (await asyncio.wait({closing}, timeout=_PATIENCE))[0]:
            _interrupt(client.client)
        closing.result()
        self._closed.append(client)

    async def aclose(self) -> None:
        """Close every client that is still open, end the calls that nobody waits for, and the threads."""
        # In this order: a thread inside of `with_transaction` waits for its callback, and never rests before
        # that ends.
        self._callbacks.cancel()
        await super().aclose()
        while not await self._workers.rested(within=_PATIENCE):
            for client in self._closed:
                _interrupt(client.client)
        self._closed.clear()
        self._workers.close()

    async def _perform(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return await self._workers.run(lambda: finished(work()))

    def _listening(self, append: Callable[[Event], None]) -> Callable[..., None]:
        def on_loop(kind: str, fields: dict[str, Any], at: float) -> None:
            append(Event(kind, fields, at))

        def publish(kind: str, fields: dict[str, Any]) -> None:
            # The time of the listener's call, not of the loop's turn, which may be much later under load.
            with self._publishing:
                if not self._loop.is_closed():
                    at = self._loop.time() + self._ahead
                    self._loop.call_soon_threadsafe(on_loop, kind, fields, at)

        return publish

    async def _connected(self, client: Any) -> None:
        """Do nothing: it has begun when it was made."""

    def _callback(self, run: Callable[[], Awaitable[Any]]) -> Callable[[Any], Any]:
        """Run it on the loop, where its operations take threads of their own."""

        async def work() -> None:
            await run()

        def callback(_session: Any) -> None:
            try:
                self._callbacks.wait(work)
            except OperationFailed as failed:
                raise failed.__cause__ or failed from None

        return callback


def _interrupt(client: Any) -> None:
    """Have every call that waits for a server's answer fail, within PyMongo's polling of half a second."""
    for server in tuple(client._topology._servers.values()):  # noqa: SLF001  # PyMongo has no public way
        for context in tuple(server.pool.active_contexts):
            context.cancel()


# Threads for drivers whose calls block, so that the event loop of runner and servers goes on.
#
# Every call has a thread for itself: one that has nothing to do, or else a new one. So no call ever waits
# for another's end, and calls that wait for each other (an operation inside a transaction's callback)
# cannot lock.


class Workers:
    """The threads of one adapter. Used from the event loop only; `close` ends them."""

    def __init__(self) -> None:
        self._all: list[_CallThread] = []
        self._idle: list[_CallThread] = []
        self._all_idle = asyncio.Event()
        self._all_idle.set()

    async def run(self, call: Callable[[], T]) -> T:
        """Return what a call that blocks returns, or raise what it raises.

        A caller who is cancelled no longer waits; the call keeps its thread until it returns.
        """
        if not self._idle:
            hired = _CallThread()
            self._all.append(hired)
            self._idle.append(hired)
        worker = self._idle.pop()
        self._all_idle.clear()
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        # The caller may be gone when the call ends; `_rest` is called in any case, so that the thread is free
        # again.
        worker.start(call, done, lambda: self._rest(worker))
        return await done

    async def rested(self, *, within: float) -> bool:
        """Return whether every call has returned, after at most `within` seconds."""
        waiting = asyncio.ensure_future(self._all_idle.wait())
        done, _ = await asyncio.wait({waiting}, timeout=within)
        waiting.cancel()
        return bool(done)

    def close(self) -> None:
        """End the threads. No call may be running."""
        assert self._all_idle.is_set(), "a call is running"
        for worker in self._all:
            worker.end()
        self._all.clear()
        self._idle.clear()

    def _rest(self, worker: _CallThread) -> None:
        self._idle.append(worker)
        if len(self._idle) == len(self._all):
            self._all_idle.set()


class _CallThread:
    """One thread, which takes calls from a queue; None ends it."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="driver call", daemon=True)
        self._thread.start()

    def start(self, call: Callable[[], T], done: asyncio.Future[T], rest: Callable[[], None]) -> None:
        # PyMongo keeps the limit of `pymongo.timeout` in a context variable. By copies it goes from a
        # transaction's thread to the loop, and on to the threads of the operations of its callback.
        context = contextvars.copy_context()
        self._calls.put(lambda: _deliver(call, done, rest, context))

    def end(self) -> None:
        self._calls.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # or the last call's objects would live until the next


def _deliver(
    call: Callable[[], T],
    done: asyncio.Future[T],
    rest: Callable[[], None],
    context: contextvars.Context,
) -> None:
    """Run a call on this thread; its result is set on the loop."""
    answer: Callable[[], None]
    try:
        value = context.run(call)
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the caller
        failure = error

        def answer() -> None:
            done.set_exception(failure)
    else:

        def answer() -> None:
            done.set_result(value)

    def settle() -> None:
        rest()
        if not done.done():
            answer()

    # The thread counts as idle before its caller goes on, so the caller's next call finds it free.
    done.get_loop().call_soon_threadsafe(settle)


class Callbacks:
    """Coroutines that a blocked driver asks of the loop, and waits for on its own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: set[Any] = set()

    def wait(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the loop and wait for its end; called on a worker's thread.

        Raises `concurrent.futures.CancelledError` when `cancel` comes first.
        """
        future = asyncio.run_coroutine_threadsafe(work(), self._loop)
        self._waiting.add(future)
        try:
            return future.result()
        finally:
            self._waiting.discard(future)

    def cancel(self) -> None:
        """Cancel every coroutine that a thread still waits for."""
        for future in tuple(self._waiting):
            future.cancel()


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, as those are that call a driver that blocks."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a coroutine over blocking calls waited for the event loop")

"""Turns: commands that work for long take turns, so that no request waits for the end of one.

A server has a thread for each connection, and its operating system divides the time. Here all requests share
an event loop (docs/adr/0014), and a bound on waiting follows from two rules:

    - A request runs as soon as it comes, for a tenth of a turn (`internalQueryExecYieldPeriodMS`). That is
      enough for most, and keeps a burst of many expensive requests short.
    - Requests that gave way stand in a queue. The loop serves one of them in each of its iterations, for a
      whole turn, and then looks at its sockets. However long the queue is, a new request waits for one turn
      of it.

In virtual time work takes no time, so no request gives way, unless the parameter is 0: then every request
gives way at every yield point, which is how tests draw interleavings that are the same in every run.

A few bytes may hold a compressed message of 48 MB, and each connection may send one. They are decompressed
while others have their turns, so without a bound all of them would lie in memory at the same time
(`Inflation`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from fakeserver.waiting.bell import Bell
from fakeserver.waiting.interrupts import GAVE_WAY, Interruptible, Worker
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakeserver.errors import CommandError
    from mongowire.ports import Clock


_MOST: Final = 2
"""The large messages that are decompressed at a time; a third one would not make the first two any faster."""


class Inflation:
    """The budget: who finds no room waits for `freed`."""

    def __init__(self) -> None:
        self.freed = Bell()
        self.under_way = 0
        """The large messages that are being decompressed and decoded."""

    @property
    def has_room(self) -> bool:
        """Whether one more may be decompressed now."""
        return self.under_way < _MOST

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Take the room of one message while the block runs."""
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            self.freed.ring()


_USUAL: Final = 0.01
"""The length of a turn, in seconds, unless somebody sets another (`internalQueryExecYieldPeriodMS`)."""
_FIRST: Final = 0.1
"""The share of a turn that a new request is given before it joins the queue."""


_SHORT_BYTES: Final = 512
"""The size of a message whose documents are inserted within a small part of a turn."""
_KIND_AT: Final = 20
_NAME_AT: Final = 26
"""The position of the command's name in an OP_MSG that begins with its body."""
_SHORT: Final = tuple(f"{name}\0".encode() for name in ("ping", "insert", "hello", "isMaster", "ismaster"))
"""Commands that take no longer than their documents are many."""


def is_short(data: bytes) -> bool:
    """Say of an OP_MSG whether its command surely ends within one turn, so that it needs no stack."""
    return len(data) <= _SHORT_BYTES and data.startswith(_SHORT, _NAME_AT) and not data[_KIND_AT]


class TurnRequest(Interruptible, Protocol):
    """The request of a client, as far as it takes turns with others."""

    session_id: bytes | None
    txn_number: int | None

    @property
    def yield_period(self) -> float:
        """The length of its turns, in seconds."""

    def interrupt(self, error: CommandError) -> None:
        """Have the request end with `error` at its next yield point."""


R = TypeVar("R", bound=TurnRequest)
A = TypeVar("A")


class Turns:
    """The turns of a deployment's requests."""

    def __init__(self, clock: Clock) -> None:
        self._real = clock.is_real
        self._queue: deque[Callable[[], None]] = deque()
        """The continuations of requests and of busy connections, in the order of their turns."""
        self._idle: list[Worker] = []
        """The stacks that hold no request. A stack costs ten turns to make, so it is used again."""
        # Yield points are many: they read what the loop's time is made of, without a look for the loop.
        self._now = time.monotonic if type(clock) is SystemClock else clock.now
        self._suspended: dict[Worker, TurnRequest] = {}
        """The requests that gave way, each with its stack."""
        self.inflation = Inflation()
        self.freed = Bell()
        """Rings when a request has ended that had given way: its session is free."""

    def run(
        self, walk: Callable[[R, float], A], request: R, now: float, *, short: bool = False
    ) -> A | Worker:
        """Call `walk` with a request. Returns what it does, or the worker on which it gave way.

        One that is `short` ends within the turn of a new request, unless turns are shorter than usual.
        """
        period = request.yield_period
        # Nothing can give way in virtual time, so no stack is needed either.
        if (short and period >= _USUAL) or (not self._real and period):
            return walk(request, now)
        worker = self._idle.pop() if self._idle else Worker(self._now, is_real=self._real)
        action = worker.call(walk, request, now, now + period * _FIRST)
        if action is GAVE_WAY:
            self._suspended[worker] = request
            return worker
        self._idle.append(worker)
        return action  # type: ignore[no-any-return]

    def resume(self, worker: Worker, now: float) -> Any:
        """Go on with a request that gave way, as `run` does."""
        request = self._suspended[worker]
        action = worker.resume(now + request.yield_period)
        if action is GAVE_WAY:
            return worker
        self._ended(worker)
        return action

    def end(self, worker: Worker, error: CommandError) -> None:
        """End a request that gave way, at once: `error` is raised where it stands."""
        # Its next yield point raises, and no clock ends the turn before that.
        self._suspended[worker].interrupt(error)
        worker.resume(math.inf)
        self._ended(worker)

    def _ended(self, worker: Worker) -> None:
        del self._suspended[worker]
        self._idle.append(worker)
        self.freed.ring()

    def holds(self, request: TurnRequest) -> bool:
        """Say whether another request, which gave way, has the session of `request` checked out.

        Only commands with a transaction number check a session out.
        """
        return bool(self._suspended) and any(
            other.session_id == request.session_id and other.txn_number is not None and other is not request
            for other in self._suspended.values()
        )

    @property
    def nobody_waits(self) -> bool:
        """Whether nobody waits for a turn."""
        return not self._suspended and not self._queue

    def enqueue(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` when its turn has come."""
        if not self._queue:
            asyncio.get_running_loop().call_soon(self._next)
        self._queue.append(go_on)

    def _next(self) -> None:
        if self._queue:
            go_on = self._queue.popleft()
            # Scheduled, not called: the loop looks at its sockets between two turns. Ahead of `go_on`, which
            # may raise, and which may join the queue again.
            if self._queue:
                asyncio.get_running_loop().call_soon(self._next)
            go_on()

    def close(self) -> None:
        """End the idle stacks; no request may run any more."""
        for worker in self._idle:
            worker.end()
        self._idle.clear()

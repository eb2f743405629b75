"""Who works next: commands that work for long take turns, so that nobody waits for the end of one."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

from fakeserver.interrupts import GAVE_WAY, Worker
from fakeserver.waiting import Bell

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.errors import CommandError
    from fakeserver.pipeline import Action
    from fakeserver.request import RequestContext
    from mongowire.ports import Clock

    Walk: TypeAlias = Callable[[RequestContext, float], Action]

_FIRST: Final = 0.1
"""Of a turn is what a request has that comes anew."""


class Turns:
    """The turns of a deployment's requests.

    A request runs as soon as it comes, for a tenth of a turn (`internalQueryExecYieldPeriodMS`): that is
    enough for most, and many who ask for much at once keep nobody from being heard. Those that gave way
    stand in a queue, of which the loop serves one each time round, for a whole turn: however many there are,
    who comes anew waits for one turn of theirs. In virtual time work takes no time, so nobody gives way,
    unless the parameter is 0, which has everybody do so at each yield point.
    """

    def __init__(self, clock: Clock) -> None:
        self._real = clock.is_real
        self._queue: deque[Callable[[], None]] = deque()
        self._idle: list[Worker] = []
        self._suspended: dict[Worker, RequestContext] = {}
        self.freed = Bell()
        """Rings when a request has ended that had given way: its session is free."""

    def run(self, walk: Walk, request: RequestContext, now: float) -> Action | Worker:
        """Call `walk` with a request. Returns its action, or the worker on which it gave way."""
        period = request.node.parameters.yield_period
        if not self._real and period:
            return walk(request, now)
        worker = self._idle.pop() if self._idle else Worker()
        action = worker.call(walk, request, now, now + period * _FIRST)
        if action is GAVE_WAY:
            self._suspended[worker] = request
            return worker
        self._idle.append(worker)
        return action  # type: ignore[no-any-return]

    def resume(self, worker: Worker, now: float) -> Action | Worker:
        """Go on with a request that gave way, as `run` does."""
        request = self._suspended[worker]
        action = worker.resume(now + request.node.parameters.yield_period)
        if action is GAVE_WAY:
            return worker
        self._ended(worker)
        return action  # type: ignore[no-any-return]

    def end(self, worker: Worker, error: CommandError) -> None:
        """End a request that gave way, at once: `error` is raised where it stands."""
        self._suspended[worker].interruption = error
        worker.resume(math.inf)
        self._ended(worker)

    def _ended(self, worker: Worker) -> None:
        del self._suspended[worker]
        self._idle.append(worker)
        self.freed.ring()

    def holds(self, request: RequestContext) -> bool:
        """Say whether another request, which gave way, has the session of `request` checked out."""
        return bool(self._suspended) and any(
            other.session_id == request.session_id and other.txn_number is not None and other is not request
            for other in self._suspended.values()
        )

    @property
    def nobody_waits(self) -> bool:
        """Whether nobody waits for a turn."""
        return not self._suspended and not self._queue

    def enqueue(self, go_on: Callable[[], None]) -> None:
        """Have `go_on` called when it is its turn."""
        if not self._queue:
            asyncio.get_running_loop().call_soon(self._next)
        self._queue.append(go_on)

    def _next(self) -> None:
        if self._queue:
            go_on = self._queue.popleft()
            if self._queue:
                asyncio.get_running_loop().call_soon(self._next)
            go_on()

    def close(self) -> None:
        """Let go of the stacks; no request may run any more."""
        for worker in self._idle:
            worker.throw()
        self._idle.clear()

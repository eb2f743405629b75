"""Traces of a pool's life, and what comes of them on the state machine and on the shell.

One step of a trace is taken each second. Connections take their delay to be established, or to fail; both
repeat when there are more connections than delays. What is compared is every event with its instant.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from driven_pool import Driven
from hypothesis import strategies as st
from scripted_mongod import standalone_hello

from driver.cmap.connection import RequestIds
from driver.cmap.handshake import Handshake
from driver.cmap.metadata import Metadata
from driver.cmap.pool import Pool, PoolPorts
from driver.cmap.state import Establish, PoolOptions
from driver.editions import DEFAULT
from driver.errors import DriverError, NetworkError
from harness.sim import run_virtual
from mongowire.connection import Signal, WireConnection
from mongowire.messages import OpQuery, OpReply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from driver.cmap.connection import Connection
    from driver.events import DriverEvent
    from harness.sim import World

Step: TypeAlias = "tuple[Any, ...]"
Told: TypeAlias = "tuple[float, str, int | None, str | None]"

PORT: Final = 1
MAX_IDLE: Final = 5.3
EPILOGUE: Final = 12.0
"""Seconds after the last step in which the pool is left to itself."""


@dataclass(frozen=True)
class Trace:
    """The steps, and how connections fare: the delays are fractions of seconds, so that no two things tie."""

    steps: Sequence[Step]
    delays: tuple[float, ...]
    failures: tuple[bool, ...]
    max_size: int = 3
    min_size: int = 1

    @property
    def options(self) -> PoolOptions:
        return PoolOptions(max_size=self.max_size, min_size=self.min_size, max_idle=MAX_IDLE)

    def delay(self, number: int) -> float:
        """Return the seconds that the connection with this number takes, unlike those of all others."""
        return self.delays[number % len(self.delays)] + number * 0.0001

    def fails(self, number: int) -> bool:
        return self.failures[number % len(self.failures)]


def traces() -> st.SearchStrategy[Trace]:
    """Return a strategy for traces; the first step makes the pool ready."""
    step: st.SearchStrategy[Step] = st.one_of(
        st.just(("ready",)),
        st.tuples(st.just("clear"), st.booleans()),
        st.tuples(st.just("ask"), st.sampled_from([0.7, 2.6, inf])),
        st.tuples(st.just("ask"), st.just(inf)),
        st.tuples(st.just("give"), st.integers(0, 5), st.booleans()),
        st.tuples(st.just("give"), st.integers(0, 5), st.just(value=False)),
        st.tuples(st.just("withdraw"), st.integers(0, 5)),
        st.just(("wait",)),
    )
    return st.builds(
        Trace,
        steps=st.lists(step, min_size=5, max_size=40).map(lambda steps: [("ready",), *steps]),
        delays=st.lists(st.sampled_from([0.11, 0.43, 1.37, 2.59]), min_size=1, max_size=4).map(tuple),
        failures=st.lists(st.booleans(), min_size=1, max_size=4).map(tuple),
        max_size=st.integers(1, 4),
        min_size=st.integers(0, 3),
    )


def told(when: float, event: DriverEvent) -> Told:
    number, reason = getattr(event, "connection_id", None), getattr(event, "reason", None)
    return round(when, 6), event.kind.removesuffix("Event"), number, reason


# --- the state machine ---


def on_state(trace: Trace) -> list[Told]:
    """Play a trace on the state machine alone."""
    return _Machine(trace).play()


class _Machine:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._pool = Driven(trace.options)
        self._told: list[Told] = []
        self._due: dict[int, float] = {}
        self._limits: dict[int, float] = {}
        """Until when connections may be established, by number."""
        self._asked = 0

    def play(self) -> list[Told]:
        self._do(self._pool.state.create())
        for place, step in enumerate(self._trace.steps, 1):
            self._let_pass(float(place))
            self._take(step)
        self._let_pass(len(self._trace.steps) + EPILOGUE)
        return self._told

    def _take(self, step: Step) -> None:
        state, now = self._pool.state, self._pool.now
        match step:
            case ("ready",):
                self._do(state.ready())
            case ("clear", interrupt):
                self._do(state.clear(now, interrupt_in_use=interrupt))
                self._do(state.tick(now))
            case ("ask", patience):
                self._asked += 1
                until = now + patience
                self._do(state.check_out(self._asked, now, deadline=until, connect_by=until))
            case ("give", place, broken):
                self._give(place, broken=broken)
            case ("withdraw", place):
                waiting = self._waiting()
                if waiting:
                    self._do(state.cancel(waiting[place % len(waiting)], now))

    def _give(self, place: int, *, broken: bool) -> None:
        pool = self._pool
        lent = sorted(member.id for member in pool.state.members() if member.phase.name == "IN_USE")
        if lent:
            number = lent[place % len(lent)]
            broken = broken or number in pool.interrupted
            self._do(pool.state.check_in(number, pool.now, errored=broken))

    def _waiting(self) -> list[int]:
        bound = {member.waiter.id for member in self._pool.state.members() if member.waiter is not None}
        return sorted({*self._pool.state.waiting, *bound})

    def _let_pass(self, end: float) -> None:
        """Let time pass up to an instant, from one thing that is due to the next."""
        while True:
            self._due = {n: self._due[n] for n in self._alive()}
            run = self._pool.state.next_deadline(self._pool.now)
            number = min(self._due, key=self._due.__getitem__, default=None)
            at = inf if number is None else self._due[number]
            if min(run, at) > end:
                self._pool.now = end
                return
            self._pool.now = min(run, at)
            if number is None or run <= at:
                self._do(self._pool.state.tick(self._pool.now))
            else:
                self._finish(number)

    def _alive(self) -> list[int]:
        return list(self._pool.establishing)

    def _finish(self, number: int) -> None:
        self._pool.establishing.remove(number)
        del self._due[number]
        if self._trace.fails(number) or self._pool.now >= self._limits[number]:
            self._do(self._pool.state.failed(number, self._pool.now, NetworkError("lost")))
        else:
            self._do(self._pool.state.established(number, self._pool.now))

    def _do(self, effects: Any) -> None:
        heard = len(self._pool.details)
        effects = list(effects)
        for effect in effects:
            if isinstance(effect, Establish):
                self._limits[effect.connection_id] = inf if effect.deadline is None else effect.deadline
        self._pool.do(effects)
        self._told += [told(self._pool.now, event) for event in self._pool.details[heard:]]
        new = (n for n in self._alive() if n not in self._due)
        now = self._pool.now
        self._due.update({n: min(now + self._trace.delay(n), self._limits[n]) for n in new})


# --- the shell ---


UNHEARD = frozenset({"connectionCheckOutStarted", "connectionCheckedOut", "connectionCheckedIn"})
"""Events that a pool of which nobody hears does not make."""


def on_shell(trace: Trace, *, heard: bool = True) -> list[Told]:
    """Play a trace on the pool over the memory network, in virtual time."""

    async def main(world: World) -> list[Told]:
        numbers = count(1)
        listener = await world.network.listen("localhost", PORT, lambda: _Peer(trace, next(numbers)))
        shell = _Shell(trace, world, heard=heard)
        try:
            return await shell.play()
        finally:
            await shell.aclose()
            await listener.aclose()

    return run_virtual(main, latency=0.0)


class _Shell:
    def __init__(self, trace: Trace, world: World, *, heard: bool) -> None:
        self._trace = trace
        self._clock = world.clock
        self._told: list[Told] = []
        handshake = Handshake(world.network, world.clock, DEFAULT, RequestIds(), Metadata(None))
        ports = PoolPorts(world.clock, handshake, self._hear, lambda *_: None, hears=lambda: heard)
        self._pool = Pool(f"localhost:{PORT}", trace.options, ports)
        self._asking: list[asyncio.Task[None]] = []
        self._lent: dict[int, Connection] = {}

    async def play(self) -> list[Told]:
        for place, step in enumerate(self._trace.steps, 1):
            await self._clock.sleep_until(float(place))
            self._take(step)
        await self._clock.sleep_until(len(self._trace.steps) + EPILOGUE)
        return list(self._told)

    async def aclose(self) -> None:
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        for connection in self._lent.values():
            self._pool.check_in(connection)
        await self._pool.aclose()

    def _hear(self, event: DriverEvent) -> None:
        self._told.append(told(self._clock.now(), event))

    def _take(self, step: Step) -> None:
        match step:
            case ("ready",):
                self._pool.ready()
            case ("clear", interrupt):
                self._pool.clear(interrupt_in_use=interrupt)
            case ("ask", patience):
                self._asking.append(asyncio.ensure_future(self._ask(self._clock.now() + patience)))
            case ("give", place, broken):
                self._give(place, broken=broken)
            case ("withdraw", place):
                waiting = [task for task in self._asking if not task.done()]
                if waiting:
                    waiting[place % len(waiting)].cancel()

    async def _ask(self, deadline: float) -> None:
        try:
            connection = await self._pool.check_out(deadline=deadline)
        except DriverError:
            return
        self._lent[connection.id] = connection

    def _give(self, place: int, *, broken: bool) -> None:
        lent = sorted(self._lent)
        if lent:
            connection = self._lent.pop(lent[place % len(lent)])
            connection.healthy = connection.healthy and not broken
            self._pool.check_in(connection)


class _Peer(asyncio.Protocol):
    """The server's side of a connection: greets after its delay, or hangs up."""

    def __init__(self, trace: Trace, number: int) -> None:
        self._trace = trace
        self._number = number
        self._wire = WireConnection()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._wire.receive_data(data)
        envelope = self._wire.next_message()
        assert not isinstance(envelope, Signal)
        assert isinstance(envelope.parse(), OpQuery)
        delay = self._trace.delay(self._number)
        asyncio.get_running_loop().call_later(delay, self._finish, envelope.request_id)

    def _finish(self, request_id: int) -> None:
        assert self._transport is not None
        if self._trace.fails(self._number):
            self._transport.abort()
        else:
            hello = OpReply.of(standalone_hello())
            self._transport.write(self._wire.send(hello, request_id=1, response_to=request_id))

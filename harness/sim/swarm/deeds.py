"""Faults as they are carried out: each begins at its instant, and ends by itself.

A kind of fault is an asynchronous context manager: what it disturbs is disturbed while its block runs. One
that finds its server in no state for it (a paused server is paused again, a dead one is asked to step up)
does nothing, as two faults of a schedule know nothing of one another.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from harness.sim.swarm import history
from harness.sim.swarm.network import DisturbedMemory, PacketDisturbance, SkewedClock
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from fakeserver.admission.rate_limiter import RateLimiter
    from fakeserver.deployment.cluster import Cluster, Node
    from harness.sim.swarm.schedule import Schedule, ScheduledFault
    from mongowire.ports import Clock

    Deed: TypeAlias = "Callable[[Disturber, ScheduledFault], AbstractAsyncContextManager[None]]"


class CannotError(Exception):
    """The server is in no state for the fault, which does nothing."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """The numbers of a rate limiter at one instant; a server that was started again has another limiter."""

    at: float
    limiter: RateLimiter
    available: float
    admitted: int

    @classmethod
    def of(cls, limiter: RateLimiter, now: float) -> _Reading:
        return cls(now, limiter, limiter.available(now), limiter.successful + limiter.queued)


@dataclass(slots=True)
class Disturber:
    """Carries out the faults of a schedule on a running deployment; `done` are those that took place."""

    cluster: Cluster
    network: DisturbedMemory
    clock: Clock
    dates: Mapping[str, SkewedClock]
    """The clocks of clients and servers, by name."""
    done: list[history.PastFault] = field(default_factory=list)
    cut: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of partitions that cut a server off from whom: (server, "members"), say."""

    limits: dict[tuple[str, str], tuple[Mapping[str, Any], list[Mapping[str, Any]]]] = field(
        default_factory=dict
    )
    """The parameters of a server without limits, and those of each limit under way, by server and kind."""

    metered: list[history.Limit] = field(default_factory=list)
    """The work of each rate limiter between two changes of its rate."""

    _read: dict[tuple[str, str], _Reading] = field(default_factory=dict)

    async def carry_out(self, schedule: Schedule) -> None:
        """Return when the last fault has ended."""
        async with asyncio.TaskGroup() as group:
            for fault in schedule.faults:
                group.create_task(self._one(fault), name=f"fault {fault}")

    async def _one(self, fault: ScheduledFault) -> None:
        await self.clock.sleep_until(fault.at / 1000)
        began = self.clock.now()
        with suppress(CannotError):
            async with DEEDS[fault.kind](self, fault):
                await self.clock.sleep_until(fault.ends / 1000)
            self.done.append(
                history.PastFault(kind=fault.kind, start=began, end=self.clock.now(), target=fault.target)
            )

    def node(self, fault: ScheduledFault) -> Node:
        return self.cluster.node(fault.target)

    def address(self, fault: ScheduledFault) -> tuple[str, int]:
        node = self.node(fault)
        # Clients of a mongos behind a load balancer know the balancer's address alone.
        balancers = self.cluster.balancers if node.is_mongos else ()
        host, _, port = (balancers[-1] if balancers else node).address.rpartition(":")
        return host, int(port)

    def limit(self, node: Node, kind: str, settings: Mapping[str, Any]) -> None:
        """Set parameters of a server that limit something, and note what a rate limiter did before."""
        now, key = self.clock.now(), (node.name, kind)
        rate = node.parameters[_RATES[kind]] if kind in _RATES else 0
        before = self._read.pop(key, None)
        if before is not None and before.limiter is _limiter(node, kind):
            after = _Reading.of(before.limiter, now)
            self.metered.append(
                history.Limit(
                    kind=kind,
                    server=node.name,
                    rate=rate,
                    start=before.at,
                    end=now,
                    available_at_start=before.available,
                    available_at_end=after.available,
                    admitted=after.admitted - before.admitted,
                    credit=before.limiter.max_queue_depth,
                )
            )
        # A server that was started again meanwhile is without limits already, and takes no sizes of pools.
        changed = {name: value for name, value in settings.items() if node.parameters[name] != value}
        if changed:
            node.parameters.set(changed)
        if kind in _RATES:
            self._read[key] = _Reading.of(_limiter(node, kind), now)

    def settle(self) -> None:
        """Have the members' network be what the partitions under way make of it."""
        for number, node in enumerate(self.cluster.servers, 1):
            node.member.island = number if self.cut[node.name, "members"] else 0
            resets = self.cut[node.name, "resets"] > 0
            silent = self.cut[node.name, "clients"] > 0
            node.outages.cut_off(from_clients=silent or resets, reset=resets and not silent)
        for shard in self.cluster.shards:
            shard.settle()


@asynccontextmanager
async def _latency(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    mean, _, shape = fault.value.partition("~")
    with at.network.disturbed(at.address(fault), PacketDisturbance(shape, int(mean) / 1000)):
        yield


@asynccontextmanager
async def _drop(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    with at.network.disturbed(at.address(fault), PacketDisturbance(lost=_share(fault.value))):
        yield


def _bytes(**effects: Any) -> Deed:
    """Return the deed that adds a fault of bytes: before a request, and twice as often within its reply.

    A reply that is lost leaves in doubt what became of a write.
    """

    @asynccontextmanager
    async def perform(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
        control, share = at.cluster.control, _share(fault.value)
        ids = [
            control.add_fault({"at": phase, "node": fault.target, "probability": each, "do": effects})["id"]
            for phase, each in (("requestHeader", share / 2), ("reply", share))
        ]
        try:
            yield
        finally:
            for each in ids:
                control.remove_fault(each)

    return perform


_CUTS: Final[Mapping[str, tuple[str, ...]]] = {"all": ("members", "clients")}


@asynccontextmanager
async def _partition(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    cuts = [(fault.target, whom) for whom in _CUTS.get(fault.value, (fault.value,))]
    at.cut.update(cuts)
    at.settle()
    try:
        yield
    finally:
        at.cut.subtract(cuts)
        at.settle()


@asynccontextmanager
async def _pause(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    node = at.node(fault)
    with _unless_unable():
        node.pause()
    try:
        yield
    finally:
        # It may have been killed, or resumed by another fault, meanwhile.
        with suppress(ValueError):
            node.resume()


@asynccontextmanager
async def _crash(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    node = at.node(fault)
    if node.stopped:
        raise CannotError
    await node.kill()
    try:
        yield
    finally:
        await _start(node)


@asynccontextmanager
async def _restart(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    node = at.node(fault)
    if node.outages.shutting_down:
        raise CannotError
    with _unless_unable():
        await node.shut_down(quiesce=int(fault.value) / 1000)
    try:
        yield
    finally:
        await _start(node)


async def _start(node: Node) -> None:
    if node.stopped:
        await node.start()


@asynccontextmanager
async def _step_down(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    with _unless_unable():
        at.cluster.step_down(seconds=fault.lasts / 1000)
    yield


@asynccontextmanager
async def _elect(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    with _unless_unable():
        at.cluster.elect(at.node(fault))
    yield


@asynccontextmanager
async def _roll_back(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    try:
        at.cluster.control.roll_back(seconds=fault.lasts / 1000)
    except (ControlError, LookupError) as error:
        raise CannotError from error
    yield


@asynccontextmanager
async def _lag(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    node = at.node(fault)
    node.lag(int(fault.value) / 1000)
    try:
        yield
    finally:
        node.lag(0)


@asynccontextmanager
async def _hold(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    node = at.node(fault)
    node.hold()
    try:
        yield
    finally:
        node.release()


_COMMANDS: Final = (
    *("insert", "update", "findAndModify", "bulkWrite", "find", "aggregate", "getMore"),
    *("commitTransaction", "abortTransaction"),
)
"""The commands that fail points are about: those of the workload."""

_EFFECTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "close": {"closeConnection": True},
    "not-primary": {"errorCode": 10107},
    "stepped-down": {"errorCode": 189},
    "shutdown": {"errorCode": 91},
    "host-unreachable": {"errorCode": 6},
    "block": {"blockConnection": True, "blockTimeMS": 250},
    "overloaded": {"errorCode": 462, "errorLabels": ["SystemOverloadedError", "RetryableError"]},
    "overloaded-final": {"errorCode": 462, "errorLabels": ["SystemOverloadedError"]},
    "write-concern": {"writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"}},
    "write-concern-shutdown": {"writeConcernError": {"code": 91, "errmsg": "replication is being shut down"}},
}


@asynccontextmanager
async def _fail_point(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    effect, _, share = fault.value.partition("~")
    node = at.node(fault)
    data = {"failCommands": list(_COMMANDS), "failInternalCommands": True, **_EFFECTS[effect]}
    node.configure_fail_point("failCommand", mode={"activationProbability": _share(share)}, data=data)
    try:
        yield
    finally:
        node.configure_fail_point("failCommand", mode="off", data={})


def _limit(settings: Callable[[int], Mapping[str, Any]]) -> Deed:
    """Return the deed that sets parameters of a server until the last fault that sets them has ended."""

    @asynccontextmanager
    async def perform(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
        node, changed = at.node(fault), settings(int(fault.value))
        unlimited, under_way = at.limits.setdefault(
            (node.name, fault.kind), ({name: node.parameters[name] for name in changed}, [])
        )
        under_way.append(changed)
        at.limit(node, fault.kind, changed)
        try:
            yield
        finally:
            under_way.remove(changed)
            at.limit(node, fault.kind, under_way[-1] if under_way else unlimited)

    return perform


_RATES: Final[Mapping[str, str]] = {
    "requests": "ingressRequestAdmissionRatePerSec",
    "connections": "ingressConnectionEstablishmentRatePerSec",
}
"""The parameters that say how fast the tokens of a rate limiter accrue, by the kind of fault."""


def _limiter(node: Node, kind: str) -> RateLimiter:
    return node.admission.requests if kind == "requests" else node.admission.establishment


def _requests(rate: int) -> Mapping[str, Any]:
    return {
        "ingressRequestRateLimiterEnabled": True,
        "ingressRequestAdmissionRatePerSec": rate,
        "ingressRequestAdmissionBurstCapacitySecs": 0.2,
    }


def _connections(rate: int) -> Mapping[str, Any]:
    return {
        "ingressConnectionEstablishmentRateLimiterEnabled": True,
        "ingressConnectionEstablishmentRatePerSec": rate,
        "ingressConnectionEstablishmentBurstCapacitySecs": 1.0,
        "ingressConnectionEstablishmentMaxQueueDepth": 5,
    }


def _tickets(count: int) -> Mapping[str, Any]:
    return {
        "executionControlConcurrencyAdjustmentAlgorithm": "fixedConcurrentTransactions",
        "executionControlConcurrentReadTransactions": count,
        "executionControlConcurrentWriteTransactions": count,
        "executionControlReadMaxQueueDepth": 2,
        "executionControlWriteMaxQueueDepth": 2,
    }


@asynccontextmanager
async def _slow(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    node = at.node(fault)
    node.slow(int(fault.value) / 1000)
    try:
        yield
    finally:
        node.slow(0)


@asynccontextmanager
async def _skew(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    clock = at.dates.get(fault.target)
    if clock is None:
        raise CannotError
    clock.skew += int(fault.value)
    try:
        yield
    finally:
        clock.skew -= int(fault.value)


@asynccontextmanager
async def _storm(at: Disturber, fault: ScheduledFault) -> AsyncIterator[None]:
    host, port = at.address(fault)

    async def connect() -> None:
        with suppress(OSError):
            stream = await at.network.connect(host, port, deadline=fault.ends / 1000)
            try:
                await at.clock.sleep_until(fault.ends / 1000)
            finally:
                await stream.aclose()

    async with asyncio.TaskGroup() as group:
        for number in range(int(fault.value)):
            group.create_task(connect(), name=f"{fault} {number}")
        yield


def _share(percentage: str) -> float:
    return int(percentage.removesuffix("%")) / 100


@contextmanager
def _unless_unable() -> Iterator[None]:
    """Turn what a deployment says to a deed that it is in no state for into `CannotError`."""
    try:
        yield
    except ValueError as error:
        raise CannotError from error


DEEDS: Final[Mapping[str, Deed]] = {
    "latency": _latency,
    "drop": _drop,
    "reset": _bytes(reset=True),
    "half-open": _bytes(halfOpen=True),
    "partition": _partition,
    "pause": _pause,
    "crash": _crash,
    "restart": _restart,
    "step-down": _step_down,
    "elect": _elect,
    "rollback": _roll_back,
    "lag": _lag,
    "hold": _hold,
    "fail-point": _fail_point,
    "requests": _limit(_requests),
    "connections": _limit(_connections),
    "tickets": _limit(_tickets),
    "slow": _slow,
    "skew": _skew,
    "server-skew": _skew,
    "storm": _storm,
}
"""How each kind of fault is carried out."""

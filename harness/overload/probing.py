"""Throughput probing at work: clients in a closed loop, and the tickets that the server allots meanwhile."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import fakeserver
from fakeserver.admission.controls import CORES, AdmissionControl
from fakeserver.profile import Profile
from fakeserver.settings.server_parameters import ServerParameters
from fakeserver.waiting.bell import Bell
from harness.overload.open_loop import exchange
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.admission.execution_control import ExecutionControl
    from fakeserver.admission.invocations import TicketPool
    from mongowire.ports import Clock, Network, Rng, Stream

_READ: Final = {"find": "things", "filter": {"_id": 1}, "$db": "db"}
_WRITE: Final = {"delete": "things", "deletes": [{"q": {"_id": 1}, "limit": 1}], "$db": "db"}
_CONNECT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class ProbePoint:
    """What there was at an instant: tickets of both pools, operations a second since the last point."""

    at: float
    tickets: int
    throughput: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbingTrial:
    """A server that is best at `best` operations at a time, and begins with `start` tickets.

    Half of the `clients` read and half write; each asks again after `think` seconds on average. A server
    never tries fewer tickets while all are taken, so the clients must be about as many as `best`: with far
    more of them nothing brings the tickets down again.
    """

    start: int
    best: int = 40
    clients: int = 44
    base: float = 0.02
    think: float = 0.002
    seconds: float = 60.0
    every: float = 0.5
    compares_pools: bool = False
    """Whether the server probes by the rule of newer releases."""

    @property
    def best_throughput(self) -> float:
        return self.best / self.base

    def parameters(self) -> dict[str, Any]:
        """Return the server parameters of such a server."""
        return {
            "serviceTimeBaseMillis": self.base * 1000,
            "serviceTimeConcurrencyLimit": self.best,
            "serviceTimeK": self.best / 2,
            "throughputProbingInitialConcurrency": self.start,
            "throughputProbingComparesPools": self.compares_pools,
        }

    async def run_pressed(self, clock: Clock) -> Sequence[ProbePoint]:
        """Run it with clients that never think, so that whatever tickets there are, all are taken.

        They ask the server's admission control and no server: so many clients need no connections to show
        what tickets they get.
        """
        profile = Profile.named("8.2")
        parameters = ServerParameters(profile, self.parameters())
        admission = AdmissionControl(parameters, profile, cores=CORES, now=clock.now())
        pressing = [
            asyncio.create_task(self._press(number, admission, clock)) for number in range(self.clients)
        ]
        probing = asyncio.create_task(_probe(admission.execution, clock))
        points = await self._watch(admission.execution, clock)
        for task in (*pressing, probing):
            task.cancel()
        return points

    async def _press(self, number: int, admission: AdmissionControl, clock: Clock) -> None:
        """Take a ticket, hold it as long as the service model says, give it back, for ever."""
        execution, service = admission.execution, admission.service
        pool: TicketPool = "write" if number % 2 else "read"
        # No two of them march in step.
        await clock.sleep_until(clock.now() + self.base * number / self.clients)
        while True:
            ticket = execution.acquire(pool, clock.now())
            if ticket.started is None:
                handed_out = asyncio.Event()
                ticket.bell = Bell()
                ticket.bell.listen(handed_out.set)
                await handed_out.wait()
            await clock.sleep_until(service.begin(pool, clock.now()))
            service.finish()
            execution.release(pool, ticket, clock.now())

    async def run(self, *, network: Network, clock: Clock, rng: Rng) -> Sequence[ProbePoint]:
        """Run it on these ports, and return what there was at every so many seconds."""
        spec = fakeserver.ClusterSpec.standalone(parameters=self.parameters())
        async with fakeserver.start(spec, network=network, clock=clock, rng=rng.spawn("server")) as cluster:
            host, _, port = cluster.nodes[0].address.rpartition(":")
            end = clock.now() + self.seconds
            execution = cluster.nodes[0].admission.execution
            async with asyncio.TaskGroup() as running:
                for number in range(self.clients):
                    stream = network.connect(host, int(port), deadline=clock.now() + _CONNECT_SECONDS)
                    client = _Client(
                        _WRITE if number % 2 else _READ, self.think, rng.spawn(f"client {number}")
                    )
                    # They go on a little longer than is looked: the last point is as busy as the others.
                    running.create_task(client.run(await stream, clock, end + self.every))
                watched = running.create_task(self._watch(execution, clock))
            return watched.result()

    async def _watch(self, execution: ExecutionControl, clock: Clock) -> Sequence[ProbePoint]:
        began = at = clock.now()
        points: list[ProbePoint] = []
        finished = 0
        while at < began + self.seconds:
            at += self.every
            await clock.sleep_until(at)
            now = execution.read.finished + execution.write.finished
            tickets = execution.read.size + execution.write.size
            points.append(ProbePoint(at - began, tickets, (now - finished) / self.every))
            finished = now
        return points


async def _probe(execution: ExecutionControl, clock: Clock) -> None:
    """Probe when it is time, for ever."""
    while True:
        await clock.sleep_until(execution.next_probe)
        execution.catch_up(clock.now())


class _Client:
    """Asks, thinks, asks again."""

    def __init__(self, command: dict[str, Any], think: float, rng: Rng) -> None:
        self._message = WireConnection().send(OpMsg.of(command), request_id=1)
        self._think = think
        self._rng = rng

    async def run(self, stream: Stream, clock: Clock, end: float) -> None:
        try:
            while clock.now() < end:
                # No two clients march in step.
                await clock.sleep_until(clock.now() - self._think * math.log(1 - self._rng.random()))
                await exchange(stream, self._message)
        finally:
            await stream.aclose()


def settled(points: Sequence[ProbePoint], since: float) -> tuple[float, float]:
    """Return the mean tickets, of the looks at them, and the mean throughput from an instant on."""
    late = [point for point in points if point.at > since]
    return sum(each.tickets for each in late) / len(late), sum(each.throughput for each in late) / len(late)

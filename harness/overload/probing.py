"""Throughput probing at work: clients in a closed loop, and the tickets that the server allots meanwhile."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import fakeserver
from fakeserver.admission.controls import CORES, AdmissionControl
from fakeserver.profile import Profile
from fakeserver.settings.server_parameters import ServerParameters
from harness.overload.open_loop import exchange
from harness.sim.model import SimulatedServer, Simulation
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.deployment.cluster import Cluster
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

    def run_pressed(self) -> Sequence[ProbePoint]:
        """Run it with clients that never think, so that whatever tickets there are, all are taken.

        The model without bytes does: so many clients need no connections to show what tickets they get.
        """
        profile = Profile.named("8.2")
        parameters = ServerParameters(profile, self.parameters())
        model = Simulation()
        admission = AdmissionControl(parameters, profile, cores=CORES, now=0.0)
        server = SimulatedServer(model, admission)

        def ask(number: int) -> None:
            def again(_code: int | None) -> None:
                ask(number)

            server.request("delete" if number % 2 else "find", "write" if number % 2 else "read", again)

        for number in range(self.clients):
            # No two of them march in step.
            model.at(self.base * number / self.clients, partial(ask, number))
        points: list[ProbePoint] = []
        finished, execution = 0, admission.execution
        while model.now < self.seconds:
            model.run(until=model.now + self.every)
            now = execution.read.finished + execution.write.finished
            tickets = execution.read.size + execution.write.size
            points.append(ProbePoint(model.now, tickets, (now - finished) / self.every))
            finished = now
        return points

    async def run(self, *, network: Network, clock: Clock, rng: Rng) -> Sequence[ProbePoint]:
        """Run it on these ports, and return what there was at every so many seconds."""
        spec = fakeserver.ClusterSpec.standalone(parameters=self.parameters())
        async with fakeserver.start(spec, network=network, clock=clock, rng=rng.spawn("server")) as cluster:
            host, _, port = cluster.nodes[0].address.rpartition(":")
            end = clock.now() + self.seconds
            async with asyncio.TaskGroup() as running:
                for number in range(self.clients):
                    stream = network.connect(host, int(port), deadline=clock.now() + _CONNECT_SECONDS)
                    client = _Client(
                        _WRITE if number % 2 else _READ, self.think, rng.spawn(f"client {number}")
                    )
                    # They go on a little longer than is looked: the last point is as busy as the others.
                    running.create_task(client.run(await stream, clock, end + self.every))
                watched = running.create_task(self._watch(cluster, clock, end))
            return watched.result()

    async def _watch(self, cluster: Cluster, clock: Clock, end: float) -> Sequence[ProbePoint]:
        execution = cluster.nodes[0].admission.execution
        began, at = clock.now(), clock.now()
        points: list[ProbePoint] = []
        finished = 0
        while at < end:
            at += self.every
            await clock.sleep_until(at)
            now = execution.read.finished + execution.write.finished
            tickets = execution.read.size + execution.write.size
            points.append(ProbePoint(at - began, tickets, (now - finished) / self.every))
            finished = now
        return points


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

"""One trial: a server with a capacity, a plan of load, perhaps a policy, and the goodput that came of it.

Capacity is that of the fake's service model (parameters `serviceTime…`): up to `concurrency` operations take
`seconds` each, and more of them take exponentially longer. Server, clients and governor share one event loop
and one clock, virtual or real. In virtual time computing costs nothing, so a seed gives the same report
anywhere; live, clients and server compete for one machine, which is why the capacity is halved there.

Requests are counted in the second in which they were due, not in that of their answers: so a window says what
became of those who asked then.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import fakeserver
from harness.overload.open_loop import OpenLoop, RequestOutcome
from harness.overload.policy.engine import Governor
from harness.sim import run_virtual
from harness.world import cancelling
from mongowire.system import SeededRng, SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.overload.open_loop import Answer
    from harness.overload.plan import Plan
    from harness.overload.policy.engine import Decision
    from harness.overload.policy.policies import Policy
    from mongowire.ports import Clock, Network, Rng


_FIND: Final = {"find": "things", "filter": {"_id": 1}, "$db": "db"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The capacity of a server: so many operations at a time, of so many seconds each.

    More of them at a time take exponentially longer. It hands out as many tickets as `tickets` says, as
    many as it can do at a time unless told otherwise.
    """

    concurrency: int = 10
    seconds: float = 0.1
    tickets: int = 0

    @property
    def per_second(self) -> float:
        return self.concurrency / self.seconds

    def parameters(self) -> dict[str, Any]:
        """Return the server parameters of such a server."""
        return {
            "serviceTimeBaseMillis": self.seconds * 1000,
            "serviceTimeConcurrencyLimit": self.concurrency,
            "serviceTimeK": float(self.concurrency),
            "executionControlConcurrencyAdjustmentAlgorithm": "fixedConcurrentTransactions",
            "executionControlConcurrentReadTransactions": self.tickets or self.concurrency,
        }


@dataclass(frozen=True, slots=True)
class LoadWindow:
    """The outcomes of requests that were due in some seconds of a trial, per second."""

    start: float
    end: float
    offered: float
    goodput: float
    rejected: float
    late: float


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a trial."""

    plan: Plan
    capacity: float
    answers: Sequence[Answer]
    decisions: Sequence[Decision]

    def window(self, start: float, end: float) -> LoadWindow:
        """Return what became of requests due from `start` to `end`, in seconds."""
        outcomes = [answer.outcome for answer in self.answers if start <= answer.due < end]
        seconds = end - start

        def rate(*wanted: RequestOutcome) -> float:
            return sum(outcome in wanted for outcome in outcomes) / seconds

        # A connection that was refused or cut is as little of an answer as one that came too late.
        lost = rate(RequestOutcome.LATE, RequestOutcome.FAILED)
        offered = len(outcomes) / seconds
        return LoadWindow(
            start, end, offered, rate(RequestOutcome.SERVED), rate(RequestOutcome.REJECTED), lost
        )

    def windows(self, seconds: float) -> Iterator[LoadWindow]:
        """Return the whole trial in windows of so many seconds."""
        for number in range(round(self.plan.seconds / seconds)):
            yield self.window(number * seconds, (number + 1) * seconds)

    def held(self, start: float = 0.0, end: float | None = None) -> float:
        """Return the goodput as a part of what a server of this capacity could have served."""
        end = self.plan.seconds if end is None else end
        window = self.window(start, end)
        return window.goodput * (end - start) / self.plan.serveable(self.capacity, start, end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A server under a load, governed by a new policy if there is one. `patience` is the clients'.

    A maker that returns None has a governor that only looks.
    """

    plan: Plan
    policy: Callable[[], Policy | None] | None = None
    capacity: Capacity = field(default_factory=Capacity)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    patience: float = 1.0
    interval: float = 0.25

    async def run(self, *, network: Network, clock: Clock, rng: Rng) -> Report:
        """Run it on these ports."""
        spec = fakeserver.ClusterSpec.standalone(parameters={**self.capacity.parameters(), **self.parameters})
        decisions: list[Decision] = []
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(
                fakeserver.start(spec, network=network, clock=clock, rng=rng.spawn("server"))
            )
            host, _, port = cluster.nodes[0].address.rpartition(":")
            loop = OpenLoop((host, int(port)), _FIND, patience=self.patience, network=network, clock=clock)
            stack.push_async_callback(loop.aclose)
            if self.policy is not None:
                governor = Governor(
                    cluster.uri,
                    self.policy(),
                    interval=self.interval,
                    on_decision=decisions.append,
                    network=network,
                    clock=clock,
                    rng=rng.spawn("governor"),
                )
                await stack.enter_async_context(governor)
                # Entered after the governor, so that its loop ends before the limiters are put back.
                await _run_beside(stack, governor)
            began = clock.now()
            answers = await loop.run(self.plan.arrivals(rng.spawn("arrivals")))
        since_began = [replace(each, at=each.at - began) for each in decisions]
        return Report(self.plan, self.capacity.per_second, answers, since_began)


async def _run_beside(stack: AsyncExitStack, governor: Governor) -> None:
    task = asyncio.create_task(governor.run())

    async def end() -> None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    stack.push_async_callback(end)


# Trials are played on one of two clocks: over TCP in real time, or in virtual time.


_LIVE_CONCURRENCY = 5


def capacity(*, live: bool) -> Capacity:
    """Return the capacity of a trial's server, half as much where clients and server share a machine."""
    return Capacity(concurrency=_LIVE_CONCURRENCY) if live else Capacity()


def play(trial: Trial, *, live: bool, seed: int = 0) -> Report:
    """Run a trial and return what came of it. Raises `Interrupted`."""
    if live:
        return cancelling.run(trial.run(network=TcpNetwork(), clock=SystemClock(), rng=SeededRng(seed)))
    with cancelling.cancelling():
        return run_virtual(
            lambda world: cancelling.heard(
                trial.run(network=world.network, clock=world.clock, rng=world.rng)
            ),
            seed=seed,
        )

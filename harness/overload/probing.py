"""Throughput probing at work: clients in a closed loop, and the tickets that the server allots meanwhile.

The question is whether the algorithm finds the best concurrency, so the best one is set
(`ProbingTrial.best`) and the server begins far from it. There are two kinds of trial. `run` is the whole
fake server with about as many clients as the best: the demand falls short now and then, which is what lets
tickets go down. `run_pressed` has 200 clients that never think; it drives the admission control without a
network, for every ticket is taken at once and connections would add time and no information.

All of it is in virtual time. Throughput is operations a second of both pools, and tickets are the sum of
both.
"""

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
from harness.report.fitting import aligned
from harness.report.pages import chart, frame
from harness.report.pages.chart import Level, Line, Panel
from harness.sim import run_virtual
from harness.world import cancelling
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.admission.execution_control import ExecutionControl
    from fakeserver.admission.invocations import TicketPool
    from harness.sim import World
    from mongowire.ports import Clock, Network, Rng, Stream


_READ: Final = {"find": "things", "filter": {"_id": 1}, "$db": "db"}
_WRITE: Final = {"delete": "things", "deletes": [{"q": {"_id": 1}, "limit": 1}], "$db": "db"}
_CONNECT_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class ProbePoint:
    """Measures at an instant: tickets of both pools, operations a second since the last point."""

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


# Trials of throughput probing: the best concurrency from below and from above, in virtual time.
#
# A workload runs against a server whose best concurrency is known, and tickets and throughput are measured
# where they settle, in the last third. The same happens under a load that never lets up, with far more
# clients than tickets, from above the best: by the specified rule, and by that of newer servers, which
# compare pool by pool (`throughputProbingComparesPools`).

STARTS: Final = (10, 40, 80)
"""Tickets at the start: a quarter of the best, the best, and twice the best."""
_PRESSED_STARTS: Final = (80, 160)
_PRESSED_CLIENTS: Final = 200
_SETTLED_AFTER: Final = 2 / 3


def trials(starts: Sequence[int], seconds: float) -> list[ProbingTrial]:
    """Return the trials with about as many clients as the best concurrency; `starts` are tickets."""
    return [ProbingTrial(start=start, seconds=seconds) for start in starts]


def run(
    trials: Sequence[ProbingTrial], *, on_trial: Callable[[], object] = lambda: None
) -> list[Sequence[ProbePoint]]:
    """Run trials one after the other; `on_trial` hears that one has ended. Raises `Interrupted`."""
    return [_told(_run(trial), on_trial) for trial in trials]


def pressed_trials(seconds: float) -> list[ProbingTrial]:
    """Return the trials under a load that never lets up, by the specified rule and by the newer one."""
    return [
        ProbingTrial(start=start, clients=_PRESSED_CLIENTS, seconds=seconds, compares_pools=compares_pools)
        for compares_pools in (False, True)
        for start in _PRESSED_STARTS
    ]


def _told(points: Sequence[ProbePoint], on_trial: Callable[[], object]) -> Sequence[ProbePoint]:
    on_trial()
    return points


def _run(trial: ProbingTrial, *, pressed: bool = False) -> Sequence[ProbePoint]:
    async def main(world: World) -> Sequence[ProbePoint]:
        if pressed:
            return await cancelling.heard(trial.run_pressed(world.clock))
        return await cancelling.heard(trial.run(network=world.network, clock=world.clock, rng=world.rng))

    with cancelling.cancelling():
        return run_virtual(main)


def report(
    trials: Sequence[ProbingTrial],
    runs: Sequence[Sequence[ProbePoint]],
    *,
    seconds: float,
    on_trial: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Return where trials settled, and those under a load that never lets up, as a document of numbers.

    The latter are run here; `on_trial` hears of each that has ended.
    """
    pressed = pressed_trials(seconds)
    settled_under_pressure = [_told(_run(trial, pressed=True), on_trial) for trial in pressed]
    return _settled(trials, runs) | {"pressed": _settled(pressed, settled_under_pressure)}


def _settled(trials: Sequence[ProbingTrial], runs: Sequence[Sequence[ProbePoint]]) -> dict[str, Any]:
    first = trials[0]
    rows = [_row(trial, points) for trial, points in zip(trials, runs, strict=True)]
    return {"best": first.best, "clients": first.clients, "seconds": first.seconds, "trials": rows}


def _row(trial: ProbingTrial, points: Sequence[ProbePoint]) -> dict[str, Any]:
    tickets, throughput = settled(points, trial.seconds * _SETTLED_AFTER)
    return {
        "start": trial.start,
        "rule": "pool by pool" if trial.compares_pools else "as specified",
        "tickets": tickets,
        "of_best": tickets / trial.best,
        "throughput": throughput,
        "of_best_throughput": throughput / trial.best_throughput,
    }


def table(report: Mapping[str, Any], width: int | None = None) -> str:
    """Return a report as text, with that of the load that never lets up if it has one.

    The rows are cards beyond a width.
    """
    lines = [_setting(report), *aligned([_HEADINGS, *_rows(report)], width, words=0)]
    if "pressed" in report:
        lines += ["", _PRESSED, table(report["pressed"], width)]
    return "\n".join(lines)


_PRESSED: Final = "under a load that never lets up"
_HEADINGS: Final = ("start", "rule", "tickets", "of best", "operations/s", "of best rate")


def _setting(report: Mapping[str, Any]) -> str:
    best, clients, seconds = report["best"], report["clients"], report["seconds"]
    return f"best concurrency {best}, {clients} clients, {seconds:g} s of virtual time"


def _rows(report: Mapping[str, Any]) -> list[Sequence[str]]:
    return [
        (
            str(row["start"]),
            row["rule"],
            f"{row['tickets']:.1f}",
            f"{row['of_best']:.1%}",
            f"{row['throughput']:,.0f}",
            f"{row['of_best_throughput']:.1%}",
        )
        for row in report["trials"]
    ]


_TITLE: Final = "Throughput probing from several starts"


def picture(trials: Sequence[ProbingTrial], runs: Sequence[Sequence[ProbePoint]]) -> str:
    """Return an SVG of tickets and throughput over time."""
    return chart.file(panels(trials, runs), title=_TITLE, columns=2)


def page(
    report: Mapping[str, Any], trials: Sequence[ProbingTrial], runs: Sequence[Sequence[ProbePoint]]
) -> str:
    """Return a page with the tables of a report and the picture."""
    sections = [
        frame.section(
            "Where it settles",
            frame.panels(panels(trials, runs), title=_TITLE),
            frame.table(_HEADINGS, _rows(report), caption="Tickets and throughput by start", words=(0, 1)),
        )
    ]
    if "pressed" in report:
        pressed = report["pressed"]
        sections.append(
            frame.section(
                _PRESSED.capitalize(),
                frame.paragraph(f"{_setting(pressed)}."),
                frame.table(_HEADINGS, _rows(pressed), caption=_PRESSED, words=(0, 1)),
            )
        )
    return frame.page(_TITLE, sections, facts=_setting(report))


def panels(trials: Sequence[ProbingTrial], runs: Sequence[Sequence[ProbePoint]]) -> list[Panel]:
    """Return the charts of tickets and of throughput over time."""
    best, most = trials[0].best, trials[0].best_throughput

    def lines(number_of: Callable[[ProbePoint], float]) -> list[Line]:
        return [
            Line(
                f"from {trial.start}",
                [(each.at, number_of(each)) for each in points],
                chart.SERIES[number % len(chart.SERIES)],
                dash=number,
            )
            for number, (trial, points) in enumerate(zip(trials, runs, strict=True))
        ]

    return [
        Panel(
            title=title,
            x="seconds of virtual time",
            y=unit,
            lines=drawn,
            levels=[Level(value, f"best ± {share:.0%}", around=share)],
            x_least=0.0,
        )
        for title, unit, drawn, value, share in (
            ("Tickets", "of both pools", lines(lambda each: each.tickets), best, 0.25),
            ("Throughput", "operations per second", lines(lambda each: each.throughput), most, 0.1),
        )
    ]

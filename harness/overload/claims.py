"""Claims of the specifications about overload, each as scenarios of a fleet that differ in one thing.

`CLAIMS` has a maker for each: from a number of clients and a seed to a `Claim` with its `Side`s. `measure`
plays them, `report` makes numbers of the outcomes, `table`, `picture` and `section` show them with the words
of the claim. `misleads` is a part of every claim: it says where the setting was chosen, or the model is not
the world. These words have numbers in them, so whoever changes a scenario reads them again.

Each has servers that can do a fifth of an operation a second for each client. Capacity and load grow with
the number of clients, so that a claim can be measured at any size; with few of them chance decides, as
`misleads` says where it matters.

The load comes from outside (`Spike`, `Open`), but where clients come all at once. Who asks waits for a
second, then closes its connection. What a server has begun it finishes, also for those who have gone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from harness.overload.policy.policies import POLICIES, UNLIMITED, Reading
from harness.report.fitting import aligned
from harness.report.pages import chart, frame
from harness.report.pages.chart import Level, Line, Panel, Span
from harness.sim.fleet import columns as c
from harness.sim.fleet import simulate
from harness.sim.fleet.outcome import COUNTS
from harness.sim.fleet.running import run
from harness.sim.fleet.scenario import (
    ConnectionLimit,
    Deploy,
    Open,
    RequestLimit,
    Scenario,
    Servers,
    Service,
    Spike,
)
from harness.sim.fleet.strategies import Backpressure, Fixed
from harness.world import interruption

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.sim.fleet.scenario import Arrivals
    from harness.sim.fleet.strategies import Strategy

    _Fleet: TypeAlias = Strategy | tuple[tuple[float, Strategy], ...]
    """The strategy of all clients, or those of shares of them."""
    from collections.abc import Sequence

    from harness.overload.policy.policies import Policy
    from harness.sim.fleet import Engine
    from harness.sim.fleet.columns import FleetWorld
    from harness.sim.fleet.outcome import FleetOutcome


PolicyName: TypeAlias = Literal["aimd", "follow-throughput"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One scenario of a claim; with a `policy`, that of `pushbackd govern` sets its limiters.

    With `connections` it sets the limit of new connections as well.
    """

    name: str
    scenario: Scenario
    policy: PolicyName | None = None
    connections: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimPhase:
    """A part of the scenarios that has a column in the table, from `start` to `end` in seconds."""

    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim, the sides that show it, and the words on them.

    `shows` says what comes out, at the size at which the texts of docs/ were written; `misleads` where the
    model is not the world. `capacity` is what all servers together can do a second.
    """

    name: str
    title: str
    setting: str
    shows: str
    misleads: str
    sides: tuple[Side, ...]
    phases: tuple[ClaimPhase, ...]
    capacity: float


CLIENTS: Final = 1000
"""The number of clients that claims are measured with, unless told otherwise."""

REJECTION: Final = 0.2
"""The part of a request's work that a rejection takes, in the claim that is about it: `python -m
benchmarks.rejection --command find` measures 0.23 on the fake."""

# What all claims share: operations a second of the capacity for each client, clients for each worker of a
# server, seconds that clients wait, and the limit as a part of the capacity with the seconds of its burst.
_PER_CLIENT: Final = 0.2
_CLIENTS_PER_WORKER: Final = 100
_PATIENCE: Final = 1.0
_LIMITED_TO: Final = 0.9
_BURST_SECONDS: Final = 0.1


def _capacity(clients: int) -> float:
    return clients * _PER_CLIENT


def _service(clients: int, members: int = 1) -> Service:
    """Return the service of each of some members, which can do a clients' fair share of the capacity."""
    # With few clients there is one worker, so the base time is what makes the capacity right.
    workers = max(1, clients // _CLIENTS_PER_WORKER // members)
    return Service(workers=workers, base=workers * members / _capacity(clients), recompute=0)


def _limit(clients: int, *, share: float = _LIMITED_TO, told_backoff: float | None = None) -> RequestLimit:
    return RequestLimit(
        rate=_capacity(clients) * share, burst_seconds=_BURST_SECONDS, told_backoff=told_backoff
    )


def _spike(clients: int, load: float, times: float, start: float, end: float) -> Spike:
    """Return a load, as a part of the capacity, which is several times as high for a while."""
    return Spike(rate=load * _capacity(clients), factor=times, start=start, end=end)


def _scenario(
    clients: int,
    seed: int,
    arrivals: Arrivals,
    strategy: _Fleet,
    servers: Servers,
    *,
    seconds: float,
    window: float = 1.0,
) -> Scenario:
    return Scenario(
        clients=clients,
        seconds=seconds,
        arrivals=arrivals,
        fleet=strategy if isinstance(strategy, tuple) else ((1.0, strategy),),
        servers=servers,
        timeout=_PATIENCE,
        seed=seed,
        window=window,
    )


def _sides(
    clients: int,
    seed: int,
    arrivals: Arrivals,
    servers: Servers,
    strategies: Mapping[str, _Fleet],
    *,
    seconds: float,
    window: float = 1.0,
) -> tuple[Side, ...]:
    """Return sides that differ in what their clients do, by name."""
    return tuple(
        Side(
            name=name,
            scenario=_scenario(clients, seed, arrivals, fleet, servers, seconds=seconds, window=window),
        )
        for name, fleet in strategies.items()
    )


def _phases(start: float, end: float, seconds: float) -> tuple[ClaimPhase, ...]:
    return (
        ClaimPhase(name="before", start=0.0, end=start),
        ClaimPhase(name="overload", start=start, end=end),
        ClaimPhase(name="after", start=end, end=seconds),
    )


def _token_bucket(clients: int, seed: int) -> Claim:
    arrivals = _spike(clients, 0.5, 4, 10, 50)

    def side(name: str, *, bucket: bool, rejection: float) -> Side:
        service = replace(_service(clients), rejection=rejection)
        servers = Servers(service=service, request_limit=_limit(clients, share=0.6))
        strategy = Backpressure(token_bucket=bucket, sharing=clients)
        scenario = _scenario(clients, seed, arrivals, strategy, servers, seconds=70)
        return Side(name=name, scenario=scenario)

    return Claim(
        name="token-bucket",
        title="A token bucket keeps the goodput that rejected retries take from a server",
        setting="Twice the capacity for 40 s, a limiter at 60 %, five retries; all threads share a bucket. A"
        " rejection takes a fifth of the work of a request, or nothing.",
        shows="Without the bucket a refused operation becomes six of them for as long as the overload lasts."
        " To refuse them is more than the server can do beside what it admits: its answers come too"
        " late, and it does not come back. With the bucket it is little more than one after a few"
        " seconds, when the 1,000 tokens are spent, and goodput stays at the limit. Where rejections"
        " are free the bucket saves attempts alone.",
        misleads="The limiter leaves room for the rejections of operations that are not retried, and 1,000"
        " tokens are few for so many threads. At a limit of 90 %, or with ten such buckets, the server"
        " is lost before they are spent. A rejection takes as much of a query that finds nothing"
        " (docs/OVERLOAD.md); of one that works for 50 ms it is far less. Retries that the bucket refuses"
        " are operations that fail. And a retry that times out gives its token back, so the bucket does"
        " not help where a server answers too late and does not refuse.",
        sides=(
            side("with a bucket", bucket=True, rejection=REJECTION),
            side("without", bucket=False, rejection=REJECTION),
            side("with, free rejections", bucket=True, rejection=0.0),
            side("without, free rejections", bucket=False, rejection=0.0),
        ),
        phases=_phases(10, 50, 70),
        capacity=_capacity(clients),
    )


def _retries(clients: int, seed: int) -> Claim:
    servers = Servers(
        service=_service(clients), request_limit=RequestLimit(rate=_capacity(clients), burst_seconds=1.0)
    )
    arrivals = _spike(clients, 0.45, 4, 10, 20)
    return Claim(
        name="retries",
        title="Two retries let a server come back that five keep down",
        setting="A load of 45 %, four times that for 10 s; a limiter at 100 %; no token bucket.",
        shows="With five retries the load of retries alone is above the capacity once most attempts fail,"
        " and goodput stays at nothing after the spike has passed. With two it is back within seconds.",
        misleads="The limiter is set to the whole capacity, so a queue stands behind it and admitted"
        " requests time out; at 90 % both come back. Over a short spike five retries save operations"
        " that two give up. And the load was chosen between the two: at 30 % both come back, at 70 %"
        " neither does. A server of 40 operations a second is back by chance.",
        sides=_sides(
            *(clients, seed, arrivals, servers),
            {
                "five retries": Backpressure(token_bucket=False, retries=5),
                "two retries": Backpressure(token_bucket=False, retries=2),
            },
            seconds=60,
        ),
        phases=_phases(10, 20, 60),
        capacity=_capacity(clients),
    )


def _jitter(clients: int, seed: int) -> Claim:
    servers = Servers(
        service=_service(clients),
        request_limit=RequestLimit(rate=_capacity(clients), burst_seconds=_BURST_SECONDS),
    )
    return Claim(
        name="jitter",
        title="Jitter spreads clients out that were refused together",
        setting="All clients start within 0.2 s, then ask every 10 s; a limiter at 100 %; no token bucket.",
        shows="Without jitter those who were refused come back together, wave after wave, and the limiter"
        " idles between the waves. With it the second wave is flat, and more operations succeed in the"
        " first two seconds.",
        misleads="Full jitter also halves the mean wait, so clients are sooner back; that is a part of the"
        " difference. Real clients start less exactly together, and networks and schedulers are"
        " jitter, too.",
        sides=_sides(
            *(clients, seed, Deploy(within=0.2, gap=10), servers),
            {
                "full jitter": Backpressure(token_bucket=False, jitter=True),
                "none": Backpressure(token_bucket=False, jitter=False),
            },
            seconds=8,
            window=0.1,
        ),
        phases=(ClaimPhase(name="first 2 s", start=0, end=2), ClaimPhase(name="after", start=2, end=8)),
        capacity=_capacity(clients),
    )


def _retargeting(clients: int, seed: int) -> Claim:
    members, seconds = 3, 90.0
    servers = Servers(
        members=members,
        service=_service(clients, members),
        connection_limit=ConnectionLimit(rate=_capacity(clients) * 0.02, burst_seconds=2.0),
    )
    return Claim(
        name="retargeting",
        title="Retargeting asks another server than the one that refused",
        setting="A load of 60 % by programs that have just started; each of three members lets a fiftieth of"
        " the capacity connect a second; two retries, no token bucket.",
        shows="A client that one member refuses may be connected to another. With retargeting its two"
        " retries come to both others, without it they may come to the same member again: more"
        " operations succeed, with fewer attempts, until all are connected to all.",
        misleads="It needs members that are not alike to the client. Where all refuse alike retargeting"
        " changes nothing, and where the others have no room it moves the overload to them. When one"
        " member of three restarts, goodput gains a hundredth: two of three chances to meet another are"
        " there without it. Drivers choose the member with fewer operations under way, not by dice.",
        sides=_sides(
            *(clients, seed, Open(rate=_capacity(clients) * 0.6), servers),
            {
                "retargeting": Backpressure(token_bucket=False, retries=2, retargeting=True),
                "none": Backpressure(token_bucket=False, retries=2, retargeting=False),
            },
            seconds=seconds,
        ),
        phases=(
            ClaimPhase(name="first 30 s", start=0, end=30),
            ClaimPhase(name="then", start=30, end=60),
            ClaimPhase(name="last 30 s", start=60, end=seconds),
        ),
        capacity=_capacity(clients),
    )


def _limiter(clients: int, seed: int) -> Claim:
    arrivals = _spike(clients, 0.5, 4, 10, 30)
    return Claim(
        name="limiter",
        title="A limiter keeps the goodput of an overloaded server",
        setting="Twice the capacity for 20 s; the clients follow the edition of 2026-02-20.",
        shows="Without a limiter the queue grows until every answer comes too late, and the server works"
        " for clients that have gone. With one at 90 % of the capacity goodput stays at that.",
        misleads="The limit is right because the capacity is known. One that is too high does nothing, one"
        " that is too low wastes the server: see the claim 'govern'.",
        sides=tuple(
            Side(
                name=name,
                scenario=_scenario(
                    clients,
                    seed,
                    arrivals,
                    Backpressure(),
                    Servers(
                        service=_service(clients),
                        tickets=max(1, clients // _CLIENTS_PER_WORKER),
                        request_limit=limit,
                    ),
                    seconds=60,
                ),
            )
            for name, limit in (("limiter at 90 %", _limit(clients)), ("none", None))
        ),
        phases=_phases(10, 30, 60),
        capacity=_capacity(clients),
    )


def _told_backoff(clients: int, seed: int) -> Claim:
    servers = Servers(service=_service(clients), request_limit=_limit(clients, told_backoff=2.0))
    arrivals = _spike(clients, 0.5, 4, 10, 15)
    return Claim(
        name="told-backoff",
        title="A backoff told by the server carries operations over an overload",
        setting="Twice the capacity for 5 s, a limiter at 90 % whose errors carry baseBackoffMS: 2000; the"
        " edition of 2026-07-08.",
        shows="Drivers that honour it wait longer than the overload lasts: fewer operations fail, with"
        " fewer attempts.",
        misleads="They succeed late: the longest wait up to ten seconds, and a program with a deadline has"
        " given up before. A server that tells a long backoff after a short overload holds its clients"
        " back for nothing.",
        sides=_sides(
            *(clients, seed, arrivals, servers),
            {
                "honoured": Backpressure(edition="2026-07-08", honours_server_backoff=True),
                "ignored": Backpressure(edition="2026-07-08", honours_server_backoff=False),
            },
            seconds=40,
        ),
        phases=_phases(10, 15, 40),
        capacity=_capacity(clients),
    )


def _mixed_fleet(clients: int, seed: int) -> Claim:
    servers = Servers(service=_service(clients))
    arrivals = _spike(clients, 0.25, 5, 20, 30)

    def fleet(old: float) -> _Fleet:
        return ((old, Fixed(interval=0.1)), (1 - old, Backpressure())) if old else Backpressure()

    return Claim(
        name="mixed-fleet",
        title="A few clients that never give up keep a server down for all",
        setting="A load of 25 %, five times that for 10 s, no limiter; a share of the programs retries"
        " every 100 ms for ever, the others follow the edition of 2026-02-20.",
        shows="When none does, the server is back some 20 s after the spike. One program in ten is enough"
        " to keep it down, also for those that behave.",
        misleads="There is no limiter: with one the server comes back at any share, and the impatient take"
        " more than theirs of what it admits. The load was chosen so that the best fleet recovers.",
        sides=_sides(
            *(clients, seed, arrivals, servers),
            {f"{share:.0%} old": fleet(share) for share in (0.0, 0.1, 0.25, 0.5)},
            seconds=80,
        ),
        phases=_phases(20, 30, 80),
        capacity=_capacity(clients),
    )


def _govern(clients: int, seed: int) -> Claim:
    tickets = max(1, clients // _CLIENTS_PER_WORKER)
    free = RequestLimit(rate=UNLIMITED, burst_seconds=_BURST_SECONDS)
    storm = ConnectionLimit(rate=UNLIMITED)
    arrivals = _spike(clients, 0.5, 6, 10, 50)

    def scenario(limit: RequestLimit | None, connections: ConnectionLimit | None = None) -> Scenario:
        servers = Servers(
            service=_service(clients), tickets=tickets, request_limit=limit, connection_limit=connections
        )
        return _scenario(clients, seed, arrivals, Backpressure(), servers, seconds=60)

    return Claim(
        name="govern",
        title="A policy finds the limit that nobody knows",
        setting="Three times the capacity for 40 s; `pushbackd govern` reads the server every 250 ms and"
        " sets its limiters.",
        shows="AIMD comes to the capacity without knowing it, a little above what a limit of 90 % admits,"
        " at the price of a short queue. The policy that follows throughput lets in a tenth too much:"
        " the queue grows until no answer is in time, and stays so after the overload. To limit"
        " connections as well costs nothing here.",
        misleads="The capacity does not change, no other load is on the server, and its readings are"
        " exact. Connections cost the model nothing, so their limit cannot gain anything here; where a"
        " handshake costs more than a request, it does.",
        sides=(
            Side(name="limit of 90 %", scenario=scenario(_limit(clients))),
            Side(name="AIMD", scenario=scenario(free), policy="aimd"),
            Side(
                name="AIMD, connections too", scenario=scenario(free, storm), policy="aimd", connections=True
            ),
            Side(name="follow throughput", scenario=scenario(free), policy="follow-throughput"),
            Side(name="none", scenario=scenario(None)),
        ),
        phases=(
            ClaimPhase(name="before", start=0, end=10),
            ClaimPhase(name="first 10 s", start=10, end=20),
            ClaimPhase(name="then", start=20, end=50),
            ClaimPhase(name="after", start=50, end=60),
        ),
        capacity=_capacity(clients),
    )


CLAIMS: Final[Mapping[str, Callable[[int, int], Claim]]] = {
    "token-bucket": _token_bucket,
    "retries": _retries,
    "jitter": _jitter,
    "retargeting": _retargeting,
    "limiter": _limiter,
    "told-backoff": _told_backoff,
    "mixed-fleet": _mixed_fleet,
    "govern": _govern,
}
"""The claims by name: each is made for a number of clients and a seed."""


# The sides of a claim, run one after the other, and what came of them as numbers and as a table.


def measure(
    claim: Claim, *, engine: Engine = "auto", on_side: Callable[[], object] = lambda: None
) -> list[FleetOutcome]:
    """Return the outcomes of a claim's sides in their order; `on_side` is called after each.

    Raises `Interrupted`, and as `simulate` does.
    """
    outcomes = []
    for side in claim.sides:
        outcomes.append(_run(side, engine))
        on_side()
    return outcomes


def _run(side: Side, engine: Engine) -> FleetOutcome:
    # A run takes seconds to minutes, and Ctrl-C is to end it.
    def on_progress(_: float) -> None:
        interruption.check()

    if side.policy is None:
        return simulate(side.scenario, engine=engine, on_progress=on_progress)

    governor = SimulatedGovernor(POLICIES[side.policy](limits_connections=side.connections))
    return run(side.scenario, engine=engine, on_progress=on_progress, every=INTERVAL, on_pause=governor.step)


def report(claim: Claim, outcomes: Sequence[FleetOutcome]) -> dict[str, Any]:
    """Return a document of numbers: a row for each side, None for what is infinite.

    Infinite are the latency and the attempts of a side without a success, which JSON cannot say.
    """
    rows = [_row(claim, side, outcome) for side, outcome in zip(claim.sides, outcomes, strict=True)]
    return {
        "claim": claim.name,
        "title": claim.title,
        "clients": claim.sides[0].scenario.clients,
        "seed": claim.sides[0].scenario.seed,
        "capacity": claim.capacity,
        "sides": rows,
    }


def _row(claim: Claim, side: Side, outcome: FleetOutcome) -> dict[str, Any]:
    numbers = {
        "offered": outcome.total("offered"),
        "failed": outcome.total("failed"),
        "attempts_per_success": outcome.attempts_per_success,
        "latency_p99": outcome.percentile(0.99),
    }
    return {
        "side": side.name,
        "goodput": {phase.name: outcome.goodput(phase.start, phase.end) for phase in claim.phases},
        **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
    }


def table(claim: Claim, report: Mapping[str, Any], width: int | None = None) -> str:
    """Return a report as text, with what it shows and where it would mislead; of cards beyond a width."""
    headings, rows = grid(report)
    lines = [
        claim.title,
        claim.setting,
        f"{report['clients']:,} clients, capacity {report['capacity']:g}/s, seed {report['seed']}",
        "",
        *aligned([headings, *rows], width, words=1),
    ]
    return "\n".join([*lines, "", f"Shows: {claim.shows}", "", f"Misleads: {claim.misleads}"])


def grid(report: Mapping[str, Any]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return the headings and the rows of a report's table; the latency is that of successes."""
    phases = list(report["sides"][0]["goodput"])
    return ("goodput per second", *phases, "failed", "attempts", "p99"), [
        _cells(row) for row in report["sides"]
    ]


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    failed = row["failed"] / row["offered"] if row["offered"] else 0.0
    attempts, latency = row["attempts_per_success"], row["latency_p99"]
    return (
        row["side"],
        *(f"{value:.1f}" for value in row["goodput"].values()),
        f"{failed:.1%}",
        "never" if attempts is None else f"{attempts:.2f}",
        "never" if latency is None else f"{latency:.2f} s",
    )


# A policy of `pushbackd govern` in a closed loop with a simulated server: the same rules.

INTERVAL: Final = 0.25
"""Seconds between two readings, as `pushbackd govern` has them."""

_REJECTED: Final = COUNTS.index("rejected")
_COMPLETED: Final = COUNTS.index("completed")


class SimulatedGovernor:
    """Reads the columns of a server as `Governor` reads a status, and sets its limits by a policy.

    A fleet with several members has one policy for all, and each of them the limits. Connections that were
    turned away are not read, so they do not raise a rate as they do on a server.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._reading: Reading | None = None

    def step(self, world: FleetWorld) -> None:
        """Look once; from the second look on decide, and set."""
        before, self._reading = self._reading, _reading(world)
        sample = None if before is None else self._reading.since(before)
        if sample is not None:
            settings = self._policy.decide(sample, self._reading.uptime)
            parameters, reals = settings.parameters(), world.reals
            reals[c.REQUEST_RATE] = float(settings.request_rate)
            reals[c.REQUEST_BURST] = (
                settings.request_rate * parameters["ingressRequestAdmissionBurstCapacitySecs"]
            )
            if settings.connection_rate is not None:
                burst = parameters["ingressConnectionEstablishmentBurstCapacitySecs"]
                reals[c.CONNECTION_RATE] = float(settings.connection_rate)
                reals[c.CONNECTION_BURST] = settings.connection_rate * burst


def _reading(world: FleetWorld) -> Reading:
    numbers, tick = world.numbers, world.reals[c.TICK]
    # A counter of a server counts from its start; columns count by window and are summed. Whoever was
    # admitted has either finished or is at work, for a server of the model finishes what it has begun.
    members = [c.MEMBERS_AT + member * c.MEMBER for member in range(int(numbers[c.MEMBERS]))]
    at_work = sum(int(numbers[own + c.CONCURRENCY]) for own in members)
    finished = _total(world, _COMPLETED)
    return Reading(
        uptime=int(numbers[c.NOW]) * tick,
        admitted=finished + at_work,
        rejected=_total(world, _REJECTED),
        finished=finished,
        arrived=finished + at_work,
        time_queued=int(numbers[c.WAITED]) * tick,
        queue_length=sum(int(numbers[own + c.TICKET_QUEUE + c.LENGTH]) for own in members),
    )


def _total(world: FleetWorld, place: int) -> int:
    """Return the sum of a column of counts so far."""
    numbers = world.numbers
    begin = int(numbers[c.WINDOWS_AT]) + place
    return sum(int(numbers[begin + row * c.COUNTED]) for row in range(int(numbers[c.WINDOWS])))


# The figure of a claim, goodput and attempts over time with a line for each side; and its page.


_PANELS: Final = (("ok", "Goodput", "successes per second"), ("started", "Attempts", "per second"))


def picture(claim: Claim, outcomes: Sequence[FleetOutcome]) -> str:
    """Return the SVG of a claim's outcomes."""
    return chart.file(panels(claim, outcomes), title=claim.title, columns=2)


def panels(claim: Claim, outcomes: Sequence[FleetOutcome]) -> list[Panel]:
    """Return the panels of a claim's outcomes."""
    return [
        Panel(
            title=title,
            x="seconds",
            y=unit,
            lines=[
                Line(side.name, _rates(outcome, column), chart.SERIES[number], dash=number)
                for number, (side, outcome) in enumerate(zip(claim.sides, outcomes, strict=True))
            ],
            spans=[
                Span(phase.start, phase.end, phase.name, "shaded" if number % 2 else "plain")
                for number, phase in enumerate(claim.phases)
            ],
            levels=[Level(claim.capacity, "capacity")],
            x_least=0.0,
            x_most=claim.phases[-1].end,
        )
        for column, title, unit in _PANELS
    ]


def section(claim: Claim, numbers: Mapping[str, Any], outcomes: Sequence[FleetOutcome]) -> str:
    """Return the part of a page on a claim: its setting, figure and table, and what it shows."""
    facts = f"{numbers['clients']:,} clients, capacity {numbers['capacity']:g}/s, seed {numbers['seed']}"
    return frame.section(
        claim.title,
        frame.paragraph(f"{claim.setting} {facts}."),
        frame.panels(panels(claim, outcomes), title=claim.title),
        frame.table(*grid(numbers), caption=f"{claim.title}: goodput per second by phase"),
        frame.paragraph(f"Shows: {claim.shows}"),
        frame.paragraph(f"Misleads: {claim.misleads}"),
    )


def _rates(outcome: FleetOutcome, column: str) -> list[tuple[float, float]]:
    times = outcome.columns["time"]
    return [(at, count / outcome.window) for at, count in zip(times, outcome.columns[column], strict=True)]

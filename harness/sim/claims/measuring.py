"""The sides of a claim, run one after the other, and what came of them as numbers and as a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from harness.overload.policy.policies import POLICIES, Reading
from harness.pages import chart, frame
from harness.pages.chart import Level, Line, Panel, Span
from harness.report.fitting import aligned
from harness.running import interruption
from harness.sim.fleet import columns as c
from harness.sim.fleet import simulate
from harness.sim.fleet.outcome import COUNTS
from harness.sim.fleet.running import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.overload.policy.policies import Policy, Settings
    from harness.sim.claims.catalogue import Claim, Side
    from harness.sim.fleet import Engine
    from harness.sim.fleet.columns import FleetWorld
    from harness.sim.fleet.outcome import FleetOutcome


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
    def on_progress(_: float) -> None:
        interruption.check()

    if side.policy is None:
        return simulate(side.scenario, engine=engine, on_progress=on_progress)

    governor = SimulatedGovernor(POLICIES[side.policy](limits_connections=side.connections))
    return run(side.scenario, engine=engine, on_progress=on_progress, every=INTERVAL, on_pause=governor.step)


def report(claim: Claim, outcomes: Sequence[FleetOutcome]) -> dict[str, Any]:
    """Return a document of numbers: a row for each side, None for what is infinite."""
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
    first = max(len(side.name) for side in claim.sides) + 2
    widths = [*(12 for _ in claim.phases), 10, 10, 9]
    printed = [
        f"{name:{first}}" + "".join(f"{cell:>{wide}}" for cell, wide in zip(cells, widths, strict=True))
        for name, *cells in (headings, *rows)
    ]
    if width is not None and max(map(len, printed)) > width:
        printed = aligned([headings, *rows], width, words=1)
    lines = [
        claim.title,
        claim.setting,
        f"{report['clients']:,} clients, capacity {report['capacity']:g}/s, seed {report['seed']}",
        "",
        *printed,
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

    A fleet with several members has one policy for all, and each of them the limits.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._reading: Reading | None = None

    def step(self, world: FleetWorld) -> None:
        """Look once; from the second look on decide, and set."""
        before, self._reading = self._reading, _reading(world)
        sample = None if before is None else self._reading.since(before)
        if sample is not None:
            _set(world, self._policy.decide(sample, self._reading.uptime))


def _reading(world: FleetWorld) -> Reading:
    numbers, tick = world.numbers, world.reals[c.TICK]
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


def _set(world: FleetWorld, settings: Settings) -> None:
    """Set the limits as the server would that got these parameters."""
    parameters, reals = settings.parameters(), world.reals
    reals[c.REQUEST_RATE] = float(settings.request_rate)
    reals[c.REQUEST_BURST] = settings.request_rate * parameters["ingressRequestAdmissionBurstCapacitySecs"]
    if settings.connection_rate is not None:
        burst = parameters["ingressConnectionEstablishmentBurstCapacitySecs"]
        reals[c.CONNECTION_RATE] = float(settings.connection_rate)
        reals[c.CONNECTION_BURST] = settings.connection_rate * burst


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

"""The sides of a claim, run one after the other, and what came of them as numbers and as a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from harness.overload.policy.policies import POLICIES
from harness.running import interruption
from harness.sim.claims.governing import INTERVAL, SimulatedGovernor
from harness.sim.fleet import simulate
from harness.sim.fleet.running import run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.sim.claims.claim import Claim, Side
    from harness.sim.fleet import Engine
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


def table(claim: Claim, report: Mapping[str, Any]) -> str:
    """Return a report as text, with what it shows and where it would mislead."""
    width = max(len(side.name) for side in claim.sides) + 2
    head = "".join(f"{phase.name:>12}" for phase in claim.phases)
    lines = [
        claim.title,
        claim.setting,
        f"{report['clients']:,} clients, capacity {report['capacity']:g}/s, seed {report['seed']}",
        "",
        f"{'goodput per second':{width}}{head}{'failed':>10}{'attempts':>10}{'p99':>9}",
    ]
    lines += [_line(row, width) for row in report["sides"]]
    return "\n".join([*lines, "", f"Shows: {claim.shows}", "", f"Misleads: {claim.misleads}"])


def _line(row: Mapping[str, Any], width: int) -> str:
    goodput = "".join(f"{value:12.1f}" for value in row["goodput"].values())
    failed = row["failed"] / row["offered"] if row["offered"] else 0.0
    attempts, latency = row["attempts_per_success"], row["latency_p99"]
    return (
        f"{row['side']:{width}}{goodput}{failed:10.1%}"
        f"{'never' if attempts is None else f'{attempts:.2f}':>10}"
        f"{'never' if latency is None else f'{latency:.2f} s':>9}"
    )

"""The figure of a claim, goodput and attempts over time with a line for each side; and its page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.pages import chart, frame
from harness.pages.chart import Level, Line, Panel, Span
from harness.sim.claims.measuring import grid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.sim.claims.catalogue import Claim
    from harness.sim.fleet.outcome import FleetOutcome

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

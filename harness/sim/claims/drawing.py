"""The figure of a claim: goodput and attempts over time, a line for each side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.report import plots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.sim.claims.catalogue import Claim
    from harness.sim.fleet.outcome import FleetOutcome

_SIZE_INCHES: Final = (7.4, 3.0)


def picture(claim: Claim, outcomes: Sequence[FleetOutcome]) -> str:
    """Return the SVG of a claim's outcomes. Raises `MissingPlotsError`."""

    def draw(panels: Any) -> None:
        goodput, attempts = panels
        sides = zip(plots.COLOURS, claim.sides, outcomes, strict=False)
        for colour, side, outcome in sides:
            times = list(outcome.columns["time"])
            for axes, column in ((goodput, "ok"), (attempts, "started")):
                rates = [count / outcome.window for count in outcome.columns[column]]
                axes.plot(times, rates, label=side.name, color=colour, linewidth=1.2)
        for axes, name in ((goodput, "successes per second"), (attempts, "attempts per second")):
            axes.axhline(claim.capacity, color="black", linewidth=0.8, linestyle=":", label="capacity")
            axes.set(xlabel="seconds", ylabel=name, ylim=(0, None))
            for phase in claim.phases[1:]:
                axes.axvline(phase.start, color="grey", linewidth=0.6, linestyle="--")
        attempts.legend(fontsize="small")

    return plots.svg(draw, columns=2, size=_SIZE_INCHES)

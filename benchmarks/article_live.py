"""The article's scenario live and as a model, side by side: goodput before the outage, recovery and peak.

    python -m benchmarks.article_live --repeats 5

Each repeat plays the same scenario with another seed: live with PyMongo and with the reference driver, each
for about a minute, and with the model, whose clients roll the same dice. It prints a line for each run, and
of each tier the median with the least and the most.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import median_low
from typing import TYPE_CHECKING, Final

from harness.sim.article.live import run_live
from harness.sim.article.parameters import LIVE, ArticleParameters, Strategy
from harness.sim.article.scenario import DRIVER_BACKLOG, scenario_of
from harness.sim.fleet import simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.sim.article.live_clients import Driver
    from harness.sim.article.live_server import Stop
    from harness.sim.fleet.outcome import FleetOutcome

WARM_UP_SECONDS: Final = 2.0
WINDOW_SECONDS: Final = 0.05
STRATEGIES: Final = (Strategy.EXPONENTIAL, Strategy.FIXED)
DRIVERS: Final[tuple[Driver, ...]] = ("pymongo", "reference")


def model(own: ArticleParameters, strategy: Strategy) -> FleetOutcome:
    """Return what the model says."""
    return simulate(replace(scenario_of(own, strategy, backlog=DRIVER_BACKLOG), window=WINDOW_SECONDS))


FIGURES: Final = {
    "successes a second before": "{:.1f}",
    "seconds until recovered": "{:.2f}",
    "seconds until caught up": "{:.2f}",
    "most requests at a time": "{:.0f}",
}
"""What is measured of a run, and how it is printed."""


def figures(own: ArticleParameters, outcome: FleetOutcome) -> tuple[float, ...]:
    """Return what is measured of a run, in the order of `FIGURES`."""
    before = outcome.goodput(WARM_UP_SECONDS, own.stops_at)
    return (
        before,
        outcome.recovery_time(own.resumes_at, before=before),
        outcome.caught_up_after(own.resumes_at),
        outcome.peak_concurrency,
    )


def compare(strategy: Strategy, repeats: int, stop_with: Stop, drivers: Sequence[Driver]) -> None:
    """Print the runs of a strategy, and of each tier the median with the least and the most."""
    found: dict[str, list[tuple[float, ...]]] = {tier: [] for tier in ("model", *drivers)}
    for seed in range(repeats):
        own = replace(LIVE, seed=seed)
        found["model"].append(figures(own, model(own, strategy)))
        for driver in drivers:
            live = run_live(own, strategy, driver=driver, stop_with=stop_with, window=WINDOW_SECONDS)
            found[driver].append(figures(own, live))
        for tier, runs in found.items():
            print(f"{strategy} seed {seed} {tier:9}: {_said(runs[-1])}", flush=True)
    for tier, runs in found.items():
        for name, form, values in zip(FIGURES, FIGURES.values(), zip(*runs, strict=True), strict=True):
            middle, least, most = (
                form.format(value) for value in (median_low(values), min(values), max(values))
            )
            print(f"{strategy} {tier}: {name}: {middle} ({least} to {most})", flush=True)


def _said(run: Sequence[float]) -> str:
    return ", ".join(
        f"{form.format(value)} {name}" for (name, form), value in zip(FIGURES.items(), run, strict=True)
    )


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5, help="runs of each kind (default 5)")
    parser.add_argument("--stop-with", choices=["signal", "pause"], default="signal")
    parser.add_argument("--strategy", choices=STRATEGIES, action="append", help="only this one")
    parser.add_argument("--driver", choices=DRIVERS, action="append", help="only this one")
    options = parser.parse_args()
    for strategy in options.strategy or STRATEGIES:
        compare(Strategy(strategy), options.repeats, options.stop_with, options.driver or DRIVERS)


if __name__ == "__main__":
    main()

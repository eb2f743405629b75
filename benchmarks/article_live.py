"""The article's scenario live and as a model, side by side: goodput before the outage, and the recovery.

    python -m benchmarks.article_live --repeats 5

Each repeat plays the same scenario with another seed: live with PyMongo and with the reference driver, each
for about a minute, and with the model, whose clients roll the same dice. It prints a line for each run, and
how far the means are apart.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Final

from harness.sim.article.live import LIVE, run_live
from harness.sim.article.parameters import ArticleParameters, Strategy
from harness.sim.article.scenario import DRIVER_BACKLOG, scenario_of
from harness.sim.fleet import simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.sim.article.live_clients import Driver
    from harness.sim.article.live_server import Stop
    from harness.sim.fleet.outcome import Outcome

SHARE: Final = 0.9
"""The share of the operations that the outage piled up, after which clients have caught up."""
WARM_UP_SECONDS: Final = 2.0
WINDOW_SECONDS: Final = 0.05
STRATEGIES: Final = (Strategy.EXPONENTIAL, Strategy.FIXED)
DRIVERS: Final[tuple[Driver, ...]] = ("pymongo", "reference")


def model(own: ArticleParameters, strategy: Strategy) -> Outcome:
    """Return what the model says."""
    return simulate(replace(scenario_of(own, strategy, backlog=DRIVER_BACKLOG), window=WINDOW_SECONDS))


def figures(own: ArticleParameters, outcome: Outcome) -> tuple[float, float]:
    """Return the successes a second before the outage, and the seconds after it until they are back."""
    goodput = outcome.goodput(WARM_UP_SECONDS, own.stops_at)
    return goodput, outcome.caught_up_after(own.resumes_at, SHARE)


def compare(strategy: Strategy, repeats: int, stop_with: Stop) -> None:
    """Print the runs of a strategy, and how far live and model are apart."""
    found: dict[str, list[tuple[float, float]]] = {tier: [] for tier in (*DRIVERS, "model")}
    for seed in range(repeats):
        own = replace(LIVE, seed=seed)
        found["model"].append(figures(own, model(own, strategy)))
        for driver in DRIVERS:
            live = run_live(own, strategy, driver=driver, stop_with=stop_with, window=WINDOW_SECONDS)
            found[driver].append(figures(own, live))
        for tier, runs in found.items():
            goodput, recovery = runs[-1]
            print(
                f"{strategy} seed {seed} {tier:9}: {goodput:5.1f}/s, back after {recovery:.2f} s", flush=True
            )
    for driver in DRIVERS:
        names = ("successes a second", "seconds until they are back")
        for name, live_mean, modelled in zip(
            names, _means(found[driver]), _means(found["model"]), strict=True
        ):
            print(
                f"{strategy} {driver}: {name}: live {live_mean:.2f}, model {modelled:.2f}: "
                f"{_apart(live_mean, modelled)}",
                flush=True,
            )


def _apart(live: float, modelled: float) -> str:
    if math.isfinite(live + modelled):
        return f"{abs(modelled / live - 1):.1%} apart"
    return "alike" if live == modelled else "never in one of them"


def _means(runs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return fmean(goodput for goodput, _ in runs), fmean(recovery for _, recovery in runs)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5, help="runs of each kind (default 5)")
    parser.add_argument("--stop-with", choices=["signal", "pause"], default="signal")
    parser.add_argument("--strategy", choices=STRATEGIES, action="append", help="only this one")
    options = parser.parse_args()
    for strategy in options.strategy or STRATEGIES:
        compare(Strategy(strategy), options.repeats, options.stop_with)


if __name__ == "__main__":
    main()

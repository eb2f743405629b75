"""The article's scenario live and as a model, side by side: goodput before the outage, and the recovery.

    python -m benchmarks.article_live --repeats 5

Each repeat plays the same scenario with another seed: live with PyMongo and with the reference driver, each
for about a minute, and with the model. It prints a line for each run, and how far the means are apart.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Final

from harness.sim.article.live import LIVE, run_live
from harness.sim.article.parameters import ArticleParameters, Strategy
from harness.sim.fleet import scenario as fleet
from harness.sim.fleet import simulate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.sim.article.live_clients import Driver
    from harness.sim.fleet.outcome import Outcome

SHARE: Final = 0.75
"""The share of the steady goodput that counts as recovered: less than a window varies by."""
WARM_UP_SECONDS: Final = 2.0
WINDOW_SECONDS: Final = 0.5
STRATEGIES: Final = (Strategy.EXPONENTIAL, Strategy.FIXED)
DRIVERS: Final[tuple[Driver, ...]] = ("pymongo", "reference")


def model(own: ArticleParameters, strategy: Strategy) -> Outcome:
    """Return what the model says.

    What clients that have gone have sent to a process that is stopped are handshakes, no requests; those
    that still wait are all served (`backlog`).
    """
    again: fleet.Strategy = fleet.Fixed(interval=own.simple_delay)
    if strategy is Strategy.EXPONENTIAL:
        again = fleet.Exponential(
            minimum=own.minimum_delay, factor=own.factor, maximum=own.maximum_delay, jitter=own.jitter
        )
    service = fleet.Service(
        base=own.base_delay, limit=own.limit, factor=own.growth, k=own.k, recompute=own.recompute
    )
    scenario = fleet.Scenario(
        clients=own.clients,
        seconds=own.seconds,
        arrivals=fleet.Closed(gap=own.mean_gap),
        fleet=((1.0, again),),
        servers=fleet.Servers(service=service, abandoned="never", backlog=own.clients),
        timeout=own.timeout,
        outages=(fleet.Outage(start=own.stops_at, end=own.resumes_at),),
        seed=own.seed,
        window=WINDOW_SECONDS,
    )
    return simulate(scenario)


def figures(own: ArticleParameters, outcome: Outcome) -> tuple[float, float]:
    """Return the successes a second before the outage, and the seconds after it until they are back.

    Back is the first window that is good: with some 18 requests in each, three in a row would measure chance.
    """
    recovery = outcome.recovery_time(own.resumes_at, SHARE, windows=1)
    return outcome.goodput(WARM_UP_SECONDS, own.stops_at), recovery


def compare(strategy: Strategy, repeats: int) -> None:
    """Print the runs of a strategy, and how far live and model are apart."""
    found: dict[str, list[tuple[float, float]]] = {tier: [] for tier in (*DRIVERS, "model")}
    for seed in range(repeats):
        own = replace(LIVE, seed=seed)
        for driver in DRIVERS:
            found[driver].append(figures(own, run_live(own, strategy, driver=driver, window=WINDOW_SECONDS)))
        found["model"].append(figures(own, model(own, strategy)))
        for tier, runs in found.items():
            goodput, recovery = runs[-1]
            print(
                f"{strategy} seed {seed} {tier:9}: {goodput:5.1f}/s, back after {recovery:.1f} s", flush=True
            )
    for driver in DRIVERS:
        names = ("successes a second", "seconds until they are back")
        for name, live, modelled in zip(names, _means(found[driver]), _means(found["model"]), strict=True):
            apart = f"{abs(modelled / live - 1):.1%} apart" if math.isfinite(live + modelled) else "never"
            print(f"{strategy} {driver}: {name}: live {live:.2f}, model {modelled:.2f}: {apart}", flush=True)


def _means(runs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return fmean(goodput for goodput, _ in runs), fmean(recovery for _, recovery in runs)


def main() -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5, help="runs of each kind (default 5)")
    repeats = parser.parse_args().repeats
    for strategy in STRATEGIES:
        compare(strategy, repeats)


if __name__ == "__main__":
    main()

"""Trials of the article's scenario with made numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.sim.article.parameters import ArticleParameters, Strategy
from harness.sim.article.scenario import ArticleTrial
from harness.sim.fleet.outcome import COLUMNS, FleetOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence

OWN = ArticleParameters(steady=10, stopped=5, resumed=10)
SECONDS = 25


def trial(
    strategy: Strategy = Strategy.FIXED, tier: str = "model", after: float = 100, seed: int = 0, back: int = 0
) -> ArticleTrial:
    """Return a trial of 25 seconds that answers 100 requests a second, none for five, and `after` then.

    It is `back` so many seconds later.
    """
    columns: dict[str, Sequence[float]] = {name: [0.0] * SECONDS for name in COLUMNS}
    columns["time"] = [float(second + 1) for second in range(SECONDS)]
    columns["ok"] = [100.0] * 10 + [0.0] * (5 + back) + [after] * (10 - back)
    columns["timed_out"] = [0.0] * 10 + [50.0] * 5 + [0.0] * 10
    columns["started"] = [100.0] * SECONDS
    columns["concurrency"] = [10.0] * 15 + [1040.0] * 10
    columns["peak_concurrency"] = [12.0] * 15 + [1351.0] * 10
    columns["delay"] = [0.1] * 15 + [2.671] * 10
    outcome = FleetOutcome(
        columns=columns,
        latencies=[(0.1, 90), (0.5, 10)],
        latency_sum=14,
        waits=0,
        window=1,
        trace="",
        events=0,
        outage=(10, 15),
    )
    return ArticleTrial(parameters=replace(OWN, seed=seed), strategy=strategy, tier=tier, outcome=outcome)

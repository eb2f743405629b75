"""The article's scenario live, at a small size: a fake in a process, real drivers, the wall clock."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from harness.sim.article.live import Measuring, asking, run_live
from harness.sim.article.live_clients import LiveAttempt
from harness.sim.article.live_server import server_parameters
from harness.sim.article.parameters import ArticleParameters, Strategy

if TYPE_CHECKING:
    from harness.sim.article.live import Abandoned
    from harness.sim.article.live_clients import Driver
    from harness.sim.article.live_server import Stop

SMALL = ArticleParameters(
    clients=40,
    mean_gap=0.8,
    timeout=0.5,
    simple_delay=0.025,
    minimum_delay=0.025,
    base_delay=0.1,
    limit=2,
    k=0.9,
    recompute=0.025,
    steady=1.0,
    stopped=1.5,
    resumed=2.5,
)
"""A fifth of the clients, four times as fast."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver", "abandoned", "k", "stop_with", "comes_back"),
    [("pymongo", "never", 0.9, "signal", False), ("reference", "atOnce", 1.7, "pause", True)],
)
def test_with_a_fixed_interval_the_server_comes_back_unless_it_does_the_work_of_clients_that_left(
    driver: Driver, abandoned: Abandoned, k: float, stop_with: Stop, *, comes_back: bool
) -> None:
    heard: list[float] = []
    outcome = run_live(
        replace(SMALL, k=k),
        Strategy.FIXED,
        driver=driver,
        abandoned=abandoned,
        stop_with=stop_with,
        window=0.5,
        on_progress=heard.append,
    )
    succeeded = outcome.columns["ok"]
    assert succeeded[0] + succeeded[1] > 0, "it works before it is stopped"
    assert succeeded[4] == 0, "it is stopped"
    assert (succeeded[-2] + succeeded[-1] > SMALL.clients / 4) is comes_back
    assert heard[-1] == SMALL.seconds


def test_pymongo_has_none_of_the_reference_drivers_strategies() -> None:
    with pytest.raises(ValueError, match="backpressure-2026-07-08 is a strategy of the reference driver"):
        asking("pymongo", "mongodb://localhost", SMALL, Strategy.BACKPRESSURE_JULY)


def test_the_server_of_a_strategy_with_a_limit_has_a_limiter_and_the_articles_has_none() -> None:
    free = server_parameters(SMALL, Strategy.FIXED, "never")
    assert (free["serviceTimeBaseMillis"], free["serviceTimeRecomputeMillis"]) == (100, 25)
    assert "ingressRequestRateLimiterEnabled" not in free
    limited = server_parameters(SMALL, Strategy.TOLD_BACKOFF, "never")
    assert limited["ingressRequestAdmissionRatePerSec"] == 20
    assert limited["externalClientBaseBackoffMS"] == 500


def test_windows_count_what_ended_in_them_and_nothing_beyond_the_end() -> None:
    measuring = Measuring(seconds=3.0, window=1.0)
    measuring.offered(0.2)
    measuring.started(0.2)
    measuring.ended(LiveAttempt.TIMED_OUT, 1.2)
    measuring.ended(LiveAttempt.REJECTED, 1.4)
    measuring.ended(LiveAttempt.OK, 2.5)
    measuring.succeeded(0.2, 2.5)
    measuring.ended(LiveAttempt.OK, 3.1)
    measuring.level(2.5, 7, 0.4, peak=9)
    outcome = measuring.outcome(SMALL)
    shown = {name: tuple(outcome.columns[name]) for name in ("time", "ok", "timed_out", "errors", "rejected")}
    assert shown == {
        "time": (1.0, 2.0, 3.0),
        "ok": (0, 0, 1),
        "timed_out": (0, 1, 0),
        "errors": (0, 1, 0),
        "rejected": (0, 1, 0),
    }
    assert (outcome.columns["concurrency"][2], outcome.percentile(0.5)) == (7, 2.3)

"""Waiting times of queues whose formulas are known, and the outcome that the article is about."""

from __future__ import annotations

import math

import pytest
from fleets import article
from sizes import is_full, size

from harness.sim.fleet import simulate
from harness.sim.fleet.scenario import Open, Scenario, Servers, Service
from harness.sim.fleet.strategies import Exponential, Fixed, NoRetry

ARRIVALS = size("arrivals")
"""How many requests arrive; the formulas hold within 2 % at a million, which takes the compiled engine."""
TOLERANCE = 0.02 if is_full("arrivals") else 0.3


def erlang_c(workers: int, load: float) -> float:
    """Return how likely an arrival has to wait (Erlang's second formula)."""
    terms = [load**number / math.factorial(number) for number in range(workers)]
    last = load**workers / math.factorial(workers) * workers / (workers - load)
    return last / (sum(terms) + last)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "use"), [(1, 0.5), (1, 0.8), (4, 0.75)])
def test_requests_wait_as_long_as_queueing_theory_says(workers: int, use: float) -> None:
    rate = workers * use
    scenario = Scenario(
        clients=2000,
        seconds=ARRIVALS / rate,
        arrivals=Open(rate=rate),
        fleet=((1, NoRetry()),),
        servers=Servers(service=Service(base=1.0, workers=workers, spread="exponential")),
        tick=0.005 if is_full("arrivals") else 0.02,
        window=ARRIVALS / rate,
        seed=1,
    )
    outcome = simulate(scenario, engine="auto" if is_full("arrivals") else "plain")
    expected = erlang_c(workers, rate) / (workers - rate)
    assert outcome.total("turned_away") == 0
    assert outcome.waits / outcome.total("started") == pytest.approx(expected, rel=TOLERANCE)
    assert outcome.mean_latency == pytest.approx(expected + 1, rel=TOLERANCE)


@pytest.mark.slow
def test_a_fixed_interval_does_not_come_back_and_exponential_backoff_does() -> None:
    fixed, exponential = (
        simulate(article(100, strategy), engine="plain") for strategy in (Fixed(), Exponential())
    )
    assert fixed.goodput(0, 20) == pytest.approx(exponential.goodput(0, 20))
    assert fixed.recovery_time(50) == math.inf
    assert fixed.goodput(70, 100) == 0
    assert exponential.recovery_time(50) < 30
    assert exponential.goodput(80, 100) == pytest.approx(10, rel=0.2)
    assert fixed.attempts_per_success > 2 * exponential.attempts_per_success

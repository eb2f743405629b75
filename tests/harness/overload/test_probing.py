"""Throughput probing on a running server: where the tickets settle under a real workload."""

from __future__ import annotations

import pytest
from sizes import in_full

from harness.overload.probing import ProbingTrial, settled
from harness.sim import run_virtual


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    [
        pytest.param(10, id="from below", marks=in_full("measurements", "settles where the other does")),
        pytest.param(40, id="from above"),
    ],
)
def test_the_tickets_settle_near_the_best_concurrency(start: int) -> None:
    trial = ProbingTrial(start=start, best=20, clients=22, seconds=16.0)
    points = run_virtual(lambda world: trial.run(network=world.network, clock=world.clock, rng=world.rng))
    assert points[0].tickets == pytest.approx(start, rel=0.25)
    tickets, throughput = settled(points, 10.0)
    assert tickets == pytest.approx(trial.best, rel=0.25)
    assert throughput == pytest.approx(trial.best_throughput, rel=0.1)

"""Another engine's processes have the course of the columns, as far as other dice let them."""

from __future__ import annotations

import pytest

from benchmarks.fleet import SimpyModel, article
from harness.sim.fleet import simulate
from harness.sim.fleet.strategies import Exponential


@pytest.mark.slow
def test_the_same_model_in_simpy_makes_as_many_attempts_and_comes_to_the_same_peak() -> None:
    pytest.importorskip("simpy")
    model = SimpyModel(300)
    model.env.run(120)
    ours = simulate(article(300, Exponential()), engine="plain")
    assert model.attempts == pytest.approx(ours.total("started"), rel=0.05)
    assert model.peak == pytest.approx(ours.peak_concurrency, rel=0.15)

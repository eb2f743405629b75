"""The test of a driver's jitter: which backoffs it takes for uniform, and how often it is wrong."""

from __future__ import annotations

import random

import pytest

from harness.unified.server_side.attempts import LEAST_BACKOFFS, why_not_uniform


def drawn(seed: int, number: int) -> list[float]:
    rng = random.Random(seed)
    return [rng.random() for _ in range(number)]


def test_uniform_jitter_is_taken_for_uniform_whatever_the_seed() -> None:
    assert [seed for seed in range(2000) if why_not_uniform(drawn(seed, LEAST_BACKOFFS))] == []


@pytest.mark.parametrize(
    ("factors", "why"),
    [
        ([0.1] * 39, "39 overload backoffs are too few to judge jitter, 40 are needed"),
        ([1.0] * 40, "all 40 backoffs are 1.00 of their bound: there is no jitter"),
        ([0.0] * 40, "all 40 backoffs are 0.00 of their bound: there is no jitter"),
        ([0.5 + each / 2 for each in drawn(1, 40)], "no backoff is shorter than"),
        ([each / 2 for each in drawn(1, 40)], "no backoff is longer than"),
        ([each * 2 for each in drawn(1, 200)], "uniform jitter has 0.5 ± 0.082"),
        ([each**2 for each in drawn(1, 200)], "uniform jitter has 0.5 ± 0.082"),
    ],
)
def test_other_jitter_is_refused_with_the_reason(factors: list[float], why: str) -> None:
    assert why in (why_not_uniform(factors) or "")

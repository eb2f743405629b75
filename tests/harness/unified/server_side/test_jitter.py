"""The test of a driver's jitter: which backoffs it takes for uniform, and how often it is wrong."""

from __future__ import annotations

import random

import pytest

from harness.unified.server_side.jitter import (
    LEAST_BACKOFFS,
    least_total,
    why_factors_are_not,
    why_not_in_total,
)


def drawn(seed: int, number: int) -> list[float]:
    rng = random.Random(seed)
    return [rng.random() for _ in range(number)]


def test_uniform_jitter_is_taken_for_uniform_whatever_the_seed() -> None:
    assert [seed for seed in range(2000) if why_factors_are_not(drawn(seed, LEAST_BACKOFFS))] == []


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
    assert why in (why_factors_are_not(factors) or "")


BOUNDS = [min(0.5, 0.005 * 1.5**retry) for retry in range(18)]
"""Seconds that withTransaction waits at most before it begins anew, eighteen times."""


def test_uniform_waits_between_transactions_are_taken_for_uniform_whatever_the_seed() -> None:
    refused = [
        seed
        for seed in range(2000)
        if why_not_in_total(
            [(part * bound, bound) for part, bound in zip(drawn(seed, 18), BOUNDS, strict=True)]
        )
    ]
    assert refused == []


@pytest.mark.parametrize(
    ("waits", "why"),
    [
        (
            [(0.01, bound) for bound in BOUNDS],
            "18 waits are 0.042 of their bounds, uniform jitter has 0.5 ± 0.365",
        ),
        ([(bound, bound) for bound in BOUNDS], "18 waits are 1.000 of their bounds"),
        (
            [(bound / 2, bound) for bound in BOUNDS[:12]],
            "12 waits between transactions count as 4.9, 8 are needed",
        ),
    ],
    ids=["no waits", "no jitter", "too few long ones"],
)
def test_other_waits_between_transactions_are_refused_with_the_reason(
    waits: list[tuple[float, float]], why: str
) -> None:
    assert why in (why_not_in_total(waits) or "")


def test_the_least_total_of_waits_is_that_which_one_of_a_million_stays_below() -> None:
    assert least_total([0.2, 0.4] * 3) == pytest.approx(0.0847, abs=1e-4)
    assert least_total([0.2]) == pytest.approx(0.2e-6)
    below = [seed for seed in range(5000) if sum(drawn(seed, 3)) < least_total([1.0] * 3)]
    assert below == []

"""Pass rates, against values worked out elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.running.flake_lab.cases import PassRate


@pytest.mark.parametrize(
    ("passed", "runs", "low", "high"),
    [
        # Newcombe (1998), table I, method 3: the intervals of 81 in 263, 15 in 148, 0 in 20 and 1 in 29.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (200, 200, 0.9812, 1.0000),
    ],
)
def test_the_interval_is_wilson_s(passed: int, runs: int, low: float, high: float) -> None:
    assert PassRate(passed, runs).interval == pytest.approx((low, high), abs=0.00005)


@given(st.integers(1, 10_000).flatmap(lambda runs: st.tuples(st.integers(0, runs), st.just(runs))))
def test_the_interval_holds_the_rate_and_is_symmetric_to_that_of_failures(counts: tuple[int, int]) -> None:
    passed, runs = counts
    low, high = PassRate(passed, runs).interval
    assert 0 <= low <= PassRate(passed, runs).rate <= high <= 1
    assert PassRate(runs - passed, runs).interval == pytest.approx((1 - high, 1 - low))


def test_more_runs_tell_more() -> None:
    widths = [high - low for runs in (10, 100, 1000) for low, high in [PassRate(runs // 2, runs).interval]]
    assert widths == sorted(widths, reverse=True)

"""Chance is a function of seed, client, kind and number, and is distributed as it is said to be."""

from __future__ import annotations

import math
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sim.fleet.dice import exponential, log, normal, threefry, uniform

_FULL = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((_FULL, _FULL), (_FULL, _FULL), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_the_cipher_gives_its_published_answers(
    counter: tuple[int, int], key: tuple[int, int], words: tuple[int, int]
) -> None:
    assert threefry(*key, *counter) == words


@given(st.floats(min_value=2.0**-53, max_value=1.0))
def test_a_logarithm_is_right_to_the_last_places(u: float) -> None:
    assert math.isclose(log(u), math.log(u), rel_tol=1e-15, abs_tol=1e-16)


def test_variates_have_their_mean_and_deviation() -> None:
    draws = range(4000)
    evenly = [uniform(7, 1, 1, draw) for draw in draws]
    gaps = [exponential(7, 1, 2, draw) for draw in draws]
    bells = [normal(7, 1, 3, draw) for draw in draws]
    assert 0 < min(evenly) < max(evenly) <= 1
    assert (fmean(evenly), pstdev(evenly)) == pytest.approx((0.5, 12**-0.5), abs=0.02)
    assert (fmean(gaps), pstdev(gaps)) == pytest.approx((1.0, 1.0), abs=0.06)
    assert (fmean(bells), pstdev(bells)) == pytest.approx((0.0, 1.0), abs=0.04)


def test_other_seeds_clients_and_kinds_have_other_dice() -> None:
    points = [(seed, client, kind) for seed in (0, 1, 1 << 32) for client in (0, 1) for kind in (1, 2)]
    assert len({uniform(*point, 5) for point in points}) == len(points)

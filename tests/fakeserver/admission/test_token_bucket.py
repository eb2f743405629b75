"""The token bucket: exact arithmetic on fractions, so that a bound is a bound."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fakeserver.admission.rate_limiter import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Sequence

_RATES = st.fractions(min_value=Fraction(1, 10), max_value=10_000)
_BURSTS = st.fractions(min_value=1, max_value=500)
_GAPS = st.lists(st.fractions(min_value=0, max_value=2, max_denominator=1000), min_size=1, max_size=120)


def _instants(gaps: Sequence[Fraction]) -> list[Fraction]:
    now, instants = Fraction(0), []
    for gap in gaps:
        now += gap
        instants.append(now)
    return instants


def _bucket(rate: Fraction, burst: Fraction) -> TokenBucket:
    # Fractions compute as floats do, only exactly.
    return TokenBucket(rate=rate, burst=burst, now=Fraction(0))  # type: ignore[arg-type]


@pytest.mark.spec("SAC-32")
@given(rate=_RATES, burst=_BURSTS, gaps=_GAPS)
@example(rate=Fraction(1), burst=Fraction(1), gaps=[Fraction(0), Fraction(1, 2)])
@example(rate=Fraction(1), burst=Fraction(1), gaps=[Fraction(2), Fraction(0), Fraction(0)])
def test_no_window_admits_more_than_the_burst_and_what_accrues_in_it(
    rate: Fraction, burst: Fraction, gaps: list[Fraction]
) -> None:
    bucket = _bucket(rate, burst)
    admitted = [now for now in _instants(gaps) if bucket.try_acquire(now)]  # type: ignore[arg-type]
    for first, begin in enumerate(admitted):
        for last in range(first, len(admitted)):
            assert last - first + 1 <= burst + rate * (admitted[last] - begin)


@given(rate=_RATES, burst=_BURSTS, window=st.fractions(min_value=0, max_value=3))
def test_a_saturating_load_gets_all_but_one_of_the_tokens_of_a_window(
    rate: Fraction, burst: Fraction, window: Fraction
) -> None:
    bucket, admitted, now = _bucket(rate, burst), 0, Fraction(0)
    while admitted < 300 and now <= window:
        if bucket.try_acquire(now):  # type: ignore[arg-type]
            admitted += 1
        else:
            missing = 1 - bucket.balance(now)  # type: ignore[arg-type]
            now += Fraction(missing) / rate
    if admitted < 300:
        assert burst + rate * window - 1 <= admitted <= burst + rate * window


@pytest.mark.spec("SAC-36")
@given(rate=_RATES, burst=_BURSTS, count=st.integers(1, 60))
def test_borrowed_tokens_mature_one_after_the_other_at_the_rate(
    rate: Fraction, burst: Fraction, count: int
) -> None:
    bucket = _bucket(rate, burst)
    matured = [bucket.borrow(Fraction(0)) for _ in range(count)]  # type: ignore[arg-type]
    at_once = int(burst)
    assert matured[:at_once] == [0] * len(matured[:at_once])
    waiting = [each for each in matured[at_once:] if each is not None]
    assert len(waiting) == max(count - at_once, 0)
    assert all(later - sooner == 1 / rate for sooner, later in pairwise(waiting))


@given(rate=_RATES, burst=_BURSTS, takes=st.lists(st.sampled_from(["acquire", "borrow"]), max_size=40))
def test_what_is_given_back_is_there_again(rate: Fraction, burst: Fraction, takes: list[str]) -> None:
    bucket, now = _bucket(rate, burst), Fraction(0)
    taken = 0
    for take in takes:
        if take == "borrow":
            bucket.borrow(now)  # type: ignore[arg-type]
            taken += 1
        else:
            taken += bucket.try_acquire(now)  # type: ignore[arg-type]
    assert bucket.balance(now) == burst - taken  # type: ignore[arg-type]
    for _ in range(taken):
        bucket.give_back()
    assert bucket.balance(now) == burst  # type: ignore[arg-type]


@pytest.mark.spec("SAC-32")
def test_a_bucket_begins_full_and_never_holds_more_than_its_burst() -> None:
    bucket = TokenBucket(rate=10.0, burst=5.0, now=100.0)
    assert bucket.available(100.0) == pytest.approx(5)
    assert bucket.available(1_000_000.0) == pytest.approx(5)


def test_a_debt_refuses_until_it_is_paid_and_a_whole_token_has_accrued() -> None:
    bucket = TokenBucket(rate=2.0, burst=1.0, now=0.0)
    assert bucket.borrow(0.0) == 0.0
    assert bucket.borrow(0.0) == 0.5
    assert bucket.balance(0.0) == -1.0
    assert bucket.available(0.0) == 0.0
    assert [bucket.try_acquire(at) for at in (0.0, 0.5, 0.75, 1.0)] == [False, False, False, True]


def test_a_burst_below_one_never_yields_a_token() -> None:
    bucket = TokenBucket(rate=1.0, burst=5e-6, now=0.0)
    assert not bucket.try_acquire(0.0)
    assert not bucket.try_acquire(1e9)
    assert bucket.borrow(1e9) is None


def test_a_bucket_without_bounds_admits_everybody() -> None:
    bucket = TokenBucket(rate=2**31 - 1, burst=math.inf, now=5.0)
    assert all(bucket.try_acquire(5.0) for _ in range(1000))
    assert bucket.available(5.0) == math.inf


@pytest.mark.parametrize(
    ("held", "rate", "burst", "kept"),
    [
        pytest.param(10.0, 5.0, 20.0, 10.0, id="a larger burst leaves the tokens as they are"),
        pytest.param(10.0, 5.0, 4.0, 4.0, id="a smaller burst discards what does not fit"),
        pytest.param(-3.0, 5.0, 20.0, 0.0, id="a debt is forgiven"),
    ],
)
def test_a_change_at_runtime_keeps_tokens_and_forgives_debts(
    held: float, rate: float, burst: float, kept: float
) -> None:
    bucket = TokenBucket(rate=1.0, burst=10.0, now=0.0)
    for _ in range(int(10 - held)):
        bucket.borrow(0.0)
    assert bucket.balance(0.0) == pytest.approx(held)
    bucket.reconfigure(0.0, rate=rate, burst=burst)
    assert bucket.balance(0.0) == pytest.approx(kept)
    assert bucket.balance(0.1) == pytest.approx(min(kept + 0.1 * rate, burst))

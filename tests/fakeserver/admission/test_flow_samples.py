"""What flow control knows of the operations between two times, from samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeserver.admission.flow_control import FlowSamples
from fakeserver.storage.port.oplog import OpTime


def _at(number: int) -> OpTime:
    return OpTime(number, 1, 1)


def _samples(operations: int, *, period: int = 1, most: int = 1000, locks: int = 2) -> FlowSamples:
    samples = FlowSamples()
    samples.period, samples.most = period, most
    for number in range(1, operations + 1):
        samples.record(_at(number), number * locks)
    return samples


@pytest.mark.parametrize(
    ("period", "begin", "end", "found"),
    [
        pytest.param(1, 10, 60, 50, id="every operation sampled: exact"),
        pytest.param(1, 60, 60, None, id="nothing between"),
        pytest.param(10, 12, 57, 40, id="one in ten: by the samples"),
        pytest.param(10, 51, 58, None, id="within one bucket: unknown"),
        pytest.param(1000, 0, 100, None, id="no sample yet: unknown"),
        pytest.param(1, 100, 500, None, id="later than the last sample there is nothing"),
        pytest.param(1, 40, 500, 60, id="up to the last sample"),
    ],
)
def test_so_many_operations_are_between(period: int, begin: int, end: int, found: int | None) -> None:
    assert _samples(100, period=period).between(_at(begin), _at(end)) == found


@pytest.mark.parametrize(("period", "locks", "rate"), [(1, 2, 2.0), (10, 3, 3.0), (60, 2, None)])
def test_tickets_of_an_operation_are_those_between_the_last_two_samples(
    period: int, locks: int, rate: float | None
) -> None:
    assert _samples(100, period=period, locks=locks).locks_per_operation == rate


@given(st.integers(0, 300), st.integers(1, 9), st.integers(1, 20))
def test_no_more_samples_are_kept_than_may_be_and_the_newest_is(
    operations: int, period: int, most: int
) -> None:
    samples = _samples(operations, period=period, most=most)
    assert len(samples) <= most
    if operations >= period:
        newest = operations // period * period
        assert samples.between(_at(0), _at(newest + 1)) in {None, *range(newest + 1)}
        assert samples.between(_at(newest), _at(newest + 1)) is None


def test_samples_that_nobody_asks_for_are_forgotten_but_for_two() -> None:
    samples = _samples(100)
    samples.trim(_at(90))
    assert len(samples) == 11
    samples.trim(_at(1000))
    assert len(samples) == 2
    assert samples.locks_per_operation == 2.0
    samples.clear()
    assert samples.locks_per_operation is None

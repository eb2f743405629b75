"""Flow control: what writers may take while the majority keeps up, and while it does not."""

from __future__ import annotations

import pytest

from fakeserver.admission.flow_control import MAX_TICKETS, FlowControl, FlowControlParameters, LagSample


def _flow(limit: int = 10_000) -> FlowControl:
    flow = FlowControl(FlowControlParameters())
    flow.limit = limit
    return flow


def _sample(
    lag: float, *, sustained: int | None = 2000, behind: int | None = 5000, per_operation: float | None = 3.0
) -> LagSample:
    return LagSample(
        lag=lag, behind=behind, sustained=sustained, locks_used=3000, locks_per_operation=per_operation
    )


@pytest.mark.parametrize(
    ("sample", "limit"),
    [
        pytest.param(_sample(4.9), 11_550, id="below the threshold: more than before"),
        pytest.param(_sample(5.0), 5700, id="at the threshold: what the sustainer does, less the fudge"),
        pytest.param(_sample(10.0), 2850, id="at twice the threshold: half of that"),
        pytest.param(_sample(15.0), 1425, id="at three times: a quarter"),
        pytest.param(_sample(500.0), 100, id="never below the minimum"),
        pytest.param(_sample(5.0, sustained=None), 1500, id="sustainer unknown: half of what was used"),
        pytest.param(_sample(9.0, behind=None), 11_550, id="too few operations behind to call it a lag"),
        pytest.param(_sample(9.0, per_operation=None), 11_550, id="too few samples to work anything out"),
    ],
)
def test_the_next_period_allows(sample: LagSample, limit: int) -> None:
    flow = _flow()
    flow.next_period(sample, seconds=1.0)
    assert flow.limit == flow.left == limit


def test_it_never_allows_more_than_the_maximum() -> None:
    flow = _flow(MAX_TICKETS)
    flow.next_period(_sample(0.0), seconds=1.0)
    assert flow.limit == MAX_TICKETS


@pytest.mark.spec("SAC-28")
def test_writers_take_what_is_left_and_then_wait_for_the_next_period() -> None:
    flow = _flow()
    flow.next_period(_sample(500.0), seconds=1.0)
    assert [flow.try_acquire() for _ in range(101)] == [True] * 100 + [False]
    flow.next_period(_sample(500.0), seconds=1.0)
    assert flow.try_acquire()


def test_lag_is_counted_by_its_beginnings_and_by_its_length() -> None:
    flow = _flow()
    for lag in (0.0, 6.0, 7.0, 0.0, 8.0):
        flow.next_period(_sample(lag), seconds=1.0)
    stats = flow.stats()
    assert (stats["isLagged"], stats["isLaggedCount"], stats["isLaggedTimeMicros"]) == (True, 2, 3_000_000)


def test_where_it_does_not_apply_nobody_is_throttled() -> None:
    flow = _flow()
    flow.next_period(_sample(500.0), seconds=1.0)
    flow.release_all()
    assert flow.left == MAX_TICKETS
    assert not flow.stats()["isLagged"]


def test_the_threshold_follows_its_parameters() -> None:
    assert FlowControlParameters(target_lag=20, threshold_percentage=0.25).threshold == 5

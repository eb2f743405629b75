"""The service-time model: what an overloaded server's commands take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakeserver.admission.service_model import ServiceModel, ServiceParameters

_SERVICE = ServiceParameters(base=0.1, concurrency_limit=30, factor=2.0, k=10)


@pytest.mark.parametrize(
    ("concurrency", "seconds"),
    [(1, 0.1), (30, 0.1), (40, 0.2), (50, 0.4), (35, 0.1 * 2**0.5), (100_000, 60.0)],
)
def test_a_command_takes_its_base_time_up_to_the_limit_and_exponentially_longer_beyond(
    concurrency: int, seconds: float
) -> None:
    assert _SERVICE.seconds(concurrency) == pytest.approx(seconds)


def test_a_heavier_command_takes_longer() -> None:
    service = ServiceParameters(base=0.1, weights={"aggregate": 5.0})
    model = ServiceModel(service)
    assert model.begin("ping", 0.0) == pytest.approx(0.1)
    assert model.begin("aggregate", 0.0) == pytest.approx(0.5)


@given(
    limit=st.integers(1, 200),
    factor=st.floats(1.1, 10),
    k=st.floats(1, 200),
    other=st.integers(1, 2000),
)
def test_no_concurrency_gets_more_done_than_the_best_one(
    limit: int, factor: float, k: float, other: int
) -> None:
    service = ServiceParameters(base=0.01, concurrency_limit=limit, factor=factor, k=k, longest=1e9)
    best = service.best_concurrency()
    assert service.throughput(other) <= service.throughput(best) * (1 + 1e-9)


def test_the_more_are_at_work_the_longer_each_new_one_takes() -> None:
    model = ServiceModel(ServiceParameters(base=0.1, concurrency_limit=1, factor=2.0, k=1.0))
    assert [model.begin("find", 0.0) for _ in range(3)] == pytest.approx([0.1, 0.2, 0.4])
    model.finish()
    model.finish()
    assert model.begin("find", 1.0) == pytest.approx(1.2)


def test_with_workers_commands_wait_for_a_free_one() -> None:
    model = ServiceModel(ServiceParameters(base=0.1, workers=2))
    assert [model.begin("find", 0.0) for _ in range(5)] == pytest.approx([0.1, 0.1, 0.2, 0.2, 0.3])
    assert model.begin("find", 10.0) == pytest.approx(10.1)


def test_workers_that_are_taken_away_serve_no_more() -> None:
    model = ServiceModel(ServiceParameters(base=0.1, workers=3))
    for _ in range(3):
        model.begin("find", 0.0)
    model.parameters = ServiceParameters(base=0.1, workers=1)
    assert [model.begin("find", 0.0) for _ in range(2)] == pytest.approx([0.2, 0.3])


_LOOKS = ServiceParameters(base=0.1, concurrency_limit=1, factor=2.0, k=1.0, recompute=0.05)


def _done(model: ServiceModel, began: float, due: float) -> float:
    """Look at a command until it is done; return when that is."""
    while (next_look := model.look("find", began, due)) > due:
        due = next_look
    return due


def test_a_command_that_is_looked_at_again_takes_longer_when_others_join_it() -> None:
    model = ServiceModel(_LOOKS)
    due = model.begin("find", 0.0)
    assert due == pytest.approx(0.05)
    model.begin("find", 0.04)
    assert _done(model, 0.0, due) == pytest.approx(0.2)


def test_it_takes_less_time_when_others_end() -> None:
    model = ServiceModel(_LOOKS)
    for _ in range(4):
        due = model.begin("find", 0.0)
    assert model.look("find", 0.0, due) == pytest.approx(0.1)
    for _ in range(3):
        model.finish()
    assert _done(model, 0.0, 0.1) == pytest.approx(0.1)


def test_it_ends_when_it_is_looked_at_and_not_between() -> None:
    model = ServiceModel(ServiceParameters(base=0.12, recompute=0.05))
    assert _done(model, 0.0, model.begin("find", 0.0)) == pytest.approx(0.15)


def test_workers_and_a_time_that_is_fixed_are_not_looked_at_again() -> None:
    for service in (ServiceParameters(base=0.1, workers=1, recompute=0.05), ServiceParameters(base=0.1)):
        model = ServiceModel(service)
        due = model.begin("find", 0.0)
        assert due == pytest.approx(0.1)
        assert model.look("find", 0.0, due) == due


def test_the_most_commands_at_a_time_are_counted_as_they_begin() -> None:
    model = ServiceModel(ServiceParameters(base=0.1))
    for _ in range(3):
        model.begin("find", 0.0)
    model.finish()
    model.begin("find", 0.05)
    assert (model.concurrency, model.peak) == (3, 3)
    model.begin("find", 0.05)
    for _ in range(4):
        model.finish()
    assert (model.concurrency, model.peak) == (0, 4)

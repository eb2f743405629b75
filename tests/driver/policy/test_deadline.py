"""Client Side Operations Timeout, what is pure of it: instants, precedence, and what is refused."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.concerns import Concerns
from driver.errors import (
    BulkWriteError,
    DriverError,
    InvalidArgumentError,
    NetworkError,
    NetworkTimeoutError,
    OperationTimeoutError,
    ServerError,
    ServerSelectionError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WriteConcernError,
    is_timeout,
    under_timeout,
)
from driver.operations import admin, reads
from driver.operations.base import MaxTime, Target
from driver.operations.cursors import ResumePoint, watch
from driver.operations.options import TimeoutMode, mode_of, seconds_of, timeout_of
from driver.policy.deadline import MAX_TIME_MS_LIMIT, UNSET, Deadline, Timeout, earlier

NOW = 100.0


def starting(timeout: float | None) -> Deadline:
    return Deadline.starting(NOW, timeout)


# --- arithmetic ---


@pytest.mark.parametrize(
    ("timeout", "at", "is_set"),
    [(None, inf, False), (0, inf, True), (0.25, 100.25, True)],
    ids=["unset", "zero is no limit", "a limit"],
)
def test_a_deadline_is_an_instant_that_tells_unset_from_unlimited(
    timeout: float | None, at: float, *, is_set: bool
) -> None:
    deadline = starting(timeout)
    assert (deadline.at, deadline.is_set) == (at, is_set)


@pytest.mark.parametrize(
    ("timeout", "now", "way", "allowed", "max_time_ms"),
    [
        (None, 1e9, 0.0, True, None),
        (0, 1e9, 5.0, True, None),
        (0.2, NOW, 0.0, True, 200),
        (0.2, NOW, 0.05, True, 150),
        (0.2, NOW + 0.15, 0.04, True, 10),
        (0.2, NOW + 0.1995, 0.0, True, 1),
        (0.2, NOW, 0.25, False, 1),
        (0.2, NOW + 0.3, 0.0, False, 1),
        (1e10, NOW, 0.0, True, MAX_TIME_MS_LIMIT),
    ],
    ids=[
        "unset has no maxTimeMS",
        "unlimited has none either",
        "all of it",
        "less the round trip",
        "what is left, less the round trip",
        "never 0, which would be no limit",
        "the round trip alone takes longer",
        "it has passed",
        "no more than a server accepts",
    ],
)
def test_the_server_gets_what_is_left_but_for_the_way(
    timeout: float | None, now: float, way: float, max_time_ms: int | None, *, allowed: bool
) -> None:
    deadline = starting(timeout)
    assert deadline.allows_round_trip(now, way) is allowed
    assert deadline.max_time_ms(now, way) == pytest.approx(max_time_ms, abs=1)


@given(
    timeout=st.floats(0.001, 1e5),
    elapsed=st.floats(0, 1e5),
    way=st.floats(0, 10),
)
def test_a_command_that_may_be_sent_has_between_one_millisecond_and_its_timeout(
    timeout: float, elapsed: float, way: float
) -> None:
    deadline = starting(timeout)
    now = NOW + elapsed
    if not deadline.allows_round_trip(now, way):
        assert elapsed + way >= timeout - 1e-6
        return
    max_time_ms = deadline.max_time_ms(now, way)
    assert max_time_ms is not None
    assert 1 <= max_time_ms <= max(1, timeout * 1000 + 1e-3)


def test_a_refreshed_deadline_has_the_same_timeout_again() -> None:
    assert starting(0.5).refreshed(NOW + 9) == Deadline(0.5, NOW + 9.5)
    assert UNSET.refreshed(NOW) == UNSET


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (1, None, 1),
        (None, 1, 1),
        (None, None, None),
        (2, 1, 1),
        (1, 2, 1),
        (0, 1, 1),
        (1, 0, 1),
    ],
)
def test_of_two_deadlines_the_earlier_that_is_set_wins(
    one: float | None, other: float | None, expected: float | None
) -> None:
    assert earlier(starting(one), starting(other)) == starting(expected)
    assert earlier(starting(one), None) == starting(one)


# --- precedence ---


@pytest.mark.parametrize(
    ("client", "database", "collection", "operation", "expected"),
    [
        (None, None, None, None, None),
        (1000, None, None, None, 1.0),
        (1000, 2000, None, None, 2.0),
        (1000, 2000, 3000, None, 3.0),
        (1000, 2000, 3000, 4000, 4.0),
        (1000, None, 0, None, 0.0),
        (1000, 0, None, 4000, 4.0),
        (1000, None, None, 0, 0.0),
        (None, None, None, 4000, 4.0),
    ],
)
def test_the_nearest_timeout_ms_that_was_set_holds(
    client: int | None,
    database: int | None,
    collection: int | None,
    operation: int | None,
    expected: float | None,
) -> None:
    concerns = Concerns(timeout=seconds_of(client))
    for level in (database, collection):
        concerns = concerns.overridden(timeout=seconds_of(level))
    target = Target("db", "things", concerns)
    options = {} if operation is None else {"timeoutMS": operation}
    for built in (
        reads.find(target, {}, options),
        reads.aggregate(target, [{"$out": "x"}], options),
        admin.list_indexes(target, options),
        admin.drop_indexes(target, "*", options),
        watch(target, [], ResumePoint(options), everything=False),
    ):
        assert built.timeout == Timeout(expected, own=operation is not None)


def test_a_deadline_that_has_begun_can_be_shared_by_operations() -> None:
    begun = starting(0.5)
    built = reads.find(Target("db", "things", Concerns(timeout=9.0)), {}, {"timeoutMS": begun})
    assert built.timeout.start(NOW + 0.4) == begun
    assert not built.timeout.own


def test_no_server_sees_timeout_ms_or_its_mode() -> None:
    target = Target("db", "things", Concerns())
    given = {"timeoutMS": 5, "timeoutMode": "iteration"}
    for built in (reads.find(target, {}, given), reads.aggregate(target, [], given)):
        document = built.prepare(None).document  # type: ignore[arg-type]
        assert not {"timeoutMS", "timeoutMode"} & document.keys()


# --- cursors ---


@pytest.mark.parametrize(
    ("mode", "cursor_type", "expected", "max_time"),
    [
        (None, "nonTailable", TimeoutMode.LIFETIME, MaxTime.REMAINING),
        ("cursorLifetime", "nonTailable", TimeoutMode.LIFETIME, MaxTime.REMAINING),
        ("iteration", "nonTailable", TimeoutMode.ITERATION, MaxTime.NONE),
        (None, "tailable", TimeoutMode.ITERATION, MaxTime.NONE),
        ("iteration", "tailable", TimeoutMode.ITERATION, MaxTime.NONE),
        (None, "tailableAwait", TimeoutMode.ITERATION, MaxTime.REMAINING),
    ],
)
def test_each_kind_of_cursor_has_its_timeout_mode_and_its_max_time_ms(
    mode: str | None, cursor_type: str, expected: TimeoutMode, max_time: MaxTime
) -> None:
    assert mode_of(mode, cursor_type) is expected
    options = {"timeoutMS": 5, "timeoutMode": mode, "cursorType": cursor_type}
    built = reads.find(Target("db", "things", Concerns()), {}, options)
    assert built.max_time is max_time


@pytest.mark.parametrize(
    ("options", "pipeline", "message"),
    [
        ({"timeoutMode": "iteration"}, None, "timeoutMode needs timeoutMS"),
        ({"timeoutMode": "sometimes", "timeoutMS": 5}, None, "cursorLifetime or iteration"),
        (
            {"timeoutMode": "cursorLifetime", "timeoutMS": 5, "cursorType": "tailable"},
            None,
            "no lifetime",
        ),
        ({"timeoutMode": "iteration", "timeoutMS": 5}, [{"$out": "x"}], "no iterations"),
        ({"timeoutMode": "iteration", "timeoutMS": 5}, [{"$merge": "x"}], "no iterations"),
        ({"timeoutMS": 5, "maxAwaitTimeMS": 5}, [], "less than timeoutMS"),
        ({"timeoutMS": 5, "maxAwaitTimeMS": 6, "cursorType": "tailableAwait"}, None, "less than timeoutMS"),
        ({"timeoutMS": -1}, None, "from 0 on"),
        ({"timeoutMS": "5"}, None, "from 0 on"),
        ({"timeoutMS": True}, None, "from 0 on"),
    ],
)
def test_a_combination_without_a_meaning_is_refused(
    options: dict[str, Any], pipeline: list[Any] | None, message: str
) -> None:
    target = Target("db", "things", Concerns())
    builder = reads.find if pipeline is None else reads.aggregate
    argument: Any = {} if pipeline is None else pipeline
    with pytest.raises(InvalidArgumentError, match=message):
        builder(target, argument, options)


def test_a_server_may_await_data_as_long_as_it_likes_when_the_client_does() -> None:
    target = Target("db", "things", Concerns())
    options = {"timeoutMS": 0, "maxAwaitTimeMS": 5}
    assert watch(target, [], ResumePoint(options), everything=False).timeout == Timeout(0.0, own=True)
    with pytest.raises(InvalidArgumentError, match="less than timeoutMS"):
        watch(target, [], ResumePoint({"timeoutMS": 5, "maxAwaitTimeMS": 5}), everything=False)


def test_nothing_given_is_what_was_inherited() -> None:
    assert timeout_of(None, 2.0) == Timeout(2.0)
    assert timeout_of(None, None) == Timeout()


# --- errors ---


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (NetworkTimeoutError("late"), True),
        (WaitQueueTimeoutError("a:1"), True),
        (ServerSelectionTimeoutError("late"), True),
        (ServerError("late", code=50), True),
        (WriteConcernError("late", code=50), True),
        (ServerError("MaxTimeMSExpired", code=51, name="MaxTimeMSExpired"), False),
        (ServerSelectionError("too old"), False),
        (NetworkError("lost"), False),
    ],
    ids=lambda value: f"{type(value).__name__} {value}" if isinstance(value, DriverError) else "",
)
def test_every_error_of_time_becomes_one_kind_of_error_that_holds_it(
    error: DriverError, *, expected: bool
) -> None:
    error.add_label("TransientTransactionError")
    assert is_timeout(error) is expected
    assert under_timeout(error, timed=False) is error
    raised = under_timeout(error, timed=True)
    assert raised.timed_out is expected
    if expected:
        assert isinstance(raised, OperationTimeoutError)
        assert raised.cause is raised.__cause__ is error
        assert str(error) in str(raised)
        assert raised.labels == error.labels
        assert under_timeout(raised, timed=True) is raised


@pytest.mark.parametrize(
    ("given", "timed", "expected"),
    [
        ({"write_errors": {0: {"code": 50}}}, True, True),
        ({"write_errors": {}, "write_concern_errors": [{"code": 50}]}, True, True),
        ({"write_errors": {}, "cause": OperationTimeoutError("late")}, True, True),
        ({"write_errors": {0: {"code": 11000}}}, True, False),
        ({"write_errors": {0: {"code": 50}}}, False, False),
    ],
)
def test_a_bulk_write_timed_out_if_any_part_of_it_did(
    given: dict[str, Any], *, timed: bool, expected: bool
) -> None:
    assert BulkWriteError("failed", partial=None, timed=timed, **given).timed_out is expected

"""What is read from a server's status."""

from __future__ import annotations

from typing import Any

import pytest

from harness.overload.policy import Reading
from harness.overload.policy.policies import CannotGovernError


def _pool(*, finished: int = 0, arrived: int = 0, micros: int = 0, length: int = 0) -> dict[str, Any]:
    counters = {"finishedProcessing": finished, "newAdmissions": arrived}
    return {"normalPriority": {**counters, "totalTimeQueuedMicros": micros, "queueLength": length}}


def _status(
    at: int, read: dict[str, Any], write: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "uptimeMillis": at,
        "network": {"ingressRequestRateLimiter": {"successfulAdmissions": at, "rejectedAdmissions": 2 * at}},
        "queues": {"execution": {"read": read, "write": write or _pool()}, **more},
    }


def _delay(before: dict[str, Any], after: dict[str, Any]) -> float:
    sample = Reading.of(after).since(Reading.of(before))
    assert sample is not None
    return sample.delay


def test_rates_are_per_second_of_the_servers_own_time() -> None:
    before = Reading.of(_status(1000, _pool(finished=10)))
    sample = Reading.of(_status(3000, _pool(finished=20), _pool(finished=6))).since(before)
    assert sample is not None
    assert (sample.seconds, sample.admitted, sample.rejected, sample.finished) == (2.0, 1000, 2000, 8)


def test_the_delay_is_that_of_those_who_arrived_meanwhile() -> None:
    before = _status(0, _pool(arrived=100, micros=5_000_000))
    assert _delay(before, _status(1000, _pool(finished=10, arrived=110, micros=7_000_000))) == 0.2


def test_the_queue_of_the_ingress_counts_too() -> None:
    after = _status(1000, _pool(finished=10, arrived=10), ingress=_pool(micros=1_000_000))
    assert _delay(_status(0, _pool(), ingress=_pool()), after) == 0.1


def test_connections_that_were_turned_away_are_counted_per_second() -> None:
    def status(at: int, rejected: int) -> dict[str, Any]:
        return _status(at, _pool()) | {"connections": {"establishmentRateLimit": {"rejected": rejected}}}

    sample = Reading.of(status(2000, 30)).since(Reading.of(status(0, 10)))
    assert sample is not None
    assert sample.turned_away == 10


def test_a_queue_that_stands_still_shows_by_its_length() -> None:
    assert _delay(_status(0, _pool()), _status(1000, _pool(finished=10, arrived=60, length=50))) == 5.0
    assert _delay(_status(0, _pool()), _status(500, _pool(arrived=60, length=50))) == 25.0


@pytest.mark.parametrize(("before", "after", "busy"), [(0, 9, False), (9, 0, False), (1, 1, True)])
def test_a_server_was_busy_if_there_was_a_queue_at_both_looks(before: int, after: int, busy: bool) -> None:  # noqa: FBT001 - a case
    sample = Reading.of(_status(9, _pool(length=after))).since(Reading.of(_status(0, _pool(length=before))))
    assert sample is not None
    assert sample.busy is busy


def test_no_time_no_sample() -> None:
    reading = Reading.of(_status(1000, _pool()))
    assert reading.since(reading) is None


@pytest.mark.parametrize("missing", ["network", "queues"])
def test_a_server_without_queues_cannot_be_governed(missing: str) -> None:
    status = _status(0, _pool())
    del status[missing]
    with pytest.raises(CannotGovernError, match=missing):
        Reading.of(status)

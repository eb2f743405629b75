"""The last ten minutes of requests: counts by verdict, and percentiles that are right to a twentieth."""

from __future__ import annotations

import pytest

from fakeserver.control.web.tally import KEPT_SECONDS, RequestHistory


def taken(*requests: tuple[float, str, float | None]) -> RequestHistory:
    history = RequestHistory()
    for at, verdict, duration in requests:
        history.take(at, verdict, duration)
    return history


def test_a_row_counts_the_verdicts_of_ten_seconds() -> None:
    history = taken((12.1, "ok", 0.1), (19.9, "ok", 0.1), (19.9, "error", 0.1), (20.0, "ok", 0.1))
    rows = history.rows(now=21.0)
    assert [(row["from"], row["verdicts"]) for row in rows] == [(10, {"ok": 2, "error": 1}), (20, {"ok": 1})]


def test_percentiles_are_right_to_a_twentieth() -> None:
    history = taken(*((5.0, "ok", number / 1000) for number in range(1, 1001)))
    found = history.latency(now=6.0)
    assert found == {
        "p50": pytest.approx(0.5, rel=0.05),
        "p90": pytest.approx(0.9, rel=0.05),
        "p99": pytest.approx(0.99, rel=0.05),
    }


def test_a_duration_that_says_nothing_is_counted_and_not_timed() -> None:
    history = taken((1.0, "ok", None))
    assert history.rows(now=2.0)[0]["verdicts"] == {"ok": 1}
    assert history.latency(now=2.0) == {"p50": None, "p90": None, "p99": None}


def test_latency_is_of_the_last_minute_and_the_rows_of_ten() -> None:
    history = taken((0.5, "ok", 1.0), (100.5, "ok", 0.001))
    assert history.latency(now=101.0)["p99"] == pytest.approx(0.001, rel=0.05)
    assert len(history.rows(now=101.0)) == 2
    assert history.rows(now=KEPT_SECONDS + 60.0)[0]["from"] == 100


def test_what_is_older_is_forgotten() -> None:
    history = RequestHistory()
    for second in range(3 * KEPT_SECONDS):
        history.take(second, "ok", 0.01)
    assert len(history._seconds) <= KEPT_SECONDS

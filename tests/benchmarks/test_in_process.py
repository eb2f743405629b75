"""The benchmarks that need no second process run, and report what they say they do."""

from __future__ import annotations

import asyncio

import pytest
from sizes import in_full

from benchmarks import fixture, large_requests, request_cost, reset, storage


@pytest.mark.slow
def test_each_workload_has_a_cost_on_each_server_and_a_ratio() -> None:
    report = asyncio.run(request_cost.run(rounds=1, requests=5))
    assert list(report["workloads"])[:4] == ["ping", "find_one", "update_one", "insert_one"]
    for row in report["workloads"].values():
        assert list(row["cpu_us"]) == ["fake", "canned", "minimal"]
        assert row["cpu_ratio"] == row["cpu_us"]["canned"] / row["cpu_us"]["minimal"]
    assert len(request_cost.table(report).splitlines()) == 2 + len(report["workloads"])


@pytest.mark.slow
def test_each_stage_on_the_path_of_a_workload_has_a_price() -> None:
    report = asyncio.run(request_cost.run_stages(rounds=1, requests=20))
    assert {"Parse", "Lookup", "ValidateBody", "Execute", "around"} <= set(report["find_one"])
    assert "FailPoints" not in report["ping"]
    assert "FailPoints" in report["failCommand rejection"]
    assert set(report["limiter's rejection"]) == {"RequestRateLimit", "around"}
    lines = request_cost.stage_table(report).splitlines()
    assert len(lines) == 1 + sum(2 + len(rows) for rows in report.values())


@pytest.mark.slow
def test_each_operation_of_storage_has_a_cost_at_each_size() -> None:
    report = storage.run(rounds=1, calls=2, sizes=(3, 5))
    assert "find_one by _id" in report["cpu_us"]
    for row in report["cpu_us"].values():
        assert list(row) == ["3", "5"]
        assert all(each >= 0 for each in row.values())
    assert len(storage.table(report).splitlines()) == 2 + len(report["cpu_us"])


@pytest.mark.slow
def test_each_large_request_has_a_cost() -> None:
    report = asyncio.run(large_requests.run(size=30, joined=5, rounds=1))
    assert report["beside_a_transaction"]["ratio"] > 0
    shown = large_requests.table(report)
    for part in ("writes", "joins", "refusals"):
        assert all(name in shown for name in report[part])


@pytest.mark.slow
def test_a_reset_takes_less_than_ten_milliseconds() -> None:
    report = asyncio.run(reset.run(rounds=20, documents=1000))
    assert list(report["changes"]) == list(reset.CHANGES)
    assert max(row["reset_us"] for row in report["changes"].values()) < 10_000
    assert len(reset.table(report).splitlines()) == 1 + len(reset.CHANGES)


@in_full("measurements", "repeats at length what others show in short")
@pytest.mark.slow
def test_the_fixture_has_a_cost_by_scope_and_by_deployment() -> None:
    report = fixture.run(tests=2, workers=0, rounds=1)
    assert list(report["seconds"]) == ["function", "session"]
    assert all(cost["start"] > 0 for cost in report["start_and_stop_ms"].values())
    assert len(fixture.table(report).splitlines()) == 2 + 2 + len(fixture.SPECS)

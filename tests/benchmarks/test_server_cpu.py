"""The benchmark runs, and reports what it says it does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sizes import in_full

from benchmarks import pipelined

_ROOT = Path(__file__).parents[2]


def _run(*arguments: str) -> str:
    command = [
        sys.executable,
        "-m",
        "benchmarks.server_cpu",
        "--rounds=1",
        "--requests=20",
        "--connections=2",
    ]
    finished = subprocess.run(
        [*command, *arguments], cwd=_ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert finished.returncode == 0, finished.stderr
    assert not finished.stderr
    return finished.stdout


@in_full("measurements", "repeats at length what others show in short")
@pytest.mark.slow
def test_the_report_has_numbers_for_all_servers_and_every_workload() -> None:
    report = json.loads(_run("--json"))
    assert list(report["workloads"]) == [
        "ping",
        "find_one",
        "update_one",
        "insert_one",
        "failCommand rejection",
        "limiter's rejection",
    ]
    for row in report["workloads"].values():
        for server in ("fake", "canned", "minimal"):
            assert row[server]["cpu_us"] > 0
            assert row[server]["requests_per_second"] > 0
        assert row["cpu_ratio"] > 0


@in_full("measurements", "repeats at length what others show in short")
@pytest.mark.slow
def test_the_table_has_a_line_for_every_workload() -> None:
    lines = _run().splitlines()
    assert "2 connections, median of 1 rounds of 20 requests" in lines[0]
    assert [line[:24].strip() for line in lines[3:]] == [
        "ping",
        "find_one",
        "update_one",
        "insert_one",
        "failCommand rejection",
        "limiter's rejection",
    ]


@pytest.mark.slow
def test_requests_that_come_together_are_measured_with_joined_replies_and_with_others() -> None:
    found = pipelined.run(rounds=1, requests=8, together=(1, 4))
    assert list(found) == [1, 4]
    assert all(cost > 0 for costs in found.values() for cost in costs)

"""The benchmarks of admission control run, and report what they say they do."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sizes import in_full

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[2]


def _run(name: str, *arguments: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}", *arguments],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    assert not finished.stderr
    return finished.stdout


def _report(name: str, *arguments: str) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(_run(name, *arguments, "--json"))
    return report


def test_every_ping_without_a_token_is_rejected_and_has_a_cost() -> None:
    report = _report("rejection", "--rounds=2", "--requests=200", "--connections=4")
    assert report["rejections"] == 400
    assert report["ratio"] == pytest.approx(report["rejected_us"] / report["admitted_us"])


def test_the_table_of_costs_has_both_and_their_ratio() -> None:
    lines = _run("rejection", "--rounds=1", "--requests=50", "--connections=4").splitlines()
    assert [line[:24].strip() for line in lines[1:]] == ["admitted ping", "rejected ping", "ratio"]


@in_full("measurements", "repeats at length what others show in short")
def test_live_a_rate_is_kept_as_long_as_it_is_asked_too_much_of() -> None:
    (row,) = _report("admitted_rate", "--rates", "200", "--seconds=1.5")["rates"]
    assert row["rejected"] > 0
    # Between two looks at whole milliseconds; a pause of the client may leave the bucket full meanwhile.
    assert row["admitted"] <= 200 * (row["seconds"] + 0.002 + 0.1) + 1
    assert row["error"] == pytest.approx(row["admitted"] / (200 * row["seconds"]) - 1)


def test_the_table_of_rates_says_what_was_not_saturated() -> None:
    (line,) = _run("admitted_rate", "--rates", "2000000", "--seconds=0.1").splitlines()[1:]
    assert line.endswith("not saturated")

"""`pushbackd simulate` measures admission control as docs/OVERLOAD.md says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from sizes import in_full

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.slow


def _report(pushbackd: Any, *arguments: object) -> dict[str, Any]:
    result = pushbackd("simulate", *arguments, "--json")
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_the_overload_that_the_limiter_prevents(pushbackd: Any) -> None:
    trials = {row["defence"]: row for row in _report(pushbackd, "overload", "--seconds", 5)["trials"]}
    assert trials["fixed limit"]["of_limit"] >= 0.9
    assert trials["no limiter"]["of_limit"] < 0.3
    assert trials["policy: AIMD"]["of_limit"] > 2 * trials["no limiter"]["of_limit"]


@in_full("measurements", "repeats at length what others show in short")
def test_each_plan_is_run_with_each_policy(pushbackd: Any) -> None:
    trials = _report(pushbackd, "governed", "--seconds", 12)["trials"]
    assert [(row["policy"], row["plan"]) for row in trials] == [
        (policy, plan) for policy in ("aimd", "follow-throughput") for plan in ("step", "ramp", "spike")
    ]
    assert all(row["of_possible"] >= 0.85 for row in trials if row["policy"] == "aimd")


def test_probing_says_where_it_settled(pushbackd: Any) -> None:
    """From above the best no rule comes down again: the demand is there for whatever tickets there are."""
    report = _report(pushbackd, "probing", "--start", 40, "--seconds", 3)
    assert [row["start"] for row in report["trials"]] == [40]
    rows = report["pressed"]["trials"]
    assert [(row["rule"], row["start"]) for row in rows] == [
        *(("as specified", 80), ("as specified", 160)),
        *(("pool by pool", 80), ("pool by pool", 160)),
    ]
    for row in rows:
        assert row["of_best"] > 1.9
        assert row["of_best_throughput"] < 0.55


@pytest.mark.parametrize("name", ["overload", "probing"])
def test_figures_are_drawn_beside_the_table(pushbackd: Any, name: str, tmp_path: Path) -> None:
    figure = tmp_path / "figure.svg"
    result = pushbackd("simulate", name, "--seconds", 1, "--plot", figure)
    assert result.exit_code == 0, result.output
    assert "operations/s" in result.stdout or "goodput" in result.stdout
    assert "<svg" in figure.read_text()

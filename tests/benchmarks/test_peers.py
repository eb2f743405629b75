"""The benchmark runs, and reports what it says it does."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from sizes import in_full

from benchmarks import peers
from benchmarks.peer_projects import PROJECTS
from benchmarks.peers import BOUNDS, OURS

_ROOT = Path(__file__).parents[2]
_ON_UVLOOP = {"ours, uvloop", "bytes"}


def _run(*arguments: str) -> str:
    sizes = ("--rounds=1", "--requests=20", "--connections=2")
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", *sizes, *arguments],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert finished.returncode == 0, finished.stderr
    assert not finished.stderr
    return finished.stdout


@pytest.mark.slow
def test_the_report_has_a_cost_for_every_request_and_server_and_a_verdict_on_every_bound() -> None:
    report = json.loads(_run("--alone", "--json"))
    here = [name for name in OURS if find_spec("uvloop") is not None or name not in _ON_UVLOOP]
    assert report["servers"] == here
    assert set(report["skipped"]) == set(OURS) - set(here)
    assert list(report["cpu_us"]) == [
        *("ping", "find_one", "insert_one", "update_one", "find 100"),
        "rejection",
    ]
    for request, row in report["cpu_us"].items():
        assert list(row) == (
            [name for name in here if name.startswith("ours")] if request == "rejection" else here
        )
        assert all(cost > 0 for cost in row.values())
    assert len(report["bounds"]) == sum(bound.server in here for bound in BOUNDS)
    for bound in report["bounds"]:
        assert bound["holds"] is (bound["ratio"] <= bound["most"])


@in_full("measurements", "repeats at length what others show in short")
@pytest.mark.slow
def test_a_project_that_cannot_be_installed_is_left_out_and_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    # Nothing is fetched: pip is told that no index exists.
    monkeypatch.setattr(peers, "PROJECTS", PROJECTS[:1])
    for own in ("OURS", "_LIMITED"):
        monkeypatch.setattr(peers, own, {})
    report = peers.run(peers.Sizes(rounds=1, requests=4, connections=1), tmp_path)
    assert report["servers"] == []
    assert "left out: SecantusDB: ERROR: No matching distribution found" in peers.table(report)

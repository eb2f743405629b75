"""The benchmark runs, and reports what it says it does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sizes import in_full

_ROOT = Path(__file__).parents[2]


def _run(*arguments: str) -> str:
    sizes = ("--rounds=1", "--idle=20", "--busy=5", "--requests=40", "--commands=80")
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", *sizes, *arguments],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert finished.returncode == 0, finished.stderr
    assert not finished.stderr
    return finished.stdout


@in_full("measurements", "repeats at length what others show in short")
@pytest.mark.slow
def test_the_report_has_a_number_for_every_question() -> None:
    report = json.loads(_run("--json"))
    assert report["import_ms"] > 0
    assert report["first_start_ms"] > 0
    assert report["start_ms"] > 0
    assert report["stop_ms"] > 0
    assert report["idle"]["connections"] == 20
    assert report["idle"]["accepted_per_second"] > 0
    assert report["busy"]["connections"] == 5
    assert report["busy"]["requests_per_second"] > 0
    assert report["memory"]["commands"] == 80
    assert len(report["memory"]["memory_kib"]) == 4


@in_full("measurements", "repeats at length what others show in short")
@pytest.mark.slow
def test_the_table_has_a_line_for_every_question() -> None:
    lines = _run().splitlines()
    assert lines[0].endswith("medians of 1 rounds")
    assert [line[:36].strip() for line in lines[1:]] == [
        "import fakeserver",
        "start of a set of three",
        "the first start, imports and all",
        "stop",
        "20 idle connections",
        "accepted and greeted",
        "5 busy connections",
        "pings answered",
        "memory over 80 commands",
    ]

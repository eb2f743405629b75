"""The benchmark runs, and reports what it says it does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from sizes import in_full

_ROOT = Path(__file__).parents[2]


@in_full("measurements", "repeats at length what others show in short")
@pytest.mark.slow
def test_the_tables_have_a_row_for_every_size_and_the_figure_is_a_picture(tmp_path: Path) -> None:
    figure = tmp_path / "growth.svg"
    sizes = ("--connections", "1", "3", "--documents", "10", "1000", "--members", "1", "3")
    finished = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks.growth", "--rounds=1", "--requests=20"),
            *(*sizes, "--plot", str(figure)),
        ],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert finished.returncode == 0, finished.stderr
    assert not finished.stderr
    rows = [line.split("|")[1].strip() for line in finished.stdout.splitlines() if line.startswith("|")]
    assert [row for row in rows if row != "---"] == [
        *("connections", "1", "3"),
        *("documents", "10", "1,000"),
        *("members", "1", "3"),
        *("journal", "as it is", "without messages", "one record", "in a file, too"),
    ]
    assert ET.parse(figure).getroot().tag.endswith("svg")

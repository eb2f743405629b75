"""What the bundled scenarios do in virtual time, told to the byte, is the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from sizes import is_full

from harness.planning.discovery import bundled_root

if TYPE_CHECKING:
    from pathlib import Path


SCENARIOS = sorted(path for path in bundled_root().iterdir() if path.is_dir() and path.name != "expectations")
FEW = [path for path in SCENARIOS if path.name == "transactions"]


def journals(folder: Path, *arguments: str, **environment: str) -> tuple[str, dict[str, bytes]]:
    """Run bundled scenarios in a process of its own; return the results, and the journals by name of file."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "harness",
            "conform",
            "--time",
            "virtual",
            "--json",
            "--journal",
            str(folder),
            *arguments,
            *map(str, SCENARIOS if is_full("journals") else FEW),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_no_journal_holds_anything_of_its_process(tmp_path: Path) -> None:
    said, one = journals(tmp_path / "one", "--jobs", "1", PYTHONHASHSEED="1", TZ="UTC", LANG="C")
    again, other = journals(
        tmp_path / "other", "--jobs", "2", PYTHONHASHSEED="77", TZ="Asia/Tokyo", USER="somebody"
    )
    assert len(one) > 80
    assert said == again
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []

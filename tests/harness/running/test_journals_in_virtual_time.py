"""What the bundled scenarios do in virtual time, told to the byte, is the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def journals(folder: Path, *arguments: str, **environment: str) -> dict[str, bytes]:
    """Run the bundled scenarios in a process of its own, and return the journals by the names of files."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "harness",
            "conform",
            "--time",
            "virtual",
            "--journal",
            str(folder),
            *arguments,
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_no_journal_holds_anything_of_its_process(tmp_path: Path) -> None:
    one = journals(tmp_path / "one", "--jobs", "1", PYTHONHASHSEED="1", TZ="UTC", LANG="C")
    other = journals(tmp_path / "other", "--jobs", "2", PYTHONHASHSEED="77", TZ="Asia/Tokyo", USER="somebody")
    assert len(one) > 150
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []

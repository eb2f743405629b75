"""The tutorial does what it says: its commands are run, in its order, on its file.

A block of YAML is the file, or its new end; a block of commands shows what is printed, in which `…` stands
for anything, and a line with nothing else for any lines.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "TUTORIAL.md"
BLOCK = re.compile(r"^```(yaml|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = "overload.yml"
READING_WORDS_PER_MINUTE = 130


def with_new_end(text: str, end: str) -> str:
    """Return a file whose last part, from the line that `end` begins with, is replaced."""
    first = end.partition("\n")[0] + "\n"
    assert text.count(first) == 1, first
    return text[: text.index(first)] + end


def pattern(shown: str) -> str:
    lines = [
        r"(?:.*\n)*?" if line == "…" else r"\s*".join(map(escaped, line.split())) + r"\s*\n"
        for line in shown.splitlines()
    ]
    return r"\s*" + r"\s*".join(lines)


def escaped(word: str) -> str:
    return ".*?".join(map(re.escape, word.split("…")))


@pytest.mark.slow
def test_the_tutorial_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tutorial"
    folder.mkdir()
    monkeypatch.chdir(folder)
    scenario, runs = folder / FILE, 0
    for kind, block in BLOCK.findall(TUTORIAL.read_text()):
        if kind == "yaml":
            scenario.write_text(with_new_end(scenario.read_text(), block) if scenario.exists() else block)
            continue
        command, _, shown = block.removeprefix("$ pushbackd ").partition("\n")
        done = subprocess.run(
            [sys.executable, "-m", "harness.cli", *shlex.split(command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert re.fullmatch(pattern(shown), done.stdout), f"{command}\n{done.stdout}"
        runs += 1
    assert runs > 6
    assert (folder / "overload.svg").read_text() == (ROOT / "docs/figures/tutorial.svg").read_text()


def test_the_tutorial_is_read_in_ten_minutes() -> None:
    assert len(TUTORIAL.read_text().split()) < 10 * READING_WORDS_PER_MINUTE

"""The tutorials do what they say: their commands are run, in their order, on their files.

A block of YAML is a file, or its new end; a block of commands shows what is printed, in which `…` stands for
anything, and a line with nothing else for any lines. A file is named before its block, and goes on to be
meant.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from sizes import in_full

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "TUTORIAL.md"
PROPOSE = ROOT / "docs" / "PROPOSE.md"
BLOCK = re.compile(r"^```(yaml|console)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"`([\w/-]+\.yml)`")
READING_WORDS_PER_MINUTE = 130


def with_new_end(text: str, end: str) -> str:
    """Return a file with a new end, from the line that `end` begins with; without that line, at its end."""
    first = end.partition("\n")[0] + "\n"
    assert text.count(first) <= 1, first
    return text[: text.index(first)] + end if first in text else f"{text}\n{end}"


def pattern(shown: str) -> str:
    lines = [
        r"(?:.*\n)*?" if line == "…" else r"\s*".join(map(escaped, line.split())) + r"\s*\n"
        for line in shown.splitlines()
    ]
    return r"\s*" + r"\s*".join(lines)


def escaped(word: str) -> str:
    return ".*?".join(map(re.escape, word.split("…")))


def follow(text: str, folder: Path, *, ends_well: bool = False) -> int:
    """Do what a tutorial says in a folder, and return the number of its commands."""
    file, runs, at = "", 0, 0
    for found in BLOCK.finditer(text):
        kind, block = found.groups()
        named, at = FILE.findall(text[at : found.start()]), found.end()
        if kind == "yaml":
            file = named[-1] if named else file
            path = folder / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(with_new_end(path.read_text(), block) if path.exists() else block)
            continue
        command, _, shown = block.removeprefix("$ pushbackd ").partition("\n")
        done = subprocess.run(
            [sys.executable, "-m", "harness.cli", *shlex.split(command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if ends_well else subprocess.STDOUT,
            text=True,
            check=False,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert re.fullmatch(pattern(shown), done.stdout), f"{command}\n{done.stdout}\n{done.stderr}"
        runs += 1
    return runs


@pytest.mark.slow
def test_the_tutorial_can_be_followed(tmp_path: Path) -> None:
    folder = tmp_path / "tutorial"
    folder.mkdir()
    assert follow(TUTORIAL.read_text(), folder) > 6
    assert (folder / "overload.svg").read_text() == (ROOT / "docs/figures/tutorial.svg").read_text()


@pytest.mark.slow
@in_full("guides", "proves a rule, which takes half a minute")
def test_its_second_part_can_be_followed_in_a_checkout(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    walk = PROPOSE.read_text().partition("## Wrong neighbours")[0]
    assert follow(walk, tmp_path, ends_well=True) == 3
    files = re.findall(r"^\| (.+?) \|", walk.partition("| file | contents |")[2], re.MULTILINE)
    told = {name for each in files for name in re.findall(r"`([\w.-]+)`", each)}
    written = {path.name for path in (tmp_path / "pull-request").iterdir()}
    assert written == told - {"specification.patch"}


@pytest.mark.parametrize(("page", "minutes"), [(TUTORIAL, 10), (PROPOSE, 15)], ids=["first", "second"])
def test_a_tutorial_is_read_in_its_time(page: Path, minutes: int) -> None:
    walk = page.read_text().partition("## Wrong neighbours")[0]
    assert len(walk.split()) < minutes * READING_WORDS_PER_MINUTE

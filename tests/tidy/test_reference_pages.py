"""What reference pages say of commands, parameters and the Python interface is what the code says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from reference_pages import DOCS, MADE, PARTS, made_anew, pages

if TYPE_CHECKING:
    from pathlib import Path


def name_of(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("path", pages(), ids=name_of)
def test_the_parts_that_are_made_of_the_code_are_as_the_code_has_them(path: Path) -> None:
    text = path.read_text()
    assert text == made_anew(text), "python tests/support/reference_pages.py writes them anew"


def test_every_part_stands_on_one_page() -> None:
    named = chain.from_iterable([part[1] for part in MADE.findall(path.read_text())] for path in pages())
    assert sorted(named) == sorted(PARTS)


@pytest.mark.slow
@pytest.mark.parametrize("instruction", ["bash_source", "zsh_source", "fish_source"])
def test_the_lines_for_shell_completion_print_a_script(instruction: str) -> None:
    assert f"_PUSHBACKD_COMPLETE={instruction} pushbackd" in (DOCS / "COMMAND-LINE.md").read_text()
    done = _completing(_PUSHBACKD_COMPLETE=instruction)
    assert "_pushbackd_completion" in done


@pytest.mark.slow
def test_values_of_options_are_completed() -> None:
    words = {"COMP_WORDS": "pushbackd conform --topology sha", "COMP_CWORD": "3"}
    done = _completing(_PUSHBACKD_COMPLETE="bash_complete", **words)
    assert re.findall(r"^plain,(.+)$", done, re.MULTILINE) == ["sharded", "sharded+auth"]


def _completing(**environment: str) -> str:
    program = "from harness.cli import cli; cli(prog_name='pushbackd')"
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    ).stdout

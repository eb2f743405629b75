"""The examples in the documents run, and their links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ pushbackd ([\w-]+)([^\n]*)$", re.MULTILINE)
OPTION = re.compile(r"(?<!\S)--[a-zA-Z-]+")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def commands(path: Path) -> list[tuple[str, str]]:
    """Find the verbs of `pushbackd` that a document shows, each with its arguments."""
    return COMMAND.findall(path.read_text())


def programs() -> list[tuple[Path, str]]:
    """Find the Python examples that are whole programs."""
    return [
        (path, code)
        for path in DOCUMENTS
        for code in CODE.findall(path.read_text())
        if "asyncio.run(" in code or "run_virtual(" in code
    ]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_link_leads_to_a_file_that_is_there(path: Path) -> None:
    missing = [target for target in LINK.findall(path.read_text()) if not (path.parent / target).exists()]
    assert not missing


def test_the_documents_have_programs_to_run() -> None:
    assert programs()


@pytest.mark.slow
@pytest.mark.parametrize("code", [pytest.param(code, id=name_of(path)) for path, code in programs()])
def test_every_program_in_the_documents_runs(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if commands(path)], ids=name_of)
def test_every_option_in_the_documents_is_known_to_its_command(path: Path) -> None:
    for verb, arguments in commands(path):
        shown = subprocess.run(
            [sys.executable, "-m", "harness.cli", verb, "--help"], capture_output=True, text=True, check=True
        ).stdout
        unknown = [option for option in OPTION.findall(arguments) if option not in shown]
        assert not unknown, f"pushbackd {verb} knows no {unknown}"

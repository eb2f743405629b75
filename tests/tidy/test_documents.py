"""The examples in the documents run, their links lead somewhere, and nothing is said twice."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from harness.cli import cli

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
INDEX = ROOT / "docs" / "README.md"
LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
FILE_LINK = re.compile(r"\[`([\w/.-]+\.py)`\]\(([^)#]+)")
CODE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"^\$ pushbackd ([\w-]+)([^\n]*)$", re.MULTILINE)
OPTION = re.compile(r"(?<!\S)--[a-zA-Z-]+")
SHOWN = re.compile(r"^```.*?^```$|<!-- made of the code.*?<!-- end -->|^\|.*$", re.DOTALL | re.MULTILINE)
PROGRAM = re.compile(r"asyncio\.run\(|run_virtual\(|^with BackgroundCluster\(", re.MULTILINE)
SOURCE = re.compile(r"`((?:mongowire|fakeserver|driver|harness|benchmarks|tests)/[\w/.*-]+)`")
TEST = re.compile(r"^def test_", re.MULTILINE)
RECIPES = ROOT / "docs" / "RECIPES.md"
"""Its examples run together, with their other files: tests/recipes."""

OF_A_READER = "my_application"
"""What stands in an example for the reader's own program: such a test cannot be run here."""

FEW_WORDS = 7

ONE_AFTER_THE_OTHER = """
import gc, json, sys, traceback

for name, code in json.load(sys.stdin):
    try:
        exec(compile(code, name, "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
    gc.collect()  # tells of what the program has left open
"""
"""Runs programs in one process, whose imports take longer than they do; each has a namespace of its own."""


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def commands(path: Path) -> list[tuple[str, str]]:
    """Find the verbs of `pushbackd` that a document shows, each with its arguments."""
    return COMMAND.findall(path.read_text())


def inner(verb: str, arguments: str) -> list[str]:
    """Return the command of a group that a line names: `add` of `rule add`."""
    command = cli.get_command(click.Context(cli), verb)
    first = arguments.split()[:1]
    if not isinstance(command, click.Group) or not first:
        return []
    return first if first[0] in command.list_commands(click.Context(command)) else []


def programs() -> list[tuple[Path, str]]:
    """Find the Python examples that are whole programs."""
    return [
        (path, code) for path in DOCUMENTS for code in CODE.findall(path.read_text()) if PROGRAM.search(code)
    ]


def pytest_examples() -> list[tuple[Path, str]]:
    """Find the examples for pytest."""
    return [
        (path, code)
        for path in DOCUMENTS
        for code in CODE.findall(path.read_text())
        if TEST.search(code) and OF_A_READER not in code and path != RECIPES
    ]


@cache
def help_of(*words: str) -> str:
    """Return what a command prints as its help."""
    shown = CliRunner().invoke(cli, [*words, "--help"])
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def sentences(path: Path) -> list[str]:
    """Return the sentences of a document but for its code, its tables and what is made of the code."""
    text = SHOWN.sub("", path.read_text())
    said = [" ".join(each.split()) for line in text.splitlines() for each in re.split(r"(?<=[.:;])\s", line)]
    return [each for each in said if len(each.split()) > FEW_WORDS and not each.startswith("![")]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_link_leads_to_a_file_that_is_there(path: Path) -> None:
    missing = [target for target in LINK.findall(path.read_text()) if not (path.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_a_link_that_looks_like_a_file_leads_to_that_file(path: Path) -> None:
    found = FILE_LINK.findall(path.read_text())
    assert [label for label, target in found if not target.endswith(label)] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_source_file_that_is_named_is_there(path: Path) -> None:
    named = SOURCE.findall(path.read_text())
    assert [each for each in named if not list(ROOT.glob(each)) and not list(ROOT.glob(f"{each}.py"))] == []


def test_the_documents_have_programs_to_run() -> None:
    assert programs()


@pytest.mark.slow
def test_every_program_in_the_documents_runs(tmp_path: Path) -> None:
    examples = [
        (f"{name_of(path)}, program {number}", code) for number, (path, code) in enumerate(programs(), 1)
    ]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ONE_AFTER_THE_OTHER],
        input=json.dumps(examples),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if commands(path)], ids=name_of)
def test_every_option_in_the_documents_is_known_to_its_command(path: Path) -> None:
    for verb, arguments in commands(path):
        words = [verb, *inner(verb, arguments)]
        shown = help_of(*words)
        own = arguments.partition(" -- ")[0]  # what follows is for another program
        unknown = [option for option in OPTION.findall(own) if option not in shown]
        assert not unknown, f"pushbackd {verb} knows no {unknown}"


@pytest.mark.slow
@pytest.mark.parametrize("code", [pytest.param(code, id=name_of(path)) for path, code in pytest_examples()])
def test_every_example_for_pytest_passes(code: str, tmp_path: Path) -> None:
    module = tmp_path / "test_example.py"
    module.write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(module)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout


def test_every_document_stands_in_the_index_once() -> None:
    linked = Counter((INDEX.parent / target).resolve() for target in LINK.findall(INDEX.read_text()))
    pages = {path for path in DOCUMENTS if path.parent.name != "adr"} | {ROOT / "docs/adr/README.md"}
    assert sorted(linked) == sorted(pages - {INDEX})
    assert [path for path, links in linked.items() if links > 1 and path != ROOT / "README.md"] == []


def test_no_sentence_stands_twice() -> None:
    said = Counter(sentence for path in DOCUMENTS for sentence in sentences(path))
    assert [sentence for sentence, times in said.items() if times > 1] == []

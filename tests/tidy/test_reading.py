"""The tour of the driver leads through functions that are there and small, and shows what one run prints."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOUR = (ROOT / "docs" / "READING.md").read_text()
STOPS = re.findall(r"^### (\d+)\. `(.+?)`\n\n\[(driver/[\w/]+\.py)\]\(\.\./(.+?)\)", TOUR, re.MULTILINE)
PROGRAM, JOURNAL = re.findall(r"^```(?:python|text)\n(.*?)^```$", TOUR, re.MULTILINE | re.DOTALL)

TOO_LONG = 30


def find(path: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """Return a function or method by its qualified name."""
    node: ast.AST = ast.parse((ROOT / path).read_text())
    for part in name.split("."):
        body: list[ast.AST] = getattr(node, "body", [])
        node = next(child for child in body if getattr(child, "name", None) == part)
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return node


def lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the lines of a function, signature and all, but for its docstring."""
    first = function.body[0]
    documented = ast.get_docstring(function) is not None
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


def test_the_stops_are_numbered() -> None:
    assert [int(number) for number, *_ in STOPS] == list(range(1, len(STOPS) + 1))
    assert len(STOPS) == TOUR.count("\n### ") > 20


@pytest.mark.parametrize(("name", "path", "link"), [stop[1:] for stop in STOPS])
def test_each_stop_is_a_function_that_fits_on_a_screen(name: str, path: str, link: str) -> None:
    assert path == link
    assert lines(find(path, name)) < TOO_LONG


@pytest.mark.slow
def test_the_journal_is_what_the_program_prints() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == JOURNAL

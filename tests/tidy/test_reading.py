"""The tours lead through functions that are there and small, and show what their programs print."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOURS = {"READING.md": ("driver", 30), "READING-SERVER.md": ("fakeserver", 12)}
"""The package that each tour leads through, and its number of stops."""

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


def tour(page: str) -> str:
    return (ROOT / "docs" / page).read_text()


def stops(page: str) -> list[tuple[str, str, str, str]]:
    """Return number, name, path and link of each stop."""
    package = TOURS[page][0]
    heading = rf"^### (\d+)\. `(.+?)`\n\n\[({package}/[\w/]+\.py)\]\(\.\./(.+?)\)"
    return re.findall(heading, tour(page), re.MULTILINE)


@pytest.mark.parametrize("page", TOURS)
def test_the_stops_are_numbered(page: str) -> None:
    numbers = [int(number) for number, *_ in stops(page)]
    assert numbers == list(range(1, TOURS[page][1] + 1))
    assert len(numbers) == tour(page).count("\n### ")


@pytest.mark.parametrize(("name", "path", "link"), [stop[1:] for page in TOURS for stop in stops(page)])
def test_each_stop_is_a_function_that_fits_on_a_screen(name: str, path: str, link: str) -> None:
    assert path == link
    assert lines(find(path, name)) < TOO_LONG


@pytest.mark.slow
@pytest.mark.parametrize("page", TOURS)
def test_the_journal_is_what_the_program_prints(page: str) -> None:
    program, journal = re.findall(r"^```(?:python|text)\n(.*?)^```$", tour(page), re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == journal

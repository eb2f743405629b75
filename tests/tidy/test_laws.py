"""What CONTRIBUTING.md calls the laws, as far as a machine can hold them."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGES = ("mongowire", "fakeserver", "driver", "harness")
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
TEXTS = SOURCES + [
    path for pattern in ("*.md", "docs/**/*.md", "spec_tests/**/*.yml") for path in sorted(ROOT.glob(pattern))
]

LONGEST_FUNCTION = 70
LONGEST_MODULE = 450

WRITTEN = {"fakeserver/control/methods.py"}
"""The modules that a program writes."""

PORTS = {"mongowire/system.py"}
"""The implementations of the ports, which alone may use the operating system's time and random numbers."""

WALL_CLOCK = {"harness/adapters/serving.py", "harness/running/interruption.py"}
"""Modules that run outside every event loop: in an adapter's process, or in the command line's own."""

FORBIDDEN = {
    "asyncio.sleep",
    "time.time",
    "time.monotonic",
    "time.perf_counter",
    "time.sleep",
    "random.random",
    "random.Random",
    "random.choice",
    "random.randint",
    "secrets.token_bytes",
    "uuid.uuid4",
    "uuid4",
    "os.urandom",
    "datetime.now",
    "datetime.utcnow",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "ObjectId()",
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count a function's lines without its docstring."""
    body = function.body
    if ast.get_docstring(function) is not None:
        body = body[1:]
    if not body:
        return 1
    return (function.end_lineno or function.lineno) - body[0].lineno + 1


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_function_is_longer_than_the_ratchet(path: Path) -> None:
    lengths = {function.name: length(function) for function in functions(path)}
    assert not {name: lines for name, lines in lengths.items() if lines > LONGEST_FUNCTION}


@pytest.mark.parametrize("path", [path for path in SOURCES if name_of(path) not in WRITTEN], ids=name_of)
def test_no_module_wants_splitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    source = path.read_text()
    assert not source.strip() or ast.get_docstring(ast.parse(source))


def uses_of_time_and_chance(path: Path) -> dict[str, int]:
    """Return the calls that only a port may make, with a line of each."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    called = {name: call.lineno for call in calls for name in (ast.unparse(call.func), ast.unparse(call))}
    return {name: line for name, line in called.items() if name in FORBIDDEN}


@pytest.mark.parametrize("path", [path for path in SOURCES if name_of(path) not in PORTS], ids=name_of)
def test_only_the_ports_use_time_and_chance(path: Path) -> None:
    allowed = {"time.monotonic", "time.perf_counter"} if name_of(path) in WALL_CLOCK else set()
    assert not {name: line for name, line in uses_of_time_and_chance(path).items() if name not in allowed}


@pytest.mark.parametrize("name", sorted(PORTS | WALL_CLOCK))
def test_an_exemption_is_needed(name: str) -> None:
    assert uses_of_time_and_chance(ROOT / name)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_public_class_and_function_of_a_module_has_a_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text())
    bare = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and ast.get_docstring(node) is None
    ]
    assert not bare


@pytest.mark.parametrize("path", TEXTS, ids=name_of)
def test_no_text_holds_a_path_of_a_machine_or_a_note_to_self(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"/(?:home|root|Users|work)/\w", text)
    assert not re.search(r"\b(?:TODO|FIXME|XXX)\b", text)

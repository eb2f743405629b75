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

PORTS = {"mongowire/system.py", "harness/sim/clock.py"}
"""The modules that may touch the operating system's time and dice: the implementations of the ports."""

WALL_CLOCK = {
    # What runs outside every event loop, in the command line's own process, measures for people.
    "harness/conform.py",
    "harness/interruption.py",
    "harness/workers.py",
    "harness/report/terminal.py",
}

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


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_module_wants_splitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_every_module_says_what_it_is(path: Path) -> None:
    source = path.read_text()
    assert not source.strip() or ast.get_docstring(ast.parse(source))


@pytest.mark.parametrize("path", [path for path in SOURCES if name_of(path) not in PORTS], ids=name_of)
def test_only_the_ports_touch_time_and_dice(path: Path) -> None:
    if name_of(path) in WALL_CLOCK:
        forbidden = FORBIDDEN - {"time.monotonic", "time.perf_counter"}
    else:
        forbidden = FORBIDDEN
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    called = [(ast.unparse(call.func), call.lineno) for call in calls]
    used = {f"{name} in line {line}" for name, line in called if name in forbidden}
    made = {f"ObjectId() in line {call.lineno}" for call in calls if ast.unparse(call) == "ObjectId()"}
    assert not used | made


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

"""What CONTRIBUTING.md calls the laws, as far as a machine can hold them, one test for a law."""

from __future__ import annotations

import ast
import gc
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sizes

from harness.world.processes import never_collecting

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PACKAGES = ("mongowire", "fakeserver", "driver", "harness")
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
TEXTS = SOURCES + [
    path for pattern in ("*.md", "docs/**/*.md", "spec_tests/**/*.yml") for path in sorted(ROOT.glob(pattern))
]

LONGEST_FUNCTION = 70
LONGEST_MODULE = 700
"""A question to the author: one class of 600 lines is better than 450 and five satellites."""

pytestmark = pytest.mark.slow

WRITTEN = {"fakeserver/control/methods.py"}
"""The modules that a program writes."""

PORTS = {"mongowire/system.py"}
"""The implementations of the ports, which alone may use the operating system's time and random numbers."""

WALL_CLOCK = {
    "harness/adapters/serving.py",
    "harness/hunt/program.py",
    "harness/overload/demo.py",
    "harness/world/interruption.py",
}
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


@cache
def trees() -> dict[Path, ast.Module]:
    """Parse each source once; a collector would walk a million objects, which stay to the end, ever again."""
    with never_collecting():
        parsed = {path: ast.parse(path.read_text()) for path in SOURCES}
        gc.freeze()
    return parsed


def tree_of(path: Path) -> ast.Module:
    return trees()[path]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree_of(path)):
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


def test_no_function_is_longer_than_the_ratchet() -> None:
    found = [(name_of(path), each.name, length(each)) for path in SOURCES for each in functions(path)]
    assert [each for each in found if each[2] > LONGEST_FUNCTION] == []


def test_no_module_wants_splitting() -> None:
    lines = {name_of(path): path.read_text().count("\n") for path in SOURCES if name_of(path) not in WRITTEN}
    assert {name: count for name, count in lines.items() if count > LONGEST_MODULE} == {}


def test_every_module_says_what_it_is() -> None:
    silent = [path for path in SOURCES if tree_of(path).body and ast.get_docstring(tree_of(path)) is None]
    assert [name_of(path) for path in silent] == []


def uses_of_time_and_chance(path: Path) -> dict[str, int]:
    """Return the calls that only a port may make, with a line of each."""
    calls = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)]
    called = {name: call.lineno for call in calls for name in spellings(call)}
    return {name: line for name, line in called.items() if name in FORBIDDEN}


def spellings(call: ast.Call) -> Iterator[str]:
    """Yield how a call and what it calls are written, where that is no more than names and dots."""
    function, names = call.func, list[str]()
    while isinstance(function, ast.Attribute):
        names.append(function.attr)
        function = function.value
    if isinstance(function, ast.Name):
        name = ".".join([function.id, *reversed(names)])
        yield name
        if not call.args and not call.keywords:
            yield f"{name}()"


def test_only_the_ports_use_time_and_chance() -> None:
    found = [
        f"{name_of(path)}:{line}: {name}"
        for path in SOURCES
        if name_of(path) not in PORTS
        for name, line in uses_of_time_and_chance(path).items()
        if not (name_of(path) in WALL_CLOCK and name in {"time.monotonic", "time.perf_counter"})
    ]
    assert found == []


@pytest.mark.parametrize("name", sorted(PORTS | WALL_CLOCK))
def test_an_exemption_is_needed(name: str) -> None:
    assert uses_of_time_and_chance(ROOT / name)


def test_every_public_class_and_function_of_a_module_has_a_docstring() -> None:
    bare = [
        f"{name_of(path)}:{node.lineno}: {node.name}"
        for path in SOURCES
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and ast.get_docstring(node) is None
    ]
    assert bare == []


def test_no_text_holds_a_path_of_a_machine_or_a_note_to_self() -> None:
    wrong = re.compile(r"/(?:home|root|Users|work)/\w|\b(?:TODO|FIXME|XXX)\b")
    found = [(name_of(path), match.group()) for path in TEXTS for match in wrong.finditer(path.read_text())]
    assert found == []


def test_the_sizes_of_the_tests_stand_in_the_page_for_those_who_contribute() -> None:
    assert sizes.table() in (ROOT / "CONTRIBUTING.md").read_text()


@pytest.mark.parametrize(
    "setting", ["everything", "packets", "packets=", "packets=-1", "packets=many", "paper=3"]
)
def test_a_size_that_cannot_be_read_is_refused(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sizes.VARIABLE, f"answers=5 {setting}")
    with pytest.raises(sizes.SizeError, match=re.escape(repr(setting))):
        sizes.size("answers")


def test_sizes_are_set_one_by_one_or_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sizes.VARIABLE, "full answers=5")
    assert sizes.size("answers") == 5
    assert sizes.is_full("packets")
    assert not sizes.is_full("answers")

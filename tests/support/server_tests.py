"""The public tests of a server's admission control, and the tests of ours that hold their rules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs" / "server-tests.yml"
TREE = "https://github.com/mongodb/mongo/blob/master/jstests/noPassthrough/"


@dataclass(frozen=True)
class PublicRule:
    """A rule that a public test asserts, in our own words."""

    asks: str
    held: Sequence[str]
    """The tests that hold it."""


@dataclass(frozen=True)
class PublicTest:
    """A file of the server's own tests."""

    path: str
    rules: Sequence[PublicRule]
    out: str = ""
    """Why it, or a part of it, is out of scope."""
    open: str = ""
    """What of it does not hold yet."""


@cache
def public_tests() -> tuple[PublicTest, ...]:
    """Return the files in the order of the table."""
    files: Mapping[str, Any] = _data()["files"]
    return tuple(
        PublicTest(
            path,
            tuple(PublicRule(rule["asks"], tuple(rule["held"])) for rule in facts.get("rules", ())),
            facts.get("out", ""),
            facts.get("open", ""),
        )
        for path, facts in files.items()
    )


@cache
def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = yaml.safe_load(DATA.read_text())
    return data


@cache
def places() -> Mapping[str, str]:
    """Return the files of all tests, by their names."""
    return {
        line.split("def ", 1)[1].split("(", 1)[0]: str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for line in path.read_text().splitlines()
        if line.lstrip().startswith("def test_")
    }


def section() -> str:
    """Return the last section of docs/CONFORMANCE.md."""
    files = public_tests()
    rules = sum(len(file.rules) for file in files)
    without = sum(not file.rules and not file.open for file in files)
    waiting = sum(bool(file.open) for file in files)
    return "\n".join(
        [
            _data()["introduction"],
            f"{len(files)} files: {rules} rules held, {without} files out of scope, {waiting} partly open.",
            "",
            "| File | What it asks | Held by |",
            "|---|---|---|",
            *(row for file in files for row in _rows(file)),
            "",
        ]
    )


def _rows(file: PublicTest) -> Iterator[str]:
    name = f"[`{file.path}`]({TREE}{file.path})"
    for rule in file.rules:
        links = (f"[`{test}`](../{places().get(test, '')})" for test in rule.held)
        yield f"| {name} | {rule.asks} | {', '.join(links)} |"
    if file.out:
        yield f"| {name} | out of scope: {file.out} | |"
    if file.open:
        yield f"| {name} | open: {file.open} | |"

"""A server's own tests of admission control and of rollback, and the tests of ours that hold their rules."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
DATA = (ROOT / "docs" / "server-tests.yml", ROOT / "docs" / "server-tests-of-rollback.yml")


@dataclass(frozen=True)
class PublicRule:
    """A rule that a public test asserts, in our own words."""

    id: str
    """The name of its file, and its number there."""
    asks: str
    held: Sequence[str]
    """The tests that hold it."""
    broken_by: Sequence[str] = ()
    """The names of mutants that break it, beside those that are of it."""


@dataclass(frozen=True)
class PublicTest:
    """A file of the server's own tests."""

    path: str
    rules: Sequence[PublicRule]
    out: str = ""
    """Why it, or a part of it, is out of scope."""
    open: str = ""
    """What of it does not hold yet."""


@dataclass(frozen=True)
class Table:
    """The files of one part of the server's own tests, in their order."""

    introduction: str
    tree: str
    """The address that their paths are below."""
    files: Sequence[PublicTest]


@cache
def tables() -> tuple[Table, ...]:
    """Return the tables in the order of the page."""
    return tuple(_table(yaml.safe_load(path.read_text())) for path in DATA)


def _table(data: Mapping[str, Any]) -> Table:
    files = tuple(
        PublicTest(
            path,
            tuple(
                PublicRule(f"{path}-{number}", rule["asks"], rule["held"], rule.get("broken by", ()))
                for number, rule in enumerate(facts.get("rules", ()), 1)
            ),
            facts.get("out", ""),
            facts.get("open", ""),
        )
        for path, facts in data["files"].items()
    )
    return Table(data["introduction"], data["tree"], files)


def public_tests() -> tuple[PublicTest, ...]:
    """Return the files of all tables."""
    return tuple(file for table in tables() for file in table.files)


@cache
def rules() -> Mapping[str, PublicRule]:
    """Return the rules of all tables, by their ids."""
    return {rule.id: rule for file in public_tests() for rule in file.rules}


@cache
def places() -> Mapping[str, str]:
    """Return the files of all tests, by their names."""
    return {
        line.split("def ", 1)[1].split("(", 1)[0]: str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for line in path.read_text().splitlines()
        if line.lstrip().startswith("def test_")
    }


def sections() -> str:
    """Return the last sections of docs/CONFORMANCE.md."""
    return "\n".join(map(_section, tables()))


def _section(table: Table) -> str:
    files = table.files
    rules = sum(len(file.rules) for file in files)
    without = sum(not file.rules and not file.open for file in files)
    waiting = sum(bool(file.open) for file in files)
    return "\n".join(
        [
            table.introduction,
            f"{len(files)} files: {rules} rules held, {without} files out of scope, {waiting} partly open.",
            "",
            "| File | What it asks | Held by |",
            "|---|---|---|",
            *(row for file in files for row in _rows(table.tree, file)),
            "",
        ]
    )


def _rows(tree: str, file: PublicTest) -> Iterator[str]:
    name = f"[`{file.path}`]({tree}{file.path})"
    for rule in file.rules:
        links = ", ".join(f"[`{test}`](../{places().get(test, '')})" for test in rule.held)
        yield f"| {name} | {rule.asks} | {links} |"
    if file.out:
        yield f"| {name} | out of scope: {file.out} | |"
    if file.open:
        yield f"| {name} | open: {file.open} | |"

"""The rules of three specifications, the functions that obey them, and the tests that would notice if not.

docs/conformance.yml names each rule in our own words, those whose sentence has no keyword apart. A function
obeys those that its docstring names, a chapter of a document those in a comment `<!-- obeys CB-22 -->` below
its heading; a test holds those of its mark `@pytest.mark.spec("CMAP-17")`. Run as a program, this writes
docs/CONFORMANCE.md.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs" / "conformance.yml"
PAGE = ROOT / "docs" / "CONFORMANCE.md"
ID = re.compile(r"\b(?:CMAP|RW|CB)-\d+\b")
OBEYS = re.compile(r"^#+ (.+)\n\n?<!-- obeys (.+?) -->", re.MULTILINE)


class Place(NamedTuple):
    """A function, a class, a test or a chapter."""

    name: str
    path: str

    def link(self) -> str:
        target = f"../{self.path}" if not self.path.startswith("docs/") else self.path.removeprefix("docs/")
        shown = self.name if self.path.endswith(".md") else f"`{self.name}`"
        return f"[{shown}]({target})"


@dataclass(frozen=True)
class Rule:
    """One sentence of a specification; it has a `reason` if it does not apply, and `open` what it lacks."""

    id: str
    keywords: tuple[str, ...]
    section: str
    text: str
    reason: str | None = None
    open: str | None = None


@dataclass(frozen=True)
class Specification:
    """What one text asks, in its order."""

    prefix: str
    title: str
    edition: str
    rules: tuple[Rule, ...]


@cache
def specifications() -> tuple[Specification, ...]:
    """Read the rules."""
    return tuple(_specification(prefix, data) for prefix, data in _data()["specifications"].items())


@cache
def _data() -> Mapping[str, Any]:
    data: Mapping[str, Any] = yaml.safe_load(DATA.read_text())
    return data


def _specification(prefix: str, data: Mapping[str, Any]) -> Specification:
    reasons, waiting = data.get("not applicable") or {}, data.get("open") or {}
    rules = []
    chapters = chain(data["sections"].items(), data["without keyword"].items())
    for section, sentences in chapters:
        for key, text in sentences.items():
            number, _, keywords = key.partition(" ")
            rule = Rule(
                number,
                tuple(keywords.split(", ")),
                section,
                text,
                reasons.get(number),
                waiting.get(number),
            )
            rules.append(rule)
    return Specification(prefix, data["title"], str(data["edition"]), tuple(rules))


# --- marks ---


@cache
def obeyed() -> Mapping[str, Sequence[Place]]:
    """Find what obeys each rule: code in order of its path, then documents."""
    found: dict[str, list[Place]] = defaultdict(list)
    for path in sorted((ROOT / "driver").rglob("*.py")):
        for name, node in _definitions(ast.parse(path.read_text())):
            for number in ID.findall(ast.get_docstring(node) or ""):
                found[number].append(Place(name, path.relative_to(ROOT).as_posix()))
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]):
        for heading, numbers in OBEYS.findall(path.read_text()):
            for number in ID.findall(numbers):
                found[number].append(Place(heading, path.relative_to(ROOT).as_posix()))
    return found


def _definitions(
    tree: ast.Module | ast.ClassDef, within: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield within + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node, f"{within}{node.name}.")


@cache
def held() -> Mapping[str, Sequence[Place]]:
    """Find the tests that hold each rule, by their marks."""
    found: dict[str, list[Place]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = path.read_text()
        for node in ast.parse(source).body if "mark.spec(" in source else ():
            for number in _marked(node):
                found[number].append(Place(_name(node), path.relative_to(ROOT).as_posix()))
    return found


def _marked(node: ast.stmt) -> Iterator[str]:
    """Yield the arguments of `pytest.mark.spec` in a test's decorators, or where a test class is assigned."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        sources: Sequence[ast.expr] = node.decorator_list
    else:
        sources = [node.value] if isinstance(node, ast.Assign) else []
    for call in (inner for source in sources for inner in ast.walk(source) if isinstance(inner, ast.Call)):
        if ast.unparse(call.func) == "pytest.mark.spec":
            yield from (str(ast.literal_eval(argument)) for argument in call.args)


def _name(node: ast.stmt) -> str:
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0])
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return node.name


# --- the page ---


def page() -> str:
    """Return docs/CONFORMANCE.md as it has to be."""
    return "\n".join(
        [_data()["introduction"], *(_table(specification) for specification in specifications())]
    )


def _table(specification: Specification) -> str:
    rules = specification.rules
    reasons, waiting = (sum(getattr(rule, kind) is not None for rule in rules) for kind in ("reason", "open"))
    counts = [f"{len(rules) - reasons - waiting} obeyed and tested", f"{reasons} not applicable"]
    if waiting:
        counts.append(f"{waiting} open")
    return "\n".join(
        [
            f"## {specification.title}, {specification.edition}",
            "",
            f"{len(rules)} rules: {', '.join(counts)}.",
            "",
            "| Rule | Section | What it asks | Obeyed by | Held by |",
            "|---|---|---|---|---|",
            *map(_row, rules),
            "",
        ]
    )


def _row(rule: Rule) -> str:
    asked = f"{', '.join(rule.keywords)}: {rule.text}"
    if rule.reason is not None:
        ends = f"| not applicable: {rule.reason} | |"
    elif rule.open is not None:
        ends = f"| open: {rule.open} | |"
    else:
        ends = f"| {_links(obeyed()[rule.id])} | {_links(held()[rule.id])} |"
    return f"| {rule.id} | {rule.section} | {asked} {ends}"


def _links(places: Sequence[Place]) -> str:
    return ", ".join(place.link() for place in places)


if __name__ == "__main__":
    PAGE.write_text(page())

"""The rules of five documents, the functions that obey them, and the tests that would notice if not.

harness/report/rules/rules.yml has each rule in our own words, those whose sentence has no keyword apart, and
names the function, class or chapter that obeys it. A test holds the rules of its mark
`@pytest.mark.spec("CMAP-17")`; a scenario shows those of its comment `# Rules: CMAP-17`, and so judges every
driver.
Run as a program, this writes docs/CONFORMANCE.md.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import server_tests

from harness.report.rules import rulebook
from harness.report.rules.rulebook import Note, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "CONFORMANCE.md"
BREAKS = ROOT / "tests" / "breaks"
PROVED = BREAKS / "proved.json"
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


class Site(NamedTuple):
    """A function, a class or a test in a file of code, or a chapter of a document."""

    path: str
    name: str

    @classmethod
    def of(cls, text: str) -> Site:
        """Return what `driver/cmap/state.py#PoolState.check_out` or `docs/DRIVER.md#Forks` names."""
        path, _, name = text.partition("#")
        return cls(path, name)

    @property
    def exists(self) -> bool:
        """Whether the file has a definition, or a chapter, of that name."""
        return (ROOT / self.path).is_file() and self.name in _names(self.path)

    @property
    def test(self) -> str:
        """As pytest names it, without parameters."""
        return f"{self.path}::{self.name}"

    def link(self) -> str:
        target = f"../{self.path}" if not self.path.startswith("docs/") else self.path.removeprefix("docs/")
        shown = self.name if self.path.endswith(".md") else f"`{self.name}`"
        return f"[{shown}]({target})"


@dataclass(frozen=True)
class Rule(rulebook.Rule):
    """A rule, and what obeys it; `unbroken` says why no few lines can be replaced so that it is broken."""

    obeyed_by: tuple[Site, ...] = ()
    unbroken: str | None = None


@dataclass(frozen=True)
class Specification(rulebook.Specification):
    """What one text asks, and what obeys each rule."""

    rules: tuple[Rule, ...]


@cache
def specifications() -> tuple[Specification, ...]:
    """Read the rules."""
    return tuple(map(_obeyed, rulebook.specifications()))


@cache
def _data() -> Mapping[str, Any]:
    return rulebook.rulebook()


def _obeyed(each: rulebook.Specification) -> Specification:
    data = _data()["specifications"][each.prefix]
    obeyed, unbroken = (data.get(key) or {} for key in ("obeyed by", "not broken"))
    rules = (
        Rule(**vars(rule), obeyed_by=_sites(obeyed.get(rule.id, ())), unbroken=unbroken.get(rule.id))
        for rule in each.rules
    )
    return Specification(each.prefix, each.title, each.edition, tuple(rules))


def _sites(named: str | Sequence[str]) -> tuple[Site, ...]:
    return tuple(Site.of(text) for text in ([named] if isinstance(named, str) else named))


# --- what is named, and what is marked ---


@cache
def named() -> Mapping[str, Sequence[Site]]:
    """Return what rules.yml names under `obeyed by`, for rules that it does not have too."""
    return {
        number: _sites(sites)
        for data in _data()["specifications"].values()
        for number, sites in (data.get("obeyed by") or {}).items()
    }


@cache
def _names(path: str) -> frozenset[str]:
    """Return the qualified names of a file's functions and classes, or a document's headings."""
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return frozenset(HEADING.findall(text))
    return frozenset(_definitions(ast.parse(text)))


def _definitions(tree: ast.Module | ast.ClassDef, within: str = "") -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield within + node.name
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node, f"{within}{node.name}.")


@cache
def held() -> Mapping[str, Sequence[Site]]:
    """Find the tests that hold each rule, by their marks."""
    found: dict[str, list[Site]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = path.read_text()
        for node in ast.parse(source).body if "mark.spec(" in source else ():
            for number in _marked(node):
                found[number].append(Site(path.relative_to(ROOT).as_posix(), _name(node)))
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


@cache
def broken_by() -> Mapping[str, Sequence[str]]:
    """Return the names of the mutants that break a rule beside those that are of it."""
    return {
        number: names
        for data in _data()["specifications"].values()
        for number, names in (data.get("broken by") or {}).items()
    }


@cache
def proved() -> Mapping[str, Mapping[str, str]]:
    """Return the tests that fail when a rule is broken, as `file::name`, each with the break."""
    found: Mapping[str, Mapping[str, str]] = json.loads(PROVED.read_text())
    return found


# --- the page ---


def page() -> str:
    """Return docs/CONFORMANCE.md as it has to be."""
    return "\n".join(
        [
            _data()["introduction"],
            *(_table(each) for each in specifications()),
            server_tests.sections(),
        ]
    )


def _table(specification: Specification) -> str:
    rules = specification.rules
    reasons, waiting = (sum(getattr(rule, kind) is not None for rule in rules) for kind in ("reason", "open"))
    scenarios = sum(rule.id in shown() for rule in rules)
    counts = [
        f"{len(rules) - reasons - waiting} obeyed and tested",
        f"{scenarios} shown by a scenario",
        f"{reasons} not applicable",
    ]
    if waiting:
        counts.append(f"{waiting} open")
    return "\n".join(
        [
            f"## {', '.join(filter(None, (specification.title, specification.edition)))}",
            "",
            f"{len(rules)} rules: {', '.join(counts)}.",
            "",
            "| Rule | Section | What it asks | Obeyed by | Held by | Scenarios |",
            "|---|---|---|---|---|---|",
            *map(_row, rules),
            "",
        ]
    )


def _row(rule: Rule) -> str:
    asked = f"{', '.join(rule.keywords)}: {rule.text}"
    if rule.reason is not None:
        ends = f"| not applicable: {rule.reason} | | |"
    elif rule.open is not None:
        ends = f"| open: {rule.open} | | |"
    else:
        ends = f"| {_links(rule.obeyed_by)} | {_holders(rule)} | {_scenarios(rule)} |"
    return f"| {rule.id} | {rule.section} | {asked} {ends}"


def _holders(rule: Rule) -> str:
    """Return the tests that failed when the rule was broken; those that are marked, where it cannot be."""
    marked = held()[rule.id]
    if rule.unbroken is not None:
        return f"{_links(marked)} (not broken: {rule.unbroken})"
    return _links([site for site in marked if site.test in proved().get(rule.id, ())])


def _links(sites: Sequence[Site]) -> str:
    return ", ".join(site.link() for site in sites)


def _scenarios(rule: Rule) -> str:
    """Return the files whose cases show a rule, or why none can."""
    files = dict.fromkeys(map(_link, shown().get(rule.id, ())))
    return ", ".join(files) or (f"not visible: {rule.unseen}" if rule.unseen else "")


def _link(note: Note) -> str:
    return f"[{Path(note.path).stem}](../{note.path})"


if __name__ == "__main__":
    PAGE.write_text(page())

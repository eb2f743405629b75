"""Runs rules over files: one after the other, or spread over processes when there are many."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Final

import fakeserver
from fakeserver.control.scenario.loader import ScenarioFileError
from harness.formats import UNIFIED, format_of, is_for_servers
from harness.formats.grammar import check
from harness.lint.findings import Finding, Problem
from harness.lint.rules import RULES
from harness.lint.scenario import LintedScenario
from harness.running.collecting import never_collecting
from harness.unified.build import build
from harness.unified.errors import ScenarioError
from harness.unified.loader import read_with_anchors
from mongowire.documents.marks import Location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from harness.lint.cache import FindingsCache
    from mongowire.documents.marks import Marked

ALL: Final = frozenset(rule.id for rule in RULES)

REFUSING: Final = frozenset(rule.id for rule in RULES if rule.refuses)

_SHARE: Final = 40
"""How many files are worth a process."""


def lint_file(path: Path, rules: frozenset[str] = ALL) -> list[Finding]:
    """Return what the rules of these ids find in a file, by lines.

    Of a file that cannot be used only the reasons for that: all else may follow from them.
    """
    try:
        document, anchors = read_with_anchors(path)
    except ScenarioError as error:
        return [_refusal(error, path, "syntax")]
    try:
        of = format_of(document.value)
        if is_for_servers(document.value):
            return _of_servers(path)
        check(document, of)
        if of is not UNIFIED:
            return []  # the rules are about unified tests
        build(document)  # which also checks the parts inside arguments
    except ScenarioError as error:
        return [_refusal(error, path, "schema")]
    scenario = LintedScenario(document, anchors)
    refused = [each for each in _findings(scenario, rules & REFUSING) if each.refused]
    return sorted(refused or _findings(scenario, rules))


def _of_servers(path: Path) -> list[Finding]:
    """Return why servers would refuse a scenario for them."""
    try:
        fakeserver.load_scenario(path)
    except ScenarioFileError as error:
        problems = (
            Problem(Location(path, each.place.line, each.place.column, each.field), each.message)
            for each in error.problems
        )
        return sorted(Finding.of(problem, "schema", refused=True) for problem in problems)
    return []


def flaws(document: Marked) -> dict[int, tuple[Finding, ...]]:
    """Return what makes cases of a valid document unusable, by index: they could only fail, with any driver.

    What is wrong outside of the cases (an entity of the file) is a flaw of each of them.
    """
    scenario = LintedScenario(document)
    found: dict[int, list[Finding]] = {}
    for rule in RULES:
        for problem in rule.find(scenario) if rule.refuses else ():
            index = scenario.case_of(problem.location)
            for flawed in range(len(scenario.tests)) if index is None else (index,):
                finding = Finding.of(problem, rule.id, refused=True)
                found.setdefault(flawed, []).append(finding)
    return {index: tuple(sorted(findings)) for index, findings in found.items()}


def _findings(scenario: LintedScenario, rules: frozenset[str]) -> Iterator[Finding]:
    for rule in RULES:
        if rule.id in rules:
            for problem in rule.find(scenario):
                refused = rule.refuses and scenario.runs(problem.location)
                yield Finding.of(problem, rule.id, refused=refused)


def _refusal(error: ScenarioError, path: Path, rule: str) -> Finding:
    problem = Problem(error.location or Location(path), error.message, error.fix)
    return Finding.of(problem, rule, refused=True)


def lint_files(
    paths: Sequence[Path],
    rules: frozenset[str] = ALL,
    *,
    jobs: int | None = None,
    cache: FindingsCache | None = None,
) -> list[Finding]:
    """Return the findings of all files, in the order of the files.

    Without `jobs`, as many processes as there are processors and enough files for. Files that `cache` knows
    are not read again, and it gets what was found in the others.
    """
    if cache is None:
        return [finding for findings in _lint(paths, rules, jobs) for finding in findings]
    keys = [cache.key(path) for path in paths]
    known = [cache.get(path, key) for path, key in zip(paths, keys, strict=True)]
    unknown = [index for index, findings in enumerate(known) if findings is None]
    found = _lint([paths[index] for index in unknown], rules, jobs)
    for index, findings in zip(unknown, found, strict=True):
        known[index] = findings
        cache.put(paths[index], keys[index], findings)
    cache.save()
    return [finding for findings in known for finding in findings or ()]


def _lint(paths: Sequence[Path], rules: frozenset[str], jobs: int | None) -> list[list[Finding]]:
    """Return the findings of each file."""
    wanted = jobs or min(os.cpu_count() or 1, 1 + len(paths) // _SHARE)
    if wanted == 1:
        return _in_this_process(paths, rules)

    shares = [paths[start : start + _SHARE] for start in range(0, len(paths), _SHARE)]
    with ProcessPoolExecutor(wanted) as pool:
        found = pool.map(_in_this_process, shares, [rules] * len(shares))
        return [findings for share in found for findings in share]


def _in_this_process(paths: Iterable[Path], rules: frozenset[str]) -> list[list[Finding]]:
    with never_collecting():
        return [lint_file(path, rules) for path in paths]

"""Runs rules over files: one after the other, or spread over processes when there are many.

A file goes through three sieves. What cannot be read is one finding. What the schema, or the building of its
parts, refuses is taken out and replaced by what does nothing (`Remains`), so that all mistakes are told at
once and in their places. The rules look at what is left. Once anything is refused, only warnings that follow
from nothing else are told (`LOCAL`), since a missing part makes others look unused.
"""

from __future__ import annotations

import os
import re
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.scenario.loader import ScenarioFileError
from fakeserver.control.scenario.loader import read_text as read_scenario
from fakeserver.waiting.first_use import at_first_use
from harness.formats import UNIFIED, format_of, is_for_servers
from harness.formats.case import cases_of
from harness.formats.grammar import mistakes
from harness.lint.findings import Finding, Problem
from harness.lint.rules import RULES
from harness.lint.scenario import LintedScenario
from harness.unified.build import build
from harness.unified.errors import ScenarioError, SeveralMistakesError
from harness.unified.loader import read_text, text_of
from harness.unified.schema.grammar import MINOR_MAX
from harness.world.processes import never_collecting
from mongowire.documents.marks import Location

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.lint.cache import FindingsCache
    from mongowire.documents.marks import Marked


# What of a broken file can still be examined: the file without the parts that the format does not allow.
#
# A run needs a whole file. Whoever mends one wants all of its mistakes at once, so that parts that are wrong
# are replaced by others that do nothing, and rules look at the rest. Nothing changes its place by that.


NAMING: Final = frozenset(
    {"undefined-entity", "wrong-entity", "unknown-operation", "unknown-label", "unknown-selector"}
)
"""Rules about what other parts of a file bring along, such as the names of entities."""

_OPERATION = re.compile(r"tests\[(\d+)\]\.operations\[(\d+)\]")
_OF_TEST = re.compile(r"tests\[(\d+)\]\.(\w+)")
_TEST = re.compile(r"tests\[(\d+)\]$")
_ENTITY = re.compile(r"createEntities\[(\d+)\]")
_OF_ENTITY = re.compile(r"createEntities\[\d+\]\.\w+\.(\w+)")
_OF_FILE = re.compile(r"(\w+)")
_MAKES_ENTITIES = re.compile(r"save|store|entit", re.IGNORECASE)
"""What stands in an operation, or in a mistyped one, that makes entities of its result."""

_NEEDED: Final[Mapping[str, Sequence[str]]] = {
    "client": ("id",),
    "database": ("id", "client"),
    "collection": ("id", "database"),
    "session": ("id", "client"),
    "bucket": ("id", "database"),
    "thread": ("id",),
}
"""What an entity needs to be one that others may name, whatever else is wrong with it."""

_NAMED_BY: Final[Mapping[str, Sequence[str]]] = {
    "database": ("databaseName",),
    "collection": ("collectionName",),
}

LOCAL: Final = frozenset({"unknown-option", "wrong-option", "no-server"})
"""Warnings about one place, which follow from no other mistake."""

_HEAD: Final[Mapping[str, Any]] = {"description": "", "schemaVersion": f"1.{MINOR_MAX}"}
"""What a file needs to be examined: all that the format has, whatever its version was to be."""


@dataclass(slots=True)
class Remains:
    """A document, from a copy of which mistakes are taken out one after the other."""

    document: Marked
    is_copy: bool = False
    names_are_known: bool = True
    """Whether all that has a name is still there, so that a name without meaning is a mistake."""

    def without(self, errors: Iterable[ScenarioError]) -> bool:
        """Take out the parts that errors are about; return whether there was one for each.

        The schema version becomes the newest: what an older one lacks has been told, and would else be told
        again in each round.
        """
        if not self.is_copy:
            self.document, self.is_copy = replace(self.document, value=deepcopy(self.document.value)), True
        taken = [self._take_out(error.location.field if error.location else "") for error in errors]
        if isinstance(self.document.value, dict):
            self.document.value.update(_HEAD)
        return all(taken)

    def _take_out(self, field: str) -> bool:
        value = self.document.value
        if not isinstance(value, dict) or not isinstance(value.get("tests"), list):
            return False
        if found := _OPERATION.match(field):
            # One that does nothing takes its place; what it would have named stays unknown.
            operations = value["tests"][int(found[1])]["operations"]
            index = int(found[2])
            # Its result may have a name that later operations use. Without it they would look undefined.
            if _MAKES_ENTITIES.search(str(operations[index])):
                self.names_are_known = False
            operations[index] = {"name": "wait", "object": "testRunner", "arguments": {"ms": 0}}
        elif found := _TEST.match(field):
            value["tests"][int(found[1])] = {"description": "", "operations": []}
        elif found := _OF_TEST.match(field):
            test = value["tests"][int(found[1])]
            test.pop(found[2], None)
            test.setdefault("description", "")
            test.setdefault("operations", [])
        elif found := _ENTITY.match(field):
            self._mend_entity(value["createEntities"], int(found[1]), field)
        elif (found := _OF_FILE.match(field)) and found[1] != "tests":
            value.pop(found[1], None)
        else:
            return not field  # a field of the file that is missing
        return True

    def _mend_entity(self, entities: list[Any], index: int, field: str) -> None:
        """Take out the field of an entity that is wrong; one without its name becomes another thing."""
        entity = entities[index]
        has_one_kind = isinstance(entity, dict) and len(entity) == 1
        only: tuple[str, Any] = next(iter(entity.items())) if has_one_kind else ("", None)
        kind, body = only
        found = _OF_ENTITY.search(field)
        needed = _NEEDED.get(kind, ())
        is_whole = isinstance(body, dict) and all(isinstance(body.get(each), str) for each in needed)
        if found and is_whole and found[1] not in needed:
            body.pop(found[1], None)
            body.update({each: "" for each in _NAMED_BY.get(kind, ()) if each not in body})
            return
        self.names_are_known = False
        # A thread needs nothing but a name, and this one cannot be anybody's.
        entities[index] = {"thread": {"id": f"createEntities[{index}]"}}


# Comments that allow what a rule would tell of: `# lint: allow timed-wait, the server looks once a second`.
#
# Such a comment holds for its own line, or for the next line where it stands alone. It names rules, and may
# say why after them. Only warnings can be allowed: what refuses a file would still refuse it.


# A rule's id has small letters and dashes; after the first one, a comma is followed by another id only if it
# has a dash, so that a reason may follow a comma.
_COMMENT = re.compile(r"(?:^|\s)#\s*lint:\s*allow\s+(?P<rules>[a-z][a-z-]*(?:\s*,\s*[a-z]+-[a-z-]*)*)")


def allowances(text: str) -> Callable[[int], frozenset[str]]:
    """Return what tells the rules that the text of a file allows to break in a line."""
    by_line: dict[int, frozenset[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if found := _COMMENT.search(line):
            alone = not line[: found.start()].strip()
            rules = frozenset(name.strip() for name in found["rules"].split(","))
            by_line[number + alone] = by_line.get(number + alone, frozenset()) | rules
    return lambda number: by_line.get(number, frozenset())


_building = at_first_use("fakeserver.control.scenario.building")

ALL: Final = frozenset(rule.id for rule in RULES)

REFUSING: Final = frozenset(rule.id for rule in RULES if rule.refuses)

_SHARE: Final = 40
"""How many files are worth a process."""


def lint_file(path: Path, rules: frozenset[str] = ALL) -> list[Finding]:
    """Return what the rules of these ids find in a file, by lines.

    Of a file that cannot be used all reasons for that, and the warnings that follow from nothing else.
    """
    try:
        text = text_of(path)
    except ScenarioError as error:
        return [_refusal(error, path, "syntax")]
    return lint_text(text, path, rules)


def lint_text(text: str, path: Path, rules: frozenset[str] = ALL) -> list[Finding]:
    """Return what the rules find in the text of a file, as `lint_file` does.

    In this order: what is refused first, since everything else depends on it, then the warnings that no
    comment allows. A refusal cannot be allowed: the file would fail all the same.
    """
    try:
        document, anchors = read_text(text, path)
    except ScenarioError as error:
        return [_refusal(error, path, "syntax")]
    # Not a test at all: the server's own reader says what is wrong with it.
    if is_for_servers(document.value):
        return _of_servers(text, path)
    if format_of(document.value) is not UNIFIED:  # the rules are about unified tests
        return [_refusal(error, path, "schema") for error in _of_other_format(document)]
    remains, errors = _examinable(document)
    refused = [_refusal(error, path, "schema") for error in errors]
    if remains is None:
        return refused
    scenario = LintedScenario(remains.document, anchors)
    # With an entity taken out, names may be unknown because of that alone.
    refusing = (rules & REFUSING) - (frozenset() if remains.names_are_known else NAMING)
    refused += [each for each in _findings(scenario, refusing) if each.refused]
    allowed = allowances(text)
    found = _findings(scenario, rules & LOCAL if refused else rules)
    return sorted([*refused, *(each for each in found if each.rule not in allowed(each.line))])


def _of_other_format(document: Marked) -> Sequence[ScenarioError]:
    """Return why the cases of a file of another format than the unified one cannot run."""
    errors = mistakes(document, format_of(document.value))
    try:
        if not errors:
            cases_of(document)
    except SeveralMistakesError as error:
        return [error, *error.others]
    except ScenarioError as error:
        return [error]
    return errors


def _examinable(document: Marked) -> tuple[Remains | None, list[ScenarioError]]:
    """Return what rules can look at, if anything, and the mistakes of all else.

    The parts inside arguments are checked when they are built, of which each attempt tells one mistake.
    """
    remains = Remains(document)
    errors = mistakes(document, UNIFIED)
    if errors and (not remains.without(errors) or mistakes(remains.document, UNIFIED)):
        return None, errors
    while True:
        try:
            build(remains.document)
        except ScenarioError as error:
            # Taking it out did not help. Without this the loop would never end.
            if any(str(each) == str(error) for each in errors):
                return None, errors
            errors.append(error)
            if not remains.without([error]):
                return None, errors
        else:
            return remains, errors


def _of_servers(text: str, path: Path) -> list[Finding]:
    """Return why servers would refuse a scenario for them."""
    try:
        _building.build(read_scenario(text, str(path)))
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
            # A mistake in an entity of the file is in each of its cases.
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
    on_checked: Callable[[int], object] = lambda _: None,
) -> list[Finding]:
    """Return the findings of all files, in the order of the files.

    `on_checked` hears how many files more have been checked. Without `jobs`, as many processes as there are
    processors and enough files for. Files that `cache` knows are not read again, and it gets what was found
    in the others.
    """
    if cache is None:
        return [each for findings in _told(_lint(paths, rules, jobs), on_checked) for each in findings]
    keys = [cache.key(path) for path in paths]
    known = [cache.get(path, key) for path, key in zip(paths, keys, strict=True)]
    unknown = [index for index, findings in enumerate(known) if findings is None]
    on_checked(len(paths) - len(unknown))
    found = _told(_lint([paths[index] for index in unknown], rules, jobs), on_checked)
    for index, findings in zip(unknown, found, strict=True):
        known[index] = findings
        cache.put(paths[index], keys[index], findings)
    cache.save()
    return [finding for findings in known for finding in findings or ()]


def _lint(paths: Sequence[Path], rules: frozenset[str], jobs: int | None) -> Iterator[list[list[Finding]]]:
    """Yield the findings of each file, for a share of the files at a time.

    Shares are of a fixed size, not one for each process: progress is shown after each, and a process that has
    long files gets fewer. With one process nothing is started.
    """
    wanted = jobs or min(os.cpu_count() or 1, 1 + len(paths) // _SHARE)
    shares = [paths[start : start + _SHARE] for start in range(0, len(paths), _SHARE)]
    if wanted == 1:
        yield from (_in_this_process(share, rules) for share in shares)
        return
    with ProcessPoolExecutor(wanted) as pool:
        yield from pool.map(_in_this_process, shares, [rules] * len(shares))


def _told(
    shares: Iterable[list[list[Finding]]], on_checked: Callable[[int], object]
) -> Iterator[list[Finding]]:
    for share in shares:
        on_checked(len(share))
        yield from share


def _in_this_process(paths: Iterable[Path], rules: frozenset[str]) -> list[list[Finding]]:
    with never_collecting():
        return [lint_file(path, rules) for path in paths]

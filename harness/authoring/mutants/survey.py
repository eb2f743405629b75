"""The survey of cases without a mutant: whether each passes, and the lines that it reaches.

A case that does not pass kills nothing, and one that never reaches what a mutant has changed cannot kill it.
With hundreds of mutants and thousands of cases this is what makes a search affordable: the survey runs each
case once, and each mutant is then tried with the few that come by its lines.

Two kinds of mutant are reached by every case: those that change what runs at import, and those whose lines
stand outside of functions, for which no mark can be put (`overlay.record_reach`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import connection as connections
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from harness.authoring.mutants.mutant import original, path_of
from harness.authoring.mutants.overlay import LineMark, changed_functions, record_reach
from harness.authoring.mutants.trial import judge_items, key_of, watch
from harness.planning.result import ResultStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from multiprocessing.connection import Connection

    from harness.authoring.mutants.mutant import Mutant
    from harness.planning.plan import Item


# Scenarios name the rules that a case is for in a comment right below its description:
# `# Rules: CB-2, CB-13`. The loader drops comments, so the text is searched.
_RULES = re.compile(r"^ *- description: (?P<name>.+)\n(?: *#.*\n)*? *# Rules: (?P<rules>.+)$", re.MULTILINE)


def concerns(mutant: Mutant, item: Item) -> bool:
    """Return whether an item is of the specification that a mutant breaks, or names the rule."""
    return item.id.startswith(f"{mutant.specification}/") or names_rule(mutant, item)


def names_rule(mutant: Mutant, item: Item) -> bool:
    """Return whether the comment of an item's case names the rule that a mutant breaks."""
    return mutant.rule in _rules(item.path).get(item.id.partition("::")[2], ())


@cache
def _rules(path: str) -> Mapping[str, frozenset[str]]:
    """Return the rules in the comments of a file's cases, by their descriptions."""
    found = _RULES.finditer(Path(path).read_text(encoding="utf-8"))
    return {each["name"].strip("\"' "): frozenset(map(str.strip, each["rules"].split(","))) for each in found}


def functions_of(mutant: Mutant) -> frozenset[tuple[str, str]] | None:
    """Return path and name of the functions that a mutant changes; None if it changes what is imported."""
    found: set[tuple[str, str]] = set()
    for file, text in mutant.sources().items():
        path = str(path_of(file))
        changed = changed_functions(original(file), text, path)
        if changed is None:
            return None
        found |= {(path, name) for name in changed}
    return frozenset(found)


@dataclass(slots=True)
class Survey:
    """The items that pass, in their order, with the names of the mutants whose lines each reaches."""

    passed: list[Item] = field(default_factory=list)
    reach: dict[str, frozenset[str]] = field(default_factory=dict)

    def reaching(self, mutant: Mutant) -> list[Item]:
        """Return the items that can tell a mutant from the original, in their order."""
        fitting = (item for item in self.passed if not mutant.editions or item.edition in mutant.editions)
        everywhere = functions_of(mutant) is None
        return [item for item in fitting if everywhere or mutant.name in self.reach[key_of(item)]]


def marks_of(mutants: Iterable[Mutant]) -> list[LineMark]:
    """Return the lines that mutants change, of those that can be put into loaded modules."""
    return [
        LineMark(str(path_of(change.file)), *change.place(original(change.file)), mutant.name)
        for mutant in mutants
        if functions_of(mutant) is not None
        for change in mutant.changes
    ]


def survey(
    items: Sequence[Item],
    mutants: Iterable[Mutant],
    *,
    everywhere: bool,
    jobs: int,
    advance: Callable[[int], None],
) -> Survey:
    """Run items without a mutant, on `jobs` processes; `advance` is called with a number of cases.

    Unless `everywhere`, a case runs, in each edition, on its deployments until it has passed on one.
    """
    marks = marks_of(mutants)
    groups = grouped(items, everywhere=everywhere)
    found: dict[str, tuple[ResultStatus, frozenset[str]]] = {}
    for results in _spread(groups, marks, jobs):
        found |= results
        advance(1)
    result = Survey()
    for item in items:
        key = key_of(item)
        if key in found and found[key][0] is ResultStatus.PASSED:
            result.passed.append(item)
            result.reach[key] = found[key][1]
    return result


def grouped(items: Iterable[Item], *, everywhere: bool) -> list[list[Item]]:
    """Return the items of each case in each edition, or each item by itself."""
    groups: dict[tuple[str, ...], list[Item]] = {}
    for item in items:
        group = (item.id, item.edition, item.topology) if everywhere else (item.id, item.edition)
        groups.setdefault(group, []).append(item)
    return list(groups.values())


def _spread(
    groups: Sequence[Sequence[Item]], marks: Sequence[LineMark], jobs: int
) -> Iterable[dict[str, tuple[ResultStatus, frozenset[str]]]]:
    """Yield the results of each group, by the keys of its items; each process takes every `jobs`-th group."""
    context = get_context("fork")
    ends: list[Any] = []
    for first in range(jobs):
        ours, theirs = connections.Pipe(duplex=False)
        context.Process(target=_watch, args=(groups[first::jobs], marks, theirs), daemon=True).start()
        theirs.close()  # with our copy open, the end of the process would not read as the end of the pipe
        ends.append(ours)
    while ends:
        for end in cast("list[Connection]", connections.wait(ends)):
            try:
                yield end.recv()
            except EOFError:
                ends.remove(end)


def _watch(groups: Iterable[Sequence[Item]], marks: Sequence[LineMark], reports: Connection) -> None:
    reached, unknown = record_reach(marks)
    for group in groups:
        results: dict[str, tuple[ResultStatus, frozenset[str]]] = {}
        for item, (status, names) in zip(group, watch(group, reached), strict=True):
            results[key_of(item)] = status, names | unknown
            # A group is one case on several deployments: the first that it passes on will do.
            if status is ResultStatus.PASSED:
                break
        reports.send(results)


def passing(items: Sequence[Item]) -> Mapping[str, Item]:
    """Return those of a few items that pass without a mutant, by their keys.

    For a search among known killers: it needs no marks, so the items run in this process, which stays
    unchanged.
    """
    failed: set[int] = set()

    def report(message: tuple[Any, ...]) -> None:
        if message[0] == "killed":
            failed.add(message[1])

    judge_items([item.to_dict() for item in items], report, stops=False)
    return {key_of(item): item for index, item in enumerate(items) if index not in failed}

"""Breaks the rules of docs/CONFORMANCE.md, and records which of the tests that are said to hold them fail.

A rule is broken by the mutants of the catalogue and of tests/breaks that are of it, and by those that its
file names under `broken by`. One of the server's own tests has the name of its file and the number in that as
id.
Run as a program, for all rules or for those that are named (`RW-11`, `SAC`, `rollback_views.js`), this writes
tests/breaks/proved.json, which the column `Held by` of docs/CONFORMANCE.md is made of.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING

import server_tests
from mutant_tests import failing
from spec_rules import BREAKS, PAGE, PROVED, ROOT, broken_by, held, page, proved, specifications

from harness.authoring.mutants.mutant import CATALOGUE, load_mutants
from harness.world.processes import processors

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from harness.authoring.mutants.mutant import Mutant


@cache
def breaks() -> Mapping[str, Sequence[Mutant]]:
    """Return the mutants that break each rule."""
    mutants = {mutant.name: mutant for folder in (CATALOGUE, BREAKS) for mutant in load_mutants(folder)}
    found: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants.values():
        found[mutant.rule].append(mutant)
    of_servers = {number: rule.broken_by for number, rule in server_tests.rules().items()}
    for number, names in (*broken_by().items(), *of_servers.items()):
        found[number] += [mutants[name] for name in names]
    return found


def to_prove() -> Sequence[str]:
    """Return the rules that can be broken, and that a test is said to hold."""
    rules = [rule for specification in specifications() for rule in specification.rules]
    own = [rule.id for rule in rules if rule.reason is None and rule.unbroken is None and not rule.open]
    return [*own, *server_tests.rules()]


@cache
def holders(number: str) -> Sequence[str]:
    """Return the tests that are said to hold a rule, as `file::name`."""
    if number in server_tests.rules():
        return [f"{server_tests.places()[test]}::{test}" for test in server_tests.rules()[number].held]
    return [site.test for site in held()[number]]


def prove(numbers: Collection[str], *, known: bool = False) -> dict[str, dict[str, str]]:
    """Break rules, and return the tests that fail, each with the first break that it fails with.

    With `known`, only the breaks that are recorded are tried, with the tests that are recorded for them.
    """
    tests = {number: holders(number) for number in numbers}
    wanted: dict[str, set[str]] = defaultdict(set)
    for number in numbers:
        for mutant in breaks()[number]:
            recorded = proved().get(number, {}) if known else dict.fromkeys(tests[number], mutant.name)
            wanted[mutant.name] |= {test for test, name in recorded.items() if name == mutant.name}
    mutants = list({m.name: m for number in numbers for m in breaks()[number] if wanted[m.name]}.values())
    named = {name: sorted(chosen) for name, chosen in wanted.items()}
    failed = failing(named, mutants, root=ROOT, jobs=processors())
    return {
        number: {
            test: names[0]
            for test in sorted(tests[number])
            if (names := [m.name for m in breaks()[number] if test in failed.get(m.name, ())])
        }
        for number in numbers
    }


def main(chosen: Sequence[str]) -> int:
    """Prove the rules that are chosen, write record and page, and return 1 if a test holds nothing."""
    numbers = [
        number
        for number in to_prove()
        if not chosen or any(number == each or number.startswith(f"{each}-") for each in chosen)
    ]
    found = prove(numbers)
    kept = {**proved(), **found}
    PROVED.write_text(
        json.dumps({number: kept[number] for number in to_prove() if number in kept}, indent=1) + "\n"
    )
    proved.cache_clear()
    PAGE.write_text(page())
    idle = [(number, test) for number in numbers for test in holders(number) if test not in found[number]]
    for number, test in idle:
        names = ", ".join(mutant.name for mutant in breaks()[number])
        sys.stdout.write(f"{number}: {test} passes with all that breaks the rule: {names}\n")
    return 1 if idle else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

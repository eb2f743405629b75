"""The tests that docs/CONFORMANCE.md names fail when their rule is broken, or it is said why it cannot be."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain
from operator import attrgetter
from pathlib import Path

import pytest
import server_tests
from prove_rules import breaks, holders, to_prove
from rows import each_row
from sizes import is_full
from spec_rules import BREAKS, Rule, broken_by, proved, specifications

from harness.authoring.mutants.mutant import Mutant, load_mutants
from harness.authoring.mutants.survey import functions_of

ROOT = Path(__file__).parents[2]
RULES = [
    rule
    for rule in chain.from_iterable(specification.rules for specification in specifications())
    if rule.reason is None and not rule.open
]
SAMPLE = 6


@each_row(RULES, name=attrgetter("id"))
def test_a_rule_is_broken_by_something_or_it_is_said_why_not(rule: Rule) -> None:
    if rule.unbroken is not None:
        assert rule.id not in breaks(), "it is said that nothing breaks it, and something does"
    else:
        assert breaks().get(rule.id), f"no mutant breaks it; add one to tests/breaks: {rule.text}"


@each_row(server_tests.rules().values(), name=attrgetter("id"))
def test_a_rule_of_the_servers_own_tests_is_broken_by_something(rule: server_tests.PublicRule) -> None:
    assert breaks().get(rule.id), f"no mutant breaks it; add one to tests/breaks: {rule.asks}"


@each_row(load_mutants(BREAKS), name=attrgetter("name"))
def test_what_breaks_a_rule_changes_todays_code(wrong: Mutant) -> None:
    assert functions_of(wrong) != frozenset()


@each_row(to_prove())
def test_each_test_that_is_marked_with_a_rule_has_failed_when_it_was_broken(number: str) -> None:
    recorded, names = proved().get(number, {}), {mutant.name for mutant in breaks()[number]}
    assert set(holders(number)) == set(recorded), f"python tests/support/prove_rules.py {number}"
    assert set(recorded.values()) <= names


def test_what_breaks_a_rule_beside_its_own_mutants_is_said_of_rules_that_exist() -> None:
    assert broken_by().keys() <= {rule.id for rule in RULES}


def prove(numbers: list[str]) -> subprocess.CompletedProcess[str]:
    """Run in a process of its own: it forks, which a process with threads should not."""
    program = (
        "import sys; sys.path.insert(0, 'tests/support'); from prove_rules import prove, proved; "
        "numbers = sys.argv[1:]; found = prove(numbers, known=True); "
        "wrong = [n for n in numbers if found[n] != dict(sorted(proved()[n].items()))]; "
        "sys.exit(f'these hold no longer: {wrong}' if wrong else 0)"
    )
    command = [sys.executable, "-c", program, *numbers]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=3600)


@pytest.mark.slow
def test_a_sample_of_rules_is_held_by_the_tests_that_are_recorded() -> None:
    chosen = list(to_prove())
    if not is_full("mutants"):
        chosen = chosen[:: len(chosen) // SAMPLE]
    done = prove(chosen)
    assert done.returncode == 0, done.stderr

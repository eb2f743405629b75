"""Every mutant can be used: its lines are in the source, and the rule that it breaks exists."""

from __future__ import annotations

import re
from operator import attrgetter

import pytest
from rows import each_row
from spec_rules import specifications

from harness.authoring.mutants.mutant import CATALOGUE, Mutant, load_mutants
from harness.authoring.mutants.survey import functions_of

MUTANTS = load_mutants(CATALOGUE)
ID = re.compile(r"(CMAP|RW|CB|SAC|RI)-\d+")
RULES = {rule.id for specification in specifications() for rule in specification.rules}

NAMED = (
    "no backoff",
    "jitter ignored",
    "exponent one too high",
    "exponent one too low",
    "cap 1,000 s",
    "overloaded server not deprioritised",
    "maxConnecting not obeyed",
    "a token for every retry",
    "capacity 10",
    "deposit of a retry's success 0.1 only",
    "no deposit of a failed retry for another reason",
    "one retry too many",
    "one retry too few",
    "newest error always survives",
    "pool cleared without a new generation",
    "limit not raised by overload",
    "new txnNumber for every attempt",
)


@each_row(MUTANTS, name=attrgetter("name"))
def test_a_mutant_changes_todays_code(mutant: Mutant) -> None:
    assert functions_of(mutant) != frozenset()


@each_row(MUTANTS, name=attrgetter("name"))
def test_a_mutant_breaks_a_rule_that_exists(mutant: Mutant) -> None:
    assert mutant.rule in RULES if ID.fullmatch(mutant.rule) else ": " in mutant.rule


def test_a_sentence_says_what_is_wrong() -> None:
    assert [mutant.name for mutant in MUTANTS if not mutant.wrong.endswith(".")] == []
    assert len({mutant.wrong for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("name", NAMED)
def test_the_wrong_drivers_that_every_suite_must_find_are_among_them(name: str) -> None:
    assert name in {mutant.name for mutant in MUTANTS if mutant.kind == "driver"}

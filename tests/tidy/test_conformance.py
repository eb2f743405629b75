"""Every rule of the five documents has a function that exists, a test and a scenario, or a reason."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter

from rows import each_row
from spec_rules import PAGE, Rule, Site, held, named, page, specifications

from harness.report.rules.rulebook import Note, notes, shown

KEYWORDS = {"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "REQUIRED", "RECOMMENDED", "binding"}
REQUIRED = {"MUST", "MUST NOT", "REQUIRED"}
RULES = list(chain.from_iterable(specification.rules for specification in specifications()))


def test_rules_are_numbered_in_the_order_of_their_text() -> None:
    for specification in specifications():
        numbers = [rule.id for rule in specification.rules]
        assert numbers == [f"{specification.prefix}-{number}" for number in range(1, len(numbers) + 1)]


def test_rules_have_the_keywords_of_the_specifications() -> None:
    assert {keyword for rule in RULES for keyword in rule.keywords} <= KEYWORDS


@each_row(RULES, name=attrgetter("id"))
def test_every_rule_has_code_and_a_test_or_a_reason(rule: Rule) -> None:
    if rule.open:
        assert not (rule.obeyed_by and held().get(rule.id)), "it is open no longer"
    elif rule.reason is None:
        assert rule.obeyed_by, f"rules.yml names no function that obeys it: {rule.text}"
        assert held().get(rule.id), f"no test holds it: {rule.text}"
    else:
        assert rule.id not in named().keys() | held().keys(), "it has a reason not to apply, and more"


@each_row([rule for rule in RULES if rule.reason is None], name=attrgetter("id"))
def test_every_must_that_can_be_seen_from_outside_is_shown_by_a_scenario(rule: Rule) -> None:
    if rule.unseen is not None:
        assert rule.id not in shown(), "it is said to be invisible, and a scenario shows it"
    elif not REQUIRED.isdisjoint(rule.keywords):
        assert shown().get(rule.id), f"no case of spec_tests shows it: {rule.text}"


@each_row(notes(), name=lambda note: f"{note.path}::{note.description}")
def test_every_case_names_its_rules_and_the_wrong_driver_that_it_fails(note: Note) -> None:
    known = {rule.id for rule in RULES if rule.reason is None}
    assert note.rules or note.names_section, "add a line `# Rules: CMAP-1` under the description"
    assert set(note.rules) <= known
    assert note.names_wrong_driver, "add a line `# Wrong driver: waits for …`"


@each_row(sorted(set(chain.from_iterable(named().values()))), name="#".join)
def test_what_obeys_a_rule_exists(site: Site) -> None:
    assert site.exists, f"{site.path} defines no {site.name}"


def test_no_rule_that_is_unknown_is_named_or_marked() -> None:
    assert not (named().keys() | held().keys()) - {rule.id for rule in RULES}


def test_the_page_is_made_of_the_rules_and_marks() -> None:
    assert PAGE.read_text() == page(), "python tests/support/spec_rules.py writes it anew"

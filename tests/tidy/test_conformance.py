"""Every rule of the three specifications has code and a test, or a reason, and the page says which."""

from __future__ import annotations

from itertools import chain

import pytest
from spec_rules import PAGE, Rule, held, obeyed, page, specifications

KEYWORDS = {"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "REQUIRED", "RECOMMENDED", "binding"}
RULES = list(chain.from_iterable(specification.rules for specification in specifications()))


def cases() -> list[object]:
    """Give each rule a test; what is open fails until the day on which it does not."""
    return [
        pytest.param(
            rule, id=rule.id, marks=[pytest.mark.xfail(strict=True, reason=rule.open)] if rule.open else []
        )
        for rule in RULES
    ]


def test_rules_are_numbered_in_the_order_of_their_text() -> None:
    for specification in specifications():
        numbers = [rule.id for rule in specification.rules]
        assert numbers == [f"{specification.prefix}-{number}" for number in range(1, len(numbers) + 1)]


def test_rules_have_the_keywords_of_the_specifications() -> None:
    assert {keyword for rule in RULES for keyword in rule.keywords} <= KEYWORDS


@pytest.mark.parametrize("rule", cases())
def test_every_rule_has_code_and_a_test_or_a_reason(rule: Rule) -> None:
    if rule.reason is None:
        assert obeyed().get(rule.id), f"no function obeys {rule.id}: {rule.text}"
        assert held().get(rule.id), f"no test holds {rule.id}: {rule.text}"
    else:
        assert rule.id not in obeyed().keys() | held().keys(), "it has a reason not to apply, and marks"


def test_no_mark_names_a_rule_that_is_unknown() -> None:
    assert not (obeyed().keys() | held().keys()) - {rule.id for rule in RULES}


def test_the_page_is_made_of_the_rules_and_marks_as_they_are() -> None:
    assert PAGE.read_text() == page(), "python tests/support/spec_rules.py writes it anew"

"""Every public test of admission control and of rollback has tests here that hold its rules, or a reason."""

from __future__ import annotations

from operator import attrgetter

from rows import each_row
from server_tests import PublicTest, places, public_tests


@each_row(public_tests(), name=attrgetter("path"))
def test_a_file_has_rules_or_a_reason(file: PublicTest) -> None:
    assert file.rules or file.out or file.open
    assert file.path.endswith(".js")
    for text in (*(rule.asks for rule in file.rules), file.out, file.open):
        assert not text or text.endswith(".")


@each_row(public_tests(), name=attrgetter("path"))
def test_what_holds_a_rule_exists(file: PublicTest) -> None:
    assert [test for rule in file.rules for test in rule.held if test not in places()] == []
    assert all(rule.held for rule in file.rules)

"""Expectations: what was to come, what came, and what came closest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ruled import FIND, HELLO, book_of
from talking import Deployment, play

from fakeserver.rules.builders import UnmetExpectation

INSERT = {"insert": "carts", "documents": [{}], "$db": "shop"}


@pytest.mark.parametrize(
    ("expect", "came", "unmet"),
    [
        (2, 2, ""),
        (2, 1, "rule1 (command: find): expected 2 times, 1 came"),
        (2, 3, "rule1 (command: find): expected 2 times, 3 came"),
        (0, 0, ""),
        (0, 1, "rule1 (command: find): expected 0 times, 1 came"),
        ({"count": 1}, 0, "rule1 (command: find): expected once, none came"),
        ({"min": 1}, 5, ""),
        ({"min": 2}, 1, "rule1 (command: find): expected at least 2 times, 1 came"),
        ({"max": 2}, 3, "rule1 (command: find): expected at most 2 times, 3 came"),
    ],
)
def test_an_expectation_counts_matches(expect: Any, came: int, unmet: str) -> None:
    book = book_of({"when": {"command": "find"}, "expect": expect})
    for _ in range(came):
        book.decide(FIND, 0.0)
    assert book.unmet() == unmet


def test_the_closest_requests_are_told_with_the_fields_that_differed() -> None:
    book = book_of({"when": {"command": "find", "namespace": "shop.carts", "appName": "till"}, "expect": 1})
    book.decide(replace(FIND, command="insert", app_name="office"), 0.0)
    book.decide(FIND, 0.0)
    book.decide(FIND, 0.0)
    book.decide(HELLO, 0.0)
    assert book.unmet() == (
        "rule1 (command: find, namespace: shop.carts, appName: till): expected once, none came\n"
        "  near miss: find on shop.orders: namespace is shop.orders, expected shop.carts (2 times)\n"
        "  near miss: insert on shop.orders: command is insert, expected find;"
        " namespace is shop.orders, expected shop.carts; appName is 'office', expected 'till'"
    )


def test_near_misses_are_bounded() -> None:
    book = book_of({"when": {"namespace": "shop.carts", "appName": "x"}, "expect": 1})
    for number in range(500):
        book.decide(replace(FIND, namespaces=(f"shop.{'o' * 1000}{number}",)), 0.0)
        book.decide(replace(FIND, namespaces=(f"shop.o{number}",)), 0.0)
    book.decide(replace(FIND, app_name="x"), 0.0)
    lines = book.unmet().splitlines()
    assert lines[1] == "  near miss: find on shop.orders: namespace is shop.orders, expected shop.carts"
    assert len(lines) == 4
    assert max(map(len, lines)) < 400


def test_an_expectation_sees_requests_that_another_rule_answers() -> None:
    book = book_of({"then": {"error": 462}}, {"when": {"command": "find"}, "expect": 2})
    assert [len(book.decide(FIND, 0.0).hits) for _ in range(2)] == [2, 2]
    assert book.unmet() == ""


def test_a_block_fails_at_its_end_when_its_expectation_is_not_met() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, control = await deployment.connect(), deployment.cluster.control
        with control.expect("insert", namespace="shop.*", count=1):
            await talker.ok(INSERT)
        near = "insert on shop.carts: namespace is shop.carts, expected shop.orders"
        with pytest.raises(UnmetExpectation, match=near), control.expect(namespace="shop.orders"):
            await talker.ok(INSERT)
        assert control.list_rules() == {"rules": []}

    play(scenario)


def test_what_goes_wrong_in_a_block_is_not_hidden_by_its_expectation() -> None:
    async def scenario(deployment: Deployment) -> None:
        with pytest.raises(ZeroDivisionError), deployment.cluster.control.expect("insert"):
            raise ZeroDivisionError

    play(scenario)


def test_all_expectations_are_asked_at_once() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, control = await deployment.connect(), deployment.cluster.control
        inserts = control.expect("insert", at_most=1, name="inserts")
        control.expect("delete", at_least=1, name="deletes")
        await talker.ok(INSERT)
        inserts.check()
        assert control.unmet().startswith("deletes (command: delete): expected at least once, none came\n")
        await talker.ok(INSERT)
        with pytest.raises(UnmetExpectation, match="expected at most once, 2 came"):
            inserts.check()

    play(scenario)

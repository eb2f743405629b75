"""The conditions of rules, one by one, and how a request differs from them."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from ruled import FIND, HELLO, KNOWN

from fakeserver.rules.parsing import conditions_of, occurrence_of
from fakeserver.rules.rule import CONNECTING, OperationAttempt
from mongowire.documents.occurrence import OccurrenceCount

if TYPE_CHECKING:
    from fakeserver.rules.rule import Asked

PING = replace(FIND, command="ping", namespaces=(), document={"ping": 1})
BULK = replace(FIND, command="bulkWrite", namespaces=("shop.orders", "bank.accounts"), db="admin")
RETRY = replace(FIND, operation=OperationAttempt(1, 2))

CASES: list[tuple[dict[str, Any], Asked, bool]] = [
    ({}, FIND, True),
    ({}, PING, True),
    ({}, HELLO, False),
    ({"command": "hello"}, HELLO, True),
    ({"command": "isMaster"}, HELLO, True),
    ({"command": "ismaster"}, replace(HELLO, command="hello"), False),
    ({"command": "find"}, FIND, True),
    ({"command": ["insert", "find"]}, FIND, True),
    ({"command": "insert, find"}, FIND, True),
    ({"command": "insert"}, FIND, False),
    ({"command": "findandmodify"}, replace(FIND, command="findAndModify"), True),
    ({"namespace": "shop.orders"}, FIND, True),
    ({"namespace": "shop.order"}, FIND, False),
    ({"namespace": "shop.*"}, FIND, True),
    ({"namespace": "shop.*"}, PING, True),
    ({"namespace": "sho.*"}, FIND, False),
    ({"namespace": "shop.orders"}, PING, False),
    ({"namespace": "bank.accounts"}, BULK, True),
    ({"namespace": "bank.*"}, BULK, True),
    ({"namespace": "admin.*"}, BULK, False),
    ({"appName": "till"}, FIND, True),
    ({"appName": "Till"}, FIND, False),
    ({"node": "node0"}, FIND, True),
    ({"node": "localhost:27017"}, FIND, True),
    ({"node": "primary"}, FIND, True),
    ({"node": "secondary"}, FIND, False),
    ({"connection": 3}, FIND, True),
    ({"connection": 4}, FIND, False),
    ({"attempt": 1}, FIND, True),
    ({"attempt": 2}, FIND, False),
    ({"attempt": 2}, RETRY, True),
    ({"document": {"limit": 2}}, FIND, True),
    ({"document": {"filter.total": {"$exists": True}}}, FIND, True),
    ({"document": {"limit": {"$gt": 2}}}, FIND, False),
    ({"command": "find", "namespace": "shop.orders", "appName": "other"}, FIND, False),
]


@pytest.mark.parametrize(("document", "asked", "met"), CASES)
def test_a_condition_is_met_or_not(document: dict[str, Any], asked: Asked, met: bool) -> None:  # noqa: FBT001
    conditions = conditions_of(document, KNOWN)
    assert conditions.met_by(asked) is met
    covered = "command" in document or asked.command not in CONNECTING
    assert (conditions.differences(asked) == []) is (met or not covered)


def test_differences_name_each_field_with_what_was_expected() -> None:
    document = {
        "command": ["update", "insert"],
        "namespace": "shop.carts",
        "appName": "office",
        "node": "secondary",
        "connection": 4,
        "attempt": 2,
        "document": {"limit": 3},
    }
    assert conditions_of(document, KNOWN).differences(FIND) == [
        "command is find, expected insert or update",
        "namespace is shop.orders, expected shop.carts",
        "appName is 'till', expected 'office'",
        "node is node0 (primary), expected secondary",
        "connection is 3, expected 4",
        "attempt is 1, expected 2",
        "the command does not meet the filter {'limit': 3}",
    ]


def no_draw() -> float:
    raise AssertionError("nothing is to be drawn")


def test_nth_and_every_choose_among_the_matches() -> None:
    second, third = (
        OccurrenceCount(occurrence_of({"when": {name: number}}), inf)
        for name, number in (("nth", 2), ("every", 3))
    )
    assert [second.chooses(no_draw) for _ in range(1, 5)] == [False, True, False, False]
    assert [third.chooses(no_draw) for _ in range(1, 7)] == [
        False,
        False,
        True,
        False,
        False,
        True,
    ]


def test_a_probability_draws_for_each_match() -> None:
    draws = iter([0.01, 0.02, 0.5])
    count = OccurrenceCount(occurrence_of({"when": {"probability": "2%"}}), inf)
    assert [count.chooses(lambda: next(draws)) for _ in range(3)] == [True, False, False]

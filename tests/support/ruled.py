"""Requests as rules see them, and books of rules, without a deployment."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fakeserver.commands.default_table import default_table
from fakeserver.rules.book import RuleBook
from fakeserver.rules.parsing import Known, parse_rule
from fakeserver.rules.rule import Asked, Fail, OperationAttempt
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from fakeserver.rules.book import Ruling

_COMMANDS = default_table().commands
KNOWN = Known({name: spec.name for name, spec in _COMMANDS.items()}, ["node0", "localhost:27017"])

FIND = Asked(
    command="find",
    db="shop",
    namespaces=("shop.orders",),
    app_name="till",
    node="node0",
    address="localhost:27017",
    role="primary",
    connection=3,
    document={"find": "orders", "filter": {"total": {"$gt": 5}}, "limit": 2},
    operation=OperationAttempt(1, 1),
)
HELLO = replace(FIND, command="isMaster", namespaces=(), db="admin", document={"isMaster": 1})


def book_of(*rules: dict[str, Any]) -> RuleBook:
    """Return a book with these rules, added at the instant 0."""
    book = RuleBook(SeededRng(1), 0.0)
    for rule in rules:
        book.add(parse_rule(rule, KNOWN), 0.0)
    return book


def code_of(ruling: Ruling) -> int | None:
    """Return the code of the error that a request gets, None for none."""
    return int(ruling.answer.error.code) if isinstance(ruling.answer, Fail) else None

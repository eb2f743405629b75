"""A file of invariants: its forms, and its mistakes by line and field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hunted import outcome

from harness.hunt import invariants
from mongowire.documents.errors import DocumentError

if TYPE_CHECKING:
    from pathlib import Path

CONTENTS = {
    "shop.stock": [{"_id": "tea", "left": 97}],
    "shop.orders": [
        {"_id": 1, "customer": "ann", "quantity": 3},
        {"_id": 2, "customer": "ann", "quantity": 1},
    ],
}


def broken(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "shop.yml"
    file.write_text(f"invariants:\n  - {text}\n")
    return [words for _, words in invariants.read(file).broken(outcome(contents=CONTENTS))]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{sum: {shop.stock: left, shop.orders: quantity}, equals: 101}", []),
        ("{sum: {shop.stock: left}, equals: 100}", ["the sum is 97, expected 100"]),
        ("{collection: shop.orders, unique: [customer]}", ["shop.orders has {customer: 'ann'} 2 times"]),
        ("{collection: shop.orders, unique: [customer, quantity]}", []),
        ("{collection: shop.orders, find: {quantity: {$gt: 5}}}", []),
        (
            "{collection: shop.orders, find: {customer: ann}, count: 1}",
            ["2 documents of shop.orders match, expected 1"],
        ),
        ("{collection: shop.orders, pipeline: [{$count: n}], equals: [{n: 2}]}", []),
    ],
)
def test_what_does_not_hold_is_said(tmp_path: Path, text: str, words: list[str]) -> None:
    assert broken(tmp_path, text) == words


def test_a_python_function_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text(
        "def books(documents):\n    assert len(documents['shop.orders']) == 1, 'two'\n"
    )
    assert broken(tmp_path, "{python: checks.py:books}") == ["two"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{sum: {shop.stock: left}}", r"shop.yml:2:5: invariants\[0\]: equals is missing"),
        ("{equals: 3}", "the invariant says nothing"),
        ("{collection: a.b, uniqe: [c]}", "the invariant says nothing"),
        ("{collection: a.b, unique: [c], equal: 1}", "unknown field 'equal'"),
        ("{python: none.py:books}", "no such Python file"),
        ("{collection: a.b, find: {a: {$gtt: 1}}}", r"\$gtt"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message):
        broken(tmp_path, text)

"""The names of requests: values left out, stable under another order and other ids, attempts counted once."""

from __future__ import annotations

from typing import Any

import pytest

from harness.hunt.places import Namer, Numbers, Place, Request
from harness.hunt.shapes import shape_of

LSID = {"id": b"0123456789abcdef"}


def places(*commands: dict[str, Any], connection: int = 1) -> list[str]:
    namer = Namer()
    found = [namer.asked(connection, number, each, 0.0, "primary") for number, each in enumerate(commands)]
    return [str(each.place) for each in found if each is not None]


def insert(**fields: Any) -> dict[str, Any]:
    return {"insert": "orders", "documents": [fields], "$db": "shop"}


@pytest.mark.parametrize(
    ("command", "shape"),
    [
        ({"find": "c", "filter": {"a": 1, "b": {"$gt": 2}}}, "{a, b: {$gt}}"),
        ({"find": "c", "filter": {}, "sort": {"at": -1}}, "{} sort {at}"),
        ({"insert": "c", "documents": [{"_id": 1, "a": {"deep": 2}}]}, "{_id, a}"),
        ({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]}, "{_id} → {$inc: {n}}"),
        (
            {"update": "c", "updates": [{"q": {}, "u": {"$set": {"stock.42.left": 1}}}]},
            "{} → {$set: {stock.*.left}}",
        ),
        ({"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]}, "{_id}"),
        ({"aggregate": "c", "pipeline": [{"$match": {"a": 1}}]}, "[{$match: {a}}]"),
        ({"findAndModify": "c", "query": {"state": "new"}, "remove": True}, "{state} → remove"),
        ({"create": "c"}, ""),
    ],
)
def test_a_shape_has_keys_and_operators_and_no_value(command: dict[str, Any], shape: str) -> None:
    assert shape_of(command) == shape


def test_requests_of_one_shape_are_numbered_whatever_their_values() -> None:
    assert places(insert(customer="ann"), insert(customer="bob"), insert(item=1)) == [
        "shop.orders insert {customer} #1",
        "shop.orders insert {customer} #2",
        "shop.orders insert {item} #1",
    ]


def test_threads_that_swap_their_turns_keep_the_numbers_of_a_clean_run() -> None:
    def run(*customers: str, numbers: Numbers | None = None) -> list[Request]:
        namer = Namer(numbers or Numbers())
        asked = [
            namer.asked(1, number, {**insert(customer=name), "txnNumber": number}, 0.0, "primary")
            for number, name in enumerate(customers)
        ]
        return [each for each in asked if each is not None]

    def numbered(*customers: str) -> list[int]:
        return [each.place.number for each in run(*customers, numbers=numbers)]

    numbers = Numbers.of([run("ann", "bob", "new"), run("bob", "ann", "old")])
    assert numbered("bob", "ann", "other") == [2, 1, 3]
    # What is done again is none of the places of a clean run, and moves none of them.
    assert numbered("ann", "ann", "bob") == [1, 3, 2]
    assert numbered("ann", "ann", "ann", "bob") == [1, 3, 4, 2]


@pytest.mark.parametrize(
    ("comment", "place"),
    [
        ("POST /orders", "shop.orders insert {item} of POST /orders #1"),
        ("PUT /orders/42/items?now=1", "shop.orders insert {item} of PUT /orders/*/items #1"),
        ("GET /orders/:id:", "shop.orders insert {item} of GET /orders/:id #1"),
        ("request 7", "shop.orders insert {item} #1"),
        ({"trace": "POST /orders"}, "shop.orders insert {item} #1"),
    ],
)
def test_a_comment_that_is_a_route_names_the_handler_that_asks(comment: object, place: str) -> None:
    assert places({**insert(item=1), "comment": comment}) == [place]
    assert Place.parse(place) == Place("", place.removesuffix(" #1"), 1)


def test_another_attempt_of_an_operation_is_the_same_place() -> None:
    written = {**insert(customer="ann"), "lsid": LSID, "txnNumber": 1}
    assert places(written, written, {**written, "txnNumber": 2}) == [
        "shop.orders insert {customer} #1",
        "shop.orders insert {customer} #1",
        "shop.orders insert {customer} #2",
    ]


def test_a_read_after_a_success_is_another_one() -> None:
    namer = Namer()
    read = {"find": "orders", "filter": {}, "$db": "shop", "lsid": LSID}
    namer.asked(1, 1, read, 0.0, "primary")
    again = namer.asked(1, 2, read, 0.0, "primary")
    namer.answered(1, 2, {"ok": 1}, 0.0)
    later = namer.asked(1, 3, read, 0.0, "primary")
    assert again is not None
    assert later is not None
    assert (again.place.number, later.place.number) == (1, 2)


def test_statements_have_their_position_in_the_transaction_and_its_end_the_first_of_them() -> None:
    inside = {"lsid": LSID, "txnNumber": 5, "autocommit": False}
    assert places(
        {**insert(a=1), **inside},
        {**insert(a=2), **inside},
        {"commitTransaction": 1, "$db": "admin", **inside},
    ) == [
        "shop.orders insert {a} [1 of a transaction] #1",
        "shop.orders insert {a} [2 of a transaction] #1",
        "commitTransaction of shop.orders insert {a} #1",
    ]


def test_the_application_is_that_of_the_connection_and_a_batch_that_of_its_cursor() -> None:
    namer = Namer()
    namer.asked(7, 1, {"hello": 1, "client": {"application": {"name": "till"}}}, 0.0, "primary")
    namer.asked(7, 2, {"find": "orders", "filter": {"a": 1}, "$db": "shop"}, 0.0, "primary")
    namer.answered(7, 2, {"ok": 1, "cursor": {"id": 99, "firstBatch": []}}, 0.0)
    more = namer.asked(7, 3, {"getMore": 99, "collection": "orders", "$db": "shop"}, 0.0, "primary")
    assert more is not None
    assert str(more.place) == "till: getMore of shop.orders find {a} #1"


@pytest.mark.parametrize(
    "written",
    [
        "till: shop.orders insert {_id, a} #3",
        "shop.orders find {a: {$gt}} sort {b} #1",
        "a: x [1 of a transaction] #12",
    ],
)
def test_a_place_is_read_back(written: str) -> None:
    assert str(Place.parse(written)) == written


def test_what_is_no_place_is_refused() -> None:
    with pytest.raises(ValueError, match="'orders' is no place; write it as a hunt prints it"):
        Place.parse("orders")

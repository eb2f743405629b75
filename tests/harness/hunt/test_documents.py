"""Documents of two runs are the same up to ids, times and what varied among clean runs; references count."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from bson import ObjectId

from harness.hunt.documents import (
    arrays,
    canonical,
    differences,
    is_counter,
    is_log,
    said_by,
    single_fields,
    varying,
)

Documents = dict[str, list[dict[str, Any]]]


def told(one: Documents, other: Documents) -> list[str]:
    return [str(each) for each in differences(canonical(one), canonical(other))]


def order(customer: ObjectId, **fields: Any) -> dict[str, Any]:
    return {"_id": ObjectId(), "customer": customer, **fields}


def test_ids_and_times_and_the_order_of_documents_do_not_matter() -> None:
    def run(*names: str) -> Documents:
        return {
            "shop.orders": [
                {"_id": ObjectId(), "name": each, "at": dt.datetime.now(dt.UTC)} for each in names
            ]
        }

    assert told(run("ann", "bob"), run("bob", "ann")) == []


def test_an_order_belongs_to_its_customer() -> None:
    def run(*, swapped: bool) -> Documents:
        ann, bob = ObjectId(), ObjectId()
        customers = [{"_id": ann, "name": "ann"}, {"_id": bob, "name": "bob"}]
        buyer = bob if swapped else ann
        return {"shop.customers": customers, "shop.orders": [order(buyer, item="tea")]}

    assert told(run(swapped=False), run(swapped=False)) == []
    assert told(run(swapped=False), run(swapped=True)) != []


def test_what_is_missing_and_what_is_too_much_is_said() -> None:
    assert told({"a.b": [{"_id": 1}]}, {"a.b": [{"_id": 1}, {"_id": 2}]}) == [
        "a.b has 1 document too many: {_id: 2}"
    ]
    assert told({"a.b": [{"_id": 1, "n": 1}]}, {"a.b": [{"_id": 1, "n": 2}]}) == [
        "a.b has 1 document missing: {_id: 1, n: 1}, and 1 document too many: {_id: 1, n: 2}"
    ]


@pytest.mark.parametrize("field", ["attempts", "retries", "created_at", "updatedAt", "last_error"])
def test_counters_of_attempts_and_moments_do_not_matter(field: str) -> None:
    job = {"_id": 1, "state": "done"}
    assert told({"a.b": [{**job, field: 1}]}, {"a.b": [{**job, field: 2}]}) == []


@pytest.mark.parametrize(("field", "counts"), [("attempts", True), ("version", False), ("seq", False)])
def test_a_document_that_has_nothing_but_its_counter_is_about_it(field: str, *, counts: bool) -> None:
    one, two = ({"auth.logins": [{"_id": "ann", field: number}]} for number in (5, 6))
    assert bool(told(one, two)) is counts


def test_an_array_whose_order_varies_is_compared_without_it() -> None:
    def run(*names: str) -> Documents:
        return {"a.b": [{"_id": 1, "buyers": list(names)}]}

    clean = run("ann", "bob")
    fields, loose = varying([clean, run("bob", "ann"), run("ann", "bob")])
    assert not loose

    def differ(later: Documents) -> bool:
        return bool(differences(canonical(clean, fields), canonical(later, fields)))

    assert not differ(run("bob", "ann"))
    assert differ(run("bob", "ann", "bob"))


def test_arrays_of_a_collection_are_found_with_their_paths() -> None:
    found = arrays([{"_id": 1, "a": [1], "b": {"c": []}, "d": 2}], "x.y")
    assert [path.field for path in found] == ["a[]", "b.c[]"]


def test_a_collection_whose_values_are_combined_in_other_ways_is_compared_field_by_field() -> None:
    def run(*names: str) -> Documents:
        return {"a.b": [{"_id": ObjectId(), "buyer": name, "seat": seat} for seat, name in enumerate(names)]}

    runs = [run("ann", "bob"), run("bob", "ann")]
    fields, loose = varying(runs)
    assert loose == {"a.b"}
    apart = {"a.b": single_fields(runs, "a.b") or frozenset()}
    assert apart == {"a.b": {"", "seat", "buyer"}}
    clean = canonical(runs[0], fields, apart)
    assert differences(clean, canonical(run("bob", "ann"), fields, apart)) == []
    (twice,) = differences(clean, canonical(run("bob", "ann", "bob"), fields, apart))
    assert str(twice) == "a.b has 1 document too many: … buyer: 'bob', … seat: 2"
    assert single_fields([run("ann"), run("ann", "bob")], "a.b") is None


@pytest.mark.parametrize(
    ("document", "tells"),
    [
        ({"state": "cancelled"}, True),
        ({"status": "PAYMENT_FAILED"}, True),
        ({"state": "booked"}, False),
        ({"text": "it has failed, and nobody knows why"}, False),
        ({"state": "new", "error": "no answer"}, True),
        ({"imported": 9, "failed": 1}, True),
        ({"imported": 10, "failed": 0}, False),
    ],
)
def test_a_document_may_say_what_failed(document: dict[str, Any], *, tells: bool) -> None:
    later = canonical({"a.b": [{"_id": 1, **document}]})
    (found,) = differences(canonical({"a.b": [{"_id": 1}]}), later)
    assert found.tells is tells
    (as_always,) = differences(later, canonical({"a.b": [{"_id": 2, **document}]}))
    assert not as_always.tells


@pytest.mark.parametrize(
    ("namespace", "more", "fewer"),
    [("shop.audit_log", True, False), ("shop.priceCache", False, True), ("shop.orders", False, False)],
)
def test_a_log_may_have_more_and_a_cache_may_have_less(namespace: str, *, more: bool, fewer: bool) -> None:
    def differ(clean: int, later: int) -> bool:
        one, two = ({namespace: [{"_id": each} for each in range(count)]} for count in (clean, later))
        (found,) = differences(canonical(one), canonical(two))
        return found.is_allowed

    assert (differ(1, 2), differ(2, 1)) == (more, fewer)


@pytest.mark.parametrize(
    ("namespace", "logs"),
    [("a.audit_log", True), ("a.dead_letters", True), ("logs.orders", False), ("a.dialogs_of", False)],
)
def test_a_log_is_told_by_its_name(namespace: str, *, logs: bool) -> None:
    assert is_log(namespace) is logs


def test_what_a_request_says_is_the_same_with_other_ids_and_in_another_session() -> None:
    def insert(name: str, session: bytes) -> dict[str, Any]:
        return {
            "insert": "c",
            "documents": [{"_id": ObjectId(), "name": name}],
            "lsid": {"id": session},
            "txnNumber": 1,
            "$db": "d",
        }

    assert said_by(insert("ann", b"1")) == said_by(insert("ann", b"2")) != said_by(insert("bob", b"1"))
    assert said_by({"getMore": 77, "collection": "c"}) == ""


def test_a_field_that_varies_among_clean_runs_is_not_compared() -> None:
    runs: list[Documents] = [{"a.b": [{"_id": 1, "seen": each, "n": 5}]} for each in (1, 2, 3)]
    fields, loose = varying(runs)
    assert {path.field for path in fields} == {"seen"}
    assert not loose
    later: Documents = {"a.b": [{"_id": 1, "seen": 9, "n": 6}]}
    assert len(differences(canonical(runs[0], fields), canonical(later, fields))) == 1


def test_a_collection_whose_number_of_documents_varies_is_loose() -> None:
    runs: list[Documents] = [{"a.log": [{"_id": number} for number in range(count)]} for count in (2, 3)]
    assert varying(runs)[1] == {"a.log"}


def test_a_whole_number_is_one_number_whatever_its_type() -> None:
    assert told({"a.b": [{"_id": 1, "n": 2}]}, {"a.b": [{"_id": 1.0, "n": 2.0}]}) == []


@pytest.mark.parametrize(("name", "counts"), [("__v", True), ("version", True), ("v", False), ("sum", False)])
def test_a_counter_of_changes_is_told_by_its_name(name: str, *, counts: bool) -> None:
    assert is_counter(name) is counts

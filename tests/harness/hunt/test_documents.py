"""Documents of two runs are the same up to ids, times and what varied among clean runs; references count."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from bson import ObjectId

from harness.hunt.documents import canonical, differences, is_counter, varying

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
    assert told({"a.b": [{"_id": 1, field: 1}]}, {"a.b": [{"_id": 1, field: 2}]}) == []


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

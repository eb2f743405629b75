"""What an update event says has changed, by the way in which it was changed."""

from __future__ import annotations

from typing import Any

import pytest

from fakeserver.change_streams.events import delta_of
from fakeserver.storage.port.engine import Changed, Namespace, Query, Update
from fakeserver.storage.store.memory_engine import MemoryEngine

NS = Namespace("db", "c")
LONG = "long enough that a difference is worth telling " * 3


def changed(before: dict[str, Any], update: Any, **options: Any) -> Changed:
    engine = MemoryEngine()
    engine.insert(NS, {"_id": 1, **before})
    changes: list[Changed] = []
    engine.update(NS, Update(Query({"_id": 1}), update, **options), accept=changes.append)
    (change,) = changes
    return change


@pytest.mark.parametrize(
    ("before", "update", "updated", "removed", "truncated"),
    [
        ({"a": 1}, {"$set": {"a": 2}}, {"a": 2}, [], []),
        ({"a": 1}, {"$set": {"a": 1, "b": 1}}, {"b": 1}, [], []),
        ({}, {"$set": {"a.b": 1, "a.c": 2}}, {"a": {"b": 1, "c": 2}}, [], []),
        ({"a": {"b": 1}}, {"$set": {"a.b": 2}}, {"a.b": 2}, [], []),
        ({"a": {"b": 1}}, {"$set": {"a": {"b": 2}}}, {"a": {"b": 2}}, [], []),
        ({"a": {"b": 1}}, {"$unset": {"a.b": 1, "c": 1}}, {}, ["a.b"], []),
        ({"a": 1}, {"$rename": {"a": "b"}}, {"b": 1}, ["a"], []),
        ({"a": [1]}, {"$push": {"a": {"$each": [2, 3]}}}, {"a.1": 2, "a.2": 3}, [], []),
        ({}, {"$push": {"a": 1}}, {"a": [1]}, [], []),
        ({"a": [1, 2]}, {"$set": {"a": [1, 2, 3]}}, {"a": [1, 2, 3]}, [], []),
        ({"a": [1, 2]}, {"$pop": {"a": 1}}, {"a": [1]}, [], []),
        ({"a": [1, 2]}, {"$set": {"a.0": 3}}, {"a.0": 3}, [], []),
        ({"a": [1, {"b": 1}]}, {"$inc": {"a.1.b": 1}}, {"a.1.b": 2}, [], []),
        ({"l": LONG, "a": [1, 2, 3]}, [{"$set": {"a": [1]}}], {}, [], [{"field": "a", "newSize": 1}]),
        ({"l": LONG, "a": {"b": 1, "l": LONG}}, [{"$set": {"a.b": 2}}], {"a.b": 2}, [], []),
        ({"l": LONG, "a": 1, "b": 1}, [{"$unset": "a"}, {"$set": {"c": 1}}], {"c": 1}, ["a"], []),
        ({"l": LONG, "a": [1, 2]}, [{"$set": {"a": {"$literal": {"b": 1}}}}], {"a": {"b": 1}}, [], []),
    ],
)
def test_an_update_tells_what_it_changed(
    before: dict[str, Any], update: Any, updated: Any, removed: Any, truncated: Any
) -> None:
    delta = delta_of(changed(before, update))
    assert delta is not None
    assert delta.describe(expanded=False) == {
        "updatedFields": updated,
        "removedFields": removed,
        "truncatedArrays": truncated,
    }


@pytest.mark.parametrize("update", [{"a": 2}, [{"$replaceWith": {"_id": 1, "x": LONG}}]])
def test_a_new_document_is_told_whole(update: Any) -> None:
    assert delta_of(changed({"a": 1}, update)) is None


@pytest.mark.parametrize(
    ("before", "update", "paths"),
    [
        ({"a": {"1": 1}}, {"$set": {"a.1": 2}}, {"a.1": ["a", "1"]}),
        ({"a": [{"1": 1}]}, {"$set": {"a.0.1": 2}}, {"a.0.1": ["a", 0, "1"]}),
        ({"a": [0, 1]}, {"$set": {"a.1": 2}}, {}),
        ({"a": {"1": 1}}, {"$unset": {"a.1": 1}}, {"a.1": ["a", "1"]}),
    ],
)
def test_expanded_events_say_what_a_path_means(before: Any, update: Any, paths: Any) -> None:
    delta = delta_of(changed(before, update))
    assert delta is not None
    assert delta.describe(expanded=True)["disambiguatedPaths"] == paths


def test_a_dot_in_a_name_is_told_from_a_path() -> None:
    before = {"_id": 1, "a": {"b.c": 1, "l": LONG}}
    delta = delta_of(Changed(before, {"_id": 1, "a": {"b.c": 2, "l": LONG}}))
    assert delta is not None
    assert delta.describe(expanded=True)["disambiguatedPaths"] == {"a.b.c": ["a", "b.c"]}

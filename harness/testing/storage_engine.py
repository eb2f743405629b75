"""The contract of every `StorageEngine`, in statements that each begin with a new engine.

An engine holds documents; sessions, replication, change streams and cursors are built on what it promises
here. Three promises carry the most. Documents are values: what was read or handed out never changes, or a
cursor that is open, a snapshot and the oplog would show other data than there were. `accept` hears of each
change before it is made and may refuse it, which is how validation and the oplog are one with the write. And
`fork`, `put` and `claims` are enough for transactions: work on a fork, look whether others claimed the same
keys, put the changes in or undo them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.errors import CommandError
from fakeserver.storage.port.engine import (
    Capped,
    Changed,
    IndexSpec,
    Namespace,
    Query,
    Stats,
    Update,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.storage.port.engine import Document, StorageEngine

    Make = Callable[[], StorageEngine]

NS = Namespace("db", "things")


def _filled(make: Make, *documents: Document) -> StorageEngine:
    engine = make()
    for document in documents:
        engine.insert(NS, document)
    return engine


def _numbers(make: Make) -> StorageEngine:
    return _filled(make, *({"_id": number, "x": number % 3} for number in range(1, 7)))


def _ids(documents: list[Document]) -> list[Any]:
    return [document["_id"] for document in documents]


def _code_of(action: Callable[[], object]) -> int | None:
    """Return the code of the error that an action raises, None if it raises none."""
    try:
        action()
    except CommandError as error:
        return int(error.code)
    return None


def _what_goes_in_is_copied(make: Make) -> None:
    document: dict[str, Any] = {"_id": 1, "list": [{"a": 1}]}
    engine = _filled(make, document)
    document["list"][0]["a"] = 2
    assert engine.find(NS, Query()) == [{"_id": 1, "list": [{"a": 1}]}]


def _what_was_read_stays_as_it_was(make: Make) -> None:
    engine = _filled(make, {"_id": 1, "list": [{"a": 1}]})
    read = [
        *engine.find(NS, Query()),
        *engine.find(NS, Query({"_id": 1}, projection={"list": 1})),
        *engine.aggregate(NS, [], options=Query()),
    ]
    engine.update(NS, Update(Query(), {"$push": {"list": 2}}))
    engine.update(NS, Update(Query(), {"$set": {"list.0.a": 3}}))
    engine.delete(NS, Query())
    assert read == [{"_id": 1, "list": [{"a": 1}]}] * 3


# Numbers are equal across their types, and a boolean is no number, though Python takes `True` for 1.
def _a_second_document_with_an_id_is_refused(make: Make) -> None:
    engine = _filled(make, {"_id": 1, "x": 1})
    assert _code_of(lambda: engine.insert(NS, {"_id": 1.0})) == 11000
    assert _code_of(lambda: engine.insert(NS, {"_id": True})) is None
    assert engine.find(NS, Query({"_id": 1})) == [{"_id": 1, "x": 1}]


# A server makes collections at the first insert, so that reading one that nobody wrote is no error.
def _a_collection_that_is_not_there_is_empty(make: Make) -> None:
    engine = make()
    assert engine.find(NS, Query({"_id": 1})) == []
    assert engine.delete(NS, Query()) == []
    assert engine.update(NS, Update(Query(), {"$set": {"a": 1}})).matched == 0
    assert engine.aggregate(NS, [{"$match": {}}], options=Query()) == []
    assert engine.stats(NS) == Stats()
    assert not engine.drop(NS)


# The natural order, which an update does not change: tests without a sort rely on it, as do capped
# collections.
def _documents_come_in_the_order_of_insertion(make: Make) -> None:
    engine = _filled(make, {"_id": 3}, {"_id": 1}, {"_id": 2})
    engine.update(NS, Update(Query({"_id": 3}), {"$set": {"x": 1}}))
    assert _ids(engine.find(NS, Query())) == [3, 1, 2]


def _sort_skip_and_limit_apply_in_that_order(make: Make) -> None:
    engine = _numbers(make)
    query = Query({"_id": {"$gt": 1}}, sort={"x": -1, "_id": 1}, skip=1, limit=3)
    assert _ids(engine.find(NS, query)) == [5, 4, 3]


# A server reads a range by the index on `_id`, in its order; drivers' tests compare lists.
def _a_range_of_ids_comes_in_their_order(make: Make) -> None:
    engine = _filled(make, {"_id": 3}, {"_id": 1}, {"_id": 2})
    assert _ids(engine.find(NS, Query({"_id": {"$gte": 1}}))) == [1, 2, 3]


def _filters_select(make: Make) -> None:
    engine = _filled(make, {"_id": 1, "x": 1}, {"_id": 2, "x": None}, {"_id": 3}, {"_id": 4, "x": "1"})
    cases: list[tuple[Mapping[str, Any], list[int]]] = [
        ({"x": 1}, [1]),
        ({"x": 1.0}, [1]),
        ({"x": True}, []),
        # Null in a filter finds what is missing, too.
        ({"x": None}, [2, 3]),
        ({"x": {"$exists": False}}, [3]),
        ({"x": {"$ne": 1}}, [2, 3, 4]),
        ({"x": {"$in": [1, "1"]}}, [1, 4]),
        ({"x": {"$gt": 0}}, [1]),
        ({"$or": [{"x": 1}, {"_id": 3}]}, [1, 3]),
        ({"$and": [{"x": {"$exists": True}}, {"_id": {"$lt": 3}}]}, [1, 2]),
    ]
    for query, expected in cases:
        assert _ids(engine.find(NS, Query(query))) == expected, query


def _an_update_changes_the_first_match_or_all(make: Make) -> None:
    engine = _numbers(make)
    one = engine.update(NS, Update(Query({"x": 1}), {"$inc": {"x": 10}}))
    assert (one.matched, one.modified) == (1, 1)
    assert engine.find(NS, Query({"_id": 1})) == [{"_id": 1, "x": 11}]
    many = engine.update(NS, Update(Query({"x": {"$lt": 3}}), {"$set": {"y": 1}}, multi=True))
    assert (many.matched, many.modified) == (5, 5)


# `nModified` counts changes, and a change stream would tell of one that is none.
def _an_update_that_changes_nothing_is_matched_only(make: Make) -> None:
    engine = _numbers(make)
    seen: list[Changed] = []
    result = engine.update(NS, Update(Query({"_id": 1}), {"$set": {"x": 1}}), accept=seen.append)
    assert (result.matched, result.modified, seen) == (1, 0, [])
    result = engine.update(NS, Update(Query({"_id": 1}), {"$set": {"x": 1.0}}))
    assert (result.matched, result.modified) == (1, 1), "another number type is a change"


# Change streams with images, `findAndModify` and the oplog's differences are made of them.
def _an_update_shows_both_images(make: Make) -> None:
    engine = _filled(make, {"_id": 1, "x": 1})
    result = engine.update(NS, Update(Query({"_id": 1}), {"$set": {"x": 2}, "$unset": {"y": 1}}))
    assert result.images == (Changed({"_id": 1, "x": 1}, {"_id": 1, "x": 2}),)


def _a_replacement_keeps_the_id(make: Make) -> None:
    engine = _filled(make, {"_id": 1, "x": 1})
    engine.update(NS, Update(Query({"x": 1}), {"y": 2}))
    assert engine.find(NS, Query()) == [{"_id": 1, "y": 2}]


# Only equalities pin: `w > 1` says nothing about the value that a new document shall have.
def _an_upsert_begins_with_what_the_filter_pins(make: Make) -> None:
    engine = make()
    change = {"$set": {"y": 2}, "$setOnInsert": {"z": 3}}
    query = Query({"x": 1, "w": {"$gt": 1}})
    result = engine.update(NS, Update(query, change, upsert=True, make_id=lambda: 7))
    assert (result.matched, result.modified, result.upserted, result.upserted_id) == (0, 0, True, 7)
    stored = engine.find(NS, Query())
    assert stored == [{"_id": 7, "x": 1, "y": 2, "z": 3}]
    assert list(stored[0]) == ["_id", "x", "y", "z"]
    again = engine.update(NS, Update(query, change, upsert=True, make_id=lambda: 8))
    assert again.upserted
    assert engine.update(NS, Update(Query({"_id": 7}), change, upsert=True)).matched == 1


def _a_delete_takes_the_first_match_or_all(make: Make) -> None:
    engine = _numbers(make)
    assert _ids(engine.delete(NS, Query({"x": 1}, limit=1))) == [1]
    assert _ids(engine.delete(NS, Query({"x": 1}))) == [4]
    assert _ids(engine.find(NS, Query())) == [2, 3, 5, 6]


# A document that fails validation must leave no trace, in the collection or in its indexes.
def _what_accept_raises_prevents_a_change(make: Make) -> None:
    engine = _filled(make, {"_id": 1, "x": 1})

    def refuse(_change: Changed) -> None:
        raise CommandError(121, "Document failed validation")

    assert _code_of(lambda: engine.insert(NS, {"_id": 2}, accept=refuse)) == 121
    assert _code_of(lambda: engine.update(NS, Update(Query(), {"$set": {"x": 2}}), accept=refuse)) == 121
    assert _code_of(lambda: engine.delete(NS, Query(), accept=refuse)) == 121
    assert engine.find(NS, Query()) == [{"_id": 1, "x": 1}]


def _accept_sees_each_change(make: Make) -> None:
    engine, seen = make(), list[Changed]()
    engine.insert(NS, {"_id": 1}, accept=seen.append)
    engine.update(NS, Update(Query(), {"$set": {"x": 1}}), accept=seen.append)
    engine.delete(NS, Query(), accept=seen.append)
    assert seen == [
        Changed(None, {"_id": 1}),
        Changed({"_id": 1}, {"_id": 1, "x": 1}),
        Changed({"_id": 1, "x": 1}, None),
    ]


def _a_unique_index_refuses_a_second_holder(make: Make) -> None:
    engine = _filled(make, {"_id": 1, "x": 1}, {"_id": 2, "x": 2})
    engine.create_index(NS, IndexSpec("x_1", {"x": 1}, unique=True))
    assert _code_of(lambda: engine.insert(NS, {"_id": 3, "x": 1})) == 11000
    assert _code_of(lambda: engine.update(NS, Update(Query({"_id": 2}), {"$set": {"x": 1}}))) == 11000
    assert _code_of(lambda: engine.update(NS, Update(Query({"_id": 2}), {"$set": {"y": 1}}))) is None
    engine.delete(NS, Query({"_id": 1}))
    engine.insert(NS, {"_id": 3, "x": 1})
    engine.drop_index(NS, "x_1")
    engine.insert(NS, {"_id": 4, "x": 1})


# Two documents without the field would share the key null. A sparse index has no key for them.
def _a_unique_index_counts_missing_as_null_unless_it_is_sparse(make: Make) -> None:
    engine = _filled(make, {"_id": 1})
    engine.create_index(NS, IndexSpec("x_1", {"x": 1}, unique=True))
    assert _code_of(lambda: engine.insert(NS, {"_id": 2})) == 11000
    engine.drop_index(NS, "x_1")
    engine.create_index(NS, IndexSpec("x_1", {"x": 1}, unique=True, sparse=True))
    engine.insert(NS, {"_id": 2})


def _a_unique_index_over_duplicates_is_refused_unless_tolerant(make: Make) -> None:
    engine = _filled(make, {"_id": 1, "x": 1}, {"_id": 2, "x": 1})
    index = IndexSpec("x_1", {"x": 1}, unique=True)
    assert _code_of(lambda: engine.create_index(NS, index)) == 11000
    engine.insert(NS, {"_id": 3, "x": 1})
    engine.create_index(NS, index, tolerant=True)
    assert _code_of(lambda: engine.insert(NS, {"_id": 4, "x": 1})) == 11000


def _a_capped_collection_makes_room(make: Make) -> None:
    engine = make()
    engine.create(NS, capped=Capped(1000, 2))
    for number in range(4):
        engine.insert(NS, {"_id": number})
    assert _ids(engine.find(NS, Query())) == [2, 3]


# A time series has no unique index on `_id`: a server keeps no index of its measurements by it at all.
def _measurements_may_share_an_id(make: Make) -> None:
    engine = make()
    engine.create(NS, unique_ids=False)
    for number in (1, 2):
        engine.insert(NS, {"_id": 1, "x": number})
    assert engine.find(NS, Query({"_id": 1})) == [{"_id": 1, "x": 1}, {"_id": 1, "x": 2}]
    assert len(engine.delete(NS, Query({"x": 1}))) == 1
    assert engine.find(NS, Query()) == [{"_id": 1, "x": 2}]


# In bytes of BSON: `{_id: 1}` has 14 and `{_id: 2, x: 1}` 21. Reports of sizes and capped collections count
# with them.
def _a_collection_knows_its_size(make: Make) -> None:
    engine = _filled(make, {"_id": 1}, {"_id": 2, "x": 1})
    assert engine.stats(NS) == Stats(2, 14 + 21)
    engine.update(NS, Update(Query({"_id": 2}), {"$unset": {"x": 1}}))
    engine.delete(NS, Query({"_id": 1}))
    assert engine.stats(NS) == Stats(1, 14)


def _drop_and_rename_move_documents_and_indexes(make: Make) -> None:
    engine = _filled(make, {"_id": 1, "x": 1})
    engine.create_index(NS, IndexSpec("x_1", {"x": 1}, unique=True))
    other = Namespace("db", "others")
    engine.rename(NS, other)
    assert engine.find(NS, Query()) == []
    assert _code_of(lambda: engine.insert(other, {"_id": 2, "x": 1})) == 11000
    assert engine.drop(other)
    engine.insert(other, {"_id": 1, "x": 1})
    engine.insert(other, {"_id": 2, "x": 1})


def _a_pipeline_runs_its_stages_in_order(make: Make) -> None:
    engine = _numbers(make)
    pipeline: list[Document] = [{"$match": {"x": {"$gt": 0}}}, {"$sort": {"_id": -1}}, {"$limit": 2}]
    assert _ids(engine.aggregate(NS, pipeline, options=Query())) == [5, 4]
    assert engine.aggregate(NS, [{"$count": "n"}], options=Query()) == [{"n": 6}]
    assert engine.aggregate(NS, [{"$limit": 1}], options=Query(), documents=[{"a": 1}]) == [{"a": 1}]
    assert _code_of(lambda: engine.aggregate(NS, [{"$nonsense": 1}], options=Query())) == 40324


# A member that lags and a transaction are forks: neither may see what happens behind the other's back, in
# documents, indexes or counts.
def _a_fork_and_its_origin_change_alone(make: Make) -> None:
    engine = _filled(make, {"_id": 1, "x": 1})
    engine.create_index(NS, IndexSpec("x_1", {"x": 1}, unique=True))
    fork = engine.fork()
    fork.insert(NS, {"_id": 2, "x": 2})
    engine.update(NS, Update(Query({"_id": 1}), {"$set": {"x": 2}}))
    engine.insert(NS, {"_id": 3, "x": 3})
    fork.drop_index(NS, "x_1")
    fork.insert(NS, {"_id": 4, "x": 1})
    assert _ids(engine.find(NS, Query())) == [1, 3]
    assert fork.find(NS, Query({"_id": 1})) == [{"_id": 1, "x": 1}]
    assert _ids(fork.find(NS, Query())) == [1, 2, 4]
    assert _code_of(lambda: engine.insert(NS, {"_id": 4, "x": 2})) == 11000
    fork.drop(NS)
    engine.delete(NS, Query({"_id": 3}))
    assert _ids(engine.find(NS, Query())) == [1]
    assert engine.stats(NS).count == 1


# A commit puts changes in, and a rollback takes them back in reverse order.
def _changes_of_a_fork_can_be_put_into_its_origin_and_undone(make: Make) -> None:
    engine = _filled(make, {"_id": 1, "x": 1}, {"_id": 2}, {"_id": 3})
    before, fork = engine.find(NS, Query()), engine.fork()
    seen: list[Changed] = []
    fork.insert(NS, {"_id": 4}, accept=seen.append)
    fork.update(NS, Update(Query({"_id": 1}), {"$set": {"x": 2}}), accept=seen.append)
    fork.update(NS, Update(Query({"_id": 4}), {"$set": {"x": 3}}), accept=seen.append)
    fork.delete(NS, Query({"_id": 3}), accept=seen.append)
    for change in seen:
        engine.put(NS, change)
    assert engine.find(NS, Query()) == fork.find(NS, Query())
    assert engine.stats(NS) == fork.stats(NS)
    for change in reversed(seen):
        engine.put(NS, change.undone)
    assert engine.find(NS, Query()) == before


# Write conflicts are found by comparing who holds a key here and there: by identity, since an equal document
# may have been written anew.
def _a_document_claims_its_id_and_its_unique_keys(make: Make) -> None:
    engine = _filled(make, {"_id": 1, "x": 1}, {"_id": 2, "x": 2})
    engine.create_index(NS, IndexSpec("x_1", {"x": 1}, unique=True))
    fork = engine.fork()
    claims = engine.claims(NS, {"_id": 3, "x": 2})
    assert [engine.claimant(NS, claim) for claim in claims] == [None, {"_id": 2, "x": 2}]
    assert len(claims) == 2
    assert all(fork.claimant(NS, claim) is engine.claimant(NS, claim) for claim in claims)
    engine.update(NS, Update(Query({"_id": 2}), {"$set": {"y": 1}}))
    assert fork.claimant(NS, claims[1]) is not engine.claimant(NS, claims[1])
    assert engine.claimant(Namespace("db", "nowhere"), claims[0]) is None


STATEMENTS: list[Callable[[Make], None]] = [
    _what_goes_in_is_copied,
    _what_was_read_stays_as_it_was,
    _a_second_document_with_an_id_is_refused,
    _a_collection_that_is_not_there_is_empty,
    _documents_come_in_the_order_of_insertion,
    _sort_skip_and_limit_apply_in_that_order,
    _a_range_of_ids_comes_in_their_order,
    _filters_select,
    _an_update_changes_the_first_match_or_all,
    _an_update_that_changes_nothing_is_matched_only,
    _an_update_shows_both_images,
    _a_replacement_keeps_the_id,
    _an_upsert_begins_with_what_the_filter_pins,
    _a_delete_takes_the_first_match_or_all,
    _what_accept_raises_prevents_a_change,
    _accept_sees_each_change,
    _a_unique_index_refuses_a_second_holder,
    _a_unique_index_counts_missing_as_null_unless_it_is_sparse,
    _a_unique_index_over_duplicates_is_refused_unless_tolerant,
    _a_capped_collection_makes_room,
    _measurements_may_share_an_id,
    _a_collection_knows_its_size,
    _drop_and_rename_move_documents_and_indexes,
    _a_pipeline_runs_its_stages_in_order,
    _a_fork_and_its_origin_change_alone,
    _changes_of_a_fork_can_be_put_into_its_origin_and_undone,
    _a_document_claims_its_id_and_its_unique_keys,
]
"""Each is called with a maker of empty engines."""


def check_storage_engine(make: Make) -> None:
    """Raise `AssertionError` unless `make()` returns an empty `StorageEngine`."""
    for statement in STATEMENTS:
        statement(make)

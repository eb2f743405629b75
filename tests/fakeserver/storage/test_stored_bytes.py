"""Stored documents keep their BSON, which replies copy."""

from __future__ import annotations

import contextlib
import copy
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson import DBRef, Decimal128, Int64, Regex
from hypothesis import given
from hypothesis import strategies as st
from talking import STANDALONE, Deployment, play

from fakeserver.errors import CommandError
from fakeserver.storage.port.engine import Changed, Namespace, Query, Update
from fakeserver.storage.store.memory_engine import MemoryEngine
from fakeserver.storage.values.stored import Stored, stored

if TYPE_CHECKING:
    from collections.abc import Callable

NS = Namespace("db", "c")

Document = dict[str, Any]

IDS = st.sampled_from([1, 1.0, Int64(2), "a", None, {"b": 1}])
VALUES = st.recursive(
    st.sampled_from(
        [None, True, 0, 0.0, float("nan"), 2**40, Decimal128("1.0"), "é", b"b", Regex("a", "im")]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=5,
)
FIELDS = st.sampled_from(["x", "y", "x.a", "y.0"])
DOCUMENTS = st.fixed_dictionaries({}, optional={"x": VALUES, "y": VALUES, "_id": IDS}).map(
    lambda each: {"_id": 3, **each} if "_id" not in each else each
)
CHANGES = st.one_of(
    st.builds(lambda name, field, value: {name: {field: value}}, st.sampled_from(["$set", "$push"]), FIELDS,
              VALUES),
    st.builds(lambda name, field: {name: {field: 1}}, st.sampled_from(["$inc", "$unset", "$pop"]), FIELDS),
    st.builds(lambda field: [{"$set": {field: ["$$ROOT", "$x"]}}], FIELDS),
    st.just([{"$replaceWith": {"whole": "$$ROOT", "_id": "$_id"}}]),
    st.fixed_dictionaries({}, optional={"x": VALUES, "y": VALUES}),
)  # fmt: skip
FILTERS = st.one_of(st.just({}), st.builds(lambda value: {"_id": value}, IDS))
WRITES = st.one_of(
    st.builds(lambda each: lambda engine, accept: engine.insert(NS, each, accept=accept), DOCUMENTS),
    st.builds(
        lambda found, change, upsert: (
            lambda engine, accept: engine.update(
                NS, Update(Query(found), change, upsert=upsert, make_id=bson.ObjectId), accept=accept
            )
        ),
        FILTERS,
        CHANGES,
        st.booleans(),
    ),
    st.builds(
        lambda found: lambda engine, accept: engine.delete(NS, Query(found, limit=1), accept=accept), FILTERS
    ),
)


def unnamed(document: Document) -> bytes:
    """Return a document's bytes where the library leaves the order of its fields alone."""
    return bson.encode({"": document})


@given(st.lists(WRITES, max_size=12))
def test_the_bytes_of_a_stored_document_are_those_of_its_fields_after_any_writes(
    writes: list[Callable[[MemoryEngine, Any], object]],
) -> None:
    engine, other = MemoryEngine(), MemoryEngine()
    fork = engine.fork()
    for write in writes:
        changes: list[Changed] = []
        with contextlib.suppress(CommandError):
            write(engine, changes.append)
        for change in changes:
            other.put(NS, change)
            assert change.size == len(bson.encode(change.after or change.before or {}))
    for each in (engine, other):
        for document in each.find(NS, Query()):
            assert type(document) is Stored
            assert unnamed(document) == unnamed(dict(document)) == unnamed(copy.deepcopy(document))
        assert each.stats(NS).size == sum(
            len(bson.encode(dict(document))) for document in each.find(NS, Query())
        )
    assert engine.find(NS, Query()) == other.find(NS, Query()) or "nan" in repr(engine.find(NS, Query()))
    assert fork.find(NS, Query()) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document.update(a=1),
        lambda document: document.__setitem__("a", 1),
        lambda document: document.__delitem__("_id"),
        lambda document: document.setdefault("a", 1),
        lambda document: document.pop("_id"),
        lambda document: document.popitem(),
        lambda document: document.clear(),
        lambda document: document.__ior__({"a": 1}),
    ],
)
def test_a_stored_document_cannot_be_changed(change: Callable[[Stored], object]) -> None:
    document = stored({"_id": 1})
    with pytest.raises(TypeError, match="a stored document is a value"):
        change(document)
    assert document == {"_id": 1}


@pytest.mark.parametrize(
    "copied", [dict, copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))]
)
def test_a_copy_of_a_stored_document_is_an_ordinary_one(copied: Callable[[Stored], Document]) -> None:
    document = copied(stored({"_id": 1, "a": [1]}))
    document["b"] = 2
    assert type(document) is dict
    assert bson.decode(bson.encode(document)) == {"_id": 1, "a": [1], "b": 2}


def test_the_order_of_fields_is_kept_although_the_library_puts_the_id_first() -> None:
    assert list(bson.decode(stored({"a": 1, "_id": 2}).raw)) == ["a", "_id"]
    assert list(bson.decode(stored({"a": {"_id": 2}}).raw)) == ["a"]
    assert list(bson.decode(stored({"r": DBRef("c", 1), "_id": 1}).raw)) == ["r", "_id"]


READS: list[Document] = [
    {"find": "c"},
    {"find": "c", "filter": {"_id": 1}, "limit": 1, "singleBatch": True},
    {"find": "c", "filter": {"n": 5}},
    {"find": "c", "filter": {"n": {"$gte": 5}}, "sort": {"n": -1}, "skip": 0, "limit": 1},
    {"aggregate": "c", "pipeline": [], "cursor": {}},
    {"aggregate": "c", "pipeline": [{"$match": {"n": 5}}, {"$sort": {"n": 1}}, {"$limit": 2}], "cursor": {}},
]


@pytest.mark.parametrize("read", READS, ids=str)
def test_a_reply_copies_the_bytes_of_stored_documents(read: Document) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"createIndexes": "c", "indexes": [{"key": {"n": 1}, "name": "n_1"}], "$db": "db"})
        await talker.ok({"insert": "c", "documents": [{"_id": 1, "n": 5}], "$db": "db"})
        (document,) = deployment.cluster.catalog.engine.find(NS, Query())
        assert isinstance(document, Stored)
        document.raw = bson.encode({"written": "in place of the fields"})
        reply = await talker.ok({**read, "$db": "db"})
        assert reply["cursor"]["firstBatch"] == [{"written": "in place of the fields"}]

    play(scenario, STANDALONE)


def test_batches_and_change_streams_copy_the_bytes_of_stored_documents() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        opened = await talker.ok(
            {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "db"}
        )
        await talker.ok({"insert": "c", "documents": [{"_id": 1}, {"_id": 2}], "$db": "db"})
        for document in deployment.cluster.catalog.engine.find(NS, Query()):
            assert isinstance(document, Stored)
            document.raw = bson.encode({"written": document["_id"]})
        first = await talker.ok({"find": "c", "batchSize": 1, "$db": "db"})
        rest = await talker.ok({"getMore": first["cursor"]["id"], "collection": "c", "$db": "db"})
        assert rest["cursor"]["nextBatch"] == [{"written": 2}]
        events = await talker.ok({"getMore": opened["cursor"]["id"], "collection": "c", "$db": "db"})
        shown = [event["fullDocument"] for event in events["cursor"]["nextBatch"]]
        assert shown == [{"written": 1}, {"written": 2}]

    play(scenario)


def test_the_store_is_loaded_without_the_driver_that_mongomock_imports() -> None:
    script = (
        "import sys, fakeserver.assembly.assembling;"
        "print([name for name in ('pymongo', 'cryptography', 'mongomock') if name in sys.modules]);"
        "import mongomock; print(mongomock.MongoClient().db.c.insert_one({'_id': 1}).inserted_id)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["[]", "1"]

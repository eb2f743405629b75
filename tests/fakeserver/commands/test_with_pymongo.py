"""Each data command once over the wire, as PyMongo sends it and understands its reply."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pymongo
import pytest
from bson import Decimal128, Int64
from pymongo import DeleteOne, IndexModel, InsertOne, ReturnDocument, UpdateOne
from pymongo.collation import Collation
from pymongo.errors import BulkWriteError, CollectionInvalid, DuplicateKeyError, OperationFailure, WriteError

import fakeserver
from fakeserver import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    Client = pymongo.MongoClient[dict[str, Any]]

SPECS = [ClusterSpec.standalone(), ClusterSpec.replica_set(3)]


def serve(spec: ClusterSpec, scenario: Callable[[Client], None]) -> None:
    """Run a scenario with a client of a deployment that serves it."""

    def connected(uri: str) -> None:
        with pymongo.MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=5000) as client:
            scenario(client)

    async def run() -> None:
        async with fakeserver.start(spec) as cluster:
            await asyncio.to_thread(connected, cluster.uri)

    asyncio.run(run())


def writing(client: Client) -> None:
    things = client.db.things
    assert things.insert_one({"_id": 1, "x": 1}).inserted_id == 1
    assert len(things.insert_many([{"x": number} for number in range(5)]).inserted_ids) == 5
    with pytest.raises(DuplicateKeyError) as duplicate:
        things.insert_one({"_id": 1})
    assert duplicate.value.details is not None
    assert duplicate.value.details["keyValue"] == {"_id": 1}
    updated = things.update_many({"x": {"$gte": 3}}, {"$inc": {"x": 10}})
    assert (updated.matched_count, updated.modified_count) == (2, 2)
    assert things.update_one({"_id": 9}, {"$set": {"x": 9}}, upsert=True).upserted_id == 9
    assert things.replace_one({"_id": 9}, {"y": 1}).modified_count == 1
    assert things.delete_one({"_id": 9}).deleted_count == 1
    assert things.delete_many({"x": {"$gt": 10}}).deleted_count == 2
    with pytest.raises(WriteError, match="Unknown modifier"):
        things.update_one({}, {"$nonsense": {"a": 1}})


def finding_and_modifying(client: Client) -> None:
    things = client.db.things
    things.insert_one({"_id": 1, "x": 1})
    assert things.find_one_and_update({"_id": 1}, {"$inc": {"x": 1}}) == {"_id": 1, "x": 1}
    after = things.find_one_and_replace({"_id": 1}, {"y": 1}, return_document=ReturnDocument.AFTER)
    assert after == {"_id": 1, "y": 1}
    assert things.find_one_and_delete({"_id": 1}) == {"_id": 1, "y": 1}
    assert things.find_one_and_delete({"_id": 1}) is None


def writing_in_bulk(client: Client) -> None:
    things = client.db.things
    requests: list[Any] = [
        InsertOne({"_id": 1}),
        UpdateOne({"_id": 1}, {"$set": {"x": 1}}),
        DeleteOne({"_id": 1}),
    ]
    result = things.bulk_write(requests)
    assert (result.inserted_count, result.modified_count, result.deleted_count) == (1, 1, 1)
    with pytest.raises(BulkWriteError) as failed:
        things.bulk_write([InsertOne({"_id": 1}), InsertOne({"_id": 1}), InsertOne({"_id": 2})])
    assert failed.value.details["nInserted"] == 1
    models: list[Any] = [
        InsertOne({"_id": 5}, namespace="db.things"),
        UpdateOne({"_id": 5}, {"$set": {"x": 1}}, namespace="db.things"),
        DeleteOne({"_id": 5}, namespace="db.things"),
    ]
    done = client.bulk_write(models, verbose_results=True)
    assert (done.inserted_count, done.modified_count, done.deleted_count) == (1, 1, 1)
    assert done.insert_results[0].inserted_id == 5


def reading(client: Client) -> None:
    things = client.db.things
    things.insert_many([{"_id": number, "x": number % 3, "s": f"S{number}"} for number in range(250)])
    assert len(list(things.find())) == 250
    assert [each["_id"] for each in things.find({"x": 1}, sort=[("_id", -1)], limit=2)] == [247, 244]
    assert next(things.find({"_id": 7}, {"s": 1, "_id": 0})) == {"s": "S7"}
    assert things.find_one({"s": "s8"}, collation=Collation("en", strength=2)) is not None
    assert things.count_documents({"x": 0}) == 84
    assert things.estimated_document_count() == 250
    assert sorted(things.distinct("x")) == [0, 1, 2]
    totals = things.aggregate([{"$group": {"_id": "$x", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}])
    assert [each["n"] for each in totals] == [84, 83, 83]
    with things.find(batch_size=10) as cursor:
        next(cursor)
    assert things.find({"x": 1}).explain()["queryPlanner"]["namespace"] == "db.things"
    with pytest.raises(OperationFailure, match="unknown operator"):
        list(things.find({"x": {"$nonsense": 1}}))


def keeping_types(client: Client) -> None:
    document = {"_id": 1, "long": Int64(1), "double": 1.0, "decimal": Decimal128("1.10"), "int": 1}
    client.db.things.insert_one(document)
    stored = client.db.things.find_one_and_update(
        {}, {"$inc": dict.fromkeys(["long", "double", "int"], 1)}, return_document=ReturnDocument.AFTER
    )
    assert stored is not None
    assert [type(stored[name]) for name in document] == [int, Int64, float, Decimal128, int]
    assert stored == {"_id": 1, "long": 2, "double": 2.0, "decimal": Decimal128("1.10"), "int": 2}


def managing(client: Client) -> None:
    db = client.db
    capped = db.create_collection("capped", capped=True, size=4096, max=2)
    capped.insert_many([{"_id": number} for number in range(4)])
    assert [each["_id"] for each in capped.find()] == [2, 3]
    assert capped.options() == {"capped": True, "size": 4096, "max": 2}
    with pytest.raises(CollectionInvalid):
        db.create_collection("capped")
    db.create_collection("view", viewOn="capped", pipeline=[{"$match": {"_id": 2}}])
    assert list(db.view.find()) == [{"_id": 2}]
    things = db.things
    assert things.create_index([("x", 1), ("y", -1)], unique=True) == "x_1_y_-1"
    assert things.create_indexes([IndexModel("z")]) == ["z_1"]
    assert set(things.index_information()) == {"_id_", "x_1_y_-1", "z_1"}
    things.drop_index("z_1")
    things.drop_indexes()
    things.insert_one({"_id": 1})
    assert db.command("collMod", "things", validator={"x": {"$type": "int"}})["ok"] == 1
    with pytest.raises(WriteError) as refused:
        things.insert_one({"x": "text"})
    assert refused.value.code == 121
    things.rename("others")
    assert sorted(db.list_collection_names()) == ["capped", "others", "system.views", "view"]
    assert db.validate_collection("others")["valid"] is True
    assert db.command("dbStats")["objects"] == 4, "with the definition of the view"
    db.drop_collection("others")
    assert "db" in client.list_database_names()
    client.drop_database("db")
    assert "db" not in client.list_database_names()


def following(client: Client) -> None:
    capped = client.db.create_collection("capped", capped=True, size=4096)
    capped.insert_one({"_id": 1})
    cursor = capped.find(cursor_type=pymongo.CursorType.TAILABLE_AWAIT).max_await_time_ms(5000)
    assert next(cursor) == {"_id": 1}
    capped.insert_one({"_id": 2})
    assert next(cursor) == {"_id": 2}
    cursor.close()


def writing_results_of_pipelines(client: Client) -> None:
    things = client.db.things
    things.insert_many([{"_id": number} for number in range(3)])
    things.aggregate([{"$out": "copies"}])
    things.aggregate([{"$set": {"x": 1}}, {"$merge": {"into": "copies"}}])
    assert list(client.db.copies.find()) == [{"_id": number, "x": 1} for number in range(3)]
    with pytest.raises(OperationFailure) as failed:
        things.aggregate([{"$merge": {"into": "copies", "whenMatched": "fail"}}])
    assert failed.value.code == 11000


SCENARIOS = [
    writing,
    finding_and_modifying,
    writing_in_bulk,
    reading,
    keeping_types,
    managing,
    following,
    writing_results_of_pipelines,
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.topology)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_pymongo_gets_what_it_expects(spec: ClusterSpec, scenario: Callable[[Client], None]) -> None:
    serve(spec, scenario)

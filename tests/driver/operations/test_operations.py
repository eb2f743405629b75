"""What each method sends, and what it makes of the reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson import Int64, ObjectId
from driven_client import Stage, play
from scripted_mongod import ScriptedMongod, error, member_hello, mongos_hello, replica_set, standalone_hello

from driver import ReadConcern, ReadPreference, WriteConcern
from driver.concerns import ReadMode
from driver.cursor import Paging
from driver.errors import (
    BulkWriteError,
    ClientBulkWriteError,
    InvalidArgumentError,
    InvalidReplyError,
    ServerError,
    WriteError,
)
from driver.operations.bulk import fitting, runs
from driver.operations.models import (
    DeleteMany,
    DeleteOne,
    InsertOne,
    ReplaceOne,
    UpdateMany,
    UpdateOne,
)
from driver.results import DeleteResult, UpdateResult
from driver.sdam.description import Limits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from driver.collection import Collection
    from driver.operations.models import WriteModel

ADDED = frozenset({"lsid", "txnNumber", "$clusterTime", "$db", "$readPreference"})


def plain(command: dict[str, Any]) -> dict[str, Any]:
    """Return a command without what every command gets."""
    return {name: value for name, value in command.items() if name not in ADDED}


SEARCH_INDEX = {"name": "s", "definition": {"mappings": {"dynamic": True}}}

CASES: list[tuple[Callable[[Collection], Awaitable[Any]], dict[str, Any]]] = [
    (
        lambda c: c.find({"x": 1}, sort={"x": 1}, skip=2),
        {"find": "t", "filter": {"x": 1}, "sort": {"x": 1}, "skip": 2},
    ),
    (lambda c: c.find({}, limit=-3), {"find": "t", "filter": {}, "limit": 3, "singleBatch": True}),
    (lambda c: c.find({}, limit=4, batchSize=4), {"find": "t", "filter": {}, "limit": 4, "batchSize": 5}),
    (
        lambda c: c.find({}, cursorType="tailableAwait", maxAwaitTimeMS=5),
        {"find": "t", "filter": {}, "tailable": True, "awaitData": True},
    ),
    (
        lambda c: c.update_search_index("s", {"x": 1}),
        {"updateSearchIndex": "t", "name": "s", "definition": {"x": 1}},
    ),
    (lambda c: c.drop_search_index("s"), {"dropSearchIndex": "t", "name": "s"}),
    (
        lambda c: c.list_search_indexes("s", batchSize=3),
        {"aggregate": "t", "pipeline": [{"$listSearchIndexes": {"name": "s"}}], "cursor": {"batchSize": 3}},
    ),
    (lambda c: c.find_one({"x": 1}), {"find": "t", "filter": {"x": 1}, "limit": 1, "singleBatch": True}),
    (
        lambda c: c.aggregate([{"$match": {}}], batchSize=2, let={"y": 1}),
        {"aggregate": "t", "pipeline": [{"$match": {}}], "cursor": {"batchSize": 2}, "let": {"y": 1}},
    ),
    (
        lambda c: c.aggregate([{"$out": "o"}], batchSize=0),
        {"aggregate": "t", "pipeline": [{"$out": "o"}], "cursor": {}},
    ),
    (
        lambda c: c.count_documents({"x": 1}, skip=1, limit=2),
        {
            "aggregate": "t",
            "pipeline": [
                {"$match": {"x": 1}},
                {"$skip": 1},
                {"$limit": 2},
                {"$group": {"_id": 1, "n": {"$sum": 1}}},
            ],
            "cursor": {},
        },
    ),
    (lambda c: c.insert_one({"_id": 1}), {"insert": "t", "ordered": True, "documents": [{"_id": 1}]}),
    (
        lambda c: c.update_one({"x": 1}, {"$set": {"y": 1}}, upsert=True, hint="x_1", comment="c"),
        {
            "update": "t",
            "ordered": True,
            "comment": "c",
            "updates": [{"q": {"x": 1}, "u": {"$set": {"y": 1}}, "upsert": True, "hint": "x_1"}],
        },
    ),
    (
        lambda c: c.update_many({}, [{"$set": {"y": 1}}], arrayFilters=[{"i": 1}]),
        {
            "update": "t",
            "ordered": True,
            "updates": [{"q": {}, "u": [{"$set": {"y": 1}}], "multi": True, "arrayFilters": [{"i": 1}]}],
        },
    ),
    (
        lambda c: c.replace_one({"x": 1}, {"y": 1}, sort={"x": 1}),
        {"update": "t", "ordered": True, "updates": [{"q": {"x": 1}, "u": {"y": 1}, "sort": {"x": 1}}]},
    ),
    (
        lambda c: c.delete_one({"x": 1}),
        {"delete": "t", "ordered": True, "deletes": [{"q": {"x": 1}, "limit": 1}]},
    ),
    (
        lambda c: c.delete_many({}, collation={"locale": "en"}),
        {
            "delete": "t",
            "ordered": True,
            "deletes": [{"q": {}, "limit": 0, "collation": {"locale": "en"}}],
        },
    ),
    (
        lambda c: c.find_one_and_update(
            {"x": 1}, {"$set": {"y": 1}}, returnDocument="After", projection={"y": 1}
        ),
        {
            "findAndModify": "t",
            "query": {"x": 1},
            "update": {"$set": {"y": 1}},
            "new": True,
            "fields": {"y": 1},
        },
    ),
    (
        lambda c: c.find_one_and_replace({}, {"y": 1}, returnDocument="Before"),
        {"findAndModify": "t", "query": {}, "update": {"y": 1}, "new": False},
    ),
    (lambda c: c.find_one_and_delete({"x": 1}), {"findAndModify": "t", "query": {"x": 1}, "remove": True}),
    (
        lambda c: c.create_index({"x": 1, "y": -1}, unique=True, options={"maxTimeMS": 5}),
        {
            "createIndexes": "t",
            "indexes": [{"key": {"x": 1, "y": -1}, "unique": True, "name": "x_1_y_-1"}],
            "maxTimeMS": 5,
        },
    ),
    (lambda c: c.drop_index("x_1"), {"dropIndexes": "t", "index": "x_1"}),
    (lambda c: c.drop_indexes(), {"dropIndexes": "t", "index": "*"}),
    (lambda c: c.list_indexes(batchSize=3), {"listIndexes": "t", "cursor": {"batchSize": 3}}),
    (lambda c: c.drop(), {"drop": "t"}),
    (
        lambda c: c.rename("u", dropTarget=True),
        {"renameCollection": "db.t", "to": "db.u", "dropTarget": True},
    ),
    (lambda c: c.database.drop(), {"dropDatabase": 1}),
    (lambda c: c.database.drop_collection("t"), {"drop": "t"}),
    (
        lambda c: c.database.create_collection("t", capped=True, size=5),
        {"create": "t", "capped": True, "size": 5},
    ),
    (
        lambda c: c.database.modify_collection("t", validator={}),
        {"collMod": "t", "validator": {}},
    ),
    (
        lambda c: c.database.list_collections(filter={"name": "t"}),
        {"listCollections": 1, "cursor": {}, "filter": {"name": "t"}},
    ),
    (
        lambda c: c.database.aggregate([{"$currentOp": {}}]),
        {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}},
    ),
]


@pytest.mark.parametrize(("call", "expected"), CASES)
def test_a_method_sends_its_command(
    call: Callable[[Collection], Awaitable[Any]], expected: dict[str, Any]
) -> None:
    async def scenario(stage: Stage) -> None:
        await call(stage.client.database("db").collection("t"))

    sent = play(scenario).primary.received[0]
    assert plain(sent) == expected
    assert next(iter(plain(sent))) == next(iter(expected))


def test_counts_values_and_names_are_taken_from_the_replies() -> None:
    async def scenario(stage: Stage) -> None:
        peer, collection = stage.primary, stage.collection
        peer.will("count", {"ok": 1.0, "n": 4}, {"ok": 1.0, "n": 5})
        peer.will(
            "aggregate",
            {"ok": 1.0, "cursor": {"id": 0, "ns": "db.things", "firstBatch": [{"_id": 1, "n": 3}]}},
        )
        peer.will("distinct", {"ok": 1.0, "values": [1, 2]})
        peer.will("listDatabases", {"ok": 1.0, "databases": [{"name": "a"}]})
        named = {"ok": 1.0, "cursor": {"id": 0, "ns": "db.$x", "firstBatch": [{"name": "t"}]}}
        peer.will("listCollections", named)
        peer.will("listIndexes", named)
        assert await collection.estimated_document_count() == 4
        assert await collection.count({"x": 1}) == 5
        assert await collection.count_documents({}) == 3
        assert await collection.count_documents({}) == 0
        assert await collection.distinct("x", {}) == [1, 2]
        assert await stage.client.list_database_names() == ["a"]
        assert await collection.database.list_collection_names() == ["t"]
        assert await collection.list_index_names() == ["t"]
        assert await collection.find_one({}) is None
        assert await collection.find_one_and_delete({}) is None

    play(scenario)


def test_search_indexes_are_told_by_their_names_and_know_no_concerns() -> None:
    async def scenario(stage: Stage) -> None:
        peer, database = stage.primary, stage.client.database("db")
        read_concern, write_concern = ReadConcern("majority"), WriteConcern(w=2)
        collection = database.collection("t", read_concern=read_concern, write_concern=write_concern)
        peer.will("createSearchIndexes", {"ok": 1.0, "indexesCreated": [{"id": "1", "name": "s"}]})
        peer.will("dropSearchIndex", error(26), error(13))
        assert await collection.create_search_index(SEARCH_INDEX) == "s"
        await collection.update_search_index("s", {})
        await (await collection.list_search_indexes()).aclose()
        await collection.drop_search_index("s")
        with pytest.raises(ServerError):
            await collection.drop_search_index("s")
        commands = [plain(started.command) for started in stage.of_kind("commandStartedEvent")]
        assert commands[0] == {"createSearchIndexes": "t", "indexes": [SEARCH_INDEX]}
        for command in commands:
            assert not {"readConcern", "writeConcern"} & set(command)

    play(scenario)


def test_the_results_of_map_reduce_are_returned_and_it_is_never_retried() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("mapReduce", {"ok": 1.0, "results": [{"_id": 0, "value": 6}]}, error(11600))
        assert await stage.collection.map_reduce("m", "r", query={"x": 1}) == [{"_id": 0, "value": 6}]
        with pytest.raises(ServerError):
            await stage.collection.map_reduce("m", "r")
        first, _ = (plain(started.command) for started in stage.of_kind("commandStartedEvent"))
        functions = {"mapReduce": "things", "map": "m", "reduce": "r"}
        assert first == {**functions, "out": {"inline": 1}, "query": {"x": 1}}

    play(scenario)


def test_an_update_tells_what_matched_and_what_was_upserted() -> None:
    async def scenario(stage: Stage) -> None:
        upserted = [{"index": 0, "_id": 5}]
        stage.primary.will("update", {"ok": 1.0, "n": 1, "nModified": 0, "upserted": upserted})
        result = await stage.collection.update_one({}, {"$set": {"x": 1}}, upsert=True)
        assert result == UpdateResult(0, 0, 5, upserted=True)
        stage.primary.will("delete", {"ok": 1.0, "n": 2})
        assert await stage.collection.delete_many({}) == DeleteResult(2)

    play(scenario)


def test_an_id_is_made_of_the_client_s_dice_and_comes_first() -> None:
    async def scenario(stage: Stage) -> None:
        result = await stage.collection.insert_one({"x": 1})
        assert isinstance(result.inserted_id, ObjectId)

    first, second = (play(scenario).primary.commands("insert")[0]["documents"][0] for _ in range(2))
    assert list(first) == ["_id", "x"]
    assert first == second


def test_concerns_are_inherited_and_sent_where_they_belong() -> None:
    async def scenario(stage: Stage) -> None:
        database = stage.client.database("db", read_concern=ReadConcern("majority"))
        collection = database.collection("t", write_concern=WriteConcern("majority", wtimeout_ms=5))
        await collection.find_one({})
        await collection.insert_one({"_id": 1})
        await collection.drop()
        await stage.client.command("db", {"ping": 1})

    find, insert, drop, ping, _ = play(scenario, "w=1&readConcernLevel=local").primary.received
    assert find["readConcern"] == {"level": "majority"}
    assert "writeConcern" not in find
    assert insert["writeConcern"] == drop["writeConcern"] == {"w": "majority", "wtimeout": 5}
    assert not {"readConcern", "writeConcern"} & ping.keys()


def test_a_read_preference_reaches_secondaries_and_is_sent() -> None:
    async def scenario(stage: Stage) -> None:
        secondary = ReadPreference(ReadMode.SECONDARY)
        await stage.client.database("db").collection("t", read_preference=secondary).find_one({})
        await stage.client.command("db", {"ping": 1})
        await stage.client.command("db", {"ping": 1}, read_preference=secondary)

    stage = play(scenario, "readPreference=secondary")
    primary, secondary = stage.members
    assert [c["$readPreference"] for c in secondary.commands("find")] == [{"mode": "secondary"}]
    assert "$readPreference" not in primary.commands("ping")[0]
    assert secondary.commands("ping")


@pytest.mark.parametrize(
    ("hello", "preference"),
    [
        (standalone_hello(), None),
        (member_hello([1], 1, primary=None), {"mode": "primaryPreferred"}),
        (mongos_hello(), None),
    ],
    ids=["standalone", "member", "mongos"],
)
def test_a_direct_connection_may_read_from_any_member(
    hello: dict[str, Any], preference: dict[str, str] | None
) -> None:
    async def scenario(stage: Stage) -> None:
        await stage.collection.find_one({})

    stage = play(scenario, "directConnection=true", members=[ScriptedMongod(1, hello)])
    assert stage.primary.commands("find")[0].get("$readPreference") == preference


def test_an_aggregation_that_writes_goes_to_the_primary_of_an_old_deployment() -> None:
    async def scenario(stage: Stage) -> None:
        secondary = ReadPreference(ReadMode.SECONDARY)
        collection = stage.client.database("db").collection("t", read_preference=secondary)
        await collection.aggregate([{"$out": "o"}])

    new = play(scenario)
    assert [len(member.commands("aggregate")) for member in new.members] == [0, 1]
    members = [ScriptedMongod(p, member_hello([1, 2], p, primary=1, maxWireVersion=12)) for p in (1, 2)]
    old = play(scenario, members=members)
    assert [len(member.commands("aggregate")) for member in old.members] == [1, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.update_one({}, {"x": 1}), "must be a pipeline"),
        (lambda c: c.update_one({}, {}), "must be a pipeline"),
        (lambda c: c.replace_one({}, {"$set": {"x": 1}}), "cannot begin with an operator"),
        (lambda c: c.replace_one({}, [{"$set": {"x": 1}}]), "not a pipeline"),
        (lambda c: c.find_one_and_update({}, {"x": 1}), "must be a pipeline"),
        (lambda c: c.find_one_and_replace({}, {"$set": {}}), "cannot begin with an operator"),
        (lambda c: c.find({}, sorted={"x": 1}), "find takes no option 'sorted'; it takes allowDiskUse"),
        (lambda c: c.insert_one({"x": "y" * (16 * 1024 * 1024 + 20_000)}), "is larger than"),
    ],
)
def test_what_no_server_should_see_is_refused(
    call: Callable[[Collection], Awaitable[Any]], message: str
) -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(InvalidArgumentError, match=message):
            await call(stage.collection)

    assert play(scenario).primary.received == []


def test_a_drop_of_nothing_succeeds_and_other_errors_are_raised() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("drop", error(26, "ns not found"), error(13, "no"))
        await stage.collection.drop()
        with pytest.raises(ServerError):
            await stage.collection.drop()

    play(scenario)


@pytest.mark.spec("RW-12")
def test_a_refused_write_is_a_write_error_of_its_server() -> None:
    async def scenario(stage: Stage) -> None:
        refused = {"index": 0, "code": 11000, "errmsg": "E11000 duplicate"}
        stage.primary.will("insert", {"ok": 1.0, "n": 0, "writeErrors": [refused]})
        with pytest.raises(WriteError, match="E11000") as info:
            await stage.collection.insert_one({"_id": 1})
        assert (info.value.code, info.value.code_name) == (11000, "DuplicateKey")
        assert info.value.address == stage.primary.address

    play(scenario)


# --- cursors ---


def batch(cursor_id: int, *documents: dict[str, Any], first: bool = False) -> dict[str, Any]:
    key = "firstBatch" if first else "nextBatch"
    return {"ok": 1.0, "cursor": {"id": Int64(cursor_id), "ns": "db.things", key: list(documents)}}


def test_a_cursor_asks_for_batches_until_the_server_has_no_more() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", batch(7, {"x": 1}, first=True))
        stage.primary.will("getMore", batch(7), batch(0, {"x": 2}))
        cursor = await stage.collection.find({}, batchSize=1, comment="c")
        assert [document["x"] async for document in cursor] == [1, 2]
        assert not cursor.alive

    more = play(scenario).primary.commands("getMore")
    assert [plain(c) for c in more] == [
        {"getMore": 7, "collection": "things", "batchSize": 1, "comment": "c"}
    ] * 2
    assert isinstance(more[0]["getMore"], Int64)


def test_a_cursor_asks_for_no_more_than_its_limit() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", batch(7, {"x": 1}, {"x": 2}, first=True))
        stage.primary.will("getMore", batch(7, {"x": 3}, {"x": 4}), batch(0, {"x": 5}))
        await (await stage.collection.find({}, batchSize=2, limit=5)).to_list()
        stage.primary.will("find", batch(7, {"x": 1}, first=True))
        stage.primary.will("getMore", batch(0))
        await (await stage.collection.find({}, limit=5)).to_list()

    assert [c["batchSize"] for c in play(scenario).primary.commands("getMore")] == [2, 1, 4]


def test_a_cursor_that_is_closed_early_is_killed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", batch(7, {"x": 1}, first=True))
        stage.primary.will("killCursors", error(13, "no"))
        async with await stage.collection.find({}) as cursor:
            assert cursor.alive
        assert not cursor.alive

    assert plain(play(scenario).primary.commands("killCursors")[0]) == {
        "killCursors": "things",
        "cursors": [7],
    }


def test_a_cursor_that_the_server_forgot_is_not_killed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", batch(7, first=True))
        stage.primary.will("getMore", error(43, "cursor id 7 not found"))
        with pytest.raises(ServerError):
            await (await stage.collection.find({})).to_list()

    assert play(scenario).primary.commands("killCursors") == []


def test_a_tailable_cursor_ends_an_iteration_with_an_empty_batch_and_lives_on() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", batch(7, {"x": 1}, first=True))
        stage.primary.will("getMore", batch(7), batch(7, {"x": 2}))
        cursor = await stage.collection.find({}, cursorType="tailable", maxAwaitTimeMS=5)
        assert [document["x"] async for document in cursor] == [1]
        assert [await cursor.try_next()] == [{"x": 2}]
        await cursor.aclose()

    assert {c["maxTimeMS"] for c in play(scenario).primary.commands("getMore")} == {5}


def test_a_cursor_s_batches_come_from_its_server() -> None:
    async def scenario(stage: Stage) -> None:
        secondary = stage.client.database("db").collection(
            "things", read_preference=ReadPreference(ReadMode.SECONDARY)
        )
        stage.members[1].will("find", batch(7, {"x": 1}, first=True))
        stage.members[1].will("getMore", batch(0, {"x": 2}))
        assert len(await (await secondary.find({})).to_list()) == 2

    assert play(scenario).members[1].commands("getMore")[0]["$readPreference"] == {"mode": "secondary"}


def test_a_command_s_own_cursor_can_be_read_and_must_be_there() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("checkMetadata", batch(7, {"x": 1}, first=True))
        stage.primary.will("getMore", batch(0))
        database = stage.client.database("db")
        cursor = await database.cursor_command({"checkMetadata": 1}, paging=Paging(batch_size=5))
        assert await cursor.to_list() == [{"x": 1}]
        async with stage.client.start_session() as session:
            with pytest.raises(InvalidReplyError, match="holds no cursor"):
                await database.cursor_command({"ping": 1}, session=session)

    assert play(scenario).primary.commands("getMore")[0]["batchSize"] == 5


# --- splitting ---


@pytest.mark.spec("RW-14")
def test_an_ordered_bulk_write_keeps_its_order_and_an_unordered_one_groups() -> None:
    models: list[WriteModel] = [
        InsertOne(document={}),
        DeleteOne(filter={}),
        InsertOne(document={}),
        UpdateMany(filter={}, update={"$set": {}}),
        ReplaceOne(filter={}, replacement={}),
    ]
    ordered = [[index for index, _ in run] for run in runs(models, ordered=True)]
    assert ordered == [[0], [1], [2], [3, 4]]
    unordered = [[index for index, _ in run] for run in runs(models, ordered=False)]
    assert unordered == [[0, 2], [1], [3, 4]]


@pytest.mark.parametrize(
    ("sizes", "limits", "taken"),
    [
        ([10] * 5, Limits(max_write_batch_size=3), 3),
        ([10] * 5, Limits(max_message_size=1025), 2),
        ([10] * 5, Limits(), 5),
    ],
)
def test_a_command_takes_what_fits_by_number_and_by_size(
    sizes: list[int], limits: Limits, taken: int
) -> None:
    assert fitting(sizes, limits) == taken


def test_a_document_that_fits_no_message_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="does not fit into a message"):
        fitting([5000], Limits(max_message_size=2000))


def small(**extra: Any) -> list[ScriptedMongod]:
    return [ScriptedMongod(1, member_hello([1], 1, primary=1, maxWriteBatchSize=2, **extra))]


def test_a_bulk_write_is_split_and_its_indexes_are_those_of_the_request() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", {"ok": 1.0, "n": 2}, {"ok": 1.0, "n": 2})
        refused = {"index": 0, "code": 11000, "errmsg": "E11000"}
        stage.primary.will("insert", {"ok": 1.0, "n": 0, "writeErrors": [refused]})
        with pytest.raises(BulkWriteError) as info:
            await stage.collection.insert_many([{"_id": n} for n in range(5)])
        assert list(info.value.write_errors) == [4]
        assert info.value.partial.inserted_count == 4
        assert list(info.value.partial.inserted_ids) == [0, 1, 2, 3]

    stage = play(scenario, members=small())
    inserts = stage.primary.commands("insert")
    assert [len(command["documents"]) for command in inserts] == [2, 2, 1]
    assert [command["txnNumber"] for command in inserts] == [1, 2, 3]
    assert len({event.operation_id for event in stage.of_kind("commandStartedEvent")[:3]}) == 1


def test_a_bulk_write_sums_up_its_commands() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", {"ok": 1.0, "n": 1})
        upserted = [{"index": 1, "_id": 9}]
        stage.primary.will("update", {"ok": 1.0, "n": 2, "nModified": 1, "upserted": upserted})
        stage.primary.will("delete", {"ok": 1.0, "n": 3})
        result = await stage.collection.bulk_write(
            [
                InsertOne(document={"_id": 1}),
                UpdateOne(filter={}, update={"$set": {"x": 1}}),
                ReplaceOne(filter={}, replacement={}, upsert=True),
                DeleteMany(filter={}),
            ]
        )
        assert (result.inserted_count, result.matched_count, result.modified_count) == (1, 1, 1)
        assert (result.deleted_count, result.upserted_ids, result.inserted_ids) == (3, {2: 9}, {0: 1})

    play(scenario)


# --- client bulk write ---


def bulk_reply(*items: dict[str, Any], cursor_id: int = 0, **counts: Any) -> dict[str, Any]:
    cursor = {"id": Int64(cursor_id), "ns": "admin.$cmd.bulkWrite", "firstBatch": list(items)}
    return {"ok": 1.0, "cursor": cursor, "nErrors": 0, **counts}


MODELS: list[WriteModel] = [
    InsertOne(namespace="db.a", document={"_id": 1}),
    UpdateOne(namespace="db.b", filter={}, update={"$set": {"x": 1}}, upsert=True, hint="h"),
    DeleteOne(namespace="db.a", filter={"_id": 1}),
]


def test_a_client_bulk_write_names_each_namespace_once() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("bulkWrite", bulk_reply())
        await stage.client.bulk_write(MODELS, comment="c")

    sent = play(scenario).primary.commands("bulkWrite")[0]
    assert sent["txnNumber"] == 1
    assert plain(sent) == {
        "bulkWrite": 1,
        "errorsOnly": True,
        "ordered": True,
        "comment": "c",
        "ops": [
            {"insert": 0, "document": {"_id": 1}},
            {
                "update": 1,
                "filter": {},
                "updateMods": {"$set": {"x": 1}},
                "multi": False,
                "upsert": True,
                "hint": "h",
            },
            {"delete": 0, "filter": {"_id": 1}, "multi": False},
        ],
        "nsInfo": [{"ns": "db.a"}, {"ns": "db.b"}],
    }


def test_verbose_results_are_read_to_the_end_of_their_cursor() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will(
            "bulkWrite",
            bulk_reply({"ok": 1.0, "idx": 0, "n": 1}, cursor_id=5, nInserted=1, nUpserted=1, nDeleted=1),
        )
        rest = [
            {"ok": 1.0, "idx": 1, "n": 1, "nModified": 0, "upserted": {"_id": 8}},
            {"ok": 1.0, "idx": 2, "n": 1},
        ]
        cursor = {"id": Int64(0), "ns": "admin.$cmd.bulkWrite", "nextBatch": rest}
        stage.primary.will("getMore", {"ok": 1.0, "cursor": cursor})
        result = await stage.client.bulk_write(MODELS, verboseResults=True)
        assert (result.inserted_count, result.upserted_count, result.deleted_count) == (1, 1, 1)
        assert result.insert_results is not None
        assert result.insert_results[0].inserted_id == 1
        assert result.update_results == {1: UpdateResult(1, 0, 8, upserted=True)}
        assert result.delete_results == {2: DeleteResult(1)}

    more = play(scenario).primary.commands("getMore")[0]
    assert more["collection"] == "$cmd.bulkWrite"


def test_a_client_bulk_write_with_many_is_not_retryable() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("bulkWrite", bulk_reply())
        await stage.client.bulk_write([*MODELS, DeleteMany(namespace="db.a", filter={})])

    assert "txnNumber" not in play(scenario).primary.commands("bulkWrite")[0]


@pytest.mark.parametrize(("ordered", "sent"), [(True, 1), (False, 2)])
def test_errors_keep_the_index_of_the_request_and_end_an_ordered_one(ordered: bool, sent: int) -> None:  # noqa: FBT001 - a case
    refused = {"ok": 0.0, "idx": 1, "code": 11000, "errmsg": "E11000"}

    async def scenario(stage: Stage) -> None:
        stage.primary.will("bulkWrite", bulk_reply(refused, nInserted=1), bulk_reply(nInserted=1))
        models: list[WriteModel] = [InsertOne(namespace="db.a", document={"_id": n}) for n in range(3)]
        with pytest.raises(ClientBulkWriteError) as info:
            await stage.client.bulk_write(models, ordered=ordered)
        assert list(info.value.write_errors) == [1]
        assert info.value.partial.inserted_count == sent

    assert len(play(scenario, members=small()).primary.commands("bulkWrite")) == sent


def test_a_top_level_error_ends_a_client_bulk_write_with_what_was_done() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("bulkWrite", bulk_reply(nInserted=2), error(8, "boom"))
        models: list[WriteModel] = [InsertOne(namespace="db.a", document={"_id": n}) for n in range(3)]
        with pytest.raises(ClientBulkWriteError) as info:
            await stage.client.bulk_write(models)
        assert (info.value.code, info.value.partial.inserted_count) == (8, 2)
        stage.primary.will("bulkWrite", error(8, "boom"))
        with pytest.raises(ClientBulkWriteError) as first:
            await stage.client.bulk_write(models[:1])
        assert first.value.partial is None

    play(scenario, members=small())


def test_a_failure_to_read_the_results_keeps_what_was_read() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("bulkWrite", bulk_reply({"ok": 1.0, "idx": 0, "n": 1}, cursor_id=5, nInserted=1))
        stage.primary.will("getMore", error(8, "boom"))
        with pytest.raises(ClientBulkWriteError) as info:
            await stage.client.bulk_write(MODELS, verboseResults=True)
        assert info.value.code == 8
        assert info.value.partial.insert_results[0].inserted_id == 1

    assert len(play(scenario).primary.commands("killCursors")) == 1


def test_a_write_concern_error_does_not_end_a_client_bulk_write() -> None:
    async def scenario(stage: Stage) -> None:
        failed = {"code": 64, "errmsg": "slow"}
        stage.primary.will("bulkWrite", bulk_reply(nInserted=2, writeConcernError=failed), bulk_reply())
        models: list[WriteModel] = [InsertOne(namespace="db.a", document={"_id": n}) for n in range(3)]
        with pytest.raises(ClientBulkWriteError) as info:
            await stage.client.bulk_write(models)
        assert info.value.write_concern_errors == [failed]

    assert len(play(scenario, members=small()).primary.commands("bulkWrite")) == 2


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        ([], {}, "at least one model"),
        ([InsertOne(document={})], {}, "names its namespace"),
        (MODELS, {"verboseResults": True, "ordered": False}, "unacknowledged write concern and verbose"),
        (MODELS, {}, "unacknowledged write concern and ordered"),
        (
            [ReplaceOne(namespace="db.a", filter={}, replacement={"$x": 1})],
            {},
            "cannot begin with an operator",
        ),
    ],
)
def test_a_client_bulk_write_refuses_what_no_server_should_see(
    models: list[Any], options: dict[str, Any], message: str
) -> None:
    concern = WriteConcern(0) if "unacknowledged" in message else None

    async def scenario(stage: Stage) -> None:
        with pytest.raises(InvalidArgumentError, match=message):
            await stage.client.bulk_write(models, write_concern=concern, **options)

    play(scenario)


def test_an_unacknowledged_client_bulk_write_waits_for_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        result = await stage.client.bulk_write(MODELS, ordered=False, write_concern=WriteConcern(0))
        assert not result.acknowledged

    play(scenario)


def test_servers_before_8_0_take_no_client_bulk_write() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(InvalidArgumentError, match=r"version 8\.0 or newer"):
            await stage.client.bulk_write(MODELS)

    members = [ScriptedMongod(1, member_hello([1], 1, primary=1, maxWireVersion=21))]
    assert play(scenario, members=members).primary.received == []


def test_large_documents_are_sent_in_as_many_messages_as_they_need() -> None:
    async def scenario(stage: Stage) -> None:
        document = {"x": "y" * 30_000}
        await stage.collection.insert_many([document] * 4)

    members = replica_set([1])
    members[0].hello["maxMessageSizeBytes"] = 70_000
    stage = play(scenario, members=members)
    inserts = stage.primary.commands("insert")
    assert [len(command["documents"]) for command in inserts] == [2, 2]
    assert all(len(bson.encode(command)) < 70_000 for command in inserts)

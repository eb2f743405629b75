"""Collections, views, indexes and databases: made, changed, listed and dropped as on a server."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Decimal128, Int64
from data_commands import Server

from fakeserver.errors import CommandError


def failure(server: Server, command: dict[str, Any], **where: Any) -> CommandError:
    with pytest.raises(CommandError) as caught:
        server.run(command, **where)
    return caught.value


def listed(server: Server, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.run({"listCollections": 1, **options})["cursor"]["firstBatch"]
    return found


def indexes(server: Server, collection: str = "c") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.run({"listIndexes": collection})["cursor"]["firstBatch"]
    return found


def make_index(server: Server, key: dict[str, Any], name: str, **options: Any) -> dict[str, Any]:
    return server.run({"createIndexes": "c", "indexes": [{"key": key, "name": name, **options}]})


OPTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"capped": True, "size": 4096, "max": 5}, {"capped": True, "size": 4096, "max": 5}),
    ({"validator": {"x": 1}}, {"validator": {"x": 1}}),
    (
        {"timeseries": {"timeField": "t"}, "expireAfterSeconds": 5},
        {
            "timeseries": {"timeField": "t", "granularity": "seconds", "bucketMaxSpanSeconds": 3600},
            "expireAfterSeconds": 5,
        },
    ),
    (
        {"clusteredIndex": {"key": {"_id": 1}, "unique": True, "name": "by id"}},
        {"clusteredIndex": {"v": 2, "key": {"_id": 1}, "name": "by id", "unique": True}},
    ),
    (
        {"changeStreamPreAndPostImages": {"enabled": True}},
        {"changeStreamPreAndPostImages": {"enabled": True}},
    ),
    (
        {"timeseries": {"timeField": "t"}},
        {"timeseries": {"timeField": "t", "granularity": "seconds", "bucketMaxSpanSeconds": 3600}},
    ),
    ({"encryptedFields": {"fields": []}}, {"encryptedFields": {"fields": []}}),
    ({"viewOn": "d", "pipeline": []}, {"viewOn": "d", "pipeline": []}),
]


@pytest.mark.parametrize(("options", "shown"), OPTIONS)
def test_list_collections_echoes_the_options(options: dict[str, Any], shown: dict[str, Any]) -> None:
    server = Server()
    assert server.run({"create": "c", **options}) == {}
    assert listed(server, filter={"name": "c"})[0]["options"] == shown
    assert server.run({"create": "c", **options}) == {}, "the same again is no error"


def test_a_collection_is_described_in_a_servers_order() -> None:
    server = Server()
    server.run({"create": "c"})
    (described,) = listed(server)
    assert list(described) == ["name", "type", "options", "info", "idIndex"]
    assert described["type"] == "collection"
    assert list(described["info"]) == ["readOnly", "uuid"]
    assert isinstance(described["info"]["uuid"], Binary)
    assert described["idIndex"] == {"v": 2, "key": {"_id": 1}, "name": "_id_"}


def test_a_view_is_read_only_and_brings_system_views() -> None:
    server = Server()
    server.run({"create": "v", "viewOn": "c"})
    view, system = listed(server)
    assert (view["type"], view["info"]) == ("view", {"readOnly": True})
    assert system["name"] == "system.views"


def test_creating_what_is_there_with_other_options_fails() -> None:
    server = Server()
    server.run({"create": "c"})
    error = failure(server, {"create": "c", "capped": True, "size": 1})
    assert error.code == 48
    assert error.message.startswith("namespace db.c already exists, but with different options: ")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"capped": True}, 72),
        ({"size": 5}, 72),
        ({"pipeline": []}, 72),
        ({"viewOn": "c", "pipeline": [{"$nonsense": 1}]}, 40324),
        ({"timeseries": {}}, 40414),
        ({"validator": {"$foo": 1}}, 2),
        ({"unknown": 1}, 40415),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], code: int) -> None:
    server = Server()
    assert failure(server, {"create": "c", **options}).code == code
    assert listed(server) == []


@pytest.mark.parametrize("name", ["a$b", "system.things", "c" * 255])
def test_names_that_cannot_be_are_refused(name: str) -> None:
    assert failure(Server(), {"create": name}).code == 73


def test_list_collections_filters_and_names() -> None:
    server = Server()
    for name in ("b", "a"):
        server.run({"create": name})
    assert listed(server, nameOnly=True) == [
        {"name": "a", "type": "collection"},
        {"name": "b", "type": "collection"},
    ]
    assert [each["name"] for each in listed(server, filter={"name": "b"})] == ["b"]
    opened = server.run({"listCollections": 1, "cursor": {"batchSize": 1}})["cursor"]
    assert (len(opened["firstBatch"]), opened["ns"]) == (1, "db.$cmd.listCollections")
    more = server.run({"getMore": opened["id"], "collection": "$cmd.listCollections"})
    assert len(more["cursor"]["nextBatch"]) == 1


def test_drop_tells_what_was_there() -> None:
    server = Server()
    server.run({"create": "c"})
    assert server.run({"drop": "c"}) == {"nIndexesWas": 1, "ns": "db.c"}
    assert server.run({"drop": "c"}) == {}


def test_rename_moves_a_collection() -> None:
    server = Server()
    server.fill("c", {"_id": 1})
    server.fill("d", {"_id": 2})
    rename = {"renameCollection": "db.c", "to": "db.d"}
    error = failure(server, rename, db="admin")
    assert (error.code, error.message) == (48, "target namespace exists")
    assert server.run({**rename, "dropTarget": True}, db="admin") == {}
    assert server.documents("d") == [{"_id": 1}]
    error = failure(server, rename, db="admin")
    assert (error.code, error.message) == (26, "Source collection db.c does not exist")


def test_databases_are_listed_and_dropped() -> None:
    server = Server()
    server.fill("c", {"_id": 1})
    names = server.run({"listDatabases": 1, "nameOnly": True}, db="admin")["databases"]
    assert names == [{"name": "admin"}, {"name": "config"}, {"name": "db"}, {"name": "local"}]
    reply = server.run({"listDatabases": 1, "filter": {"name": "db"}}, db="admin")
    assert list(reply) == ["databases", "totalSize", "totalSizeMb"]
    assert list(reply["databases"][0]) == ["name", "sizeOnDisk", "empty"]
    assert isinstance(reply["totalSize"], Int64)
    assert server.run({"dropDatabase": 1}) == {"dropped": "db"}
    assert server.run({"dropDatabase": 1}) == {}
    assert failure(server, {"dropDatabase": 1}, db="admin").code == 20


def test_create_indexes_counts_them() -> None:
    server = Server()
    assert make_index(server, {"x": 1}, "x_1") == {
        "numIndexesBefore": 1,
        "numIndexesAfter": 2,
        "createdCollectionAutomatically": True,
        "commitQuorum": "votingMembers",
    }
    assert make_index(server, {"x": 1}, "x_1") == {
        "numIndexesBefore": 2,
        "numIndexesAfter": 2,
        "createdCollectionAutomatically": False,
        "note": "all indexes already exist",
    }


def test_list_indexes_echoes_the_options() -> None:
    server = Server()
    options = {
        "unique": True,
        "expireAfterSeconds": 5,
        "partialFilterExpression": {"x": {"$gt": 1}},
        "hidden": True,
    }
    make_index(server, {"x": 1}, "x_1", **options)
    assert indexes(server) == [
        {"v": 2, "key": {"_id": 1}, "name": "_id_"},
        {"v": 2, "key": {"x": 1}, "name": "x_1", **options},
    ]
    assert failure(server, {"listIndexes": "nothing"}).message == "ns does not exist: db.nothing"


@pytest.mark.parametrize(
    ("key", "name", "options", "code"),
    [
        ({"x": 1}, "other", {}, 85),
        ({"y": 1}, "x_1", {}, 86),
        ({"x": 1}, "x_1", {"unique": True}, 85),
        ({}, "empty", {}, 67),
        ({"y": "nonsense"}, "y", {}, 67),
        ({"y": 0}, "y", {}, 67),
        ({"y": 1}, "y", {"nonsense": 1}, 197),
        ({"_id": 1}, "_id_", {"sparse": True}, 197),
    ],
)
def test_indexes_that_cannot_be_are_refused(
    key: dict[str, Any], name: str, options: dict[str, Any], code: int
) -> None:
    server = Server()
    make_index(server, {"x": 1}, "x_1")
    command = {"createIndexes": "c", "indexes": [{"key": key, "name": name, **options}]}
    assert failure(server, command).code == code
    assert len(indexes(server)) == 2


def test_a_unique_index_over_duplicates_is_not_built() -> None:
    server = Server()
    server.fill("c", {"_id": 1, "x": 1}, {"_id": 2, "x": 1})
    error = failure(
        server, {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1", "unique": True}]}
    )
    assert error.code == 11000
    assert error.message.startswith("Index build failed: ")
    assert error.extra == {"keyPattern": {"x": 1}, "keyValue": {"x": 1}}
    assert len(indexes(server)) == 1


@pytest.mark.parametrize(
    ("index", "reply"),
    [
        ("x_1", {"nIndexesWas": 3}),
        ({"x": 1}, {"nIndexesWas": 3}),
        (["x_1", "y_1"], {"nIndexesWas": 3}),
        ("*", {"nIndexesWas": 3, "msg": "non-_id indexes dropped for collection"}),
    ],
)
def test_drop_indexes_tells_how_many_there_were(index: Any, reply: dict[str, Any]) -> None:
    server = Server()
    make_index(server, {"x": 1}, "x_1")
    make_index(server, {"y": 1}, "y_1")
    assert server.run({"dropIndexes": "c", "index": index}) == reply


@pytest.mark.parametrize(
    ("collection", "index", "code", "message"),
    [
        ("c", "nope", 27, "index not found with name [nope]"),
        ("c", {"z": 1}, 27, "can't find index with key: { z: 1 }"),
        ("c", "_id_", 72, "cannot drop _id index"),
        ("nothing", "*", 26, "ns not found db.nothing"),
    ],
)
def test_drop_indexes_refuses(collection: str, index: Any, code: int, message: str) -> None:
    server = Server()
    server.run({"create": "c"})
    error = failure(server, {"dropIndexes": collection, "index": index})
    assert (error.code, error.message) == (code, message)


def test_coll_mod_changes_options() -> None:
    server = Server()
    server.run({"create": "c"})
    images = {"changeStreamPreAndPostImages": {"enabled": True}}
    assert server.run({"collMod": "c", **images, "validator": {"x": 1}}) == {}
    assert listed(server)[0]["options"] == {**images, "validator": {"x": 1}}
    server.run({"collMod": "c", "validator": {}, "changeStreamPreAndPostImages": {"enabled": False}})
    assert listed(server)[0]["options"] == {}
    error = failure(server, {"collMod": "nothing"})
    assert (error.code, error.message) == (26, "ns does not exist")


def test_coll_mod_changes_indexes() -> None:
    server = Server()
    make_index(server, {"x": 1}, "x_1", expireAfterSeconds=5)
    change = {"name": "x_1", "expireAfterSeconds": 9, "hidden": True}
    assert server.run({"collMod": "c", "index": change}) == {
        "expireAfterSeconds_old": 5,
        "expireAfterSeconds_new": 9,
        "hidden_old": False,
        "hidden_new": True,
    }
    assert indexes(server)[1]["hidden"] is True
    assert failure(server, {"collMod": "c", "index": {"name": "nope", "hidden": True}}).code == 27


def test_an_index_becomes_unique_once_nothing_violates_it() -> None:
    server = Server()
    server.fill("c", {"_id": 1, "x": 1}, {"_id": 2, "x": 1})
    make_index(server, {"x": 1}, "x_1")
    prepare = {"collMod": "c", "index": {"keyPattern": {"x": 1}, "prepareUnique": True}}
    assert server.run(prepare) == {"prepareUnique_old": False, "prepareUnique_new": True}
    (error,) = server.run({"insert": "c", "documents": [{"_id": 3, "x": 1}]})["writeErrors"]
    assert error["code"] == 11000
    convert = {"collMod": "c", "index": {"keyPattern": {"x": 1}, "unique": True}}
    refused = failure(server, convert)
    assert (refused.code, refused.extra) == (359, {"violations": [{"ids": [1, 2]}]})
    server.run({"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}]})
    assert server.run(convert) == {"unique_new": True}
    assert indexes(server)[1] == {"v": 2, "key": {"x": 1}, "name": "x_1", "unique": True}


def test_a_collection_uuid_must_be_the_collections() -> None:
    server = Server()
    server.run({"create": "c"})
    uuid = listed(server)[0]["info"]["uuid"]
    assert server.run({"find": "c", "collectionUUID": uuid})["cursor"]["firstBatch"] == []
    error = failure(server, {"find": "c", "collectionUUID": Binary(b"x" * 16, 4)})
    assert error.code == 361
    assert error.extra["expectedCollection"] == "c"


def test_sizes_are_told() -> None:
    server = Server()
    server.fill("c", {"_id": 1}, {"_id": 2})
    stats = server.run({"collStats": "c"})
    assert (stats["ns"], stats["count"], stats["size"], stats["avgObjSize"]) == ("db.c", 2, 28, 14)
    whole = server.run({"dbStats": 1})
    assert (whole["db"], whole["collections"], whole["objects"], whole["dataSize"]) == ("db", 1, 2, 28.0)
    sound = server.run({"validate": "c"})
    assert (sound["valid"], sound["nrecords"]) == (True, 2)
    assert failure(server, {"validate": "nothing"}).code == 26


@pytest.mark.parametrize("command", ["createSearchIndexes", "updateSearchIndex", "dropSearchIndex"])
def test_search_indexes_need_atlas(command: str) -> None:
    error = failure(Server(), {command: "c"})
    assert error.code == 31082
    assert "Atlas" in error.message


def test_changes_of_the_catalog_move_the_operation_time() -> None:
    server = Server()
    for command in (
        {"create": "c"},
        {"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}]},
        {"collMod": "c", "validator": {"x": 1}},
        {"dropIndexes": "c", "index": "*"},
        {"drop": "c"},
    ):
        before = server.oplog.last
        server.run(command)
        assert server.oplog.last > before, command


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (Decimal128("7"), 7),
        (7.9, 7),
        (Decimal128("NaN"), 72),
        (float("nan"), 72),
        (Decimal128("1E+40"), 72),
        (float("inf"), 72),
        (-1, 72),
        ("x", 14),
    ],
    ids=str,
)
def test_an_expiry_of_any_number_type_is_taken_or_refused(given: Any, outcome: int) -> None:
    server = Server()
    index = {"key": {"d": 1}, "name": "d_1", "expireAfterSeconds": 5}
    server.run({"createIndexes": "c", "indexes": [index]})
    change = {"collMod": "c", "index": {"name": "d_1", "expireAfterSeconds": given}}
    if outcome == 7:
        assert server.run(change)["expireAfterSeconds_new"] == 7
        return
    with pytest.raises(CommandError) as refused:
        server.run(change)
    assert refused.value.code == outcome

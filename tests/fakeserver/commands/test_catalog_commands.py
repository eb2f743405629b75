"""Collections, views, indexes and databases: made, changed, listed and dropped as on a server."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, Regex
from data_commands import Server

from fakeserver.errors import CommandError
from fakeserver.profile import Profile
from fakeserver.storage.port.engine import Namespace


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


def test_system_views_is_a_collection_that_holds_the_definitions_of_views() -> None:
    server = Server()
    server.run({"create": "v", "viewOn": "c", "pipeline": [{"$match": {"a": 1}}]})
    server.run({"create": "w", "viewOn": "c", "collation": {"locale": "fr"}})
    (v, w) = server.documents("system.views")
    assert v == {"_id": "db.v", "viewOn": "c", "pipeline": [{"$match": {"a": 1}}]}
    assert (w["_id"], w["collation"]["locale"]) == ("db.w", "fr")
    server.run({"collMod": "v", "viewOn": "d", "pipeline": []})
    server.run({"drop": "w"})
    assert server.documents("system.views") == [{"_id": "db.v", "viewOn": "d", "pipeline": []}]
    (index,) = server.run({"listIndexes": "system.views"})["cursor"]["firstBatch"]
    assert index["name"] == "_id_"
    server.run({"create": "c"})
    assert {name: server.run({"dbStats": 1})[name] for name in ("collections", "views")} == {
        "collections": 2,
        "views": 1,
    }
    hashed = server.run({"dbHash": 1})
    assert set(hashed["collections"]) == set(hashed["uuids"]) == {"c", "system.views"}
    assert failure(server, {"collMod": "system.views", "validator": {"a": 1}}).code == 72
    assert server.run({"drop": "system.views"}) == {"nIndexesWas": 1, "ns": "db.system.views"}
    assert [each["name"] for each in listed(server)] == ["c"]


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
    assert failure(server, {"dropDatabase": 2}).code == 5255100
    assert server.run({"dropDatabase": 1}) == {}
    assert not server.catalog.collections("db")
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
        ({"x": 1}, "x_1", {"unique": True}, 86),
        ({"x": 1}, "x_1", {"hidden": True}, 85),
        ({"x": 1}, "x_1", {"expireAfterSeconds": 9}, 85),
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
        (Decimal128("6.5"), 6),
        (7.9, 7),
        (-0.5, 0),
        (Decimal128("NaN"), 0),
        (float("nan"), 0),
        (Decimal128("1E+40"), 2**31 - 1),
        (float("inf"), 2**31 - 1),
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
    if outcome not in {72, 14}:
        reply = server.run(change)
        assert (reply["expireAfterSeconds_old"], reply["expireAfterSeconds_new"]) == (5, outcome)
        return
    with pytest.raises(CommandError) as refused:
        server.run(change)
    assert refused.value.code == outcome


UUID = Binary(bytes(range(16)), 4)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"capped": True, "size": 2**50 + 1}, 2),
        ({"capped": True, "size": 100, "max": 2**31}, 2),
        ({"clusteredIndex": True}, 5979703),
        ({"clusteredIndex": 1}, 5979703),
        ({"clusteredIndex": None}, 14),
        ({"clusteredIndex": {"key": {"_id": 1}, "unique": False}}, 5979700),
        ({"clusteredIndex": {"key": {"_id": 1}, "unique": True, "v": 1}}, 5979704),
        ({"clusteredIndex": {"key": {"_id": 1}, "unique": True}, "capped": True, "size": 100}, 6049200),
        ({"clusteredIndex": {"key": {"_id": 1}, "unique": True}, "max": 5}, 6049204),
        ({"clusteredIndex": {"key": {"_id": 1}, "unique": True}, "viewOn": "d"}, 6026500),
        ({"clusteredIndex": {"key": {"_id": 1}, "unique": True}, "expireAfterSeconds": 2**40}, 72),
        ({"idIndex": {"key": {"_id": 1}}}, 9),
        ({"idIndex": {"key": {"_id": -1}, "name": "_id_"}}, 2),
        ({"idIndex": {"key": 1, "name": "_id_"}}, 14),
        ({"idIndex": {"key": {"_id": 1}, "name": "_id_", "v": 3}}, 67),
        ({"idIndex": {"key": {"_id": 1}, "name": "_id_", "sparse": True}}, 197),
        ({"idIndex": {"key": {"_id": 1}, "name": "_id_", "collation": {"locale": "fr"}}}, 2),
        ({"idIndex": {"key": {"_id": 1}, "name": "_id_"}, "viewOn": "d"}, 72),
        ({"changeStreamPreAndPostImages": {"enabled": 1}}, 14),
        ({"changeStreamPreAndPostImages": {"enabled": True}, "viewOn": "d"}, 72),
        ({"storageEngine": {"other": {}}}, 72),
        ({"storageEngine": {"wiredTiger": 1}}, 2),
        ({"storageEngine": {"wiredTiger": {"configString": "nothing=1"}}}, 2),
        ({"indexOptionDefaults": {"other": 1}}, 40415),
        ({"validator": {"a": {"$near": [0, 0]}}}, 5626500),
        ({"validator": {"$where": "true"}}, 2),
        ({"viewOn": ""}, 2),
        ({"viewOn": "d", "pipeline": [{"$out": "e"}]}, 167),
        ({"viewOn": "d", "pipeline": [{"$currentOp": {}}]}, 73),
        ({"viewOn": "d", "pipeline": [{"$changeStream": {}}]}, 167),
        ({"viewOn": "d", "pipeline": [{"$match": {"a": "x" * 16_000_000}}]}, 195),
        ({"viewOn": "d", "pipeline": [{"$match": {}}] * 1001}, 7749501),
        ({"viewOn": "d", "pipeline": [1]}, 14),
        ({"timeseries": {"timeField": "t\0"}}, 2),
        ({"timeseries": {"timeField": "t", "bucketMaxSpanSeconds": 31536001}}, 2),
    ],
    ids=str,
)
def test_options_that_do_not_fit_a_collection_are_refused(options: dict[str, Any], code: int) -> None:
    assert failure(Server(), {"create": "c", **options}).code == code


@pytest.mark.parametrize(("name", "code"), [("", 2), (".d", 73), ("$d", 73), ("d\0", 73)])
def test_a_view_stands_on_a_collection_that_has_a_name(name: str, code: int) -> None:
    server = Server()
    server.run({"create": "view", "viewOn": "c"})
    assert failure(server, {"collMod": "view", "viewOn": name, "pipeline": []}).code == code


def _range(**more: Any) -> dict[str, Any]:
    return {"path": "a", "bsonType": "int", "queries": {"queryType": "range", **more}}


def _part(**more: Any) -> dict[str, Any]:
    lengths = {"strMinQueryLength": 1, "strMaxQueryLength": 2}
    text = {**lengths, "caseSensitive": True, "diacriticSensitive": True, **more}
    query = {name: value for name, value in text.items() if value is not None}
    return {"path": "a", "bsonType": "string", "queries": {"queryType": "prefixPreview", **query}}


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ({"path": ""}, 6316402),
        ({"path": "_id.a"}, 6316403),
        ({"path": "a\0"}, 9867600),
        ({"path": "a", "keyId": Binary(bytes(16), 0)}, 14),
        ({"path": "a", "keyId": Binary(bytes(8), 4)}, 207),
        ({"path": "a", "bsonType": "minKey"}, 6338406),
        ({"path": "a", "bsonType": "nothing"}, 2),
        ({"path": "a", "queries": None}, 14),
        ({"path": "a", "queries": []}, 9783412),
        ({"path": "a", "queries": {"queryType": "nothing"}}, 2),
        ({"path": "a", "queries": {"queryType": "equality", "contention": 0.5}}, 9),
        ({"path": "a", "queries": {"queryType": "equality", "contention": -1}}, 2),
        ({"path": "a", "queries": [{"queryType": "equality"}] * 3}, 9783413),
        ({"path": "a", "queries": [{"queryType": "equality"}, {"queryType": "range"}]}, 9783414),
        ({**_range(), "bsonType": "string"}, 6775201),
        (_range(min=1.5), 7018200),
        (_range(min=5, max=5), 6720005),
        (_range(trimFactor=32), 8574000),
        ({**_part(), "bsonType": "int"}, 9783400),
        (_part(strMinQueryLength=None), 9783402),
        (_part(strMaxQueryLength=None), 9783403),
        (_part(caseSensitive=None), 9783404),
        (_part(diacriticSensitive=None), 9783405),
        (_part(strMinQueryLength=3), 9783406),
    ],
    ids=str,
)
def test_a_field_that_no_client_could_encrypt_is_refused(field: dict[str, Any], code: int) -> None:
    command = {"create": "c", "encryptedFields": {"fields": [field]}}
    assert failure(Server(), command).code == code


def test_nulls_among_encrypted_fields_are_passed_over() -> None:
    server = Server()
    field = {"path": "a", "bsonType": "int"}
    server.run({"create": "c", "encryptedFields": {"fields": [None, field, None]}})
    (described,) = listed(server)
    assert described["options"]["encryptedFields"]["fields"] == [field]


@pytest.mark.parametrize("plain", [None, "123-45-6789", 5, Binary(b"x")], ids=repr)
def test_a_value_that_is_not_encrypted_is_refused_where_clients_encrypt(plain: Any) -> None:
    server = Server()
    fields = [{"path": path, "bsonType": "string"} for path in ("ssn", "o.x")]
    server.run({"create": "c", "encryptedFields": {"fields": fields}})
    server.fill("c", {"_id": 1}, {"_id": 2, "ssn": Binary(b"\x0ex", 6), "o": {"y": 1}})
    for document in ({"ssn": plain}, {"o": {"x": plain}}):
        reply = server.run({"insert": "c", "documents": [document]})
        assert [each["code"] for each in reply["writeErrors"]] == [121]
    update = {"q": {"_id": 1}, "u": {"$set": {"ssn": plain}}}
    assert server.run({"update": "c", "updates": [update]})["writeErrors"][0]["code"] == 121
    passing = {"insert": "c", "documents": [{"ssn": plain}], "bypassDocumentValidation": True}
    assert server.run(passing) == {"n": 1}


def test_collections_are_listed_by_the_stages_of_views() -> None:
    server = Server()
    server.run({"create": "v", "viewOn": "c", "pipeline": [{"$match": {"a": 1}}, {"$limit": 2}]})
    for stages, found in (([{"$limit": 2}], ["v"]), ([{"$limit": 2}, {"$match": {"a": 2}}], [])):
        chosen = listed(server, filter={"options.pipeline": {"$all": stages}})
        assert [each["name"] for each in chosen] == found


def test_an_encrypted_collection_has_nothing_to_compact_and_wants_a_token_for_each_field() -> None:
    server = Server()
    queried = {"path": "a", "bsonType": "int", "queries": {"queryType": "equality"}}
    server.run({"create": "c", "encryptedFields": {"fields": [queried]}})
    server.run({"create": "plain"})
    server.run({"create": "view", "viewOn": "c"})
    name = "compactStructuredEncryptionData"
    assert "stats" in server.run({name: "c", "compactionTokens": {"a": b""}})
    for collection, code in (("c", 7294900), ("plain", 6346807), ("view", 166), ("none", 26)):
        assert failure(server, {name: collection, "compactionTokens": {}}).code == code
    server.run({"create": "unqueried", "encryptedFields": {"fields": [{"path": "a", "bsonType": "int"}]}})
    for tokens in ({}, {"": b""}, {"a.b": b""}):
        assert failure(server, {name: "unqueried", "compactionTokens": tokens}).code == 7294900


def test_what_coll_mod_changes_of_an_index_comes_last_and_what_is_as_it_was_changes_nothing() -> None:
    server = Server()
    make_index(server, {"a": 1}, "a_1", expireAfterSeconds=1, sparse=True)
    server.run({"collMod": "c", "index": {"name": "a_1", "expireAfterSeconds": 200.5, "hidden": True}})
    shown = server.run({"listIndexes": "c"})["cursor"]["firstBatch"][-1]
    assert list(shown.items())[3:] == [("sparse", True), ("expireAfterSeconds", 200), ("hidden", True)]
    assert type(shown["expireAfterSeconds"]) is int
    server.run({"collMod": "c", "index": {"name": "a_1", "hidden": False}})
    server.run({"find": "c", "filter": {"a": 1}, "hint": "a_1"})
    server.run({"collMod": "c", "index": {"name": "a_1", "hidden": False}})
    assert server.catalog.engine.usage(Namespace("db", "c"))["a_1"] == 1


def test_no_index_of_a_system_collection_is_hidden() -> None:
    server = Server()
    index = {"key": {"a": 1}, "name": "a_1"}
    assert failure(server, {"createIndexes": "system.js", "indexes": [{**index, "hidden": True}]}).code == 2
    server.run({"createIndexes": "system.js", "indexes": [index]})
    assert failure(server, {"collMod": "system.js", "index": {"name": "a_1", "hidden": True}}).code == 2


@pytest.mark.parametrize(
    "change", [{"cappedSize": 4096}, {"cappedMax": 5}, {"timeseries": {}, "cappedMax": 5}]
)
def test_bounds_of_a_capped_collection_are_none_of_a_time_series(change: dict[str, Any]) -> None:
    server = Server()
    server.run({"create": "t", "timeseries": {"timeField": "at"}})
    before = server.run({"listCollections": 1})["cursor"]["firstBatch"]
    server.run({"collMod": "t", **change})
    assert server.run({"listCollections": 1})["cursor"]["firstBatch"] == before
    server.run({"create": "plain"})
    assert failure(server, {"collMod": "plain", **change}).code == 72


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"index": {"name": "a_1"}}, 72),
        ({"index": {"name": "a_1", "unique": False}}, 2),
        ({"index": {"name": "a_1", "prepareUnique": True, "hidden": True}}, 72),
        ({"index": {"name": "a_1", "hidden": True}, "dryRun": True}, 72),
        ({"dryRun": True}, 72),
        ({"validator": {"$text": {"$search": "x"}}}, 2),
        ({"validator": {"a": {"$regex": "x" * 16_385}}}, 51091),
        ({"validator": {"a": Regex("x" * 16_385)}}, 51091),
        ({"expireAfterSeconds": None}, 14),
    ],
    ids=str,
)
def test_coll_mod_refuses_what_changes_nothing_or_does_not_go_together(
    change: dict[str, Any], code: int
) -> None:
    server = Server()
    make_index(server, {"a": 1}, "a_1")
    assert failure(server, {"collMod": "c", **change}).code == code


@pytest.mark.parametrize(
    ("source", "target", "code"),
    [
        ("db.c", "db.system.users", 20),
        ("db.system.js", "db.d", 20),
        ("db.c", "local.oplog.rs", 20),
        ("db.c", "db.$d", 20),
        ("db.c", "db." + "d" * 300, 20),
        ("db.c", "d" * 64 + ".d", 73),
        ("db.c", "d/b.d", 73),
        ("db.c", "db..d", 73),
        ("db.c", "DB.d", 13297),
        ("db.view", "db.d", 166),
        ("db.series", "db.d", 166),
    ],
)
def test_a_collection_cannot_be_renamed_to_everything(source: str, target: str, code: int) -> None:
    server = Server()
    server.run({"create": "c"})
    server.run({"create": "view", "viewOn": "c"})
    server.run({"create": "series", "timeseries": {"timeField": "t"}})
    assert failure(server, {"renameCollection": source, "to": target}, db="admin").code == code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"collectionUUID": UUID}, 361),
        ({"collectionUUID": Binary(bytes(16), 3)}, 14),
        ({"collectionUUID": Binary(bytes(8), 4)}, 207),
        ({"dropTarget": UUID}, 361),
        ({"dropTarget": Binary(bytes(16), 3)}, 207),
        ({"dropTarget": UUID, "to": "other.d"}, 72),
        ({"dropTarget": True, "to": "db.view"}, 48),
    ],
    ids=str,
)
def test_a_rename_checks_the_uuids_that_it_names(options: dict[str, Any], code: int) -> None:
    server = Server()
    server.run({"create": "c"})
    server.run({"create": "view", "viewOn": "c"})
    command = {"renameCollection": "db.c", "to": "db.d", **options}
    assert failure(server, command, db="admin").code == code


def test_a_filter_sees_no_more_than_names_where_only_names_are_listed() -> None:
    server = Server()
    server.run({"create": "c"})
    assert listed(server, nameOnly=True, filter={"options": {}}) == []
    assert [each["name"] for each in listed(server, nameOnly=True, filter={"info": None})] == ["c"]
    by_size = {"listDatabases": 1, "nameOnly": True, "filter": {"sizeOnDisk": {"$gt": 0}}}
    assert server.run(by_size, db="admin")["databases"] == []
    near = {"listDatabases": 1, "filter": {"name": {"$near": [0, 0]}}}
    assert failure(server, near, db="admin").code == 5626500


def test_a_clustered_collection_lies_in_the_order_of_its_ids_and_keeps_that_index() -> None:
    server = Server()
    server.run({"create": "c", "clusteredIndex": {"key": {"_id": Decimal128("1")}, "unique": True}})
    server.fill("c", {"_id": 3}, {"_id": 1}, {"_id": 2})

    def ids(**more: Any) -> list[Any]:
        return [each["_id"] for each in server.run({"find": "c", **more})["cursor"]["firstBatch"]]

    assert (ids(), ids(hint={"$natural": -1})) == ([1, 2, 3], [3, 2, 1])
    assert "idIndex" not in listed(server)[0]
    assert failure(server, {"dropIndexes": "c", "index": "_id_"}).code == 5979800
    assert failure(server, {"collMod": "c", "index": {"name": "_id_", "hidden": True}}).code == 6011800
    made = make_index(server, {"a": 1}, "a_1")
    assert (made["numIndexesBefore"], made["numIndexesAfter"]) == (0, 1)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"background": True, "full": "yes"}, 72),
        ({"metadata": 1, "repair": True}, 72),
        ({"checkBSONConformance": True, "repair": True}, 72),
    ],
    ids=str,
)
def test_validate_refuses_options_that_do_not_go_together(options: dict[str, Any], code: int) -> None:
    server = Server()
    server.run({"create": "c"})
    assert failure(server, {"validate": "c", **options}).code == code


def test_validate_tells_what_it_repairs_and_counts_no_documents_for_metadata_alone() -> None:
    server = Server()
    server.fill("c", {"_id": 1})
    assert server.run({"validate": "c"})["repairMode"] == "None"
    assert server.run({"validate": "c", "repair": True})["repairMode"] == "FixErrors"
    assert server.run({"validate": "c", "fixMultikey": 1})["repairMode"] == "AdjustMultikey"
    assert "nrecords" not in server.run({"validate": "c", "metadata": True})


def test_the_metadata_that_an_api_version_excludes_are_named() -> None:
    server = Server()
    make_index(server, {"b": 1}, "b_1", sparse=True)
    make_index(server, {"a": "text"}, "a_text")
    make_index(server, {"c": 1}, "c_1", unique=True)

    def named(db: str | None = None, **parameters: Any) -> list[str]:
        command: dict[str, Any] = {"validateDBMetadata": 1, "apiParameters": {"version": "1", **parameters}}
        errors = server.run(command if db is None else {**command, "db": db})["apiVersionErrors"]
        assert {each["code"] for each in errors} <= {323}
        return [each["errmsg"].split()[4] for each in errors]

    assert named(strict=True) == ["b_1", "a_text"]
    assert named("other", strict=True) == named() == named(strict=True, version="2") == []
    for db, code in (("", 28539), ("a b", 13280), ("a.b", 73)):
        command = {"validateDBMetadata": 1, "apiParameters": {"version": "1"}, "db": db}
        assert failure(server, command).code == code


def test_a_dry_run_of_coll_mod_looks_and_changes_nothing() -> None:
    server = Server()
    make_index(server, {"x": 1}, "x_1", prepareUnique=True)
    unique = {"collMod": "c", "index": {"keyPattern": {"x": 1}, "unique": True}}
    assert server.run({**unique, "dryRun": True}) == {}
    assert "unique" not in indexes(server)[1]
    assert server.run(unique) == {"unique_new": True}
    assert server.run(unique) == {}


CLUSTERED = {"clusteredIndex": {"key": {"_id": 1}, "unique": True}}


@pytest.mark.parametrize(
    ("command", "ids"),
    [
        ({"find": "c", "sort": {"$natural": 1}}, ["a", "b", "c"]),
        ({"find": "c", "sort": {"$natural": -1}}, ["c", "b", "a"]),
        ({"aggregate": "c", "pipeline": [], "cursor": {}}, ["a", "b", "c"]),
        ({"aggregate": "c", "pipeline": [], "hint": {"$natural": -1}, "cursor": {}}, ["c", "b", "a"]),
        ({"aggregate": "c", "pipeline": [{"$match": {"_id": {"$gt": "a"}}}], "cursor": {}}, ["b", "c"]),
        ({"aggregate": "c", "pipeline": [{"$sort": {"n": 1}}], "cursor": {}}, ["c", "a", "b"]),
    ],
    ids=str,
)
def test_the_documents_of_a_clustered_collection_lie_in_the_order_of_their_ids(
    command: dict[str, Any], ids: list[str]
) -> None:
    server = Server()
    server.run({"create": "c", **CLUSTERED})
    server.run({"insert": "c", "documents": [{"_id": each, "n": n} for n, each in enumerate("cab")]})
    assert [each["_id"] for each in server.run(command)["cursor"]["firstBatch"]] == ids


@pytest.mark.parametrize(
    ("ids", "code"),
    [
        ([float("nan"), Decimal128("NaN")], 50819),
        ([float("inf"), Decimal128("Infinity")], 50826),
        ([Decimal128("-Infinity"), float("-inf")], 50826),
        ([1.0, Decimal128("1")], 11000),
        (["x" * (8 * 1024 * 1024 - 2)], None),
        (["x" * (8 * 1024 * 1024 - 1)], 5894900),
        ([Binary(b"x" * (8 * 1024 * 1024 - 7))], None),
        ([Binary(b"x" * (8 * 1024 * 1024 - 6), 128)], 5894900),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_id_of_a_clustered_collection_is_that_of_a_record(ids: list[Any], code: int | None) -> None:
    server = Server()
    server.run({"create": "c", **CLUSTERED})
    reply = server.run({"insert": "c", "documents": [{"_id": each} for each in ids]})
    assert [error["code"] for error in reply.get("writeErrors", [])] == ([] if code is None else [code])


@pytest.mark.parametrize("options", [{}, CLUSTERED], ids=["plain", "clustered"])
def test_ids_that_are_equal_by_the_collation_of_their_collection_are_the_same(
    options: dict[str, Any],
) -> None:
    server = Server()
    server.run({"create": "c", "collation": {"locale": "en", "strength": 2}, **options})
    server.run({"insert": "c", "documents": [{"_id": "a"}, {"_id": "b"}]})
    reply = server.run({"insert": "c", "documents": [{"_id": "A"}]})
    assert [(error["code"], error["keyPattern"]) for error in reply["writeErrors"]] == [(11000, {"_id": 1})]
    server.run({"delete": "c", "deletes": [{"q": {"_id": "a"}, "limit": 1}]})
    assert server.run({"insert": "c", "documents": [{"_id": "A"}]}) == {"n": 1}
    assert (
        server.run({"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}})["cursor"]["firstBatch"]
        == []
    )
    assert server.run({"insert": "d", "documents": [{"_id": "a"}]}) == {"n": 1}


@pytest.mark.parametrize("command", [{"listCollections": 1}, {"listIndexes": "c"}])
def test_the_batch_of_a_catalog_stands_behind_the_cursor(command: dict[str, Any]) -> None:
    server = Server()
    server.fill("c", {"_id": 1})
    assert list(server.run(command)["cursor"]) == ["id", "ns", "firstBatch"]


@pytest.mark.parametrize(("release", "again"), [("6.0", 48), ("7.0", None)])
def test_to_create_what_is_there_is_no_error_since_7_0(release: str, again: int | None) -> None:
    server = Server()
    server.node.profile = Profile.named(release)
    server.run({"create": "c"})
    if again is None:
        assert server.run({"create": "c"}) == {}
        return
    with pytest.raises(CommandError) as refused:
        server.run({"create": "c"})
    assert (refused.value.code, refused.value.message) == (again, "Collection already exists. NS: db.c")


@pytest.mark.parametrize(
    ("replica_set", "db", "dropped"),
    [(False, "config", True), (False, "local", True), (True, "local", False), (True, "admin", False)],
)
def test_databases_that_a_server_needs_are_not_dropped(*, replica_set: bool, db: str, dropped: bool) -> None:
    server = Server(replica_set=replica_set)
    if dropped:
        server.run({"dropDatabase": 1}, db=db)
        return
    with pytest.raises(CommandError) as refused:
        server.run({"dropDatabase": 1}, db=db)
    assert refused.value.code == 20

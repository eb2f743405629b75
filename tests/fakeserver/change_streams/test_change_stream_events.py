"""Each change is told as an event of its own shape."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from bson import Binary, Int64, Timestamp
from data_commands import START, Server
from watching import told, watch

from fakeserver.errors import CommandError
from fakeserver.storage.port.engine import Changed, Namespace
from fakeserver.storage.port.oplog import Written

NS = {"db": "db", "coll": "c"}
IMAGES = {"changeStreamPreAndPostImages": {"enabled": True}}


def served(**options: Any) -> Server:
    server = Server()
    server.run({"create": "c", **options})
    return server


def update(server: Server, change: Any, **more: Any) -> None:
    server.run({"update": "c", "updates": [{"q": {"_id": 1}, "u": change, **more}]})


def without_head(event: dict[str, Any]) -> dict[str, Any]:
    head = {"_id", "clusterTime", "wallTime", "collectionUUID"}
    return {name: value for name, value in event.items() if name not in head}


def test_an_insert_is_told_with_its_document() -> None:
    server = served()
    server.fill("c", {"_id": 1, "x": 1})
    (event,) = told(server)
    assert list(event) == [
        "_id", "operationType", "clusterTime", "wallTime", "fullDocument", "ns", "documentKey",
    ]  # fmt: skip
    assert without_head(event) == {
        "operationType": "insert",
        "fullDocument": {"_id": 1, "x": 1},
        "ns": NS,
        "documentKey": {"_id": 1},
    }
    assert event["clusterTime"] == server.oplog.last.timestamp
    assert event["wallTime"] == dt.datetime.fromtimestamp(START, dt.UTC).replace(tzinfo=None)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"$set": {"x": 2}, "$unset": {"y": 1}},
            {
                "operationType": "update",
                "updateDescription": {
                    "updatedFields": {"x": 2},
                    "removedFields": ["y"],
                    "truncatedArrays": [],
                },
            },
        ),
        ({"z": 1}, {"operationType": "replace", "fullDocument": {"_id": 1, "z": 1}}),
    ],
)
def test_an_update_or_a_replacement_is_told(change: Any, expected: Any) -> None:
    server = served()
    server.fill("c", {"_id": 1, "x": 1, "y": 1})
    update(server, change)
    event = told(server)[-1]
    assert without_head(event) == {**expected, "ns": NS, "documentKey": {"_id": 1}}


def test_an_upsert_is_an_insert_and_a_change_of_nothing_is_none() -> None:
    server = served()
    update(server, {"$set": {"x": 1}}, upsert=True)
    update(server, {"$set": {"x": 1}})
    assert [event["operationType"] for event in told(server)] == ["insert"]


def test_a_delete_is_told_by_its_key() -> None:
    server = served()
    server.fill("c", {"_id": 1})
    server.run({"delete": "c", "deletes": [{"q": {}, "limit": 0}]})
    assert without_head(told(server)[-1]) == {
        "operationType": "delete",
        "ns": NS,
        "documentKey": {"_id": 1},
    }


@pytest.mark.parametrize(
    ("mode", "images", "expected"),
    [
        ("default", {}, "absent"),
        ("updateLookup", {}, {"_id": 1, "x": 3}),
        ("whenAvailable", IMAGES, {"_id": 1, "x": 2}),
        ("whenAvailable", {}, None),
        ("required", IMAGES, {"_id": 1, "x": 2}),
        ("required", {}, 47),
    ],
)
def test_an_update_shows_the_document_that_it_made(mode: str, images: Any, expected: Any) -> None:
    server = served(**images)
    server.fill("c", {"_id": 1, "x": 1})
    update(server, {"$set": {"x": 2}})
    update(server, {"$set": {"x": 3}})
    if expected == 47:
        with pytest.raises(CommandError, match="require a post-image") as failed:
            told(server, fullDocument=mode)
        assert failed.value.code == 47
        return
    assert told(server, fullDocument=mode)[1].get("fullDocument", "absent") == expected


def test_a_lookup_finds_nothing_in_a_collection_that_was_made_anew() -> None:
    server = served()
    server.fill("c", {"_id": 1, "x": 1})
    update(server, {"$set": {"x": 2}})
    server.run({"drop": "c"})
    server.fill("c", {"_id": 1, "x": 9})
    assert told(server, fullDocument="updateLookup")[1]["fullDocument"] is None


@pytest.mark.parametrize(
    ("mode", "images", "expected"),
    [
        ("off", IMAGES, "absent"),
        ("whenAvailable", IMAGES, {"_id": 1, "x": 1}),
        ("whenAvailable", {}, None),
        ("required", IMAGES, {"_id": 1, "x": 1}),
        ("required", {}, 47),
    ],
)
@pytest.mark.parametrize("change", [{"$set": {"x": 2}}, {"x": 2}, None])
def test_a_change_shows_the_document_as_it_was(mode: str, images: Any, expected: Any, change: Any) -> None:
    server = served(**images)
    server.fill("c", {"_id": 1, "x": 1})
    if change is None:
        server.run({"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]})
    else:
        update(server, change)
    if expected == 47:
        with pytest.raises(CommandError, match="require a pre-image"):
            told(server, fullDocumentBeforeChange=mode)
        return
    events = told(server, fullDocumentBeforeChange=mode)
    assert "fullDocumentBeforeChange" not in events[0], "an insert changes no document"
    assert events[1].get("fullDocumentBeforeChange", "absent") == expected


def test_images_are_kept_from_the_command_that_asks_for_them() -> None:
    server = served()
    server.fill("c", {"_id": 1, "x": 1})
    update(server, {"$set": {"x": 2}})
    server.run({"collMod": "c", **IMAGES})
    update(server, {"$set": {"x": 3}})
    images = [
        event.get("fullDocumentBeforeChange")
        for event in told(server, fullDocumentBeforeChange="whenAvailable")
    ]
    assert images == [None, None, {"_id": 1, "x": 2}]


def happenings(server: Server) -> None:
    server.run({"createIndexes": "c", "indexes": [{"key": {"x": 1}, "name": "x_1"}]})
    server.run({"collMod": "c", "validationLevel": "off"})
    server.run({"dropIndexes": "c", "index": "x_1"})
    server.run({"create": "view", "viewOn": "c", "pipeline": []})
    server.run({"renameCollection": "db.c", "to": "db.d"}, db="admin")
    server.fill("new", {"_id": 1})
    server.run({"drop": "d"})
    server.run({"dropDatabase": 1})


def kinds(server: Server, target: str | int, **options: Any) -> list[str]:
    return [event["operationType"] for event in told(server, target, **options)]


def test_a_collection_ends_with_its_stream() -> None:
    server = served()
    happenings(server)
    assert kinds(server, "c") == ["rename", "invalidate"]
    assert kinds(server, "d") == ["rename", "invalidate"], "also for what took the name"
    assert kinds(server, "new") == ["insert", "drop", "invalidate"]


def test_a_database_ends_with_its_stream() -> None:
    server = served()
    happenings(server)
    plain = ["rename", "insert", "drop", "drop", "dropDatabase", "invalidate"]
    assert kinds(server, 1) == plain
    assert kinds(server, 1, db="admin", allChangesForCluster=True) == plain[:-1]


def test_expanded_events_tell_of_everything() -> None:
    server = served()
    happenings(server)
    assert kinds(server, 1, showExpandedEvents=True) == [
        "create", "createIndexes", "modify", "dropIndexes", "create", "rename", "create", "insert", "drop",
        "drop", "drop", "dropDatabase", "invalidate",
    ]  # fmt: skip


def test_expanded_events_describe_their_operation() -> None:
    server = served(capped=True, size=4096)
    collection = server.catalog.get(Namespace("db", "c"))
    assert collection is not None
    happenings(server)
    create, indexes, modify, dropped, view, rename, *_rest = map(
        without_head, told(server, 1, showExpandedEvents=True)
    )
    id_index = {"v": 2, "key": {"_id": 1}, "name": "_id_"}
    index = {"v": 2, "key": {"x": 1}, "name": "x_1"}
    assert create["operationDescription"] == {"capped": True, "size": 4096, "idIndex": id_index}
    assert (create["nsType"], view["nsType"]) == ("collection", "view")
    assert view["operationDescription"] == {"viewOn": "c", "pipeline": []}
    assert indexes["operationDescription"] == {"indexes": [index]}
    assert dropped["operationDescription"] == {"indexes": [index]}
    assert modify["operationDescription"] == {"validationLevel": "off"}
    assert modify["stateBeforeChange"] == {"collectionOptions": {"capped": True, "size": 4096}}
    assert rename == {
        "operationType": "rename",
        "ns": NS,
        "to": {"db": "db", "coll": "d"},
        "operationDescription": {"to": {"db": "db", "coll": "d"}},
    }


def test_expanded_events_carry_the_collection_s_uuid() -> None:
    server = served()
    collection = server.catalog.get(Namespace("db", "c"))
    assert collection is not None
    server.fill("c", {"_id": 1})
    events = told(server, 1, showExpandedEvents=True)
    assert [event["collectionUUID"] for event in events] == [collection.uuid, collection.uuid]


def test_out_fills_a_collection_on_the_side() -> None:
    server = served()
    server.fill("c", {"_id": 1})
    server.fill("d", {"_id": 2})
    server.run({"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}})
    assert kinds(server, "d") == ["insert", "rename", "invalidate"]
    *_before, created, insert, rename = told(server, 1, showExpandedEvents=True)
    assert (created["operationType"], insert["fullDocument"]) == ("create", {"_id": 1})
    assert insert["ns"] == created["ns"] == rename["ns"]
    assert rename["to"] == {"db": "db", "coll": "d"}
    assert "dropTarget" in rename["operationDescription"]


def test_a_transaction_is_told_change_by_change_at_one_time() -> None:
    server = served()
    session = bytes(16)
    changes = [Written(Namespace("db", "c"), Changed(None, {"_id": number})) for number in (1, 2, 3)]
    server.oplog.append(changes, session_id=session, txn_number=4)
    events = told(server)
    assert [event["documentKey"]["_id"] for event in events] == [1, 2, 3]
    assert {event["clusterTime"] for event in events} == {server.oplog.last.timestamp}
    assert [event["txnNumber"] for event in events] == [Int64(4)] * 3
    assert events[0]["lsid"]["id"] == Binary(session, 4)
    again = watch(server, resumeAfter=events[1]["_id"]).events
    assert again == events[2:]


def test_internal_databases_and_collections_are_not_told() -> None:
    server = Server()
    server.fill("x", {"_id": 1}, db="config")
    server.fill("system.js", {"_id": 1})
    assert told(server, 1, db="admin", allChangesForCluster=True) == []
    assert told(server, 1) == []


def test_a_batch_without_events_tells_how_far_the_stream_has_come() -> None:
    server = served()
    stream = watch(server)
    first = stream.token
    server.fill("other", {"_id": 1})
    assert stream.read() == []
    later = watch(server).token
    server.fill("c", {"_id": 1})
    stream.read()
    assert first["_data"] <= later["_data"] < stream.token["_data"]
    assert stream.token == stream.events[0]["_id"]


def test_time_stands_still_for_a_stream_until_a_majority_has_the_change() -> None:
    server = served()
    stream = watch(server)
    server.node.held_at = server.oplog.last
    server.fill("c", {"_id": 1})
    assert stream.read() == []
    server.node.held_at = None
    assert [event["operationType"] for event in stream.read()] == ["insert"]


def test_the_stream_begins_with_the_time_that_is_asked_for() -> None:
    server = served()
    server.fill("c", {"_id": 1})
    server.fill("c", {"_id": 2})
    last = server.oplog.last
    at = Timestamp(last.seconds, last.increment)
    assert [event["documentKey"] for event in watch(server, startAtOperationTime=at).events] == [{"_id": 2}]

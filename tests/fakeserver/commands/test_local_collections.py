"""`local.oplog.rs` can be read and tailed: entries as a server writes them."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64, Timestamp
from hypothesis import given
from hypothesis import strategies as st
from talking import REPLICA_SET, STANDALONE, Deployment, Talker, play

from fakeserver.commands.local_collections import difference

Document = dict[str, Any]


async def operations(talker: Talker, **request: Any) -> list[Document]:
    command = {"find": "oplog.rs", "filter": {"ns": "db.c"}, "$db": "local", **request}
    batch: list[Document] = (await talker.ok(command))["cursor"]["firstBatch"]
    return batch


async def change(talker: Talker) -> None:
    await talker.ok({"insert": "c", "documents": [{"_id": 1, "a": {"b": 1}, "x": 0}], "$db": "db"})
    updates = [
        {"q": {}, "u": {"$set": {"a.b": 2, "n": 3}, "$unset": {"x": 1}}},
        {"q": {}, "u": {"y": 1}},
    ]
    await talker.ok({"update": "c", "updates": updates, "$db": "db"})
    await talker.ok({"delete": "c", "deletes": [{"q": {}, "limit": 1}], "$db": "db"})


def test_each_write_has_its_entry() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await change(talker)
        found = await operations(talker)
        assert [each["op"] for each in found] == ["i", "u", "u", "d"]
        inserted, updated, replaced, deleted = found
        assert inserted["o"] == {"_id": 1, "a": {"b": 1}, "x": 0}
        assert inserted["o2"] == {"_id": 1}
        assert updated["o"] == {"$v": 2, "diff": {"d": {"x": False}, "i": {"n": 3}, "sa": {"u": {"b": 2}}}}
        assert replaced["o"] == {"_id": 1, "y": 1}
        assert deleted["o"] == {"_id": 1}
        assert {"ts", "t", "v", "wall", "ui"} <= set(inserted)
        assert (inserted["v"], type(inserted["t"])) == (2, Int64)
        assert [each["ts"] for each in found] == sorted(each["ts"] for each in found)
        last = await operations(talker, sort={"$natural": -1}, limit=1)
        assert last[0]["ts"] == deleted["ts"]
        (made,) = await operations(talker, filter={"op": "c", "o.create": "c"})
        assert made["ns"] == "db.$cmd"

    play(scenario, REPLICA_SET)


def test_a_transaction_is_one_entry() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"create": "c", "$db": "db"})
        lsid = (await talker.ok({"startSession": 1}))["id"]
        inside = {"lsid": lsid, "txnNumber": Int64(1), "autocommit": False}
        insert = {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}], "$db": "db"}
        await talker.ok({**insert, **inside, "startTransaction": True})
        await talker.ok({"commitTransaction": 1, **inside})
        (entry,) = await operations(talker, filter={"o.applyOps": {"$exists": True}})
        assert (entry["op"], entry["ns"], entry["txnNumber"]) == ("c", "admin.$cmd", 1)
        assert [each["o"] for each in entry["o"]["applyOps"]] == [{"_id": 1}, {"_id": 2}]
        assert entry["lsid"]["id"] == lsid["id"]

    play(scenario, REPLICA_SET)


def test_a_tailable_cursor_awaits_what_is_written() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, writer = await deployment.connect(), await deployment.connect()
        await writer.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "db"})
        tail = {"find": "oplog.rs", "filter": {"ns": "db.c"}, "tailable": True, "awaitData": True}
        cursor = (await talker.ok({**tail, "$db": "local"}))["cursor"]
        assert [each["o"]["_id"] for each in cursor["firstBatch"]] == [1]
        more = {"getMore": cursor["id"], "collection": "oplog.rs", "$db": "local", "maxTimeMS": 60_000}
        await talker.send(more)
        await deployment.sleep(1.0)
        await writer.ok({"insert": "c", "documents": [{"_id": 2}], "$db": "db"})
        reply = await talker.reply()
        assert reply is not None
        assert [each["o"]["_id"] for each in reply["cursor"]["nextBatch"]] == [2]

    play(scenario, REPLICA_SET)


def test_a_pipeline_reads_the_oplog_and_a_member_shows_what_it_has() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary = await deployment.connect()
        deployment.cluster.nodes[1].hold()
        await change(primary)
        pipeline = [{"$match": {"ns": "db.c"}}, {"$sortByCount": "$op"}, {"$sort": {"_id": 1}}]
        command = {"aggregate": "oplog.rs", "pipeline": pipeline, "cursor": {}, "$db": "local"}
        counts = (await primary.ok(command))["cursor"]["firstBatch"]
        assert counts == [{"_id": "d", "count": 1}, {"_id": "i", "count": 1}, {"_id": "u", "count": 2}]
        member = await deployment.connect(deployment.cluster.nodes[1])
        nearest = {"$readPreference": {"mode": "secondaryPreferred"}}
        assert (await member.ok({**command, **nearest}))["cursor"]["firstBatch"] == []

    play(scenario, REPLICA_SET)


def test_the_configuration_of_the_set_can_be_read_and_a_standalone_has_none() -> None:
    async def of_a_set(deployment: Deployment) -> None:
        talker = await deployment.connect()
        (found,) = (await talker.ok({"find": "system.replset", "$db": "local"}))["cursor"]["firstBatch"]
        assert found == (await talker.ok({"replSetGetConfig": 1}))["config"]

    async def of_a_standalone(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert await operations(talker, filter={"ts": {"$gt": Timestamp(0, 0)}}) == []

    play(of_a_set, REPLICA_SET)
    play(of_a_standalone, STANDALONE)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1.0}, {"u": {"a": 1.0}}),
        ({"a": [1, 2, 3]}, {"a": [1, 5]}, {"sa": {"a": True, "l": 2, "u1": 5}}),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}, 3]}, {"sa": {"a": True, "s0": {"u": {"b": 2}}, "u1": 3}}),
        ({"a": {"b": 1}}, {"a": 1}, {"u": {"a": 1}}),
    ],
    ids=str,
)
def test_a_difference_names_what_changed(before: Document, after: Document, expected: Document) -> None:
    assert difference(before, after) == expected


def applied(document: Any, changes: Document) -> Any:
    """Apply a difference as a secondary would."""
    if changes.get("a") is True:
        items = list(document)[: changes.get("l", len(document))]
        for name, value in changes.items():
            place = int(name[1:] or 0)
            if name[0] == "u":
                items[place : place + 1] = [value]
            elif name[0] == "s":
                items[place] = applied(items[place], value)
        return items
    made = {name: value for name, value in document.items() if name not in changes.get("d", {})}
    made |= changes.get("u", {}) | changes.get("i", {})
    for name, value in changes.items():
        if name[0] == "s":
            made[name[1:]] = applied(document[name[1:]], value)
    return made


VALUES = st.recursive(
    st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3)


@given(DOCUMENTS, DOCUMENTS)
def test_a_difference_turns_one_document_into_the_other(before: Document, after: Document) -> None:
    assert applied(before, difference(before, after)) == after


def test_the_oplog_is_listed_and_has_a_size_as_shells_ask_for_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await change(talker)
        listed = await talker.ok({"listCollections": 1, "$db": "local"})
        names = {each["name"]: each for each in listed["cursor"]["firstBatch"]}
        assert {"oplog.rs", "system.replset"} <= set(names)
        assert names["oplog.rs"]["options"]["capped"] is True
        stage = {"$collStats": {"storageStats": {"scale": 1024}}}
        ran = await talker.ok({"aggregate": "oplog.rs", "pipeline": [stage], "cursor": {}, "$db": "local"})
        (told,) = ran["cursor"]["firstBatch"]
        direct = await talker.ok({"collStats": "oplog.rs", "$db": "local"})
        assert direct["count"] == told["storageStats"]["count"] >= 4
        assert direct["maxSize"] // 1024 == told["storageStats"]["maxSize"] > told["storageStats"]["size"]
        assert direct["capped"] is True

    play(scenario, REPLICA_SET)


def test_a_standalone_has_no_oplog_to_list() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        listed = await talker.ok({"listCollections": 1, "$db": "local"})
        assert listed["cursor"]["firstBatch"] == []
        assert "maxSize" not in await talker.ok({"collStats": "oplog.rs", "$db": "local"})

    play(scenario, STANDALONE)

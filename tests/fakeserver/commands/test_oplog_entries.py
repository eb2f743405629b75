"""Entries of an oplog that a client has a server apply."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Int64, Timestamp
from hypothesis import given
from hypothesis import strategies as st
from talking import REPLICA_SET, STANDALONE, Deployment, play

from fakeserver.commands.local_collections import difference, patched
from fakeserver.storage.values.types import identical

INSERT = {"op": "i", "ns": "db.c", "o": {"_id": 2, "x": 2}}
UPDATE = {"op": "u", "ns": "db.c", "o": {"_id": 1, "x": 2}, "o2": {"_id": 1}}
MISSED = {"op": "u", "ns": "db.c", "o": {"_id": 9, "x": 2}, "o2": {"_id": 9}}
DELETE = {"op": "d", "ns": "db.c", "o": {"_id": 1}}
NOTHING = {"op": "n", "ns": "", "o": {"msg": "none"}}
START = [{"_id": 1, "x": 1, "y": {"z": [1, 2]}}]


async def after(deployment: Deployment, *entries: Any, **more: Any) -> tuple[Any, list[Any]]:
    """Have entries applied to a collection of one document; return the reply, and the documents then."""
    talker = await deployment.connect()
    await talker.ok({"insert": "c", "documents": START, "$db": "db"})
    reply = await talker.command({"applyOps": list(entries), **more, "$db": "admin"})
    found = await talker.ok({"find": "c", "sort": {"_id": 1}, "$db": "db"})
    return reply, found["cursor"]["firstBatch"]


@pytest.mark.parametrize("spec", [STANDALONE, REPLICA_SET], ids=["standalone", "replica set"])
@pytest.mark.parametrize(
    ("entries", "documents", "applied"),
    [
        ([], START, 0),
        ([NOTHING], START, 0),
        ([INSERT, NOTHING], [*START, INSERT["o"]], 1),
        ([{**INSERT, "o": {"_id": 1, "other": True}}], [{"_id": 1, "other": True}], 1),
        ([UPDATE], [UPDATE["o"]], 1),
        ([{**UPDATE, "o": {"$set": {"x": 7}}}], [{**START[0], "x": 7}], 1),
        ([{**MISSED, "b": True}], [*START, {"_id": 9, "x": 2}], 1),
        ([{**UPDATE, "o": {"$v": 2, "diff": {"d": {"x": False}, "sy": {"sz": {"a": True, "l": 1}}}}}],
         [{"_id": 1, "y": {"z": [1]}}], 1),
        ([INSERT, {**UPDATE, "o": {"_id": 2, "x": 3}, "o2": {"_id": 2}}, DELETE], [{"_id": 2, "x": 3}], 3),
        ([{**DELETE, "o": {"_id": 9}}, {**DELETE, "ns": "db.none"}], START, 2),
        ([{"op": "c", "ns": "db.$cmd", "o": {"applyOps": [INSERT]}}], [*START, INSERT["o"]], 1),
        ([UPDATE, {"op": "c", "ns": "db.$cmd", "o": {"applyOps": [INSERT, DELETE]}}], [INSERT["o"]], 2),
    ],
)  # fmt: skip
def test_entries_are_applied_in_their_order(
    spec: Any, entries: list[Any], documents: list[Any], applied: int
) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply, found = await after(deployment, *entries)
        assert (reply["ok"], reply["applied"], reply["results"]) == (1, applied, [True] * applied)
        assert found == documents

    play(scenario, spec)


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (1, 14),
        (None, 14),
        ({}, 4),
        ({**INSERT, "op": 5}, 14),
        ({**INSERT, "op": ""}, 20),
        ({**INSERT, "op": "x"}, 2),
        ({"op": "i", "o": {"_id": 2}}, 20),
        ({**INSERT, "ns": 5}, 20),
        ({**INSERT, "ns": ""}, 20),
        ({**INSERT, "ns": "db"}, 73),
        ({**INSERT, "ns": "db.none"}, 26),
        ({"op": "i", "ns": "db.c"}, 40414),
        ({**INSERT, "o": 5}, 14),
        ({**INSERT, "o": {}}, 4),
        ({**UPDATE, "o2": {}}, 4),
        ({"op": "u", "ns": "db.c", "o": {"x": 1}}, 4),
        ({**INSERT, "ui": Binary(bytes(16), 4)}, 3318200),
        ({"op": "c", "ns": "db.$cmd", "o": {"startIndexBuild": "c"}}, 115),
        ({"op": "c", "ns": "db.$cmd", "o": {"ping": 1}}, 2),
        ({"op": "c", "ns": "db.$cmd", "o": {"applyOps": 1}}, 2),
        ({"op": "c", "ns": "db.$cmd", "o": {"applyOps": [1]}}, 14),
    ],
)
def test_what_is_no_entry_is_refused_and_changes_nothing(entry: Any, code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply, found = await after(deployment, entry)
        assert (reply["ok"], reply["code"]) == (0, code)
        assert found == START

    play(scenario, STANDALONE)


@pytest.mark.parametrize(
    ("entries", "more", "code"),
    [
        (None, {}, 14),
        (5, {}, 14),
        ([], {"preCondition": []}, 6711600),
        ([], {"alwaysUpsert": True}, 6711601),
        ([], {"alwaysUpsert": 1}, 14),
        ([], {"prepare": False}, 2),
        ([], {"partialTxn": False}, 31056),
        ([], {"count": True}, 14),
        ([], {"count": Int64(0)}, 31240),
        ([{"op": "c", "ns": "db.$cmd", "o": {"dropDatabase": 1}}, NOTHING], {}, 6275900),
        ([], {"alwaysUpsert": False, "preCondition": None, "unknown": 1, "allowAtomic": "yes"}, 0),
    ],
)
def test_a_command_says_no_more_than_its_entries(entries: Any, more: Any, code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        reply = await talker.command({"applyOps": entries, **more, "$db": "admin"})
        assert reply is not None
        assert reply.get("code", 0) == code

    play(scenario, STANDALONE)


def test_an_update_of_nothing_fails_the_command_and_not_what_follows() -> None:
    async def scenario(deployment: Deployment) -> None:
        reply, found = await after(deployment, MISSED, INSERT)
        assert (reply["code"], reply["applied"], reply["results"]) == (8, 2, [False, True])
        assert found == [*START, INSERT["o"]]

    play(scenario)


def test_another_error_ends_it_and_what_was_applied_stays() -> None:
    async def scenario(deployment: Deployment) -> None:
        reply, found = await after(deployment, INSERT, {**INSERT, "ns": "db.none"}, DELETE)
        assert (reply["code"], reply["applied"], reply["results"]) == (26, 2, [True, False])
        assert found == [*START, INSERT["o"]]

    play(scenario)


def test_an_oplog_that_is_applied_again_gives_what_there_was() -> None:
    """As a restore does, and twice over: an entry whose effect is there is no error."""

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()

        async def run(command: Any, db: str = "db") -> Any:
            return await talker.ok({**command, "$db": db})

        async def documents(db: str = "db") -> list[Any]:
            return [(await run({"find": each}, db))["cursor"]["firstBatch"] for each in ("kept", "renamed")]

        await run({"create": "kept", "collation": {"locale": "de"}})
        await run({"createIndexes": "kept", "indexes": [{"key": {"x": 1}, "name": "x_1"}]})
        await run(
            {"insert": "kept", "documents": [{"_id": n, "x": n, "t": Timestamp(0, 0)} for n in range(4)]}
        )
        await run({"update": "kept", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 9, "y.z": [1]}}}]})
        await run({"update": "kept", "updates": [{"q": {"_id": 1}, "u": {"$push": {"y.z": {"a": 1}}}}]})
        await run({"delete": "kept", "deletes": [{"q": {"_id": 2}, "limit": 1}]})
        await run({"insert": "old", "documents": [{"_id": 1}]})
        await run({"renameCollection": "db.old", "to": "db.renamed"}, "admin")
        await run({"insert": "gone", "documents": [{"_id": 1}]})
        await run({"drop": "gone"})
        wanted = await documents()
        oplog = (await run({"find": "oplog.rs", "filter": {"ns": {"$regex": "^db"}}}, "local"))["cursor"]
        names = ("op", "ns", "o", "o2")
        entries = [{name: each[name] for name in names if name in each} for each in oplog["firstBatch"]]
        await run({"dropDatabase": 1})
        for _ in range(2):
            await run({"applyOps": entries}, "admin")
            assert await documents() == wanted
        indexes = await run({"listIndexes": "kept"})
        assert [each["name"] for each in indexes["cursor"]["firstBatch"]] == ["_id_", "x_1"]

    play(scenario)


VALUES = st.recursive(
    st.integers(0, 3) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


@given(DOCUMENTS, DOCUMENTS)
def test_a_difference_makes_one_document_of_the_other(before: Any, later: Any) -> None:
    kept = {name: later[name] for name in before if name in later}
    found = patched(before, difference(before, later))
    assert found == later
    assert [*found] == [*kept, *(name for name in later if name not in before)]
    assert identical(patched(later, difference(later, later)), later)

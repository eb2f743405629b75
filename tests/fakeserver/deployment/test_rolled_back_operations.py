"""Operations of every kind that a primary has alone are rolled back: data, collections, indexes, options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson import Int64
from talking import Deployment, Talker, lsid, play, retryable_insert

from fakeserver import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NEAREST = {"$readPreference": {"mode": "nearest"}}
_SPEC = ClusterSpec.replica_set(3, election_timeout=10.0)
_INDEX = {"key": {"x": 1}, "name": "x_1"}
_DOCUMENTS = [{"_id": number, "x": -number} for number in range(3)]


def _insert(*documents: dict[str, Any], into: str = "c") -> dict[str, Any]:
    return {"insert": into, "documents": list(documents), "$db": "db"}


def _rename(old: str, new: str, **how: Any) -> dict[str, Any]:
    return {"renameCollection": f"db.{old}", "to": new, "$db": "admin", **how}


def _create(name: str, **how: Any) -> dict[str, Any]:
    return {"create": name, "$db": "db", **how}


_VIEW = _create("v", viewOn="c", pipeline=[{"$match": {"x": -1}}])
_CAPPED = _create("k", capped=True, size=4096, max=2)
_OPERATIONS: Mapping[str, tuple[Sequence[dict[str, Any]], dict[str, Any]]] = {
    "an insert": ([], _insert({"_id": 9})),
    "an update": ([], {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"x": 5}}}], "$db": "db"}),
    "a replacement": ([], {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"y": 1}}], "$db": "db"}),
    "a deletion": ([], {"delete": "c", "deletes": [{"q": {}, "limit": 0}], "$db": "db"}),
    "a findAndModify": ([], {"findAndModify": "c", "query": {"_id": 2}, "remove": True, "$db": "db"}),
    "a collection": ([], _create("d")),
    "a collection by an insert": ([], _insert({"_id": 1}, into="d")),
    "a view": ([], _VIEW),
    "a dropped view": ([_VIEW], {"drop": "v", "$db": "db"}),
    "another view of the name": ([_VIEW], {"collMod": "v", "viewOn": "c", "pipeline": [], "$db": "db"}),
    "a drop": ([], {"drop": "c", "$db": "db"}),
    "a dropped database": ([], {"dropDatabase": 1, "$db": "db"}),
    "an index": ([], {"createIndexes": "c", "indexes": [_INDEX], "$db": "db"}),
    "a dropped index": (
        [{"createIndexes": "c", "indexes": [_INDEX], "$db": "db"}],
        {"dropIndexes": "c", "index": "x_1", "$db": "db"},
    ),
    "all indexes dropped": (
        [{"createIndexes": "c", "indexes": [_INDEX, {"key": {"y": 1}, "name": "y"}], "$db": "db"}],
        {"dropIndexes": "c", "index": "*", "$db": "db"},
    ),
    "a rename": ([], _rename("c", "db.d")),
    "a rename over another": ([_insert({"_id": 7}, into="d")], _rename("c", "db.d", dropTarget=True)),
    "a rename into another database": ([], _rename("c", "there.c")),
    "a validator": (
        [],
        {
            "collMod": "c",
            "validator": {"x": {"$lt": 5}},
            "validationLevel": "moderate",
            "validationAction": "warn",
            "$db": "db",
        },
    ),
    "an index that is hidden": (
        [{"createIndexes": "c", "indexes": [_INDEX], "$db": "db"}],
        {"collMod": "c", "index": {"name": "x_1", "hidden": True}, "$db": "db"},
    ),
    "a capped collection made of another": ([], {"convertToCapped": "c", "size": 4096, "$db": "db"}),
    "an insert that pushes others out": (
        [_CAPPED, _insert({"_id": 1}, {"_id": 2}, into="k")],
        _insert({"_id": 3}, into="k"),
    ),
    "an insert into an empty capped collection": ([_CAPPED], _insert({"_id": 1}, into="k")),
}


async def _shown(talker: Talker) -> dict[str, Any]:
    """Return what a member shows of two databases."""
    shown: dict[str, Any] = {}
    for db in ("db", "there"):
        listed = await talker.ok({"listCollections": 1, "$db": db, **_NEAREST})
        for each in listed["cursor"]["firstBatch"]:
            name, options = each["name"], each["options"]
            found = await talker.ok({"find": name, "$db": db, **_NEAREST})
            facts = [each["type"], options, found["cursor"]["firstBatch"]]
            if each["type"] == "collection":
                indexes = await talker.ok({"listIndexes": name, "$db": db, **_NEAREST})
                counted = await talker.ok({"count": name, "$db": db, **_NEAREST})
                facts += [indexes["cursor"]["firstBatch"], counted["n"], each["info"]["uuid"]]
            shown[f"{db}.{name}"] = facts
    return shown


async def _apart(deployment: Deployment, *before: dict[str, Any]) -> tuple[Talker, Talker]:
    """Have a set do something together, and cut its primary off; return connections to both primaries."""
    nodes = deployment.cluster.nodes
    old = await deployment.connect(nodes[0])
    for command in (_insert(*_DOCUMENTS), *before):
        await old.ok(command)
    deployment.cluster.partition(["node0"], ["node1", "node2"])
    await deployment.sleep(0.1)
    return old, await deployment.connect(nodes[1])


async def _returned(deployment: Deployment) -> Talker:
    deployment.cluster.heal()
    await deployment.sleep(1.0)
    assert deployment.cluster.nodes[0].position.rolled_back == 1
    return await deployment.connect(deployment.cluster.nodes[0])


@pytest.mark.parametrize("operation", _OPERATIONS)
def test_whatever_a_primary_did_alone_is_as_if_it_had_not_been(operation: str) -> None:
    before, alone = _OPERATIONS[operation]

    async def scenario(deployment: Deployment) -> None:
        old, new = await _apart(deployment, *before)
        shown = await _shown(new)
        await old.ok(alone)
        assert await _shown(old) != shown == await _shown(new)
        returned = await _returned(deployment)
        assert await _shown(returned) == shown

    play(scenario, _SPEC)


def test_a_member_that_has_rolled_back_shows_what_the_new_primary_did_with_the_same_names() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, new = await _apart(deployment)
        for talker, view in ((old, "a"), (new, "b")):
            await talker.ok(_create(view, viewOn="c", pipeline=[]))
        await old.ok(_insert({"_id": 1, "by": "old"}, into="b"))
        await new.ok(_insert({"_id": 1, "by": "new"}, into="a"))
        await old.ok(_rename("c", "db.d"))
        await new.ok(_rename("c", "db.e"))
        shown = await _shown(new)
        assert await _shown(await _returned(deployment)) == shown

    play(scenario, _SPEC)


def test_a_cursor_that_was_open_before_a_rollback_gives_nothing_more() -> None:
    async def scenario(deployment: Deployment) -> None:
        old, _ = await _apart(deployment)
        await old.ok(_insert({"_id": 9}))
        opened = [
            (await old.ok({**command, "$db": "db"}))["cursor"]["id"]
            for command in (
                {"find": "c", "batchSize": 2},
                {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}},
            )
        ]
        deployment.cluster.heal()
        await deployment.sleep(0.3)
        back = await deployment.connect(deployment.cluster.nodes[0])
        more = [{"getMore": cursor, "collection": "c", "$db": "db"} for cursor in opened]
        assert [(await back.fails(command))["code"] for command in more] == [13436, 13436]
        await deployment.sleep(1.0)
        for command in more:
            failed = await back.fails(command)
            assert (failed["code"], failed["codeName"]) == (175, "QueryPlanKilled")
        assert [(await back.fails(command))["code"] for command in more] == [43, 43]

    play(scenario, _SPEC)


def test_a_member_knows_of_each_session_what_both_have_and_nothing_that_was_rolled_back() -> None:
    """One session goes on alone, one begins alone, and one begins on the other side."""
    first, second, third = (
        {"lsid": lsid(number), "txnNumber": Int64(number), "autocommit": False} for number in (1, 2, 3)
    )

    async def commit(talker: Talker, _id: int, session: dict[str, Any]) -> None:
        await talker.ok({**_insert({"_id": _id}), **session, "startTransaction": True})
        await talker.ok({"commitTransaction": 1, **session})

    async def scenario(deployment: Deployment) -> None:
        together = await deployment.connect(deployment.cluster.nodes[0])
        await commit(together, 10, first)
        kept = retryable_insert(11, txn_number=1, session=9)
        await together.ok(kept)
        old, new = await _apart(deployment)
        later = {**first, "txnNumber": Int64(20)}
        await commit(old, 12, later)
        await commit(old, 13, second)
        await commit(new, 14, third)
        returned = await _returned(deployment)
        found = await returned.ok({"find": "c", "$db": "db", "sort": {"_id": 1}, **_NEAREST})
        assert [each["_id"] for each in found["cursor"]["firstBatch"]] == [0, 1, 2, 10, 11, 14]
        deployment.cluster.elect(deployment.cluster.nodes[0])
        await deployment.sleep(0.1)
        again = await deployment.connect(deployment.primary)
        for session, known in ((first, True), (later, False), (second, False), (third, True)):
            reply = await again.command({"commitTransaction": 1, **session})
            assert reply is not None
            assert (reply.get("code") == 251) is not known, session
        assert (await again.ok(kept))["retriedStmtIds"] == [0]

    play(scenario, _SPEC)

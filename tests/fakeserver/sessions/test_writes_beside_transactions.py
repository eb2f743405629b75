"""Plain writes of many documents that come upon what an open transaction has claimed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from talking import Deployment, Talker, play
from transacting import Session, plain_find, plain_insert

if TYPE_CHECKING:
    from fakeserver.storage.port.oplog import OpTime

EVERYTHING = {"q": {}, "u": {"$inc": {"x": 100}}, "multi": True}


async def _begin(deployment: Deployment, *holding: int) -> tuple[Talker, list[Session]]:
    """Return a plain client of five documents, and for each of these a transaction that has changed it."""
    talker = await deployment.connect()
    await plain_insert(talker, *({"_id": number, "x": number} for number in range(5)))
    sessions = [Session(await deployment.connect(), number + 1) for number in range(len(holding))]
    for session, key in zip(sessions, holding, strict=True):
        session.begin()
        await session.add(key, 10)
    return talker, sessions


async def _waiting(deployment: Deployment, command: dict[str, Any]) -> asyncio.Task[dict[str, Any]]:
    """Return a plain command that has come as far as it can."""
    talker = await deployment.connect()
    task = asyncio.ensure_future(talker.ok(command if "$db" in command else {**command, "$db": "db"}))
    await deployment.sleep(1)
    assert not task.done()
    return task


async def _numbers(talker: Talker) -> dict[int, int]:
    return {document["_id"]: document["x"] for document in await plain_find(talker)}


def _written(deployment: Deployment, since: OpTime) -> list[list[Any]]:
    """Return the `_id`s of the documents that each operation since a time has changed."""
    return [
        [(each.change.after or each.change.before or {})["_id"] for each in entry.changes]
        for entry in deployment.cluster.oplog.since(since)
        if entry.changes
    ]


@pytest.mark.parametrize("verb", ["commit", "abort"])
def test_an_update_of_many_waits_at_the_claimed_document_and_changes_each_once(verb: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one,) = await _begin(deployment, 2)
        before = deployment.cluster.oplog.last
        update = await _waiting(deployment, {"update": "c", "updates": [EVERYTHING]})
        assert await _numbers(talker) == {0: 100, 1: 101, 2: 2, 3: 3, 4: 4}
        await one.end(verb)
        reply = await update
        assert (reply["n"], reply["nModified"]) == (5, 5)
        added = 10 if verb == "commit" else 0
        assert await _numbers(talker) == {0: 100, 1: 101, 2: 102 + added, 3: 103, 4: 104}
        committed = [[2]] if verb == "commit" else []
        assert _written(deployment, before) == [[0], [1], *committed, [2], [3], [4]]

    play(scenario)


def test_an_update_waits_for_one_transaction_after_the_other() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one, two) = await _begin(deployment, 1, 3)
        update = await _waiting(deployment, {"update": "c", "updates": [EVERYTHING, EVERYTHING]})
        await two.add(4)
        await one.end("commit")
        await deployment.sleep(1)
        assert await _numbers(talker) == {0: 100, 1: 111, 2: 102, 3: 3, 4: 4}
        assert not update.done()
        await two.end("commit")
        reply = await update
        assert (reply["n"], reply["nModified"]) == (10, 10)
        assert await _numbers(talker) == {0: 200, 1: 211, 2: 202, 3: 213, 4: 205}

    play(scenario)


def test_a_document_that_matches_no_longer_after_the_wait_is_left_alone() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one,) = await _begin(deployment, 2)
        low = {**EVERYTHING, "q": {"x": {"$lt": 10}}, "upsert": True}
        update = await _waiting(deployment, {"update": "c", "updates": [low]})
        await one.end("commit")
        reply = await update
        assert (reply["n"], reply["nModified"], "upserted" in reply) == (4, 4, False)
        assert await _numbers(talker) == {0: 100, 1: 101, 2: 12, 3: 103, 4: 104}

    play(scenario)


def test_documents_that_stay_as_they_are_are_counted_once() -> None:
    async def scenario(deployment: Deployment) -> None:
        _, (one,) = await _begin(deployment, 3)
        at_least = {"q": {}, "u": {"$max": {"x": 2}}, "multi": True}
        lower = {"q": {}, "u": {"$min": {"x": 2}}, "multi": True}
        update = await _waiting(deployment, {"update": "c", "updates": [at_least, lower]})
        await one.end("abort")
        reply = await update
        assert (reply["n"], reply["nModified"]) == (10, 4)

    play(scenario)


def test_a_delete_of_many_counts_what_it_deleted_before_it_waited() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one,) = await _begin(deployment, 2)
        before = deployment.cluster.oplog.last
        deletes = [{"q": {"x": {"$lt": 4}}, "limit": 0}, {"q": {}, "limit": 0}]
        delete = await _waiting(deployment, {"delete": "c", "deletes": deletes})
        assert await _numbers(talker) == {2: 2, 3: 3, 4: 4}
        await one.end("abort")
        assert (await delete)["n"] == 5
        assert await _numbers(talker) == {}
        assert _written(deployment, before) == [[0], [1], [2], [3], [4]]

    play(scenario)


def test_an_insert_of_many_waits_for_the_key_that_a_transaction_has_taken() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one,) = await _begin(deployment, 0)
        await one.insert({"_id": 7, "x": 0})
        documents = [{"_id": number, "x": 1} for number in (6, 7, 8)]
        insert = await _waiting(deployment, {"insert": "c", "documents": documents, "ordered": False})
        assert set(await _numbers(talker)) == {0, 1, 2, 3, 4, 6}
        await one.end("commit")
        reply = await insert
        assert reply["n"] == 2
        assert [(error["index"], error["code"]) for error in reply["writeErrors"]] == [(1, 11000)]

    play(scenario)


def test_a_bulk_write_goes_on_with_the_operation_that_waited() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one,) = await _begin(deployment, 3)
        operations = [
            {"insert": 0, "document": {"_id": 9, "x": 0}},
            {"update": 0, "filter": {}, "updateMods": {"$inc": {"x": 100}}, "multi": True},
            {"delete": 0, "filter": {"_id": 9}},
        ]
        bulk = {"bulkWrite": 1, "ops": operations, "nsInfo": [{"ns": "db.c"}], "$db": "admin"}
        waiting = await _waiting(deployment, bulk)
        assert await _numbers(talker) == {0: 100, 1: 101, 2: 102, 3: 3, 4: 4, 9: 0}
        await one.end("commit")
        reply = await waiting
        counts = {name: value for name, value in reply.items() if name.startswith("n")}
        assert counts == {
            "nErrors": 0, "nInserted": 1, "nMatched": 6, "nModified": 6, "nUpserted": 0, "nDeleted": 1
        }  # fmt: skip
        assert await _numbers(talker) == {0: 100, 1: 101, 2: 102, 3: 113, 4: 104}

    play(scenario)


def test_a_write_whose_time_is_over_keeps_what_it_did_before_it_waited() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, _ = await _begin(deployment, 2)
        before = deployment.cluster.oplog.last
        command = {"update": "c", "updates": [EVERYTHING], "$db": "db", "maxTimeMS": 500}
        assert (await talker.fails(command))["code"] == 50
        assert await _numbers(talker) == {0: 100, 1: 101, 2: 2, 3: 3, 4: 4}
        assert _written(deployment, before) == [[0], [1]]

    play(scenario)


def test_a_unique_value_that_a_transaction_gives_up_is_not_free_yet() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        index = {"key": {"n": 1}, "name": "n_1", "unique": True}
        await talker.ok({"createIndexes": "c", "indexes": [index], "$db": "db"})
        await plain_insert(talker, {"_id": 1, "n": 1}, {"_id": 2, "n": 2})
        one = Session(await deployment.connect())
        one.begin()
        await one.ok({"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"n": 7}}}]})
        change = {"q": {"_id": 2}, "u": {"$set": {"n": 7}}}
        update = await _waiting(deployment, {"update": "c", "updates": [change]})
        await one.end("commit")
        assert (await update)["writeErrors"][0]["code"] == 11000
        assert await plain_find(talker) == [{"_id": 1, "n": 7}, {"_id": 2, "n": 2}]

    play(scenario)


@pytest.mark.parametrize(
    "command", [{"create": "new"}, {"insert": "new", "documents": [{"_id": 2}]}], ids=["create", "insert"]
)
def test_a_name_that_a_transaction_is_about_to_give_is_waited_for(command: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, (one,) = await _begin(deployment, 0)
        await one.ok({"insert": "new", "documents": [{"_id": 1}]})
        waiting = await _waiting(deployment, command)
        await one.end("commit")
        await waiting
        found = await talker.ok({"find": "new", "$db": "db"})
        expected = [{"_id": 1}, {"_id": 2}] if "insert" in command else [{"_id": 1}]
        assert found["cursor"]["firstBatch"] == expected

    play(scenario)


def test_writes_beside_a_transaction_copy_no_collection_for_each_statement() -> None:
    """A fork copies a collection at its first change; one fork for each statement is quadratic."""

    async def scenario(deployment: Deployment) -> None:
        talker, _ = await _begin(deployment, 0)
        engine = deployment.cluster.catalog.engine
        forks = 0
        fork = engine.fork

        def counted() -> Any:
            nonlocal forks
            forks += 1
            return fork()

        engine.fork = counted  # type: ignore[method-assign]
        await plain_insert(talker, *({"_id": number} for number in range(10, 60)))
        assert forks == 0

    play(scenario)

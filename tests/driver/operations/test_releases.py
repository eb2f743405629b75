"""What is left out of commands for older servers, and what is refused for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson import Int64
from driven_client import Stage, play
from scripted_mongod import ScriptedMongod, member_hello, standalone_hello

from driver import ReadPreference, WriteConcern
from driver.concerns import ReadMode
from driver.errors import InvalidArgumentError
from driver.operations.models import DeleteMany, DeleteOne, InsertOne, UpdateOne

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from driver.collection import Collection

WIRE_42, WIRE_44, WIRE_50, WIRE_80, WIRE_82 = 8, 9, 13, 25, 27


def members(wire_version: int) -> list[ScriptedMongod]:
    return [ScriptedMongod(1, member_hello([1], 1, primary=1, maxWireVersion=wire_version))]


def received(stage: Stage) -> list[str]:
    """Return the names of the commands of operations."""
    names = [next(iter(command)) for command in stage.primary.received]
    return [name for name in names if name != "endSessions"]


def unacknowledged(stage: Stage) -> Collection:
    return stage.client.database("db").collection("things", write_concern=WriteConcern(0))


RAW: dict[str, Callable[[Collection], Awaitable[Any]]] = {
    "find": lambda c: c.find({}, rawData=True),
    "aggregate": lambda c: c.aggregate([], rawData=True),
    "count": lambda c: c.estimated_document_count(rawData=True),
    "insert": lambda c: c.insert_one({"_id": 1}, rawData=True),
    "update": lambda c: c.update_one({}, {"$set": {"x": 1}}, rawData=True),
    "delete": lambda c: c.bulk_write([DeleteOne(filter={})], rawData=True),
    "findAndModify": lambda c: c.find_one_and_delete({}, rawData=True),
    "createIndexes": lambda c: c.create_index({"x": 1}, options={"rawData": True}),
}


@pytest.mark.parametrize("wire_version", [WIRE_42, WIRE_80, WIRE_82])
@pytest.mark.parametrize("command", RAW)
def test_raw_data_is_asked_of_servers_that_have_it(command: str, wire_version: int) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("count", {"ok": 1.0, "n": 0})
        await RAW[command](stage.collection)

    sent = play(scenario, members=members(wire_version)).primary.commands(command)
    assert [message.get("rawData") for message in sent] == [True if wire_version == WIRE_82 else None]


def test_a_command_of_the_user_s_own_is_sent_as_it_is() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.database("db").command({"ping": 1, "rawData": True, "comment": 1})

    (ping,) = play(scenario, members=members(WIRE_42)).primary.commands("ping")
    assert (ping["rawData"], ping["comment"]) == (True, 1)


@pytest.mark.parametrize(("wire_version", "comment"), [(WIRE_42, None), (WIRE_44, "why")])
def test_a_comment_goes_with_the_batches_of_servers_that_take_it(
    wire_version: int, comment: str | None
) -> None:
    async def scenario(stage: Stage) -> None:
        batch = {"id": Int64(7), "ns": "db.things", "firstBatch": [{"x": 1}]}
        last = {"id": Int64(0), "ns": "db.things", "nextBatch": []}
        stage.primary.will("find", {"ok": 1.0, "cursor": batch})
        stage.primary.will("getMore", {"ok": 1.0, "cursor": last})
        await (await stage.collection.find({}, comment="why")).to_list()

    server = play(scenario, members=members(wire_version)).primary
    assert server.commands("find")[0]["comment"] == "why"
    assert server.commands("getMore")[0].get("comment") == comment


@pytest.mark.parametrize("stage_that_writes", [{"$out": "o"}, {"$merge": "o"}])
@pytest.mark.parametrize(("wire_version", "sent"), [(WIRE_44, False), (WIRE_50, True)])
def test_a_pipeline_that_writes_tells_no_read_preference_to_old_servers(
    stage_that_writes: dict[str, Any],
    wire_version: int,
    sent: bool,  # noqa: FBT001 - a case
) -> None:
    async def scenario(stage: Stage) -> None:
        preferred = ReadPreference(ReadMode.SECONDARY_PREFERRED)
        collection = stage.client.database("db").collection("things", read_preference=preferred)
        await collection.aggregate([stage_that_writes])
        await collection.aggregate([{"$match": {}}])

    writes, reads = play(scenario, members=members(wire_version)).primary.commands("aggregate")
    assert ("$readPreference" in writes) is sent
    assert "$readPreference" in reads


HINTS: list[tuple[Callable[[Collection], Awaitable[Any]], int]] = [
    (lambda c: c.update_one({}, {"$set": {"x": 1}}, hint="_id_"), WIRE_42),
    (lambda c: c.bulk_write([UpdateOne(filter={}, update={"$set": {"x": 1}}, hint="_id_")]), WIRE_42),
    (lambda c: c.delete_one({}, hint="_id_"), WIRE_44),
    (lambda c: c.delete_many({}, hint={"_id": 1}), WIRE_44),
    (lambda c: c.bulk_write([DeleteMany(filter={}), DeleteMany(filter={}, hint="_id_")]), WIRE_44),
    (lambda c: c.find_one_and_delete({}, hint="_id_"), WIRE_44),
    (lambda c: c.find_one_and_update({}, {"$set": {"x": 1}}, hint="_id_"), WIRE_44),
    (lambda c: c.find_one_and_replace({}, {"x": 1}, hint="_id_"), WIRE_44),
]


@pytest.mark.parametrize(("call", "since"), HINTS)
def test_a_hint_is_refused_where_nobody_would_hear_the_server_refuse_it(
    call: Callable[[Collection], Awaitable[Any]], since: int
) -> None:
    async def too_old(stage: Stage) -> None:
        with pytest.raises(InvalidArgumentError, match="a hint of an unacknowledged"):
            await call(unacknowledged(stage))

    async def new_enough(stage: Stage) -> None:
        await call(unacknowledged(stage))
        await stage.client.database("db").command({"ping": 1})

    async def acknowledged(stage: Stage) -> None:
        await call(stage.collection)

    assert received(play(too_old, members=members(since - 1))) == []
    assert len(received(play(new_enough, members=members(since)))) == 2
    assert len(received(play(acknowledged, members=members(since - 1)))) == 1


def test_a_bulk_write_sends_what_comes_before_the_command_with_such_a_hint() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(InvalidArgumentError):
            await unacknowledged(stage).bulk_write(
                [InsertOne(document={"_id": 1}), DeleteOne(filter={}, hint="_id_")]
            )
        await stage.client.database("db").command({"ping": 1})

    assert received(play(scenario, members=members(WIRE_42))) == ["insert", "ping"]


@pytest.mark.parametrize("wire_version", [WIRE_42, WIRE_44])
def test_a_commit_quorum_is_refused_where_servers_know_none(wire_version: int) -> None:
    async def scenario(stage: Stage) -> None:
        if wire_version >= WIRE_44:
            await stage.collection.create_index({"x": 1}, options={"commitQuorum": "majority"})
            return
        with pytest.raises(InvalidArgumentError, match=r"commitQuorum needs a server of version 4\.4"):
            await stage.collection.create_index({"x": 1}, options={"commitQuorum": "majority"})

    sent = play(scenario, members=members(wire_version)).primary.commands("createIndexes")
    assert len(sent) == (1 if wire_version >= WIRE_44 else 0)


@pytest.mark.parametrize("wire_version", [WIRE_44, WIRE_50])
def test_a_snapshot_is_read_from_5_0_on(wire_version: int) -> None:
    async def scenario(stage: Stage) -> None:
        async with stage.client.start_session(snapshot=True) as session:
            if wire_version >= WIRE_50:
                await stage.collection.find({}, session=session)
                return
            with pytest.raises(InvalidArgumentError, match=r"Snapshot reads require MongoDB 5\.0 or later"):
                await stage.collection.find({}, session=session)

    sent = play(scenario, members=members(wire_version)).primary.commands("find")
    assert [command["readConcern"] for command in sent] == (
        [{"level": "snapshot"}] if wire_version >= WIRE_50 else []
    )


def test_a_standalone_is_asked_by_its_own_release() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.collection.find({}, rawData=True)

    hello = standalone_hello(maxWireVersion=WIRE_80)
    (find,) = play(scenario, members=[ScriptedMongod(1, hello)]).primary.commands("find")
    assert "rawData" not in find

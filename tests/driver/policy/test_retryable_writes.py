"""Retryable Writes, sentence by sentence, against scripted members in virtual time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bson import Int64, Timestamp
from driven_client import Stage, discovered, play
from scripted_mongod import (
    Drop,
    ScriptedMongod,
    error,
    member_hello,
    mongos_hello,
    replica_set,
    standalone_hello,
)

from driver import WriteConcern
from driver.errors import (
    BulkWriteError,
    DriverError,
    InvalidArgumentError,
    NetworkError,
    OperationTimeoutError,
    ServerError,
    ServerSelectionError,
    WriteConcernError,
    WriteError,
)
from driver.operations.models import DeleteMany, DeleteOne, InsertOne, UpdateMany, UpdateOne
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from driver.collection import Collection

GUIDE = Path(__file__).parents[3] / "docs" / "DRIVER.md"
NOT_PRIMARY = 10107
SHUTDOWN = 91
RETRYABLE = Label.RETRYABLE_WRITE
NO_WRITES = Label.NO_WRITES_PERFORMED
INSERTED = {"ok": 1.0, "n": 1}


def write_concern_error(code: int, *labels: str) -> dict[str, Any]:
    failed = {"code": code, "errmsg": "not safe"}
    return {"ok": 1.0, "n": 1, "writeConcernError": failed, "errorLabels": list(labels)}


def caught(stage_scenario: Callable[[Stage], Awaitable[None]], kind: type[DriverError]) -> Any:
    """Return a scenario that keeps the error, and a list that will hold it."""
    kept: list[Any] = []

    async def scenario(stage: Stage) -> None:
        with pytest.raises(kind) as info:
            await stage_scenario(stage)
        kept.append(info.value)

    return scenario, kept


async def insert(stage: Stage) -> None:
    await stage.collection.insert_one({"_id": 1})


def old_replica_set(**extra: Any) -> list[ScriptedMongod]:
    """A set before 4.4, which leaves labels to drivers."""
    return [ScriptedMongod(1, member_hello([1], 1, primary=1, maxWireVersion=8, **extra))]


SUPPORTED: dict[str, Callable[[Collection], Awaitable[Any]]] = {
    "insertOne": lambda c: c.insert_one({"_id": 1}),
    "updateOne": lambda c: c.update_one({}, {"$set": {"x": 1}}),
    "replaceOne": lambda c: c.replace_one({}, {"x": 1}),
    "deleteOne": lambda c: c.delete_one({}),
    "findOneAndDelete": lambda c: c.find_one_and_delete({}),
    "findOneAndReplace": lambda c: c.find_one_and_replace({}, {"x": 1}),
    "findOneAndUpdate": lambda c: c.find_one_and_update({}, {"$set": {"x": 1}}),
    "insertMany": lambda c: c.insert_many([{"_id": 1}]),
    "bulkWrite": lambda c: c.bulk_write([DeleteOne(filter={})]),
}

CURSOR = {"ok": 1.0, "cursor": {"id": 0, "ns": "db.things", "firstBatch": []}}
UNSUPPORTED: dict[str, Callable[[Collection], Awaitable[Any]]] = {
    "updateMany": lambda c: c.update_many({}, {"$set": {"x": 1}}),
    "deleteMany": lambda c: c.delete_many({}),
    "aggregate with $out": lambda c: c.aggregate([{"$out": "other"}]),
    "aggregate with $merge": lambda c: c.aggregate([{"$merge": {"into": "other"}}]),
    "bulkWrite with updateMany": lambda c: c.bulk_write([UpdateMany(filter={}, update={"$set": {"x": 1}})]),
    "createIndex": lambda c: c.create_index({"x": 1}),
    "drop": lambda c: c.drop(),
}


@pytest.mark.spec("RW-24", "RW-26", "RW-33", "RW-35", "RW-36", "RW-40", "RW-44", "RW-51", "RW-64")
@pytest.mark.parametrize("method", SUPPORTED)
def test_supported_writes_carry_a_transaction_id_and_are_retried_once(method: str) -> None:
    async def scenario(stage: Stage) -> None:
        for command in ("insert", "update", "delete", "findAndModify"):
            stage.primary.will(command, Drop())
        await SUPPORTED[method](stage.collection)

    stage = play(scenario)
    first, second = (c for c in stage.primary.received if "endSessions" not in c)
    assert first["txnNumber"] == second["txnNumber"] == 1
    assert isinstance(first["txnNumber"], Int64)
    assert first["lsid"] == second["lsid"]


@pytest.mark.spec("RW-18", "RW-19", "RW-21")
@pytest.mark.parametrize("method", UNSUPPORTED)
def test_other_writes_carry_no_transaction_id_and_are_not_retried(method: str) -> None:
    async def fails(stage: Stage) -> None:
        for command in ("update", "delete", "aggregate", "createIndexes", "drop"):
            stage.primary.will(command, Drop())
        await UNSUPPORTED[method](stage.collection)

    scenario, kept = caught(fails, DriverError)
    stage = play(scenario)
    sent = [c for c in stage.primary.received if "endSessions" not in c]
    assert len(sent) == 1
    assert "txnNumber" not in sent[0]
    assert kept[0].has_label(RETRYABLE)


@pytest.mark.spec("RW-15")
def test_the_guide_names_the_writes_that_are_retried_and_those_that_are_not() -> None:
    rows = re.findall(r"^\| `(.+?)` \| (yes|no)", GUIDE.read_text(), re.MULTILINE)
    assert {name for name, retried in rows if retried == "yes"} == SUPPORTED.keys()
    assert {name for name, retried in rows if retried == "no"} == UNSUPPORTED.keys()


@pytest.mark.spec("RW-16")
def test_an_unacknowledged_write_has_no_transaction_id_no_session_and_no_retry() -> None:
    async def scenario(stage: Stage) -> None:
        unacknowledged = stage.client.database("db").collection("things", write_concern=WriteConcern(0))
        result = await unacknowledged.insert_one({"_id": 1})
        assert not result.acknowledged
        await stage.client.command("admin", {"ping": 1})

    stage = play(scenario)
    sent = stage.primary.commands("insert")[0]
    assert sent["writeConcern"] == {"w": 0}
    assert not {"txnNumber", "lsid"} & sent.keys()
    assert stage.of_kind("commandSucceededEvent")[0].reply == {"ok": 1}


@pytest.mark.spec("RW-34", "RW-59")
def test_run_command_is_sent_as_it_is() -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", Drop())
        await stage.client.command("db", {"insert": "things", "documents": [{"_id": 1}]})

    scenario, _ = caught(fails, NetworkError)
    stage = play(scenario)
    assert len(stage.primary.commands("insert")) == 1
    assert "txnNumber" not in stage.primary.commands("insert")[0]


@pytest.mark.spec("RW-2", "RW-39", "RW-60")
def test_with_retry_writes_off_nothing_is_added_nothing_retried_and_nothing_labelled() -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", Drop())
        await insert(stage)

    scenario, kept = caught(fails, NetworkError)
    stage = play(scenario, "retryWrites=false")
    assert len(stage.primary.commands("insert")) == 1
    assert "txnNumber" not in stage.primary.commands("insert")[0]
    assert not kept[0].has_label(RETRYABLE)


@pytest.mark.spec("RW-7", "RW-10", "RW-11", "RW-39")
@pytest.mark.parametrize(
    "hello",
    [
        standalone_hello(),
        {k: v for k, v in mongos_hello().items() if k != "logicalSessionTimeoutMinutes"},
    ],
    ids=["standalone", "without sessions"],
)
def test_a_first_server_without_support_gets_the_plain_write_once(hello: dict[str, Any]) -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", Drop())
        await insert(stage)

    scenario, kept = caught(fails, NetworkError)
    stage = play(scenario, members=[ScriptedMongod(1, hello)])
    assert len(stage.primary.commands("insert")) == 1
    assert "txnNumber" not in stage.primary.commands("insert")[0]
    assert not kept[0].has_label(RETRYABLE)


@pytest.mark.spec("RW-38")
def test_a_selection_error_of_the_first_attempt_is_raised() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(ServerSelectionError, match="no server found for a writable server in time"):
            await insert(stage)
        assert stage.world.clock.now() == pytest.approx(0.1, abs=0.05), "it selects once, and not again"

    lonely = ScriptedMongod(2, member_hello([1, 2], 2, primary=None))
    play(scenario, "serverSelectionTimeoutMS=100", members=[lonely])


@pytest.mark.spec("RW-31", "RW-32", "RW-35", "RW-37")
def test_transaction_numbers_grow_with_each_command_and_stay_with_the_server_session() -> None:
    async def scenario(stage: Stage) -> None:
        await insert(stage)
        await stage.collection.bulk_write([InsertOne(document={"_id": 2}), DeleteOne(filter={"_id": 2})])
        await insert(stage)

    stage = play(scenario)
    writes = [c for c in stage.primary.received if "txnNumber" in c]
    assert [c["txnNumber"] for c in writes] == [1, 2, 3, 4]
    assert len({c["lsid"]["id"] for c in writes}) == 1


@pytest.mark.spec("RW-13", "RW-14", "RW-18", "RW-20", "RW-58")
def test_each_command_of_a_bulk_write_is_judged_by_itself() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.collection.bulk_write(
            [
                InsertOne(document={"_id": 1}),
                UpdateMany(filter={}, update={"$set": {"x": 1}}),
                UpdateOne(filter={}, update={"$set": {"x": 1}}),
                DeleteMany(filter={}),
                InsertOne(document={"_id": 2}),
            ]
        )

    stage = play(scenario)
    numbers = [(next(iter(c)), c.get("txnNumber")) for c in stage.primary.received if "endSessions" not in c]
    assert numbers == [("insert", 1), ("update", None), ("delete", None), ("insert", 2)]


@pytest.mark.spec("RW-28", "RW-41", "RW-42")
def test_only_labelled_errors_of_new_servers_are_retried() -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", error(NOT_PRIMARY, "not primary"))
        await insert(stage)

    scenario, kept = caught(fails, ServerError)
    stage = play(scenario)
    assert len(stage.primary.commands("insert")) == 1
    assert not kept[0].has_label(RETRYABLE)


@pytest.mark.spec("RW-52", "RW-56", "RW-57")
def test_a_retry_is_a_new_message_with_the_newest_cluster_time() -> None:
    def at(seconds: int) -> dict[str, Any]:
        return {
            "$clusterTime": {"clusterTime": Timestamp(seconds, 1)},
            "operationTime": Timestamp(seconds, 1),
        }

    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", {**error(SHUTDOWN, "going", RETRYABLE), **at(5)})
        await insert(stage)

    stage = play(scenario)
    first, second = stage.primary.commands("insert")
    assert "$clusterTime" not in first
    assert second["$clusterTime"]["clusterTime"] == Timestamp(5, 1)
    started = stage.of_kind("commandStartedEvent")
    assert started[0].request_id != started[1].request_id
    assert started[0].operation_id == started[1].operation_id


@pytest.mark.spec("RW-54", "RW-55")
def test_every_attempt_has_its_started_and_its_ended_event() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", Drop())
        await insert(stage)

    stage = play(scenario)
    assert stage.kinds()[:4] == ["commandStarted", "commandFailed", "commandStarted", "commandSucceeded"]


def test_a_write_concern_error_with_the_label_is_retried() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", write_concern_error(SHUTDOWN, RETRYABLE), INSERTED)
        await insert(stage)

    assert len(play(scenario).primary.commands("insert")) == 2


def test_a_write_concern_error_without_the_label_is_raised() -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", write_concern_error(64))
        await insert(stage)

    scenario, kept = caught(fails, WriteConcernError)
    stage = play(scenario)
    assert len(stage.primary.commands("insert")) == 1
    assert (kept[0].code, kept[0].message) == (64, "not safe")


@pytest.mark.spec("RW-29")
@pytest.mark.parametrize("code", [11600, 11602, 10107, 13435, 13436, 189, 91, 7, 6, 89, 9001, 262])
def test_the_driver_labels_the_listed_codes_of_servers_before_4_4(code: int) -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", error(code), error(code))
        await insert(stage)

    scenario, kept = caught(fails, ServerError)
    stage = play(scenario, members=old_replica_set())
    assert len(stage.primary.commands("insert")) == 2
    assert kept[0].has_label(RETRYABLE)


@pytest.mark.spec("RW-29", "RW-30")
@pytest.mark.parametrize(
    ("answer", "hello", "attempts"),
    [
        (write_concern_error(91), member_hello([1], 1, primary=1, maxWireVersion=8), 2),
        (write_concern_error(91), mongos_hello(maxWireVersion=8), 1),
        (error(91), mongos_hello(maxWireVersion=8), 2),
        (error(11000), member_hello([1], 1, primary=1, maxWireVersion=8), 1),
        (
            {"ok": 1.0, "n": 0, "writeErrors": [{"index": 0, "code": 91, "errmsg": "no"}]},
            member_hello([1], 1, primary=1, maxWireVersion=8),
            1,
        ),
    ],
    ids=["mongod's concern", "mongos' concern", "mongos' code", "another code", "write error"],
)
def test_where_the_code_stands_decides_before_4_4(
    answer: dict[str, Any], hello: dict[str, Any], attempts: int
) -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", answer, answer)
        await insert(stage)

    scenario, _ = caught(fails, ServerError)
    stage = play(scenario, members=[ScriptedMongod(1, hello)])
    assert len(stage.primary.commands("insert")) == attempts


@pytest.mark.spec("RW-8", "RW-9", "RW-50")
def test_code_20_about_transaction_numbers_tells_what_to_do() -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", error(20, "Transaction numbers are only allowed on a replica set"))
        await insert(stage)

    scenario, kept = caught(fails, ServerError)
    play(scenario)
    assert str(kept[0]) == (
        "This MongoDB deployment does not support retryable writes. "
        "Please add retryWrites=false to your connection string."
    )


def test_code_20_about_anything_else_is_left_alone() -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", error(20, "something else"))
        await insert(stage)

    scenario, kept = caught(fails, ServerError)
    play(scenario)
    assert str(kept[0]) == "something else"


@pytest.mark.spec("RW-61")
def test_the_first_error_stands_when_the_retry_wrote_nothing() -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will(
            "insert",
            write_concern_error(SHUTDOWN, RETRYABLE),
            error(NOT_PRIMARY, "not primary", RETRYABLE, NO_WRITES),
        )
        await insert(stage)

    scenario, kept = caught(fails, ServerError)
    play(scenario)
    assert kept[0].code == SHUTDOWN


def test_the_last_error_stands_otherwise() -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", error(SHUTDOWN, "a", RETRYABLE), error(NOT_PRIMARY, "b", RETRYABLE))
        await insert(stage)

    scenario, kept = caught(fails, ServerError)
    stage = play(scenario)
    assert kept[0].code == NOT_PRIMARY
    assert kept[0].address == stage.primary.address


@pytest.mark.spec("RW-47")
def test_when_no_server_can_be_selected_for_the_retry_the_first_error_stands() -> None:
    async def fails(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        stage.primary.hello = member_hello([1, 2], 1, primary=None)
        stage.primary.will("insert", error(NOT_PRIMARY, "not primary", RETRYABLE))
        await insert(stage)

    scenario, kept = caught(fails, ServerError)
    play(scenario, "serverSelectionTimeoutMS=2000")
    assert kept[0].code == NOT_PRIMARY


@pytest.mark.spec("RW-47")
def test_when_the_server_of_the_retry_has_no_support_the_first_error_stands() -> None:
    async def fails(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        stage.primary.hello = member_hello([1], 1, primary=1, maxWireVersion=8)
        del stage.primary.hello["logicalSessionTimeoutMinutes"]
        stage.primary.will("insert", error(NOT_PRIMARY, "not primary", RETRYABLE))
        await insert(stage)

    scenario, kept = caught(fails, ServerError)
    stage = play(scenario, members=replica_set([1]))
    assert kept[0].code == NOT_PRIMARY
    assert len(stage.primary.commands("insert")) == 1


@pytest.mark.spec("RW-49")
def test_an_error_has_the_address_of_the_server_that_it_came_from() -> None:
    async def scenario(stage: Stage) -> None:
        for mongos in stage.members:
            mongos.will("insert", lambda _command: refusals.pop(0))
        with pytest.raises(ServerError) as info:
            await insert(stage)
        started = stage.of_kind("commandStartedEvent")
        assert (info.value.code, info.value.address) == (SHUTDOWN, started[0].connection_id)
        assert started[0].connection_id != started[1].connection_id

    refusals = [error(SHUTDOWN, "going", RETRYABLE), error(NOT_PRIMARY, "gone", RETRYABLE, NO_WRITES)]
    play(scenario, members=[ScriptedMongod(port, mongos_hello()) for port in (1, 2)])


def test_in_a_sharded_cluster_the_retry_goes_to_another_mongos() -> None:
    async def scenario(stage: Stage) -> None:
        for mongos in stage.members:
            mongos.will("insert", error(SHUTDOWN, "going", RETRYABLE))
        with pytest.raises(ServerError) as info:
            await insert(stage)
        started = stage.of_kind("commandStartedEvent")
        assert info.value.address == started[1].connection_id

    stage = play(scenario, members=[ScriptedMongod(port, mongos_hello()) for port in (1, 2)])
    assert [len(mongos.commands("insert")) for mongos in stage.members] == [1, 1]


@pytest.mark.spec("RW-25")
def test_a_network_error_of_the_handshake_is_labelled_and_retried() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        stage.primary.will("isMaster", Drop())
        await insert(stage)

    stage = play(scenario, "heartbeatFrequencyMS=100000")
    assert len(stage.primary.commands("insert")) == 1
    failure = stage.of_kind("connectionCheckOutFailedEvent")[0].error
    assert failure.has_label(RETRYABLE)
    assert failure.establishing


def test_a_session_that_met_a_network_error_is_dirty_and_never_used_again() -> None:
    async def scenario(stage: Stage) -> None:
        async with stage.client.start_session() as session:
            stage.primary.will("insert", Drop())
            await stage.collection.insert_one({"_id": 1}, session=session)
            assert session.dirty
        await stage.collection.insert_one({"_id": 2})

    stage = play(scenario)
    lsids = [c["lsid"]["id"] for c in stage.primary.commands("insert")]
    assert lsids[0] == lsids[1] != lsids[2]


@pytest.mark.spec("RW-44", "RW-65")
def test_with_a_timeout_retries_go_on_until_it_has_passed() -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", *[error(SHUTDOWN, "going", RETRYABLE)] * 30)
        await insert(stage)

    scenario, kept = caught(fails, OperationTimeoutError)
    stage = play(scenario, "timeoutMS=3000&heartbeatFrequencyMS=500")
    assert len(stage.primary.commands("insert")) > 2
    assert kept[0].cause.code == SHUTDOWN
    assert kept[0].has_label(RETRYABLE)


# --- bulk writes that are interrupted ---


def test_an_interrupted_bulk_write_tells_what_was_done() -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", INSERTED)
        stage.primary.will("delete", Drop(), Drop())
        await stage.collection.bulk_write([InsertOne(document={"_id": 7}), DeleteOne(filter={"_id": 1})])

    scenario, kept = caught(fails, BulkWriteError)
    play(scenario)
    failure = kept[0]
    assert failure.partial.inserted_ids == {0: 7}
    assert isinstance(failure.cause, NetworkError)
    assert failure.has_label(RETRYABLE)
    assert failure.code is None


@pytest.mark.spec("RW-63")
def test_a_failed_retry_ends_an_unordered_bulk_write_too() -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", Drop(), Drop())
        await stage.collection.bulk_write(
            [InsertOne(document={"_id": 7}), DeleteOne(filter={"_id": 1})], ordered=False
        )

    scenario, _ = caught(fails, BulkWriteError)
    assert play(scenario).primary.commands("delete") == []


def test_write_errors_of_an_unordered_bulk_write_keep_the_indexes_of_the_request() -> None:
    async def fails(stage: Stage) -> None:
        refused = {"index": 1, "code": 11000, "errmsg": "E11000"}
        stage.primary.will("insert", {"ok": 1.0, "n": 1, "writeErrors": [refused]})
        await stage.collection.bulk_write(
            [InsertOne(document={"_id": 0}), DeleteOne(filter={}), InsertOne(document={"_id": 2})],
            ordered=False,
        )

    scenario, kept = caught(fails, BulkWriteError)
    play(scenario)
    assert list(kept[0].write_errors) == [2]
    assert kept[0].code == 11000
    assert kept[0].partial.inserted_ids == {0: 0}


def test_an_ordered_bulk_write_stops_at_the_first_write_error() -> None:
    async def fails(stage: Stage) -> None:
        refused = {"index": 0, "code": 11000, "errmsg": "E11000"}
        stage.primary.will("insert", {"ok": 1.0, "n": 0, "writeErrors": [refused]})
        await stage.collection.bulk_write([InsertOne(document={"_id": 0}), DeleteOne(filter={})])

    scenario, _ = caught(fails, BulkWriteError)
    assert play(scenario).primary.commands("delete") == []


def test_a_write_concern_error_does_not_end_a_bulk_write() -> None:
    async def fails(stage: Stage) -> None:
        stage.primary.will("insert", write_concern_error(64))
        await stage.collection.bulk_write([InsertOne(document={"_id": 0}), DeleteOne(filter={})])

    scenario, kept = caught(fails, BulkWriteError)
    stage = play(scenario)
    assert len(stage.primary.commands("delete")) == 1
    assert kept[0].write_concern_errors[0]["code"] == 64


def test_the_write_error_of_a_single_write_comes_before_its_write_concern_error() -> None:
    async def fails(stage: Stage) -> None:
        refused = {"index": 0, "code": 121, "errmsg": "invalid", "errInfo": {"why": "x"}}
        stage.primary.will("insert", {**write_concern_error(64), "writeErrors": [refused]})
        await insert(stage)

    scenario, kept = caught(fails, WriteError)
    play(scenario)
    assert (kept[0].code, kept[0].details) == (121, {"why": "x"})


def test_bad_models_are_refused_before_anything_is_sent() -> None:
    async def scenario(stage: Stage) -> None:
        for models in (
            [],
            [UpdateOne(filter={}, update={"x": 1})],
            [InsertOne(document={}, namespace="db.things")],
        ):
            with pytest.raises(InvalidArgumentError):
                await stage.collection.bulk_write(models)

    assert play(scenario).primary.received == []

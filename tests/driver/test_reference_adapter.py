"""The reference driver behind the runner's contract."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from bson import Int64
from driven_client import Stage, staged
from scripted_mongod import Drop, error, replica_set

from driver.editions import EDITIONS
from harness.adapters.base import (
    LOG_MESSAGE,
    SPAN,
    ClientSpec,
    EntityKind,
    Feature,
    Invocation,
    OperationFailed,
    UnsupportedOperation,
)
from harness.adapters.reference.adapter import ReferenceAdapter, make
from harness.sim import run_virtual

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from harness.world.virtual import World


@dataclass
class Scene:
    stage: Stage
    adapter: ReferenceAdapter
    client: Any
    collection: Any

    async def call(self, operation: str, **arguments: Any) -> Any:
        return await self.adapter.call(
            Invocation(self.collection, EntityKind.COLLECTION, operation, arguments)
        )

    async def fails(self, operation: str, **arguments: Any) -> Any:
        with pytest.raises(OperationFailed) as info:
            await self.call(operation, **arguments)
        return info.value.report


OBSERVED = frozenset({"commandStartedEvent", "connectionReadyEvent", "topologyDescriptionChangedEvent"})


@asynccontextmanager
async def scene(world: World) -> AsyncIterator[Scene]:
    async with staged(world, replica_set([1, 2])) as stage:
        adapter = make(world, edition="2026-02-20")  # type: ignore[arg-type]
        client = await adapter.create_client(
            ClientSpec("mongodb://localhost:1,localhost:2/?replicaSet=rs0", observe_events=OBSERVED)
        )
        database = await adapter.create(EntityKind.DATABASE, client, {"databaseName": "db"})
        collection = await adapter.create(
            EntityKind.COLLECTION,
            database,
            {"collectionName": "t", "collectionOptions": {"writeConcern": {"w": 1}}},
        )
        try:
            yield Scene(stage, adapter, client, collection)
        finally:
            await adapter.aclose()


def act(scenario: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def main(world: World) -> None:
        async with scene(world) as made:
            await scenario(made)

    run_virtual(main)


def test_features_follow_the_edition() -> None:
    def features(edition: str) -> frozenset[Feature]:
        return ReferenceAdapter(None, EDITIONS[edition]).features  # type: ignore[arg-type]

    old, new = features("2026-02-20"), features("2026-07-08")
    assert old - new == {Feature.ADAPTIVE_RETRIES, Feature.RETRY_TOKENS}
    assert new - old == {Feature.MAX_ADAPTIVE_RETRIES}
    assert Feature.VIRTUAL_TIME in old
    assert Feature.TRANSACTIONS in old


def test_results_have_the_format_s_form() -> None:
    async def scenario(scene: Scene) -> None:
        peer = scene.stage.primary
        assert await scene.call("insertOne", document={"_id": 1}) == {"insertedId": 1}
        peer.will("insert", {"ok": 1.0, "n": 2})
        many = await scene.call("insertMany", documents=[{"_id": 1}, {"_id": 2}])
        assert many == {"insertedIds": {"0": 1, "1": 2}}
        upserted = {"ok": 1.0, "n": 1, "nModified": 0, "upserted": [{"index": 0, "_id": 3}]}
        peer.will("update", upserted)
        update = {"$set": {"x": 1}}
        assert await scene.call("updateOne", filter={}, update=update, upsert=True) == {
            "matchedCount": 0,
            "modifiedCount": 0,
            "upsertedCount": 1,
            "upsertedId": 3,
        }
        peer.will("delete", {"ok": 1.0, "n": 4})
        assert await scene.call("deleteMany", filter={}) == {"deletedCount": 4}
        peer.will("insert", {"ok": 1.0, "n": 1})
        assert await scene.call("bulkWrite", requests=[{"insertOne": {"document": {"_id": 9}}}]) == {
            "insertedCount": 1,
            "matchedCount": 0,
            "modifiedCount": 0,
            "deletedCount": 0,
            "upsertedCount": 0,
            "insertedIds": {"0": 9},
            "upsertedIds": {},
        }
        assert await scene.call("find", filter={}) == []

    act(scenario)


def test_errors_speak_the_words_of_expect_error() -> None:
    async def scenario(scene: Scene) -> None:
        peer = scene.stage.primary
        peer.will("insert", error(8, "boom", "SomeLabel"), {"ok": 1.0}, Drop(), Drop())
        server = await scene.fails("insertOne", document={"_id": 1})
        assert (server.code, server.code_name, server.is_client_error) == (8, "UnknownError", False)
        assert server.labels == {"SomeLabel"}
        assert server.response["errmsg"] == "boom"
        await scene.call("insertOne", document={"_id": 1})
        network = await scene.fails("insertOne", document={"_id": 1})
        assert network.is_client_error
        assert "RetryableWriteError" in network.labels
        refused = await scene.fails("updateOne", filter={}, update={"x": 1})
        assert (refused.is_client_error, refused.code) == (True, None)
        unencodable = await scene.fails("insertOne", document={"_id": object()})
        assert unencodable.is_client_error

    act(scenario)


def test_a_failed_bulk_write_reports_its_partial_result_and_each_error() -> None:
    async def scenario(scene: Scene) -> None:
        first = {"index": 1, "code": 11000, "errmsg": "E11000", "errInfo": {"why": 1}}
        scene.stage.primary.will("insert", {"ok": 1.0, "n": 1, "writeErrors": [first]})
        failed = await scene.fails("insertMany", documents=[{"_id": 1}, {"_id": 1}])
        assert failed.code == 11000
        assert failed.write_errors[1]["message"] == "E11000"
        assert failed.write_errors[1]["details"] == {"why": 1}
        assert failed.result["insertedCount"] == 1
        assert failed.result["insertedIds"] == {"0": 1}

    act(scenario)


def test_what_the_driver_lacks_is_unsupported() -> None:
    async def scenario(scene: Scene) -> None:
        with pytest.raises(UnsupportedOperation, match="no createIndexes on a collection"):
            await scene.call("createIndexes", models=[])
        with pytest.raises(UnsupportedOperation, match="has its results inline"):
            await scene.call("mapReduce", map="", reduce="", out="")
        with pytest.raises(UnsupportedOperation, match="takes no timeout here"):
            await scene.call("find", filter={}, timeout=5)
        with pytest.raises(UnsupportedOperation, match="does not create a clientEncryption"):
            await scene.adapter.create(EntityKind.CLIENT_ENCRYPTION, scene.client, {})
        with pytest.raises(UnsupportedOperation, match="the reference driver warns"):
            await scene.adapter.create_client(ClientSpec("mongodb://a/?nonsense=1"))
        with pytest.raises(OperationFailed, match="begins with mongodb"):
            await scene.adapter.create_client(ClientSpec("http://a"))
        with pytest.raises(OperationFailed, match="unknown server API version"):
            await scene.adapter.create_client(ClientSpec("mongodb://a", server_api={"version": "9"}))

    act(scenario)


def test_events_have_the_format_s_names_and_only_those_asked_for() -> None:
    async def scenario(scene: Scene) -> None:
        await scene.call("insertOne", document={"_id": 1})
        seen = {event.kind: event for event in scene.adapter.events(scene.client)}
        assert seen.keys() == OBSERVED
        assert seen["commandStartedEvent"].fields["databaseName"] == "db"
        assert seen["connectionReadyEvent"].fields["durationMS"] > 0
        changed = seen["topologyDescriptionChangedEvent"].fields
        assert changed["newDescription"]["type"] == "ReplicaSetWithPrimary"

    act(scenario)


def test_log_messages_are_those_of_the_client_and_loggers_are_left_as_they_were() -> None:
    async def scenario(scene: Scene) -> None:
        logger = logging.getLogger("pushbackd.command")
        before = (logger.level, list(logger.handlers))
        spec = ClientSpec("mongodb://localhost:1/?directConnection=true", observe_logs=frozenset({"command"}))
        client = await scene.adapter.create_client(spec)
        scene.stage.primary.will("listDatabases", {"ok": 1.0, "databases": []})
        await scene.call("insertOne", document={"_id": 1})
        await scene.adapter.call(Invocation(client, EntityKind.CLIENT, "listDatabaseNames"))
        logs = [event.fields for event in scene.adapter.events(client) if event.kind == LOG_MESSAGE]
        assert [log["data"]["commandName"] for log in logs] == ["listDatabases", "listDatabases"]
        assert {(log["component"], log["level"]) for log in logs} == {("command", "debug")}
        await scene.adapter.close_client(client)
        await scene.adapter.close_client(client)
        assert (logger.level, logger.handlers) == before

    act(scenario)


@pytest.mark.parametrize("payload", [True, False])
def test_spans_are_the_client_s_and_session_ids_in_them_are_documents(payload: bool) -> None:  # noqa: FBT001 - a case
    async def scenario(scene: Scene) -> None:
        spec = ClientSpec(
            "mongodb://localhost:1/?directConnection=true", observe_spans={"enableCommandPayload": payload}
        )
        client = await scene.adapter.create_client(spec)
        database = await scene.adapter.create(EntityKind.DATABASE, client, {"databaseName": "db"})
        await scene.call("insertOne", document={"_id": 1})
        arguments = {"commandName": "ping", "command": {"ping": 1}}
        await scene.adapter.call(Invocation(database, EntityKind.DATABASE, "runCommand", arguments))
        command, operation = [event.fields for event in scene.adapter.events(client) if event.kind == SPAN]
        assert (command["name"], operation["name"]) == ("ping", "ping db")
        assert command["parent"] == operation["id"]
        assert operation["order"] < command["order"]
        assert command["attributes"]["db.mongodb.lsid"].keys() == {"id"}
        assert isinstance(command["attributes"]["server.port"], Int64)
        assert ("db.query.text" in command["attributes"]) is payload

    act(scenario)


def test_sessions_and_topologies_can_be_looked_at() -> None:
    async def scenario(scene: Scene) -> None:
        session = await scene.adapter.create(EntityKind.SESSION, scene.client, {"sessionOptions": {}})
        await scene.call("insertOne", document={"_id": 1}, session=session)
        state = await scene.adapter.session_state(session)
        assert state.lsid == scene.stage.primary.commands("insert")[0]["lsid"]
        assert not state.dirty
        report = await scene.adapter.topology(scene.client)
        assert (report.type, report.primary) == ("ReplicaSetWithPrimary", "localhost:1")
        await scene.adapter.call(Invocation(session, EntityKind.SESSION, "endSession"))

    act(scenario)


def test_a_cursor_is_an_entity() -> None:
    async def scenario(scene: Scene) -> None:
        first = {"ok": 1.0, "cursor": {"id": 5, "ns": "db.t", "firstBatch": [{"x": 1}]}}
        scene.stage.primary.will("find", first)
        scene.stage.primary.will("getMore", {"ok": 1.0, "cursor": {"id": 0, "ns": "db.t", "nextBatch": []}})
        cursor = await scene.call("createFindCursor", filter={})

        async def call(operation: str) -> Any:
            return await scene.adapter.call(Invocation(cursor, EntityKind.FIND_CURSOR, operation))

        assert await call("iterateUntilDocumentOrError") == {"x": 1}
        assert await call("iterateOnce") is None
        with pytest.raises(OperationFailed, match="no more documents"):
            await call("iterateUntilDocumentOrError")
        await call("close")

    act(scenario)


def test_run_command_puts_the_name_first_whatever_its_place_in_the_file() -> None:
    async def scenario(scene: Scene) -> None:
        arguments = {"commandName": "ping", "command": {"comment": "c", "ping": 1}}
        database = scene.collection.database
        await scene.adapter.call(Invocation(database, EntityKind.DATABASE, "runCommand", arguments))
        sent = scene.stage.primary.commands("ping")[0]
        assert list(sent)[:2] == ["ping", "comment"]

    act(scenario)

"""What the runner relies on in every adapter: each runs these checks against a replica set of three.

A check takes a new adapter and a deployment. It passes over what the adapter does not declare as a feature.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import pytest

from harness.adapters.base import (
    LOG_MESSAGE,
    ClientSpec,
    DriverAdapter,
    EntityKind,
    ErrorReport,
    Event,
    Feature,
    Handle,
    OperationFailed,
    UnsupportedOperation,
)
from harness.unified.deployment import Deployment
from harness.unified.uri import with_options

Check: TypeAlias = Callable[[DriverAdapter, Deployment], Awaitable[None]]

COMMANDS = frozenset({"commandStartedEvent", "commandSucceededEvent", "commandFailedEvent"})
POOL = frozenset({"connectionCheckedOutEvent", "connectionCheckedInEvent", "connectionReadyEvent"})


class Entities:
    """A client, a database and a collection of one adapter, and short ways to use them."""

    def __init__(self, adapter: DriverAdapter, client: Handle, database: Handle, collection: Handle) -> None:
        self.adapter = adapter
        self.client = client
        self.database = database
        self.collection = collection

    @classmethod
    async def make(
        cls,
        adapter: DriverAdapter,
        deployment: Deployment,
        *,
        observe_logs: frozenset[str] = frozenset(),
        **options: Any,
    ) -> Entities:
        uri = with_options(deployment.uri, {"heartbeatFrequencyMS": 500, **options})
        client = await adapter.create_client(ClientSpec(uri, options, COMMANDS | POOL, observe_logs))
        spec = {"id": "database", "databaseName": "contract"}
        database = await adapter.create(EntityKind.DATABASE, client, spec)
        spec = {"id": "collection", "collectionName": "adapter"}
        collection = await adapter.create(EntityKind.COLLECTION, database, spec)
        return cls(adapter, client, database, collection)

    async def call(self, operation: str, **arguments: Any) -> Any:
        return await self.adapter.call(self.collection, EntityKind.COLLECTION, operation, arguments)

    async def failure(self, operation: str, **arguments: Any) -> ErrorReport:
        with pytest.raises(OperationFailed) as raised:
            await self.call(operation, **arguments)
        return raised.value.report

    async def run_command(self, **command: Any) -> Any:
        given = {"command": command, "commandName": next(iter(command))}
        return await self.adapter.call(self.database, EntityKind.DATABASE, "runCommand", given)

    def events(self, *kinds: str, command: str | None = None) -> list[Event]:
        events = [event for event in self.adapter.events(self.client) if event.kind in kinds]
        return [event for event in events if command in (None, event.fields.get("commandName"))]


async def it_has_a_name_and_features(adapter: DriverAdapter, deployment: Deployment) -> None:
    assert adapter.name
    assert isinstance(adapter.features, frozenset)
    assert all(isinstance(feature, Feature) for feature in adapter.features)


async def operations_return_what_the_format_describes(adapter: DriverAdapter, deployment: Deployment) -> None:
    entities = await Entities.make(adapter, deployment)
    assert (await entities.call("insertOne", document={"_id": 1, "x": 1}) or {}).get("insertedId", 1) == 1
    many = await entities.call("insertMany", documents=[{"_id": 2}, {"_id": 3}])
    assert (many or {}).get("insertedIds", {"0": 2, "1": 3}) == {"0": 2, "1": 3}
    update = await entities.call("updateOne", filter={"_id": 1}, update={"$set": {"x": 2}})
    assert (update["matchedCount"], update["modifiedCount"], update["upsertedCount"]) == (1, 1, 0)
    assert "upsertedId" not in update
    upsert = await entities.call("updateOne", filter={"_id": 4}, update={"$set": {"x": 2}}, upsert=True)
    assert (upsert["upsertedCount"], upsert["upsertedId"]) == (1, 4)
    assert (await entities.call("deleteOne", filter={"_id": 4}))["deletedCount"] == 1
    assert await entities.call("find", filter={}, sort={"_id": -1}, limit=2) == [{"_id": 3}, {"_id": 2}]
    changed = await entities.call(
        "findOneAndUpdate", filter={"_id": 1}, update={"$inc": {"x": 1}}, returnDocument="After"
    )
    assert changed == {"_id": 1, "x": 3}


async def bulk_writes_count_and_name_upserts_by_index(adapter: DriverAdapter, deployment: Deployment) -> None:
    entities = await Entities.make(adapter, deployment)
    requests = [
        {"insertOne": {"document": {"_id": 1}}},
        {"updateOne": {"filter": {"_id": 2}, "update": {"$set": {"x": 1}}, "upsert": True}},
        {"deleteMany": {"filter": {"_id": 1}}},
    ]
    result = await entities.call("bulkWrite", requests=requests)
    del result["upsertedIds"]["1"]
    result.pop("insertedIds", None)
    assert result == {
        "insertedCount": 1,
        "matchedCount": 0,
        "modifiedCount": 0,
        "deletedCount": 1,
        "upsertedCount": 1,
        "upsertedIds": {},
    }


async def an_error_of_the_server_is_reported_in_its_words(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    entities = await Entities.make(adapter, deployment)
    with pytest.raises(OperationFailed) as raised:
        await entities.run_command(noSuchCommand=1)
    report = raised.value.report
    assert report.code == 59
    assert report.code_name in ("CommandNotFound", None)
    assert not report.is_client_error
    assert not report.is_timeout_error
    assert report.response is None or report.response["code"] == 59


async def a_duplicate_key_is_reported_with_its_code(adapter: DriverAdapter, deployment: Deployment) -> None:
    entities = await Entities.make(adapter, deployment)
    await entities.call("insertOne", document={"_id": 1})
    report = await entities.failure("insertOne", document={"_id": 1})
    assert (report.code, report.is_client_error) == (11000, False)
    assert "E11000" in report.message


async def a_bulk_write_that_fails_reports_what_it_did(adapter: DriverAdapter, deployment: Deployment) -> None:
    entities = await Entities.make(adapter, deployment)
    requests = [{"insertOne": {"document": {"_id": number}}} for number in (1, 1)]
    report = await entities.failure("bulkWrite", requests=requests)
    assert report.code == 11000
    assert report.result is None or report.result["insertedCount"] == 1


@asynccontextmanager
async def failing(deployment: Deployment, command: str, **data: Any) -> AsyncIterator[None]:
    """Fail a command on every member while the block runs."""
    point = {"configureFailPoint": "failCommand", "data": {"failCommands": [command], **data}}
    for address in deployment.addresses:
        await deployment.admin("admin", {**point, "mode": "alwaysOn"}, address=address)
    yield
    for address in deployment.addresses:
        await deployment.admin("admin", {**point, "mode": "off"}, address=address)


async def labels_come_from_the_server(adapter: DriverAdapter, deployment: Deployment) -> None:
    entities = await Entities.make(adapter, deployment, retryWrites=False)
    labels = ["RetryableWriteError", "NoWritesPerformed"]
    async with failing(deployment, "insert", errorCode=11600, errorLabels=labels):
        report = await entities.failure("insertOne", document={})
    assert report.labels >= set(labels)
    assert report.code == 11600


async def a_broken_connection_is_an_error_of_the_client(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    entities = await Entities.make(adapter, deployment, retryReads=False)
    async with failing(deployment, "find", closeConnection=True):
        report = await entities.failure("find", filter={})
    assert report.is_client_error
    assert not report.is_timeout_error


async def commands_are_observed_in_order_with_their_fields(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    if Feature.COMMAND_EVENTS not in adapter.features:
        return
    entities = await Entities.make(adapter, deployment)
    await entities.call("insertOne", document={"_id": 1})
    await entities.failure("insertOne", document={"_id": 1})
    with pytest.raises(OperationFailed):
        await entities.run_command(noSuchCommand=1)
    started, succeeded = entities.events(*COMMANDS, command="insert")[:2]
    failed = entities.events("commandFailedEvent")[0]
    assert (started.kind, succeeded.kind) == ("commandStartedEvent", "commandSucceededEvent")
    assert started.fields["command"]["insert"] == "adapter"
    assert started.fields["databaseName"] == "contract"
    assert succeeded.fields["reply"]["n"] == 1
    assert succeeded.fields["requestId"] == started.fields["requestId"]
    assert failed.fields["commandName"] == "noSuchCommand"
    instants = [event.at for event in adapter.events(entities.client)]
    assert instants == sorted(instants)


async def what_was_observed_does_not_change_afterwards(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    if Feature.COMMAND_EVENTS not in adapter.features:
        return
    entities = await Entities.make(adapter, deployment)
    await entities.call("insertOne", document={"_id": 1})
    first = list(adapter.events(entities.client))
    before = [(event.kind, dict(event.fields)) for event in first]
    await entities.call("find", filter={})
    await adapter.close_client(entities.client)
    after = list(adapter.events(entities.client))
    assert len(after) > len(first)
    assert [(event.kind, dict(event.fields)) for event in after[: len(first)]] == before


async def connections_go_out_and_come_back(adapter: DriverAdapter, deployment: Deployment) -> None:
    if Feature.POOL_EVENTS not in adapter.features:
        return
    entities = await Entities.make(adapter, deployment)
    await entities.call("find", filter={})
    out = entities.events("connectionCheckedOutEvent")
    back = entities.events("connectionCheckedInEvent")
    assert len(out) == len(back) == 1
    assert out[0].fields["connectionId"] == back[0].fields["connectionId"]
    assert out[0].fields["address"] in deployment.addresses


async def a_session_has_the_lsid_that_it_sends(adapter: DriverAdapter, deployment: Deployment) -> None:
    if Feature.SESSIONS not in adapter.features:
        return
    entities = await Entities.make(adapter, deployment)
    session = await adapter.create(EntityKind.SESSION, entities.client, {"id": "session"})
    state = await adapter.session_state(session)
    assert (state.dirty, state.pinned, state.transaction) == (False, None, "none")
    await entities.call("find", filter={}, session=session)
    if Feature.COMMAND_EVENTS in adapter.features:
        (started,) = entities.events("commandStartedEvent", command="find")
        assert started.fields["command"]["lsid"] == dict(state.lsid)
    for _ in range(2):
        await adapter.call(session, EntityKind.SESSION, "endSession", {})


async def sessions_of_two_clients_are_different(adapter: DriverAdapter, deployment: Deployment) -> None:
    if Feature.SESSIONS not in adapter.features:
        return
    clients = [(await Entities.make(adapter, deployment)).client for _ in range(2)]
    sessions = [await adapter.create(EntityKind.SESSION, client, {"id": "session"}) for client in clients]
    first, second = [dict((await adapter.session_state(session)).lsid) for session in sessions]
    assert first != second


async def a_find_cursor_gives_one_document_at_a_time(adapter: DriverAdapter, deployment: Deployment) -> None:
    if Feature.FIND_CURSORS not in adapter.features:
        return
    entities = await Entities.make(adapter, deployment)
    await entities.call("insertMany", documents=[{"_id": number} for number in range(3)])
    cursor = await entities.call("createFindCursor", filter={}, sort={"_id": 1}, batchSize=2)

    async def step(operation: str = "iterateUntilDocumentOrError") -> Any:
        return await adapter.call(cursor, EntityKind.FIND_CURSOR, operation, {})

    assert [await step() for _ in range(3)] == [{"_id": 0}, {"_id": 1}, {"_id": 2}]
    with pytest.raises(OperationFailed):
        await step()
    await step("close")
    if Feature.COMMAND_EVENTS in adapter.features:
        assert len(entities.events("commandStartedEvent", command="getMore")) == 1


async def a_command_cursor_is_created_and_drained(adapter: DriverAdapter, deployment: Deployment) -> None:
    if Feature.COMMAND_CURSORS not in adapter.features:
        return
    entities = await Entities.make(adapter, deployment)
    await entities.call("insertMany", documents=[{"_id": number} for number in range(5)])
    given = {
        "command": {"batchSize": 2, "find": "adapter", "sort": {"_id": 1}},
        "commandName": "find",
        "batchSize": 2,
    }
    run = await adapter.call(entities.database, EntityKind.DATABASE, "runCursorCommand", given)
    assert [document["_id"] for document in run] == [0, 1, 2, 3, 4]
    cursor = await adapter.call(entities.database, EntityKind.DATABASE, "createCommandCursor", given)
    first = await adapter.call(cursor, EntityKind.COMMAND_CURSOR, "iterateOnce", {})
    assert first == {"_id": 0}
    await adapter.call(cursor, EntityKind.COMMAND_CURSOR, "close", {})
    if Feature.COMMAND_EVENTS in adapter.features:
        assert len(entities.events("commandStartedEvent", command="killCursors")) == 1


async def a_bucket_gives_back_what_was_uploaded(adapter: DriverAdapter, deployment: Deployment) -> None:
    if Feature.GRIDFS not in adapter.features:
        return
    entities = await Entities.make(adapter, deployment)
    bucket = await adapter.create(EntityKind.BUCKET, entities.database, {"id": "bucket"})

    async def call(operation: str, **arguments: Any) -> Any:
        return await adapter.call(bucket, EntityKind.BUCKET, operation, arguments)

    key = await call("upload", filename="name", source=b"twelve bytes", chunkSizeBytes=5)
    assert await call("download", id=key) == b"twelve bytes"
    assert await call("downloadByName", filename="name") == b"twelve bytes"
    await call("rename", id=key, newFilename="other")
    await call("delete", id=key)
    with pytest.raises(OperationFailed) as raised:
        await call("download", id=key)
    assert raised.value.report.is_client_error


async def a_bucket_is_dropped_with_both_of_its_collections(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    if Feature.GRIDFS not in adapter.features:
        return
    entities = await Entities.make(adapter, deployment)
    bucket = await adapter.create(EntityKind.BUCKET, entities.database, {"id": "bucket"})
    upload = {"filename": "file", "source": b"12345"}
    await adapter.call(bucket, EntityKind.BUCKET, "upload", upload)
    limit = {"timeoutMS": 10_000} if Feature.TIMEOUT_MS in adapter.features else {}
    await adapter.call(bucket, EntityKind.BUCKET, "drop", limit)
    assert await adapter.call(entities.database, EntityKind.DATABASE, "listCollectionNames", {}) == []


async def a_client_bulk_write_counts_over_namespaces(adapter: DriverAdapter, deployment: Deployment) -> None:
    if Feature.CLIENT_BULK_WRITE not in adapter.features:
        return
    entities = await Entities.make(adapter, deployment)
    models = [
        {"insertOne": {"namespace": "contract.one", "document": {"_id": 1}}},
        {
            "updateOne": {
                "namespace": "contract.two",
                "filter": {"_id": 2},
                "update": {"$set": {"x": 1}},
                "upsert": True,
            }
        },
        {"deleteOne": {"namespace": "contract.one", "filter": {"_id": 1}}},
    ]
    arguments = {"models": models, "verboseResults": True}
    result = await adapter.call(entities.client, EntityKind.CLIENT, "clientBulkWrite", arguments)
    assert result == {
        "insertedCount": 1,
        "upsertedCount": 1,
        "matchedCount": 0,
        "modifiedCount": 0,
        "deletedCount": 1,
        "insertResults": {"0": {"insertedId": 1}},
        "updateResults": {"1": {"matchedCount": 1, "modifiedCount": 0, "upsertedId": 2}},
        "deleteResults": {"2": {"deletedCount": 1}},
    }


async def what_exists_is_listed(adapter: DriverAdapter, deployment: Deployment) -> None:
    entities = await Entities.make(adapter, deployment)
    await entities.call("insertOne", document={"_id": 1})
    assert await entities.call("createIndex", keys={"x": 1}, name="x_1") == "x_1"
    assert {index["name"] for index in await entities.call("listIndexes")} == {"_id_", "x_1"}
    listed = await adapter.call(entities.database, EntityKind.DATABASE, "listCollections", {"batchSize": 2})
    assert [collection["name"] for collection in listed] == ["adapter"]
    databases = await adapter.call(entities.client, EntityKind.CLIENT, "listDatabases", {})
    assert "contract" in {database["name"] for database in databases}


async def the_topology_is_known(adapter: DriverAdapter, deployment: Deployment) -> None:
    if Feature.SDAM_EVENTS not in adapter.features:
        return
    entities = await Entities.make(adapter, deployment)
    await entities.run_command(ping=1)
    report = await adapter.topology(entities.client)
    assert report.type == "ReplicaSetWithPrimary"
    assert report.primary in deployment.addresses


async def clients_log_what_they_were_asked_to(adapter: DriverAdapter, deployment: Deployment) -> None:
    if Feature.LOG_MESSAGES not in adapter.features:
        return
    entities = await Entities.make(adapter, deployment, observe_logs=frozenset({"command"}))
    other = await Entities.make(adapter, deployment, observe_logs=frozenset({"topology"}))
    await entities.run_command(ping=1)
    await adapter.close_client(other.client)
    messages = [(event.fields["level"], event.fields["data"]) for event in entities.events(LOG_MESSAGE)]
    assert [(level, data["message"], data["commandName"]) for level, data in messages] == [
        ("debug", "Command started", "ping"),
        ("debug", "Command succeeded", "ping"),
    ]
    lifecycle = [event.fields["data"]["message"] for event in other.events(LOG_MESSAGE)]
    assert lifecycle[0] == "Starting topology monitoring"
    assert lifecycle[-1] == "Stopped topology monitoring"
    assert {event.fields["component"] for event in other.events(LOG_MESSAGE)} == {"topology"}


async def what_the_driver_does_not_have_is_refused_with_a_reason(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    entities = await Entities.make(adapter, deployment)
    with pytest.raises(UnsupportedOperation, match="noSuchOperation"):
        await entities.call("noSuchOperation")
    with pytest.raises(UnsupportedOperation, match="noSuchArgument"):
        await entities.call("find", filter={}, noSuchArgument=1)


async def clients_can_be_closed_twice_and_all_at_once(adapter: DriverAdapter, deployment: Deployment) -> None:
    first, second = [await Entities.make(adapter, deployment) for _ in range(2)]
    await first.call("find", filter={})
    await second.call("find", filter={})
    for _ in range(2):
        await adapter.close_client(first.client)
    for _ in range(2):
        await adapter.aclose()


CHECKS: Final[tuple[Check, ...]] = (
    it_has_a_name_and_features,
    operations_return_what_the_format_describes,
    bulk_writes_count_and_name_upserts_by_index,
    an_error_of_the_server_is_reported_in_its_words,
    a_duplicate_key_is_reported_with_its_code,
    a_bulk_write_that_fails_reports_what_it_did,
    labels_come_from_the_server,
    a_broken_connection_is_an_error_of_the_client,
    commands_are_observed_in_order_with_their_fields,
    what_was_observed_does_not_change_afterwards,
    connections_go_out_and_come_back,
    a_session_has_the_lsid_that_it_sends,
    sessions_of_two_clients_are_different,
    a_find_cursor_gives_one_document_at_a_time,
    a_command_cursor_is_created_and_drained,
    a_bucket_gives_back_what_was_uploaded,
    a_bucket_is_dropped_with_both_of_its_collections,
    a_client_bulk_write_counts_over_namespaces,
    what_exists_is_listed,
    the_topology_is_known,
    clients_log_what_they_were_asked_to,
    what_the_driver_does_not_have_is_refused_with_a_reason,
    clients_can_be_closed_twice_and_all_at_once,
)

"""What the runner relies on in every adapter, whatever it declares: each runs these checks.

A check takes a new adapter and a replica set of three. What holds of an adapter with a feature is in
`check_adapter_features`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import pytest

from harness.adapters.base import (
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
        observing: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> Entities:
        """`observing` are fields of the client's specification, `options` those of its URI."""
        uri = with_options(deployment.uri, {"heartbeatFrequencyMS": 500, **options})
        asked: dict[str, Any] = {"observe_events": COMMANDS | POOL, **observing}
        client = await adapter.create_client(ClientSpec(uri, options, **asked))
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
    assert adapter.features
    assert all(isinstance(feature, Feature) for feature in adapter.features)


_ASKED_OF: Final[Mapping[Feature, tuple[str, dict[str, Any]]]] = {
    Feature.FIND_CURSORS: ("createFindCursor", {"filter": {}}),
    Feature.CHANGE_STREAMS: ("createChangeStream", {"pipeline": []}),
}


async def what_is_not_declared_is_refused(adapter: DriverAdapter, deployment: Deployment) -> None:
    entities = await Entities.make(adapter, deployment)
    below = {
        Feature.SESSIONS: (EntityKind.SESSION, "client"),
        Feature.GRIDFS: (EntityKind.BUCKET, "database"),
    }
    for feature, (kind, parent) in below.items():
        if feature not in adapter.features:
            with pytest.raises(UnsupportedOperation):
                await adapter.create(kind, getattr(entities, parent), {"id": "entity", parent: parent})
    for feature, (operation, arguments) in _ASKED_OF.items():
        if feature not in adapter.features:
            with pytest.raises(UnsupportedOperation):
                await entities.call(operation, **arguments)
    if Feature.CLIENT_BULK_WRITE not in adapter.features:
        with pytest.raises(UnsupportedOperation):
            await adapter.call(entities.client, EntityKind.CLIENT, "clientBulkWrite", {"models": []})


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
async def failing(
    deployment: Deployment, command: str, *, mode: Any = "alwaysOn", **data: Any
) -> AsyncIterator[None]:
    """Fail a command on every member while the block runs."""
    point = {"configureFailPoint": "failCommand", "data": {"failCommands": [command], **data}}
    for address in deployment.addresses:
        await deployment.admin("admin", {**point, "mode": mode}, address=address)
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


async def what_exists_is_listed(adapter: DriverAdapter, deployment: Deployment) -> None:
    entities = await Entities.make(adapter, deployment)
    await entities.call("insertOne", document={"_id": 1})
    assert await entities.call("createIndex", keys={"x": 1}, name="x_1") == "x_1"
    assert {index["name"] for index in await entities.call("listIndexes")} == {"_id_", "x_1"}
    listed = await adapter.call(entities.database, EntityKind.DATABASE, "listCollections", {"batchSize": 2})
    assert [collection["name"] for collection in listed] == ["adapter"]
    databases = await adapter.call(entities.client, EntityKind.CLIENT, "listDatabases", {})
    assert "contract" in {database["name"] for database in databases}


async def a_list_of_documents_is_all_of_its_batches(adapter: DriverAdapter, deployment: Deployment) -> None:
    entities = await Entities.make(adapter, deployment)
    documents = [{"_id": number} for number in range(5)]
    await entities.call("insertMany", documents=documents)
    assert await entities.call("find", filter={}, sort={"_id": 1}, batchSize=2) == documents
    assert await entities.call("aggregate", pipeline=[{"$sort": {"_id": 1}}], batchSize=2) == documents


async def a_call_that_waits_does_not_keep_others_waiting(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    entities = await Entities.make(adapter, deployment)
    await entities.run_command(ping=1)
    async with failing(deployment, "find", blockConnection=True, blockTimeMS=1500):
        waiting = asyncio.ensure_future(entities.call("find", filter={}))
        await entities.run_command(ping=1)
        assert not waiting.done()
        assert await waiting == []


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


EVERY: Final[tuple[Check, ...]] = (
    it_has_a_name_and_features,
    what_is_not_declared_is_refused,
    operations_return_what_the_format_describes,
    bulk_writes_count_and_name_upserts_by_index,
    an_error_of_the_server_is_reported_in_its_words,
    a_duplicate_key_is_reported_with_its_code,
    a_bulk_write_that_fails_reports_what_it_did,
    labels_come_from_the_server,
    a_broken_connection_is_an_error_of_the_client,
    what_exists_is_listed,
    a_list_of_documents_is_all_of_its_batches,
    a_call_that_waits_does_not_keep_others_waiting,
    what_the_driver_does_not_have_is_refused_with_a_reason,
    clients_can_be_closed_twice_and_all_at_once,
)
"""What holds of every adapter."""

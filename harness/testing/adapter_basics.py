"""Checks of every adapter, whatever it declares.

The runner of scenarios sees a driver through its adapter alone. What an adapter hides, renames or makes up,
it takes for the driver's doing: a case then fails by no fault of the driver, or passes by none of its
merit. These checks are what every scenario relies on: results in the format's words, errors in the
server's, refusals where the driver has nothing, and calls that run side by side.

`EVERY` is their order. `AdapterEntities` and `failing` serve the checks of features, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from harness.adapters.base import (
    ClientSpec,
    DriverAdapter,
    EntityKind,
    ErrorReport,
    Event,
    Feature,
    Handle,
    Invocation,
    OperationFailed,
    UnsupportedOperation,
)
from harness.adapters.deployment import Deployment
from harness.testing.verdict import raises
from harness.unified.uri import with_options


async def it_has_a_name_and_features(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check that the adapter introduces itself: reports use the name, skipping goes by the features."""
    assert adapter.name
    assert adapter.features
    assert all(isinstance(feature, Feature) for feature in adapter.features)


# Operations that stand for their features: each fails at once where there is nothing to create.
_ASKED_OF: Final[Mapping[Feature, tuple[str, dict[str, Any]]]] = {
    Feature.FIND_CURSORS: ("createFindCursor", {"filter": {}}),
    Feature.CHANGE_STREAMS: ("createChangeStream", {"pipeline": []}),
}


# A case that needs a feature is skipped by the declaration; one that uses it all the same has to end with a
# reason, not with whatever the driver makes of half a feature.
async def what_is_not_declared_is_refused(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check that what belongs to a feature that the adapter lacks raises `UnsupportedOperation`."""
    entities = await AdapterEntities.make(adapter, deployment)
    below = {
        Feature.SESSIONS: (EntityKind.SESSION, "client"),
        Feature.GRIDFS: (EntityKind.BUCKET, "database"),
    }
    for feature, (kind, parent) in below.items():
        if feature not in adapter.features:
            with raises(UnsupportedOperation):
                await adapter.create(kind, getattr(entities, parent), {"id": "entity", parent: parent})
    for feature, (operation, arguments) in _ASKED_OF.items():
        if feature not in adapter.features:
            with raises(UnsupportedOperation):
                await entities.call(operation, **arguments)
    if Feature.RETRY_TOKENS not in adapter.features:
        with raises(UnsupportedOperation):
            await adapter.retry_tokens(entities.client)
    if Feature.CLIENT_BULK_WRITE not in adapter.features:
        with raises(UnsupportedOperation):
            await adapter.call(
                Invocation(entities.client, EntityKind.CLIENT, "clientBulkWrite", {"models": []})
            )


# Results of drivers have other names and forms (`matched_count`, objects, ids in order). The adapter
# translates, and what a driver does not tell is left out, since an invented value would be compared.
async def operations_return_what_the_format_describes(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check results of CRUD operations. A driver need not give the ids of what it inserts."""
    entities = await AdapterEntities.make(adapter, deployment)
    assert (await entities.call("insertOne", document={"_id": 1, "x": 1}) or {}).get("insertedId", 1) == 1
    many = await entities.call("insertMany", documents=[{"_id": 2}, {"_id": 3}])
    assert (many or {}).get("insertedIds", {"0": 2, "1": 3}) == {"0": 2, "1": 3}
    update = await entities.call("updateOne", filter={"_id": 1}, update={"$set": {"x": 2}})
    assert (update["matchedCount"], update["modifiedCount"], update["upsertedCount"]) == (1, 1, 0)
    # A driver's null for no upsert would not match a case that expects the field not to be there.
    assert "upsertedId" not in update
    upsert = await entities.call("updateOne", filter={"_id": 4}, update={"$set": {"x": 2}}, upsert=True)
    assert (upsert["upsertedCount"], upsert["upsertedId"]) == (1, 4)
    assert (await entities.call("deleteOne", filter={"_id": 4}))["deletedCount"] == 1
    assert await entities.call("find", filter={}, sort={"_id": -1}, limit=2) == [{"_id": 3}, {"_id": 2}]
    changed = await entities.call(
        "findOneAndUpdate", filter={"_id": 1}, update={"$inc": {"x": 1}}, returnDocument="After"
    )
    assert changed == {"_id": 1, "x": 3}


# The index is that of the request in the list, which drivers that split a bulk write have to map back.
async def bulk_writes_count_and_name_upserts_by_index(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check the result of a bulk write; keys of `upsertedIds` are indexes of its requests."""
    entities = await AdapterEntities.make(adapter, deployment)
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


# Cases compare the code and labels: an adapter that reports a driver's own class or text alone fails them
# all.
async def an_error_of_the_server_is_reported_in_its_words(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check code, code name and reply of a command that the server refuses."""
    entities = await AdapterEntities.make(adapter, deployment)
    with raises(OperationFailed) as raised:
        await entities.run_command(noSuchCommand=1)
    report = raised.error.report
    assert report.code == 59
    assert report.code_name in ("CommandNotFound", None)
    assert not report.is_client_error
    assert not report.is_timeout_error
    assert report.response is None or report.response["code"] == 59


async def a_duplicate_key_is_reported_with_its_code(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check that a write error's code and message are the operation's."""
    entities = await AdapterEntities.make(adapter, deployment)
    await entities.call("insertOne", document={"_id": 1})
    report = await entities.failure("insertOne", document={"_id": 1})
    assert (report.code, report.is_client_error) == (11000, False)
    assert "E11000" in report.message


async def a_bulk_write_that_fails_reports_what_it_did(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check the partial result of a bulk write, where the driver gives one."""
    entities = await AdapterEntities.make(adapter, deployment)
    requests = [{"insertOne": {"document": {"_id": number}}} for number in (1, 1)]
    report = await entities.failure("bulkWrite", requests=requests)
    assert report.code == 11000
    assert report.result is None or report.result["insertedCount"] == 1


# Labels decide what is retried. Drivers add some of their own, so that the server's are the least there is.
async def labels_come_from_the_server(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check that error labels of a reply are in the report."""
    entities = await AdapterEntities.make(adapter, deployment, retryWrites=False)
    labels = ["RetryableWriteError", "NoWritesPerformed"]
    async with failing(deployment, "insert", errorCode=11600, errorLabels=labels):
        report = await entities.failure("insertOne", document={})
    assert report.labels >= set(labels)
    assert report.code == 11600


# `expectError: {isClientError: …}` tells a lost reply from a refusal. Retries are off here: a second
# attempt would find the connection in order.
async def a_broken_connection_is_an_error_of_the_client(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check `isClientError` of an error without a reply."""
    entities = await AdapterEntities.make(adapter, deployment, retryReads=False)
    async with failing(deployment, "find", closeConnection=True):
        report = await entities.failure("find", filter={})
    assert report.is_client_error
    assert not report.is_timeout_error


async def a_bulk_write_that_lost_its_connection_is_an_error_of_the_client(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check `isClientError` of a bulk write that has no reply, whatever the driver wraps the error in."""
    entities = await AdapterEntities.make(adapter, deployment, retryWrites=False)
    async with failing(deployment, "insert", closeConnection=True):
        report = await entities.failure("bulkWrite", requests=[{"insertOne": {"document": {"_id": 1}}}])
    assert report.is_client_error


async def what_exists_is_listed(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check that indexes, collections and databases are listed as documents."""
    entities = await AdapterEntities.make(adapter, deployment)
    await entities.call("insertOne", document={"_id": 1})
    assert await entities.call("createIndex", keys={"x": 1}, name="x_1") == "x_1"
    assert {index["name"] for index in await entities.call("listIndexes")} == {"_id_", "x_1"}
    listed = await adapter.call(
        Invocation(entities.database, EntityKind.DATABASE, "listCollections", {"batchSize": 2})
    )
    assert [collection["name"] for collection in listed] == ["adapter"]
    databases = await adapter.call(Invocation(entities.client, EntityKind.CLIENT, "listDatabases"))
    assert "contract" in {database["name"] for database in databases}


# With one batch only, `expectResult` would compare the first two documents and call the rest lost.
async def a_list_of_documents_is_all_of_its_batches(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check that a cursor is read to its end."""
    entities = await AdapterEntities.make(adapter, deployment)
    documents = [{"_id": number} for number in range(5)]
    await entities.call("insertMany", documents=documents)
    assert await entities.call("find", filter={}, sort={"_id": 1}, batchSize=2) == documents
    assert await entities.call("aggregate", pipeline=[{"$sort": {"_id": 1}}], batchSize=2) == documents


# Cases of pools and of backoffs run one operation while another is held up by the server. An adapter that
# does one call after the other would let them pass or hang without having tested anything.
async def a_call_that_waits_does_not_keep_others_waiting(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that calls run side by side: threads of scenarios need it."""
    entities = await AdapterEntities.make(adapter, deployment)
    await entities.run_command(ping=1)
    async with failing(deployment, "find", blockConnection=True, blockTimeMS=1500):
        waiting = asyncio.ensure_future(entities.call("find", filter={}))
        loop = asyncio.get_running_loop()
        # Steps of the loop, not seconds: no clock is needed, and a slow machine takes as many of them.
        for _ in range(_STEPS_TO_SEND):  # it is under way before the next call
            step = loop.create_future()
            loop.call_soon(step.set_result, None)
            await step
        await entities.run_command(ping=1)
        assert not waiting.done()
        assert await waiting == []


# An argument that is dropped in silence is the worst mistake of an adapter: the case passes, with an option
# that nobody has tried.
async def what_the_driver_does_not_have_is_refused_with_a_reason(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that an unknown operation or argument is named in `UnsupportedOperation`."""
    entities = await AdapterEntities.make(adapter, deployment)
    with raises(UnsupportedOperation, match="noSuchOperation"):
        await entities.call("noSuchOperation")
    with raises(UnsupportedOperation, match="noSuchArgument"):
        await entities.call("find", filter={}, noSuchArgument=1)


# A case may close a client, and its end closes all of them.
async def clients_can_be_closed_twice_and_all_at_once(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check that closing what is closed is no error."""
    first, second = [await AdapterEntities.make(adapter, deployment) for _ in range(2)]
    await first.call("find", filter={})
    await second.call("find", filter={})
    for _ in range(2):
        await adapter.close_client(first.client)
    for _ in range(2):
        await adapter.aclose()


_STEPS_TO_SEND: Final = 20
"""The steps of the loop in which a call has been sent."""

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
    a_bulk_write_that_lost_its_connection_is_an_error_of_the_client,
    what_exists_is_listed,
    a_list_of_documents_is_all_of_its_batches,
    a_call_that_waits_does_not_keep_others_waiting,
    what_the_driver_does_not_have_is_refused_with_a_reason,
    clients_can_be_closed_twice_and_all_at_once,
)
"""What holds of every adapter."""


# Entities of an adapter under check, and a command that fails.


Check: TypeAlias = Callable[[DriverAdapter, Deployment], Awaitable[None]]
"""A promise of an adapter: raises `AssertionError` where a new adapter, on a new replica set, breaks it."""

COMMANDS: Final = frozenset({"commandStartedEvent", "commandSucceededEvent", "commandFailedEvent"})
POOL: Final = frozenset({"connectionCheckedOutEvent", "connectionCheckedInEvent", "connectionReadyEvent"})


class AdapterEntities:
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
    ) -> AdapterEntities:
        """Make them; `observing` are fields of the client's specification, `options` those of its URI."""
        # Ten seconds, the default, would let a check wait for a server that has only just become known again.
        uri = with_options(deployment.uri, {"heartbeatFrequencyMS": 500, **options})
        asked: dict[str, Any] = {"observe_events": COMMANDS | POOL, **observing}
        client = await adapter.create_client(ClientSpec(uri, options, **asked))
        spec = {"id": "database", "databaseName": "contract"}
        database = await adapter.create(EntityKind.DATABASE, client, spec)
        spec = {"id": "collection", "collectionName": "adapter"}
        collection = await adapter.create(EntityKind.COLLECTION, database, spec)
        return cls(adapter, client, database, collection)

    async def call(self, operation: str, **arguments: Any) -> Any:
        """Run an operation on the collection."""
        return await self.adapter.call(
            Invocation(self.collection, EntityKind.COLLECTION, operation, arguments)
        )

    async def failure(self, operation: str, **arguments: Any) -> ErrorReport:
        """Run an operation that must fail; return what the driver reports."""
        with raises(OperationFailed) as raised:
            await self.call(operation, **arguments)
        return raised.error.report

    async def run_command(self, **command: Any) -> Any:
        """Run a command on the database."""
        arguments = {"command": command, "commandName": next(iter(command))}
        return await self.adapter.call(
            Invocation(self.database, EntityKind.DATABASE, "runCommand", arguments)
        )

    def events(self, *kinds: str, command: str | None = None) -> list[Event]:
        """Return what the client has observed of some kinds, of one command or of all."""
        events = [event for event in self.adapter.events(self.client) if event.kind in kinds]
        return [event for event in events if command in (None, event.fields.get("commandName"))]


@asynccontextmanager
async def failing(
    deployment: Deployment, command: str, *, mode: Any = "alwaysOn", **data: Any
) -> AsyncIterator[None]:
    """Fail a command on every member while the block runs."""
    # On every member: a check does not know which server its operation will choose.
    point = {"configureFailPoint": "failCommand", "data": {"failCommands": [command], **data}}
    for address in deployment.addresses:
        await deployment.admin("admin", {**point, "mode": mode}, address=address)
    yield
    for address in deployment.addresses:
        await deployment.admin("admin", {**point, "mode": "off"}, address=address)

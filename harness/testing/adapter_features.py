"""Checks of an adapter that declares a feature.

Declaring a feature is a promise that cases which need it can be judged. Each check here is what such cases
rely on without saying so: an order, a field, a state that is there when the answer comes. `BY_FEATURE` says
which checks a feature calls for; where a check can look at the commands too, it does so only if
COMMAND_EVENTS is declared as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import LOG_MESSAGE, SPAN, EntityKind, Feature, Invocation, OperationFailed
from harness.testing.adapter_basics import COMMANDS, AdapterEntities, failing
from harness.testing.adapter_pools import (
    BACKPRESSURE,
    a_caller_waits_for_the_pool_and_no_other_call_waits_for_it,
    a_pool_lends_connections_while_it_is_ready,
)
from harness.testing.verdict import raises

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from harness.adapters.base import DriverAdapter, Handle
    from harness.adapters.deployment import Deployment
    from harness.testing.adapter_basics import Check


_TIME_TO_CONNECT: Final = 1.0
"""Seconds in which a client that checks a connection out by itself has done so."""
_PATIENCE: Final = 10.0
_STEP: Final = 0.05
"""Seconds for which something is waited for, and between two looks at it."""

_PRECISION: Final = 1.0
"""How many seconds the time of an event may be off: the clock of another process is compared with ours."""


# No member has the first tag set: the read is served because the second takes any, so that both must have
# arrived.
_TAGS: Final = [{"dc": "none"}, {}]
_FARTHER: Final = {"mode": "secondaryPreferred", "tagSets": _TAGS, "maxStalenessSeconds": 120}


# Expected events are compared one by one in their order, and commands are paired with their replies by
# `requestId`. The times place them among those of servers in a timeline.
async def commands_are_observed_in_order_with_their_fields(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check the three command monitoring events."""
    entities, began = await AdapterEntities.make(adapter, deployment), deployment.clock.now()
    await entities.call("insertOne", document={"_id": 1})
    await entities.failure("insertOne", document={"_id": 1})
    with raises(OperationFailed):
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
    assert began - _PRECISION <= started.at <= deployment.clock.now() + _PRECISION, (
        "the time of an event ('at') is in seconds of the clock that answers give ('clock')"
    )


# The format's names differ from each driver's. One that is dropped on the way changes nothing that a result
# shows, only what is on the wire.
async def concerns_and_preferences_are_those_that_were_asked_for(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that options of databases and collections reach the driver, whatever it calls them."""
    plain = await AdapterEntities.make(adapter, deployment)
    asked: dict[str, Any] = {"readConcern": {"level": "majority"}, "readPreference": _FARTHER}
    spec = {"id": "farther", "databaseName": "contract", "databaseOptions": asked}
    database = await adapter.create(EntityKind.DATABASE, plain.client, spec)
    asked = {"writeConcern": {"w": "majority", "journal": True}}
    spec = {"id": "safer", "collectionName": "adapter", "collectionOptions": asked}
    collection = await adapter.create(EntityKind.COLLECTION, database, spec)
    chosen = AdapterEntities(adapter, plain.client, database, collection)
    for number, entities in enumerate((plain, chosen)):
        await entities.call("insertOne", document={"_id": number})
        await entities.call("find", filter={})
    started = [event.fields["command"] for event in plain.events("commandStartedEvent")]
    first, _, second, read = started
    # Nor may an adapter add what was not asked for: a server's default concern would not be tested.
    assert "writeConcern" not in first
    assert second["writeConcern"] == {"w": "majority", "j": True}
    assert read["readConcern"] == {"level": "majority"}
    said = read["$readPreference"]
    tags = said.get(
        "tags", said.get("tagSets")
    )  # how a driver spells them is its own fault, not its adapter's
    assert (said["mode"], tags, said["maxStalenessSeconds"]) == ("secondaryPreferred", _TAGS, 120)


# An event that holds the driver's own document changes when the driver reuses it, and the case that failed
# would be shown with other values than it was judged by.
async def what_was_observed_does_not_change_afterwards(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that events are read again as they were: the runner keeps no copies."""
    entities = await AdapterEntities.make(adapter, deployment)
    await entities.call("insertOne", document={"_id": 1})
    first = list(adapter.events(entities.client))
    before = [(event.kind, dict(event.fields)) for event in first]
    await entities.call("find", filter={})
    await adapter.close_client(entities.client)
    after = list(adapter.events(entities.client))
    assert len(after) > len(first)
    assert [(event.kind, dict(event.fields)) for event in after[: len(first)]] == before


# Command monitoring looks at `ok` alone. An adapter that derives events from an operation's end gets this
# wrong.
async def a_write_that_fails_by_its_reply_is_a_command_that_succeeded(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check the events of a write whose reply has write errors: its `ok` is 1."""
    entities = await AdapterEntities.make(adapter, deployment)
    await entities.call("insertOne", document={"_id": 1})
    await entities.failure("insertOne", document={"_id": 1})
    kinds = [event.kind for event in entities.events(*COMMANDS, command="insert")]
    assert kinds == ["commandStartedEvent", "commandSucceededEvent"] * 2


# Cases count both. An operation that is answered may be a moment away from its check-in.
async def connections_go_out_and_come_back(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check check-out and check-in of one operation; a driver may check in in the background."""
    entities = await AdapterEntities.make(adapter, deployment)
    await entities.call("find", filter={})
    clock = deployment.clock
    latest = clock.now() + _PATIENCE
    while not (back := entities.events("connectionCheckedInEvent")) and clock.now() < latest:
        await clock.sleep_until(clock.now() + _STEP)
    out = entities.events("connectionCheckedOutEvent")
    assert len(out) == len(back) == 1
    assert out[0].fields["connectionId"] == back[0].fields["connectionId"]
    assert out[0].fields["address"] in deployment.addresses


# A case expects the events of its own operations, and a ping of the adapter would stand before them.
async def connecting_checks_no_connection_out(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check that the first operation is what checks the first connection out, and no ping before it."""
    entities = await AdapterEntities.make(adapter, deployment)
    await deployment.clock.sleep_until(deployment.clock.now() + _TIME_TO_CONNECT)
    assert entities.events("connectionCheckedOutEvent") == []
    await entities.call("find", filter={})
    assert len(entities.events("connectionCheckedOutEvent")) == 1


# Drivers that begin at their first operation would leave a case about discovery without any events.
async def a_client_monitors_from_its_beginning(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check that servers are found without an operation."""
    entities = await AdapterEntities.make(adapter, deployment, observing={"observe_events": SDAM})
    clock = deployment.clock
    deadline, found = clock.now() + _PATIENCE, set[str]()
    while "RSPrimary" not in found and clock.now() < deadline:
        await clock.sleep_until(clock.now() + _STEP)
        await adapter.topology(entities.client)  # no operation, but events may come with an answer only
        events = entities.events("serverDescriptionChangedEvent")
        found = {event.fields["newDescription"]["type"] for event in events}
    assert "RSPrimary" in found


# `$$sessionLsid` and assertions on pinning compare with this state, so that it has to be the driver's.
async def a_session_has_the_lsid_that_it_sends(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check a new session's state, and that ending it twice is no error."""
    entities = await AdapterEntities.make(adapter, deployment)
    session = await session_of(adapter, entities)
    state = await adapter.session_state(session)
    assert (state.dirty, state.pinned, state.transaction) == (False, None, "none")
    await entities.call("find", filter={}, session=session)
    if Feature.COMMAND_EVENTS in adapter.features:
        (started,) = entities.events("commandStartedEvent", command="find")
        assert started.fields["command"]["lsid"] == dict(state.lsid)
    for _ in range(2):
        await adapter.call(Invocation(session, EntityKind.SESSION, "endSession"))


# An adapter that creates sessions with whichever client it has first would pass every case of one client.
async def sessions_of_two_clients_are_different(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check that sessions are made by their own client."""
    clients = [(await AdapterEntities.make(adapter, deployment)).client for _ in range(2)]
    sessions = [await adapter.create(EntityKind.SESSION, client, {"id": "session"}) for client in clients]
    first, second = [dict((await adapter.session_state(session)).lsid) for session in sessions]
    assert first != second


async def session_of(adapter: DriverAdapter, entities: AdapterEntities) -> Handle:
    """Return a new session of the client."""
    return await adapter.create(EntityKind.SESSION, entities.client, {"id": "session", "client": "client"})


# `assertSessionTransactionState` asks between operations. "starting" is the state before the first of them,
# in which the server knows of no transaction yet.
async def a_session_says_in_which_state_its_transaction_is(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check the states of a transaction that commits and of one that aborts."""
    entities = await AdapterEntities.make(adapter, deployment)
    session = await session_of(adapter, entities)
    states = []

    async def then(operation: str) -> None:
        await adapter.call(Invocation(session, EntityKind.SESSION, operation))
        states.append((await adapter.session_state(session)).transaction)

    for end in ("commitTransaction", "abortTransaction"):
        await then("startTransaction")
        await entities.call("insertOne", document={"_id": end}, session=session)
        states.append((await adapter.session_state(session)).transaction)
        await then(end)
    assert states == ["starting", "in_progress", "committed", "starting", "in_progress", "aborted"]
    assert await entities.call("find", filter={}) == [{"_id": "commitTransaction"}]


async def in_transaction(
    adapter: DriverAdapter, session: Handle, callback: Callable[[], Awaitable[None]]
) -> None:
    """Run a callback by `withTransaction`."""
    await adapter.call(Invocation(session, EntityKind.SESSION, "withTransaction", {"callback": callback}))


# The driver owns the loop of `withTransaction`, and the runner the operations in it; each waits for the
# other.
async def a_callback_runs_here_while_its_transaction_waits_there(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that operations of a callback run within its transaction."""
    entities = await AdapterEntities.make(adapter, deployment)
    session = await session_of(adapter, entities)
    states = []

    async def callback() -> None:
        await entities.call("insertOne", document={"_id": 1}, session=session)
        states.append((await adapter.session_state(session)).transaction)

    await in_transaction(adapter, session, callback)
    assert states == ["in_progress"]
    assert await entities.call("find", filter={}) == [{"_id": 1}]


# `withTransaction` repeats a callback by the labels of its error. A copy in another class has none.
async def an_error_in_a_callback_is_the_drivers_own_again(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that the driver sees its own error, by whose labels it may retry."""
    entities = await AdapterEntities.make(adapter, deployment)

    async def callback() -> None:
        await entities.run_command(noSuchCommand=1)

    with raises(OperationFailed) as raised:
        await in_transaction(adapter, await session_of(adapter, entities), callback)
    assert raised.error.report.code == 59


# A mistake in a scenario would else be told as a failure of the driver.
async def a_callback_that_fails_by_itself_aborts_and_says_why(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that an error of the scenario comes back as it is: no error of the driver may stand in for it."""
    entities = await AdapterEntities.make(adapter, deployment)
    session = await session_of(adapter, entities)

    async def callback() -> None:
        await entities.call("insertOne", document={"_id": 1}, session=session)
        raise LookupError("no such entity")

    with raises(LookupError, match="no such entity"):
        await in_transaction(adapter, session, callback)
    assert await entities.call("find", filter={}) == []


# Drivers that open lazily would miss what is written between creation and the first demand.
async def a_change_stream_gives_the_changes_since_it_was_created(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that the stream is open on the server when it is returned."""
    entities = await AdapterEntities.make(adapter, deployment)
    await entities.call("insertOne", document={"_id": 1})
    stream = await entities.call("createChangeStream", pipeline=[])
    await entities.call("insertOne", document={"_id": 2})
    change = await adapter.call(Invocation(stream, EntityKind.CHANGE_STREAM, "iterateUntilDocumentOrError"))
    assert (change["operationType"], change["fullDocument"]) == ("insert", {"_id": 2})
    await adapter.call(Invocation(stream, EntityKind.CHANGE_STREAM, "close"))


# A `getMore` by itself would meet the fail point of a case, or stand among its events.
async def a_change_stream_asks_for_no_batch_before_it_is_iterated(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that no getMore follows the aggregate by itself."""
    entities = await AdapterEntities.make(adapter, deployment)
    await entities.call("insertOne", document={"_id": 1})
    stream = await entities.call("createChangeStream", pipeline=[])
    await entities.run_command(ping=1)
    if Feature.COMMAND_EVENTS in adapter.features:
        assert entities.events("commandStartedEvent", command="getMore") == []
    await adapter.call(Invocation(stream, EntityKind.CHANGE_STREAM, "close"))


# The server holds the reply ten times as long as the operation may take, so that only the client can end it.
async def an_operation_that_takes_too_long_is_a_timeout(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check `isTimeoutError` of an operation whose `timeoutMS` has passed."""
    entities = await AdapterEntities.make(adapter, deployment)
    await entities.run_command(ping=1)
    async with failing(deployment, "find", blockConnection=True, blockTimeMS=1000):
        report = await entities.failure("find", filter={}, timeoutMS=100)
    assert report.is_timeout_error


# A server that is asked without it would answer as usual, and the case would pass untested.
async def a_declared_api_version_goes_with_every_command(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that `serverApi` reaches the driver."""
    declared = {"version": "1", "strict": True}
    entities = await AdapterEntities.make(adapter, deployment, observing={"server_api": declared})
    await entities.call("find", filter={})
    (started,) = entities.events("commandStartedEvent", command="find")
    sent = started.fields["command"]
    assert (sent["apiVersion"], sent["apiStrict"]) == ("1", True)


# Cases set fail points between two steps: an adapter that reads ahead has passed them by then.
async def a_find_cursor_gives_one_document_at_a_time(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check iterating a cursor, and that its end is an error."""
    entities = await AdapterEntities.make(adapter, deployment)
    await entities.call("insertMany", documents=[{"_id": number} for number in range(3)])
    cursor = await entities.call("createFindCursor", filter={}, sort={"_id": 1}, batchSize=2)

    async def step(operation: str = "iterateUntilDocumentOrError") -> Any:
        return await adapter.call(Invocation(cursor, EntityKind.FIND_CURSOR, operation))

    assert [await step() for _ in range(3)] == [{"_id": 0}, {"_id": 1}, {"_id": 2}]
    with raises(OperationFailed) as raised:
        await step()
    assert raised.error.report.is_client_error
    await step("close")
    if Feature.COMMAND_EVENTS in adapter.features:
        assert len(entities.events("commandStartedEvent", command="getMore")) == 1


# `batchSize` counts for the batches after the first one, which the command itself asks for.
async def a_command_cursor_is_created_and_drained(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check both operations that make a cursor of a command; closing it early kills it."""
    entities = await AdapterEntities.make(adapter, deployment)
    await entities.call("insertMany", documents=[{"_id": number} for number in range(5)])
    arguments = {
        "command": {"batchSize": 2, "find": "adapter", "sort": {"_id": 1}},
        "commandName": "find",
        "batchSize": 2,
    }
    run = await adapter.call(
        Invocation(entities.database, EntityKind.DATABASE, "runCursorCommand", arguments)
    )
    assert [document["_id"] for document in run] == [0, 1, 2, 3, 4]
    cursor = await adapter.call(
        Invocation(entities.database, EntityKind.DATABASE, "createCommandCursor", arguments)
    )
    first = await adapter.call(Invocation(cursor, EntityKind.COMMAND_CURSOR, "iterateOnce"))
    assert first == {"_id": 0}
    await adapter.call(Invocation(cursor, EntityKind.COMMAND_CURSOR, "close"))
    if Feature.COMMAND_EVENTS in adapter.features:
        assert len(entities.events("commandStartedEvent", command="killCursors")) == 1


# Several chunks, so that their order and the end of the last one are seen.
async def a_bucket_gives_back_what_was_uploaded(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check the life of a file whose chunks are smaller than it."""
    entities = await AdapterEntities.make(adapter, deployment)
    bucket = await adapter.create(EntityKind.BUCKET, entities.database, {"id": "bucket"})

    async def call(operation: str, **arguments: Any) -> Any:
        return await adapter.call(Invocation(bucket, EntityKind.BUCKET, operation, arguments))

    key = await call("upload", filename="name", source=b"twelve bytes", chunkSizeBytes=5)
    assert await call("download", id=key) == b"twelve bytes"
    await call("delete", id=key)
    with raises(OperationFailed) as raised:
        await call("download", id=key)
    assert raised.error.report.is_client_error


async def a_file_is_found_by_the_name_that_it_was_given_last(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check `downloadByName` and `rename`, which some drivers leave out."""
    entities = await AdapterEntities.make(adapter, deployment)
    bucket = await adapter.create(EntityKind.BUCKET, entities.database, {"id": "bucket"})

    async def call(operation: str, **arguments: Any) -> Any:
        return await adapter.call(Invocation(bucket, EntityKind.BUCKET, operation, arguments))

    key = await call("upload", filename="name", source=b"twelve bytes")
    assert await call("downloadByName", filename="name") == b"twelve bytes"
    await call("rename", id=key, newFilename="other")
    assert await call("downloadByName", filename="other") == b"twelve bytes"


# Files and chunks: what is left would be found by the next case that lists collections.
async def a_bucket_is_dropped_with_both_of_its_collections(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that nothing of a dropped bucket is left."""
    entities = await AdapterEntities.make(adapter, deployment)
    bucket = await adapter.create(EntityKind.BUCKET, entities.database, {"id": "bucket"})
    upload = {"filename": "file", "source": b"12345"}
    await adapter.call(Invocation(bucket, EntityKind.BUCKET, "upload", upload))
    limit = {"timeoutMS": 10_000} if Feature.TIMEOUT_MS in adapter.features else {}
    await adapter.call(Invocation(bucket, EntityKind.BUCKET, "drop", limit))
    assert await adapter.call(Invocation(entities.database, EntityKind.DATABASE, "listCollectionNames")) == []


# Results are by the index of the model in the whole list, whatever batches the driver made of it.
async def a_client_bulk_write_counts_over_namespaces(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check the verbose result of a bulk write on two collections."""
    entities = await AdapterEntities.make(adapter, deployment)
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
    result = await adapter.call(Invocation(entities.client, EntityKind.CLIENT, "clientBulkWrite", arguments))
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


# `recordTopologyDescription` and `waitForPrimaryChange` go by what the client believes of its servers.
async def the_topology_is_known(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check the type and the primary that the client knows of."""
    entities = await AdapterEntities.make(adapter, deployment)
    await entities.run_command(ping=1)
    report = await adapter.topology(entities.client)
    assert report.type == "ReplicaSetWithPrimary"
    assert report.primary in deployment.addresses


# Messages of other components or other clients would be unexpected ones in every case that expects a list.
async def clients_log_what_they_were_asked_to(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check that messages of the asked components arrive, each at its own client."""
    entities = await AdapterEntities.make(
        adapter, deployment, observing={"observe_logs": frozenset({"command"})}
    )
    other = await AdapterEntities.make(
        adapter, deployment, observing={"observe_logs": frozenset({"topology"})}
    )
    await entities.run_command(ping=1)
    await adapter.close_client(other.client)
    messages = [(event.fields["level"], event.fields["data"]) for event in entities.events(LOG_MESSAGE)]
    assert [(level, data["message"], data["commandName"]) for level, data in messages] == [
        ("debug", "Command started", "ping"),
        ("debug", "Command succeeded", "ping"),
    ]
    lifecycle = [event.fields["data"]["message"] for event in other.events(LOG_MESSAGE)]
    assert lifecycle[0] == "Starting topology monitoring"
    # A thread that was checking a server may have the last word.
    assert "Stopped topology monitoring" in lifecycle
    assert {event.fields["component"] for event in other.events(LOG_MESSAGE)} == {"topology"}


SDAM: Final = frozenset(
    {
        "topologyOpeningEvent",
        "topologyClosedEvent",
        "serverDescriptionChangedEvent",
        "serverHeartbeatStartedEvent",
    }
)


# Events of closing come while the client is closed, after which an adapter may hear no more of it.
async def the_life_of_a_topology_is_observed_in_order(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check discovery events from the opening of a topology to its closing."""
    entities = await AdapterEntities.make(adapter, deployment, observing={"observe_events": SDAM})
    await entities.run_command(ping=1)
    await adapter.close_client(entities.client)
    events = entities.events(*SDAM)
    assert (events[0].kind, events[-1].kind) == ("topologyOpeningEvent", "topologyClosedEvent")
    assert {event.kind for event in events} == SDAM
    became = {event.fields["newDescription"]["type"] for event in events if "newDescription" in event.fields}
    assert "RSPrimary" in became


# Spans are reported when they end, the inner one first; only the parent tells which belongs to which.
async def an_operations_span_holds_that_of_its_command(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that spans are nested."""
    entities = await AdapterEntities.make(adapter, deployment, observing={"observe_spans": {}})
    await entities.call("find", filter={})
    spans = {event.fields["id"]: event.fields for event in entities.events(SPAN)}
    (command,) = (span for span in spans.values() if span["parent"] is not None)
    assert command["attributes"]["db.command.name"] == "find"
    assert command["parent"] in spans


BY_FEATURE: Final[Mapping[Feature, tuple[Check, ...]]] = {
    Feature.COMMAND_EVENTS: (
        commands_are_observed_in_order_with_their_fields,
        concerns_and_preferences_are_those_that_were_asked_for,
        what_was_observed_does_not_change_afterwards,
        a_write_that_fails_by_its_reply_is_a_command_that_succeeded,
    ),
    Feature.POOL_EVENTS: (connections_go_out_and_come_back, connecting_checks_no_connection_out),
    Feature.SDAM_EVENTS: (
        the_topology_is_known,
        the_life_of_a_topology_is_observed_in_order,
        a_client_monitors_from_its_beginning,
    ),
    Feature.LOG_MESSAGES: (clients_log_what_they_were_asked_to,),
    Feature.TRACING: (an_operations_span_holds_that_of_its_command,),
    Feature.SESSIONS: (a_session_has_the_lsid_that_it_sends, sessions_of_two_clients_are_different),
    Feature.TRANSACTIONS: (
        a_session_says_in_which_state_its_transaction_is,
        a_callback_runs_here_while_its_transaction_waits_there,
        an_error_in_a_callback_is_the_drivers_own_again,
        a_callback_that_fails_by_itself_aborts_and_says_why,
    ),
    Feature.CHANGE_STREAMS: (
        a_change_stream_gives_the_changes_since_it_was_created,
        a_change_stream_asks_for_no_batch_before_it_is_iterated,
    ),
    Feature.GRIDFS: (
        a_bucket_gives_back_what_was_uploaded,
        a_file_is_found_by_the_name_that_it_was_given_last,
        a_bucket_is_dropped_with_both_of_its_collections,
    ),
    Feature.FIND_CURSORS: (a_find_cursor_gives_one_document_at_a_time,),
    Feature.COMMAND_CURSORS: (a_command_cursor_is_created_and_drained,),
    Feature.CLIENT_BULK_WRITE: (a_client_bulk_write_counts_over_namespaces,),
    Feature.TIMEOUT_MS: (an_operation_that_takes_too_long_is_a_timeout,),
    Feature.SERVER_API: (a_declared_api_version_goes_with_every_command,),
    Feature.POOLS: (
        a_pool_lends_connections_while_it_is_ready,
        a_caller_waits_for_the_pool_and_no_other_call_waits_for_it,
    ),
    **BACKPRESSURE,
}
"""What holds of an adapter that declares a feature."""

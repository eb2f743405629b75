"""Change streams of the reference driver: tokens, resuming, and the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson import Timestamp

import fakeserver
from driver import AsyncClient
from driver.errors import (
    ClientClosedError,
    DriverError,
    InvalidArgumentError,
    InvalidReplyError,
    NetworkError,
    ServerError,
    ServerSelectionError,
    WaitQueueTimeoutError,
)
from driver.events import CommandStartedEvent
from driver.operations.cursors import ResumePoint
from driver.policy.classification import is_resumable
from fakeserver import ClusterSpec
from harness.sim import run_virtual
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from driver.change_stream import ChangeStream
    from driver.events import DriverEvent
    from harness.world.virtual import World

    Scenario = Callable[[AsyncClient, list[DriverEvent]], Awaitable[None]]

A, B, C = ({"_data": letter} for letter in "ABC")
TIME = Timestamp(7, 1)


def on_replica_set(scenario: Scenario, options: str = "") -> None:
    async def run(world: World) -> None:
        spec = ClusterSpec.replica_set(3)
        events: list[DriverEvent] = []
        async with fakeserver.start(
            spec, network=world.network, clock=world.clock, rng=world.rng.spawn("server")
        ) as cluster:
            client = AsyncClient(
                cluster.uri + options,
                network=world.network,
                clock=world.clock,
                rng=world.rng.spawn("client"),
                listeners=[events.append],
            )
            async with client:
                await scenario(client, events)

    run_virtual(run)


async def fail(client: AsyncClient, name: str = "failCommand", times: int = 1, **data: Any) -> None:
    await client.command("admin", {"configureFailPoint": name, "mode": {"times": times}, "data": data})


def sent(events: list[DriverEvent], name: str) -> list[Any]:
    return [each for each in events if isinstance(each, CommandStartedEvent) and each.command_name == name]


async def keys(stream: ChangeStream, count: int) -> list[Any]:
    return [(await anext(stream))["documentKey"]["_id"] for _ in range(count)]


# Where a stream goes on.


@pytest.mark.parametrize(
    ("options", "cursor", "start"),
    [
        ({}, {"firstBatch": []}, {"startAtOperationTime": TIME}),
        ({}, {"firstBatch": [], "postBatchResumeToken": A}, {"resumeAfter": A}),
        ({}, {"firstBatch": [{}], "postBatchResumeToken": A}, {}),
        ({"resumeAfter": B}, {"firstBatch": []}, {"resumeAfter": B}),
        ({"resumeAfter": B}, {"firstBatch": [], "postBatchResumeToken": C}, {"resumeAfter": C}),
        ({"resumeAfter": B}, {"firstBatch": [{}], "postBatchResumeToken": C}, {"resumeAfter": B}),
        ({"startAfter": B}, {"firstBatch": []}, {"startAfter": B}),
        ({"startAfter": B}, {"firstBatch": [], "postBatchResumeToken": C}, {"startAfter": C}),
        ({"startAtOperationTime": TIME}, {"firstBatch": [{}]}, {"startAtOperationTime": TIME}),
        ({"startAtOperationTime": TIME}, {"firstBatch": [], "postBatchResumeToken": A}, {"resumeAfter": A}),
    ],
)
def test_the_first_reply_says_where_to_go_on(options: Any, cursor: Any, start: Any) -> None:
    point = ResumePoint(options)
    point.opened({"cursor": cursor, "operationTime": TIME}, 8)
    assert point.start() == start


def test_servers_before_4_0_take_no_operation_time() -> None:
    point = ResumePoint({})
    point.opened({"cursor": {"firstBatch": []}, "operationTime": TIME}, 6)
    assert point.start() == {}


def test_the_token_follows_the_events() -> None:
    point = ResumePoint({"startAfter": A})
    point.reached({"_id": B}, None)
    assert point.start() == {"resumeAfter": B}, "an event was delivered, so startAfter is no longer said"
    point.reached({"_id": B}, C)
    assert point.token == C, "the last event of a batch stands for all of it"
    point.passed(None)
    assert point.token == C
    point.passed(A)
    assert point.token == A


def test_an_event_without_a_token_is_an_error_of_the_pipeline() -> None:
    with pytest.raises(InvalidReplyError, match="resume token is missing"):
        ResumePoint({}).reached({"operationType": "insert"}, None)


@pytest.mark.parametrize(
    ("error", "wire_version", "resumable"),
    [
        (NetworkError("lost"), 21, True),
        (ServerSelectionError("none"), 21, True),
        (WaitQueueTimeoutError("a:1"), 21, True),
        (ClientClosedError("closed"), 21, False),
        (InvalidReplyError("no token"), 21, False),
        (ServerError("gone", code=43), 21, True),
        (ServerError("gone", code=43), 8, True),
        (ServerError("any", code=1, labels=[Label.RESUMABLE_CHANGE_STREAM]), 9, True),
        (ServerError("any", code=1, labels=[Label.RESUMABLE_CHANGE_STREAM]), 8, False),
        (ServerError("not primary", code=10107), 9, False),
        (ServerError("not primary", code=10107), 8, True),
        (ServerError("stale", code=63), 8, True),
        (ServerError("history", code=286), 8, False),
    ],
)
def test_the_server_decides_what_is_resumable_once_it_labels(
    error: DriverError,
    wire_version: int,
    resumable: bool,  # noqa: FBT001 -- a column of the table
) -> None:
    assert is_resumable(error, wire_version) is resumable


# Against a server.


def test_a_collection_a_database_and_a_deployment_can_be_watched() -> None:
    async def scenario(client: AsyncClient, _events: list[DriverEvent]) -> None:
        things, others = (client.database("db").collection(name) for name in ("things", "others"))
        async with (
            await things.watch() as narrow,
            await client.database("db").watch() as wider,
            await client.watch([{"$match": {"operationType": "insert"}}]) as widest,
        ):
            await things.insert_one({"_id": 1})
            await others.insert_one({"_id": 2})
            await client.database("elsewhere").collection("c").insert_one({"_id": 3})
            await things.insert_one({"_id": 4})
            assert await keys(narrow, 2) == [1, 4]
            assert await keys(wider, 3) == [1, 2, 4]
            assert await keys(widest, 4) == [1, 2, 3, 4]

    on_replica_set(scenario)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("failGetMoreAfterCursorCheckout", {"errorCode": 10107}),
        ("failCommand", {"failCommands": ["getMore"], "closeConnection": True}),
        ("failCommand", {"failCommands": ["getMore"], "errorCode": 43}),
    ],
)
def test_a_stream_goes_on_after_an_error_and_misses_nothing(name: str, data: dict[str, Any]) -> None:
    async def scenario(client: AsyncClient, events: list[DriverEvent]) -> None:
        things = client.database("db").collection("things")
        async with await things.watch(batchSize=1, fullDocument="updateLookup") as stream:
            await things.insert_many([{"_id": number} for number in range(4)])
            assert await keys(stream, 2) == [0, 1]
            token = stream.resume_token
            await fail(client, name, **data)
            assert await keys(stream, 2) == [2, 3]
            first, again = sent(events, "aggregate")
            assert first.command["pipeline"] == [{"$changeStream": {"fullDocument": "updateLookup"}}]
            assert again.command["pipeline"] == [
                {"$changeStream": {"fullDocument": "updateLookup", "resumeAfter": token}}
            ]
            assert first.command["lsid"] == again.command["lsid"], "the session stays with the stream"

    on_replica_set(scenario)


def test_each_error_is_answered_with_one_attempt_to_resume() -> None:
    async def scenario(client: AsyncClient, events: list[DriverEvent]) -> None:
        things = client.database("db").collection("things")
        stream = await things.watch()
        await fail(client, "failGetMoreAfterCursorCheckout", times=2, errorCode=10107)
        await things.insert_one({"_id": 1})
        assert await keys(stream, 1) == [1]
        await fail(client, "failGetMoreAfterCursorCheckout", errorCode=10107)
        await fail(client, times=2, failCommands=["aggregate"], errorCode=10107)
        with pytest.raises(ServerError):
            await anext(stream)
        assert not stream.alive
        assert len(sent(events, "aggregate")) >= 3

    on_replica_set(scenario)


def test_an_error_that_is_not_resumable_closes_the_stream() -> None:
    async def scenario(client: AsyncClient, events: list[DriverEvent]) -> None:
        things = client.database("db").collection("things")
        stream = await things.watch([{"$project": {"_id": 0}}])
        await things.insert_one({"_id": 1})
        with pytest.raises(ServerError) as failed:
            await anext(stream)
        assert failed.value.has_label(Label.NON_RESUMABLE_CHANGE_STREAM)
        assert not stream.alive
        assert len(sent(events, "aggregate")) == 1
        assert await stream.try_next() is None

    on_replica_set(scenario)


def test_a_stream_that_nobody_writes_to_says_so_after_its_wait() -> None:
    async def scenario(client: AsyncClient, events: list[DriverEvent]) -> None:
        stream = await client.database("db").watch(maxAwaitTimeMS=250, comment="c", batchSize=3)
        before = client.clock.now()
        assert await stream.try_next() is None
        assert client.clock.now() - before == pytest.approx(0.25, abs=0.05)
        (get_more,) = sent(events, "getMore")
        assert {name: get_more.command[name] for name in ("maxTimeMS", "comment", "batchSize")} == {
            "maxTimeMS": 250,
            "comment": "c",
            "batchSize": 3,
        }
        await stream.aclose()
        await stream.aclose()
        assert len(sent(events, "killCursors")) == 1

    on_replica_set(scenario)


def test_an_invalidated_stream_ends() -> None:
    async def scenario(client: AsyncClient, _events: list[DriverEvent]) -> None:
        things = client.database("db").collection("things")
        await things.insert_one({"_id": 1})
        stream = await things.watch()
        await things.drop()
        assert [event["operationType"] async for event in stream] == ["drop", "invalidate"]
        token = stream.resume_token
        await things.insert_one({"_id": 2})
        async with await things.watch(startAfter=token) as following:
            assert await keys(following, 1) == [2]

    on_replica_set(scenario)


def test_a_stream_survives_an_election() -> None:
    async def scenario(client: AsyncClient, _events: list[DriverEvent]) -> None:
        things = client.database("db").collection("things")
        async with await things.watch() as stream:
            await things.insert_one({"_id": 1})
            await client.command("admin", {"replSetStepDown": 10})
            await things.insert_one({"_id": 2})
            assert await keys(stream, 2) == [1, 2]

    on_replica_set(scenario)


def test_what_watch_does_not_know_is_refused_before_anything_is_sent() -> None:
    async def scenario(client: AsyncClient, events: list[DriverEvent]) -> None:
        with pytest.raises(InvalidArgumentError, match="watch takes no option 'fullDocuments'"):
            await client.watch(fullDocuments="updateLookup")
        session = AsyncClient("mongodb://elsewhere", clock=client.clock).start_session()
        with pytest.raises(InvalidArgumentError, match="belongs to the client"):
            await client.watch(session=session)
        assert sent(events, "aggregate") == []

    on_replica_set(scenario)

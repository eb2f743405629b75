"""Change streams over the wire: waiting, lagging, killed, failed, and on any member."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from talking import REPLICA_SET, STANDALONE, Deployment, Talker, play

if TYPE_CHECKING:
    from fakeserver.deployment.cluster import Node

OPEN = {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "db"}
ANYWHERE = {"$readPreference": {"mode": "secondaryPreferred"}}


def insert(number: int) -> dict[str, Any]:
    return {"insert": "c", "documents": [{"_id": number}], "$db": "db"}


async def opened(deployment: Deployment, node: Node | None = None) -> tuple[Talker, dict[str, Any]]:
    """Return a connection and the getMore of a stream on a member."""
    talker = await deployment.connect(node)
    cursor = (await talker.ok({**OPEN, **ANYWHERE}))["cursor"]
    assert cursor["firstBatch"] == []
    assert list(cursor) == ["firstBatch", "postBatchResumeToken", "id", "ns"]
    return talker, {"getMore": cursor["id"], "collection": "c", "$db": "db"}


def told(reply: dict[str, Any]) -> list[Any]:
    return [event["documentKey"]["_id"] for event in reply["cursor"]["nextBatch"]]


def test_a_getmore_answers_as_soon_as_something_is_written() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, more = await opened(deployment)
        waiting = asyncio.ensure_future(talker.ok({**more, "maxTimeMS": 60_000}))
        writer = await deployment.connect()
        await writer.ok({"insert": "other", "documents": [{}], "$db": "db"})
        before = deployment.world.clock.now()
        await deployment.sleep(5)
        await writer.ok(insert(1))
        assert told(await waiting) == [1]
        assert deployment.world.clock.now() - before < 6
        empty = await talker.ok({**more, "maxTimeMS": 100})
        assert told(empty) == []
        assert deployment.world.clock.now() - before < 7

    play(scenario)


def test_any_member_tells_once_a_majority_has_the_change() -> None:
    async def scenario(deployment: Deployment) -> None:
        node = deployment.secondary
        talker, more = await opened(deployment, node)
        writer = await deployment.connect()
        for member in deployment.cluster.nodes[1:]:
            member.configure_fail_point("stopReplProducer", mode="alwaysOn", data=None)
        await writer.ok(insert(1))
        assert told(await talker.ok({**more, "maxTimeMS": 50})) == []
        waiting = asyncio.ensure_future(talker.ok({**more, "maxTimeMS": 60_000}))
        await deployment.sleep(1)
        for member in deployment.cluster.nodes[1:]:
            member.configure_fail_point("stopReplProducer", mode="off", data=None)
        assert told(await waiting) == [1]

    play(scenario)


def test_a_cursor_goes_on_where_it_is_when_its_server_steps_down() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, more = await opened(deployment)
        deployment.cluster.step_down()
        await deployment.sleep(20)
        primary = deployment.cluster.primary
        assert primary is not None
        await (await deployment.connect(primary)).ok(insert(1))
        assert told(await talker.ok(more)) == [1]

    play(scenario)


def test_killing_a_cursor_interrupts_the_getmore_that_waits() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, more = await opened(deployment)
        waiting = asyncio.ensure_future(talker.fails({**more, "maxTimeMS": 60_000}))
        await deployment.sleep(1)
        killer = await deployment.connect()
        await killer.ok({"killCursors": "c", "cursors": [more["getMore"]], "$db": "db"})
        assert (await waiting)["code"] == 237

    play(scenario)


@pytest.mark.parametrize(
    ("code", "labels"),
    [
        (10107, ["ResumableChangeStreamError"]),
        (150, ["ResumableChangeStreamError"]),
        (280, ["NonResumableChangeStreamError"]),
        (43, None),
    ],
)
def test_a_failing_getmore_says_whether_to_resume(code: int, labels: list[str] | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, more = await opened(deployment)
        await deployment.configure("failGetMoreAfterCursorCheckout", {"times": 1}, errorCode=code)
        assert (await talker.fails(more)).get("errorLabels") == labels
        assert (await talker.fails(more))["code"] == 43

    play(scenario)


def test_a_fail_point_that_a_getmore_waited_through_is_left_for_the_next() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, more = await opened(deployment)
        waiting = asyncio.ensure_future(talker.ok({**more, "maxTimeMS": 60_000}))
        await deployment.sleep(1)
        await deployment.configure("failGetMoreAfterCursorCheckout", {"times": 1}, errorCode=91)
        await (await deployment.connect()).ok(insert(1))
        assert told(await waiting) == [1]
        assert (await talker.fails(more))["code"] == 91

    play(scenario)


def test_a_standalone_refuses() -> None:
    async def scenario(deployment: Deployment) -> None:
        refused = await (await deployment.connect()).fails(OPEN)
        assert (refused["code"], refused["codeName"]) == (40573, "Location40573")

    play(scenario, STANDALONE)


def test_a_stream_outlives_its_collection_on_every_member() -> None:
    async def scenario(deployment: Deployment) -> None:
        writer = await deployment.connect()
        await writer.ok(insert(1))
        talker, more = await opened(deployment)
        await writer.ok({"drop": "c", "$db": "db"})
        cursor = (await talker.ok(more))["cursor"]
        assert [event["operationType"] for event in cursor["nextBatch"]] == ["drop", "invalidate"]
        assert cursor["id"] == 0
        assert cursor["postBatchResumeToken"] == cursor["nextBatch"][-1]["_id"]

    play(scenario, REPLICA_SET)

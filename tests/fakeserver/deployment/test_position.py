"""Secondaries that fall behind show the data as they were, and what waits for them waits."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from talking import LATENCY, Deployment, Talker, play

from fakeserver import ClusterSpec, MemberSpec

if TYPE_CHECKING:
    from mongowire.ports import Clock

_NEAREST = {"$readPreference": {"mode": "nearest"}, "$db": "db"}


async def _write(talker: Talker, _id: int, **more: Any) -> dict[str, Any]:
    return await talker.ok({"insert": "c", "documents": [{"_id": _id}], "$db": "db", **more})


def _find(**more: Any) -> dict[str, Any]:
    return {"find": "c", **_NEAREST, **more}


async def _ids(talker: Talker, **more: Any) -> list[Any]:
    reply = await talker.ok(_find(**more))
    return [document["_id"] for document in reply["cursor"]["firstBatch"]]


async def _pair(deployment: Deployment) -> tuple[Talker, Talker]:
    """Return connections to the primary and to node1."""
    return await deployment.connect(), await deployment.connect(deployment.cluster.nodes[1])


# What is shown.


def test_a_held_secondary_shows_old_data_until_it_is_released() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        await _write(primary, 1)
        deployment.cluster.nodes[1].hold()
        await _write(primary, 2)
        await primary.ok(
            {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}], "$db": "db"}
        )
        await primary.ok({"create": "d", "$db": "db"})
        found = await secondary.ok(_find())
        assert found["cursor"]["firstBatch"] == [{"_id": 1}]
        names = (await secondary.ok({"listCollections": 1, **_NEAREST}))["cursor"]["firstBatch"]
        assert [each["name"] for each in names] == ["c"]
        assert await _ids(primary) == [1, 2]
        deployment.cluster.nodes[1].release()
        assert await _ids(secondary) == [1, 2]

    play(scenario)


def test_a_held_secondary_still_has_what_was_dropped() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        await _write(primary, 1)
        deployment.cluster.nodes[1].hold()
        await primary.ok({"drop": "c", "$db": "db"})
        assert await _ids(secondary) == [1]
        assert await _ids(primary) == []

    play(scenario)


def test_a_lagging_secondary_shows_each_write_when_its_time_has_come() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        deployment.cluster.nodes[1].lag(10.0)
        await _write(primary, 1)
        await deployment.sleep(6.0)
        await _write(primary, 2)
        await deployment.sleep(3.9)
        assert await _ids(secondary) == []
        await deployment.sleep(0.2)
        assert await _ids(secondary) == [1]
        await deployment.sleep(6.0)
        assert await _ids(secondary) == [1, 2]
        await _write(primary, 3)
        deployment.cluster.nodes[1].lag(0)
        assert await _ids(secondary) == [1, 2, 3]

    play(scenario)


def test_two_lagging_secondaries_copy_nothing_when_nothing_is_written() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, _ = await _pair(deployment)
        secondaries = deployment.cluster.nodes[1:]
        for node in secondaries:
            node.lag(0.01)
        await _write(primary, 1)
        await deployment.sleep(1.0)
        shown = [node.catalog for node in secondaries]
        await deployment.sleep(5.0)
        assert [node.catalog for node in secondaries] == shown
        await _write(primary, 2)
        await deployment.sleep(1.0)
        assert [node.catalog for node in secondaries] != shown

    play(scenario)


def test_writes_that_come_fast_are_all_shown_in_the_end() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        deployment.cluster.nodes[1].lag(1.0)
        for number in range(40):
            await _write(primary, number)
            await deployment.sleep(0.01)
        assert await _ids(secondary) == []
        await deployment.sleep(1.1)
        assert await _ids(secondary) == list(range(40))

    play(scenario)


def test_a_member_never_goes_back_to_a_copy_from_before_its_lag_changed() -> None:
    """A majority may count on what it has shown: who goes back could be elected without it."""

    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        node = deployment.cluster.nodes[1]
        node.lag(1.0)
        await deployment.sleep(0.0)
        # Heard after the member, which has made its copy by then and has not begun to wait with it.
        grown = asyncio.Event()
        node.oplog.grown.listen(grown.set)
        write = asyncio.ensure_future(_write(primary, 1))
        await grown.wait()
        node.lag(0.1)
        await write
        await deployment.sleep(0.5)
        await _write(primary, 2)
        await deployment.sleep(0.2)
        assert await _ids(secondary) == [1, 2]
        await deployment.sleep(0.5)
        assert await _ids(secondary) == [1, 2]

    play(scenario)


class _LateOnce:
    """A clock on a busy machine: who sleeps for a second for the first time wakes after the next one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._was_late = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)

    async def sleep_until(self, at: float) -> None:
        late = not self._was_late and at > self._clock.now() + 0.9
        self._was_late |= late
        await self._clock.sleep_until(at + 0.5 if late else at)


def test_a_member_never_goes_back_to_a_copy_that_comes_late() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        node = deployment.cluster.nodes[1]
        node.clock = _LateOnce(node.clock)
        node.lag(1.0)
        await _write(primary, 1)
        await deployment.sleep(0.1)
        await _write(primary, 2)
        await deployment.sleep(1.2)
        assert await _ids(secondary) == [1, 2]
        await deployment.sleep(0.5)
        assert await _ids(secondary) == [1, 2]

    play(scenario)


def test_a_delayed_member_lags_from_the_start() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        await _write(primary, 1)
        await deployment.sleep(3599.0)
        assert await _ids(secondary) == []
        await deployment.sleep(3.0)
        assert await _ids(secondary) == [1]

    play(scenario, ClusterSpec.replica_set([MemberSpec(), MemberSpec(delay=3600), MemberSpec()]))


def test_the_hello_of_a_lagging_member_tells_its_last_write() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        await _write(primary, 1)
        before = (await secondary.ok({"hello": 1}))["lastWrite"]
        deployment.cluster.nodes[1].hold()
        await deployment.sleep(90.0)
        await _write(primary, 2)
        behind = (await secondary.ok({"hello": 1}))["lastWrite"]
        newest = (await primary.ok({"hello": 1}))["lastWrite"]
        assert behind == before
        assert newest["lastWriteDate"] - behind["lastWriteDate"] >= timedelta(seconds=90)

    play(scenario)


def test_the_operation_time_of_a_lagging_member_is_its_own() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        held_at = (await _write(primary, 1))["operationTime"]
        deployment.cluster.nodes[1].hold()
        written = (await _write(primary, 2))["operationTime"]
        pinged = await secondary.ok({"ping": 1})
        assert pinged["operationTime"] == held_at
        assert pinged["$clusterTime"]["clusterTime"] == written

    play(scenario)


# What waits.


def test_a_causal_read_waits_until_the_member_has_caught_up() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        deployment.cluster.nodes[1].lag(5.0)
        written = (await _write(primary, 1))["operationTime"]
        begun = deployment.world.clock.now()
        assert await _ids(secondary, readConcern={"afterClusterTime": written}) == [1]
        assert deployment.world.clock.now() - begun == pytest.approx(5.0, abs=4 * LATENCY)

    play(scenario)


def test_a_causal_read_waits_no_longer_than_it_may() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        deployment.cluster.nodes[1].hold()
        written = (await _write(primary, 1))["operationTime"]
        concern = {"level": "majority", "afterClusterTime": written}
        reply = await secondary.fails(_find(readConcern=concern, maxTimeMS=500))
        assert (reply["code"], reply["codeName"]) == (50, "MaxTimeMSExpired")
        assert reply["errmsg"] == "operation exceeded time limit"

    play(scenario)


def test_a_causal_read_of_what_the_member_has_does_not_wait() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        written = (await _write(primary, 1))["operationTime"]
        deployment.cluster.nodes[1].hold()
        await _write(primary, 2)
        assert await _ids(secondary, readConcern={"afterClusterTime": written}) == [1]

    play(scenario)


def test_a_snapshot_read_waits_for_its_time_too() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        await _write(primary, 0)
        deployment.cluster.nodes[1].lag(5.0)
        written = (await _write(primary, 1))["operationTime"]
        await _write(primary, 2)
        assert await _ids(secondary, readConcern={"level": "snapshot", "atClusterTime": written}) == [0, 1]

    play(scenario)


def test_a_write_to_all_waits_for_the_last_of_them() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, _ = await _pair(deployment)
        deployment.cluster.nodes[1].lag(5.0)
        for w, seconds in ((1, 0.0), ("majority", 0.0), (2, 0.0), (3, 5.0)):
            begun = deployment.world.clock.now()
            await _write(primary, hash(w), writeConcern={"w": w})
            assert deployment.world.clock.now() - begun == pytest.approx(seconds, abs=0.3)

    play(scenario)


def test_a_majority_read_shows_what_a_majority_has() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, _ = await _pair(deployment)
        await _write(primary, 1)
        for node in deployment.cluster.nodes[1:]:
            node.hold()
        await _write(primary, 2)
        assert await _ids(primary, readConcern={"level": "majority"}) == [1]
        assert await _ids(primary, readConcern={"level": "local"}) == [1, 2]
        deployment.cluster.nodes[2].release()
        assert await _ids(primary, readConcern={"level": "majority"}) == [1, 2]

    play(scenario)


def test_a_majority_read_shows_no_more_than_the_member_has() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        deployment.cluster.nodes[1].hold()
        await _write(primary, 1)
        assert await _ids(secondary, readConcern={"level": "majority"}) == []

    play(scenario)


def test_a_linearizable_read_waits_for_a_majority() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, _ = await _pair(deployment)
        for node in deployment.cluster.nodes[1:]:
            node.hold()
        await _write(primary, 1)
        concern = {"readConcern": {"level": "linearizable"}}
        assert (await primary.fails(_find(**concern, maxTimeMS=100)))["code"] == 50
        await primary.send(_find(**concern))
        await deployment.sleep(1.0)
        deployment.cluster.nodes[1].release()
        reply = await primary.reply()
        assert reply is not None
        assert reply["cursor"]["firstBatch"] == [{"_id": 1}]

    play(scenario)


# Elections.


def test_a_held_secondary_that_is_elected_has_everything() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        node = deployment.cluster.nodes[1]
        node.hold()
        await _write(primary, 1)
        deployment.cluster.elect(node)
        assert await _ids(secondary) == [1]
        await _write(secondary, 2)
        deployment.cluster.elect(deployment.cluster.nodes[2])
        await _write(await deployment.connect(deployment.primary), 3)
        assert await _ids(secondary) == [1, 2]

    play(scenario)


def test_the_member_that_has_come_furthest_is_elected() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, _ = await _pair(deployment)
        deployment.cluster.nodes[1].hold()
        await _write(primary, 1)
        await deployment.primary.kill()
        await deployment.sleep(1.0)
        assert deployment.primary is deployment.cluster.nodes[2]

    play(scenario)


def test_a_primary_steps_down_only_for_a_secondary_that_has_caught_up() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, _ = await _pair(deployment)
        for node in deployment.cluster.nodes[1:]:
            node.hold()
        await _write(primary, 1)
        refused = await primary.fails({"replSetStepDown": 60, "secondaryCatchUpPeriodSecs": 1})
        assert refused["code"] == 262
        await primary.send({"replSetStepDown": 60, "secondaryCatchUpPeriodSecs": 30})
        await deployment.sleep(1.0)
        deployment.cluster.nodes[2].release()
        reply = await primary.reply()
        assert reply is not None
        assert reply["ok"] == 1.0

    play(scenario)


def test_a_change_stream_on_a_lagging_member_hears_later() -> None:
    async def scenario(deployment: Deployment) -> None:
        primary, secondary = await _pair(deployment)
        await _write(primary, 0)
        opened = await secondary.ok(
            {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}, **_NEAREST}
        )
        deployment.cluster.nodes[1].lag(5.0)
        await _write(primary, 1)
        more = {"getMore": opened["cursor"]["id"], "collection": "c", "maxTimeMS": 10_000, "$db": "db"}
        begun = deployment.world.clock.now()
        batch = (await secondary.ok(more))["cursor"]["nextBatch"]
        assert [event["documentKey"]["_id"] for event in batch] == [1]
        assert deployment.world.clock.now() - begun == pytest.approx(5.0, abs=0.1)

    play(scenario)

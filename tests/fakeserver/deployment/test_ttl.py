"""Documents expire at the passes of the TTL monitor, and a deployment where nothing expires has no timer."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest
from bson import DatetimeMS, Int64
from talking import REPLICA_SET, STANDALONE, Deployment, Talker, lsid, play

from fakeserver import ClusterSpec
from fakeserver.deployment.ttl import Passes
from harness.world.clock import EPOCH, NothingScheduled

if TYPE_CHECKING:
    from collections.abc import Mapping

BEGIN = dt.datetime(2026, 1, 1)  # noqa: DTZ001 -- BSON dates are decoded as naive UTC


def at(seconds: float) -> dt.datetime:
    """Return the date so many seconds after a run in virtual time begins."""
    return BEGIN + dt.timedelta(seconds=seconds)


async def until(deployment: Deployment, instant: float) -> None:
    """Let time pass to an instant of the run."""
    await deployment.world.clock.sleep_until(instant)


async def left(talker: Talker) -> list[Any]:
    """Return the ids of the documents that are left."""
    reply = await talker.ok({"find": "c", "sort": {"_id": 1}, "$db": "db"})
    return [each["_id"] for each in reply["cursor"]["firstBatch"]]


async def ttl(talker: Talker) -> Mapping[str, int]:
    """Return the passes and the deletions that serverStatus tells of."""
    found = (await talker.ok({"serverStatus": 1}))["metrics"]["ttl"]
    assert set(found) == {"deletedDocuments", "passes"}
    return {name: int(count) for name, count in found.items()}


async def expiring(deployment: Deployment, seconds: float = 10, **options: Any) -> Talker:
    """Return a connection to the primary, on which documents of `c` expire so long after `d`."""
    talker = await deployment.connect(deployment.primary)
    index = {"key": {"d": 1}, "name": "d_1", "expireAfterSeconds": seconds, **options}
    await talker.ok({"createIndexes": "c", "indexes": [index], "$db": "db"})
    return talker


async def insert(talker: Talker, *documents: dict[str, Any]) -> None:
    """Insert documents."""
    await talker.ok({"insert": "c", "documents": list(documents), "$db": "db"})


@pytest.mark.parametrize(
    ("now", "expiry", "expected"),
    [
        (0, 0, 60_000),
        (0, 60_000, 60_000),
        (0, 60_001, 120_000),
        (59_999, 10, 60_000),
        (60_000, 10, 120_000),
        (60_000, -(10**12), 120_000),
        (1_000, 3_600_000, 3_600_000),
    ],
)
def test_what_expires_is_deleted_at_the_first_pass_from_then_on(now: int, expiry: int, expected: int) -> None:
    assert Passes(0, 60_000).next(now, expiry) == expected
    assert Passes(500, 60_000).next(now + 500, expiry + 500) == expected + 500


def test_dates_beyond_the_clock_expire_at_once_or_never() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await expiring(deployment)
        await insert(talker, {"_id": 1, "d": DatetimeMS(2**62)}, {"_id": 2, "d": DatetimeMS(-(2**62))})
        await until(deployment, 60)
        assert await left(talker) == [1]

    play(scenario)


@pytest.mark.parametrize(
    "spec", [STANDALONE, REPLICA_SET, ClusterSpec.sharded()], ids=lambda each: each.topology
)
def test_documents_expire_exactly_at_a_pass(spec: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await expiring(deployment)
        await insert(
            talker,
            {"_id": 1, "d": at(0)},
            {"_id": 2, "d": at(50)},
            {"_id": 3, "d": at(50.001)},
            {"_id": 4, "d": [at(1e6), at(-1e9)]},
            {"_id": 5, "d": 1},
            {"_id": 6},
        )
        await until(deployment, 59.999)
        assert await left(talker) == [1, 2, 3, 4, 5, 6]
        await until(deployment, 60.001)
        assert await left(talker) == [3, 5, 6]
        await until(deployment, 120.001)
        assert await left(talker) == [5, 6]

    play(scenario, spec)


def test_server_status_counts_passes_and_deletions_of_the_primary() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await expiring(deployment)
        await insert(talker, {"_id": 1, "d": at(0)}, {"_id": 2, "d": at(0)})
        await until(deployment, 181)
        assert await ttl(talker) == {"passes": 3, "deletedDocuments": 2}
        other = await deployment.connect(deployment.secondary)
        assert await ttl(other) == {"passes": 0, "deletedDocuments": 0}

    play(scenario)


def test_deletions_are_seen_by_change_streams() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await expiring(deployment)
        await insert(talker, {"_id": 1, "d": at(0)})
        pipeline: list[dict[str, Any]] = [{"$changeStream": {}}]
        opened = await talker.ok({"aggregate": "c", "pipeline": pipeline, "cursor": {}, "$db": "db"})
        more = {"getMore": opened["cursor"]["id"], "collection": "c", "maxTimeMS": 100_000, "$db": "db"}
        (event,) = (await talker.ok(more))["cursor"]["nextBatch"]
        assert (event["operationType"], event["documentKey"]) == ("delete", {"_id": 1})
        assert event["wallTime"] == at(60)

    play(scenario)


def test_the_interval_can_be_changed_and_the_monitor_switched_off() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await expiring(deployment, 0)
        await until(deployment, 30)
        await talker.ok({"setParameter": 1, "ttlMonitorSleepSecs": 5})
        await insert(talker, {"_id": 1, "d": at(0)})
        await until(deployment, 34.999)
        assert await left(talker) == [1]
        await until(deployment, 35.001)
        assert await left(talker) == []
        await talker.ok({"setParameter": 1, "ttlMonitorEnabled": False})
        await insert(talker, {"_id": 2, "d": at(0)})
        await until(deployment, 1000)
        assert await left(talker) == [2]
        assert await ttl(talker) == {"passes": 1, "deletedDocuments": 1}
        await talker.ok({"setParameter": 1, "ttlMonitorEnabled": True})
        await until(deployment, 1005.001)
        assert await left(talker) == []

    play(scenario)


def test_the_interval_is_given_at_start() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await expiring(deployment, 0)
        await insert(talker, {"_id": 1, "d": at(0)})
        await until(deployment, 1.001)
        assert await left(talker) == []

    play(scenario, ClusterSpec.standalone(parameters={"ttlMonitorSleepSecs": 1}))


def test_coll_mod_changes_when_documents_expire() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await expiring(deployment, 10_000)
        await insert(talker, {"_id": 1, "d": at(0)})
        index = {"name": "d_1", "expireAfterSeconds": 90}
        await talker.ok({"collMod": "c", "index": index, "$db": "db"})
        await until(deployment, 119)
        assert await left(talker) == [1]
        await until(deployment, 121)
        assert await left(talker) == []
        refused = {"collMod": "c", "index": {**index, "expireAfterSeconds": -1}, "$db": "db"}
        assert (await talker.fails(refused))["code"] == 72
        longest = {"collMod": "c", "index": {**index, "expireAfterSeconds": 2**40}, "$db": "db"}
        assert (await talker.ok(longest))["expireAfterSeconds_new"] == 2**31 - 1

    play(scenario)


def test_a_partial_index_lets_no_others_expire() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await expiring(deployment, partialFilterExpression={"done": True})
        await insert(talker, {"_id": 1, "d": at(0), "done": True}, {"_id": 2, "d": at(0)})
        await until(deployment, 61)
        assert await left(talker) == [2]
        change = {"q": {"_id": 2}, "u": {"$set": {"done": True}}}
        await talker.ok({"update": "c", "updates": [change], "$db": "db"})
        await until(deployment, 121)
        assert await left(talker) == []

    play(scenario)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"clusteredIndex": {"key": {"_id": 1}, "unique": True}}, "_id"),
        ({"timeseries": {"timeField": "t"}}, "t"),
    ],
)
def test_collections_expire_too(options: dict[str, Any], field: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"create": "c", **options, "expireAfterSeconds": 100, "$db": "db"})
        await insert(talker, {field: at(0), "n": 1}, {field: at(100), "n": 2})
        await until(deployment, 121)
        assert (await talker.ok({"find": "c", "$db": "db"}))["cursor"]["firstBatch"][0]["n"] == 2
        await talker.ok({"collMod": "c", "expireAfterSeconds": "off", "$db": "db"})
        await until(deployment, 1000)
        assert (await talker.ok({"count": "c", "$db": "db"}))["n"] == 1
        await talker.ok({"collMod": "c", "expireAfterSeconds": Int64(1), "$db": "db"})
        await until(deployment, 1021)
        assert (await talker.ok({"count": "c", "$db": "db"}))["n"] == 0

    play(scenario)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"create": "e", "expireAfterSeconds": 1}, 72),
        (
            {"create": "e", "clusteredIndex": {"key": {"_id": 1}, "unique": True}, "expireAfterSeconds": -1},
            72,
        ),
        ({"collMod": "c", "expireAfterSeconds": 1}, 72),
    ],
)
def test_only_clustered_collections_and_time_series_expire(command: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await insert(talker, {"_id": 1})
        assert (await talker.fails({**command, "$db": "db"}))["code"] == code

    play(scenario)


def test_the_new_primary_goes_on() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await expiring(deployment)
        await insert(talker, {"_id": 1, "d": at(0)})
        await until(deployment, 30)
        deployment.cluster.elect(deployment.secondary)
        await until(deployment, 61)
        reader = await deployment.connect(deployment.primary)
        assert await left(reader) == []
        assert await ttl(reader) == {"passes": 1, "deletedDocuments": 1}
        assert await ttl(talker) == {"passes": 0, "deletedDocuments": 0}

    play(scenario)


def test_a_server_that_is_paused_deletes_nothing() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await expiring(deployment)
        await insert(talker, {"_id": 1, "d": at(0)})
        deployment.primary.pause()
        await until(deployment, 90)
        (node,) = deployment.cluster.nodes
        node.resume()
        assert await left(talker) == [1]
        await until(deployment, 121)
        assert await left(talker) == []

    play(scenario, STANDALONE)


def test_a_document_that_a_transaction_has_changed_waits_for_a_later_pass() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await expiring(deployment)
        await insert(talker, {"_id": 1, "d": at(0)})
        await until(deployment, 50)
        other = await deployment.connect(deployment.primary)
        session = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        change = {"q": {"_id": 1}, "u": {"$set": {"n": 1}}}
        command = {"update": "c", "updates": [change], "startTransaction": True, "$db": "db", **session}
        await other.ok(command)
        await until(deployment, 61)
        assert await left(talker) == [1]
        await other.ok({"commitTransaction": 1, **session})
        await until(deployment, 121)
        assert await left(talker) == []

    play(scenario)


@pytest.mark.parametrize("ends", ["dropIndexes", "drop", "delete", "nothing there"])
def test_without_anything_that_expires_nothing_is_scheduled(ends: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await expiring(deployment)
        if ends != "nothing there":
            await insert(talker, {"_id": 1, "d": at(1e9)}, {"_id": 2, "d": "never"})
        if ends == "delete":
            await talker.ok({"delete": "c", "deletes": [{"q": {}, "limit": 0}], "$db": "db"})
            await deployment.sleep(1e10)
        elif ends != "nothing there":
            await talker.ok({ends: "c", **({"index": "d_1"} if ends == "dropIndexes" else {}), "$db": "db"})
        await asyncio.Event().wait()

    with pytest.raises(NothingScheduled):
        play(scenario)


def test_a_deployment_stops_while_a_pass_is_awaited() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await expiring(deployment)
        await insert(talker, {"_id": 1, "d": at(0)})
        assert deployment.world.clock.utc() < EPOCH + 1

    play(scenario)

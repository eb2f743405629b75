"""A real driver over real sockets: it finds the deployment, works, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pymongo import AsyncMongoClient, MongoClient, ReadPreference
from pymongo.errors import AutoReconnect, DuplicateKeyError

import fakeserver
from fakeserver import ClusterSpec
from fakeserver.profile import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fakeserver.deployment.cluster import Cluster

_NEWEST_UNSUPPORTED = "4.2"
_QUICK: dict[str, Any] = {"serverSelectionTimeoutMS": 10_000, "heartbeatFrequencyMS": 500}


def _play(
    scenario: Callable[[Cluster, AsyncMongoClient[Any]], Coroutine[Any, Any, None]],
    spec: ClusterSpec,
    **options: Any,
) -> None:
    async def main() -> None:
        async with (
            fakeserver.start(spec) as cluster,
            AsyncMongoClient[Any](cluster.uri, **(_QUICK | options)) as client,
        ):
            await scenario(cluster, client)

    asyncio.run(main())


def _counts(cluster: Cluster) -> Counter[str]:
    finished = cluster.journal.of_kind("commandFinished")
    return Counter(record.event._asdict()["name"] for record in finished)


def test_it_writes_and_reads_on_a_replica_set() -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        things = client.db.things
        await things.insert_many([{"_id": number} for number in range(300)])
        assert len(await things.find().to_list()) == 300
        assert await things.with_options(read_preference=ReadPreference.SECONDARY).find_one({"_id": 7})
        with pytest.raises(DuplicateKeyError):
            await things.insert_one({"_id": 1})

    _play(scenario, ClusterSpec.replica_set(3))


@pytest.mark.parametrize("profile", [name for name in PROFILES if name != _NEWEST_UNSUPPORTED])
def test_it_accepts_every_release_that_it_supports(profile: str) -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        assert (await client.admin.command("ping"))["ok"] == 1.0
        assert (await client.server_info())["version"].startswith(profile)

    _play(scenario, ClusterSpec.replica_set(1, profile=profile))


def test_it_retries_a_write_that_a_fail_point_interrupts() -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        things = client.db.things
        await client.admin.command("configureFailPoint", "onPrimaryTransactionalWrite", mode={"times": 1})
        assert (await things.insert_one({"_id": 1})).inserted_id == 1
        assert await things.count_documents({}) == 1
        fail = {"failCommands": ["insert"], "errorCode": 10107}
        await client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=fail)
        assert (await things.insert_one({"_id": 2})).inserted_id == 2

    _play(scenario, ClusterSpec.replica_set(3))


@pytest.mark.slow
def test_it_follows_an_election_at_once() -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        await client.db.things.insert_one({"_id": 1})
        begun = asyncio.get_running_loop().time()
        cluster.step_down()
        await client.db.things.insert_one({"_id": 2})
        assert asyncio.get_running_loop().time() - begun < 2.0
        assert await client.primary == ("localhost", int(cluster.nodes[1].address.rpartition(":")[2]))

    _play(scenario, ClusterSpec.replica_set(3), heartbeatFrequencyMS=10_000)


def test_it_does_not_storm_the_server_with_heartbeats() -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        for _ in range(500):
            await client.admin.command("ping")
        heartbeats = sum(count for name, count in _counts(cluster).items() if name in {"hello", "ismaster"})
        assert heartbeats < 20

    _play(scenario, ClusterSpec.replica_set(3), heartbeatFrequencyMS=10_000)


@pytest.mark.parametrize("compressor", ["zlib", "zstd"])
def test_it_speaks_compressed(compressor: str) -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        await client.db.things.insert_one({"x": "y" * 1000})
        assert (await client.db.things.find_one())["x"] == "y" * 1000  # type: ignore[index]

    _play(scenario, ClusterSpec.standalone(), compressors=compressor)


def test_it_sees_a_closed_connection_as_a_network_error() -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        fail = {"failCommands": ["find"], "closeConnection": True}
        await client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=fail)
        with pytest.raises(AutoReconnect):
            await client.db.things.find_one()

    _play(scenario, ClusterSpec.standalone(), retryReads=False)


@pytest.mark.slow
def test_a_synchronous_client_works_from_another_thread() -> None:
    async def main() -> None:
        async with fakeserver.start(ClusterSpec.replica_set(3)) as cluster:

            def work() -> int:
                with MongoClient[Any](cluster.uri, **_QUICK) as client:
                    client.db.things.insert_many([{"_id": number} for number in range(10)])
                    return client.db.things.count_documents({})

            assert await asyncio.to_thread(work) == 10

    asyncio.run(main())

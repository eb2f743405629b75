"""More results than one reply holds, and snapshots of several batches, through drivers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pymongo import AsyncMongoClient, MongoClient
from sizes import some_of
from threaded_server import serving

import fakeserver
from driver import AsyncClient
from fakeserver import ClusterSpec
from harness.sim import run_virtual

if TYPE_CHECKING:
    from fakeserver.deployment.cluster import Cluster
    from harness.world.virtual import World

COUNT = 20_000
DOCUMENTS: list[dict[str, Any]] = [{"_id": number, "x": "x" * 1000} for number in range(COUNT)]
SPECS = {
    "single": ClusterSpec.standalone(),
    "set": ClusterSpec.replica_set(3),
    "sharded": ClusterSpec.sharded(),
}
SNAPSHOTS = {name: spec for name, spec in SPECS.items() if name != "single"}


def meeting_some_of_them(first: int) -> pytest.MarkDecorator:
    names = some_of(SPECS, first)
    return pytest.mark.parametrize("spec", [SPECS[name] for name in names], ids=names)


every_with_snapshots = pytest.mark.parametrize("spec", SNAPSHOTS.values(), ids=SNAPSHOTS.keys())


@pytest.mark.slow
@meeting_some_of_them(1)
def test_synchronous_pymongo_reads_more_than_a_reply_holds(spec: ClusterSpec) -> None:
    with serving(spec) as server:
        host, port = server.address
        with MongoClient[dict[str, Any]](host, port, directConnection=True) as client:
            client.db.c.insert_many(DOCUMENTS)
            assert list(client.db.c.find()) == DOCUMENTS
            assert list(client.db.c.aggregate([])) == DOCUMENTS
        assert server.reports == []


@pytest.mark.slow
@meeting_some_of_them(2)
def test_asynchronous_pymongo_reads_more_than_a_reply_holds(spec: ClusterSpec) -> None:
    async def main() -> None:
        async with (
            fakeserver.start(spec) as cluster,
            AsyncMongoClient[dict[str, Any]](cluster.uri) as client,
        ):
            await client.db.c.insert_many(DOCUMENTS)
            assert await client.db.c.find().to_list() == DOCUMENTS

    asyncio.run(main())


@pytest.mark.slow
@meeting_some_of_them(0)
def test_the_reference_driver_reads_more_than_a_reply_holds(spec: ClusterSpec) -> None:
    async def main(world: World) -> None:
        ports: dict[str, Any] = {"network": world.network, "clock": world.clock}
        async with (
            fakeserver.start(spec, rng=world.rng.spawn("cluster"), **ports) as cluster,
            AsyncClient(cluster.uri, rng=world.rng.spawn("client"), **ports) as client,
        ):
            collection = client.database("db").collection("c")
            await collection.insert_many(DOCUMENTS)
            cursor = await collection.find({})
            assert [document async for document in cursor] == DOCUMENTS
            assert commands(cluster).count("getMore") == 2

    run_virtual(main)


def commands(cluster: Cluster) -> list[str]:
    return [record.event._asdict()["name"] for record in cluster.journal.of_kind("commandFinished")]


@every_with_snapshots
def test_a_snapshot_session_of_synchronous_pymongo_reads_several_batches(spec: ClusterSpec) -> None:
    with serving(spec) as server:
        host, port = server.address
        with MongoClient[dict[str, Any]](host, port, directConnection=True) as client:
            things = client.db.things
            things.insert_many([{"_id": number} for number in range(6)])
            with client.start_session(snapshot=True) as session:
                seen = things.find({}, batch_size=2, session=session)
                first = next(seen)
                things.insert_one({"_id": 6})
                assert [first, *seen] == [{"_id": number} for number in range(6)]
                piped = things.aggregate([{"$match": {}}], batchSize=2, session=session)
                assert len(list(piped)) == 6


@every_with_snapshots
def test_a_snapshot_session_of_asynchronous_pymongo_reads_several_batches(spec: ClusterSpec) -> None:
    async def main() -> None:
        async with (
            fakeserver.start(spec) as cluster,
            AsyncMongoClient[dict[str, Any]](cluster.uri) as client,
        ):
            things = client.db.things
            await things.insert_many([{"_id": number} for number in range(6)])
            async with client.start_session(snapshot=True) as session:
                assert len(await things.find({}, batch_size=2, session=session).to_list()) == 6
                await things.insert_one({"_id": 6})
                assert len(await things.find({}, batch_size=2, session=session).to_list()) == 6
            assert commands(cluster).count("getMore") == 6

    asyncio.run(main())

"""PyMongo over TCP while its deployment is killed, paused, shut down, extended and held back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pymongo import AsyncMongoClient, ReadPreference, WriteConcern
from pymongo.errors import AutoReconnect, ConnectionFailure, ExecutionTimeout, NetworkTimeout
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import Secondary

import fakeserver
from fakeserver import ClusterSpec, MemberSpec
from fakeserver.assembly.background import BackgroundCluster

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fakeserver.deployment.cluster import Cluster

    Scenario = Callable[[Cluster, AsyncMongoClient[Any]], Coroutine[Any, Any, None]]

_QUICK: dict[str, Any] = {"serverSelectionTimeoutMS": 10_000, "heartbeatFrequencyMS": 500}


def _play(scenario: Scenario, spec: ClusterSpec | None = None, **options: Any) -> None:
    async def main() -> None:
        async with (
            fakeserver.start(spec or ClusterSpec.replica_set(3)) as cluster,
            AsyncMongoClient[Any](cluster.uri, **(_QUICK | options)) as client,
        ):
            await scenario(cluster, client)

    asyncio.run(main())


@pytest.mark.slow
def test_a_write_goes_on_to_the_next_primary_after_each_end() -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        things = client.db.get_collection("things", write_concern=WriteConcern("majority"))
        await things.insert_one({"_id": 0})
        for number in (1, 2):
            old = cluster.node("primary")
            await (old.kill() if number == 1 else old.shut_down(quiesce=0.1))
            await things.insert_one({"_id": number})
            await old.start()
        assert await things.count_documents({}) == 3

    _play(scenario)


def test_a_shutdown_by_command_ends_the_server() -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        with pytest.raises(AutoReconnect):
            await client.admin.command("shutdown", timeoutSecs=0)
        assert cluster.nodes[0].stopped
        await client.db.things.insert_one({})

    _play(scenario)


@pytest.mark.slow
def test_a_paused_standalone_times_out_and_comes_back() -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        await client.db.things.insert_one({"_id": 1})
        cluster.nodes[0].pause()
        with pytest.raises(NetworkTimeout):
            await client.db.things.find_one({})
        cluster.nodes[0].resume()
        assert await client.db.things.find_one({}) == {"_id": 1}

    _play(scenario, ClusterSpec.standalone(), socketTimeoutMS=300, retryReads=False)


def test_tags_choose_a_member_and_arbiters_are_known_as_such() -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        preference = Secondary(tag_sets=[{"dc": "ber"}])
        await client.db.get_collection("things", read_preference=preference).find_one({})
        counted = [node.counters.by_command().get("find", {}).get("total", 0) for node in cluster.nodes]
        assert counted[2] == 1
        kinds = [
            server.server_type_name for server in client.topology_description.server_descriptions().values()
        ]
        assert sorted(kinds) == ["RSArbiter", "RSPrimary", "RSSecondary", "RSSecondary"]

    members = [MemberSpec(), MemberSpec(), MemberSpec(tags={"dc": "ber"}), MemberSpec(arbiter=True)]
    _play(scenario, ClusterSpec.replica_set(members))


def test_a_causal_session_waits_for_a_secondary_that_was_held() -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        secondaries = client.db.get_collection("things", read_preference=ReadPreference.SECONDARY)
        for node in cluster.nodes[1:]:
            node.hold()
        async with client.start_session(causal_consistency=True) as session:
            await client.db.things.insert_one({"_id": 1}, session=session)
            assert await secondaries.find_one({}) is None
            with pytest.raises(ExecutionTimeout):
                await secondaries.find_one({}, session=session, max_time_ms=50)
            waiting = asyncio.create_task(secondaries.find_one({}, session=session))
            await asyncio.sleep(0)
            for node in cluster.nodes[1:]:
                node.release()
            assert await waiting == {"_id": 1}

    _play(scenario)


def test_a_majority_read_waits_for_nobody_and_shows_what_is_safe() -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        safe = client.db.get_collection("things", read_concern=ReadConcern("majority"))
        await client.db.things.insert_one({"_id": 1})
        for node in cluster.nodes[1:]:
            node.hold()
        await client.db.things.insert_one({"_id": 2})
        assert await safe.count_documents({}) == 1

    _play(scenario)


@pytest.mark.slow
def test_a_new_member_is_discovered_and_one_that_left_is_forgotten() -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        await client.admin.command("ping")
        joined = await cluster.add_member()
        gone = cluster.remove_member("node2")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 5.0
        expected = {node.address for node in cluster.nodes} - {gone.address}
        while {f"{host}:{port}" for host, port in client.nodes} != expected:
            assert loop.time() < deadline, client.nodes
            await client.db.things.insert_one({})
        assert joined.address in expected

    _play(scenario)


def test_a_blocking_caller_breaks_its_deployment_from_its_own_thread() -> None:
    with BackgroundCluster(ClusterSpec.replica_set(3)) as server:
        primary = server.node("primary")
        server.run(primary.kill)
        assert server.call(lambda: primary.stopped)
        server.run(primary.start)
        server.call(server.node("node2").pause)
        with pytest.raises(LookupError, match="there is no 'node9'"):
            server.node("node9")


@pytest.mark.slow
def test_clients_cut_off_by_resets_fail_at_once() -> None:
    async def scenario(cluster: Cluster, client: AsyncMongoClient[Any]) -> None:
        await client.db.things.insert_one({"_id": 1})
        cluster.partition(["clients"], reset=True)
        with pytest.raises(ConnectionFailure):
            await client.db.things.insert_one({"_id": 2})
        cluster.heal()
        await client.db.things.insert_one({"_id": 3})

    _play(scenario, serverSelectionTimeoutMS=1000)

"""Unified Test Format: Initializing the Test Runner, on servers that are known by their connection string."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from tls_files import tls

import fakeserver
from fakeserver import ClusterSpec, MemberSpec, UserSpec
from fakeserver.profile import Profile
from harness.adapters.deployment import Topology
from harness.deployments.external import DeploymentError, external
from harness.unified.uri import ConnectionString, host_count
from mongowire.system import SeededRng, SystemClock, fresh_rng

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from fakeserver.deployment.cluster import Cluster
    from harness.deployments.external import ExternalDeployment

    Scenario = Callable[[ExternalDeployment, Cluster], Awaitable[None]]

BOB = UserSpec("b@b", "p/w:d?")
SPECS = {
    Topology.SINGLE: ClusterSpec.standalone(auth=True, users=(BOB,)),
    Topology.REPLICA_SET: ClusterSpec.replica_set(3),
    Topology.SHARDED: ClusterSpec.sharded(mongos=2),
    Topology.LOAD_BALANCED: ClusterSpec.load_balanced(mongos=2, auth=True, users=(BOB,)),
}
FAIL_PINGS = {
    "configureFailPoint": "failCommand",
    "mode": "alwaysOn",
    "data": {"failCommands": ["ping"], "errorCode": 8},
}


@asynccontextmanager
async def found(cluster: Cluster, uri: str = "") -> AsyncIterator[ExternalDeployment]:
    """Yield a cluster as one that is known by its connection strings only."""
    multi = cluster.uri if cluster.balancers else ""
    one = cluster.uri_single if cluster.balancers else cluster.uri
    async with external(uri or one, multi, clock=SystemClock(), rng=fresh_rng()) as deployment:
        yield deployment


def on(spec: ClusterSpec, scenario: Scenario) -> None:
    async def main() -> None:
        async with fakeserver.start(spec) as cluster, found(cluster) as deployment:
            await scenario(deployment, cluster)

    asyncio.run(main())


@pytest.mark.parametrize("topology", SPECS)
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_deployment_tells_what_requirements_are_compared_with(topology: Topology, *, secure: bool) -> None:
    spec = replace(SPECS[topology], tls=tls()) if secure else SPECS[topology]

    async def scenario(deployment: ExternalDeployment, cluster: Cluster) -> None:
        assert deployment.topology is topology
        assert deployment.server_version == tuple(Profile.named("8.2").version_array[:3])
        assert deployment.auth is spec.auth
        assert deployment.parameters["enableTestCommands"] is True
        assert deployment.addresses == tuple(node.address for node in cluster.nodes)
        assert deployment.notes == ()
        assert deployment.journal is None
        assert deployment.network is None

    on(spec, scenario)


@pytest.mark.parametrize("topology", SPECS)
def test_every_server_can_be_commanded_by_its_address(topology: Topology) -> None:
    async def scenario(deployment: ExternalDeployment, cluster: Cluster) -> None:
        for node in cluster.nodes:
            reply = await deployment.admin("admin", {"getParameter": 1, "port": 1}, address=node.address)
            hello = await deployment.admin("admin", {"hello": 1}, address=node.address)
            assert hello["ok"] == 1, reply
            assert hello.get("me", node.address) == node.address

    on(SPECS[topology], scenario)


def test_of_a_sharded_cluster_one_connection_string_is_of_the_first_mongos() -> None:
    async def scenario(deployment: ExternalDeployment, cluster: Cluster) -> None:
        assert deployment.uri_multi == cluster.uri
        assert ConnectionString.of(deployment.uri).hosts == (cluster.nodes[0].address,)

    on(SPECS[Topology.SHARDED], scenario)


def test_one_mongos_alone_is_noted_since_some_cases_need_two() -> None:
    async def scenario(deployment: ExternalDeployment, _: Cluster) -> None:
        assert deployment.notes == ("there is one mongos only, so cases that need two are skipped",)

    on(ClusterSpec.sharded(mongos=1), scenario)


def test_balancers_stay_apart_and_lead_to_one_mongos_and_to_all() -> None:
    async def scenario(deployment: ExternalDeployment, cluster: Cluster) -> None:
        assert deployment.uri == cluster.uri_single
        assert deployment.uri_multi == cluster.uri

    on(SPECS[Topology.LOAD_BALANCED], scenario)


def test_a_client_with_a_direct_connection_gets_the_primary_whatever_the_order_of_the_seeds() -> None:
    async def main() -> None:
        async with fakeserver.start(ClusterSpec.replica_set(3)) as cluster:
            string = ConnectionString.of(cluster.uri)
            backwards = str(string.at(*reversed(string.hosts)))
            async with found(cluster, backwards) as deployment:
                primary = next(node for node in cluster.nodes if node.is_primary)
                assert ConnectionString.of(deployment.uri).hosts[0] == primary.address
                assert host_count(deployment.uri) == 3

    asyncio.run(main())


def test_one_seed_is_enough_to_find_a_replica_set() -> None:
    async def main() -> None:
        async with fakeserver.start(ClusterSpec.replica_set(3)) as cluster:
            seed = cluster.nodes[2].address
            async with found(cluster, f"mongodb://{seed}") as deployment:
                assert deployment.topology is Topology.REPLICA_SET
                assert len(deployment.addresses) == 3
                assert (await deployment.admin("admin", {"hello": 1}))["isWritablePrimary"] is True

    asyncio.run(main())


def test_a_direct_connection_to_a_primary_leads_to_no_other_member() -> None:
    async def main() -> None:
        async with fakeserver.start(ClusterSpec.replica_set(3)) as cluster:
            uri = f"mongodb://{cluster.nodes[0].address}/?directConnection=true"
            async with found(cluster, uri) as deployment:
                assert deployment.topology is Topology.REPLICA_SET
                assert deployment.uri == uri
                assert deployment.addresses == (cluster.nodes[0].address,)
            with pytest.raises(DeploymentError, match="takes no writes, its primary is"):
                async with found(cluster, uri.replace(cluster.nodes[0].address, cluster.nodes[1].address)):
                    pass

    asyncio.run(main())


def test_arbiters_and_hidden_members_are_none_that_clients_reach() -> None:
    members = (
        MemberSpec(),
        MemberSpec(priority=0),
        MemberSpec(arbiter=True),
        MemberSpec(hidden=True, priority=0),
    )

    async def scenario(deployment: ExternalDeployment, cluster: Cluster) -> None:
        assert deployment.addresses == tuple(node.address for node in cluster.nodes[:2])

    on(ClusterSpec.replica_set(members=members), scenario)


def test_a_member_that_does_not_answer_is_left_out_and_noted() -> None:
    async def main() -> None:
        async with fakeserver.start(ClusterSpec.replica_set(3)) as cluster:
            down = cluster.nodes[2]
            await down.kill()
            async with found(cluster, f"{cluster.uri}&serverSelectionTimeoutMS=300") as deployment:
                assert deployment.addresses == tuple(node.address for node in cluster.nodes[:2])
                assert deployment.notes == (
                    f"{down.address} is a member of rs0 and cannot be reached under that name from here",
                )

    asyncio.run(main())


def test_a_mongos_that_does_not_answer_is_an_error() -> None:
    async def main() -> None:
        async with fakeserver.start(ClusterSpec.sharded(mongos=2)) as cluster:
            await cluster.nodes[1].kill()
            with pytest.raises(
                DeploymentError, match=f"{cluster.nodes[1].address} does not answer as a mongos"
            ):
                async with found(cluster, f"{cluster.uri}?serverSelectionTimeoutMS=300"):
                    pass

    asyncio.run(main())


@pytest.mark.parametrize("topology", SPECS)
def test_fail_points_that_an_earlier_run_has_left_are_off_from_the_start_and_at_the_end(
    topology: Topology,
) -> None:
    async def main() -> None:
        async with fakeserver.start(SPECS[topology]) as cluster:
            _fail_pings_on_all(cluster)
            async with found(cluster) as deployment:
                for address in deployment.addresses:
                    assert (await deployment.admin("admin", {"ping": 1}, address=address))["ok"] == 1
                    await deployment.admin("admin", FAIL_PINGS, address=address)
                    assert (await deployment.admin("admin", {"ping": 1}, address=address))["code"] == 8
            assert not any(node.fail_points.is_on("failCommand") for node in cluster.nodes)

    asyncio.run(main())


def _fail_pings_on_all(cluster: Cluster) -> None:
    for node in cluster.nodes:
        node.configure_fail_point("failCommand", mode="alwaysOn", data=FAIL_PINGS["data"])


def test_after_a_failed_case_fail_points_are_off_and_sessions_killed() -> None:
    async def scenario(deployment: ExternalDeployment, cluster: Cluster) -> None:
        known = cluster.journal.last_seq
        await deployment.admin("admin", FAIL_PINGS)
        assert await deployment.recover() is True
        assert (await deployment.admin("admin", {"ping": 1}))["ok"] == 1
        killed = [
            record.source
            for record in cluster.journal.since(known)
            if getattr(record.event, "name", "") == "killAllSessions"
        ]
        assert len(killed) == 2, "on each mongos"

    on(SPECS[Topology.SHARDED], scenario)


def test_a_server_that_seems_to_shut_down_has_answered_and_is_soon_asked_again() -> None:
    async def scenario(deployment: ExternalDeployment, _: Cluster) -> None:
        data = {"failCommands": ["ping"], "errorCode": 91}
        await deployment.admin("admin", {**FAIL_PINGS, "mode": {"times": 2}, "data": data})
        began = deployment.clock.now()
        assert (await deployment.admin("admin", {"ping": 1}))["code"] == 91
        assert (await deployment.admin("admin", {"ping": 1}))["ok"] == 1
        assert deployment.clock.now() - began < 5

    on(ClusterSpec.standalone(), scenario)


def test_a_member_that_has_gone_does_not_keep_fail_points_on_the_others() -> None:
    async def main() -> None:
        async with (
            fakeserver.start(ClusterSpec.replica_set(3)) as cluster,
            found(cluster, f"{cluster.uri}&serverSelectionTimeoutMS=300") as deployment,
        ):
            await cluster.nodes[0].kill()
            await deployment.admin("admin", FAIL_PINGS, address=cluster.nodes[2].address)
            assert await deployment.recover() is False
            assert not cluster.nodes[2].fail_points.is_on("failCommand")

    asyncio.run(main())


def test_balancers_that_hide_every_mongos_are_spoken_to_themselves() -> None:
    async def main() -> None:
        async with fakeserver.start(SPECS[Topology.LOAD_BALANCED]) as cluster:
            async with found(cluster) as deployment:
                everything = [{"q": {}, "limit": 0}]
                await deployment.admin("config", {"delete": "mongos", "deletes": everything})
            async with found(cluster) as deployment:
                assert deployment.addresses == tuple(door.address for door in cluster.balancers)
                assert deployment.notes[0].startswith("load balancers hide every mongos")
                for address in deployment.addresses:
                    assert (await deployment.admin("admin", {"ping": 1}, address=address))["ok"] == 1

    asyncio.run(main())


def test_the_mongos_of_another_cluster_is_left_alone_even_under_a_name_that_this_one_knows() -> None:
    async def main() -> None:
        specs = [ClusterSpec.load_balanced(mongos=1, seed=seed) for seed in range(2)]
        async with fakeserver.start(specs[0]) as cluster, fakeserver.start(specs[1]) as other:
            async with found(cluster) as deployment:
                ping = deployment.clock.utc()
                there = {"_id": other.nodes[0].address, "ping": datetime.fromtimestamp(ping, UTC)}
                reply = await deployment.admin("config", {"insert": "mongos", "documents": [there]})
                assert reply["n"] == 1
            known = other.journal.last_seq
            async with found(cluster) as deployment:
                assert deployment.addresses == (cluster.nodes[0].address,)
            names = {getattr(record.event, "name", "") for record in other.journal.since(known)}
            assert names.isdisjoint({"configureFailPoint", "killAllSessions"})

    asyncio.run(main())


def test_servers_that_have_gone_cannot_be_recovered() -> None:
    async def main() -> None:
        async with fakeserver.start(ClusterSpec.standalone()) as cluster:
            uri = f"{cluster.uri}?serverSelectionTimeoutMS=200"
            async with found(cluster, uri) as deployment:
                await cluster.nodes[0].kill()
                assert await deployment.recover() is False

    asyncio.run(main())


def test_without_test_commands_there_are_no_fail_points_which_is_said_once() -> None:
    async def scenario(deployment: ExternalDeployment, cluster: Cluster) -> None:
        assert deployment.parameters["enableTestCommands"] is False
        assert deployment.notes == (
            (
                f"{cluster.nodes[0].address} takes no fail points, so cases that set one are skipped:"
                " start it with --setParameter enableTestCommands=1"
            ),
        )

    on(ClusterSpec.replica_set(3, parameters={"enableTestCommands": False}), scenario)


def test_a_user_who_may_not_administrate_can_still_run_what_needs_no_more() -> None:
    users = (UserSpec("carl", "pwd", roles=("readWriteAnyDatabase",)),)

    async def scenario(deployment: ExternalDeployment, _: Cluster) -> None:
        assert deployment.auth is True
        assert deployment.parameters == {}
        assert [note.partition(",")[0] for note in deployment.notes] == [
            "the server's parameters cannot be read"
        ]
        reply = await deployment.admin("db", {"insert": "c", "documents": [{"_id": 1}]})
        assert reply["n"] == 1

    on(ClusterSpec.standalone(auth=True, users=users), scenario)


def test_two_runs_never_have_the_same_session_ids_whatever_the_seed() -> None:
    async def scenario(deployment: ExternalDeployment, _: Cluster) -> None:
        seeded = [deployment.with_rng(SeededRng(1)).rng.randbytes(16) for _ in range(2)]
        assert seeded[0] != seeded[1]

    on(ClusterSpec.standalone(), scenario)


def test_a_command_of_the_harness_follows_the_primary() -> None:
    async def scenario(deployment: ExternalDeployment, cluster: Cluster) -> None:
        for member in cluster.nodes[1:]:
            cluster.elect(member)
            reply = await deployment.admin("db", {"insert": "c", "documents": [{}]})
            assert reply.get("n") == 1, reply

    on(ClusterSpec.replica_set(3), scenario)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("localhost:27017", "localhost:27017/: a connection string begins with mongodb://"),
        ("mongodb://a:b:c@h/", "escaped"),
        ("mongodb://localhost:99999/", "Port must be an integer between 0 and 65535"),
        (
            "mongodb://bob:pwd@localhost:1/?tls=maybe",
            r"mongodb://bob:\*\*\*@localhost:1/\?tls=maybe: The value",
        ),
        ("mongodb://localhost:1/?tls=true&tlsCAFile=/nowhere.pem", r"\[Errno 2\] "),
        ("mongodb://localhost:1/?serverSelectionTimeoutMS=100", "localhost:1: .*Connect call failed"),
        ("mongodb://a.invalid/?serverSelectionTimeoutMS=100", "a.invalid:27017: "),
    ],
)
def test_a_connection_string_that_leads_nowhere_is_one_error(uri: str, message: str) -> None:
    async def main() -> None:
        async with external(uri, clock=SystemClock(), rng=fresh_rng()):
            pass

    with pytest.raises(DeploymentError, match=message) as info:
        asyncio.run(main())
    assert "Topology Description" not in str(info.value)


@pytest.mark.parametrize("topology", [Topology.SINGLE, Topology.LOAD_BALANCED])
def test_a_wrong_password_and_a_missing_one_are_one_error_each(topology: Topology) -> None:
    async def main() -> None:
        async with fakeserver.start(SPECS[topology]) as cluster:
            string = ConnectionString.of(cluster.uri)
            with pytest.raises(DeploymentError, match="Authentication failed"):
                async with found(cluster, str(replace(string, credentials="bob:wrong"))):
                    pass
            with pytest.raises(DeploymentError, match="name a user in the connection string"):
                async with found(cluster, str(replace(string, credentials=""))):
                    pass

    asyncio.run(main())


def test_a_connection_string_of_several_mongos_has_no_use_elsewhere() -> None:
    async def main() -> None:
        async with fakeserver.start(ClusterSpec.standalone()) as cluster:
            with pytest.raises(DeploymentError, match="has no use: the topology is single"):
                async with external(cluster.uri, cluster.uri, clock=SystemClock(), rng=fresh_rng()):
                    pass

    asyncio.run(main())

"""Pools, monitors and connections with their input and output, in virtual time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import bson
import pytest
from bson import Int64
from driven_client import Stage, discovered, play, staged
from scripted_mongod import (
    NO_DOCUMENTS,
    Drop,
    Late,
    ScriptedMongod,
    Silence,
    error,
    member_hello,
    mongos_hello,
    replica_set,
    standalone_hello,
    topology_version,
)

import fakeserver
from driver import AsyncClient
from driver.client import OptionWarning
from driver.cmap.connection import RequestIds
from driver.cmap.handshake import Handshake
from driver.cmap.metadata import MAX_METADATA_SIZE, Metadata, client_metadata, fitted
from driver.cmap.pool import Pool, PoolPorts
from driver.cmap.state import PoolOptions
from driver.editions import EDITION_2026_02_20
from driver.errors import (
    AuthenticationError,
    ClientClosedError,
    ConfigurationError,
    InvalidArgumentError,
    InvalidReplyError,
    NetworkError,
    NetworkTimeoutError,
    OperationTimeoutError,
    PoolClearedError,
    PoolError,
    ServerError,
    ServerSelectionError,
    WaitQueueTimeoutError,
)
from fakeserver import ClusterSpec
from harness.sim import run_virtual
from mongowire.codes import Label
from mongowire.messages import OpMsg
from mongowire.system import SeededRng, SystemClock, TcpNetwork

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.events import DriverEvent
    from harness.world.virtual import World
    from mongowire.ports import Clock, Network, Rng


async def pause(stage: Stage, seconds: float) -> None:
    await stage.world.clock.sleep_until(stage.world.clock.now() + seconds)


async def ping(stage: Stage) -> Mapping[str, Any]:
    return await stage.client.command("admin", {"ping": 1})


@pytest.mark.parametrize("turns", range(1, 4))
def test_who_is_cancelled_while_a_client_closes_hears_of_it(turns: int) -> None:
    async def scenario(stage: Stage) -> None:
        await ping(stage)
        closing = asyncio.ensure_future(stage.client.topology.aclose())
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not closing.done()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

    play(scenario)


# --- pools ---


@pytest.mark.spec("CMAP-1", "CMAP-30", "CMAP-38", "CMAP-62")
def test_operations_wait_for_connections_and_are_served_in_turn() -> None:
    async def scenario(stage: Stage) -> None:
        await asyncio.gather(*(ping(stage) for _ in range(10)))

    stage = play(scenario, "maxPoolSize=3")
    assert len(stage.of_kind("connectionCreatedEvent")) == 3
    assert len(stage.of_kind("connectionCheckedOutEvent")) == 11


@pytest.mark.spec("CMAP-12", "CMAP-29")
def test_the_wait_queue_has_its_own_timeout() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", Silence())
        stuck = asyncio.ensure_future(ping(stage))
        await pause(stage, 0.1)
        with pytest.raises(WaitQueueTimeoutError) as info:
            await ping(stage)
        assert str(info.value) == "Timed out while checking out a Connection from connection pool"
        stuck.cancel()
        await asyncio.gather(stuck, return_exceptions=True)

    stage = play(scenario, "maxPoolSize=1&waitQueueTimeoutMS=50")
    assert [e.reason for e in stage.of_kind("connectionCheckOutFailedEvent")] == ["timeout"]
    assert stage.of_kind("connectionClosedEvent")[0].reason == "error"


def test_an_operation_that_is_cancelled_in_the_queue_leaves_it() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", Silence())
        stuck = asyncio.ensure_future(ping(stage))
        await pause(stage, 0.1)
        waiting = asyncio.ensure_future(ping(stage))
        await pause(stage, 0.1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        stuck.cancel()
        await asyncio.gather(stuck, return_exceptions=True)
        await ping(stage)

    stage = play(scenario, "maxPoolSize=1")
    assert [e.reason for e in stage.of_kind("connectionCheckOutFailedEvent")] == ["connectionError"]


def test_a_connection_granted_to_an_operation_that_was_just_cancelled_goes_back() -> None:
    async def scenario(stage: Stage) -> None:
        await ping(stage)
        server = stage.client.topology.server(stage.primary.address)
        assert server is not None
        held = await server.pool.check_out()
        before, after = (asyncio.ensure_future(server.pool.check_out()) for _ in range(2))
        await pause(stage, 0.0)
        before.cancel()
        server.pool.check_in(held)
        after.cancel()
        results = await asyncio.gather(before, after, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 2
        assert server.pool.state.available == 1
        assert "available=1" in repr(server.pool)

    play(scenario, "maxPoolSize=1")


def test_what_goes_back_at_once_is_told_after_what_the_pool_did_before() -> None:
    """Who a connection is made for is cancelled when it is ready: it goes back, and to the third."""
    told: list[str] = []

    async def main(world: World) -> None:
        def hear(event: Any) -> None:
            told.append(f"{event.kind.removesuffix('Event')}#{getattr(event, 'connection_id', '')}")
            if told[-1] == "connectionReady#1":
                asking[0].cancel()

        member = replica_set([1])[0]
        await member.start(world.network)
        handshake = Handshake(world.network, world.clock, EDITION_2026_02_20, RequestIds(), Metadata(None))
        ports = PoolPorts(world.clock, handshake, hear, lambda *_: None)
        pool = Pool(member.address, PoolOptions(max_connecting=1), ports)
        pool.ready()
        asking = [asyncio.ensure_future(pool.check_out()) for _ in range(3)]
        await asyncio.gather(*asking, return_exceptions=True)
        await pool.aclose()
        await member.stop()

    run_virtual(main)
    ready = told.index("connectionReady#1")
    assert told[ready + 1 : ready + 5] == [
        "connectionCheckedOut#1",
        "connectionCreated#2",
        "connectionCheckedIn#1",
        "connectionCheckedOut#1",
    ]


def test_a_connection_that_is_lent_to_a_block_goes_back_however_that_ends() -> None:
    async def scenario(stage: Stage) -> None:
        await ping(stage)
        server = stage.client.topology.server(stage.primary.address)
        assert server is not None
        async with server.pool.connection() as first:
            assert server.pool.state.in_use == 1

        async def fail() -> None:
            async with server.pool.connection() as second:
                assert second is first
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert (server.pool.state.in_use, server.pool.state.available) == (0, 1)

    play(scenario)


def test_a_connection_of_another_pool_is_refused_though_it_has_the_same_number() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        ours, theirs = (stage.client.topology.server(member.address) for member in stage.members)
        assert ours is not None
        assert theirs is not None
        lent, foreign = await ours.pool.check_out(), await theirs.pool.check_out()
        assert lent.id == foreign.id
        with pytest.raises(PoolError, match="not of this pool"):
            ours.pool.check_in(foreign)
        assert ours.pool.state.in_use == 1
        ours.pool.check_in(lent)
        theirs.pool.check_in(foreign)

    play(scenario)


@pytest.mark.spec("CMAP-8", "CMAP-54", "CMAP-99", "CMAP-100")
def test_the_pool_is_kept_at_its_minimum_in_the_background() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        await pause(stage, 1.0)
        for member in stage.members:
            server = stage.client.topology.server(member.address)
            assert server is not None
            assert server.pool.state.available == 3

    play(scenario, "minPoolSize=3")


@pytest.mark.parametrize(
    ("options", "full_after"),
    [
        ("timeoutMS=10", 0.2),
        ("timeoutMS=90&connectTimeoutMS=0", 0.2),
        ("connectTimeoutMS=10&timeoutMS=300", 0.2),
    ],
    ids=["timeoutMS shorter than a round trip", "no limit to connecting", "timeoutMS the longer one"],
)
def test_a_pool_is_filled_however_slowly_the_server_says_hello(options: str, full_after: float) -> None:
    """Nobody waits for these connections, so timeoutMS does not shorten what connecting may take."""

    async def scenario(stage: Stage) -> None:
        stage.client.open()
        stage.primary.will("isMaster", stage.primary.hello, Late(0.1, stage.primary.hello))
        await pause(stage, full_after)
        server = stage.client.topology.server(stage.primary.address)
        assert server is not None
        assert server.pool.state.available == 1

    play(scenario, f"minPoolSize=1&{options}", members=replica_set([1]))


@pytest.mark.spec("CMAP-101")
def test_idle_connections_are_closed_in_the_background() -> None:
    async def scenario(stage: Stage) -> None:
        await ping(stage)
        await pause(stage, 6.0)
        assert [e.reason for e in stage.of_kind("connectionClosedEvent")] == ["idle"]

    play(scenario, "maxIdleTimeMS=5000")


@pytest.mark.spec("CMAP-53")
def test_a_failure_to_populate_is_told_to_discovery_before_the_connection_is_closed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.client.open()
        stage.primary.will("isMaster", stage.primary.hello, error(91, "going"))
        await pause(stage, 0.4)

    stage = play(scenario, "minPoolSize=1", members=replica_set([1]))
    kinds = [e.kind for e in stage.events if e.kind in {"poolClearedEvent", "connectionClosedEvent"}]
    assert kinds[:2] == ["poolClearedEvent", "connectionClosedEvent"]


def test_an_edition_without_overload_in_the_handshake_clears_the_pool() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        stage.primary.will("isMaster", Drop())
        with pytest.raises(NetworkError) as info:
            await ping(stage)
        assert not info.value.has_label(Label.SYSTEM_OVERLOADED)

    strict = replace(EDITION_2026_02_20, overloaded_establishment=False)
    stage = play(scenario, edition=strict)
    assert len(stage.of_kind("poolClearedEvent")) == 1


def test_a_pool_is_cleared_before_the_failed_operation_gives_its_connection_back() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", Drop())
        with pytest.raises(NetworkError):
            await ping(stage)

    kinds = play(scenario).kinds("")
    assert kinds.index("poolCleared") < kinds.index("connectionCheckedIn")


def test_closing_a_client_cuts_off_what_is_under_way_and_leaves_nothing() -> None:
    async def main(world: World) -> None:
        members = replica_set([1])
        await members[0].start(world.network)
        members[0].will("find", Silence())
        client = AsyncClient("mongodb://localhost:1", network=world.network, clock=world.clock, rng=world.rng)
        stuck = asyncio.ensure_future(client.database("db").collection("c").find_one({}))
        await world.clock.sleep_until(1.0)
        await client.aclose()
        with pytest.raises(ClientClosedError, match="interrupted because the client was closed"):
            await stuck
        assert world.clock.now() == pytest.approx(1.0, abs=0.01)
        await members[0].stop()
        await world.clock.sleep_until(1.1)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(main)


# --- connections ---


def test_a_reply_that_does_not_come_in_time_is_a_network_timeout_that_clears_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", Silence())
        with pytest.raises(NetworkTimeoutError):
            await ping(stage)
        assert stage.world.clock.now() < 1.0

    stage = play(scenario, "socketTimeoutMS=200")
    assert stage.of_kind("poolClearedEvent") == []
    assert len(stage.of_kind("commandFailedEvent")) == 1


def test_when_timeout_ms_is_over_the_error_says_so() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", Silence())
        with pytest.raises(OperationTimeoutError, match=r"timeoutMS does not suffice: .* timed out") as info:
            await ping(stage)
        assert isinstance(info.value.cause, NetworkTimeoutError)
        assert info.value.__cause__ is info.value.cause

    play(scenario, "timeoutMS=200")


def test_the_reply_to_another_request_is_an_error_of_the_network() -> None:
    async def scenario(stage: Stage) -> None:
        await ping(stage)
        server = stage.client.topology.server(stage.primary.address)
        assert server is not None
        connection = await server.pool.check_out()
        await connection.send(OpMsg.of({"ping": 1, "$db": "admin"}), 77, deadline=5.0)
        with pytest.raises(NetworkError, match="expected the reply to 78"):
            await connection.receive(78, deadline=5.0)
        assert not connection.healthy
        server.pool.check_in(connection)

    play(scenario)


@pytest.mark.slow
def test_a_command_that_fits_no_message_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(InvalidArgumentError, match="exceeds"):
            await stage.client.command("admin", {"ping": "x" * 49_000_000})
        await ping(stage)

    play(scenario)


def test_compression_is_agreed_in_the_handshake_and_used_for_commands_only() -> None:
    members = [ScriptedMongod(1, standalone_hello(compression=["zlib"]))]

    async def scenario(stage: Stage) -> None:
        await ping(stage)

    play(scenario, "compressors=zlib,snappy", members=members)
    offers = [hello["compression"] for hello in members[0].hellos if "client" in hello]
    assert ["zlib", "snappy"] in offers
    assert [] in offers
    assert members[0].compressed == ["ping", "endSessions"]


def test_behind_a_load_balancer_the_handshake_says_so_and_wants_no_monitor() -> None:
    service = bson.ObjectId("65" * 12)
    members = [ScriptedMongod(1, mongos_hello(serviceId=service))]

    async def scenario(stage: Stage) -> None:
        await ping(stage)
        stage.primary.will("ping", Drop())
        with pytest.raises(NetworkError):
            await ping(stage)

    stage = play(scenario, "loadBalanced=true", members=members)
    assert [hello.get("loadBalanced") for hello in members[0].hellos] == [True]
    assert stage.kinds("serverHeartbeat") == []
    assert stage.of_kind("poolClearedEvent")[0].service_id == service
    assert stage.of_kind("commandStartedEvent")[0].service_id == service


@pytest.mark.parametrize("hello", [mongos_hello(), standalone_hello(), member_hello([1], 1, primary=1)])
def test_behind_a_load_balancer_a_server_that_knows_of_none_is_refused(hello: dict[str, Any]) -> None:
    """Load Balancers: a hello without serviceId. No service is known whose connections could be stale."""

    async def scenario(stage: Stage) -> None:
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="but the server does not support this mode") as info:
                await stage.collection.insert_one({})
            assert info.value.labels == ()
            assert info.value.address == stage.primary.address
        pool = stage.client.topology.server(stage.primary.address)
        assert pool is not None
        assert (pool.pool.state.total, pool.pool.state.in_use) == (0, 0)
        stage.primary.hello = mongos_hello(serviceId=bson.ObjectId("65" * 12))
        await ping(stage)

    stage = play(scenario, "loadBalanced=true", members=[ScriptedMongod(1, hello)])
    assert [next(iter(command)) for command in stage.primary.received] == ["ping", "endSessions"]
    assert [event.reason for event in stage.of_kind("connectionClosedEvent")][:2] == ["error", "error"]
    assert [event.reason for event in stage.of_kind("connectionCheckOutFailedEvent")] == [
        "connectionError"
    ] * 2
    assert stage.kinds("poolCleared") == []
    assert len(stage.of_kind("serverDescriptionChangedEvent")) == 1


SHAPELESS = {
    "hosts": 5,
    "passives": [1],
    "me": 7,
    "tags": "ny",
    "maxWireVersion": "new",
    "maxBsonObjectSize": None,
    "lastWrite": [1],
    "primary": 5,
    "compression": 3,
}


@pytest.mark.parametrize("field", SHAPELESS)
def test_a_hello_that_makes_no_sense_costs_no_connection_for_good(field: str) -> None:
    """The operation hears of it, and the next one is served."""
    service = bson.ObjectId("65" * 12)

    async def scenario(stage: Stage) -> None:
        with pytest.raises(InvalidReplyError, match="makes no sense"):
            await ping(stage)
        stage.primary.hello = mongos_hello(serviceId=service)
        await ping(stage)

    members = [ScriptedMongod(1, mongos_hello(serviceId=service, **{field: SHAPELESS[field]}))]
    stage = play(scenario, "loadBalanced=true&maxPoolSize=1&compressors=zlib", members=members)
    assert stage.of_kind("connectionClosedEvent")[0].reason == "error"


@pytest.mark.parametrize("field", [name for name in SHAPELESS if name != "compression"])
def test_a_check_whose_hello_makes_no_sense_has_failed_and_checks_go_on(field: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.client.open()
        await stage.world.clock.sleep_until(0.5)
        stage.primary.will("hello", standalone_hello(**{field: SHAPELESS[field]}))
        await stage.world.clock.sleep_until(1.5)
        described = stage.client.topology.description.servers[stage.primary.address]
        assert isinstance(described.error, InvalidReplyError)
        await ping(stage)

    options = "heartbeatFrequencyMS=1000&serverMonitoringMode=poll"
    stage = play(scenario, options, members=[ScriptedMongod(1, standalone_hello())])
    assert stage.kinds("serverHeartbeat")[2:4] == ["serverHeartbeatStarted", "serverHeartbeatFailed"]


@pytest.mark.parametrize("reply", [{"ok": 1}, {"ok": 1, "conversationId": 1, "payload": 5, "done": False}])
def test_an_answer_to_authentication_that_makes_no_sense_reaches_the_operation(reply: dict[str, Any]) -> None:
    member = ScriptedMongod(1, mongos_hello(serviceId=bson.ObjectId("65" * 12)))
    member.will("saslStart", reply)

    async def main(world: World) -> None:
        async with staged(world, [member], "loadBalanced=true", credentials="user:secret@") as stage:
            with pytest.raises((AuthenticationError, InvalidReplyError)):
                await ping(stage)

    run_virtual(main)


@pytest.mark.parametrize("version", [5, {}, {"processId": 1}, {"processId": 1, "counter": "x"}])
def test_an_error_with_a_topology_version_that_makes_no_sense_is_itself(version: Any) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", error(10107, "not primary", topologyVersion=version))
        with pytest.raises(ServerError, match="not primary"):
            await ping(stage)

    play(scenario)


def test_without_a_service_nobody_authenticates_behind_a_load_balancer() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(ConfigurationError, match="load balancing mode"):
            await ping(stage)

    async def main(world: World) -> list[dict[str, Any]]:
        members = [ScriptedMongod(1, mongos_hello())]
        async with staged(world, members, "loadBalanced=true", credentials="user:secret@") as stage:
            await scenario(stage)
        return members[0].received

    assert run_virtual(main) == []


def test_metadata_is_cut_until_it_fits() -> None:
    document = client_metadata("app")
    assert document["application"] == {"name": "app"}
    assert document["driver"]["name"] == "pushbackd"
    long_os = fitted({**document, "os": {"type": "Linux", "name": "x" * 600}})
    assert long_os["os"] == {"type": "Linux"}
    long_platform = fitted({**document, "platform": "é" * 600})
    assert len(bson.encode(long_platform)) <= MAX_METADATA_SIZE
    assert long_platform["platform"].startswith("éé")
    with pytest.raises(ConfigurationError, match="more than 128 bytes"):
        client_metadata("x" * 129)


# --- monitors ---


def streaming_set(count: int = 1) -> list[ScriptedMongod]:
    return [ScriptedMongod(1, member_hello([1], 1, primary=1, topologyVersion=topology_version(count)))]


def test_the_first_check_is_the_handshake_and_later_ones_speak_hello() -> None:
    async def scenario(stage: Stage) -> None:
        stage.client.open()
        await pause(stage, 25.0)

    hellos = play(scenario, members=replica_set([1])).primary.hellos
    assert next(iter(hellos[0])) == "isMaster"
    assert [next(iter(hello)) for hello in hellos[1:]] == ["hello", "hello"]


def test_monitors_wait_half_a_second_between_checks_however_many_are_requested() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(ServerSelectionError):
            await ping(stage)

    lonely = ScriptedMongod(1, member_hello([1], 1, primary=None))
    stage = play(
        scenario, "serverSelectionTimeoutMS=2200&replicaSet=rs0&readPreference=primary", members=[lonely]
    )
    assert 4 <= len(stage.of_kind("serverHeartbeatStartedEvent")) <= 6
    assert stage.ended == pytest.approx(2.2, abs=0.01)


def test_a_lost_server_is_checked_again_at_once_and_its_pool_cleared() -> None:
    async def scenario(stage: Stage) -> None:
        await ping(stage)
        stage.primary.will("hello", Drop())
        await pause(stage, 10.2)

    stage = play(scenario, members=replica_set([1]))
    assert len(stage.of_kind("poolClearedEvent")) == 1
    assert stage.kinds("serverHeartbeat")[-4:] == [
        "serverHeartbeatStarted",
        "serverHeartbeatFailed",
        "serverHeartbeatStarted",
        "serverHeartbeatSucceeded",
    ]


@pytest.mark.spec("CMAP-85", "CMAP-89", "CMAP-90", "CMAP-149")
def test_a_check_that_times_out_interrupts_what_is_in_use() -> None:
    async def scenario(stage: Stage) -> None:
        await ping(stage)
        stage.primary.will("find", Silence(), Silence())
        stage.primary.will("hello", Silence())
        with pytest.raises(PoolClearedError) as info:
            await stage.collection.find_one({})
        assert str(info.value) == "Connection to localhost:1 interrupted due to server monitor timeout"

    stage = play(scenario, "connectTimeoutMS=500&retryReads=false", members=replica_set([1]))
    cleared = stage.of_kind("poolClearedEvent")[0]
    assert cleared.interrupt_in_use_connections
    after = stage.kinds("")[stage.kinds("").index("poolCleared") :]
    assert after.index("connectionCheckedIn") < after.index("connectionClosed")


def test_a_network_error_of_an_operation_cancels_the_check_and_finds_the_server_again() -> None:
    async def scenario(stage: Stage) -> None:
        await ping(stage)
        stage.primary.will("hello", Silence())
        await pause(stage, 0.5)
        stage.primary.will("insert", Drop())
        await stage.collection.insert_one({"_id": 1})
        assert stage.world.clock.now() < 5.0

    stage = play(scenario, members=streaming_set())
    assert len(stage.primary.commands("insert")) == 2


def test_streaming_asks_with_the_version_that_is_known() -> None:
    async def scenario(stage: Stage) -> None:
        await ping(stage)
        await pause(stage, 0.1)

    members = streaming_set(3)
    members[0].will("hello", Silence())
    play(scenario, members=members)
    asked = next(hello for hello in members[0].hellos if "maxAwaitTimeMS" in hello)
    assert asked["topologyVersion"]["counter"] == Int64(3)
    assert asked["maxAwaitTimeMS"] == 10_000


def test_in_poll_mode_nothing_is_streamed() -> None:
    async def scenario(stage: Stage) -> None:
        await ping(stage)
        await pause(stage, 11.0)

    stage = play(scenario, "serverMonitoringMode=poll", members=streaming_set())
    assert not any("maxAwaitTimeMS" in hello for hello in stage.primary.hellos)
    assert not any(event.awaited for event in stage.of_kind("serverHeartbeatStartedEvent"))


def test_a_hello_that_is_an_error_makes_the_server_unknown() -> None:
    async def scenario(stage: Stage) -> None:
        await ping(stage)
        stage.primary.will("hello", error(91, "going"))
        await pause(stage, 10.1)
        description = stage.client.topology.description.servers[stage.primary.address]
        assert description.type.value == "Unknown"

    play(scenario, members=replica_set([1]))


def test_a_server_of_another_age_is_refused_with_the_reason() -> None:
    async def scenario(stage: Stage) -> None:
        with pytest.raises(ServerSelectionError, match="requires at least 6"):
            await ping(stage)

    play(scenario, members=[ScriptedMongod(1, standalone_hello(maxWireVersion=5))])


def test_a_member_that_left_is_closed() -> None:
    async def scenario(stage: Stage) -> None:
        await ping(stage)
        stage.primary.hello = member_hello([1], 1, primary=1, setVersion=2)
        await pause(stage, 11.0)
        assert list(stage.client.topology.description.servers) == [stage.primary.address]
        assert stage.client.topology.server(stage.members[1].address) is None

    stage = play(scenario)
    assert len(stage.of_kind("serverClosedEvent")) == 2
    assert len(stage.of_kind("poolClosedEvent")) == 2


def leaves(stage: Stage) -> ScriptedMongod:
    """Let the second member leave the set, and return it."""
    stage.primary.hello = member_hello([1], 1, primary=1, setVersion=2)
    return stage.members[1]


@pytest.mark.spec("CMAP-43")
def test_an_operation_on_a_member_that_leaves_ends_as_it_would() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        leaves(stage).will("find", Late(15.0, NO_DOCUMENTS))
        assert await stage.collection.find_one({}) is None
        assert stage.client.topology.server(stage.members[1].address) is None

    stage = play(scenario, "readPreference=secondary")
    address = stage.members[1].address
    told = [event for event in stage.events if getattr(event, "address", None) == address]
    kinds = [event.kind for event in told if event.kind.startswith(("pool", "connection"))]
    assert kinds[-3:] == ["poolClosedEvent", "connectionCheckedInEvent", "connectionClosedEvent"]
    reasons = [e.reason for e in stage.of_kind("connectionClosedEvent") if e.address == address]
    assert reasons == ["poolClosed"]


def test_closing_a_client_cuts_off_what_runs_on_members_that_left_long_ago() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        leaves(stage).will("find", Silence())
        stuck = asyncio.ensure_future(stage.collection.find_one({}))
        await pause(stage, 15.0)
        await stage.client.aclose()
        with pytest.raises(ClientClosedError):
            await stuck

    stage = play(scenario, "readPreference=secondary")
    assert stage.ended == pytest.approx(15.1, abs=0.01)


def test_an_option_that_is_ignored_is_warned_of() -> None:
    with pytest.warns(OptionWarning, match="option nonsense is ignored"):
        AsyncClient("mongodb://a/?nonsense=1", clock=SystemClock(), rng=SeededRng(0))


# --- against the fake deployment ---


async def everyday(clock: Clock, network: Network, rng: Rng) -> list[DriverEvent]:
    """Use a replica set of three for a while, with a connection that is lost."""
    events: list[DriverEvent] = []
    async with (
        fakeserver.start(
            ClusterSpec.replica_set(3), network=network, clock=clock, rng=rng.spawn("server")
        ) as cluster,
        AsyncClient(
            cluster.uri, network=network, clock=clock, rng=rng.spawn("client"), listeners=[events.append]
        ) as client,
    ):
        collection = client.database("db").collection("things")
        await collection.insert_many([{"_id": n} for n in range(250)])
        fail = {"failCommands": ["insert", "getMore"], "closeConnection": True}
        await client.command(
            "admin", {"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": fail}
        )
        await collection.insert_one({"_id": 1000})
        assert len(await (await collection.find({}, batchSize=100)).to_list()) == 251
        await asyncio.gather(*(collection.count_documents({}) for _ in range(8)))
    return events


@pytest.mark.slow
def test_the_driver_and_the_fake_deployment_get_along_in_real_time() -> None:
    async def scenario() -> None:
        await everyday(SystemClock(), TcpNetwork(), SeededRng(0))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_the_same_seed_gives_the_same_events_in_virtual_time() -> None:
    async def main(world: World) -> list[DriverEvent]:
        return await everyday(world.clock, world.network, world.rng)

    first, second = (run_virtual(main, seed=5) for _ in range(2))
    assert [str(event) for event in first] == [str(event) for event in second]
    awaited = [getattr(event, "awaited", False) for event in first]
    assert any(awaited)

"""Rules of Connection Monitoring and Pooling that no other test holds, each with its id."""

from __future__ import annotations

import asyncio
import inspect
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from bson import ObjectId
from driven_client import Stage, discovered, play
from scripted_mongod import Drop, Silence

import driver
from driver import events
from driver.cmap.member import PoolMode
from driver.cmap.pool import Lease
from driver.cmap.state import Close, PoolOptions, PoolState, Publish, Refuse
from driver.errors import (
    NetworkError,
    PoolClearedError,
    PoolClosedError,
    PoolError,
    ServerError,
    WaitQueueTimeoutError,
)
from driver.options import ClientOptions
from driver.policy.classification import deserves_write_label, is_retryable_read
from driver.sdam.description import ServerDescription
from driver.sdam.error_handling import NOTHING, reaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from driver.cmap.pool import Pool
    from driver.cmap.state import Effect


def pool_of(stage: Stage, member: int = 0) -> Pool:
    server = stage.client.topology.server(stage.members[member].address)
    assert server is not None
    return server.pool


async def ping(stage: Stage) -> None:
    await stage.client.command("admin", {"ping": 1})


async def pause(stage: Stage, seconds: float) -> None:
    await stage.world.clock.sleep_until(stage.world.clock.now() + seconds)


def ready(options: PoolOptions | None = None) -> PoolState:
    state = PoolState("a:1", options or PoolOptions())
    state.ready()
    return state


def lend(state: PoolState, waiter: int) -> None:
    """Establish a new connection for a waiter; its number is the waiter's."""
    state.check_out(waiter, 0.0)
    state.established(waiter, 0.0)


def kinds(effects: Iterable[Effect]) -> list[str]:
    return [effect.event.kind for effect in effects if isinstance(effect, Publish)]


# --- options ---


@pytest.mark.spec("CMAP-2", "CMAP-6", "CMAP-12", "CMAP-14", "CMAP-15", "CMAP-16")
def test_all_pools_of_a_client_have_the_options_of_its_connection_string() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        expected = PoolOptions(20, 3, 4, max_idle=5.0, wait_queue_timeout=6.0)
        assert [pool_of(stage, member).state.options for member in (0, 1)] == [expected] * 2

    play(scenario, "maxPoolSize=20&minPoolSize=3&maxConnecting=4&maxIdleTimeMS=5000&waitQueueTimeoutMS=6000")


@pytest.mark.spec("CMAP-7", "CMAP-9", "CMAP-10", "CMAP-11", "CMAP-13")
@pytest.mark.parametrize(
    ("name", "smallest"),
    [
        ("maxPoolSize", 0),
        ("minPoolSize", 0),
        ("maxIdleTimeMS", 0),
        ("maxConnecting", 1),
        ("waitQueueTimeoutMS", 0),
    ],
)
def test_pool_options_have_a_smallest_value_and_are_whole_numbers(name: str, smallest: int) -> None:
    assert ClientOptions.of_uri(f"mongodb://a/?{name}={smallest}")[1] == ()
    for value in (smallest - 1, "many", 1.5):
        options, (warning,) = ClientOptions.of_uri(f"mongodb://a/?{name}={value}")
        assert warning.startswith(f"option {name} is ignored")
        assert options == ClientOptions.of_uri("mongodb://a/")[0]


@pytest.mark.spec("CMAP-17")
@pytest.mark.parametrize("name", ["waitQueueSize", "waitQueueMultiple"])
def test_deprecated_pool_options_are_unknown(name: str) -> None:
    _, (warning,) = ClientOptions.of_uri(f"mongodb://a/?{name}=5")
    assert warning == f"option {name} is ignored: this driver knows no such option"


@pytest.mark.spec("CMAP-4")
def test_pools_are_no_part_of_what_users_import() -> None:
    assert not [name for name in driver.__all__ if "Pool" in name or "Connection" in name]


# --- connections ---


@pytest.mark.spec("CMAP-18", "CMAP-19", "CMAP-21", "CMAP-32", "CMAP-75")
def test_a_connection_is_of_one_address_and_goes_back_to_the_pool_it_came_from_only() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        pools = [pool_of(stage, member) for member in (0, 1)]
        connections = [await pool.check_out() for pool in pools]
        assert [connection.id for connection in connections] == [1, 1]
        assert [c.address for c in connections] == [m.address for m in stage.members]
        with pytest.raises(PoolError, match="localhost:2: the connection is not of this pool"):
            pools[0].check_in(connections[1])
        for pool, connection in zip(pools, connections, strict=True):
            pool.check_in(connection)

    play(scenario)


@pytest.mark.spec("CMAP-20")
def test_a_closed_connection_sends_nothing_and_is_never_lent_again() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        pool = pool_of(stage)
        connection = await pool.check_out()
        await connection.aclose()
        assert not connection.healthy
        pool.check_in(connection)
        another = await pool.check_out()
        assert another.id == 2
        pool.check_in(another)

    play(scenario)


@pytest.mark.spec("CMAP-22", "CMAP-23")
def test_a_connection_carries_no_second_request_before_the_first_reply() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", Silence())
        first = asyncio.ensure_future(ping(stage))
        second = asyncio.ensure_future(ping(stage))
        await pause(stage, 5.0)
        assert len(stage.primary.commands("ping")) == 1
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert len(stage.primary.commands("ping")) == 2
        assert {event.connection_id for event in stage.of_kind("connectionCreatedEvent")} == {1, 2}

    play(scenario, "maxPoolSize=1")


@pytest.mark.spec("CMAP-26", "CMAP-68")
def test_nobody_gets_a_connection_whose_handshake_is_not_answered() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        stage.primary.will("isMaster", Silence())
        asked = asyncio.ensure_future(pool_of(stage).check_out())
        await pause(stage, 5.0)
        assert not asked.done()
        assert pool_of(stage).state.pending == 1
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)

    play(scenario, "heartbeatFrequencyMS=100000")


@pytest.mark.spec("CMAP-47", "CMAP-50", "CMAP-70")
def test_a_closed_connection_stops_counting_before_its_socket_is_closed() -> None:
    state = ready()
    lend(state, 1)
    assert (state.total, state.available) == (1, 0)
    state.check_in(1, 0.0)
    assert (state.total, state.available) == (1, 1)
    state.generations.advance()
    effects = state.tick(0.0)
    assert (state.total, state.available) == (0, 0)
    assert [type(effect) for effect in effects] == [Publish, Close]


@pytest.mark.spec("CMAP-48")
def test_nobody_waits_for_the_teardown_of_a_socket() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        pool, torn = pool_of(stage), asyncio.Event()
        connection = await pool.check_out()
        connection.healthy = False
        close = connection.aclose

        async def slowly(*, abort: bool = False) -> None:
            await torn.wait()
            await close(abort=abort)

        connection.aclose = slowly  # type: ignore[method-assign]
        pool.check_in(connection)
        await ping(stage)
        torn.set()

    play(scenario)


# --- checking out ---


@pytest.mark.spec("CMAP-58")
def test_waiting_for_a_connection_ends_with_the_time_of_the_operation() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        pool = pool_of(stage)
        held = await pool.check_out()
        began = stage.world.clock.now()
        with pytest.raises(WaitQueueTimeoutError):
            await pool.check_out(deadline=began + 0.3)
        assert stage.world.clock.now() == pytest.approx(began + 0.3)
        pool.check_in(held)

    play(scenario, "maxPoolSize=1")


@pytest.mark.spec("CMAP-69", "CMAP-72")
def test_establishing_for_one_keeps_nobody_else_from_a_connection() -> None:
    state = ready()
    lend(state, 1)
    state.check_out(2, 0.0)
    state.check_in(1, 0.0)
    state.check_out(3, 0.0)
    assert (state.pending, state.in_use) == (1, 1)
    state.check_out(4, 0.0)
    state.established(3, 0.0)
    assert (state.pending, state.in_use) == (1, 2)


@pytest.mark.spec("CMAP-51")
def test_an_operation_does_not_wait_for_the_population_of_the_pool() -> None:
    async def scenario(stage: Stage) -> None:
        stage.client.open()
        stage.primary.will("isMaster", stage.primary.hello, Silence())
        await pause(stage, 0.1)
        assert pool_of(stage).state.pending == 1
        await ping(stage)
        assert stage.world.clock.now() < 0.2

    play(scenario, "minPoolSize=1&heartbeatFrequencyMS=100000")


@pytest.mark.spec("CMAP-46")
def test_pool_ready_is_published_before_the_background_creates_a_connection() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)

    of_primary = [
        event.kind
        for event in play(scenario, "minPoolSize=1").events
        if isinstance(event, events.PoolEvent) and event.address == "localhost:1"
    ]
    assert of_primary[:3] == ["poolCreatedEvent", "poolReadyEvent", "connectionCreatedEvent"]


# --- clearing ---


@pytest.mark.spec("CMAP-79", "CMAP-83", "CMAP-84")
def test_when_a_clear_is_told_the_pool_is_paused_already_and_everybody_refused_at_once() -> None:
    state = ready(PoolOptions(max_size=1))
    lend(state, 1)
    state.check_out(2, 0.0, deadline=inf)
    effects = state.clear(0.0)
    assert (state.mode, state.generations.current, state.waiting) == (PoolMode.PAUSED, 1, ())
    assert kinds(effects) == ["poolClearedEvent", "connectionCheckOutFailedEvent"]
    assert isinstance(effects[-1], Refuse)


@pytest.mark.spec("CMAP-67", "CMAP-82")
@pytest.mark.parametrize("error", [PoolClearedError("a:1"), PoolClearedError.interrupted("a:1")])
def test_the_error_of_a_cleared_pool_is_retryable_and_says_nothing_of_the_server(
    error: PoolClearedError,
) -> None:
    server = ServerDescription("a:1")
    assert is_retryable_read(error)
    assert deserves_write_label(error, server)
    assert reaction(error, server) == NOTHING


@pytest.mark.parametrize(("wire_version", "clears"), [(0, False), (7, True), (8, False)])
def test_a_primary_that_steps_down_loses_its_pool_only_if_it_is_known_to_be_older_than_4_2(
    wire_version: int,
    clears: bool,  # noqa: FBT001 - a parameter of pytest
) -> None:
    error = ServerError.of_reply({"ok": 0, "code": 10107}, "a:1")
    assert reaction(error, ServerDescription("a:1", max_wire_version=wire_version)).clear_pool is clears


@pytest.mark.spec("CMAP-88")
def test_an_interrupting_clear_reaches_back_to_every_older_generation_and_no_further() -> None:
    state = ready()
    lend(state, 1)
    state.clear(0.0)
    state.ready()
    lend(state, 2)
    interrupted = state.clear(0.0, interrupt_in_use=True)
    assert [getattr(effect, "connection_id", None) for effect in interrupted[1:]] == [1, 2]
    state.ready()
    lend(state, 3)
    assert state.members()[-1].generation == state.generations.current == 2


@pytest.mark.spec("CMAP-86")
def test_the_pool_serves_others_while_it_interrupts() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", Silence())
        stuck = asyncio.ensure_future(stage.collection.find_one({}))
        await pause(stage, 0.1)
        pool = pool_of(stage)
        pool.clear(interrupt_in_use=True)
        pool.ready()
        connection = await pool.check_out()
        pool.check_in(connection)
        with pytest.raises(PoolClearedError):
            await stuck

    play(scenario, "retryReads=false")


@pytest.mark.spec("CMAP-87", "CMAP-100", "CMAP-102")
def test_the_background_runs_at_once_after_a_clear() -> None:
    async def scenario(stage: Stage) -> None:
        await ping(stage)
        began = stage.world.clock.now()
        pool_of(stage).clear()
        await pause(stage, 0.0)
        assert [event.reason for event in stage.of_kind("connectionClosedEvent")] == ["stale"]
        assert stage.world.clock.now() == began

    play(scenario)


@pytest.mark.spec("CMAP-103", "CMAP-104")
def test_a_run_that_may_establish_no_more_still_closes_what_has_perished() -> None:
    state = ready(PoolOptions(min_size=4, max_connecting=1, max_idle=1.0))
    lend(state, 1)
    state.check_in(1, 0.0)
    assert kinds(state.tick(0.5)) == ["connectionCreatedEvent"]
    assert kinds(state.tick(2.0)) == ["connectionClosedEvent"]


@pytest.mark.spec("CMAP-92", "CMAP-96")
def test_the_clear_of_a_service_is_told_when_its_generation_is_new() -> None:
    state = ready(PoolOptions(load_balanced=True))
    service = ObjectId()
    state.check_out(1, 0.0)
    state.established(1, 0.0, service_id=service)
    assert state.generations.services[service].connections == 1
    effects = state.clear(0.0, service_id=service)
    assert state.generations.of(service) == 1
    assert state.generations.current == 0
    assert kinds(effects) == ["poolClearedEvent"]
    state.check_out(2, 0.0)
    state.established(2, 0.0, service_id=service)
    assert [member.generation for member in state.members()] == [0, 1]


# --- scope, events, errors ---


@pytest.mark.spec("CMAP-105", "CMAP-106")
def test_a_connection_goes_back_at_the_end_of_its_block_whatever_happens_in_it() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        pool = pool_of(stage)
        lease = Lease(pool, await pool.check_out())
        failure = NetworkError("lost")
        with pytest.raises(NetworkError), lease:
            raise failure
        assert lease.error is failure
        assert pool.state.in_use == 0
        stage.primary.will("ping", Drop())
        with pytest.raises(NetworkError):
            await ping(stage)
        assert pool.state.in_use == 0

    play(scenario)


@pytest.mark.spec("CMAP-5", "CMAP-34", "CMAP-107", "CMAP-109")
def test_listeners_are_plain_callables_that_get_frozen_events() -> None:
    heard: list[Any] = []

    async def scenario(stage: Stage) -> None:
        async with driver.AsyncClient(
            f"mongodb://{stage.primary.address}/?directConnection=true",
            network=stage.world.network,
            clock=stage.world.clock,
            rng=stage.world.rng.spawn("another"),
            listeners=[heard.append],
        ) as client:
            await client.command("admin", {"ping": 1})

    play(scenario)
    pool_events = [event for event in heard if isinstance(event, events.PoolEvent)]
    assert [event.kind for event in pool_events][:2] == ["poolCreatedEvent", "poolReadyEvent"]
    assert all(inspect.signature(type(event)).parameters for event in pool_events)
    first: Any = pool_events[0]
    with pytest.raises(AttributeError):
        first.address = "b:2"


@pytest.mark.spec("CMAP-146", "CMAP-147")
@pytest.mark.parametrize(
    ("kind", "causes", "text"),
    [
        (PoolClosedError, [], "Attempted to check out a Connection from closed connection pool"),
        (
            PoolClearedError,
            [NetworkError("boom")],
            "Connection pool for a:1 was cleared because another operation failed with: boom",
        ),
        (WaitQueueTimeoutError, [], "Timed out while checking out a Connection from connection pool"),
    ],
)
def test_the_errors_of_a_pool_have_its_address_and_the_specified_text(
    kind: type[PoolError], causes: list[Any], text: str
) -> None:
    error = kind("a:1", *causes)
    assert (str(error), error.address) == (text, "a:1")
    assert isinstance(error, PoolError)


@pytest.mark.spec("CMAP-150")
def test_monitors_take_no_connection_from_the_pool() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        await pause(stage, 25.0)
        assert len(stage.of_kind("serverHeartbeatSucceededEvent")) > 4

    stage = play(scenario)
    assert [event for event in stage.events if isinstance(event, events.ConnectionEvent)] == []

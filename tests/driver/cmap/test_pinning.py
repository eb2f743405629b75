"""What stays with one server or one connection: transactions and cursors on sharded clusters and behind load
balancers, against the fake deployment in virtual time."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

import fakeserver
from driver import AsyncClient
from driver.cmap.member import ConnectionUse
from driver.cmap.pool import Lease
from driver.editions import EDITION_2026_07_08
from driver.errors import DriverError, NetworkError, ServerError, ServerSelectionError, WaitQueueTimeoutError
from driver.transaction import Transaction
from fakeserver import ClusterSpec
from fakeserver.access import UserSpec
from harness.sim import run_virtual
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from driver.cmap.pool import Pool
    from driver.collection import Collection
    from driver.session import ClientSession
    from fakeserver.deployment.cluster import Cluster, Node
    from harness.world.virtual import World

SHARDED = ClusterSpec.sharded(2, members=1)
BALANCED = ClusterSpec.load_balanced(2, members=1)
OVERLOADED: dict[str, Any] = {"errorCode": 462, "errorLabels": [Label.SYSTEM_OVERLOADED, Label.RETRYABLE]}


@dataclass
class Scene:
    """A deployment, a client of it, and what the client published."""

    cluster: Cluster
    client: AsyncClient
    events: list[Any] = field(default_factory=list)

    @property
    def collection(self) -> Collection:
        return self.client.database("db").collection("c")

    @property
    def pool(self) -> Pool:
        (address,) = self.client.topology.description.servers
        server = self.client.topology.server(address)
        assert server is not None
        return server.pool

    def fail(self, *commands: str, times: int = 1, nodes: tuple[Node, ...] = (), **how: Any) -> None:
        """Have commands fail on every mongos, or on those given."""
        for node in nodes or self.cluster.routers:
            data = {"failCommands": list(commands), **how}
            node.configure_fail_point("failCommand", mode={"times": times}, data=data)

    def pinned(self, session: ClientSession) -> Node:
        """Return the mongos that a session is pinned to."""
        return next(node for node in self.cluster.routers if node.address == session.transaction.pinned)

    def named(self, name: str) -> list[Any]:
        """Return what was sent of a command, as it began."""
        started = [event for event in self.events if event.kind == "commandStartedEvent"]
        return [event for event in started if event.command_name == name]

    def kinds(self, *kinds: str) -> list[str]:
        return [event.kind for event in self.events if event.kind in kinds]


def play(scenario: Callable[[Scene], Coroutine[Any, Any, None]], spec: ClusterSpec, **options: Any) -> None:
    """Run a scenario against a deployment."""

    async def main(world: World) -> None:
        cluster = await fakeserver.start(spec, network=world.network, clock=world.clock, rng=world.rng)
        events: list[Any] = []
        client = AsyncClient(
            cluster.uri,
            options=options,
            network=world.network,
            clock=world.clock,
            rng=world.rng.spawn("client"),
            edition=EDITION_2026_07_08,
            listeners=[events.append],
        )
        try:
            async with client:
                scene = Scene(cluster, client, events)
                await scene.collection.insert_many([{"_id": number} for number in range(3)])
                events.clear()
                await scenario(scene)
        finally:
            await cluster.stop()

    run_virtual(main)


def test_a_transaction_goes_to_one_mongos_and_the_next_one_to_any() -> None:
    async def scenario(scene: Scene) -> None:
        visited = set()
        async with scene.client.start_session() as session:
            for number in range(12):
                scene.events.clear()
                session.start_transaction()
                await scene.collection.insert_one({"_id": 10 + number}, session=session)
                await scene.collection.find_one({}, session=session)
                await session.commit_transaction()
                (address,) = {event.connection_id for event in scene.events if hasattr(event, "command")}
                visited.add(address)
        assert len(visited) == 2

    play(scenario, SHARDED)


def test_a_commit_that_was_lost_asks_another_mongos_and_the_transaction_runs_again() -> None:
    async def scenario(scene: Scene) -> None:
        async def callback(session: ClientSession) -> None:
            await scene.collection.insert_one({"_id": 10}, session=session)

        async with scene.client.start_session() as session:
            scene.fail("commitTransaction", closeConnection=True)
            await session.with_transaction(callback)
        assert await scene.collection.count_documents({"_id": 10}) == 1
        commits = [event.command for event in scene.named("commitTransaction")]
        assert len(commits) > 2
        assert {commit["recoveryToken"]["recoveryShardId"] for commit in commits} == {"shard01"}

    play(scenario, SHARDED)


def test_a_mongos_that_is_gone_takes_its_transactions_with_it() -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.client.start_session() as session:
            session.start_transaction()
            await scene.collection.insert_one({"_id": 10}, session=session)
            await scene.pinned(session).stop()
            with pytest.raises((NetworkError, ServerSelectionError)) as info:
                await scene.collection.insert_one({"_id": 11}, session=session)
            assert info.value.has_label(Label.TRANSIENT_TRANSACTION)
            assert session.transaction.pinned is None
            await session.abort_transaction()
        assert await scene.collection.count_documents({}) == 3

    play(scenario, SHARDED, serverSelectionTimeoutMS=500)


def test_a_mongos_too_busy_for_the_first_command_is_not_pinned_to() -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.client.start_session() as session:
            for number in range(6):
                scene.fail("insert", times=100, nodes=scene.cluster.routers[:1], **OVERLOADED)
                session.start_transaction()
                await scene.collection.insert_one({"_id": 10 + number}, session=session)
                assert scene.pinned(session) is scene.cluster.routers[1]
                await session.commit_transaction()

    play(scenario, SHARDED)


def test_a_later_command_waits_for_the_pinned_mongos_to_be_less_busy() -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.client.start_session() as session:
            session.start_transaction()
            await scene.collection.insert_one({"_id": 10}, session=session)
            pinned = scene.pinned(session)
            scene.fail("insert", times=2, nodes=(pinned,), **OVERLOADED)
            await scene.collection.insert_one({"_id": 11}, session=session)
            scene.fail("commitTransaction", times=2, nodes=(pinned,), **OVERLOADED)
            await session.commit_transaction()
            assert scene.pinned(session) is pinned
        assert await scene.collection.count_documents({}) == 5

    play(scenario, SHARDED)


def test_on_a_replica_set_nothing_is_pinned() -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.client.start_session() as session:
            session.start_transaction()
            await scene.collection.insert_one({"_id": 10}, session=session)
            assert session.transaction.pinned is None
            await session.commit_transaction()
        (commit,) = scene.named("commitTransaction")
        assert "recoveryToken" not in commit.command

    play(scenario, ClusterSpec.replica_set(1))


# --- behind a load balancer ---


async def _open_cursor(scene: Scene, **how: Any) -> Any:
    return await scene.collection.find({}, batchSize=2, **how)


def test_a_cursor_holds_its_connection_until_it_is_closed_or_read_to_its_end() -> None:
    async def scenario(scene: Scene) -> None:
        read, closed = await _open_cursor(scene), await _open_cursor(scene)
        assert scene.pool.state.in_use == 2
        assert len(await read.to_list()) == 3
        assert scene.pool.state.in_use == 1
        await closed.aclose()
        await closed.aclose()
        assert scene.pool.state.in_use == 0
        assert len(scene.named("getMore")) == 1

    play(scenario, BALANCED)


def test_an_overloaded_get_more_is_sent_again_on_the_same_connection() -> None:
    async def scenario(scene: Scene) -> None:
        cursor = await _open_cursor(scene)
        scene.fail("getMore", times=2, **OVERLOADED)
        assert len(await cursor.to_list()) == 3
        sent = [*scene.named("find"), *scene.named("getMore")]
        assert len(sent) == 4
        assert len({event.driver_connection_id for event in sent}) == 1

    play(scenario, BALANCED)


@pytest.mark.parametrize(
    ("fault", "killed"), [({"errorCode": 8}, 1), ({"closeConnection": True}, 0)], ids=["error", "lost"]
)
def test_a_cursor_that_failed_holds_its_connection_until_it_is_closed(
    fault: dict[str, Any], killed: int
) -> None:
    async def scenario(scene: Scene) -> None:
        cursor = await _open_cursor(scene)
        scene.fail("getMore", **fault)
        await cursor.try_next()
        await cursor.try_next()
        with pytest.raises(DriverError):
            await cursor.try_next()
        assert scene.pool.state.in_use == 1
        await cursor.aclose()
        assert scene.pool.state.in_use == 0
        assert len(scene.named("killCursors")) == killed

    play(scenario, BALANCED)


def test_a_change_stream_gives_its_old_connection_back_when_it_resumes() -> None:
    async def scenario(scene: Scene) -> None:
        async with await scene.collection.watch(maxAwaitTimeMS=10) as stream:
            labels = [Label.RESUMABLE_CHANGE_STREAM]
            scene.fail("getMore", errorCode=6, errorLabels=labels)
            assert await stream.try_next() is None
            assert len(scene.named("aggregate")) == 2
            assert scene.pool.state.in_use == 1
        assert scene.pool.state.in_use == 0

    play(scenario, BALANCED)


def test_a_command_of_the_application_leaves_its_cursor_to_the_application() -> None:
    async def scenario(scene: Scene) -> None:
        reply = await scene.client.command("db", {"find": "c", "batchSize": 1})
        assert reply["cursor"]["id"]
        assert scene.pool.state.in_use == 0

    play(scenario, BALANCED)


def test_the_end_of_a_session_gives_the_connection_of_its_transaction_back() -> None:
    async def scenario(scene: Scene) -> None:
        session = scene.client.start_session()
        session.start_transaction()
        await scene.collection.insert_one({"_id": 10}, session=session)
        await session.commit_transaction()
        assert scene.pool.state.in_use == 1
        session.end()
        assert scene.pool.state.in_use == 0

    play(scenario, BALANCED)


def test_a_cursor_outlives_the_transaction_on_their_connection() -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.client.start_session() as session:
            session.start_transaction()
            cursor = await _open_cursor(scene, session=session)
            assert scene.pool.state.in_use == 1
            await session.abort_transaction()
            assert scene.pool.state.in_use == 1
            await cursor.aclose()
            assert scene.pool.state.in_use == 0

    play(scenario, BALANCED)


def test_a_pinned_connection_that_was_lost_ends_the_transaction() -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.client.start_session() as session:
            session.start_transaction()
            await scene.collection.insert_one({"_id": 10}, session=session)
            scene.fail("find", closeConnection=True)
            with pytest.raises(NetworkError) as info:
                await scene.collection.find_one({}, session=session)
            assert info.value.has_label(Label.TRANSIENT_TRANSACTION)
            assert scene.pool.state.in_use == 0
            closed = [event for event in scene.events if event.kind == "connectionClosedEvent"]
            assert [event.reason for event in closed] == ["error"]

    play(scenario, BALANCED)


def test_a_cursor_of_a_lost_connection_asks_nothing_of_it_any_more() -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.client.start_session() as session:
            session.start_transaction()
            cursor = await _open_cursor(scene, session=session)
            scene.fail("insert", closeConnection=True)
            with pytest.raises(NetworkError):
                await scene.collection.insert_one({"_id": 10}, session=session)
            assert session.transaction.pinned is None
            await cursor.try_next()
            await cursor.try_next()
            with pytest.raises(NetworkError, match="pinned connection was lost"):
                await cursor.try_next()
            assert scene.named("getMore") == []
            await cursor.aclose()
            assert scene.pool.state.in_use == 0

    play(scenario, BALANCED)


def test_an_error_of_one_service_leaves_the_connections_of_the_other() -> None:
    async def scenario(scene: Scene) -> None:
        for cursor in [await _open_cursor(scene), await _open_cursor(scene)]:
            await cursor.aclose()
        scene.fail("insert", errorCode=11600, nodes=scene.cluster.routers[:1])
        for number in range(4):
            try:
                await scene.collection.insert_one({"_id": 10 + number})
            except ServerError as error:
                assert error.code == 11600  # noqa: PT017 - which of the two mongos is asked is left open
            for cursor in [await _open_cursor(scene), await _open_cursor(scene)]:
                await cursor.aclose()
        cleared = [event for event in scene.events if event.kind == "poolClearedEvent"]
        assert [event.service_id for event in cleared] == [scene.cluster.routers[0].service_id]

    play(scenario, BALANCED, retryWrites=False)


@pytest.mark.parametrize(("code", "cleared"), [(10107, False), (13435, False), (91, True)])
def test_behind_a_load_balancer_a_change_of_state_clears_only_the_service_of_a_server_that_shuts_down(
    code: int,
    cleared: bool,  # noqa: FBT001 - a parameter of pytest
) -> None:
    async def scenario(scene: Scene) -> None:
        scene.fail("insert", errorCode=code)
        with pytest.raises(ServerError):  # both services fail once
            await scene.collection.insert_one({"_id": 10})
        assert bool(scene.kinds("poolClearedEvent")) is cleared

    play(scenario, BALANCED)


def test_a_failure_to_authenticate_clears_the_service_before_the_connection_closes() -> None:
    async def scenario(scene: Scene) -> None:
        held = [await _open_cursor(scene) for _ in range(scene.pool.state.total)]
        scene.events.clear()
        scene.fail("saslContinue", closeConnection=True)
        with pytest.raises(NetworkError):
            await scene.collection.insert_one({"_id": 10})
        kinds = ("poolClearedEvent", "connectionClosedEvent", "connectionCheckOutFailedEvent")
        assert scene.kinds(*kinds) == list(kinds)
        for cursor in held:
            await cursor.aclose()

    spec = ClusterSpec.load_balanced(2, members=1, auth=True, users=(UserSpec("bob", "secret"),))
    play(scenario, spec, retryWrites=False)


def test_a_wait_for_a_connection_that_is_too_long_says_what_holds_them() -> None:
    async def scenario(scene: Scene) -> None:
        async with scene.client.start_session() as session:
            session.start_transaction()
            await scene.collection.insert_one({"_id": 10}, session=session)
            cursor = await _open_cursor(scene)
            with pytest.raises(WaitQueueTimeoutError, match="by cursors: 1, connections in use by transac"):
                await scene.collection.insert_one({"_id": 11})
            await cursor.aclose()

    play(scenario, BALANCED, maxPoolSize=2, waitQueueTimeoutMS=50)


@pytest.mark.parametrize(("profile", "sent"), [("8.2", 1), ("4.2", 2)])
def test_behind_a_balancer_the_handshake_tells_who_labels_errors(profile: str, sent: int) -> None:
    """A server from 4.4 on labels its errors itself; for an older one the driver does, and tries again."""

    async def scenario(scene: Scene) -> None:
        scene.fail("insert", errorCode=10107, errorLabels=[])
        with suppress(ServerError):
            await scene.collection.insert_one({"_id": 10})
        assert len(scene.named("insert")) == sent

    play(scenario, replace(BALANCED, profile=profile))


# --- decisions ---


@pytest.mark.parametrize(
    ("labels", "ends", "starts", "unpins"),
    [
        ([Label.TRANSIENT_TRANSACTION], False, False, True),
        ([Label.TRANSIENT_TRANSACTION], True, False, True),
        ([Label.RETRYABLE_WRITE], True, False, True),
        ([Label.RETRYABLE_WRITE], False, False, False),
        ([Label.SYSTEM_OVERLOADED, Label.RETRYABLE], False, True, True),
        ([Label.SYSTEM_OVERLOADED, Label.RETRYABLE], False, False, False),
        ([Label.SYSTEM_OVERLOADED, Label.RETRYABLE], True, False, False),
        ([Label.UNKNOWN_TRANSACTION_COMMIT_RESULT], True, False, False),
        ([], False, True, False),
    ],
)
def test_what_unpins_a_transaction(labels: list[str], ends: bool, starts: bool, unpins: bool) -> None:  # noqa: FBT001 - a table
    error = ServerError("failed", code=1, labels=labels)
    assert Transaction().unpins(error, ends=ends, starts=starts) is unpins


def test_a_lease_ends_when_the_last_holder_lets_go() -> None:
    async def scenario(scene: Scene) -> None:
        pool = scene.pool
        lease = Lease(pool, await pool.check_out())
        lease.hold(ConnectionUse.CURSOR).hold(ConnectionUse.TRANSACTION)
        assert "by cursors: 0, connections in use by transactions: 1" in pool.state.uses()
        lease.release(ConnectionUse.OPERATION)
        lease.release(ConnectionUse.TRANSACTION)
        assert "by cursors: 1, connections in use by transactions: 0" in pool.state.uses()
        lease.release(ConnectionUse.CURSOR)
        assert pool.state.in_use == 0
        again = await pool.check_out()
        assert "connections in use by other operations: 1" in pool.state.uses()
        pool.check_in(again)

    play(scenario, BALANCED)

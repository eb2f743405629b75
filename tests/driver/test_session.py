from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson import Timestamp
from driven_client import Stage, play
from scripted_mongod import Drop, Late, ScriptedMongod, Silence, error, replica_set, standalone_hello

from driver import AsyncClient, WriteConcern
from driver.editions import EDITION_2026_07_08
from driver.errors import ClientClosedError, DriverError, InvalidArgumentError
from driver.session import ServerSession, ServerSessionPool, newer
from mongowire.codes import Label
from mongowire.system import SeededRng


class HandClock:
    """A clock that a test turns."""

    is_real = False

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def utc(self) -> float:
        return self.time

    async def sleep_until(self, when: float) -> None:
        self.time = max(self.time, when)


def pool() -> tuple[ServerSessionPool, HandClock]:
    clock = HandClock()
    return ServerSessionPool(clock, SeededRng(0)), clock


def test_the_session_used_last_is_used_first() -> None:
    sessions, _ = pool()
    first, second = sessions.acquire(30), sessions.acquire(30)
    sessions.release(first, 30)
    sessions.release(second, 30)
    assert sessions.acquire(30) is second
    assert sessions.acquire(30) is first


def test_a_session_that_expires_within_a_minute_is_not_used() -> None:
    sessions, clock = pool()
    session = sessions.acquire(30)
    sessions.release(session, 30)
    clock.time = 29 * 60
    assert sessions.acquire(30) is not session


def test_returning_a_session_drops_the_oldest_that_expire() -> None:
    sessions, clock = pool()
    old, young = sessions.acquire(30), sessions.acquire(30)
    sessions.release(old, 30)
    clock.time = young.last_use = 29 * 60
    sessions.release(young, 30)
    assert sessions.drain() == [young.lsid]


def test_a_dirty_session_is_dropped() -> None:
    sessions, _ = pool()
    session = sessions.acquire(30)
    session.dirty = True
    sessions.release(session, 30)
    assert sessions.drain() == []


def test_behind_a_load_balancer_sessions_do_not_expire() -> None:
    assert not ServerSession(SeededRng(0).randbytes(16), 0.0).expires_soon(1e9, None)  # type: ignore[arg-type]


def test_the_later_cluster_time_wins() -> None:
    early, late = ({"clusterTime": Timestamp(second, 1)} for second in (1, 2))
    assert newer(early, late) is newer(late, early) is newer(None, late) is newer(late, None) is late


def at(seconds: int) -> dict[str, Any]:
    return {
        "ok": 1.0,
        "$clusterTime": {"clusterTime": Timestamp(seconds, 1)},
        "operationTime": Timestamp(seconds, 1),
        "cursor": {"id": 0, "ns": "db.things", "firstBatch": []},
    }


def test_reads_of_a_causally_consistent_session_follow_its_last_operation() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", at(7))
        async with stage.client.start_session() as session:
            await stage.collection.find_one({}, session=session)
            await stage.collection.find_one({}, session=session)
            await stage.collection.insert_one({"_id": 1}, session=session)

    stage = play(scenario)
    first, second = stage.primary.commands("find")
    assert "readConcern" not in first
    assert second["readConcern"] == {"afterClusterTime": Timestamp(7, 1)}
    assert "readConcern" not in stage.primary.commands("insert")[0]
    newest = play(scenario, edition=EDITION_2026_07_08).primary.commands("insert")[0]
    assert newest["readConcern"] == {"afterClusterTime": Timestamp(7, 1)}


def test_a_session_without_causal_consistency_says_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", at(7))
        async with stage.client.start_session(causal_consistency=False) as session:
            for _ in range(2):
                await stage.collection.find_one({}, session=session)

    assert all("readConcern" not in command for command in play(scenario).primary.commands("find"))


def test_a_snapshot_session_reads_at_the_time_of_its_first_read() -> None:
    async def scenario(stage: Stage) -> None:
        answer = at(7)
        answer["cursor"]["atClusterTime"] = Timestamp(5, 1)
        stage.primary.will("find", answer)
        async with stage.client.start_session(snapshot=True) as session:
            for _ in range(2):
                await stage.collection.find_one({}, session=session)

    first, second = play(scenario).primary.commands("find")
    assert first["readConcern"] == {"level": "snapshot"}
    assert second["readConcern"] == {"level": "snapshot", "atClusterTime": Timestamp(5, 1)}


def test_an_operation_time_can_only_advance() -> None:
    session = AsyncClient(clock=HandClock(), rng=SeededRng(0)).start_session()
    session.advance_operation_time(Timestamp(5, 1))
    session.advance_operation_time(Timestamp(4, 1))
    session.advance_operation_time(None)
    assert session.operation_time == Timestamp(5, 1)
    with pytest.raises(InvalidArgumentError, match="is a Timestamp"):
        session.advance_operation_time(5)  # type: ignore[arg-type]


def test_implicit_sessions_are_used_again_and_ended_with_the_client() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        await stage.collection.find_one({})

    stage = play(scenario)
    ping, find, end = stage.primary.received
    assert ping["lsid"] == find["lsid"]
    assert end["endSessions"] == [ping["lsid"]]


def test_a_session_is_as_fresh_as_its_last_command() -> None:
    async def scenario(stage: Stage) -> None:
        session = stage.client.start_session()
        await stage.client.command("db", {"ping": 1}, session=session)
        before = session.server_session.last_use
        await stage.world.clock.sleep_until(stage.world.clock.now() + 25 * 60)
        await stage.client.command("db", {"ping": 1}, session=session)
        assert session.server_session.last_use >= before + 25 * 60

    play(scenario)


def test_an_implicit_session_stays_with_its_cursor_until_that_is_exhausted() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", {"ok": 1.0, "cursor": {"id": 9, "ns": "db.things", "firstBatch": [{}]}})
        stage.primary.will("getMore", {"ok": 1.0, "cursor": {"id": 0, "ns": "db.things", "nextBatch": [{}]}})
        cursor = await stage.collection.find({})
        await stage.client.command("admin", {"ping": 1})
        assert len(await cursor.to_list()) == 2
        await stage.client.command("admin", {"ping": 1})

    find, first_ping, more, second_ping, _ = play(scenario).primary.received
    assert find["lsid"] == more["lsid"]
    assert first_ping["lsid"] != find["lsid"]
    assert second_ping["lsid"] == find["lsid"]


def test_a_deployment_without_sessions_gets_none() -> None:
    hello = {name: value for name, value in standalone_hello().items() if "Session" not in name}

    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        async with stage.client.start_session() as session:
            with pytest.raises(InvalidArgumentError, match="not supported by this MongoDB deployment"):
                await stage.collection.find_one({}, session=session)

    stage = play(scenario, members=[ScriptedMongod(1, hello)])
    assert all("lsid" not in command for command in stage.primary.received)


def test_an_unacknowledged_write_refuses_an_explicit_session() -> None:
    async def scenario(stage: Stage) -> None:
        collection = stage.client.database("db").collection("things", write_concern=WriteConcern(0))
        async with stage.client.start_session() as session:
            with pytest.raises(InvalidArgumentError, match="Unacknowledged writes"):
                await collection.insert_one({}, session=session)

    play(scenario)


def test_sessions_belong_to_one_client_and_cannot_be_used_when_they_ended() -> None:
    async def scenario(stage: Stage) -> None:
        stranger = AsyncClient(clock=stage.world.clock, rng=SeededRng(1)).start_session()
        with pytest.raises(InvalidArgumentError, match="belongs to the client"):
            await stage.client.command("admin", {"ping": 1}, session=stranger)
        session = stage.client.start_session()
        session.end()
        session.end()
        with pytest.raises(ClientClosedError, match="the session has ended"):
            await stage.client.command("admin", {"ping": 1}, session=session)
        with pytest.raises(InvalidArgumentError, match="both snapshot and causal"):
            stage.client.start_session(snapshot=True, causal_consistency=True)

    play(scenario)


def test_a_closed_client_starts_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.aclose()
        await stage.client.aclose()
        with pytest.raises(ClientClosedError):
            stage.client.start_session()
        with pytest.raises(ClientClosedError):
            await stage.client.command("admin", {"ping": 1})

    play(scenario)


def test_errors_of_ending_sessions_are_nobody_s_business() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        stage.primary.will("endSessions", Drop())

    play(scenario)


async def closing(stage: Stage) -> float:
    """Return the seconds that closing the client takes."""
    began = stage.world.clock.now()
    await stage.client.aclose()
    return round(stage.world.clock.now() - began, 6)


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        ({"ok": 1.0}, 0.001),
        (error(462, "rate exceeded", Label.SYSTEM_OVERLOADED, Label.RETRYABLE), 0.001),
        (error(91, "shutting down", Label.RETRYABLE_WRITE), 0.001),
        (Drop(), 0.001),
        (Late(0.4), 0.401),
        (Late(5), 1.0),
        (Silence(), 1.0),
    ],
    ids=["ended", "overloaded", "shutting down", "lost", "late", "too late", "silent"],
)
@pytest.mark.parametrize("options", ["", "timeoutMS=20000", "retryWrites=false"])
def test_a_client_that_closes_asks_once_to_end_its_sessions_and_waits_a_second_at_most(
    answer: Any, seconds: float, options: str
) -> None:
    took = []

    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        stage.primary.will("endSessions", answer, answer, answer)
        took.append(await closing(stage))

    stage = play(scenario, options)
    assert took == [seconds]
    assert len(stage.primary.commands("endSessions")) == 1


def test_a_client_that_closes_waits_a_second_at_most_for_a_connection_too() -> None:
    """The only connection is in use."""
    took = []

    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", {"ok": 1.0}, {"ok": 1.0}, Silence())
        session = stage.client.start_session()
        await stage.client.command("admin", {"ping": 1}, session=session)
        await stage.client.command("admin", {"ping": 1})
        busy = asyncio.ensure_future(stage.client.command("admin", {"ping": 1}, session=session))
        await stage.world.clock.sleep_until(stage.world.clock.now() + 0.1)
        took.append(await closing(stage))
        with pytest.raises(DriverError):
            await busy

    play(scenario, "maxPoolSize=1", members=replica_set([1]))
    assert took == [1.0]


def test_a_client_whose_closing_is_cancelled_leaves_nothing_open() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        stage.primary.will("endSessions", Silence())
        closing_client = asyncio.ensure_future(stage.client.aclose())
        await stage.world.clock.sleep_until(stage.world.clock.now() + 0.1)
        closing_client.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing_client
        assert stage.kinds("topologyClosed") == ["topologyClosed"]

    play(scenario)


def test_explicit_and_implicit_sessions_carry_the_newest_cluster_time_of_both() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", at(7))
        await stage.collection.find_one({})
        async with stage.client.start_session() as session:
            session.advance_cluster_time({"clusterTime": Timestamp(9, 1)})
            await stage.client.command("admin", {"ping": 1}, session=session)
        await stage.client.command("admin", {"ping": 1})

    own, client = (c["$clusterTime"]["clusterTime"] for c in play(scenario).primary.commands("ping"))
    assert (own, client) == (Timestamp(9, 1), Timestamp(7, 1))

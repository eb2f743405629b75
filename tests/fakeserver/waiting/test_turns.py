"""A command that works for long gives way to others, and ends when it shall (fakeserver/waiting/turns.py)."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from bson import Int64, Timestamp
from hypothesis import given
from hypothesis import strategies as st
from talking import STANDALONE, Deployment, Talker, lsid, play, play_live

from fakeserver import ClusterSpec
from fakeserver.deployment.records.events import CommandFinished
from fakeserver.storage.port.engine import Namespace
from fakeserver.storage.store import scanning
from fakeserver.storage.store.scanning import select
from fakeserver.waiting.turns import Turns
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from fakeserver.errors import CommandError
    from fakeserver.storage.port.engine import Document

AT_ONCE = {"internalQueryExecYieldPeriodMS": 0}
"""Has every command give way at each of its yield points, in virtual time too."""
GIVING_WAY = ClusterSpec.standalone(parameters=AT_ONCE)
A_SET_GIVING_WAY = ClusterSpec.replica_set(3, parameters=AT_ONCE)
INCREMENT = {"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}
NS = Namespace("db", "c")

_CROSS = [{"$lookup": {"from": "c", "pipeline": [], "as": name}} for name in "abc"]
ENDLESS = {
    "aggregate": "c",
    "pipeline": [each for join in _CROSS for each in (join, {"$unwind": f"${join['$lookup']['as']}"})],
    "cursor": {},
    "$db": "db",
}
"""Takes minutes over 50 documents: each of 50 ** 4 combinations is one in itself."""


async def fill(deployment: Deployment, count: int = 50) -> Talker:
    """Insert documents, and return the connection."""
    talker = await deployment.connect(deployment.primary)
    documents = [{"_id": number, "n": 0} for number in range(count)]
    await talker.ok({"insert": "c", "documents": documents, "$db": "db"})
    return talker


def finished(deployment: Deployment) -> list[str]:
    """The names of the commands, in the order in which they ended."""
    records = deployment.cluster.journal.records
    return [record.event.name for record in records if isinstance(record.event, CommandFinished)]


async def at_once(*commands: Coroutine[Any, Any, Any]) -> list[Any]:
    """Send commands at one instant, and return their replies."""
    return list(await asyncio.gather(*commands))


def test_a_ping_overtakes_a_scan() -> None:
    async def scenario(deployment: Deployment) -> None:
        scanning, other = await fill(deployment), await deployment.connect()
        await at_once(scanning.ok({"count": "c", "query": {"n": 1}, "$db": "db"}), other.ok({"ping": 1}))
        assert finished(deployment)[-2:] == ["ping", "count"]

    play(scenario, GIVING_WAY)


def test_in_virtual_time_nobody_gives_way_by_default() -> None:
    async def scenario(deployment: Deployment) -> None:
        scanning, other = await fill(deployment), await deployment.connect()
        await at_once(scanning.ok({"count": "c", "query": {"n": 1}, "$db": "db"}), other.ok({"ping": 1}))
        assert finished(deployment)[-2:] == ["count", "ping"]

    play(scenario, STANDALONE)


def test_a_scan_goes_on_in_what_it_began_with() -> None:
    async def scenario(deployment: Deployment) -> None:
        scanning, writing = await fill(deployment), await deployment.connect()
        found, _ = await at_once(
            scanning.ok({"find": "c", "batchSize": 100, "$db": "db"}),
            writing.ok({"delete": "c", "deletes": [{"q": {}, "limit": 0}], "$db": "db"}),
        )
        assert len(found["cursor"]["firstBatch"]) == 50
        assert (await scanning.ok({"count": "c", "$db": "db"}))["n"] == 0

    play(scenario, GIVING_WAY)


def test_a_scan_outlives_its_collection() -> None:
    async def scenario(deployment: Deployment) -> None:
        scanning, dropping = await fill(deployment), await deployment.connect()
        found, _ = await at_once(
            scanning.ok({"find": "c", "filter": {"n": 0}, "batchSize": 100, "$db": "db"}),
            dropping.ok({"drop": "c", "$db": "db"}),
        )
        assert len(found["cursor"]["firstBatch"]) == 50

    play(scenario, GIVING_WAY)


def test_an_update_looks_again_at_what_others_changed_meanwhile() -> None:
    async def scenario(deployment: Deployment) -> None:
        many, other = await fill(deployment), await deployment.connect()
        update = {"q": {"n": 0}, "u": {"$inc": {"n": 1}}, "multi": True}
        taking = {"q": {"n": 0}, "u": {"$set": {"n": 100}}, "multi": True}
        replies = await at_once(
            many.ok({"update": "c", "updates": [update], "$db": "db"}),
            other.ok({"update": "c", "updates": [taking], "$db": "db"}),
        )
        assert sum(reply["nModified"] for reply in replies) == 50
        assert all(reply["nModified"] for reply in replies), "each had its turns"
        assert (await many.ok({"count": "c", "query": {"n": 101}, "$db": "db"}))["n"] == 0

    play(scenario, GIVING_WAY)


def test_two_who_take_one_document_each_take_different_ones() -> None:
    async def scenario(deployment: Deployment) -> None:
        await fill(deployment, 5)
        talkers = [await deployment.connect() for _ in range(8)]
        take = {"findAndModify": "c", "query": {"n": 0}, "update": {"$set": {"n": 1}}, "$db": "db"}
        replies = await at_once(*(talker.ok(dict(take)) for talker in talkers))
        taken = [reply["value"]["_id"] for reply in replies if reply["value"] is not None]
        assert sorted(taken) == list(range(5))

    play(scenario, GIVING_WAY)


def test_whoever_competes_for_the_first_of_a_queue_has_one_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each loser looks once more, for others as well: not once for each that was faster."""
    scans = []

    def counted(*arguments: Any) -> Any:
        scans.append(1)
        return select(*arguments)

    monkeypatch.setattr(scanning, "select", counted)
    competitors = 12

    async def scenario(deployment: Deployment) -> None:
        talker = await fill(deployment, 300)
        await talker.ok(
            {
                "update": "c",
                "updates": [{"q": {}, "u": [{"$set": {"p": "$_id"}}], "multi": True}],
                "$db": "db",
            }
        )
        scans.clear()
        take = {"findAndModify": "c", "query": {"taken": None}, "sort": {"p": 1}, "$db": "db"}
        change = {"update": {"$set": {"taken": True}}}
        talkers = [await deployment.connect() for _ in range(competitors)]
        replies = await at_once(*(each.ok({**take, **change}) for each in talkers))
        assert sorted(reply["value"]["_id"] for reply in replies) == list(range(competitors))
        assert len(scans) <= 2 * competitors

    play(scenario, ClusterSpec.standalone(parameters=AT_ONCE))


def test_a_session_is_its_statements_alone_until_it_ends() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, other = await fill(deployment), await deployment.connect(deployment.primary)
        statement = {"$db": "db", "lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        await talker.ok({"find": "c", "limit": 1, **statement, "startTransaction": True})
        await at_once(
            talker.ok({"update": "c", "updates": [INCREMENT], **statement}),
            other.ok({"commitTransaction": 1, **statement, "$db": "admin"}),
        )
        assert finished(deployment)[-2:] == ["update", "commitTransaction"]
        assert (await talker.ok({"count": "c", "query": {"n": 1}, "$db": "db"}))["n"] == 50

    play(scenario, A_SET_GIVING_WAY)


def test_a_write_that_gave_way_while_it_was_read_finds_its_session_free() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.primary)
        documents = [{"_id": number, "x": "x" * 1000} for number in range(500)]
        insert = {"insert": "c", "documents": documents, "$db": "db"}
        assert (await talker.ok({**insert, "lsid": lsid(), "txnNumber": Int64(1)}))["n"] == 500

    play(scenario, A_SET_GIVING_WAY)


def test_a_transaction_that_is_aborted_ends_its_statement() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, other = await fill(deployment), await deployment.connect(deployment.primary)
        statement = {"$db": "db", "lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        await talker.ok({"find": "c", "limit": 1, **statement, "startTransaction": True})
        failed, _ = await at_once(
            talker.fails({"update": "c", "updates": [INCREMENT], **statement}),
            other.ok({"killSessions": [lsid()]}),
        )
        assert failed["code"] == 11601
        assert (await talker.ok({"count": "c", "query": {"n": 1}, "$db": "db"}))["n"] == 0

    play(scenario, A_SET_GIVING_WAY)


def test_a_write_ends_when_its_primary_steps_down() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, other = await fill(deployment), await deployment.connect(deployment.primary)
        update = {"update": "c", "updates": [INCREMENT], "$db": "db"}
        failed, _ = await at_once(talker.command(update), other.ok({"replSetStepDown": 60, "force": True}))
        assert failed["code"] == 11602

    play(scenario, A_SET_GIVING_WAY)


def test_two_getmores_on_one_cursor_are_one_too_many() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, other = await fill(deployment), await deployment.connect(deployment.primary)
        watch = {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "db"}
        cursor = (await talker.ok(watch))["cursor"]["id"]
        await other.ok({"update": "c", "updates": [INCREMENT], "$db": "db"})
        more = {"getMore": cursor, "collection": "c", "$db": "db"}
        replies = await at_once(talker.command(dict(more)), other.command(dict(more)))
        assert sorted(reply["ok"] for reply in replies) == [0.0, 1.0]
        assert next(reply for reply in replies if not reply["ok"])["code"] == 143

    play(scenario, A_SET_GIVING_WAY)


def test_what_others_wrote_meanwhile_is_no_write_of_its_own() -> None:
    async def scenario(deployment: Deployment) -> None:
        talkers = [await fill(deployment)]
        talkers += [await deployment.connect(deployment.primary) for _ in range(2)]
        taking = {"findAndModify": "c", "query": {"n": 5}, "update": {"$set": {"n": 1}}, "$db": "db"}
        failed, _, _ = await at_once(
            talkers[0].command({**taking, "lsid": lsid(), "txnNumber": Int64(1)}),
            talkers[1].ok({"insert": "d", "documents": [{}], "$db": "db"}),
            talkers[2].ok({"replSetStepDown": 60, "force": True}),
        )
        assert finished(deployment)[-3:] == ["insert", "replSetStepDown", "findAndModify"]
        assert failed["code"] == 11602
        assert failed["errorLabels"] == ["RetryableWriteError", "NoWritesPerformed"]

    play(scenario, A_SET_GIVING_WAY)


def test_a_large_reply_is_encoded_in_turns_and_is_what_it_would_be() -> None:
    async def scenario(deployment: Deployment) -> None:
        reading, other = await fill(deployment, 3_000), await deployment.connect()
        find = {"find": "c", "batchSize": 5_000, "$db": "db"}
        found, _ = await at_once(reading.ok(find), other.ok({"ping": 1}))
        assert found["cursor"]["firstBatch"] == [{"_id": number, "n": 0} for number in range(3_000)]
        assert found["cursor"]["id"] == 0
        values = await reading.ok({"distinct": "c", "key": "_id", "$db": "db"})
        assert values["values"] == list(range(3_000))

    play(scenario, GIVING_WAY)


def test_what_was_not_read_yet_is_no_operation() -> None:
    async def scenario(deployment: Deployment) -> None:
        slow, other = await deployment.connect(), await deployment.connect()
        deployment.primary.slow(1.0)
        await slow.send({"ping": 1})
        await deployment.sleep(0.5)
        deployment.primary.slow(0)
        await slow.send({"ping": 1})
        status = await other.ok({"serverStatus": 1})
        assert status["globalLock"]["activeClients"]["total"] == 0

    play(scenario, STANDALONE)


# Several clients, with everybody giving way wherever one can.

STATEMENTS = st.one_of(
    st.builds(
        lambda low, n: {
            "update": "c",
            "updates": [{"q": {"n": {"$gte": low}}, "u": {"$inc": {"n": n}}, "multi": True}],
        },
        st.integers(0, 3),
        st.integers(-2, 2),
    ),
    st.builds(lambda n: {"delete": "c", "deletes": [{"q": {"n": n}, "limit": 0}]}, st.integers(0, 3)),
    st.builds(
        lambda first: {
            "insert": "c",
            "documents": [{"_id": first + k, "n": k} for k in range(4)],
            "ordered": False,
        },
        st.integers(0, 20),
    ),
    st.builds(
        lambda n: {"findAndModify": "c", "query": {"n": n}, "update": {"$set": {"n": n + 1}}, "upsert": True},
        st.integers(0, 3),
    ),
    st.just({"count": "c", "query": {"n": 1}}),
)


def replayed(deployment: Deployment) -> list[Document]:
    """The documents that come of the oplog alone, one change after the other."""
    documents: dict[Any, Document] = {}
    for entry in deployment.primary.oplog.after(Timestamp(0, 0)):
        for written in entry.changes:
            if written.ns == NS:
                before, after = written.change.before, written.change.after
                key = (before or after or {})["_id"]
                assert documents.get(key) == before, "each change begins where the one before it ended"
                if after is None:
                    del documents[key]
                else:
                    documents[key] = after
    return sorted(documents.values(), key=lambda document: str(document["_id"]))


@given(st.lists(STATEMENTS, min_size=2, max_size=6))
def test_the_oplog_tells_what_was_written_in_the_order_in_which_it_was(
    statements: list[dict[str, Any]],
) -> None:
    async def scenario(deployment: Deployment) -> None:
        await fill(deployment, 8)
        talkers = [await deployment.connect(deployment.primary) for _ in statements]
        sent = zip(talkers, statements, strict=True)
        await at_once(*(talker.ok({**statement, "$db": "db"}) for talker, statement in sent))
        found = await talkers[0].ok({"find": "c", "batchSize": 1000, "$db": "db"})
        kept = sorted(found["cursor"]["firstBatch"], key=lambda document: str(document["_id"]))
        assert replayed(deployment) == kept

    play(scenario, A_SET_GIVING_WAY)


# On the wall clock.


async def until(condition: Callable[[], bool]) -> None:
    """Give the loop its turns until something holds."""
    while not condition():  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)


def test_an_operation_is_told_and_killed_while_it_works() -> None:
    async def scenario(deployment: Deployment) -> None:
        working, other = await fill(deployment), await deployment.connect()
        answer = asyncio.ensure_future(working.fails(ENDLESS))
        while not (found := (await other.ok({"currentOp": 1, "op": "command", "ns": "db.c"}))["inprog"]):
            pass
        await other.ok({"killOp": 1, "op": found[0]["opid"]})
        assert (await answer)["code"] == 11601

    play_live(scenario, STANDALONE)


def test_max_time_ms_is_over_while_a_command_works() -> None:
    async def scenario(deployment: Deployment) -> None:
        working = await fill(deployment)
        assert (await working.fails({**ENDLESS, "maxTimeMS": 50}))["code"] == 50

    play_live(scenario, STANDALONE)


@pytest.mark.parametrize("noticed", ["atOnce", pytest.param("atInterruptCheck", marks=pytest.mark.slow)])
def test_a_client_that_hangs_up_ends_its_command(noticed: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        working = await fill(deployment)
        await working.ok({"setParameter": 1, "abandonedRequests": noticed})
        await working.send(ENDLESS)
        connection = next(iter(deployment.primary.connections.values()))
        await until(lambda: connection.waiting is not None)
        await working.aclose()
        await until(lambda: not deployment.primary.connections)
        assert "aggregate" not in finished(deployment), "nobody is there to be answered"

    play_live(scenario, STANDALONE)


def test_a_server_that_stops_ends_what_works() -> None:
    async def scenario(deployment: Deployment) -> None:
        working = await fill(deployment)
        await working.send(ENDLESS)
        connection = next(iter(deployment.primary.connections.values()))
        await until(lambda: connection.waiting is not None)
        await deployment.cluster.stop()
        assert await working.reply() is None

    play_live(scenario, STANDALONE)


class Work:
    """A request, as far as turns know it."""

    yield_period: float = 0.01
    session_id: bytes | None = None
    txn_number: int | None = None

    def interrupt(self, error: CommandError) -> None:
        raise error

    @contextmanager
    def giving_way(self) -> Iterator[None]:
        yield


def test_stacks_end_in_whatever_order_they_were_made() -> None:
    turns = Turns(SystemClock())

    def outer(_: Work, now: float) -> str:
        return str(turns.run(lambda _, __: "in the middle of another", Work(), now))

    assert turns.run(outer, Work(), 0.0) == "in the middle of another"
    turns.close()
    assert turns.nobody_waits


def test_many_small_requests_take_turns_with_those_of_others() -> None:
    async def scenario(deployment: Deployment) -> None:
        flooding, other = await deployment.connect(), await deployment.connect()
        wire, ping = WireConnection(), OpMsg.of({"ping": 1, "$db": "admin"})
        await flooding.send_bytes(b"".join(wire.send(ping, request_id=number) for number in range(20)))
        await other.ok({"ping": 1})
        ends = [
            record.event.connection
            for record in deployment.cluster.journal.records
            if isinstance(record.event, CommandFinished)
        ]
        assert ends.index(2) <= 2

    play(scenario, GIVING_WAY)


def test_what_was_sent_without_wanting_a_reply_is_done_although_the_client_has_left() -> None:
    async def scenario(deployment: Deployment) -> None:
        leaving, other = await deployment.connect(), await deployment.connect()
        for number in range(50):
            insert = {"insert": "c", "documents": [{"_id": number}], "$db": "db"}
            await leaving.send(insert, more_to_come=True)
        await leaving.aclose()
        while (await other.ok({"count": "c", "$db": "db"}))["n"] < 50:
            await deployment.sleep(0.001)

    play(scenario, GIVING_WAY)

"""Client Side Operations Timeout, the order of events: against scripted members in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from driven_client import Stage, discovered, play
from scripted_mongod import Late, ScriptedMongod, Silence, error, member_hello

from driver.cursor import Paging
from driver.editions import EDITION_2026_07_08
from driver.errors import (
    BulkWriteError,
    DriverError,
    InvalidArgumentError,
    NetworkTimeoutError,
    OperationTimeoutError,
    ServerError,
    ServerSelectionTimeoutError,
    WaitQueueTimeoutError,
    WriteConcernError,
    WriteError,
)
from driver.operations.models import InsertOne, UpdateOne
from driver.policy.deadline import Deadline
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from driver.operations.models import WriteModel

RETRYABLE = error(7, "host not found", Label.RETRYABLE_WRITE)
OVERLOADED = error(462, "rate exceeded", Label.SYSTEM_OVERLOADED, Label.RETRYABLE)
MAX_TIME_EXPIRED = error(50, "operation exceeded time limit")
INSERTED = {"ok": 1.0, "n": 1}


def batch(name: str, *documents: dict[str, Any], cursor_id: int = 7) -> dict[str, Any]:
    return {"ok": 1.0, "cursor": {"id": cursor_id, "ns": "db.things", name: list(documents)}}


OPENED = batch("firstBatch", {"_id": 1}, {"_id": 2})


async def timed(stage: Stage, operation: Awaitable[Any]) -> tuple[float, Any]:
    """Return how long an operation took, and its result or its error."""
    began = stage.world.clock.now()
    try:
        result: Any = await operation
    except DriverError as failure:
        result = failure
    return round(stage.world.clock.now() - began, 3), result


async def insert(stage: Stage, **options: Any) -> tuple[float, Any]:
    return await timed(stage, stage.collection.insert_one({"_id": 1}, **options))


def assert_timed_out(result: Any, cause: type[DriverError]) -> None:
    assert isinstance(result, OperationTimeoutError)
    assert isinstance(result.cause, cause)


# --- the way to a connection ---


@pytest.mark.parametrize(
    ("options", "seconds", "kind"),
    [
        ("timeoutMS=200", 0.2, OperationTimeoutError),
        ("timeoutMS=200&serverSelectionTimeoutMS=100", 0.1, OperationTimeoutError),
        ("timeoutMS=0&serverSelectionTimeoutMS=100", 0.1, OperationTimeoutError),
        ("serverSelectionTimeoutMS=100", 0.1, ServerSelectionTimeoutError),
    ],
)
def test_selection_takes_the_smaller_of_the_two_timeouts(
    options: str, seconds: float, kind: type[DriverError]
) -> None:
    async def scenario(stage: Stage) -> None:
        took, result = await insert(stage)
        assert took == seconds
        assert type(result) is kind

    secondary = ScriptedMongod(1, member_hello([1], 1, primary=None))
    play(scenario, options, members=[secondary])


@pytest.mark.parametrize(
    ("options", "seconds", "kind"),
    [
        ("timeoutMS=200&waitQueueTimeoutMS=50", 0.2, OperationTimeoutError),
        ("timeoutMS=0&waitQueueTimeoutMS=50&serverSelectionTimeoutMS=300", 0.3, OperationTimeoutError),
        ("waitQueueTimeoutMS=50&serverSelectionTimeoutMS=20", 0.05, WaitQueueTimeoutError),
    ],
)
def test_the_wait_for_a_connection_ends_with_the_deadline_of_selection(
    options: str, seconds: float, kind: type[DriverError]
) -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        server = stage.client.topology.server(stage.primary.address)
        assert server is not None
        held = await server.pool.check_out()
        took, result = await insert(stage)
        assert took == seconds
        assert type(result) is kind
        if isinstance(result, OperationTimeoutError):
            assert_timed_out(result, WaitQueueTimeoutError)
        server.pool.check_in(held)

    stage = play(scenario, f"maxPoolSize=1&{options}")
    assert stage.of_kind("poolClearedEvent") == []


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ("timeoutMS=200&connectTimeoutMS=5000", 0.2),
        ("timeoutMS=2000&serverSelectionTimeoutMS=300&connectTimeoutMS=100", 0.3),
    ],
    ids=["timeoutMS", "what selection has left, whatever connectTimeoutMS says of connecting"],
)
def test_a_handshake_for_an_operation_ends_with_the_deadline_of_selection(
    options: str, seconds: float
) -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        stage.primary.will("isMaster", Silence())
        took, result = await insert(stage, session=None)
        assert took == seconds
        assert_timed_out(result, NetworkTimeoutError)

    play(scenario, f"{options}&retryWrites=false&retryReads=false", edition=EDITION_2026_07_08)


@pytest.mark.parametrize(
    ("options", "seconds"),
    [("timeoutMS=300", 0.3), ("socketTimeoutMS=200", 0.2), ("connectTimeoutMS=400", 0.4)],
)
def test_a_handshake_for_nobody_s_operation_has_the_client_s_timeout_for_each_command(
    options: str, seconds: float
) -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        server = stage.client.topology.server(stage.primary.address)
        assert server is not None
        stage.primary.will("isMaster", Silence())
        took, result = await timed(stage, server.pool.check_out())
        assert took == pytest.approx(seconds, abs=0.005)
        assert isinstance(result, NetworkTimeoutError)

    play(scenario, options)


def test_monitors_know_nothing_of_timeout_ms() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        stage.primary.will("hello", *[Late(1.5, stage.primary.hello)] * 3)
        await stage.world.clock.sleep_until(stage.world.clock.now() + 5)

    stage = play(scenario, "timeoutMS=100&heartbeatFrequencyMS=500")
    assert max(e.duration for e in stage.of_kind("serverHeartbeatSucceededEvent")) >= 1.5
    assert stage.of_kind("serverHeartbeatFailedEvent") == []


# --- the command ---


def far_away(stage: Stage, seconds: float) -> None:
    """Have every hello of the primary take its time from now on."""
    stage.primary.will("hello", *[Late(seconds, stage.primary.hello)] * 100)


@pytest.mark.parametrize(("timeout_ms", "sent"), [(200, [98]), (120, [18]), (101, []), (40, [])])
def test_max_time_ms_leaves_room_for_the_way_and_without_any_nothing_is_sent(
    timeout_ms: int, sent: list[int]
) -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        await insert(stage)
        far_away(stage, 0.1)
        await stage.world.clock.sleep_until(stage.world.clock.now() + 20)
        took, result = await insert(stage, timeoutMS=timeout_ms)
        if sent:
            assert not isinstance(result, DriverError)
        else:
            assert took == 0
            assert "remaining timeout less than round trip time" in str(result)
            assert isinstance(result, OperationTimeoutError)
            assert result.cause is None

    stage = play(scenario, "heartbeatFrequencyMS=500")
    told = [command["maxTimeMS"] for command in stage.primary.commands("insert")[1:]]
    assert told == pytest.approx(sent, abs=2)
    assert [event.reason for event in stage.of_kind("connectionClosedEvent")] == ["poolClosed"]
    started = [event.command_name for event in stage.of_kind("commandStartedEvent")]
    assert started.count("insert") == 1 + len(sent)


@pytest.mark.parametrize(
    ("timeout", "kind"),
    [("timeoutMS=5000&", type(None)), ("timeoutMS=0&", type(None)), ("", NetworkTimeoutError)],
)
def test_with_timeout_ms_the_older_options_are_out_of_force(timeout: str, kind: type) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", *[Late(0.2, batch("firstBatch", cursor_id=0))] * 2)
        _, result = await timed(stage, stage.collection.find_one({}, maxTimeMS=7))
        assert type(result) is kind
        stage.primary.will("insert", INSERTED)
        await insert(stage)

    stage = play(scenario, f"{timeout}socketTimeoutMS=100&wTimeoutMS=9&retryReads=false")
    find, insertion = stage.primary.commands("find")[0], stage.primary.commands("insert")[0]
    if timeout:
        assert find.get("maxTimeMS", 4999) > 4000
        assert "writeConcern" not in insertion
    else:
        assert find["maxTimeMS"] == 7
        assert insertion["writeConcern"] == {"wtimeout": 9}


def test_without_a_limit_the_server_hears_of_none() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.collection.find_one({}, timeoutMS=0, maxTimeMS=7)
        await stage.client.command("admin", {"ping": 1, "maxTimeMS": 7}, timeout_ms=0)
        await stage.client.command("admin", {"ping": 1, "maxTimeMS": 7}, timeout_ms=5000)

    stage = play(scenario)
    pings = [ping["maxTimeMS"] for ping in stage.primary.commands("ping")]
    assert "maxTimeMS" not in stage.primary.commands("find")[0]
    assert pings[0] == 7
    assert pings[1] > 4000


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (MAX_TIME_EXPIRED, ServerError),
        ({**INSERTED, "writeErrors": [{"index": 0, "code": 50, "errmsg": "too late"}]}, WriteError),
        ({**INSERTED, "writeConcernError": {"code": 50, "errmsg": "too late"}}, WriteConcernError),
    ],
)
def test_max_time_ms_expired_is_a_time_out_wherever_a_reply_holds_it(
    reply: dict[str, Any], cause: type[DriverError]
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", reply, reply)
        assert_timed_out((await insert(stage, timeoutMS=500))[1], cause)
        assert type((await insert(stage))[1]) is cause

    play(scenario)


# --- retries ---


@pytest.mark.parametrize(("options", "sent"), [("timeoutMS=500", 5), ("timeoutMS=0", 5), ("", 2)])
def test_with_timeout_ms_a_command_is_retried_more_than_once(options: str, sent: int) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", *[RETRYABLE] * 4, INSERTED)
        await insert(stage)

    assert len(play(scenario, options).primary.commands("insert")) == sent


def test_the_deadline_is_for_all_attempts_together() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", *[Late(0.15, RETRYABLE)] * 9)
        took, result = await insert(stage)
        assert took == 0.4
        assert_timed_out(result, NetworkTimeoutError)

    stage = play(scenario, "timeoutMS=400")
    limits = [command["maxTimeMS"] for command in stage.primary.commands("insert")]
    assert limits == pytest.approx([400, 250, 100], abs=15)


def test_a_backoff_that_would_end_too_late_raises_at_once_what_it_was_for() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", *[OVERLOADED] * 9)
        took, result = await insert(stage)
        assert took < 0.03
        assert_timed_out(result, ServerError)
        assert result.cause.code == 462
        assert result.has_label(Label.SYSTEM_OVERLOADED)

    play(scenario, "timeoutMS=30", edition=EDITION_2026_07_08)


# --- operations of many commands ---


def insert_and_update() -> list[WriteModel]:
    return [InsertOne(document={"_id": 1}), UpdateOne(filter={}, update={"$set": {"x": 1}})]


@pytest.mark.parametrize("method", ["bulk_write", "insert_many", "client"])
def test_a_bulk_write_has_one_deadline_for_all_of_its_commands(method: str) -> None:
    hello = member_hello([1], 1, primary=1)
    member = ScriptedMongod(1, {**hello, "maxWriteBatchSize": 1})

    async def scenario(stage: Stage) -> None:
        for command in ("insert", "update", "bulkWrite"):
            reply = {**batch("firstBatch", cursor_id=0), **INSERTED}
            stage.primary.will(command, *[Late(0.15, reply)] * 4)
        models = insert_and_update() * 2
        namespaced = [InsertOne(document={"_id": n}, namespace="db.things") for n in range(4)]
        operations: dict[str, Callable[[], Awaitable[Any]]] = {
            "bulk_write": lambda: stage.collection.bulk_write(models, timeoutMS=400),
            "insert_many": lambda: stage.collection.insert_many(
                [{"_id": n} for n in range(4)], timeoutMS=400
            ),
            "client": lambda: stage.client.bulk_write(namespaced, timeoutMS=400),
        }
        took, result = await timed(stage, operations[method]())
        assert took == 0.4
        assert result.timed_out
        assert_timed_out(result.cause, NetworkTimeoutError)

    stage = play(scenario, members=[member])
    limits = [
        c["maxTimeMS"] for c in stage.primary.received if next(iter(c)) in ("insert", "update", "bulkWrite")
    ]
    assert limits == pytest.approx([400, 250, 100], abs=15)


def test_a_bulk_write_goes_on_after_a_write_concern_that_took_too_long() -> None:
    async def scenario(stage: Stage) -> None:
        late = {"code": 50, "errmsg": "too late"}
        stage.primary.will("insert", {**INSERTED, "writeConcernError": late})
        models = insert_and_update()
        _, result = await timed(stage, stage.collection.bulk_write(models, timeoutMS=400))
        assert isinstance(result, BulkWriteError)
        assert result.timed_out
        assert result.write_concern_errors == [late]
        assert result.partial.inserted_count == 1

    assert len(play(scenario).primary.commands("update")) == 1


def test_operations_can_share_a_deadline() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", *[Late(0.15, INSERTED)] * 4)
        shared = Deadline.starting(stage.world.clock.now(), 0.2)
        await insert(stage, timeoutMS=shared)
        took, result = await insert(stage, timeoutMS=shared)
        assert took < 0.06
        assert_timed_out(result, NetworkTimeoutError)

    play(scenario)


# --- cursors ---


def test_a_cursor_lives_until_its_deadline_and_what_is_here_already_can_still_be_read() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", OPENED)
        stage.primary.will("getMore", Late(0.3, batch("nextBatch")))
        cursor = await stage.collection.find({}, timeoutMS=200)
        await stage.world.clock.sleep_until(stage.world.clock.now() + 0.1)
        assert await cursor.next() == {"_id": 1}
        assert await cursor.next() == {"_id": 2}
        took, result = await timed(stage, cursor.next())
        assert 0.09 < took <= 0.1
        assert_timed_out(result, NetworkTimeoutError)
        assert not cursor.alive
        await cursor.aclose()

    primary = play(scenario).primary
    assert "maxTimeMS" in primary.commands("find")[0]
    assert "maxTimeMS" not in primary.commands("getMore")[0]
    assert primary.commands("killCursors")[0]["maxTimeMS"] > 150


def test_a_cursor_past_its_deadline_gives_what_it_has_and_asks_for_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", OPENED)
        cursor = await stage.collection.find({}, timeoutMS=200)
        await stage.world.clock.sleep_until(stage.world.clock.now() + 1)
        assert [await cursor.next(), await cursor.next()] == [{"_id": 1}, {"_id": 2}]
        took, result = await timed(stage, cursor.next())
        assert (took, type(result)) == (0, OperationTimeoutError)

    assert play(scenario).primary.commands("getMore") == []


@pytest.mark.parametrize(
    ("options", "on_find"),
    [
        ({"timeoutMode": "iteration"}, False),
        ({"cursorType": "tailable"}, False),
        ({"cursorType": "tailableAwait"}, True),
    ],
)
@pytest.mark.parametrize("of_a_command", [False, True])
def test_in_iteration_mode_each_call_has_the_whole_timeout(
    options: dict[str, Any], *, on_find: bool, of_a_command: bool
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", Late(0.15, batch("firstBatch")))
        stage.primary.will("getMore", *[Late(0.15, batch("nextBatch", {"_id": n})) for n in (1, 2)])
        stage.primary.will("getMore", Late(0.3, batch("nextBatch")))
        if of_a_command:
            cursor = await stage.collection.database.cursor_command(
                {"find": "things"},
                paging=Paging(cursor_type=options.get("cursorType", "nonTailable")),
                timeout_ms=200,
                timeout_mode=options.get("timeoutMode"),
            )
        else:
            cursor = await stage.collection.find({}, timeoutMS=200, **options)
        assert [await cursor.next(), await cursor.next()] == [{"_id": 1}, {"_id": 2}]
        took, result = await timed(stage, cursor.next())
        assert took == 0.2
        assert_timed_out(result, NetworkTimeoutError)

    primary = play(scenario).primary
    assert ("maxTimeMS" in primary.commands("find")[0]) is on_find
    assert all("maxTimeMS" not in command for command in primary.commands("getMore"))


def test_a_call_that_asks_again_and_again_has_one_deadline_and_never_awaits_beyond_it() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", batch("firstBatch"))
        stage.primary.will("getMore", *[Late(0.1, batch("nextBatch"))] * 9)
        options: dict[str, Any] = {"cursorType": "tailableAwait", "timeoutMS": 250, "maxAwaitTimeMS": 100}
        cursor = await stage.collection.find({}, **options)
        took, result = await timed(stage, cursor.next())
        assert took == 0.25
        assert_timed_out(result, NetworkTimeoutError)

    limits = [command["maxTimeMS"] for command in play(scenario).primary.commands("getMore")]
    assert limits == pytest.approx([100, 100, 50], abs=10)


def test_closing_a_cursor_begins_its_timeout_anew_or_has_its_own() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", OPENED, OPENED)
        stage.primary.will("killCursors", *[Late(0.3)] * 2)
        for timeout_ms, seconds in ((None, 0.2), (400, 0.3)):
            cursor = await stage.collection.find({}, timeoutMS=200)
            await stage.world.clock.sleep_until(stage.world.clock.now() + 1)
            took, _ = await timed(stage, cursor.aclose(timeout_ms=timeout_ms))
            assert took == pytest.approx(seconds, abs=0.01)

    play(scenario)


# --- change streams ---


RESUMABLE = error(7, "host not found", Label.RESUMABLE_CHANGE_STREAM)
STREAM = {
    "ok": 1.0,
    "cursor": {"id": 7, "ns": "db.things", "firstBatch": [], "postBatchResumeToken": {"_data": "A"}},
}


def test_a_call_of_a_change_stream_includes_what_it_takes_to_resume() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("aggregate", STREAM, Late(0.15, STREAM))
        stage.primary.will("getMore", Late(0.15, RESUMABLE))
        stream = await stage.collection.watch(timeoutMS=200)
        took, result = await timed(stage, stream.next())
        assert took == 0.2
        assert_timed_out(result, NetworkTimeoutError)
        assert stream.alive

    first, second = play(scenario).primary.commands("aggregate")
    assert first["maxTimeMS"] > second["maxTimeMS"] > 0


def test_a_change_stream_goes_on_where_it_stood_after_a_call_that_timed_out() -> None:
    event = {"_id": {"_data": "B"}, "operationType": "insert"}

    async def scenario(stage: Stage) -> None:
        stage.primary.will("aggregate", STREAM, STREAM)
        stage.primary.will("getMore", Late(0.3, batch("nextBatch")), batch("nextBatch", event))
        stream = await stage.collection.watch(timeoutMS=200)
        assert_timed_out((await timed(stage, stream.next()))[1], NetworkTimeoutError)
        assert await stream.next() == event
        await stream.aclose()

    stage = play(scenario)
    resumed = stage.primary.commands("aggregate")[1]
    assert resumed["pipeline"][0]["$changeStream"]["resumeAfter"] == {"_data": "A"}
    assert [next(iter(c)) for c in stage.primary.received if next(iter(c)) != "endSessions"] == [
        *("aggregate", "getMore", "killCursors", "aggregate", "getMore", "killCursors")
    ]


# --- transactions ---


@pytest.mark.parametrize(
    ("client", "session", "own", "seconds"),
    [
        ("timeoutMS=300", None, None, 0.3),
        ("timeoutMS=300", 200, None, 0.2),
        ("", 200, 100, 0.1),
        ("", None, 100, 0.1),
    ],
)
@pytest.mark.parametrize("end", ["commit", "abort"])
def test_the_end_of_a_transaction_has_its_own_timeout_else_the_session_s_else_the_client_s(
    end: str, client: str, session: int | None, own: int | None, seconds: float
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will(f"{end}Transaction", *[Silence()] * 9)
        async with stage.client.start_session(default_timeout_ms=session) as used:
            used.start_transaction(max_commit_time_ms=9000)
            await stage.collection.insert_one({"_id": 1}, session=used)
            ends = {"commit": used.commit_transaction, "abort": used.abort_transaction}
            took, result = await timed(stage, ends[end](timeout_ms=own))
            assert took == seconds
            if end == "commit":
                assert_timed_out(result, NetworkTimeoutError)
                assert result.has_label(Label.UNKNOWN_TRANSACTION_COMMIT_RESULT)
        assert stage.primary.commands(f"{end}Transaction")[0]["maxTimeMS"] <= seconds * 1000

    play(scenario, client)


def test_a_commit_that_is_sent_again_has_no_wtimeout_where_timeout_ms_is_set() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("commitTransaction", *[error(91, "going down", Label.RETRYABLE_WRITE)] * 3)
        async with stage.client.start_session() as session:
            session.start_transaction()
            await stage.collection.insert_one({"_id": 1}, session=session)
            await session.commit_transaction()

    stage = play(scenario, "timeoutMS=20000&heartbeatFrequencyMS=500")
    concerns = [command.get("writeConcern") for command in stage.primary.commands("commitTransaction")]
    assert concerns == [None, *[{"w": "majority"}] * 3]


def test_with_transaction_gives_its_deadline_to_the_callback_and_a_new_one_to_the_abort() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", *[Late(0.15, INSERTED)] * 3)
        stage.primary.will("abortTransaction", Late(0.15))

        async def callback(session: Any) -> None:
            for number in range(3):
                await stage.collection.insert_one({"_id": number}, session=session)

        async with stage.client.start_session() as session:
            took, result = await timed(stage, session.with_transaction(callback, timeout_ms=400))
            assert took == pytest.approx(0.55, abs=0.01)
            assert isinstance(result, OperationTimeoutError)
            assert session.deadline is None

    primary = play(scenario).primary
    limits = [command["maxTimeMS"] for command in primary.commands("insert")]
    assert limits == pytest.approx([400, 250, 100], abs=15)
    assert primary.commands("abortTransaction")[0]["maxTimeMS"] > 380
    assert primary.commands("commitTransaction") == []


@pytest.mark.parametrize("timed_out", [True, False])
def test_an_operation_of_the_callback_cannot_have_its_own_timeout_ms_under_that_of_with_transaction(
    *, timed_out: bool
) -> None:
    async def scenario(stage: Stage) -> None:
        async def callback(session: Any) -> None:
            await stage.collection.insert_one({"_id": 1}, session=session, timeoutMS=100)

        async with stage.client.start_session() as session:
            limit = 500 if timed_out else None
            _, result = await timed(stage, session.with_transaction(callback, timeout_ms=limit))
            assert isinstance(result, InvalidArgumentError) is timed_out

    assert len(play(scenario).primary.commands("insert")) == (0 if timed_out else 1)


def test_with_transaction_that_retries_until_its_timeout_raises_a_time_out_with_the_last_error() -> None:
    async def scenario(stage: Stage) -> None:
        transient = error(24, "lock timeout", Label.TRANSIENT_TRANSACTION)
        stage.primary.will("insert", *[Late(0.02, transient)] * 99)

        async def callback(session: Any) -> None:
            await stage.collection.insert_one({"_id": 1}, session=session)

        async with stage.client.start_session() as session:
            took, result = await timed(stage, session.with_transaction(callback))
            assert took <= 0.5
            assert_timed_out(result, ServerError)

    assert len(play(scenario, "timeoutMS=500").primary.commands("insert")) > 2


def test_a_commit_there_is_no_time_for_ends_with_transaction_at_once() -> None:
    async def scenario(stage: Stage) -> None:
        async with stage.client.start_session() as session:

            async def callback(session: Any) -> None:
                await stage.collection.insert_one({"_id": 1}, session=session)
                far_away(stage, 0.1)
                await stage.world.clock.sleep_until(stage.world.clock.now() + 19.95)

            took, result = await timed(stage, session.with_transaction(callback))
            assert took < 20
            assert "less than round trip time" in str(result)

    stage = play(scenario, "timeoutMS=20000&heartbeatFrequencyMS=500")
    assert stage.primary.commands("commitTransaction") == []

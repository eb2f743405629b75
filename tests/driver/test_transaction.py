"""Transactions and the Convenient API for Transactions, against scripted members in virtual time."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from bson import Timestamp
from driven_client import Stage, play
from scripted_mongod import Drop, error

from driver import ReadPreference, WriteConcern
from driver.concerns import ReadConcern, ReadMode
from driver.editions import EDITION_2026_02_20, EDITION_2026_07_08
from driver.errors import (
    DriverError,
    InvalidArgumentError,
    NetworkError,
    OperationTimeoutError,
    ServerError,
    WriteConcernError,
)
from driver.transaction import TransactionOptions, TransactionState, backoff_before
from mongowire.codes import Label

if TYPE_CHECKING:
    from driver.editions import Edition
    from driver.session import ClientSession

TRANSIENT = error(112, "WriteConflict", Label.TRANSIENT_TRANSACTION)
OVERLOADED = error(462, "rate exceeded", Label.SYSTEM_OVERLOADED, Label.RETRYABLE)
FIELDS = ("txnNumber", "startTransaction", "autocommit", "readConcern", "writeConcern")


def fields(command: dict[str, Any]) -> dict[str, Any]:
    """Return what a command says of its transaction."""
    return {name: command[name] for name in FIELDS if name in command}


def within(stage: Stage) -> list[dict[str, Any]]:
    return [command for command in stage.primary.received if "autocommit" in command]


def test_the_first_command_starts_the_transaction_and_all_carry_its_number() -> None:
    async def scenario(stage: Stage) -> None:
        async with stage.client.start_session(causal_consistency=False) as session:
            session.start_transaction(
                read_concern=ReadConcern("snapshot"), write_concern=WriteConcern(w="majority")
            )
            await stage.collection.insert_one({"_id": 1}, session=session)
            await stage.collection.find_one({}, session=session)
            await session.commit_transaction()

    common = {"txnNumber": 1, "autocommit": False}
    stage = play(scenario, "w=2&readConcernLevel=local")
    assert [fields(command) for command in within(stage)] == [
        {**common, "startTransaction": True, "readConcern": {"level": "snapshot"}},
        common,
        {**common, "writeConcern": {"w": "majority"}},
    ]


def test_options_come_from_the_call_then_the_session_then_the_client() -> None:
    async def scenario(stage: Stage) -> None:
        defaults = TransactionOptions(write_concern=WriteConcern(w=2), max_commit_time_ms=70)
        async with stage.client.start_session(default_transaction_options=defaults) as session:
            session.start_transaction(max_commit_time_ms=50)
            assert session.transaction.options == TransactionOptions(
                ReadConcern("majority"), WriteConcern(w=2), ReadPreference(), 50
            )
            await stage.collection.insert_one({}, session=session)
            await session.commit_transaction()

    (commit,) = play(scenario, "w=1&readConcernLevel=majority").primary.commands("commitTransaction")
    assert (commit["maxTimeMS"], commit["writeConcern"]) == (50, {"w": 2})


def test_the_first_command_of_a_causally_consistent_session_follows_what_went_before() -> None:
    at = Timestamp(7, 1)

    async def scenario(stage: Stage) -> None:
        async with stage.client.start_session() as session:
            session.advance_operation_time(at)
            session.start_transaction()
            await stage.collection.insert_one({}, session=session)
            await stage.collection.insert_one({}, session=session)
            await session.commit_transaction()

    first, second, commit = within(play(scenario))
    assert first["readConcern"] == {"afterClusterTime": at}
    assert "readConcern" not in second
    assert "readConcern" not in commit


def test_a_transaction_without_commands_sends_nothing() -> None:
    async def scenario(stage: Stage) -> None:
        async with stage.client.start_session() as session:
            session.start_transaction()
            await session.commit_transaction()
            await session.commit_transaction()
            session.start_transaction()
            await session.abort_transaction()

    assert within(play(scenario)) == []


def _misuse(session: ClientSession, *steps: str) -> Any:
    async def run() -> None:
        for step in steps:
            if step == "start":
                session.start_transaction()
            else:
                await getattr(session, f"{step}_transaction")()

    return run()


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (["commit"], "no transaction started"),
        (["abort"], "no transaction started"),
        (["start", "start"], "Transaction already in progress"),
        (["start", "abort", "commit"], "Cannot call commitTransaction after calling abortTransaction"),
        (["start", "commit", "abort"], "Cannot call abortTransaction after calling commitTransaction"),
        (["start", "abort", "abort"], "Cannot call abortTransaction twice"),
    ],
)
def test_calls_out_of_order_are_refused(steps: list[str], message: str) -> None:
    async def scenario(stage: Stage) -> None:
        async with stage.client.start_session() as session:
            with pytest.raises(InvalidArgumentError, match=message):
                await _misuse(session, *steps)

    play(scenario)


def test_what_a_transaction_cannot_have_is_refused() -> None:
    async def scenario(stage: Stage) -> None:
        snapshot = stage.client.start_session(snapshot=True)
        with pytest.raises(InvalidArgumentError, match="not supported in snapshot sessions"):
            snapshot.start_transaction()
        async with stage.client.start_session() as session:
            with pytest.raises(InvalidArgumentError, match="unacknowledged write concern"):
                session.start_transaction(write_concern=WriteConcern(w=0))
            session.start_transaction(read_preference=ReadPreference(ReadMode.SECONDARY))
            await stage.collection.insert_one({}, session=session)
            with pytest.raises(InvalidArgumentError, match="in a transaction must be primary"):
                await stage.collection.find_one({}, session=session)
            with pytest.raises(InvalidArgumentError, match="Cannot set write concern"):
                await stage.client.bulk_write([], session=session, write_concern=WriteConcern(w=1))

    play(scenario)


def test_a_command_that_is_never_sent_does_not_start_the_transaction() -> None:
    async def scenario(stage: Stage) -> None:
        async with stage.client.start_session() as session:
            session.start_transaction()
            with pytest.raises(InvalidArgumentError):
                await stage.collection.update_one({}, {"x": 1}, session=session)
            states = [session.transaction.state]
            await stage.collection.find_one({}, session=session)
            assert [*states, session.transaction.state] == [
                TransactionState.STARTING,
                TransactionState.IN_PROGRESS,
            ]

    assert [command.get("startTransaction") for command in within(play(scenario))] == [True, None]


@pytest.mark.spec("RW-22", "RW-23")
@pytest.mark.parametrize("command", ["insert", "find"])
def test_nothing_within_is_retried_after_a_lost_connection_which_is_transient(command: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will(command, Drop())
        async with stage.client.start_session() as session:
            session.start_transaction()
            run = stage.collection.insert_one if command == "insert" else stage.collection.find_one
            with pytest.raises(NetworkError) as raised:
                await run({}, session=session)
        assert raised.value.labels == (Label.TRANSIENT_TRANSACTION,)

    assert len(play(scenario).primary.commands(command)) == 1


@pytest.mark.spec("CB-4")
def test_an_overloaded_first_command_starts_the_transaction_again() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", OVERLOADED)
        async with stage.client.start_session() as session:
            session.start_transaction()
            await stage.collection.insert_one({}, session=session)
            await session.commit_transaction()

    sent = [(next(iter(each)), each.get("startTransaction")) for each in within(play(scenario))]
    assert sent == [("insert", True), ("insert", True), ("commitTransaction", None)]


@pytest.mark.spec("RW-22")
def test_a_commit_is_retried_once_with_a_majority_whatever_the_options_say() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("commitTransaction", Drop())
        async with stage.client.start_session() as session:
            session.start_transaction(write_concern=WriteConcern(w=1, journal=True))
            await stage.collection.insert_one({}, session=session)
            await session.commit_transaction()
            await session.commit_transaction()

    commits = play(scenario, "retryWrites=false").primary.commands("commitTransaction")
    majority = {"wtimeout": 10_000, "w": "majority", "j": True}
    assert [commit["writeConcern"] for commit in commits] == [{"w": 1, "j": True}, majority, majority]
    assert {commit["txnNumber"] for commit in commits} == {1}


def test_an_overloaded_commit_is_sent_again_as_it_was() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("commitTransaction", OVERLOADED)
        async with stage.client.start_session() as session:
            session.start_transaction()
            await stage.collection.insert_one({}, session=session)
            await session.commit_transaction()

    first, second = play(scenario).primary.commands("commitTransaction")
    assert "writeConcern" not in first
    assert "writeConcern" not in second


@pytest.mark.parametrize(("edition", "retries"), [(EDITION_2026_02_20, 5), (EDITION_2026_07_08, 2)])
@pytest.mark.parametrize("options", ["", "retryWrites=false", "retryWrites=false&retryReads=false"])
def test_an_overloaded_commit_or_abort_is_retried_whatever_the_options_say(
    options: str, edition: Edition, retries: int
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("commitTransaction", *[OVERLOADED] * (retries + 1))
        stage.primary.will("abortTransaction", *[OVERLOADED] * (retries + 1))
        async with stage.client.start_session() as session:
            session.start_transaction()
            await stage.collection.insert_one({}, session=session)
            with pytest.raises(ServerError):
                await session.commit_transaction()
            session.start_transaction()
            await stage.collection.insert_one({}, session=session)
            await session.abort_transaction()

    stage = play(scenario, options, edition=edition)
    assert len(stage.primary.commands("commitTransaction")) == retries + 1
    assert len(stage.primary.commands("abortTransaction")) == retries + 1


@pytest.mark.parametrize("option", ["retryWrites=false", "retryWrites=true"])
def test_other_writes_of_a_transaction_are_retried_on_overload_as_the_option_says(option: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", OVERLOADED)
        async with stage.client.start_session() as session:
            session.start_transaction()
            with suppress(ServerError):
                await stage.collection.insert_one({}, session=session)

    inserts = play(scenario, option).primary.commands("insert")
    assert len(inserts) == (2 if option.endswith("true") else 1)


def concern_error(code: int, *labels: str) -> dict[str, Any]:
    failure = {"code": code, "errmsg": "not as safe as asked"}
    return {"ok": 1.0, "writeConcernError": failure, "errorLabels": list(labels)}


@pytest.mark.parametrize(
    ("answer", "unknown"),
    [
        (Drop(), True),
        (error(91, "shutdown", Label.RETRYABLE_WRITE), True),
        (error(50, "too late"), True),
        (concern_error(64), True),
        (concern_error(79), False),
        (concern_error(100), False),
        (error(251, "gone", Label.TRANSIENT_TRANSACTION), False),
        (error(8000, "no"), False),
    ],
)
def test_a_commit_that_may_have_been_applied_is_labelled_so(answer: Any, unknown: bool) -> None:  # noqa: FBT001
    async def scenario(stage: Stage) -> None:
        stage.primary.will("commitTransaction", answer, answer)
        async with stage.client.start_session() as session:
            session.start_transaction()
            await stage.collection.insert_one({}, session=session)
            with pytest.raises(DriverError) as raised:
                await session.commit_transaction()
        assert raised.value.has_label(Label.UNKNOWN_TRANSACTION_COMMIT_RESULT) is unknown

    play(scenario)


def test_an_abort_is_retried_and_its_errors_are_ignored() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("abortTransaction", Drop(), error(251, "gone"))
        async with stage.client.start_session() as session:
            session.start_transaction()
            await stage.collection.insert_one({}, session=session)
            await session.abort_transaction()

    assert len(play(scenario, "retryWrites=false").primary.commands("abortTransaction")) == 2


def test_a_session_that_ends_aborts_its_transaction() -> None:
    async def scenario(stage: Stage) -> None:
        async with stage.client.start_session() as session:
            session.start_transaction()
            await stage.collection.insert_one({}, session=session)

    assert len(play(scenario).primary.commands("abortTransaction")) == 1


def test_an_operation_after_the_transaction_does_not_belong_to_it() -> None:
    async def scenario(stage: Stage) -> None:
        async with stage.client.start_session() as session:
            session.start_transaction()
            await stage.collection.insert_one({}, session=session)
            await session.commit_transaction()
            await stage.collection.insert_one({}, session=session)
            assert session.transaction.state is TransactionState.NONE

    last = play(scenario).primary.commands("insert")[-1]
    assert fields(last) == {"txnNumber": 2}


def test_write_concerns_of_collections_do_not_count_within() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("delete", {"ok": 1.0, "n": 1})
        things = stage.client.database("db").collection("things", write_concern=WriteConcern(w=0))
        async with stage.client.start_session() as session:
            session.start_transaction()
            deleted = await things.delete_one({}, session=session)
            assert deleted.deleted_count == 1

    assert "writeConcern" not in play(scenario).primary.commands("delete")[0]


# --- withTransaction ---


def _insert(stage: Stage) -> Any:
    async def callback(session: ClientSession) -> str:
        await stage.collection.insert_one({}, session=session)
        return "done"

    return callback


def test_with_transaction_returns_what_the_callback_returns() -> None:
    async def scenario(stage: Stage) -> None:
        async with stage.client.start_session() as session:
            assert await session.with_transaction(_insert(stage)) == "done"

    assert len(play(scenario).primary.commands("commitTransaction")) == 1


def test_an_error_of_the_callback_aborts_and_comes_out() -> None:
    async def scenario(stage: Stage) -> None:
        async def callback(session: ClientSession) -> None:
            await stage.collection.insert_one({}, session=session)
            raise LookupError("mine")

        async with stage.client.start_session() as session:
            with pytest.raises(LookupError, match="mine"):
                await session.with_transaction(callback)

    assert len(play(scenario).primary.commands("abortTransaction")) == 1


def test_a_transient_error_of_callback_or_commit_runs_the_transaction_again() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", TRANSIENT)
        stage.primary.will("commitTransaction", error(251, "gone", Label.TRANSIENT_TRANSACTION))
        async with stage.client.start_session() as session:
            await session.with_transaction(_insert(stage))

    inserts = play(scenario).primary.commands("insert")
    assert [insert["txnNumber"] for insert in inserts] == [1, 2, 3]


def test_a_commit_of_unknown_result_is_sent_again_alone() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("commitTransaction", concern_error(64), Drop(), Drop())
        async with stage.client.start_session() as session:
            await session.with_transaction(_insert(stage))

    stage = play(scenario)
    assert len(stage.primary.commands("insert")) == 1
    assert len(stage.primary.commands("commitTransaction")) == 4


@pytest.mark.parametrize("answer", [error(50, "too late"), concern_error(50), concern_error(100)])
def test_a_commit_whose_time_is_over_or_whose_concern_cannot_be_met_is_not_sent_again(
    answer: dict[str, Any],
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("commitTransaction", answer)
        async with stage.client.start_session() as session:
            with pytest.raises(ServerError):
                await session.with_transaction(_insert(stage))

    assert len(play(scenario).primary.commands("commitTransaction")) == 1


def test_a_callback_may_end_the_transaction_itself() -> None:
    async def scenario(stage: Stage) -> None:
        async def commits(session: ClientSession) -> None:
            await stage.collection.insert_one({}, session=session)
            await session.commit_transaction()

        async def aborts(session: ClientSession) -> None:
            await stage.collection.insert_one({}, session=session)
            await session.abort_transaction()

        async with stage.client.start_session() as session:
            await session.with_transaction(commits)
            await session.with_transaction(aborts)

    stage = play(scenario)
    assert len(stage.primary.commands("commitTransaction")) == 1
    assert len(stage.primary.commands("abortTransaction")) == 1


@pytest.mark.parametrize(
    ("edition", "seconds"),
    [(EDITION_2026_02_20, 1.79), (EDITION_2026_07_08, 2.28)],
    ids=["old", "new"],
)
def test_thirteen_backoffs_without_luck_add_up(edition: Edition, seconds: float) -> None:
    waits = [backoff_before(attempt, 1.0, edition.first_transaction_exponent) for attempt in range(1, 14)]
    assert sum(waits) == pytest.approx(seconds, abs=0.01)
    assert max(waits) == 0.5
    assert backoff_before(5, 0.0, 1) == 0.0


@pytest.mark.parametrize(
    ("edition", "kind"),
    [(EDITION_2026_02_20, ServerError), (EDITION_2026_07_08, OperationTimeoutError)],
    ids=["2026-02-20", "2026-07-08"],
)
@pytest.mark.parametrize("command", ["insert", "commitTransaction"])
def test_after_two_minutes_the_last_error_comes_out(
    edition: Edition, kind: type[DriverError], command: str
) -> None:
    async def scenario(stage: Stage) -> None:
        started = stage.world.clock.now()
        async with stage.client.start_session() as session:
            stage.primary.will(command, *[TRANSIENT] * 2000)
            with pytest.raises(kind) as raised:
                await session.with_transaction(_insert(stage))
        assert 118 < stage.world.clock.now() - started <= 120
        assert raised.value.has_label(Label.TRANSIENT_TRANSACTION)

    play(scenario, edition=edition)


def test_an_unknown_commit_result_is_pursued_for_two_minutes() -> None:
    async def scenario(stage: Stage) -> None:
        started = stage.world.clock.now()

        async def callback(session: ClientSession) -> None:
            await stage.collection.insert_one({}, session=session)
            await stage.world.clock.sleep_until(started + 121)

        stage.primary.will("commitTransaction", concern_error(64), concern_error(64))
        async with stage.client.start_session() as session:
            with pytest.raises(WriteConcernError):
                await session.with_transaction(callback)

    assert len(play(scenario).primary.commands("commitTransaction")) == 1

"""Client Backpressure and Retryable Reads against scripted members in virtual time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from driven_client import Stage, discovered, play
from scripted_mongod import Drop, ScriptedMongod, error, mongos_hello

from driver import ReadPreference, WriteConcern
from driver.concerns import ReadMode
from driver.editions import EDITION_2026_02_20, EDITION_2026_07_08
from driver.errors import DriverError, NetworkError, ServerError
from driver.policy.backpressure import TokenBucket
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from driver.editions import Edition

OVERLOADED = error(462, "rate exceeded", Label.SYSTEM_OVERLOADED, Label.RETRYABLE)
NOT_RETRYABLE_OVERLOAD = error(462, "rate exceeded", Label.SYSTEM_OVERLOADED)
CURSOR = {"ok": 1.0, "cursor": {"id": 0, "ns": "db.things", "firstBatch": []}}

OPERATIONS: dict[str, tuple[str, Callable[[Stage], Awaitable[Any]]]] = {
    "update": ("update", lambda s: s.collection.update_many({}, {"$set": {"x": 1}})),
    "insert": ("insert", lambda s: s.collection.insert_one({"_id": 1})),
    "find": ("find", lambda s: s.collection.find_one({})),
    "ping": ("ping", lambda s: s.client.command("admin", {"ping": 1})),
}


def starve(stage: Stage, command: str, times: int, answer: dict[str, Any] = OVERLOADED) -> None:
    stage.primary.will(command, *[answer] * times)
    stage.primary.will(command, {**CURSOR, "n": 1})


def attempts(
    operation: str,
    options: str = "",
    *,
    times: int = 100,
    answer: dict[str, Any] = OVERLOADED,
    edition: Edition = EDITION_2026_02_20,
) -> tuple[int, Stage]:
    """Return how often the command was sent; errors are swallowed."""
    command, run = OPERATIONS[operation]

    async def scenario(stage: Stage) -> None:
        starve(stage, command, times, answer)
        try:
            await run(stage)
        except DriverError:
            return

    stage = play(scenario, options, edition=edition)
    return len(stage.primary.commands(command)), stage


@pytest.mark.spec("CB-30")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(("edition", "retries"), [(EDITION_2026_02_20, 5), (EDITION_2026_07_08, 2)])
def test_every_command_is_retried_on_retryable_overload_up_to_the_maximum(
    operation: str, edition: Edition, retries: int
) -> None:
    assert attempts(operation, edition=edition)[0] == retries + 1


@pytest.mark.spec("CB-29")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_overload_error_without_the_retryable_label_is_not_retried(operation: str) -> None:
    assert attempts(operation, answer=NOT_RETRYABLE_OVERLOAD)[0] == 1


@pytest.mark.spec("CB-29", "CB-41")
@pytest.mark.parametrize("operation", ["update", "find", "ping"])
def test_an_error_that_is_retryable_but_no_overload_is_not_for_this_policy(operation: str) -> None:
    assert attempts(operation, answer=error(8, "try again", Label.RETRYABLE))[0] == 1


@pytest.mark.spec("CB-11", "CB-12", "CB-36")
def test_an_overload_error_that_another_policy_retries_is_waited_for_and_paid_for() -> None:
    """Of the two labels it has one; Retryable Writes needs neither."""
    answer = error(462, "rate exceeded", Label.SYSTEM_OVERLOADED, Label.RETRYABLE_WRITE)
    _, once = attempts("insert", times=0)
    sent, overloaded = attempts("insert", "adaptiveRetries=true", times=100, answer=answer)
    jitter = once.world.rng.spawn("client").spawn("jitter")
    expected = sum(0.1 * 2**retry * jitter.random() for retry in range(5))
    assert sent == 6
    assert expected <= overloaded.ended - once.ended < expected + 0.05
    assert isinstance(overloaded.client.executor.budget, TokenBucket)
    assert overloaded.client.executor.budget.tokens < 996


@pytest.mark.spec("CB-1", "CB-32")
@pytest.mark.parametrize(
    ("operation", "options", "sent"),
    [
        ("find", "retryReads=false", 1),
        ("find", "retryWrites=false", 2),
        ("update", "retryWrites=false", 1),
        ("update", "retryReads=false", 2),
        ("ping", "retryReads=false", 1),
        ("ping", "retryWrites=false", 1),
        ("ping", "", 2),
    ],
)
def test_the_retry_options_switch_overload_retries_off_too(operation: str, options: str, sent: int) -> None:
    assert attempts(operation, options, times=1)[0] == sent


@pytest.mark.spec("CB-30")
def test_max_adaptive_retries_is_an_option_of_the_newer_edition() -> None:
    assert attempts("find", "maxAdaptiveRetries=1", edition=EDITION_2026_07_08)[0] == 2
    assert attempts("find", "maxAdaptiveRetries=1")[0] == 6


@pytest.mark.spec("CB-2", "CB-12", "CB-40")
def test_the_backoff_is_spent_between_attempts() -> None:
    _, once = attempts("insert", times=0)
    _, thrice = attempts("insert", times=2)
    jitter = once.world.rng.spawn("client").spawn("jitter")
    expected = 0.1 * jitter.random() + 0.2 * jitter.random()
    assert expected <= thrice.ended - once.ended < expected + 0.05


def test_the_server_s_base_backoff_stretches_the_wait_in_the_newer_edition() -> None:
    def elapsed(answer: dict[str, Any]) -> float:
        _, stage = attempts("find", times=2, answer=answer, edition=EDITION_2026_07_08)
        return stage.ended

    assert elapsed({**OVERLOADED, "baseBackoffMS": 2000}) > elapsed(OVERLOADED) + 1.0
    assert elapsed({**OVERLOADED, "baseBackoffMS": 0}) == elapsed(OVERLOADED)


@pytest.mark.spec("CB-31")
def test_a_backoff_beyond_the_deadline_is_not_begun() -> None:
    sent, stage = attempts("find", "timeoutMS=50")
    assert sent < 4
    assert stage.ended < 0.2


@pytest.mark.spec("CB-35", "CB-39")
@pytest.mark.parametrize("options", ["", "&timeoutMS=20", "&timeoutMS=400", "&retryReads=false"])
def test_every_retry_costs_a_token_and_one_that_is_not_made_costs_none(options: str) -> None:
    async def scenario(stage: Stage) -> None:
        starve(stage, "find", 100)
        with pytest.raises(DriverError):
            await stage.collection.find_one({})
        budget = stage.client.executor.budget
        assert isinstance(budget, TokenBucket)
        assert budget.tokens == budget.capacity - (len(stage.primary.commands("find")) - 1)

    play(scenario, "adaptiveRetries=true" + options)


@pytest.mark.spec("CB-33")
def test_for_the_error_that_comes_out_run_command_is_a_write() -> None:
    """That of the second attempt says that nothing was written, and hides what the first one may have."""

    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", OVERLOADED, error(8, "nothing written", Label.NO_WRITES_PERFORMED))
        with pytest.raises(ServerError, match="rate exceeded"):
            await stage.client.command("admin", {"ping": 1})

    play(scenario)


@pytest.mark.spec("CB-7", "CB-11", "CB-34")
def test_overload_retries_pay_from_the_bucket_and_stop_when_it_is_empty() -> None:
    async def scenario(stage: Stage) -> None:
        budget = stage.client.executor.budget
        assert isinstance(budget, TokenBucket)
        budget.tokens = 2.0
        starve(stage, "find", 100)
        with pytest.raises(ServerError):
            await stage.collection.find_one({})
        assert budget.tokens == 0.0

    assert len(play(scenario, "adaptiveRetries=true").primary.commands("find")) == 3


@pytest.mark.spec("CB-7", "CB-8", "CB-9", "CB-10")
def test_successes_and_other_errors_fill_the_bucket() -> None:
    async def scenario(stage: Stage) -> None:
        budget = stage.client.executor.budget
        assert isinstance(budget, TokenBucket)
        budget.tokens = 10.0
        await stage.client.command("admin", {"ping": 1})
        assert budget.tokens == pytest.approx(10.1)
        stage.primary.will("ping", OVERLOADED)
        await stage.client.command("admin", {"ping": 1})
        assert budget.tokens == pytest.approx(10.1 - 1 + 1.1)
        stage.primary.will("ping", OVERLOADED, error(59, "no such command"))
        with pytest.raises(ServerError):
            await stage.client.command("admin", {"ping": 1})
        assert budget.tokens == pytest.approx(10.2)

    play(scenario, "adaptiveRetries=true")


@pytest.mark.spec("CB-14")
def test_the_bucket_is_off_by_default_and_unknown_to_the_newer_edition() -> None:
    async def scenario(stage: Stage) -> None:
        assert not isinstance(stage.client.executor.budget, TokenBucket)

    play(scenario)
    play(scenario, "adaptiveRetries=true", edition=EDITION_2026_07_08)


@pytest.mark.spec("CB-3")
def test_an_overloaded_member_is_avoided_by_the_retry() -> None:
    asked: list[str] = []

    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        for member in stage.members:
            member.will("find", *[partial(answer, member.address)] * 20)
        nearest = ReadPreference(ReadMode.NEAREST)
        for _ in range(10):
            await stage.client.database("db").collection("things", read_preference=nearest).find_one({})

    def answer(address: str, _command: dict[str, Any]) -> dict[str, Any]:
        asked.append(address)
        return OVERLOADED if len(asked) % 2 else CURSOR

    play(scenario, "localThresholdMS=1000")
    assert len(asked) == 20
    assert [first for first, second in zip(asked[::2], asked[1::2], strict=True) if first == second] == []


def test_an_overload_while_establishing_clears_no_pool_and_is_retried() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        stage.primary.will("isMaster", Drop(), Drop())
        await stage.client.command("admin", {"ping": 1})

    stage = play(scenario, "heartbeatFrequencyMS=100000")
    assert stage.of_kind("poolClearedEvent") == []
    assert len(stage.of_kind("connectionCheckOutFailedEvent")) == 2
    failure = stage.of_kind("connectionCheckOutFailedEvent")[0].error
    assert failure.has_label(Label.SYSTEM_OVERLOADED)
    assert failure.has_label(Label.RETRYABLE)


@pytest.mark.spec("CB-18")
def test_the_handshake_says_that_the_client_knows_backpressure() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})

    for edition, value in ((EDITION_2026_02_20, True), (EDITION_2026_07_08, "2")):
        stage = play(scenario, edition=edition)
        assert {hello["backpressure"] for hello in stage.primary.hellos if "client" in hello} == {value}


# --- retryable reads ---


@pytest.mark.parametrize("answer", [Drop(), error(91), error(134), error(10107)])
def test_a_read_is_retried_once_after_a_retryable_error(answer: Any) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", answer, CURSOR)
        await stage.collection.find_one({})

    assert len(play(scenario).primary.commands("find")) == 2


@pytest.mark.parametrize(
    ("answer", "options"), [(error(11000), ""), (Drop(), "retryReads=false"), (error(91), "retryReads=false")]
)
def test_a_read_is_not_retried_after_another_error_or_when_switched_off(answer: Any, options: str) -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", answer)
        with pytest.raises(DriverError) as info:
            await stage.collection.find_one({})
        assert not info.value.has_label(Label.RETRYABLE_WRITE)

    assert len(play(scenario, options).primary.commands("find")) == 1


def test_a_get_more_is_not_a_retryable_read() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", {"ok": 1.0, "cursor": {"id": 5, "ns": "db.things", "firstBatch": [{}]}})
        stage.primary.will("getMore", Drop())
        cursor = await stage.collection.find({})
        with pytest.raises(NetworkError):
            await cursor.to_list()

    stage = play(scenario)
    assert len(stage.primary.commands("getMore")) == 1
    assert stage.primary.commands("killCursors") == []


def test_a_get_more_is_retried_on_overload_and_then_its_cursor_is_killed() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("find", {"ok": 1.0, "cursor": {"id": 5, "ns": "db.things", "firstBatch": [{}]}})
        stage.primary.will("getMore", *[OVERLOADED] * 6)
        cursor = await stage.collection.find({})
        with pytest.raises(ServerError):
            await cursor.to_list()

    stage = play(scenario)
    assert len(stage.primary.commands("getMore")) == 6
    assert stage.primary.commands("killCursors")[0]["cursors"] == [5]


@pytest.mark.spec("RW-17")
def test_an_unacknowledged_write_is_never_retried() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        stage.primary.will("isMaster", Drop())
        collection = stage.client.database("db").collection("things", write_concern=WriteConcern(0))
        with pytest.raises(NetworkError):
            await collection.insert_one({})

    assert play(scenario, "heartbeatFrequencyMS=100000").primary.commands("insert") == []


def test_mongos_that_failed_are_avoided_for_reads_too() -> None:
    async def scenario(stage: Stage) -> None:
        for mongos in stage.members:
            mongos.will("find", error(91), CURSOR)
        with pytest.raises(ServerError):
            await stage.collection.find_one({})

    stage = play(scenario, members=[ScriptedMongod(port, mongos_hello()) for port in (1, 2)])
    assert [len(mongos.commands("find")) for mongos in stage.members] == [1, 1]

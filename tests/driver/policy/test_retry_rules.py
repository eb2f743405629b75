"""Rules of Retryable Writes and Client Backpressure that no other test holds, each with its id."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from driven_client import Stage, discovered, play
from scripted_mongod import NO_DOCUMENTS, Drop, ScriptedMongod, error, member_hello, mongos_hello

from driver import AsyncClient, ReadMode, ReadPreference
from driver.collection import Collection
from driver.database import Database
from driver.errors import DriverError, InvalidArgumentError, NetworkError, ServerError
from driver.operations.models import DeleteOne, InsertOne, UpdateMany, UpdateOne
from driver.options import ClientOptions
from driver.policy.backpressure import TokenBucket
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Callable

OVERLOADED = error(462, "rate exceeded", Label.SYSTEM_OVERLOADED, Label.RETRYABLE)
GOING = error(91, "going", Label.RETRYABLE_WRITE)


# --- Retryable Writes ---


@pytest.mark.spec("RW-2", "RW-3", "RW-5")
def test_retry_writes_has_its_name_in_strings_and_is_on_by_default() -> None:
    assert ClientOptions.of_uri("mongodb://a/")[0].retry_writes
    assert not ClientOptions.of_uri("mongodb://a/?retryWrites=false")[0].retry_writes
    assert not ClientOptions.of_uri("mongodb://a/", {"retryWrites": False})[0].retry_writes


@pytest.mark.spec("RW-6")
def test_no_database_collection_or_operation_takes_retry_writes() -> None:
    methods: list[Callable[..., Any]] = [AsyncClient.database, Database.collection]
    methods += [method for _, method in inspect.getmembers(Collection, inspect.isfunction)]
    named = {name for method in methods for name in inspect.signature(method).parameters}
    assert not [name for name in named if "retry" in name]

    async def scenario(stage: Stage) -> None:
        with pytest.raises(InvalidArgumentError):
            await stage.collection.insert_one({}, retryWrites=False)

    play(scenario)


@pytest.mark.spec("RW-43", "RW-48")
def test_discovery_learns_of_the_first_error_and_of_the_one_of_the_retry() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", GOING, GOING)
        with pytest.raises(ServerError):
            await stage.collection.insert_one({})

    stage = play(scenario)
    lost = [
        event
        for event in stage.of_kind("serverDescriptionChangedEvent")
        if event.previous_description.is_known and not event.new_description.is_known
    ]
    assert [event.address for event in lost] == [stage.primary.address] * 2
    assert [event.new_description.error.code for event in lost] == [91, 91]


@pytest.mark.spec("RW-45")
def test_the_retry_goes_to_whoever_is_writable_by_then() -> None:
    async def scenario(stage: Stage) -> None:
        old, new = stage.members

        def step_down(_command: dict[str, Any]) -> dict[str, Any]:
            old.hello = member_hello([1, 2], 1, primary=2)
            new.hello = member_hello([1, 2], 2, primary=2, setVersion=2)
            return error(10107, "not primary", Label.RETRYABLE_WRITE)

        old.will("insert", step_down)
        await stage.collection.insert_one({})

    stage = play(scenario, "heartbeatFrequencyMS=500")
    assert [len(member.commands("insert")) for member in stage.members] == [1, 1]


@pytest.mark.spec("RW-46", "CB-3")
@pytest.mark.parametrize("answer", [OVERLOADED, error(262, "busy", Label.RETRYABLE_WRITE)])
def test_a_retry_never_asks_the_mongos_that_failed_again(answer: dict[str, Any]) -> None:
    inserts = 6
    refused: list[int] = []

    def once_each(command: dict[str, Any]) -> dict[str, Any]:
        number = command["documents"][0]["_id"]
        if number in refused:
            return {"ok": 1.0, "n": 1}
        refused.append(number)
        return answer

    async def scenario(stage: Stage) -> None:
        for mongos in stage.members:
            mongos.will("insert", *[once_each] * inserts * 2)
        for number in range(inserts):
            await stage.collection.insert_one({"_id": number})

    stage = play(
        scenario, "localThresholdMS=1000", members=[ScriptedMongod(p, mongos_hello()) for p in (1, 2)]
    )
    asked = [event.connection_id for event in stage.of_kind("commandStartedEvent")][: 2 * inserts]
    assert all(first != second for first, second in zip(asked[::2], asked[1::2], strict=True))


@pytest.mark.spec("CB-3")
def test_after_overload_a_read_goes_to_another_member() -> None:
    async def scenario(stage: Stage) -> None:
        await discovered(stage)
        nearest = ReadPreference(ReadMode.NEAREST)
        collection = stage.client.database("db").collection("things", read_preference=nearest)
        for _ in range(8):
            refused.clear()
            for member in stage.members:
                member.script["find"] = deque([once] * 2)
            await collection.find_one({})

    refused: list[dict[str, Any]] = []

    def once(command: dict[str, Any]) -> dict[str, Any]:
        refused.append(command)
        return OVERLOADED if len(refused) == 1 else dict(NO_DOCUMENTS)

    started = play(scenario, "localThresholdMS=1000").of_kind("commandStartedEvent")
    asked = [event.connection_id for event in started if event.command_name == "find"]
    assert len(asked) == 16
    assert all(first != second for first, second in zip(asked[::2], asked[1::2], strict=True))


@pytest.mark.spec("RW-13", "RW-20")
def test_a_command_is_judged_by_what_it_carries_after_the_split() -> None:
    async def scenario(stage: Stage) -> None:
        change = {"$set": {"x": 1}}
        await stage.collection.bulk_write(
            [UpdateOne(filter={}, update=change), UpdateMany(filter={}, update=change)]
        )

    one_by_one = [ScriptedMongod(1, member_hello([1], 1, primary=1, maxWriteBatchSize=1))]
    sent = play(scenario, members=one_by_one).primary.commands("update")
    assert [command.get("txnNumber") for command in sent] == [1, None]


@pytest.mark.spec("RW-22")
def test_a_labelled_error_within_a_transaction_is_not_retried() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", GOING)
        async with stage.client.start_session() as session:
            session.start_transaction()
            with pytest.raises(ServerError):
                await stage.collection.insert_one({}, session=session)

    assert len(play(scenario).primary.commands("insert")) == 1


@pytest.mark.spec("RW-57")
def test_the_commands_of_a_bulk_write_share_an_operation_id_that_is_not_their_transaction_number() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.client.command("admin", {"ping": 1})
        stage.primary.will("insert", GOING)
        await stage.collection.bulk_write([InsertOne(document={"_id": 1}), DeleteOne(filter={})])

    started = play(scenario).of_kind("commandStartedEvent")[1:4]
    assert [event.command_name for event in started] == ["insert", "insert", "delete"]
    assert [event.command["txnNumber"] for event in started] == [1, 1, 2]
    assert {event.operation_id for event in started} == {2}
    assert len({event.request_id for event in started}) == 3


# --- Client Backpressure ---


@pytest.mark.spec("CB-5")
def test_an_overloaded_write_is_sent_again_with_its_transaction_id() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", OVERLOADED, OVERLOADED)
        await stage.collection.insert_one({})

    sent = play(scenario).primary.commands("insert")
    assert [command["txnNumber"] for command in sent] == [1, 1, 1]
    assert len({command["lsid"]["id"] for command in sent}) == 1


@pytest.mark.spec("CB-6")
def test_after_overload_the_error_that_tells_of_a_possible_write_stands() -> None:
    kept: list[DriverError] = []

    async def scenario(stage: Stage) -> None:
        nothing = {**OVERLOADED, "errorLabels": [*OVERLOADED["errorLabels"], Label.NO_WRITES_PERFORMED]}
        stage.primary.will("insert", Drop(), *[nothing] * 5)
        with pytest.raises(DriverError) as info:
            await stage.collection.insert_one({})
        kept.append(info.value)

    stage = play(scenario)
    assert len(stage.primary.commands("insert")) == 6
    assert isinstance(kept[0], NetworkError)


@pytest.mark.spec("CB-15", "CB-16")
def test_each_client_has_a_bucket_of_its_own_for_its_whole_life() -> None:
    buckets: list[Any] = []

    async def scenario(stage: Stage) -> None:
        bucket = stage.client.executor.budget
        assert isinstance(bucket, TokenBucket)
        stage.primary.will("ping", OVERLOADED)
        await stage.client.command("admin", {"ping": 1})
        assert stage.client.executor.budget is bucket
        buckets.append(bucket)

    for _ in range(2):
        play(scenario, "adaptiveRetries=true")
    assert buckets[0] is not buckets[1]


class Unhurried(float):
    """A number that lets other threads run between the reading of a sum and its writing."""

    def __radd__(self, other: float) -> float:
        time.sleep(0)
        return other + float(self)

    def __rsub__(self, other: float) -> float:
        time.sleep(0)
        return other - float(self)


@pytest.mark.spec("CB-17")
@pytest.mark.slow
def test_sixteen_threads_lose_and_invent_no_token() -> None:
    threads, rounds = 16, 50
    bucket, together, one = TokenBucket(capacity=1e6), Barrier(threads), Unhurried(1)
    bucket.tokens = float(threads)

    def spend(_thread: int) -> int:
        together.wait()
        taken = 0
        for _ in range(rounds):
            taken += bucket.consume(one)
            bucket.deposit(one)
        return taken

    with ThreadPoolExecutor(threads) as pool:
        taken = sum(pool.map(spend, range(threads)))
    assert bucket.tokens == threads + threads * rounds - taken


@pytest.mark.spec("CB-20", "CB-21")
def test_every_overloaded_attempt_has_its_started_and_its_failed_event() -> None:
    async def scenario(stage: Stage) -> None:
        stage.primary.will("ping", OVERLOADED, OVERLOADED)
        await asyncio.gather(stage.client.command("admin", {"ping": 1}))

    stage = play(scenario)
    failed = ["commandStarted", "commandFailed"]
    assert stage.kinds()[:6] == [*failed, *failed, "commandStarted", "commandSucceeded"]
    assert len({event.request_id for event in stage.of_kind("commandStartedEvent")[:3]}) == 3


@pytest.mark.spec("RW-28")
def test_a_reply_of_a_labelling_server_gets_no_label_of_ours() -> None:
    kept: list[DriverError] = []

    async def scenario(stage: Stage) -> None:
        stage.primary.will("insert", error(91, "going"))
        with pytest.raises(ServerError) as info:
            await stage.collection.insert_one({})
        kept.append(info.value)

    play(scenario, members=[ScriptedMongod(1, member_hello([1], 1, primary=1, maxWireVersion=9))])
    assert kept[0].labels == ()

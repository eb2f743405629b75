"""What was asked can be verified: at once, later, never, too often; and the text says what came near."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from bson import Int64
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from talking import REPLICA_SET, STANDALONE, Deployment, Talker, lsid, play

from fakeserver import BackgroundCluster, ClusterSpec
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENT = {"application": {"name": "shop"}, "driver": {"name": "d", "version": "1"}, "os": {"type": "o"}}
HELLO = {"hello": 1, "client": CLIENT}
FIND = {"find": "orders", "filter": {"status": "open"}, "$db": "shop"}


async def later(deployment: Deployment, seconds: float, talker: Talker, command: dict[str, Any]) -> None:
    await deployment.sleep(seconds)
    await talker.command(command)


async def asked(deployment: Deployment) -> Talker:
    """Send a hello, three finds of which two fail, and an insert."""
    talker = await deployment.connect()
    await talker.ok(HELLO)
    await deployment.fail_command({"times": 2}, "find", errorCode=91)
    for _ in range(3):
        await talker.command(FIND)
    await talker.ok({"insert": "carts", "documents": [{"_id": 1}], "$db": "shop"})
    return talker


@pytest.mark.parametrize(
    ("expected", "count"),
    [
        ({"command": "find"}, 3),
        ({"command": ["find", "insert"]}, 4),
        ({"command": "find", "count": 3}, 3),
        ({"command": "find", "at_least": 2, "at_most": 3}, 3),
        ({"command": "delete", "count": 0}, 0),
        ({"command": "delete", "at_most": 1}, 0),
        ({"command": "find", "outcome": 91, "count": 2}, 2),
        ({"command": "find", "outcome": "ShutdownInProgress", "count": 2}, 2),
        ({"outcome": "error", "count": 2}, 2),
        ({"namespace": "shop.*", "count": 4}, 4),
        ({"app_name": "shop", "namespace": "shop.carts"}, 1),
        ({"node": "primary", "command": "find"}, 3),
        ({"document": {"filter.status": "open"}, "count": 3}, 3),
        ({"kind": "failPointHit", "count": 2}, 2),
        ({"verdict": "admitted", "command": "insert"}, 1),
        ({"command": "hello", "app_name": "shop"}, 1),
    ],
    ids=lambda each: str(each)[:50],
)
def test_what_was_asked_is_verified(expected: dict[str, Any], count: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        await asked(deployment)
        verified = deployment.cluster.control.verify(**expected)
        assert (verified["count"], len(verified["records"])) == (count, count)

    play(scenario, REPLICA_SET)


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ({"command": "find", "count": 2}, ["2 find requests expected, 3 came; the last: #"]),
        ({"command": "find", "at_most": 1}, ["0 to 1 find requests expected, 3 came"]),
        (
            {"command": "find", "namespace": "shop.carts"},
            ["1 or more find requests on shop.carts expected, 0 came; nearest: ", "namespace is shop.orders"],
        ),
        ({"command": "insert", "outcome": "error"}, ["insert shop.carts -> ok at node0: outcome is ok"]),
        ({"command": "insert", "app_name": "till"}, ["appName is shop"]),
        ({"command": "insert", "document": {"ordered": False}}, ["its document does not match"]),
        ({"command": "insert", "verdict": "queued"}, ["verdict is admitted"]),
        ({"kind": "ruleHit"}, ["1 or more ruleHit expected, 0 came"]),
    ],
    ids=lambda each: str(each)[:50],
)
def test_what_was_not_is_told_with_what_came_nearest(expected: dict[str, Any], words: list[str]) -> None:
    async def scenario(deployment: Deployment) -> None:
        await asked(deployment)
        with pytest.raises(ControlError) as caught:
            deployment.cluster.control.verify(**expected)
        for each in words:
            assert each in str(caught.value)

    play(scenario, REPLICA_SET)


def test_drivers_own_commands_are_counted_only_when_they_are_asked_for() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"hello": 1})
        await talker.ok({"pushbackd": "countJournal"})
        control = deployment.cluster.control
        assert control.verify(count=0)["count"] == 0
        assert control.verify(command="hello", count=1)["count"] == 1

    play(scenario, STANDALONE)


def test_what_is_missing_is_awaited_no_longer_than_needed() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, clock = await deployment.connect(), deployment.world.clock
        task = asyncio.ensure_future(later(deployment, 3.0, talker, FIND))
        began = clock.now()
        outcome = await deployment.cluster.control.verify(command="find", count=1, within="10s")
        assert outcome["count"] == 1
        assert clock.now() - began == pytest.approx(3.0, abs=0.1)
        await task

    play(scenario, STANDALONE)


def test_that_nothing_comes_is_known_at_the_end() -> None:
    async def scenario(deployment: Deployment) -> None:
        clock = deployment.world.clock
        began = clock.now()
        assert (await deployment.cluster.control.verify(command="find", count=0, within="10s"))["count"] == 0
        assert clock.now() - began == pytest.approx(10.0, abs=0.1)

    play(scenario, STANDALONE)


def test_what_must_not_come_is_known_when_it_comes() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, clock = await deployment.connect(), deployment.world.clock
        task = asyncio.ensure_future(later(deployment, 3.0, talker, FIND))
        began = clock.now()
        with pytest.raises(ControlError, match="0 find requests expected, 1 came"):
            await deployment.cluster.control.verify(command="find", count=0, within="10s")
        assert clock.now() - began == pytest.approx(3.0, abs=0.1)
        await task

    play(scenario, STANDALONE)


def test_nothing_listens_when_a_wait_is_over() -> None:
    async def scenario(deployment: Deployment) -> None:
        control, journal = deployment.cluster.control, deployment.cluster.journal
        with pytest.raises(ControlError, match="1 or more find requests expected, 0 came"):
            await control.verify(command="find", within="2s")
        assert journal.changed.listeners == {}

    play(scenario, STANDALONE)


def test_a_wait_ends_with_the_deployment() -> None:
    outcomes: list[Any] = []

    async def scenario(deployment: Deployment) -> None:
        outcomes.append(deployment.cluster.control.verify(command="find", within="1h"))

    play(scenario, STANDALONE)
    assert outcomes[0].done


@pytest.mark.parametrize(
    ("wanted", "seen"),
    [
        ({}, ["primaryElected", "connectionAccepted", "commandFinished", "commandFinished"]),
        ({"limit": 1}, ["commandFinished"]),
        ({"since": 1, "limit": 2}, ["connectionAccepted", "commandFinished"]),
        ({"kind": "connectionAccepted"}, ["connectionAccepted"]),
        ({"since": 4}, []),
    ],
    ids=str,
)
def test_the_journal_is_read_from_the_end_or_from_a_number(wanted: dict[str, Any], seen: list[str]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"ping": 1})
        await talker.ok({"ping": 1})
        outcome = deployment.cluster.control.read_journal(**wanted)
        assert [record["kind"] for record in outcome["records"]] == seen
        assert (outcome["last"], outcome["dropped"]) == (4, 0)
        assert all("request" not in record for record in outcome["records"])
        last = deployment.cluster.control.read_journal(limit=1, documents=True)["records"][0]
        assert (last["request"]["ping"], last["reply"]["ok"]) == (1, 1.0)

    play(scenario, REPLICA_SET)


def test_the_gaps_between_attempts_show_whether_a_driver_backs_off() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command({"times": 2}, "insert", errorCode=91)
        insert = {"insert": "orders", "documents": [{"_id": 1}], "$db": "shop", "lsid": lsid()}
        for wait in (0.1, 0.2, 0.0):
            await talker.command({**insert, "txnNumber": Int64(1)})
            await deployment.sleep(wait)
        await talker.ok({"find": "orders", "$db": "shop", "lsid": lsid()})
        control = deployment.cluster.control
        (operation,) = control.attempts()["operations"]
        assert (operation["command"], operation["namespace"]) == ("insert", "shop.orders")
        assert [each["outcome"] for each in operation["attempts"]] == [91, 91, "ok"]
        assert operation["gaps"] == [pytest.approx(0.1, abs=0.01), pytest.approx(0.2, abs=0.01)]
        assert len(control.attempts(least=1, namespace="shop.orders")["operations"]) == 2
        assert control.attempts(command="find")["operations"] == []

    play(scenario, REPLICA_SET)


def test_admission_is_told_as_it_was_decided() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, second, third = [await deployment.connect() for _ in range(3)]
        settings = {
            "serviceTimeBaseMillis": 100,
            "executionControlConcurrencyAdjustmentAlgorithm": "fixedConcurrentTransactions",
            "executionControlConcurrentReadTransactions": 1,
            "executionControlReadMaxQueueDepth": 1,
        }
        await first.ok({"setParameter": 1, **settings})
        await asyncio.gather(first.command(FIND), second.command(FIND), third.command(FIND))
        found = deployment.cluster.control.read_journal(command="find")["records"]
        verdicts = [(each["verdict"], each.get("queue"), each["outcome"]) for each in found]
        assert verdicts == [
            ("rejected", "executionTickets", 433),
            ("admitted", None, "ok"),
            ("queued", "executionTickets", "ok"),
        ]
        (waits,) = deployment.cluster.control.read_journal(kind="requestQueued")["records"]
        assert (waits["command"], waits["queue"]) == ("find", "executionTickets")
        assert [each["duration"] for each in found] == [0.0, 0.1, pytest.approx(0.2, abs=0.01)]

    play(scenario, STANDALONE)


def test_a_request_that_is_given_up_while_it_waits_is_told() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        deployment.cluster.nodes[0].parameters.set({"abandonedRequests": "atOnce"})
        await deployment.fail_command("alwaysOn", "find", blockConnection=True, blockTimeMS=60_000)
        await talker.send(FIND)
        await deployment.sleep(2.0)
        await talker.aclose()
        await deployment.sleep(0.1)
        (given_up,) = deployment.cluster.control.read_journal(kind="requestAbandoned")["records"]
        assert (given_up["command"], given_up["db"]) == ("find", "shop")
        assert given_up["waited"] == pytest.approx(2.0, abs=0.01)
        assert "find shop given up after 2 s" in deployment.cluster.journal.to_text()

    play(scenario, STANDALONE)


# The collection, and callers of other threads.


@pytest.fixture(scope="module")
def server() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(ClusterSpec.replica_set(2)) as running:
        yield running


@pytest.fixture
def client(server: BackgroundCluster) -> Iterator[MongoClient[dict[str, Any]]]:
    server.control.reset()
    connected: MongoClient[dict[str, Any]] = MongoClient(server.uri, appname="till")
    with connected:
        yield connected


def test_pymongo_reads_the_journal_as_a_collection(client: MongoClient[dict[str, Any]]) -> None:
    client.shop.orders.insert_many([{"n": number} for number in range(3)])
    list(client.shop.orders.find({"n": {"$gt": 1}}))
    journal = client.local.pushbackd.journal
    (found,) = journal.find({"command": "find", "namespace": "shop.orders"})
    assert (found["_id"], found["appName"], found["outcome"]) == (found["seq"], "till", "ok")
    assert found["request"]["filter"] == {"n": {"$gt": 1}}
    assert len(found["reply"]["cursor"]["firstBatch"]) == 1
    assert journal.count_documents({"request.filter.n": {"$exists": True}}) == 1
    assert journal.estimated_document_count() > 3
    newest = list(journal.find({"kind": "commandFinished"}, {"_id": 1}).sort("_id", -1).limit(2))
    assert [set(each) for each in newest] == [{"_id"}, {"_id"}]
    assert newest[0]["_id"] > newest[1]["_id"]
    groups = journal.aggregate(
        [{"$match": {"db": "shop"}}, {"$group": {"_id": "$command", "n": {"$sum": 1}}}]
    )
    assert {each["_id"]: each["n"] for each in groups} == {"insert": 1, "find": 1}


def test_reading_the_journal_is_told_without_what_was_read(client: MongoClient[dict[str, Any]]) -> None:
    journal = client.local.pushbackd.journal
    for _ in range(3):
        list(journal.find())
    assert all("reply" not in each for each in journal.find({"namespace": "local.pushbackd.journal"}))


@pytest.mark.parametrize("write", ["insert_one", "delete_many", "drop"])
def test_the_collection_cannot_be_written_to(client: MongoClient[dict[str, Any]], write: str) -> None:
    arguments: list[Any] = [] if write == "drop" else [{}]
    with pytest.raises(OperationFailure, match="is read-only"):
        getattr(client.local.pushbackd.journal, write)(*arguments)


def test_a_secondary_and_a_mongos_show_the_same_journal() -> None:
    async def scenario(deployment: Deployment) -> None:
        for node in deployment.cluster.servers:
            talker = await deployment.connect(node)
            found = await talker.ok({"find": "pushbackd.journal", "filter": {"_id": 1}, "$db": "local"})
            assert [each["kind"] for each in found["cursor"]["firstBatch"]] == ["primaryElected"]

    play(scenario, ClusterSpec.sharded(1))


def test_a_test_without_a_loop_verifies_too(
    server: BackgroundCluster, client: MongoClient[dict[str, Any]]
) -> None:
    client.shop.orders.find_one({"_id": 7})
    verified = server.control.verify(command="find", namespace="shop.orders", app_name="till", within="1s")
    assert verified["count"] == 1
    with pytest.raises(ControlError, match="2 find requests expected, 1 came"):
        server.control.verify(command="find", count=2)


def test_the_wire_verifies_and_waits(client: MongoClient[dict[str, Any]]) -> None:
    client.shop.orders.find_one({"_id": 7})
    assert client.admin.command({"pushbackd": "verify", "command": "find", "count": 1})["count"] == 1
    with pytest.raises(OperationFailure, match="1 or more insert requests expected, 0 came"):
        client.admin.command({"pushbackd": "verify", "command": "insert", "within": "50ms"})


def test_the_text_of_a_test_that_failed_is_at_hand(
    server: BackgroundCluster, client: MongoClient[dict[str, Any]]
) -> None:
    client.shop.orders.find_one({"_id": 7})
    assert "find shop.orders -> ok" in server.journal.to_text(last=20)

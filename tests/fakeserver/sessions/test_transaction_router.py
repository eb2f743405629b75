"""Transactions on a sharded cluster: what each mongos remembers, and what it asks of the shards."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from bson import Int64
from hypothesis import given, settings
from hypothesis import strategies as st
from talking import Deployment, lsid, play
from transacting import Session, plain_find

from fakeserver.deployment.spec import ClusterSpec

SHARDED = ClusterSpec.sharded(2, 2, members=1)
TRANSIENT = ["TransientTransactionError"]
NAMED = {"recoveryShardId": "shard01"}


async def _two(deployment: Deployment) -> tuple[Session, Session]:
    """Return one session, as it speaks to either mongos: the second knows of no transaction yet."""
    first, second = [await deployment.connect(node) for node in deployment.cluster.routers]
    await first.ok({"insert": "c", "documents": [{"_id": 1, "x": 1}], "$db": "db"})
    return Session(first), Session(second, txn_number=1)


def test_replies_name_the_recovery_shard_once_something_was_written() -> None:
    async def scenario(deployment: Deployment) -> None:
        one, _ = await _two(deployment)
        one.begin()
        assert (await one.ok({"find": "c"}))["recoveryToken"] == {}
        assert (await one.insert({"_id": 2}))["recoveryToken"] == NAMED
        assert (await one.ok({"find": "c"}))["recoveryToken"] == NAMED
        refused = await one.run({"insert": "c", "documents": []})
        assert (refused["ok"], "recoveryToken" in refused) == (0, False)
        one.begin()
        await one.insert({"_id": 2})
        assert (await one.end("commit"))["recoveryToken"] == NAMED
        one.begin()
        await one.ok({"find": "c"})
        assert (await one.end("abort"))["recoveryToken"] == {}

    play(scenario, SHARDED)


def test_a_member_of_a_shard_and_a_replica_set_give_no_recovery_token() -> None:
    async def scenario(deployment: Deployment) -> None:
        one = Session(await deployment.connect(deployment.cluster.shards[0].nodes[0]))
        one.begin()
        assert "recoveryToken" not in await one.insert({"_id": 1})
        assert "recoveryToken" not in await one.end("commit")

    play(scenario, SHARDED)
    play(scenario, ClusterSpec.replica_set(1))


def test_the_recovery_shard_is_the_one_that_was_written_to_first() -> None:
    async def scenario(deployment: Deployment) -> None:
        one, _ = await _two(deployment)
        await one.talker.ok({"insert": "c", "documents": [{"_id": 1}], "$db": "other"})
        one.begin()
        await one.ok({"find": "c"})
        inserted = await one.ok({"insert": "c", "documents": [{"_id": 2}], "$db": "other"})
        assert inserted["recoveryToken"] == {"recoveryShardId": "shard02"}
        assert (await one.insert({"_id": 2}))["recoveryToken"] == {"recoveryShardId": "shard02"}

    play(scenario, SHARDED)


@pytest.mark.parametrize("command", [{"find": "c"}, {"abortTransaction": 1, "$db": "admin"}])
def test_a_mongos_does_not_continue_what_began_on_another(command: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        one, two = await _two(deployment)
        one.begin()
        await one.insert({"_id": 2})
        code, message, labels = await two.fails(command)
        assert (code, labels) == (251, TRANSIENT)
        assert message.startswith("cannot continue txnId -1 for session 01010101-")
        assert message.endswith("with txnRetryCounter 0")
        assert (await one.end("commit"))["ok"] == 1

    play(scenario, SHARDED)


def test_a_commit_is_recovered_on_another_mongos_as_often_as_it_is_asked_for() -> None:
    async def scenario(deployment: Deployment) -> None:
        one, two = await _two(deployment)
        one.begin()
        token = (await one.insert({"_id": 2}))["recoveryToken"]
        await one.end("commit")
        for _ in range(2):
            assert (await two.end("commit", recoveryToken=token))["ok"] == 1
        assert len(await plain_find(two.talker)) == 2

    play(scenario, SHARDED)


def test_a_commit_that_reaches_another_mongos_first_aborts_the_transaction() -> None:
    async def scenario(deployment: Deployment) -> None:
        one, two = await _two(deployment)
        one.begin()
        token = (await one.insert({"_id": 2}))["recoveryToken"]
        for session in (two, two, one):
            lost = await session.end("commit", recoveryToken=token)
            assert (lost["code"], lost["errorLabels"]) == (251, TRANSIENT)
            assert lost["errmsg"] == "Transaction with { txnNumber: 1, txnRetryCounter: 0 } has been aborted."
        assert len(await plain_find(two.talker)) == 1

    play(scenario, SHARDED)


@pytest.mark.parametrize(
    ("token", "code", "message"),
    [
        ({}, 50940, "Cannot recover the transaction decision without a recoveryToken"),
        (
            {"recoveryToken": {}},
            251,
            "Recovery token is empty, meaning the transaction only performed reads and can be safely retried",
        ),
        ({"recoveryToken": {"recoveryShardId": "shard09"}}, 70, "Shard shard09 not found"),
    ],
)
def test_a_commit_cannot_be_recovered_without_the_shard_that_knows(
    token: dict[str, Any], code: int, message: str
) -> None:
    async def scenario(deployment: Deployment) -> None:
        one, two = await _two(deployment)
        one.begin()
        await one.insert({"_id": 2})
        reply = await two.end("commit", **token)
        assert (reply["code"], reply["errmsg"]) == (code, message)
        assert reply.get("errorLabels", []) == (TRANSIENT if code == 251 else [])
        assert (await one.end("commit"))["ok"] == 1

    play(scenario, SHARDED)


def test_a_mongos_starts_a_number_once_and_no_lower_one() -> None:
    async def scenario(deployment: Deployment) -> None:
        one, _ = await _two(deployment)
        one.txn_number = 6
        one.begin()
        await one.insert({"_id": 2})
        one.starting = True
        code, message, labels = await one.fails({"find": "c"})
        assert (code, labels) == (117, [])
        assert message.startswith("txnNumber 7 txnRetryCounter 0 for session 01010101-")
        assert message.endswith("already started")
        one.txn_number = 6
        code, message, _ = await one.fails({"find": "c"})
        assert code == 225
        assert message.startswith("txnNumber 6 is less than last txnNumber 7 seen in session 01010101-")

    play(scenario, SHARDED)


def test_a_shard_starts_a_number_again_only_after_an_abort() -> None:
    async def scenario(deployment: Deployment) -> None:
        one, two = await _two(deployment)
        one.begin()
        await one.insert({"_id": 2})
        two.starting = True
        code, message, _ = await two.fails({"find": "c"})
        assert code == 50911
        assert message.endswith("number is in state TransactionState::kInProgress")
        await one.end("abort")
        again = Session(await deployment.connect(deployment.cluster.shards[0].nodes[0]), txn_number=1)
        again.starting = True
        assert len(await again.find()) == 1

    play(scenario, SHARDED)


def test_a_commit_fails_when_the_only_statement_has() -> None:
    async def scenario(deployment: Deployment) -> None:
        one, _ = await _two(deployment)
        one.begin()
        await one.fails({"find": "c", "filter": {"$nothing": 1}})
        code, message, labels = await one.fails({"commitTransaction": 1, "$db": "admin"})
        assert (code, labels) == (251, TRANSIENT)
        assert message.endswith(
            ":1 Failed to commit transaction because a previous statement on the transaction participant"
            " shard01 was unsuccessful."
        )

    play(scenario, SHARDED)


def test_a_fail_point_strikes_before_the_mongos_hears_of_the_transaction() -> None:
    async def scenario(deployment: Deployment) -> None:
        one, _ = await _two(deployment)
        fault = {"failCommands": ["insert"], "errorCode": 51}
        await one.talker.ok({"configureFailPoint": "failCommand", "mode": {"times": 2}, "data": fault})
        one.begin()
        assert (await one.fails({"insert": "c", "documents": [{"_id": 2}]}))[0] == 51
        assert (await one.end("abort"))["errmsg"].startswith("cannot continue txnId -1")
        one.begin()
        await one.find()
        assert (await one.fails({"insert": "c", "documents": [{"_id": 2}]}))[0] == 51
        assert (await one.end("commit"))["ok"] == 1

    play(scenario, SHARDED)


@pytest.mark.parametrize("spec", [SHARDED, ClusterSpec.replica_set(1)], ids=["sharded", "replica set"])
def test_a_transaction_keeps_to_the_api_version_it_began_with(spec: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        one = Session(await deployment.connect())
        one.begin(apiVersion="1")
        await one.insert({"_id": 1})
        code, message, labels = await one.fails({"find": "c", "apiVersion": "1", "apiStrict": True})
        assert (code, labels) == (347, [])
        assert message == (
            'API parameter mismatch: transaction-continuing command used { apiVersion: "1", apiStrict: true }'
            ", the transaction's first command used "
            '{ apiVersion: "1" }'
        )
        code, message, _ = await one.fails({"find": "c"})
        assert (code, "command used {}, the" in message) == (347, True)
        assert (await one.end("commit", apiVersion="1"))["ok"] == 1

    play(scenario, spec)


def test_the_shard_limits_the_life_of_a_transaction() -> None:
    async def scenario(deployment: Deployment) -> None:
        one, _ = await _two(deployment)
        limit = {"setParameter": 1, "transactionLifetimeLimitSeconds": 5}
        refused = await one.talker.fails(limit)
        assert "unrecognized parameter [transactionLifetimeLimitSeconds]" in refused["errmsg"]
        shard = deployment.cluster.shards[0].nodes[0]
        await (await deployment.connect(shard)).ok(limit)
        one.begin()
        await one.insert({"_id": 2})
        await asyncio.sleep(6)
        code, message, labels = await one.fails({"find": "c"})
        assert (code, labels) == (251, TRANSIENT)
        assert message.endswith("has been aborted.")

    play(scenario, SHARDED)
    limit = {"transactionLifetimeLimitSeconds": 5}
    one_shard = ClusterSpec.sharded(1, 1, members=1)
    play(_expires_after_five_seconds, replace(one_shard, parameters=limit))


async def _expires_after_five_seconds(deployment: Deployment) -> None:
    one = Session(await deployment.connect())
    one.begin()
    await one.insert({"_id": 2})
    await asyncio.sleep(4)
    await one.find()
    await asyncio.sleep(2)
    assert (await one.end("commit"))["code"] == 251


@pytest.mark.parametrize("verb", ["killSessions", "endSessions"])
def test_sessions_are_ended_through_any_mongos(verb: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        one, two = await _two(deployment)
        one.begin()
        await one.insert({"_id": 2})
        await two.talker.ok({verb: [lsid()]})
        code, message, labels = await one.fails({"commitTransaction": 1, "$db": "admin"})
        assert (code, labels) == (251, TRANSIENT)
        assert message.endswith("has been aborted.")

    play(scenario, SHARDED)


def test_a_commit_waits_for_its_write_concern_again_when_it_is_repeated() -> None:
    async def scenario(deployment: Deployment) -> None:
        one, two = await _two(deployment)
        one.begin()
        token = (await one.insert({"_id": 2}))["recoveryToken"]
        concern = {"w": 3, "wtimeout": 100}
        for reply in (
            await one.end("commit", writeConcern=concern),
            await two.end("commit", writeConcern=concern, recoveryToken=token),
        ):
            assert (reply["ok"], reply["writeConcernError"]["code"]) == (1, 100)

    play(scenario, SHARDED)


def test_a_mongos_forgets_transactions_with_their_sessions() -> None:
    async def scenario(deployment: Deployment) -> None:
        one, _ = await _two(deployment)
        one.begin()
        await one.insert({"_id": 2})
        await one.end("commit")
        router = deployment.cluster.routers[0].transaction_router
        assert router is not None
        assert len(router) == 1
        await asyncio.sleep(31 * 60)
        await one.talker.ok({"ping": 1, "lsid": lsid(9)})
        assert len(router) == 0

    play(scenario, SHARDED)


STEPS = st.lists(
    st.tuples(st.sampled_from([0, 1]), st.sampled_from(["insert", "commit", "abort"])), max_size=8
)


@settings(max_examples=60)
@given(STEPS)
def test_a_transaction_has_one_outcome_whichever_mongos_is_asked(steps: list[tuple[int, str]]) -> None:
    """Once a commit has answered, no mongos contradicts it, and the data are as it said."""

    async def scenario(deployment: Deployment) -> None:
        sessions = await _two(deployment)
        sessions[0].begin()
        token = (await sessions[0].insert({"_id": 0}))["recoveryToken"]
        outcome: str | None = None
        for number, (mongos, verb) in enumerate(steps, start=1):
            session = sessions[mongos]
            if verb == "insert":
                await session.run({"insert": "c", "documents": [{"_id": 100 + number}]})
                continue
            how = {"recoveryToken": token} if verb == "commit" else {}
            reply = await session.end(verb, **how)
            if reply["ok"]:
                assert outcome in (None, verb)
                outcome = verb
            elif verb == "commit":
                assert outcome != "commit"
                outcome = "abort"
        there = {document["_id"] for document in await plain_find(sessions[0].talker)}
        assert (0 in there) == (outcome == "commit")

    play(scenario, SHARDED)


def test_a_retryable_write_and_a_transaction_do_not_share_a_number() -> None:
    async def scenario(deployment: Deployment) -> None:
        one, two = await _two(deployment)
        one.begin()
        await one.insert({"_id": 2})
        await one.end("commit")
        insert = {"insert": "c", "documents": [{"_id": 3}], "lsid": lsid(), "txnNumber": Int64(1)}
        assert (await two.talker.fails({**insert, "$db": "db"}))["code"] == 217

    play(scenario, SHARDED)

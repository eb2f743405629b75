"""What rules do to requests, as a client sees it, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64
from talking import LATENCY, REPLICA_SET, STANDALONE, Deployment, Talker, play, retryable_insert

from fakeserver import ClusterSpec
from fakeserver.control.control import Control
from fakeserver.deployment.records.events import CommandFinished
from fakeserver.rules import (
    close,
    delay,
    error,
    fields,
    label,
    let_pass,
    reply,
    sequence,
    silence,
    write_concern_error,
)

FIND = {"find": "orders", "$db": "shop"}
INSERT = {"insert": "orders", "documents": [{}], "$db": "shop"}
OVERLOADED = ["SystemOverloadedError", "RetryableError"]


async def codes(talker: Talker, command: dict[str, Any], count: int) -> list[int | None]:
    """Return the codes of the replies to a command, None for each that succeeded."""
    replies = [await talker.command(command) for _ in range(count)]
    return [each.get("code") for each in replies if each is not None]


def outcomes(deployment: Deployment) -> list[str | int]:
    """Return the outcomes of all requests."""
    events = [record.event for record in deployment.cluster.journal]
    return [event.outcome for event in events if isinstance(event, CommandFinished)]


# Answers.


@pytest.mark.parametrize("code", [462, "IngressRequestRateLimitExceeded", "462"])
def test_an_error_is_answered_by_its_code_or_name(code: int | str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        extra = {"retryAfter": 3}
        deployment.cluster.control.when("find").then(error(code, message="no room", extra=extra))
        found = await talker.fails(FIND)
        assert list(found) == [
            *(
                "errorLabels",
                "ok",
                "errmsg",
                "code",
                "codeName",
                "retryAfter",
                "$clusterTime",
                "operationTime",
            )
        ]
        assert (found["errmsg"], found["code"], found["retryAfter"]) == ("no room", 462, 3)
        assert found["codeName"] == "IngressRequestRateLimitExceeded"
        assert found["errorLabels"] == ["SystemOverloadedError"]
        await talker.ok(INSERT)

    play(scenario)


@pytest.mark.parametrize(
    ("effects", "labels"),
    [
        ([error(91)], ["RetryableWriteError"]),
        ([error(91, labels=[])], None),
        ([error(91, labels=OVERLOADED)], OVERLOADED),
        ([error(91), label("RetryableError")], ["RetryableWriteError", "RetryableError"]),
        ([error(91), label("RetryableWriteError")], ["RetryableWriteError"]),
        ([error(91, labels=[]), label("NoWritesPerformed")], ["NoWritesPerformed"]),
        ([label("RetryableError")], ["RetryableError"]),
        ([], None),
    ],
)
def test_labels_replace_the_server_s_own_or_are_added(effects: list[Any], labels: list[str] | None) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        deployment.cluster.control.when("insert").then(delay("1ms"), *effects)
        found = await talker.command(retryable_insert(1, txn_number=1))
        assert found is not None
        assert found.get("errorLabels") == labels

    play(scenario)


def test_an_overload_error_hints_at_the_backoff_as_a_server_s_own_does() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setParameter": 1, "externalClientBaseBackoffMS": 100})
        deployment.cluster.control.when("find").then(error(462), label("RetryableError"))
        assert (await talker.fails(FIND))["baseBackoffMS"] == 100

    play(scenario, ClusterSpec.replica_set(1, profile="9.0"))


def test_fields_of_a_reply_are_the_rule_s_and_those_of_an_error_the_server_s() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, control = await deployment.connect(), deployment.cluster.control
        usual = await talker.ok({"hello": 1})
        control.when("hello").then(
            fields(maxWriteBatchSize=2, strange=True, logicalSessionTimeoutMinutes=None)
        )
        control.when("insert").then(fields(n=7))
        told = await talker.ok({"hello": 1})
        assert (told["maxWriteBatchSize"], told["strange"]) == (2, True)
        assert told["maxBsonObjectSize"] == usual["maxBsonObjectSize"]
        assert usual.keys() - told.keys() == {"logicalSessionTimeoutMinutes"}
        assert (await talker.ok(INSERT))["n"] == 7
        assert "n" not in await talker.fails({**INSERT, "documents": []})

    play(scenario)


def test_a_delay_comes_before_the_answer_and_holds_up_one_connection() -> None:
    async def scenario(deployment: Deployment) -> None:
        slow, free = await deployment.connect(), await deployment.connect()
        deployment.cluster.control.when("find").then(delay("200ms"), delay("300ms"), error(91))
        begun = deployment.world.clock.now()
        await slow.send(FIND)
        await free.ok(INSERT)
        assert deployment.world.clock.now() - begun == pytest.approx(2 * LATENCY)
        found = await slow.reply()
        assert found is not None
        assert found["code"] == 91
        assert deployment.world.clock.now() - begun == pytest.approx(0.5 + 2 * LATENCY)

    play(scenario)


def test_a_connection_is_closed_or_gets_no_answer() -> None:
    async def scenario(deployment: Deployment) -> None:
        closed, silent = await deployment.connect(), await deployment.connect()
        control = deployment.cluster.control
        with control.when("find").then(close()):
            assert await closed.command(FIND) is None
        with control.when("find").then(silence()):
            await silent.send(FIND)
            await silent.send(INSERT)
            found = await silent.reply()
            assert found is not None
            assert found["n"] == 1
        assert outcomes(deployment) == ["disconnect", "silence", "ok"]

    play(scenario)


@pytest.mark.parametrize(
    "document",
    [
        {"cursor": {"id": 0, "ns": "shop.orders", "firstBatch": [{"_id": 7}]}},
        {"ok": 1, "cursor": {"id": 0, "ns": "shop.orders", "nextBatch": 5}, "nErrors": 1},
        {"ok": 1.0, "writeErrors": 3, "values": 2, "topologyVersion": None},
        {"ok": 0, "errmsg": "no code"},
        {},
    ],
)
def test_a_reply_is_sent_as_it_stands_with_the_times_behind_it(document: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        deployment.cluster.control.when("find").then(reply(document))
        found = await talker.command(FIND)
        assert found is not None
        assert list(found)[-2:] == ["$clusterTime", "operationTime"]
        del found["$clusterTime"], found["operationTime"]
        assert found == {"ok": 1.0, **document}
        if "cursor" in found:
            assert type(found["cursor"]["id"]) is Int64  # drivers take no other

    play(scenario)


def test_a_reply_that_is_an_error_is_one_in_the_journal() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        document = {"ok": 0, "errmsg": "busy", "code": 462, "errorLabels": OVERLOADED, "retryAfter": 1}
        deployment.cluster.control.when("ping").then(reply(document))
        found = await talker.fails({"ping": 1})
        assert found == document | {"ok": 0.0, "codeName": "IngressRequestRateLimitExceeded"}
        assert outcomes(deployment) == [462]

    play(scenario, STANDALONE)


def test_labels_and_a_write_concern_error_are_added_to_a_reply_too() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        control = deployment.cluster.control
        control.when("insert").then(label("RetryableError"))
        control.when("insert").then(write_concern_error(91), reply({"n": 5, "errorLabels": ["Own"]}))
        found = await talker.ok(INSERT)
        assert (found["n"], found["errorLabels"]) == (5, ["Own", "RetryableError"])
        assert found["writeConcernError"]["codeName"] == "ShutdownInProgress"
        control.when("find").then(reply({"errorLabels": 5}))
        control.when("delete").then(label("RetryableError"), reply({"errorLabels": 5}))
        assert (await talker.ok(FIND))["errorLabels"] == 5
        delete = {"delete": "orders", "deletes": [{"q": {}, "limit": 0}], "$db": "shop"}
        assert (await talker.ok(delete))["errorLabels"] == ["RetryableError"]

    play(scenario)


def test_a_write_concern_error_is_added_after_the_run() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        control = deployment.cluster.control
        with control.when("insert").then(write_concern_error("ShutdownInProgress", message="late"), times=1):
            found = await talker.ok(retryable_insert(1, txn_number=1))
            assert found["n"] == 1
            assert found["writeConcernError"] == {
                "code": 91,
                "codeName": "ShutdownInProgress",
                "errmsg": "late",
            }
            assert found["errorLabels"] == ["RetryableWriteError"]
        with control.when("insert").then(write_concern_error(91, labels=OVERLOADED)):
            found = await talker.ok(retryable_insert(2, txn_number=2))
            assert found["errorLabels"] == OVERLOADED

    play(scenario)


# Sequences, times, and which requests.


def test_a_sequence_is_served_by_operation() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        steps = sequence(error(462), [delay("1s"), error(462)], error(91), per="operation")
        deployment.cluster.control.when("insert").then(steps)
        first, other = (retryable_insert(number, txn_number=1, session=number) for number in (1, 2))
        assert await codes(talker, first, 2) == [462, 462]
        assert await codes(talker, other, 2) == [462, 462]
        assert await codes(talker, first, 2) == [91, None]
        assert await codes(talker, retryable_insert(3, txn_number=3), 1) == [462]

    play(scenario)


def test_attempts_of_a_read_are_told_apart_from_another_read() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        control = deployment.cluster.control
        control.when("find", nth=1).then(error(462))
        second = control.when("find", attempt=2).then(delay("0s"))
        assert await codes(talker, FIND, 3) == [462, None, None]
        assert second.hits == 1

    play(scenario)


def test_several_rules_hold_for_the_servers_collections_and_connections_that_they_name() -> None:
    async def scenario(deployment: Deployment) -> None:
        first, second = await deployment.connect(), await deployment.connect()
        control = deployment.cluster.control
        control.when(node="primary", namespace="shop.orders").then(error(1))
        control.when(connection=2).then(error(2))
        control.when(document={"limit": {"$gt": 5}}).then(error(3))
        control.when(node="secondary").then(error(4))
        assert await codes(first, FIND, 1) == [1]
        assert await codes(second, FIND | {"find": "carts"}, 1) == [2]
        assert await codes(first, FIND | {"find": "carts", "limit": 6}, 1) == [3]
        assert await codes(first, FIND | {"find": "carts", "limit": 5}, 1) == [None]
        other = await deployment.connect(deployment.secondary)
        assert await codes(other, FIND, 1) == [4]

    play(scenario)


def test_the_role_of_a_server_is_looked_at_when_a_request_comes() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.secondary)
        deployment.cluster.control.when("ping", node="primary").then(error(1))
        assert await codes(talker, {"ping": 1}, 1) == [None]
        deployment.cluster.elect(deployment.secondary)
        assert await codes(talker, {"ping": 1}, 1) == [1]

    play(scenario)


def test_a_new_member_meets_the_rules_that_there_are() -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.cluster.control.when("ping").then(error(1))
        talker = await deployment.connect(await deployment.cluster.add_member())
        assert await codes(talker, {"ping": 1}, 1) == [1]
        deployment.cluster.control.remove_rule("all")
        assert await codes(talker, {"ping": 1}, 1) == [None]

    play(scenario)


def test_rules_of_a_sharded_cluster_hold_at_its_mongos_and_end_with_the_deadline() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        control = deployment.cluster.control
        with control.when("find", node="mongos").then(delay("5s")):
            begun = deployment.world.clock.now()
            assert (await talker.fails(FIND | {"maxTimeMS": 300}))["code"] == 50
            assert deployment.world.clock.now() - begun == pytest.approx(0.3, abs=0.01)
        control.when("find").then(error(10107))
        found = await talker.fails(FIND)
        assert (found["code"], found["errmsg"]) == (10107, "Failing command via rule")

    play(scenario, ClusterSpec.sharded(mongos=1))


# Precedence.


def test_a_fail_point_ends_a_request_before_rules_see_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        rule = deployment.cluster.control.when("find").then(error(462))
        await deployment.fail_command({"times": 1}, "find", errorCode=91)
        assert await codes(talker, FIND, 2) == [91, 462]
        assert rule.hits == 1

    play(scenario)


def test_rules_are_met_in_the_order_in_which_they_were_added() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        control = deployment.cluster.control
        slow = control.when("find").then(delay("1s"))
        exempt = control.when("find", document={"limit": 1}).then(let_pass())
        failing = control.when("find").then(delay("2s"), error(462))
        late = control.when("find").then(delay("4s"), error(91))
        begun = deployment.world.clock.now()
        assert await codes(talker, FIND, 1) == [462]
        assert deployment.world.clock.now() - begun == pytest.approx(3 + 2 * LATENCY)
        assert await codes(talker, FIND | {"limit": 1}, 1) == [None]
        assert deployment.world.clock.now() - begun == pytest.approx(4 + 4 * LATENCY)
        assert [rule.hits for rule in (slow, exempt, failing, late)] == [2, 1, 1, 0]

    play(scenario)


def test_connecting_and_the_control_itself_are_covered_by_name_only() -> None:
    async def scenario(deployment: Deployment) -> None:
        control = deployment.cluster.control
        control.when().then(error(462))
        talker = await deployment.connect()
        await talker.ok({"hello": 1})
        assert await codes(talker, {"ping": 1}, 1) == [462]
        await talker.ok({"pushbackd": "removeRule", "id": "all"})
        control.when("hello").then(error(91), times=1)
        assert (await talker.fails({"ismaster": 1}))["code"] == 91
        await talker.ok({"hello": 1})

    play(scenario)


# Records.


def test_every_hit_is_in_the_journal() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        control = deployment.cluster.control
        control.when("find").then(delay("1ms"), error(462), name="busy")
        control.expect("find", name="seen")
        await talker.fails(FIND)
        hits = [record.event for record in deployment.cluster.journal.of_kind("ruleHit")]
        assert hits == [("busy", "find", 1, "delay+error"), ("seen", "find", 1, "expected")]

    play(scenario)


def test_a_rule_that_fails_lets_the_request_pass_and_says_so_in_the_log() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        division = {"$expr": {"$eq": [{"$divide": [1, "$limit"]}, 1]}}
        deployment.cluster.control.when("find", document=division).then(error(91), name="by-limit")
        assert await codes(talker, FIND | {"limit": 0}, 1) == [None]
        assert await codes(talker, FIND | {"limit": 1}, 1) == [91]
        (line,) = [each for each in deployment.primary.log.lines if "A rule failed" in each]
        assert '"rule": "by-limit"' in line
        assert "divide by zero" in line

    play(scenario)


def test_conditions_of_which_nothing_comes_are_warned_of() -> None:
    async def scenario(deployment: Deployment) -> None:
        with pytest.warns(RuntimeWarning, match=r"when\(\{'command': 'find'\}\) without then"):
            deployment.cluster.control.when("find")

    play(scenario)


def test_servers_have_the_stage_while_there_are_rules_only() -> None:
    async def scenario(deployment: Deployment) -> None:
        pipeline = deployment.primary.pipeline
        before = len(pipeline._stages)
        with deployment.cluster.control.when("find").then(error(1)):
            assert len(pipeline._stages) == before + 1
        assert len(pipeline._stages) == before

    play(scenario, REPLICA_SET)


def test_a_reset_brings_back_the_rules_of_the_beginning_with_new_counts() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        control = deployment.cluster.control
        control.when("find").then(error(91), times=1)
        assert isinstance(control, Control)
        control.begin()
        assert await codes(talker, FIND, 2) == [91, None]
        control.when("insert").then(error(1))
        receiving = control.receives("ping")
        await talker.send({"ping": 1})
        request = await receiving
        control.reset()
        assert await talker.reply() is not None
        assert not request.waits
        assert [(rule["id"], rule["hits"]) for rule in control.list_rules()["rules"]] == [("rule1", 0)]
        assert await codes(talker, FIND, 2) == [91, None]
        await talker.ok(INSERT)

    play(scenario)


def test_rules_that_no_request_met_are_remembered_until_the_reset() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        control = deployment.cluster.control
        with control.when("insert").then(error(1)):
            pass
        control.when("find", probability=0).then(error(1))
        control.when("find").then(error(1))
        control.expect("delete", name="deletes")
        await talker.fails(FIND)
        never_met = control.verdict()["neverMet"]
        assert [each["what"] for each in never_met] == [
            "rule rule1 (command: insert)",
            "deletes (command: delete): expected at least once, none came",
        ]
        assert never_met[1]["nearMisses"] == ["find on shop.orders: command is find, expected delete"]
        control.reset()
        assert control.verdict()["neverMet"] == []

    play(scenario)

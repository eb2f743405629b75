"""Fail points as a client sees them, on a running deployment."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64
from talking import LATENCY, REPLICA_SET, STANDALONE, Deployment, Talker, play, retryable_insert

from fakeserver import ClusterSpec
from fakeserver.errors import CommandError

_PING = {"ping": 1}
_WCE = {"code": 91, "codeName": "ShutdownInProgress", "errmsg": "x"}


async def _count(talker: Talker) -> int:
    found = await talker.ok({"find": "c", "filter": {}, "$db": "db"})
    return len(found["cursor"]["firstBatch"])


def test_fail_command_fails_a_command_before_it_runs() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command({"times": 1}, "insert", errorCode=10107)
        reply = await talker.fails(retryable_insert(1, txn_number=1))
        assert list(reply) == [
            *("errorLabels", "topologyVersion", "ok", "errmsg", "code", "codeName"),
            *("$clusterTime", "operationTime"),
        ]
        assert reply["errmsg"] == "Failing command via 'failCommand' failpoint"
        assert (reply["code"], reply["codeName"]) == (10107, "NotWritablePrimary")
        assert reply["errorLabels"] == ["RetryableWriteError"]
        assert await _count(talker) == 0
        await talker.ok(retryable_insert(1, txn_number=1))
        assert await _count(talker) == 1

    play(scenario)


def test_an_error_that_is_no_state_change_carries_no_topology_version() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command("alwaysOn", "ping", errorCode=91)
        assert "topologyVersion" not in await talker.fails(_PING)

    play(scenario)


def test_a_standalone_tells_neither_topology_version_nor_cluster_time() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command("alwaysOn", "ping", errorCode=10107)
        assert list(await talker.fails(_PING)) == ["ok", "errmsg", "code", "codeName"]

    play(scenario, STANDALONE)


def test_a_code_without_a_name_is_a_location() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command("alwaysOn", "ping", errorCode=777777, errorExtraInfo={"a": 1})
        reply = await talker.fails(_PING)
        assert (reply["codeName"], reply["a"]) == ("Location777777", 1)

    play(scenario)


@pytest.mark.parametrize("labels", [[], ["Own"], ["A", "B"]])
def test_given_labels_replace_the_computed_ones(labels: list[str]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command("alwaysOn", "insert", errorCode=91, errorLabels=labels)
        reply = await talker.fails(retryable_insert(1, txn_number=1))
        assert reply.get("errorLabels", []) == labels
        assert ("errorLabels" in reply) is bool(labels)

    play(scenario)


@pytest.mark.parametrize(
    ("backoff", "labels", "hint"),
    [
        (100, ["SystemOverloadedError", "RetryableError"], 100),
        (0, ["SystemOverloadedError", "RetryableError"], None),
        (100, ["SystemOverloadedError"], None),
    ],
)
def test_a_retryable_overload_error_hints_at_the_backoff(backoff: int, labels: list[str], hint: Any) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setParameter": 1, "externalClientBaseBackoffMS": backoff})
        await deployment.fail_command("alwaysOn", "insert", errorCode=462, errorLabels=labels)
        reply = await talker.fails({"insert": "c", "documents": [{}], "$db": "db"})
        assert reply.get("baseBackoffMS") == hint
        assert hint is None or isinstance(reply["baseBackoffMS"], Int64)

    play(scenario, ClusterSpec.replica_set(1, profile="9.0"))


def test_closing_the_connection_leaves_no_reply() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, other = await deployment.connect(), await deployment.connect()
        await deployment.fail_command({"times": 1}, "ping", closeConnection=True, errorCode=91)
        assert await talker.command(_PING) is None
        await other.ok(_PING)

    play(scenario)


@pytest.mark.parametrize("code", [303, 354, 372, 398])
def test_some_codes_close_the_connection(code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command("alwaysOn", "ping", errorCode=code)
        assert await talker.command(_PING) is None

    play(scenario)


def test_a_block_holds_up_its_connection_and_nobody_else() -> None:
    async def scenario(deployment: Deployment) -> None:
        blocked, free = await deployment.connect(), await deployment.connect()
        await deployment.fail_command({"times": 1}, "find", blockConnection=True, blockTimeMS=500)
        begun = deployment.world.clock.now()
        find = await blocked.send({"find": "c", "$db": "db"})
        ping = await blocked.send(_PING)
        await free.ok(_PING)
        assert deployment.world.clock.now() - begun < 0.1
        replies = [await blocked.receive(), await blocked.receive()]
        assert [reply.response_to for reply in replies if reply is not None] == [find, ping]
        assert deployment.world.clock.now() - begun == pytest.approx(0.5 + 2 * LATENCY)

    play(scenario)


def test_a_block_without_a_time_lasts_until_the_fail_point_is_off() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command("alwaysOn", "ping", blockConnection=True)
        sent = await talker.send(_PING)
        await deployment.sleep(100.0)
        await deployment.fail_command("alwaysOn", "find", errorCode=1)
        await deployment.sleep(100.0)
        await deployment.configure("failCommand", "off")
        reply = await talker.receive()
        assert reply is not None
        assert reply.response_to == sent
        assert deployment.world.clock.now() > 200.0

    play(scenario)


def test_a_block_longer_than_max_time_fails_after_the_whole_block() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command("alwaysOn", "find", blockConnection=True, blockTimeMS=500)
        begun = deployment.world.clock.now()
        reply = await talker.fails({"find": "c", "maxTimeMS": 100, "$db": "db"})
        assert (reply["code"], reply["errmsg"]) == (50, "operation exceeded time limit")
        assert deployment.world.clock.now() - begun >= 0.5

    play(scenario)


@pytest.mark.parametrize(("noticed", "count"), [("atOnce", 0), ("atInterruptCheck", 1)])
def test_a_write_whose_client_leaves_a_block_runs_unless_that_is_noticed_at_once(
    noticed: str, count: int
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"setParameter": 1, "abandonedRequests": noticed})
        await deployment.fail_command("alwaysOn", "insert", blockConnection=True, blockTimeMS=60_000)
        await talker.send({"insert": "c", "documents": [{}], "$db": "db"})
        await deployment.sleep(1.0)
        await talker.aclose()
        await deployment.sleep(120.0)
        assert await _count(await deployment.connect()) == count

    play(scenario)


def test_a_fail_point_that_cannot_be_read_fails_its_victim() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command("alwaysOn", "ping", blockConnection=True, blockTimeMS="x")
        assert (await talker.fails(_PING))["code"] == 72

    play(scenario)


def test_a_write_concern_error_comes_after_the_write_happened() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command({"times": 1}, "insert", writeConcernError=_WCE)
        reply = await talker.ok(retryable_insert(1, txn_number=1))
        assert (reply["n"], reply["writeConcernError"]) == (1, _WCE)
        assert reply["errorLabels"] == ["RetryableWriteError"]
        assert await _count(talker) == 1

    play(scenario)


def test_a_write_concern_error_on_a_write_that_changed_nothing_says_so() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command({"times": 1}, "update", writeConcernError=_WCE)
        insert = retryable_insert(1, txn_number=1)
        update = {"update": "c", "updates": [{"q": {"_id": 9}, "u": {"$set": {"a": 1}}}]}
        session = {key: insert[key] for key in ("lsid", "txnNumber", "$db")}
        reply = await talker.ok(update | session)
        assert reply["errorLabels"] == ["RetryableWriteError", "NoWritesPerformed"]

    play(scenario)


def test_a_write_concern_error_is_attached_to_a_command_that_failed_too() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command(
            "alwaysOn", "findAndModify", writeConcernError=_WCE, errorLabels=["Own"]
        )
        reply = await talker.fails({"findAndModify": "c", "$db": "db"})
        assert (reply["writeConcernError"], reply["errorLabels"]) == (_WCE, ["Own"])

    play(scenario)


def test_a_read_takes_no_write_concern_error_and_no_hit() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command({"times": 1}, "find", "insert", writeConcernError=_WCE)
        assert "writeConcernError" not in await talker.ok({"find": "c", "$db": "db"})
        assert "writeConcernError" in await talker.ok({"insert": "c", "documents": [{}], "$db": "db"})

    play(scenario)


def test_block_and_write_concern_error_are_two_hits() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        data: dict[str, Any] = {"blockConnection": True, "blockTimeMS": 10, "writeConcernError": _WCE}
        await deployment.fail_command({"times": 1}, "insert", **data)
        insert = {"insert": "c", "documents": [{}], "$db": "db"}
        assert "writeConcernError" not in await talker.ok(insert)
        await deployment.fail_command({"times": 2}, "insert", **data)
        assert (await talker.ok(insert))["writeConcernError"] == _WCE

    play(scenario)


@pytest.mark.parametrize(
    "invalid",
    [
        {"bogus": 1},
        {"insert": "c", "bogus": 1, "$db": "db"},
        {"insert": "c", "documents": [{}], "txnNumber": Int64(1), "$db": "db"},
    ],
)
def test_an_invalid_command_takes_no_hit(invalid: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command({"times": 1}, "insert", errorCode=91)
        assert (await talker.fails(invalid))["code"] != 91
        insert = {"insert": "c", "documents": [{}], "$db": "db"}
        assert (await talker.fails(insert))["code"] == 91

    play(scenario)


def test_fail_points_come_before_authorization_and_the_replica_state() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect(deployment.secondary)
        await deployment.fail_command(
            "alwaysOn", "insert", "replSetGetStatus", node=deployment.secondary, errorCode=91
        )
        assert (await talker.fails({"insert": "c", "documents": [{}], "$db": "db"}))["code"] == 91
        assert (await talker.fails({"replSetGetStatus": 1, "$db": "db"}))["code"] == 91

    play(scenario)


def test_a_fail_point_is_set_on_one_member_only() -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.fail_command("alwaysOn", "ping", errorCode=91)
        assert (await (await deployment.connect()).fails(_PING))["code"] == 91
        await (await deployment.connect(deployment.secondary)).ok(_PING)

    play(scenario)


def _hello(app: str) -> dict[str, Any]:
    client = {
        "application": {"name": app},
        "driver": {"name": "d", "version": "1"},
        "os": {"type": "Linux"},
    }
    return {"hello": 1, "client": client}


def test_an_app_name_holds_from_the_first_hello_on() -> None:
    async def scenario(deployment: Deployment) -> None:
        await deployment.fail_command("alwaysOn", "hello", "ping", errorCode=91, appName="mine")
        mine, other, nobody = [await deployment.connect() for _ in range(3)]
        assert (await mine.fails(_hello("mine")))["code"] == 91
        assert (await mine.fails(_PING))["code"] == 91
        await other.ok(_hello("other"))
        await other.ok(_PING)
        await nobody.ok(_PING)

    play(scenario)


def test_a_failed_run_is_counted_by_no_metric() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command("alwaysOn", "ping", errorCode=91)
        await talker.fails(_PING)
        status = await talker.ok({"serverStatus": 1})
        assert "ping" not in status["metrics"]["commands"]

    play(scenario)


def test_a_thread_name_is_that_of_the_connection() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        connection_id = (await talker.ok({"hello": 1}))["connectionId"]
        await deployment.fail_command("alwaysOn", "ping", errorCode=91, threadName=f"conn{connection_id}")
        await talker.fails(_PING)
        await (await deployment.connect()).ok(_PING)

    play(scenario)


@pytest.mark.parametrize(
    ("namespace", "command"),
    [
        ("db.c", {"insert": "c", "documents": [{}], "$db": "db"}),
        ("db.c", {"getMore": Int64(5), "collection": "c", "$db": "db"}),
        ("db", {"aggregate": 1, "pipeline": [], "cursor": {}, "$db": "db"}),
        ("admin", {"ping": 1}),
    ],
)
def test_a_namespace_is_the_collection_or_the_database(namespace: str, command: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command("alwaysOn", next(iter(command)), errorCode=777, namespace="other.c")
        assert ((await talker.command(command)) or {}).get("code") != 777
        await deployment.fail_command("alwaysOn", next(iter(command)), errorCode=777, namespace=namespace)
        assert (await talker.fails(command))["code"] == 777

    play(scenario)


# The commands.


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        ({"configureFailPoint": "bogus", "mode": "off"}, 266, "bogus not found"),
        ({"configureFailPoint": "failCommand"}, 20, "When setting a failpoint, you must supply a 'mode'"),
        ({"configureFailPoint": "failCommand", "mode": "x"}, 2, "unknown mode: x"),
        (
            {"configureFailPoint": "failCommand", "mode": "off", "$db": "db"},
            13,
            "configureFailPoint may only be run against the admin database.",
        ),
        ({"waitForFailPoint": "failCommand", "timesEntered": 1}, 9, "Missing maxTimeMS"),
        ({"waitForFailPoint": "bogus", "timesEntered": 1, "maxTimeMS": 1}, 266, "bogus not found"),
    ],
)
def test_a_bad_fail_point_command_is_refused(command: dict[str, Any], code: int, message: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        reply = await (await deployment.connect()).fails(command)
        assert (reply["code"], reply["errmsg"]) == (code, message)

    play(scenario)


def test_unknown_fields_of_configure_fail_point_are_ignored() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        reply = await talker.ok({"configureFailPoint": "failCommand", "mode": "off", "bogus": 1})
        assert reply["count"] == 0
        assert isinstance(reply["count"], Int64)

    play(scenario)


def test_waiting_for_a_fail_point_ends_with_its_hits_or_the_time() -> None:
    async def scenario(deployment: Deployment) -> None:
        waiter, victim = await deployment.connect(), await deployment.connect()
        await deployment.fail_command("alwaysOn", "ping", errorCode=91)
        wait = {"waitForFailPoint": "failCommand", "timesEntered": 2, "maxTimeMS": 1000}
        assert (await waiter.fails(wait))["code"] == 50
        await waiter.send(wait)
        await victim.fails(_PING)
        await deployment.sleep(0.3)
        await victim.fails(_PING)
        begun = deployment.world.clock.now()
        reply = await waiter.reply()
        assert reply is not None
        assert reply["ok"] == 1.0
        assert deployment.world.clock.now() - begun < 0.2

    play(scenario)


def test_without_test_commands_there_are_no_fail_points() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for name in ("configureFailPoint", "waitForFailPoint"):
            reply = await talker.fails({name: "failCommand", "mode": "off"})
            assert (reply["code"], reply["errmsg"]) == (59, f"no such command: '{name}'")
        shown = await talker.ok({"getParameter": "*"})
        assert shown["enableTestCommands"] is False
        assert not [name for name in shown if name.startswith("failpoint.")]

    play(scenario, ClusterSpec.replica_set(1, parameters={"enableTestCommands": False}))


def test_a_fail_point_may_be_on_from_the_start() -> None:
    setting = '{"mode": {"times": 1}, "data": {"failCommands": ["ping"], "errorCode": 91}}'

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.fails(_PING)
        await talker.ok(_PING)
        shown = await talker.ok({"getParameter": 1, "failpoint.failCommand": 1})
        assert shown["failpoint.failCommand"]["timesEntered"] == 1

    play(scenario, ClusterSpec.replica_set(1, parameters={"failpoint.failCommand": setting}))


@pytest.mark.parametrize(
    "setting", ["{", '{"mode": "sometimes"}', "[]", '{"mode": {"times": -1}}', '{"mode": "off", "data": 5}']
)
def test_a_bad_fail_point_keeps_a_server_from_starting(setting: str) -> None:
    async def scenario(_deployment: Deployment) -> None:
        raise AssertionError("it started")

    with pytest.raises(CommandError):
        play(scenario, ClusterSpec.replica_set(1, parameters={"failpoint.failCommand": setting}))


def test_a_change_stream_is_told_whether_it_may_resume() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command("alwaysOn", "aggregate", errorCode=10107)
        aggregate = {"aggregate": "c", "cursor": {}, "$db": "db"}
        stream = await talker.fails({**aggregate, "pipeline": [{"$changeStream": {}}]})
        assert stream["errorLabels"] == ["ResumableChangeStreamError"]
        assert "errorLabels" not in await talker.fails({**aggregate, "pipeline": [{"$match": {}}]})

    play(scenario)


def test_an_internal_client_is_spared_and_gets_no_retryable_label() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"hello": 1, "internalClient": {"minWireVersion": 0, "maxWireVersion": 27}})
        await deployment.fail_command("alwaysOn", "insert", errorCode=91)
        await talker.ok(retryable_insert(1, txn_number=1))
        await deployment.fail_command("alwaysOn", "insert", errorCode=91, failInternalCommands=True)
        assert "errorLabels" not in await talker.fails(retryable_insert(2, txn_number=2))

    play(scenario)


# Other fail points.


def test_on_primary_transactional_write_applies_the_write_and_hangs_up() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.configure("onPrimaryTransactionalWrite", {"times": 1})
        assert await talker.command(retryable_insert(1, txn_number=1)) is None
        again = await deployment.connect()
        reply = await again.ok(retryable_insert(1, txn_number=1))
        assert (reply["n"], reply["retriedStmtIds"]) == (1, [0])
        assert await _count(again) == 1

    play(scenario)


def test_on_primary_transactional_write_with_a_code_keeps_the_write_from_happening() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        data: dict[str, Any] = {"failBeforeCommitExceptionCode": 1}
        await deployment.configure("onPrimaryTransactionalWrite", {"times": 1}, **data)
        assert await talker.command(retryable_insert(1, txn_number=1)) is None
        again = await deployment.connect()
        assert await _count(again) == 0
        assert "retriedStmtIds" not in await again.ok(retryable_insert(1, txn_number=1))

    play(scenario)


def test_on_primary_transactional_write_may_leave_the_connection_open() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        data: dict[str, Any] = {"failBeforeCommitExceptionCode": 91, "closeConnection": False}
        await deployment.configure("onPrimaryTransactionalWrite", {"times": 1}, **data)
        reply = await talker.command(retryable_insert(1, txn_number=1))
        assert reply is not None
        message = str(reply)
        assert "due to failpoint. The write must not be reflected." in message
        assert await _count(talker) == 0

    play(scenario)


def test_on_primary_transactional_write_leaves_plain_writes_alone() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.configure("onPrimaryTransactionalWrite", "alwaysOn")
        await talker.ok({"insert": "c", "documents": [{}], "$db": "db"})
        await deployment.fail_command("alwaysOn", "find", errorCode=1)
        assert await talker.command(retryable_insert(7, txn_number=1)) is None

    play(scenario)


def test_fail_get_more_after_cursor_checkout_destroys_the_cursor() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        documents = [{"_id": number} for number in range(5)]
        await talker.ok({"insert": "c", "documents": documents, "$db": "db"})
        found = await talker.ok({"find": "c", "batchSize": 1, "$db": "db"})
        more = {"getMore": found["cursor"]["id"], "collection": "c", "batchSize": 1, "$db": "db"}
        await deployment.configure("failGetMoreAfterCursorCheckout", {"times": 1}, appName="other")
        await talker.ok(more)
        await deployment.configure("failGetMoreAfterCursorCheckout", {"times": 1}, errorCode=91)
        assert (await talker.fails(more))["code"] == 91
        assert (await talker.fails(more))["code"] == 43
        (hit,) = (record.event for record in deployment.cluster.journal.of_kind("failPointHit"))
        assert hit[:2] == ("failGetMoreAfterCursorCheckout", "getMore")

    play(scenario)


def test_time_limits_can_be_made_to_expire_always_or_never() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.configure("maxTimeAlwaysTimeOut", "alwaysOn")
        assert (await talker.fails({"ping": 1, "maxTimeMS": 1000}))["code"] == 50
        await talker.ok({"ping": 1})
        await talker.ok({"ping": 1, "maxTimeMS": 0})
        await deployment.configure("maxTimeAlwaysTimeOut", "off")
        await deployment.configure("maxTimeNeverTimeOut", "alwaysOn")
        await deployment.fail_command("alwaysOn", "ping", blockConnection=True, blockTimeMS=50)
        await talker.ok({"ping": 1, "maxTimeMS": 1})

    play(scenario)


def test_the_primary_check_can_be_made_to_fail_or_skipped() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        secondary = await deployment.connect(deployment.secondary)
        insert = {"insert": "c", "documents": [{}], "$db": "db"}
        await deployment.configure("respondWithNotPrimaryInCommandDispatch", "alwaysOn")
        assert (await talker.fails(insert))["code"] == 10107
        node = deployment.secondary
        await deployment.configure("skipCheckingForNotPrimaryInCommandDispatch", "alwaysOn", node=node)
        await secondary.ok({"find": "c", "$db": "db"})

    play(scenario)


def test_every_hit_is_in_the_journal() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command({"times": 1}, "ping", errorCode=91)
        await talker.fails(_PING)
        (hit,) = deployment.cluster.journal.of_kind("failPointHit")
        assert hit.source == "node0"
        assert hit.event._asdict() == {
            "name": "failCommand",
            "command": "ping",
            "connection": 1,
            "effect": "error",
        }

    play(scenario, REPLICA_SET)

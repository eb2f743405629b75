"""Fail points that have a name and an effect of their own, besides `failCommand`."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64
from talking import Deployment, lsid, play, retryable_insert

from fakeserver import ClusterSpec

_FIND = {"find": "c", "$db": "db"}
_INSERT = {"insert": "c", "documents": [{}], "$db": "db"}
_SEND = "sessionWorkflowDelayOrFailSendMessage"
_CLIENT = {
    "application": {"name": "app"},
    "driver": {"name": "talker", "version": "1"},
    "os": {"type": "Linux"},
}


def test_a_command_with_a_write_concern_fails_in_its_run() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.configure("failWithErrorCodeInRunCommand", "alwaysOn", errorCode=10107)
        failed = await talker.fails(_INSERT)
        assert (failed["code"], failed["errmsg"]) == (10107, "failWithErrorCodeInRunCommand enabled.")
        assert "topologyVersion" in failed
        await talker.ok(_FIND)
        await deployment.configure("failWithErrorCodeInRunCommand", "off")
        assert (await talker.ok({"count": "c", "$db": "db"}))["n"] == 0

    play(scenario, ClusterSpec.replica_set(1))


def test_a_command_that_has_checked_out_its_session_fails() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.configure("failWithErrorCodeAfterSessionCheckOut", {"times": 1}, errorCode=91)
        await talker.ok(_INSERT)
        failed = await talker.fails(retryable_insert(1, txn_number=1))
        assert (failed["code"], failed["errmsg"]) == (91, "failWithErrorCodeAfterSessionCheckOut enabled.")
        assert failed["errorLabels"][0] == "RetryableWriteError"
        assert (await talker.ok(retryable_insert(1, txn_number=1)))["n"] == 1

    play(scenario, ClusterSpec.replica_set(1))


@pytest.mark.parametrize(
    ("sharded", "name"),
    [(False, "shardWaitInHello"), (False, "waitInHello"), (True, "routerWaitInHello"), (True, "waitInHello")],
)
def test_a_hello_waits_so_many_milliseconds_or_until_it_may_go_on(*, sharded: bool, name: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, clock = await deployment.connect(), deployment.world.clock
        await deployment.configure(name, "alwaysOn", delayMillis=250)
        began = clock.now()
        await talker.ok({"hello": 1})
        assert clock.now() - began == pytest.approx(0.25, abs=0.01)
        await deployment.configure(name, "alwaysOn")
        await talker.send({"hello": 1})
        await deployment.sleep(5.0)
        await deployment.configure(name, "off")
        assert (await talker.reply() or {})["ok"] == 1.0
        assert clock.now() - began == pytest.approx(5.25, abs=0.01)

    play(scenario, ClusterSpec.sharded(1, members=1) if sharded else ClusterSpec.replica_set(1))


@pytest.mark.parametrize(("who", "waits"), [("internalClient", False), ("notInternalClient", True)])
def test_a_hello_of_other_clients_does_not_wait(who: str, *, waits: bool) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, clock = await deployment.connect(), deployment.world.clock
        data = {"delayMillis": 250, who: True}
        deployment.cluster.nodes[0].configure_fail_point("shardWaitInHello", mode="alwaysOn", data=data)
        began = clock.now()
        await talker.ok({"hello": 1})
        assert (clock.now() - began > 0.2) is waits

    play(scenario, ClusterSpec.standalone())


def test_a_hello_that_waits_awaits_a_change_only_then() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, clock = await deployment.connect(), deployment.world.clock
        version = (await talker.ok({"hello": 1}))["topologyVersion"]
        await deployment.configure("shardWaitInHello", {"times": 1}, delayMillis=100)
        began = clock.now()
        await talker.ok({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": Int64(300)})
        assert clock.now() - began >= 0.3

    play(scenario, ClusterSpec.replica_set(1))


@pytest.mark.parametrize(
    ("sharded", "name"),
    [(False, "appendHelloOkToHelloResponse"), (True, "routerAppendHelloOkToHelloResponse")],
)
def test_a_hello_tells_what_the_client_said_of_it(*, sharded: bool, name: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        assert "clientSupportsHello" not in await talker.ok({"hello": 1})
        await deployment.configure(name, "alwaysOn", threadName="conn1")
        assert (await talker.ok({"isMaster": 1}))["clientSupportsHello"] is False
        assert (await talker.ok({"isMaster": 1, "helloOk": True}))["clientSupportsHello"] is True
        assert "clientSupportsHello" not in await (await deployment.connect()).ok({"hello": 1})

    play(scenario, ClusterSpec.sharded(1, members=1) if sharded else ClusterSpec.replica_set(1))


def test_a_reply_is_sent_late_and_those_behind_it_wait() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, clock = await deployment.connect(), deployment.world.clock
        # By itself: the answer to the command would be late as well.
        node = deployment.cluster.nodes[0]
        node.configure_fail_point(_SEND, mode={"times": 1}, data={"millis": 200})
        began = clock.now()
        await talker.send({"ping": 1})
        await talker.send(_INSERT)
        for _ in range(2):
            assert (await talker.reply() or {})["ok"] == 1.0
            assert clock.now() - began == pytest.approx(0.2, abs=0.01)

    play(scenario, ClusterSpec.standalone())


def test_a_reply_that_cannot_be_sent_closes_the_connection_of_that_application() -> None:
    async def scenario(deployment: Deployment) -> None:
        doomed, other = await deployment.connect(), await deployment.connect()
        await doomed.ok({"hello": 1, "client": _CLIENT})
        await deployment.configure(_SEND, "alwaysOn", appName="app")
        await other.ok({"ping": 1})
        assert await doomed.command(_INSERT) is None
        # It was run all the same.
        assert (await other.ok({"count": "c", "$db": "db"}))["n"] == 1

    play(scenario, ClusterSpec.standalone())


def test_a_client_may_leave_while_its_reply_is_late() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        # By itself: the answer to the command would be late as well.
        node = deployment.cluster.nodes[0]
        node.configure_fail_point(_SEND, mode={"times": 1}, data={"millis": 200})
        await talker.send({"ping": 1})
        await deployment.sleep(0.1)
        await talker.aclose()
        await deployment.sleep(1.0)
        assert not deployment.cluster.nodes[0].connections

    play(scenario, ClusterSpec.standalone())


def test_an_exhaust_stream_goes_on_without_saying_so() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        version = (await talker.ok({"hello": 1}))["topologyVersion"]
        await deployment.configure("doNotSetMoreToCome", "alwaysOn")
        hello = {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": Int64(100)}
        await talker.send(hello, exhaust_allowed=True)
        for _ in range(2):
            envelope = await talker.receive()
            assert envelope is not None
            assert not envelope.more_to_come

    play(scenario, ClusterSpec.replica_set(1))


def test_labels_are_those_of_a_server_that_shuts_down() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.fail_command("alwaysOn", "insert", errorCode=91)
        write: dict[str, Any] = retryable_insert(1, txn_number=1)
        assert "errorLabels" not in await talker.fails(write)
        await deployment.configure("errorLabelBuilderMockShutdown", "alwaysOn")
        assert (await talker.fails(write))["errorLabels"] == ["RetryableWriteError"]

    play(scenario, ClusterSpec.sharded(1, members=1))


def test_new_connections_are_refused_as_if_there_were_too_many() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.configure("rejectNewNonPriorityConnections", "alwaysOn")
        assert await (await deployment.connect()).command({"ping": 1}) is None
        assert (await talker.ok({"serverStatus": 1}))["connections"]["rejected"] == 1
        node = deployment.cluster.nodes[0]
        node.configure_fail_point("rejectNewNonPriorityConnections", mode="off", data=None)
        await (await deployment.connect()).ok({"ping": 1})

    play(scenario, ClusterSpec.standalone())


def test_a_client_seems_to_come_through_a_load_balancer() -> None:
    async def scenario(deployment: Deployment) -> None:
        hello = {"hello": 1, "loadBalanced": True}
        assert "serviceId" not in await (await deployment.connect()).ok(hello)
        await deployment.configure("loadBalancerSupportClientIsFromLoadBalancerPort", "alwaysOn")
        assert "serviceId" in await (await deployment.connect()).ok(hello)

    play(scenario, ClusterSpec.sharded(1, members=1))


def test_a_get_more_does_not_await_data() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, clock = await deployment.connect(), deployment.world.clock
        await talker.ok({"create": "log", "capped": True, "size": 4096, "$db": "db"})
        await talker.ok({"insert": "log", "documents": [{}], "$db": "db"})
        found = await talker.ok({"find": "log", "tailable": True, "awaitData": True, "$db": "db"})
        await deployment.configure("disableAwaitDataForGetMoreCmd", "alwaysOn")
        began = clock.now()
        more = await talker.ok({"getMore": found["cursor"]["id"], "collection": "log", "$db": "db"})
        assert more["cursor"]["nextBatch"] == []
        assert clock.now() - began < 0.1

    play(scenario, ClusterSpec.standalone())


def test_a_limiter_that_hangs_admits_nobody_without_a_queue_and_keeps_an_hour_with_one() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, node = await deployment.connect(), deployment.cluster.nodes[0]
        node.configure_fail_point("hangInRateLimiter", mode="alwaysOn", data=None)
        assert (await talker.fails({"ping": 1}))["code"] == 462
        node.parameters.set({"ingressRequestAdmissionMaxQueueDepth": 1})
        began = deployment.world.clock.now()
        await talker.ok({"ping": 1})
        assert deployment.world.clock.now() - began == pytest.approx(3600, abs=1)

    limited = {"ingressRequestRateLimiterEnabled": True, "ingressRequestAdmissionRatePerSec": 1000}
    limited["ingressRequestAdmissionBurstCapacitySecs"] = 1
    play(scenario, ClusterSpec.standalone(profile="9.0", parameters=limited))


def test_a_transaction_meets_the_fail_points_of_its_session_once_for_each_command() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        session = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        await deployment.configure("failWithErrorCodeAfterSessionCheckOut", {"skip": 1}, errorCode=112)
        await talker.ok({**_INSERT, **session, "startTransaction": True})
        failed = await talker.fails({**_INSERT, **session})
        assert failed["errorLabels"] == ["TransientTransactionError"]

    play(scenario, ClusterSpec.replica_set(1))

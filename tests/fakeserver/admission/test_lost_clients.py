"""What becomes of the work of clients that have gone (`abandonedRequests`), in virtual time."""

from __future__ import annotations

import math
import socket
import struct
from typing import Any

import pytest
from bson import Int64
from hypothesis import given
from hypothesis import strategies as st
from talking import STANDALONE, Deployment, Talker, lsid, play, play_live

from fakeserver import ClusterSpec
from fakeserver.admission.parameters import (
    AT_INTERRUPT_CHECK,
    AT_ONCE,
    CHECK_PERIOD,
    NEVER,
    RequestPlace,
    ends_with_client,
    noticed_at,
)
from fakeserver.deployment.records.events import CommandFinished, ConnectionClosed, RequestAbandoned
from mongowire.connection import WireConnection
from mongowire.messages import OpMsg

_FIND = {"find": "c", "$db": "db"}
_INSERT = {"insert": "c", "documents": [{"_id": 1}], "$db": "db"}
_ALL = (AT_ONCE, AT_INTERRUPT_CHECK, NEVER)
_ONE_READER: dict[str, Any] = {
    "executionControlConcurrencyAdjustmentAlgorithm": "fixedConcurrentTransactions",
    "executionControlConcurrentReadTransactions": 1,
}
_LIMITED: dict[str, Any] = {
    "ingressRequestRateLimiterEnabled": True,
    "ingressRequestAdmissionRatePerSec": 1,
    "ingressRequestAdmissionBurstCapacitySecs": 1.0,
    "ingressRequestAdmissionMaxQueueDepth": 5,
}


def _spec(noticed: str | None = None, *, seconds: float = 2.0, **parameters: Any) -> ClusterSpec:
    """Return a server whose commands take so long."""
    when = {} if noticed is None else {"abandonedRequests": noticed}
    return ClusterSpec.standalone(
        profile="9.0", parameters={"serviceTimeBaseMillis": seconds * 1000, **when, **parameters}
    )


async def _leave(deployment: Deployment, command: dict[str, Any], *, after: float = 0.3) -> Talker:
    """Have a client ask and go away, so many seconds later."""
    talker = await deployment.connect()
    await talker.send(command)
    await deployment.sleep(after)
    await talker.aclose()
    await deployment.sleep(0.01)
    return talker


def _told(deployment: Deployment, kind: type) -> list[Any]:
    return [record.event for record in deployment.cluster.journal.records if isinstance(record.event, kind)]


def _finished(deployment: Deployment) -> list[str]:
    return [event.name for event in _told(deployment, CommandFinished)]


# The decision.


@given(
    place=st.sampled_from(RequestPlace),
    marked=st.booleans(),
    since=st.floats(0, 100),
    lasted=st.floats(0, 100),
)
def test_a_loss_is_noticed_at_once_or_never_or_within_half_a_second_of_work(
    place: RequestPlace, *, marked: bool, since: float, lasted: float
) -> None:
    now = since + lasted
    at_once, at, never = (
        noticed_at(when, place, marked=marked, since=since, now=now)
        for when in (AT_ONCE, AT_INTERRUPT_CHECK, NEVER)
    )
    assert (at_once, never) == (now, math.inf)
    if marked and place is RequestPlace.WORKING:
        assert now < at + 1e-9
        assert at - now <= CHECK_PERIOD + 1e-9
    else:
        assert at in {now, math.inf}


@pytest.mark.parametrize(
    ("command", "writes", "exhaust", "ends"),
    [
        ("find", False, False, True),
        ("aggregate", False, False, True),
        ("aggregate", True, False, False),  # $out
        ("insert", False, False, False),
        ("getMore", False, False, False),
        ("getMore", False, True, True),
        ("commitTransaction", False, False, False),
    ],
)
def test_commands_that_read_end_with_their_clients(
    command: str, *, writes: bool, exhaust: bool, ends: bool
) -> None:
    assert ends_with_client(command, writes=writes, exhaust=exhaust) is ends


# At once.


def test_at_once_a_request_is_given_up_with_its_connection() -> None:
    async def scenario(deployment: Deployment) -> None:
        await _leave(deployment, _FIND)
        node = deployment.primary
        assert (node.admission.service.concurrency, len(node.connections)) == (0, 0)
        (given_up,) = _told(deployment, RequestAbandoned)
        assert given_up.waited == pytest.approx(0.3, abs=0.01)
        assert not _finished(deployment)

    play(scenario, _spec(AT_ONCE))


# At an interrupt check.


def test_a_read_that_works_is_given_up_at_its_next_check() -> None:
    async def scenario(deployment: Deployment) -> None:
        await _leave(deployment, _FIND, after=0.7)
        service = deployment.primary.admission.service
        assert service.concurrency == 1
        await deployment.sleep(0.25)
        assert service.concurrency == 1
        await deployment.sleep(0.05)
        assert service.concurrency == 0
        (given_up,) = _told(deployment, RequestAbandoned)
        assert given_up.waited == pytest.approx(1.0, abs=0.001)
        assert not deployment.primary.connections

    play(scenario, _spec(AT_INTERRUPT_CHECK))


def test_a_read_that_is_done_before_the_check_was_paid_for() -> None:
    async def scenario(deployment: Deployment) -> None:
        await _leave(deployment, _FIND, after=0.1)
        await deployment.sleep(1.0)
        assert _finished(deployment) == ["find"]
        assert not _told(deployment, RequestAbandoned)

    play(scenario, _spec(AT_INTERRUPT_CHECK, seconds=0.4))


def test_a_write_is_done_to_its_end() -> None:
    async def scenario(deployment: Deployment) -> None:
        await _leave(deployment, _INSERT)
        await deployment.sleep(3.0)
        assert _finished(deployment) == ["insert"]
        deployment.primary.parameters.set({"serviceTimeBaseMillis": 0})
        assert (await (await deployment.connect()).ok({"count": "c", "$db": "db"}))["n"] == 1

    play(scenario, _spec(AT_INTERRUPT_CHECK))


def test_a_read_that_queues_for_the_engine_is_given_up_at_once() -> None:
    async def scenario(deployment: Deployment) -> None:
        await (await deployment.connect()).send(_FIND)
        await _leave(deployment, _FIND)
        (given_up,) = _told(deployment, RequestAbandoned)
        assert given_up.waited == pytest.approx(0.3, abs=0.01)
        assert deployment.primary.admission.execution.read.out == 1

    play(scenario, _spec(AT_INTERRUPT_CHECK, **_ONE_READER))


def test_what_queues_ahead_of_its_run_is_admitted_and_paid_for() -> None:
    async def scenario(deployment: Deployment) -> None:
        working = await deployment.connect()
        await working.send(_FIND)
        await _leave(deployment, _FIND)
        ingress = deployment.primary.admission.ingress
        assert (ingress.out, ingress.queued) == (1, 1)
        await working.reply()
        await deployment.sleep(0.4)
        # The one that left has its ticket now, and works until the first check.
        assert (ingress.out, deployment.primary.admission.service.concurrency) == (1, 1)
        await deployment.sleep(0.2)
        assert (ingress.out, deployment.primary.admission.service.concurrency) == (0, 0)

    play(scenario, _spec(AT_INTERRUPT_CHECK, ingressAdmissionControllerTicketPoolSize=1))


def test_a_token_that_nobody_waits_for_any_more_is_used_all_the_same() -> None:
    async def scenario(deployment: Deployment) -> None:
        limiter = deployment.primary.admission.requests
        await (await deployment.connect()).ok({"ping": 1})
        await _leave(deployment, {"ping": 1})
        assert limiter.queued == 1
        await deployment.sleep(1.0)
        assert (limiter.queued, limiter.interrupted_in_queue, limiter.successful) == (0, 0, 2)
        assert len(deployment.primary.connections) == 1, "that of the first client"

    play(scenario, _spec(AT_INTERRUPT_CHECK, **_LIMITED))


def test_it_is_what_a_server_does() -> None:
    async def scenario(deployment: Deployment) -> None:
        shown = await (await deployment.connect()).ok({"getParameter": 1, "abandonedRequests": 1})
        assert shown["abandonedRequests"] == AT_INTERRUPT_CHECK

    play(scenario, ClusterSpec.standalone())


# Never.


def test_never_a_request_keeps_all_that_it_holds_to_its_end() -> None:
    async def scenario(deployment: Deployment) -> None:
        await _leave(deployment, _FIND)
        node = deployment.primary
        held = (
            node.admission.ingress.out,
            node.admission.execution.read.out,
            node.admission.service.concurrency,
        )
        assert held == (1, 1, 1)
        assert len(node.connections) == 1, "its thread is busy"
        await deployment.sleep(1.6)
        assert node.admission.service.concurrency == 1
        await deployment.sleep(0.2)
        assert (node.admission.ingress.out, node.admission.service.concurrency) == (0, 0)
        assert not node.connections
        assert _finished(deployment) == ["find"]
        assert len(_told(deployment, ConnectionClosed)) == 1

    play(scenario, _spec(NEVER))


def test_never_the_work_of_those_who_left_slows_down_those_who_wait() -> None:
    async def scenario(deployment: Deployment) -> None:
        for _ in range(4):
            await _leave(deployment, _FIND, after=0.0)
        began = deployment.world.clock.now()
        await (await deployment.connect()).ok(_FIND)
        assert deployment.world.clock.now() - began == pytest.approx(2.0 * 2**4, abs=0.01)

    play(scenario, _spec(NEVER, serviceTimeConcurrencyLimit=1, serviceTimeFactor=2.0, serviceTimeK=1.0))


def test_a_transaction_that_is_under_way_goes_on_without_its_client() -> None:
    async def scenario(deployment: Deployment) -> None:
        begin = {"lsid": lsid(), "txnNumber": Int64(1), "startTransaction": True, "autocommit": False}
        await _leave(deployment, {**_INSERT, **begin})
        await deployment.sleep(3.0)
        assert deployment.cluster.transactions.status()["currentOpen"] == 1

    slow = {"serviceTimeBaseMillis": 2000, "abandonedRequests": NEVER}
    play(scenario, ClusterSpec.replica_set(1, parameters=slow))


# Whatever it is set to.


@pytest.mark.parametrize("noticed", _ALL)
def test_a_stop_does_not_wait_for_those_who_left(noticed: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        await _leave(deployment, _FIND)
        began = deployment.world.clock.now()
        await deployment.primary.kill()
        assert deployment.world.clock.now() - began < 0.1
        assert not deployment.primary.connections
        await deployment.primary.start()
        assert deployment.primary.admission.service.concurrency == 0

    play(scenario, _spec(noticed))


@pytest.mark.parametrize("noticed", _ALL)
def test_a_shutdown_interrupts_those_who_left_like_all_others(noticed: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        await _leave(deployment, _FIND)
        await deployment.primary.shut_down(quiesce=0)
        assert not deployment.primary.connections

    play(scenario, _spec(noticed))


@pytest.mark.parametrize(
    ("noticed", "run"), [(AT_ONCE, []), (AT_INTERRUPT_CHECK, ["insert"]), (NEVER, ["insert"])]
)
def test_what_reached_a_stopped_process_is_run_when_it_goes_on(noticed: str, run: list[str]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.sleep(0.1)
        deployment.primary.pause()
        await talker.send(_INSERT)
        await deployment.sleep(1.0)
        await talker.aclose()
        await deployment.sleep(30.0)
        deployment.primary.resume()
        await deployment.sleep(3.0)
        assert _finished(deployment) == run
        assert not deployment.primary.connections

    play(scenario, _spec(noticed))


@pytest.mark.parametrize("noticed", _ALL)
def test_a_client_that_waits_is_answered(noticed: str) -> None:
    async def scenario(deployment: Deployment) -> None:
        await (await deployment.connect()).ok(_FIND)

    play(scenario, _spec(noticed))


# Requests behind the one whose reply cannot be sent.


def _pings(count: int, **flags: Any) -> bytes:
    wire = WireConnection()
    messages = (OpMsg.of({"ping": number, "$db": "admin"}, **flags) for number in range(count))
    return b"".join(wire.send(message, request_id=number) for number, message in enumerate(messages, 1))


def _reset(address: str, data: bytes) -> None:
    """Connect, send and reset the connection, all before the server has a turn."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(data)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("ours", [STANDALONE, ClusterSpec.standalone(auth=True)], ids=["open", "auth"])
def test_no_request_is_begun_behind_a_reply_that_cannot_be_sent(ours: ClusterSpec) -> None:
    async def scenario(deployment: Deployment) -> None:
        for _ in range(20):
            _reset(deployment.cluster.nodes[0].address, _pings(30))
        while not _told(deployment, ConnectionClosed) or deployment.cluster.nodes[0].connections:
            await deployment.sleep(0.01)
        # A server reads a request, and learns from its reply that nobody is there.
        assert len(_finished(deployment)) <= 20
        assert len(_told(deployment, ConnectionClosed)) == 20

    play_live(scenario, ours)


def test_what_wants_no_reply_is_done_although_its_client_has_gone() -> None:
    async def scenario(deployment: Deployment) -> None:
        _reset(deployment.cluster.nodes[0].address, _pings(30, more_to_come=True))
        while not _told(deployment, ConnectionClosed):
            await deployment.sleep(0.01)
        assert _finished(deployment) == ["ping"] * 30

    play_live(scenario, STANDALONE)


@pytest.mark.parametrize(("noticed", "run"), [(AT_INTERRUPT_CHECK, ["insert"]), (NEVER, ["insert"])])
def test_what_lies_behind_a_request_whose_client_has_gone_is_not_begun(noticed: str, run: list[str]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for _ in range(3):
            await talker.send(_INSERT)
        await deployment.sleep(0.3)
        await talker.aclose()
        await deployment.sleep(30.0)
        assert _finished(deployment) == run
        assert not deployment.primary.connections

    play(scenario, _spec(noticed))

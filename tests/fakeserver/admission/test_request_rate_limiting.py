"""The ingress request rate limiter on a running server, as its clients see it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from bson import Int64
from talking import Deployment, Talker, play

from fakeserver import ClusterSpec, UserSpec
from fakeserver.deployment.records.events import FailPointHit
from mongowire.compression import Compressor
from mongowire.messages import OpMsg, OpQuery, OpReply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_PING = {"ping": 1}
_INSERT = {"insert": "c", "documents": [{"x": 1}], "$db": "db"}
_APPLICATION = {"appNames": ["monitor"]}


def _limited(
    make: Callable[..., ClusterSpec] = ClusterSpec.standalone,
    *,
    burst: float = 1.0,
    more: Mapping[str, Any] | None = None,
    **facts: Any,
) -> ClusterSpec:
    """Describe servers that admit one request a second, after a burst; a monitor may always ask."""
    parameters = {
        "ingressRequestRateLimiterEnabled": True,
        "ingressRequestAdmissionRatePerSec": 1,
        "ingressRequestAdmissionBurstCapacitySecs": burst,
        "ingressRequestRateLimiterApplicationExemptions": _APPLICATION,
        **(more or {}),
    }
    return make(parameters=parameters, **facts)


async def _monitor(deployment: Deployment) -> Talker:
    """Connect as an application that is exempt; its hello is not yet."""
    talker = await deployment.connect()
    node = deployment.cluster.nodes[0]
    node.parameters.set({"ingressRequestRateLimiterEnabled": False})
    await talker.ok({"hello": 1, "client": _client("monitor")})
    node.parameters.set({"ingressRequestRateLimiterEnabled": True})
    return talker


def _client(name: str) -> dict[str, Any]:
    return {
        "application": {"name": name},
        "driver": {"name": "talker", "version": "1"},
        "os": {"type": "Linux"},
    }


async def _stats(monitor: Talker) -> dict[str, Any]:
    status = await monitor.ok({"serverStatus": 1})
    stats: dict[str, Any] = status["network"]["ingressRequestRateLimiter"]
    return stats


@pytest.mark.spec("SAC-49", "SAC-51", "SAC-55")
def test_a_burst_of_k_tokens_admits_exactly_k_of_n_requests_whatever_they_are() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        requests: list[dict[str, Any]] = [
            {"hello": 1},
            _PING,
            _INSERT,
            {"serverStatus": 1},
            _PING,
            {"bogus": 1},
            _INSERT,
        ]
        replies = [await talker.command(request) for request in requests]
        codes = [reply.get("code") for reply in replies if reply is not None]
        assert codes == [None, None, None, None, None, 462, 462]

    play(scenario, _limited(burst=2.5, more={"ingressRequestAdmissionRatePerSec": 2}))


@pytest.mark.spec("SAC-52", "SAC-55")
def test_a_token_accrues_with_time() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_PING)
        await talker.fails(_PING)
        await deployment.sleep(1.0)
        await talker.ok(_PING)
        await talker.fails(_PING)

    play(scenario, _limited())


@pytest.mark.spec("SAC-50")
@pytest.mark.parametrize(
    ("profile", "more", "reply"),
    [
        pytest.param(
            "9.0",
            {},
            {
                "ok": 0.0,
                "errmsg": "Request rejected: ingress request rate limit exceeded",
                "code": 462,
                "codeName": "IngressRequestRateLimitExceeded",
                "errorLabels": ["SystemOverloadedError", "RetryableError", "NoWritesPerformed"],
            },
            id="9.0",
        ),
        pytest.param(
            "9.0",
            {"externalClientBaseBackoffMS": 250},
            {
                "ok": 0.0,
                "errmsg": "Request rejected: ingress request rate limit exceeded",
                "code": 462,
                "codeName": "IngressRequestRateLimitExceeded",
                "errorLabels": ["SystemOverloadedError", "RetryableError", "NoWritesPerformed"],
                "baseBackoffMS": Int64(250),
            },
            id="9.0 with a hint how long to back off",
        ),
        pytest.param(
            "9.0",
            {"externalClientBaseBackoffMS": 250, "ingressRequestRateLimiterAllowRetries": False},
            {
                "ok": 0.0,
                "errmsg": "Request rejected: ingress request rate limit exceeded",
                "code": 462,
                "codeName": "IngressRequestRateLimitExceeded",
                "errorLabels": ["SystemOverloadedError", "NoWritesPerformed"],
            },
            id="9.0 where retries are not allowed",
        ),
        pytest.param(
            "8.2",
            {},
            {
                "ok": 0.0,
                "errmsg": "Rate limiter 'ingressRequestRateLimiter' rate exceeded",
                "code": 462,
                "codeName": "IngressRequestRateLimitExceeded",
                "errorLabels": ["SystemOverloadedError", "RetryableError"],
            },
            id="8.2",
        ),
    ],
)
def test_a_rejection_says_so_in_the_words_of_its_release(
    profile: str, more: dict[str, Any], reply: dict[str, Any]
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_PING)
        refused = await talker.fails(_INSERT)
        assert list(refused.items()) == list(reply.items())

    play(scenario, _limited(ClusterSpec.replica_set, profile=profile, more=more))


def test_a_release_before_the_limiter_has_neither_it_nor_its_parameters() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        refused = await talker.fails({"setParameter": 1, "ingressRequestAdmissionRatePerSec": 1})
        assert refused["code"] == 72

    play(scenario, ClusterSpec.standalone(profile="7.0"))


@pytest.mark.spec("SAC-51")
def test_a_rejected_insert_changes_no_data_and_no_command_counter() -> None:
    async def scenario(deployment: Deployment) -> None:
        monitor = await _monitor(deployment)
        talker = await deployment.connect()
        await talker.ok(_INSERT)
        await talker.fails(_INSERT)
        status = await monitor.ok({"serverStatus": 1})
        assert status["metrics"]["commands"]["insert"] == {"failed": 0, "total": 1}
        assert (await monitor.ok({"count": "c", "$db": "db"}))["n"] == 1

    play(scenario, _limited())


@pytest.mark.spec("SAC-59")
def test_the_counters_tell_admitted_rejected_and_exempt_requests_apart() -> None:
    async def scenario(deployment: Deployment) -> None:
        monitor = await _monitor(deployment)
        talker = await deployment.connect()
        for _ in range(5):
            await talker.command(_PING)
        stats = await _stats(monitor)
        assert stats == {
            "rejectedAdmissions": 3,
            "successfulAdmissions": 2,
            "exemptedAdmissions": 1,
            "attemptedAdmissions": 5,
            "totalAvailableTokens": pytest.approx(0, abs=0.1),
        }

    play(scenario, _limited(burst=2.0))


@pytest.mark.spec("SAC-57")
def test_an_unauthenticated_client_never_spends_a_token() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        for _ in range(20):
            await talker.ok(_PING)
        limiter = deployment.cluster.nodes[0].admission.requests
        assert limiter.available(deployment.world.clock.now()) == 1
        assert (limiter.exempted, limiter.attempted) == (20, 0)

    play(scenario, _limited(auth=True, users=(UserSpec("alice", "secret"),)))


@pytest.mark.spec("SAC-56")
def test_an_address_in_the_exempt_ranges_is_never_rejected_and_the_list_may_change_at_runtime() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_PING)
        await talker.fails(_PING)
        parameters = deployment.cluster.nodes[0].parameters
        parameters.set({"ingressRequestRateLimiterExemptions": {"ranges": ["127.0.0.0/8", "::1"]}})
        for _ in range(5):
            await talker.ok(_PING)
        parameters.set({"ingressRequestRateLimiterExemptions": {"ranges": []}})
        await talker.fails(_PING)

    play(scenario, _limited(host="127.0.0.1"))


def test_an_application_is_exempt_once_it_has_introduced_itself() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"hello": 1, "client": _client("monitoring tool")})
        for _ in range(5):
            await talker.ok(_PING)

    play(scenario, _limited())


def test_a_rejected_message_that_expects_no_reply_gets_none() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_PING)
        await talker.send({**_INSERT, "writeConcern": {"w": 0}}, more_to_come=True)
        refused = await talker.send(_PING)
        envelope = await talker.receive()
        assert envelope is not None
        assert envelope.response_to == refused

    play(scenario, _limited())


def test_a_rejected_query_is_answered_as_a_query() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_PING)
        await talker.send(OpQuery.of("admin.$cmd", {"isMaster": 1}))
        envelope = await talker.receive()
        assert envelope is not None
        reply = envelope.parse()
        assert isinstance(reply, OpReply)
        assert reply.decode() == {
            "ok": 0.0,
            "errmsg": "Rate limiter 'ingressRequestRateLimiter' rate exceeded",
            "code": 462,
            "codeName": "IngressRequestRateLimitExceeded",
            "errorLabels": ["SystemOverloadedError", "RetryableError"],
        }

    play(scenario, _limited())


@pytest.mark.parametrize("compressor", [Compressor.ZLIB, Compressor.NOOP])
def test_a_rejection_is_compressed_as_the_request_was(compressor: Compressor) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok({"hello": 1, "compression": ["zlib", "noop"]})
        await talker.send(_PING, compressor=compressor)
        envelope = await talker.receive()
        assert envelope is not None
        assert (envelope.parse().decode()["code"], envelope.compressor) == (462, compressor)

    play(scenario, _limited())


@pytest.mark.parametrize("checksum", [True, False])
def test_a_rejection_has_a_checksum_if_the_request_has_one(checksum: bool) -> None:  # noqa: FBT001 - a case
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_PING)
        sent = await talker.send(_PING, checksum=checksum)
        envelope = await talker.receive()
        assert envelope is not None
        reply = envelope.parse()
        assert isinstance(reply, OpMsg)
        assert (reply.decode()["code"], reply.checksum, envelope.response_to) == (462, checksum, sent)

    play(scenario, _limited())


@pytest.mark.spec("SAC-49")
def test_a_mongos_limits_requests_too() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await talker.ok(_PING)
        assert (await talker.fails(_PING))["code"] == 462

    play(scenario, _limited(ClusterSpec.sharded))


@pytest.mark.spec("SAC-58")
def test_what_a_server_does_by_itself_spends_no_token() -> None:
    """Replication, the TTL monitor and the deletion of what has expired come by no connection."""

    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        made = {"createIndexes": "c", "indexes": [{"key": {"at": 1}, "name": "at", "expireAfterSeconds": 1}]}
        await talker.ok({**made, "$db": "db"})
        past = datetime(2001, 1, 1, tzinfo=UTC)
        document = {"_id": 1, "at": past}
        write = {"insert": "c", "documents": [document], "writeConcern": {"w": 3}, "$db": "db"}
        await deployment.sleep(1.0)
        await talker.ok(write)
        spent = [node.admission.requests.attempted for node in deployment.cluster.nodes]
        await deployment.sleep(10.0)
        assert deployment.primary.counters.ttl_deleted == 1
        assert [node.admission.requests.attempted for node in deployment.cluster.nodes] == spent == [2, 0, 0]

    play(scenario, _limited(ClusterSpec.replica_set, more={"ttlMonitorSleepSecs": 2}))


# The queue.


def _queueing(depth: int = 2, **more: Any) -> ClusterSpec:
    return _limited(profile="9.0", more={"ingressRequestAdmissionMaxQueueDepth": depth, **more})


def test_a_request_on_credit_waits_for_its_token_and_the_next_one_behind_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        talkers = [await deployment.connect() for _ in range(4)]
        began = deployment.world.clock.now()

        async def timed(talker: Talker) -> tuple[float, int | None]:
            reply = await talker.command(_PING)
            assert reply is not None
            return round(deployment.world.clock.now() - began, 1), reply.get("code")

        answers = await asyncio.gather(*(timed(talker) for talker in talkers))
        assert sorted(answers, key=str) == [(0.0, 462), (0.0, None), (1.0, None), (2.0, None)]

    play(scenario, _queueing())


def test_an_error_is_told_before_the_wait_and_gives_the_token_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        limiter = deployment.cluster.nodes[0].admission.requests
        await talker.ok(_PING)
        began = deployment.world.clock.now()
        assert (await talker.fails({"bogus": 1}))["code"] == 59
        assert deployment.world.clock.now() - began < 0.1
        assert (limiter.added_to_queue, limiter.removed_from_queue) == (1, 1)
        assert limiter.interrupted_in_queue == 0

    play(scenario, _queueing())


def test_a_deadline_interrupts_the_wait() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        limiter = deployment.cluster.nodes[0].admission.requests
        await talker.ok(_PING)
        late = await talker.fails({"find": "c", "maxTimeMS": 200, "$db": "db"})
        assert late["code"] == 50
        assert late["errmsg"] == (
            "Interrupted while waiting in rate limiter queue. rateLimiterName=ingressRequestRateLimiter"
            " :: caused by :: operation exceeded time limit"
        )
        assert limiter.interrupted_in_queue == 1

    play(scenario, _queueing())


def test_a_request_that_waits_is_shown_in_its_queue_and_can_be_killed() -> None:
    async def scenario(deployment: Deployment) -> None:
        monitor, talker = await _monitor(deployment), await deployment.connect()
        await talker.ok(_PING)
        await talker.send(_PING)
        await deployment.sleep(0.5)
        (operation,) = [op for op in (await monitor.ok({"currentOp": 1}))["inprog"] if op.get("currentQueue")]
        queue = operation["currentQueue"]
        assert queue == {"name": "ingress_request", "timeQueuedMicros": pytest.approx(500_000, rel=0.01)}
        assert operation["queues"]["ingress_request"]["totalTimeQueuedMicros"] == queue["timeQueuedMicros"]
        await monitor.ok({"killOp": 1, "op": operation["opid"]})
        reply = await talker.reply()
        assert reply is not None
        assert (reply["code"], reply["errmsg"]) == (
            11601,
            (
                "Interrupted while waiting in rate limiter queue. rateLimiterName=ingressRequestRateLimiter"
                " :: caused by :: operation was interrupted"
            ),
        )
        assert deployment.cluster.nodes[0].admission.requests.interrupted_in_queue == 1

    play(scenario, _queueing())


def test_a_client_that_is_missed_while_it_waits_gives_its_token_back() -> None:
    async def scenario(deployment: Deployment) -> None:
        deployment.cluster.nodes[0].parameters.set({"abandonedRequests": "atOnce"})
        talker, other = await deployment.connect(), await deployment.connect()
        limiter = deployment.cluster.nodes[0].admission.requests
        await talker.ok(_PING)
        await talker.send(_PING)
        await deployment.sleep(0.1)
        assert limiter.queued == 1
        await talker.aclose()
        await deployment.sleep(0.1)
        assert (limiter.queued, limiter.interrupted_in_queue) == (0, 1)
        began = deployment.world.clock.now()
        await other.ok(_PING)
        assert deployment.world.clock.now() - began < 1.0

    play(scenario, _queueing())


@pytest.mark.spec("SAC-54")
def test_a_limiter_that_is_switched_off_lets_those_go_who_wait() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        node = deployment.cluster.nodes[0]
        await talker.ok(_PING)
        await talker.send(_PING)
        await deployment.sleep(0.1)
        node.parameters.set({"ingressRequestRateLimiterEnabled": False})
        reply = await talker.reply()
        assert reply is not None
        assert reply["ok"] == 1.0
        assert node.admission.requests.exempted == 1

    play(scenario, _queueing())


# Fail points and parameters.


def test_a_fail_point_rejects_everything_without_counting_it() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.configure("failIngressRequestRateLimiting", "alwaysOn")
        before = deployment.cluster.nodes[0].admission.requests.attempted
        assert (await talker.fails(_PING))["code"] == 462
        assert deployment.cluster.nodes[0].admission.requests.attempted == before

    play(scenario, _limited(burst=100.0))


def test_a_request_that_the_fail_point_rejects_is_a_hit_in_the_journal() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.configure("failIngressRequestRateLimiting", {"times": 1})
        await talker.fails(_PING)
        await talker.ok(_PING)
        records = deployment.cluster.journal.since(0)
        hits = [record.event for record in records if isinstance(record.event, FailPointHit)]
        assert [(hit.name, hit.effect) for hit in hits] == [("failIngressRequestRateLimiting", "error")]

    play(scenario, _limited(burst=100.0))


def test_a_fail_point_makes_those_who_may_queue_wait_for_an_hour() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        await deployment.configure("hangInRateLimiter", "alwaysOn")
        began = deployment.world.clock.now()
        await talker.ok(_PING)
        assert deployment.world.clock.now() - began == pytest.approx(3600, abs=0.1)

    play(scenario, _queueing())


def test_a_fail_point_sets_a_rate_below_one() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker = await deployment.connect()
        point = "ingressRequestRateLimiterFractionalRateOverride"
        await deployment.configure(point, "alwaysOn", rate=0.1)
        await talker.ok(_PING)
        await deployment.sleep(9.9)
        await talker.fails(_PING)
        await deployment.sleep(0.2)
        await talker.ok(_PING)

    play(scenario, _limited(burst=10.0))


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ({"ingressRequestAdmissionRatePerSec": -1}, 2),
        ({"ingressRequestAdmissionRatePerSec": 0}, 2),
        ({"ingressRequestAdmissionRatePerSec": 2**31}, 2),
        ({"ingressRequestAdmissionRatePerSec": {}}, 2),
        ({"ingressRequestAdmissionBurstCapacitySecs": 0}, 2),
        ({"ingressRequestAdmissionBurstCapacitySecs": -0.5}, 2),
        ({"ingressRequestAdmissionBurstCapacitySecs": float("nan")}, 2),
        ({"ingressRequestAdmissionMaxQueueDepth": -1}, 2),
        ({"externalClientBaseBackoffMS": -1}, 2),
        ({"ingressRequestAdmissionRatePerSec": "7"}, 2),
        ({"ingressRequestRateLimiterExemptions": "{ranges: []}"}, 14),
        ({"ingressRequestRateLimiterExemptions": {"ranges": "127.0.0.1"}}, 14),
        ({"ingressRequestRateLimiterExemptions": {"ranges": [5]}}, 14),
        ({"ingressRequestRateLimiterExemptions": {"ranges": [], "more": 1}}, 40415),
        ({"ingressRequestRateLimiterExemptions": {}}, 40414),
        ({"ingressRequestRateLimiterApplicationExemptions": {"appNames": "x"}}, 14),
        ({"ingressRequestAdmissionRate": 5}, 72),
        ({"ingressRequestAdmissionRatePerSec": 7, "ingressRequestAdmissionBurstCapacitySecs": -1}, 2),
    ],
)
def test_a_bad_parameter_is_an_error_and_changes_nothing(setting: dict[str, Any], code: int) -> None:
    async def scenario(deployment: Deployment) -> None:
        monitor = await _monitor(deployment)
        before = await monitor.ok({"getParameter": "*"})
        assert (await monitor.fails({"setParameter": 1, **setting}))["code"] == code
        after = await monitor.ok({"getParameter": "*"})
        assert before == after

    play(scenario, _limited(profile="9.0"))

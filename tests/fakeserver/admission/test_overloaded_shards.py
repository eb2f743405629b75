"""Shards that refuse a mongos: what it does about that, and what its clients see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bson import Int64
from talking import Deployment, Talker, lsid, play

from fakeserver import ClusterSpec

if TYPE_CHECKING:
    from fakeserver.deployment.cluster import Node

_FIND = {"find": "c", "$db": "db"}
_INSERT = {"insert": "c", "documents": [{"x": 1}], "$db": "db"}
_ALL_REFUSED = {
    "ingressRequestRateLimiterEnabled": True,
    "ingressRequestAdmissionRatePerSec": 1,
    "ingressRequestAdmissionBurstCapacitySecs": 5e-6,
}
_OVERLOADED = {
    "errorCode": 462,
    "errorLabels": ["SystemOverloadedError", "RetryableError", "NoWritesPerformed"],
    "failInternalCommands": True,
}
_SPEC = ClusterSpec.sharded(1, members=1, profile="9.0")


async def _begin(deployment: Deployment, **parameters: Any) -> tuple[Talker, Node]:
    """Connect to the mongos, whose backoffs are exact; return it and the shard's primary."""
    talker = await deployment.connect()
    await deployment.configure("returnMaxBackoffDelay", "alwaysOn")
    if parameters:
        await talker.ok({"setParameter": 1, **parameters})
    primary = deployment.cluster.shards[0].primary
    assert primary is not None
    return talker, primary


async def _stats(talker: Talker) -> dict[str, Any]:
    status = await talker.ok({"serverStatus": 1})
    stats: dict[str, Any] = status["shardingStatistics"]["shards"]["shard01"]
    return stats


def test_a_shards_limiter_stands_in_front_of_its_mongos_and_its_462_reaches_the_client() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment)
        primary.parameters.set(_ALL_REFUSED)
        began = deployment.world.clock.now()
        refused = await talker.fails(_FIND)
        assert (refused["code"], refused["errorLabels"]) == (462, ["SystemOverloadedError"])
        assert "baseBackoffMS" not in refused
        # Three retries, 0.2, 0.4 and 0.8 s after one another.
        assert deployment.world.clock.now() - began == pytest.approx(1.4, abs=0.01)
        assert primary.admission.requests.rejected == 4
        assert await _stats(talker) == {
            "numOperationsAttempted": 1,
            "numOperationsRetriedAtLeastOnceDueToOverload": 1,
            "numOperationsRetriedAtLeastOnceDueToOverloadAndSucceeded": 0,
            "numRetriesDueToOverloadAttempted": 3,
            "numRetriesRetargetedDueToOverload": 0,
            "numOverloadErrorsReceived": 4,
            "totalBackoffTimeMillis": 1400,
            "retryBudgetTokenBucketBalance": 996.0,
        }

    play(scenario, _SPEC)


_CHANGE = {"q": {}, "u": {"$inc": {"x": 1}}}
_ALL = {"q": {}, "limit": 0}
_BULK = {
    "bulkWrite": 1,
    "ops": [
        {"insert": 0, "document": {"x": 1}},
        {"update": 0, "filter": {}, "updateMods": {"$inc": {"x": 1}}},
    ],
    "nsInfo": [{"ns": "db.c"}],
}


def _codes(reply: dict[str, Any]) -> list[tuple[int, int]]:
    return [(error["index"], error["code"]) for error in reply["writeErrors"]]


@pytest.mark.parametrize(
    ("command", "failed"),
    [
        (_INSERT, [0]),
        ({**_INSERT, "documents": [{}, {}]}, [0]),
        ({**_INSERT, "documents": [{}, {}], "ordered": False}, [0, 1]),
        ({"update": "c", "updates": [_CHANGE], "$db": "db"}, [0]),
        ({"update": "c", "updates": [{**_CHANGE, "multi": True}], "$db": "db"}, [0]),
        ({"delete": "c", "deletes": [_ALL, _ALL], "ordered": False, "$db": "db"}, [0, 1]),
    ],
)
def test_a_batch_that_a_shard_refuses_is_told_in_its_reply_without_labels(
    command: dict[str, Any], failed: list[int]
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment, defaultClientMaxRetryAttempts=0)
        primary.parameters.set(_ALL_REFUSED)
        reply = await talker.ok(command)
        assert _codes(reply) == [(index, 462) for index in failed]
        assert (reply["n"], "errorLabels" in reply) == (0, False)
        stats = await _stats(talker)
        assert (stats["numOverloadErrorsReceived"], stats["numRetriesDueToOverloadAttempted"]) == (1, 0)

    play(scenario, _SPEC)


@pytest.mark.parametrize(("ordered", "failed"), [(True, [0]), (False, [0, 1])])
def test_a_bulk_write_that_a_shard_refuses_is_told_write_by_write(
    *, ordered: bool, failed: list[int]
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment, defaultClientMaxRetryAttempts=0)
        primary.parameters.set(_ALL_REFUSED)
        reply = await talker.ok({**_BULK, "ordered": ordered})
        results = reply["cursor"]["firstBatch"]
        assert [(each["ok"], each["idx"], each["code"]) for each in results] == [(0, i, 462) for i in failed]
        assert (reply["nErrors"], reply["nInserted"], "errorLabels" in reply) == (len(failed), 0, False)

    play(scenario, _SPEC)


def test_a_statement_of_a_transaction_that_a_shard_refuses_fails_as_a_command() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment, defaultClientMaxRetryAttempts=0)
        primary.parameters.set(_ALL_REFUSED)
        facts = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False, "startTransaction": True}
        refused = await talker.fails({**_INSERT, **facts})
        assert refused["code"] == 462
        assert refused["errorLabels"] == ["TransientTransactionError", "SystemOverloadedError"]

    play(scenario, _SPEC)


def test_a_refused_command_that_makes_a_collection_fails_as_a_command() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment, defaultClientMaxRetryAttempts=0)
        primary.parameters.set(_ALL_REFUSED)
        refused = await talker.fails({"create": "new", "$db": "db"})
        assert (refused["code"], refused["errorLabels"]) == (462, ["SystemOverloadedError"])
        primary.parameters.set({"ingressRequestRateLimiterEnabled": False})
        assert (await talker.ok({"listCollections": 1, "$db": "db"}))["cursor"]["firstBatch"] == []

    play(scenario, _SPEC)


def test_what_a_shard_refuses_for_a_while_a_mongos_gets_through_and_its_client_sees_nothing() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment)
        await deployment.fail_command({"times": 2}, "insert", node=primary, **_OVERLOADED)
        assert (await talker.ok(_INSERT))["n"] == 1
        stats = await _stats(talker)
        assert stats["numOperationsRetriedAtLeastOnceDueToOverloadAndSucceeded"] == 1
        assert stats["numRetriesDueToOverloadAttempted"] == 2

    play(scenario, _SPEC)


def test_a_mongos_backs_off_from_the_base_that_the_shard_names() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment, defaultClientMaxRetryAttempts=1)
        primary.parameters.set({**_ALL_REFUSED, "externalClientBaseBackoffMS": 750})
        began = deployment.world.clock.now()
        await talker.fails(_FIND)
        assert deployment.world.clock.now() - began == pytest.approx(1.5, abs=0.01)
        assert (await _stats(talker))["totalBackoffTimeMillis"] == 1500

    play(scenario, _SPEC)


def test_the_backoff_of_a_mongos_is_bounded_and_jittered() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(
            deployment, defaultClientBaseBackoffMillis=1000, defaultClientMaxBackoffMillis=300
        )
        await deployment.configure("returnMaxBackoffDelay", "off")
        primary.parameters.set(_ALL_REFUSED)
        await talker.fails(_FIND)
        assert 0 < (await _stats(talker))["totalBackoffTimeMillis"] < 900

    play(scenario, _SPEC)


def test_the_budget_of_retries_runs_out_and_is_earned_again() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(
            deployment, shardRetryTokenBucketCapacity=2, shardRetryTokenReturnRate=1.0
        )
        primary.parameters.set(_ALL_REFUSED)
        await talker.fails(_FIND)
        stats = await _stats(talker)
        assert (stats["numRetriesDueToOverloadAttempted"], stats["retryBudgetTokenBucketBalance"]) == (2, 0)
        primary.parameters.set({"ingressRequestRateLimiterEnabled": False})
        await talker.ok(_FIND)
        assert (await _stats(talker))["retryBudgetTokenBucketBalance"] == 1

    play(scenario, _SPEC)


def test_a_deadline_that_ends_in_a_backoff_leaves_the_retry_unsent_and_uncounted() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment)
        await deployment.configure("setBackoffDelayForTesting", "alwaysOn", backoffDelayMs=10_000)
        await deployment.fail_command("alwaysOn", "find", node=primary, **_OVERLOADED)
        await talker.send({**_FIND, "maxTimeMS": 3000})
        await deployment.sleep(1.0)
        shown = (await (await deployment.connect()).ok({"currentOp": 1}))["inprog"]
        assert any("find" in each["command"] for each in shown)
        failed = await talker.reply()
        assert failed is not None
        assert failed["code"] == 50
        stats = await _stats(talker)
        assert {name for name, value in stats.items() if value} == {
            *("numOperationsAttempted", "numOverloadErrorsReceived", "retryBudgetTokenBucketBalance")
        }

    play(scenario, _SPEC)


def test_a_deadline_cuts_the_backoff_short() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment)
        primary.parameters.set(_ALL_REFUSED)
        began = deployment.world.clock.now()
        assert (await talker.fails({**_FIND, "maxTimeMS": 300}))["code"] == 50
        assert deployment.world.clock.now() - began == pytest.approx(0.3, abs=0.01)

    play(scenario, _SPEC)


def test_a_command_queues_at_the_shard_for_its_token() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment)
        limit = {"ingressRequestAdmissionBurstCapacitySecs": 1.0, "ingressRequestAdmissionMaxQueueDepth": 5}
        primary.parameters.set({**_ALL_REFUSED, **limit})
        began = deployment.world.clock.now()
        await talker.ok(_FIND)
        await talker.ok(_FIND)
        assert deployment.world.clock.now() - began == pytest.approx(1.0, abs=0.01)
        limiter = primary.admission.requests
        assert (limiter.added_to_queue, limiter.removed_from_queue, limiter.successful) == (1, 1, 2)
        deployment.cluster.nodes[0].parameters.set({"abandonedRequests": "atOnce"})
        await talker.send(_FIND)
        await deployment.sleep(0.1)
        await talker.aclose()
        await deployment.sleep(0.1)
        assert (limiter.queued, limiter.interrupted_in_queue) == (0, 1)

    play(scenario, _SPEC)


@pytest.mark.parametrize(
    "exemption",
    [
        {"ingressRequestRateLimiterApplicationExemptions": {"appNames": ["NetworkInterfaceTL-TaskExecutor"]}},
        {"ingressRequestRateLimiterExemptions": {"ranges": ["127.0.0.0/8"]}},
    ],
)
def test_a_shard_may_exempt_its_mongos(exemption: dict[str, Any]) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment)
        primary.parameters.set({**_ALL_REFUSED, **exemption})
        await talker.ok(_FIND)
        assert primary.admission.requests.exempted == 1

    play(scenario, _SPEC)


def test_the_end_of_a_transaction_comes_by_a_connection_of_its_own() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment)
        session = {"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False}
        await talker.ok({**_INSERT, **session, "startTransaction": True})
        fixed = {"appNames": ["NetworkInterfaceTL-Sharding-Fixed"]}
        primary.parameters.set({**_ALL_REFUSED, "ingressRequestRateLimiterApplicationExemptions": fixed})
        refused = await talker.fails(
            {**_FIND, "lsid": lsid(2), "txnNumber": Int64(1), "autocommit": False, "startTransaction": True}
        )
        assert refused["errorLabels"] == ["TransientTransactionError", "SystemOverloadedError"]
        await talker.ok({"commitTransaction": 1, **session})

    play(scenario, _SPEC)


def test_a_write_that_is_not_retryable_is_tried_again_only_if_the_shard_says_so() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment)
        silent = {**_OVERLOADED, "errorLabels": ["SystemOverloadedError"]}
        await deployment.fail_command({"times": 1}, "insert", node=primary, **silent)
        assert _codes(await talker.ok(_INSERT)) == [(0, 462)]
        await deployment.fail_command({"times": 1}, "insert", node=primary, **silent)
        await talker.ok({**_INSERT, "lsid": lsid(), "txnNumber": Int64(1)})

    play(scenario, _SPEC)


@pytest.mark.parametrize(("aware", "retargeted"), [(True, 1), (False, 0)])
def test_a_read_that_may_goes_to_another_member_if_the_mongos_is_told_to(
    *, aware: bool, retargeted: int
) -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment, overloadAwareServerSelectionEnabled=aware)
        await deployment.fail_command({"times": 1}, "find", node=primary, **_OVERLOADED)
        await talker.ok({**_FIND, "$readPreference": {"mode": "primaryPreferred"}})
        stats = await _stats(talker)
        assert stats["numRetriesRetargetedDueToOverload"] == retargeted
        assert stats["numOperationsRetriedAtLeastOnceDueToOverloadAndSucceeded"] == 1

    play(scenario, ClusterSpec.sharded(1, members=3, profile="9.0"))


def test_a_queue_that_overflows_on_the_shard_is_an_overload_that_is_not_retried() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, primary = await _begin(deployment)
        primary.parameters.set(
            {"ingressAdmissionControllerTicketPoolSize": 0, "ingressAdmissionControllerMaxQueueDepth": 0}
        )
        refused = await talker.fails(_FIND)
        assert (refused["code"], refused["errorLabels"]) == (433, ["SystemOverloadedError"])
        stats = await _stats(talker)
        assert (stats["numOverloadErrorsReceived"], stats["numRetriesDueToOverloadAttempted"]) == (1, 0)

    play(scenario, _SPEC)


def test_a_mongos_that_rejects_by_itself_gives_all_labels() -> None:
    async def scenario(deployment: Deployment) -> None:
        talker, _ = await _begin(deployment)
        deployment.cluster.nodes[0].parameters.set(_ALL_REFUSED)
        refused = await talker.fails(_FIND)
        assert refused["errorLabels"] == ["SystemOverloadedError", "RetryableError", "NoWritesPerformed"]

    play(scenario, _SPEC)

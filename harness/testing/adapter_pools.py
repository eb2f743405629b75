"""Checks of an adapter that drives a connection pool by itself.

Two subjects that need more than one operation to be seen. A pool by itself (POOLS) is what the cases of
Connection Monitoring and Pooling drive: every event with its fields, in an order that the specification
fixes. Client backpressure has two editions, of a token bucket and of a number of retries; a driver has one,
and its features say which.

Waits are compared with bounds, as backoffs are random. Where JITTER is declared the random factor is known,
and so is the least wait.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import EntityKind, Feature, Invocation, OperationFailed, PoolSpec
from harness.testing.adapter_basics import AdapterEntities, failing
from harness.testing.verdict import raises
from harness.unified.uri import with_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.adapters.base import DriverAdapter, Event, Handle
    from harness.adapters.deployment import Deployment
    from harness.testing.adapter_basics import Check


class _AdapterPool:
    """A pool of one adapter, and short ways to use it."""

    def __init__(self, adapter: DriverAdapter, handle: Handle) -> None:
        self.adapter = adapter
        self.handle = handle

    @classmethod
    async def make(cls, adapter: DriverAdapter, deployment: Deployment, **options: Any) -> _AdapterPool:
        uri = with_options(deployment.uri, {"directConnection": True, **options})
        return cls(adapter, await adapter.create_pool(PoolSpec(uri, options)))

    async def call(self, operation: str, **arguments: Any) -> Any:
        return await self.adapter.call(Invocation(self.handle, EntityKind.POOL, operation, arguments))

    async def refusal(self) -> str | None:
        """Check a connection out, which must fail; return the type of the error."""
        with raises(OperationFailed) as raised:
            await self.call("checkOut")
        return raised.error.report.type

    def events(self) -> list[Event]:
        return list(self.adapter.events(self.handle))


# One walk through all states: paused, ready, cleared with a connection that is out, ready again, closed
# with one that is idle. Each reason of an end shows once: `stale` after the clear, and `poolClosed`.
async def a_pool_lends_connections_while_it_is_ready(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check the states of a pool, the types of its errors, and its events with their fields."""
    pool = await _AdapterPool.make(adapter, deployment)
    assert await pool.refusal() == "PoolClearedError"
    await pool.call("ready")
    connection = await pool.call("checkOut")
    await pool.call("clear")
    await pool.call("checkIn", connection=connection)
    await pool.call("ready")
    await pool.call("checkIn", connection=await pool.call("checkOut"))
    await pool.call("close")
    assert await pool.refusal() == "PoolClosedError"
    assert [
        (event.kind, event.fields.get("connectionId"), event.fields.get("reason")) for event in pool.events()
    ] == [
        ("poolCreatedEvent", None, None),
        ("connectionCheckOutStartedEvent", None, None),
        ("connectionCheckOutFailedEvent", None, "connectionError"),
        ("poolReadyEvent", None, None),
        *_made(1),
        ("poolClearedEvent", None, None),
        ("connectionCheckedInEvent", 1, None),
        ("connectionClosedEvent", 1, "stale"),
        ("poolReadyEvent", None, None),
        *_made(2),
        ("connectionCheckedInEvent", 2, None),
        ("connectionClosedEvent", 2, "poolClosed"),
        ("poolClosedEvent", None, None),
        ("connectionCheckOutStartedEvent", None, None),
        ("connectionCheckOutFailedEvent", None, "poolClosed"),
    ]
    timed = {"connectionReadyEvent", "connectionCheckedOutEvent", "connectionCheckOutFailedEvent"}
    assert all(event.fields["durationMS"] >= 0 for event in pool.events() if event.kind in timed)
    assert {event.fields["address"] for event in pool.events()} <= {*deployment.addresses}


# The pool is empty, so that a check-out establishes a connection before it is answered.
def _made(number: int) -> list[tuple[str, Any, Any]]:
    return [
        ("connectionCheckOutStartedEvent", None, None),
        ("connectionCreatedEvent", number, None),
        ("connectionReadyEvent", number, None),
        ("connectionCheckedOutEvent", number, None),
    ]


# A check-out that blocks the adapter would wait for a check-in which it never gets to read.
async def a_caller_waits_for_the_pool_and_no_other_call_waits_for_it(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that calls of a pool run beside each other, and that its options count."""
    pool = await _AdapterPool.make(adapter, deployment, maxPoolSize=1, waitQueueTimeoutMS=200)
    await pool.call("ready")
    connection = await pool.call("checkOut")
    assert await pool.refusal() == "WaitQueueTimeoutError"
    waiting = asyncio.ensure_future(pool.call("checkOut"))
    await deployment.clock.sleep_until(deployment.clock.now() + 0.05)
    await pool.call("checkIn", connection=connection)
    await waiting
    # One connection all the time: `maxPoolSize` has reached the driver.
    assert {event.fields["connectionId"] for event in pool.events() if "connectionId" in event.fields} == {1}


# Checks of an adapter that declares a feature of client backpressure.


_OVERLOAD: Final[Mapping[str, Any]] = {
    "errorCode": 462,
    "errorLabels": ["SystemOverloadedError", "RetryableError"],
}
_SPENDERS: Final = 210
"""Operations that each spend five tokens, more than the 1,000 of a full bucket together."""

_BASE_BACKOFF: Final = 0.1
"""Seconds: the longest wait before the first retry, in the edition in which it is shorter."""


# The bucket is the client's: what one operation spends, another lacks. Without a limit, clients together
# would send an overloaded server a multiple of their load.
async def an_overloaded_server_is_asked_again_while_there_are_tokens(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check retries of the 2026-02-20 edition of client backpressure, and that they end with the tokens."""
    entities = await AdapterEntities.make(adapter, deployment, adaptiveRetries=True)
    async with failing(deployment, "find", mode={"times": 2}, **_OVERLOAD):
        assert await entities.call("find", filter={}) == []
    assert len(entities.events("commandStartedEvent", command="find")) == 3
    # At the same time, as their backoffs would take minutes one after the other.
    async with failing(deployment, "find", **_OVERLOAD):
        await asyncio.gather(*(entities.failure("find", filter={}) for _ in range(_SPENDERS)))
        spent = len(entities.events("commandStartedEvent", command="find"))
        await entities.failure("find", filter={})
    assert len(entities.events("commandStartedEvent", command="find")) == spent + 1


# One retry, so that the default, whatever it is, cannot pass for it.
async def an_overloaded_server_is_asked_again_as_often_as_the_option_says(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check retries of the 2026-07-08 edition of client backpressure."""
    entities = await AdapterEntities.make(adapter, deployment, maxAdaptiveRetries=1)
    async with failing(deployment, "find", **_OVERLOAD):
        report = await entities.failure("find", filter={})
    assert report.labels >= set(_OVERLOAD["errorLabels"])
    assert len(entities.events("commandStartedEvent", command="find")) == 2


async def _waits(adapter: DriverAdapter, deployment: Deployment, **jitter: Any) -> list[float]:
    """Return the seconds that three reads of a new client take which are refused once each."""
    entities = await AdapterEntities.make(adapter, deployment, observing=jitter)
    await entities.call("find", filter={})
    waits = []
    for _ in range(3):
        async with failing(deployment, "find", mode={"times": 1}, **_OVERLOAD):
            # Only the operation is timed: setting the fail point takes a while of its own.
            began = deployment.clock.now()
            await entities.call("find", filter={})
            waits.append(deployment.clock.now() - began)
    return waits


# Cases compare waits with exact numbers, which they can only where the factor is not random.
async def a_jitter_of_1_waits_as_long_as_a_backoff_may_and_one_of_0_not_at_all(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that `jitter` is the random factor of backoffs."""
    none = await _waits(adapter, deployment, jitter=0)
    full = await _waits(adapter, deployment, jitter=1)
    assert min(full) >= _BASE_BACKOFF
    assert min(none) < _BASE_BACKOFF


async def backoffs_with_a_seed_are_random(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check that the waits of a seed differ from each other and, in virtual time, are the same ones again."""
    waits = [await _waits(adapter, deployment, jitter_seed=seed) for seed in (17, 17, 18)]
    assert len(set(waits[0])) > 1
    if not deployment.clock.is_real:
        same, other = [[f"{wait:.6f}" for wait in waits[index]] for index in (1, 2)]
        assert [f"{wait:.6f}" for wait in waits[0]] == same != other


# A success returns less than a retry spends, so that the bucket is not full again after one.
async def tokens_are_spent_by_retries_and_returned_by_successes(
    adapter: DriverAdapter, deployment: Deployment
) -> None:
    """Check that the number of tokens is that of the client's own bucket, which is full at first."""
    entities = await AdapterEntities.make(adapter, deployment, adaptiveRetries=True)
    full = await adapter.retry_tokens(entities.client)
    assert full is not None
    async with failing(deployment, "find", **_OVERLOAD):
        await entities.failure("find", filter={})
    spent = await adapter.retry_tokens(entities.client)
    assert spent is not None
    assert spent < full
    await entities.call("find", filter={})
    returned = await adapter.retry_tokens(entities.client)
    assert returned is not None
    assert spent < returned < full


# A full bucket and none are not the same: 1000 would say that retries are counted.
async def a_client_without_a_bucket_has_no_tokens(adapter: DriverAdapter, deployment: Deployment) -> None:
    """Check that None, not a number, is answered where nothing is counted."""
    entities = await AdapterEntities.make(adapter, deployment, adaptiveRetries=False)
    assert await adapter.retry_tokens(entities.client) is None


BACKPRESSURE: Final[Mapping[Feature, tuple[Check, ...]]] = {
    Feature.ADAPTIVE_RETRIES: (an_overloaded_server_is_asked_again_while_there_are_tokens,),
    Feature.MAX_ADAPTIVE_RETRIES: (an_overloaded_server_is_asked_again_as_often_as_the_option_says,),
    Feature.JITTER: (
        a_jitter_of_1_waits_as_long_as_a_backoff_may_and_one_of_0_not_at_all,
        backoffs_with_a_seed_are_random,
    ),
    Feature.RETRY_TOKENS: (
        tokens_are_spent_by_retries_and_returned_by_successes,
        a_client_without_a_bucket_has_no_tokens,
    ),
}
"""What holds of an adapter that declares a feature of client backpressure."""

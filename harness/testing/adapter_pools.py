"""Checks of an adapter that drives a connection pool by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind, Invocation, OperationFailed, PoolSpec
from harness.testing.expecting import raises
from harness.unified.uri import with_options

if TYPE_CHECKING:
    from harness.adapters.base import DriverAdapter, Event, Handle
    from harness.unified.deployment import Deployment


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
    assert [_told(event) for event in pool.events()] == [
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


def _told(event: Event) -> tuple[str, Any, Any]:
    return event.kind, event.fields.get("connectionId"), event.fields.get("reason")


def _made(number: int) -> list[tuple[str, Any, Any]]:
    return [
        ("connectionCheckOutStartedEvent", None, None),
        ("connectionCreatedEvent", number, None),
        ("connectionReadyEvent", number, None),
        ("connectionCheckedOutEvent", number, None),
    ]


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
    assert {event.fields["connectionId"] for event in pool.events() if "connectionId" in event.fields} == {1}

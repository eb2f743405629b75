"""The last commands of a client that closes: open transactions, sessions and cursors end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from driver.errors import DriverError
from driver.operations import admin

if TYPE_CHECKING:
    from driver.execute import Executor
    from driver.policy.deadline import Timeout
    from driver.session import ServerSessionPool

BATCH = 10_000
LIMIT = 1.0
"""Seconds that closing a client may spend on its sessions, which expire on the server anyway."""


async def end_sessions(executor: Executor, pool: ServerSessionPool, within: Timeout) -> None:
    """Send `endSessions`, in batches (Sessions: Server Session Pool).

    It is a courtesy: errors are ignored, nothing is tried again, and after `LIMIT` the rest is left out.
    """
    sessions = pool.drain()
    # To select a server would wait for discovery, only to say goodbye.
    if not executor.topology.description.known_servers:
        return
    with suppress(DriverError, TimeoutError):
        async with asyncio.timeout_at(executor.clock.now() + LIMIT):
            for first in range(0, len(sessions), BATCH):
                await executor.execute(admin.end_sessions(sessions[first : first + BATCH], within))

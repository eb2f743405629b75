"""Garbage collection in idle moments of a server's process, not while a client waits.

Python looks at every object that it holds when many new ones have come, and stands still meanwhile: half a
second where there are a million documents. Next to nothing of ours is held by cycles, which alone need that.
So young objects are looked at often, as ever, and old ones when no request has come for a while.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from mongowire.garbage import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.deployment.cluster import Cluster

_YOUNG: Final = 10_000
"""New objects after which they are looked at: a third of a millisecond."""
_NEVER: Final = 1_000_000
_EVERY_SECONDS: Final = 10.0
_QUIET_SECONDS: Final = 2.0
_HEARTBEATS: Final = ("hello", "isMaster", "ismaster")


@contextmanager
def collected_when_idle() -> Iterator[None]:
    """Leave old objects alone inside, for a process that is a server's own."""
    before = gc.get_threshold()
    gc.collect()
    with frozen():
        gc.set_threshold(_YOUNG, before[1], _NEVER)
        try:
            yield
        finally:
            gc.set_threshold(*before)


async def collect_when_idle(cluster: Cluster) -> None:
    """Look at old objects whenever nobody has asked for anything for a while, until cancelled.

    Cursors whose time is over are forgotten first: otherwise they are when a cursor is asked for.
    """
    clock, looked_at = cluster.clock, -1
    while True:
        await clock.sleep_until(clock.now() + _EVERY_SECONDS)
        for node in cluster.servers:
            node.cursors.expire(clock.now())
        came = _requests(cluster)
        if came == looked_at:
            continue
        await clock.sleep_until(clock.now() + _QUIET_SECONDS)
        if _requests(cluster) == came and cluster.turns.nobody_waits:
            gc.collect()
            # Give free memory back to the system, where the C library does not do so by itself (glibc).
            with suppress(AttributeError, OSError, TypeError):
                ctypes.CDLL(None).malloc_trim(0)
            looked_at = came


def _requests(cluster: Cluster) -> int:
    """Return the number of commands that have run, without the heartbeats of monitors."""
    counted = (node.counters.commands for node in cluster.servers)
    return sum(commands.total() - sum(commands[name] for name in _HEARTBEATS) for commands in counted)

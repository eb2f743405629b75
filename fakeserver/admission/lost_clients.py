"""The work of clients that have gone, and the time at which a server notices (`abandonedRequests`).

A server does not watch its connections while it works. An operation may be marked as one that ends with its
client; then each check for interrupts looks at the connection, at most twice a second, and a wait inside the
operation ends as soon as the socket does. Commands that read carry the mark, from the moment they begin:
what waits ahead of that, for a token or an ingress ticket, is served however long its client has been gone.
Commands that write carry none, and are done to their end.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Final

AT_ONCE: Final = "atOnce"
AT_INTERRUPT_CHECK: Final = "atInterruptCheck"
NEVER: Final = "never"

CHECK_PERIOD: Final = 0.5
"""The seconds between two looks at the connection, of an operation that works."""

_MARKED: Final = frozenset(
    {
        *("aggregate", "count", "distinct", "find"),
        *("listCollections", "listDatabases", "listIndexes"),
        *("authenticate", "getnonce", "hello", "isMaster", "saslContinue", "saslStart"),
    }
)
"""The commands that end with their clients. A getMore is none of them, unless it is an exhaust stream's."""


class RequestPlace(Enum):
    """Where a request is when its client leaves."""

    AHEAD = "ahead of its run"
    """It waits to be admitted, or a fail point holds it: the command has not begun."""
    HELD = "held by a rule of ours"
    QUEUED = "in its run, and waiting"
    """For a ticket, for data, for a change, for a lock."""
    WORKING = "in its run, and working"
    BEHIND = "behind its run"
    """It waits for its write concern."""


def ends_with_client(command: str, *, writes: bool, exhaust: bool) -> bool:
    """Return whether a command is marked; `writes` tells of an aggregation that stores what it finds."""
    return exhaust or (command in _MARKED and not writes)


def noticed_at(when: str, place: RequestPlace, *, marked: bool, since: float, now: float) -> float:
    """Return the instant at which a server notices that a client has gone: `now` for at once, inf for never.

    `when` is the value of the parameter, `since` the instant at which the work began. The answer holds for
    as long as the request stays at its place.
    """
    if when == NEVER:
        return math.inf
    if when == AT_ONCE or place is RequestPlace.HELD:
        return now
    if not marked or place in {RequestPlace.AHEAD, RequestPlace.BEHIND}:
        return math.inf
    if place is RequestPlace.QUEUED:
        return now
    return since + (math.floor((now - since) / CHECK_PERIOD) + 1) * CHECK_PERIOD

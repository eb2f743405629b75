"""The events that scenarios can observe and expect.

Unified Test Format: expectedEvent.

A table by monitor, because the format judges each monitor's events by themselves and gives each its own
fields. Names here begin in lower case, as scenarios spell them; adapters report events under the same names.
Which fields an assertion may name is said twice on purpose: here for the version in which it was allowed, and
in `matching.event_matcher` for how it is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.unified.schema.notation import (
    BOOLEAN,
    NOTHING_INSIDE,
    OBJECT,
    STRING,
    Since,
    choice,
    record,
    word,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.unified.schema.notation import Schema

LOG_LEVELS: Final = (
    # Syslog's order, which is compared by index: one that is less severe has a larger one.
    *("emergency", "alert", "critical", "error", "warning", "notice", "info", "debug", "trace"),
)
"""Most severe first."""

COMMAND_EVENTS: Final = ("commandStartedEvent", "commandSucceededEvent", "commandFailedEvent")
POOL_EVENTS: Final = (
    "poolCreatedEvent",
    "poolReadyEvent",
    "poolClearedEvent",
    "poolClosedEvent",
    "connectionCreatedEvent",
    "connectionReadyEvent",
    "connectionClosedEvent",
    "connectionCheckOutStartedEvent",
    "connectionCheckOutFailedEvent",
    "connectionCheckedOutEvent",
    "connectionCheckedInEvent",
)
SDAM_EVENTS: Final = (
    "serverDescriptionChangedEvent",
    "topologyDescriptionChangedEvent",
    "topologyOpeningEvent",
    "topologyClosedEvent",
    "serverHeartbeatStartedEvent",
    "serverHeartbeatSucceededEvent",
    "serverHeartbeatFailedEvent",
)


def _command_event(*documents: str, database_since: int = 0) -> dict[str, Any]:
    return record(
        {
            **dict.fromkeys(documents, OBJECT),
            "commandName": STRING,
            "databaseName": Since(database_since, STRING),
            "hasServiceId": Since(3, BOOLEAN),
            "hasServerConnectionId": Since(6, BOOLEAN),
        }
    )


def _described(types: tuple[str, ...], *, since: int = 0) -> dict[str, Any]:
    """Return an event about a description before and after a change."""
    description = record({"type": word(*types)})
    return record({name: Since(since, description) for name in ("previousDescription", "newDescription")})


_SERVER_TYPES: Final = (
    "Standalone",
    "Mongos",
    "PossiblePrimary",
    "RSPrimary",
    "RSSecondary",
    "RSOther",
    "RSArbiter",
    "RSGhost",
    "LoadBalancer",
    "Unknown",
)
TOPOLOGY_TYPES: Final = (
    "Single",
    "Unknown",
    "ReplicaSetNoPrimary",
    "ReplicaSetWithPrimary",
    "Sharded",
    "LoadBalanced",
)

EVENTS: Final[Mapping[str, Schema]] = {
    "command": choice(
        {
            "commandStartedEvent": _command_event("command"),
            "commandSucceededEvent": _command_event("reply", database_since=15),
            "commandFailedEvent": _command_event(database_since=15),
        }
    ),
    "cmap": choice(
        {
            **dict.fromkeys(POOL_EVENTS, NOTHING_INSIDE),
            "poolClearedEvent": record(
                {"hasServiceId": BOOLEAN, "interruptInUseConnections": Since(11, BOOLEAN)}
            ),
            "connectionClosedEvent": record({"reason": STRING}),
            "connectionCheckOutFailedEvent": record({"reason": STRING}),
        }
    ),
    "sdam": choice(
        {
            "serverDescriptionChangedEvent": _described(_SERVER_TYPES),
            "topologyDescriptionChangedEvent": Since(14, _described(TOPOLOGY_TYPES, since=20)),
            "topologyOpeningEvent": Since(20, NOTHING_INSIDE),
            "topologyClosedEvent": Since(20, NOTHING_INSIDE),
            "serverHeartbeatStartedEvent": Since(17, record({"awaited": BOOLEAN})),
            "serverHeartbeatSucceededEvent": Since(17, record({"awaited": BOOLEAN})),
            "serverHeartbeatFailedEvent": Since(17, record({"awaited": BOOLEAN})),
        }
    ),
}

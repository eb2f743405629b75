"""Events for the listeners of a client: frozen records under the names of the specifications.

`kind` is the name in the unified test format. Durations are in seconds; `connection_id` of a command event
is the server's address, as in Command Logging and Monitoring, and of a pool event the connection's number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

if TYPE_CHECKING:
    from bson import ObjectId

    from driver.sdam.description import ServerDescription, TopologyDescription

SENSITIVE = frozenset(
    name.lower()
    for name in (
        "authenticate",
        "saslStart",
        "saslContinue",
        "getnonce",
        "createUser",
        "updateUser",
        "copydbgetnonce",
        "copydbsaslstart",
        "copydb",
    )
)
"""Commands in lower case that may hold secrets: events and logs hide them, and none is compressed."""

HELLO = frozenset({"hello", "ismaster"})


@dataclass(frozen=True, slots=True)
class DriverEvent:
    """The root of all events."""

    kind: ClassVar[str] = ""


Listener: TypeAlias = Callable[[DriverEvent], None]


# --- Command Logging and Monitoring ---


@dataclass(frozen=True, slots=True)
class CommandEvent(DriverEvent):
    """What the three command events have in common."""

    command_name: str
    database_name: str
    request_id: int
    operation_id: int
    connection_id: str
    driver_connection_id: int
    server_connection_id: int | None
    service_id: ObjectId | None


@dataclass(frozen=True, slots=True)
class CommandStartedEvent(CommandEvent):
    """A command is about to be sent. `sensitive` commands show an empty document."""

    kind: ClassVar[str] = "commandStartedEvent"
    command: Mapping[str, Any] = field(default_factory=dict)
    sensitive: bool = False


@dataclass(frozen=True, slots=True)
class CommandSucceededEvent(CommandEvent):
    """The server replied with `ok: 1`."""

    kind: ClassVar[str] = "commandSucceededEvent"
    duration: float = 0.0
    reply: Mapping[str, Any] = field(default_factory=dict)
    sensitive: bool = False


@dataclass(frozen=True, slots=True)
class CommandFailedEvent(CommandEvent):
    """The server replied with `ok: 0`, or the reply was lost."""

    kind: ClassVar[str] = "commandFailedEvent"
    duration: float = 0.0
    failure: Exception | None = None
    sensitive: bool = False


# --- Connection Monitoring and Pooling ---


@dataclass(frozen=True, slots=True)
class PoolEvent(DriverEvent):
    """What all pool events have in common."""

    address: str


@dataclass(frozen=True, slots=True)
class PoolCreatedEvent(PoolEvent):
    """A pool was created; `options` holds those that differ from their defaults, by URI name."""

    kind: ClassVar[str] = "poolCreatedEvent"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PoolReadyEvent(PoolEvent):
    """A pool may hand out and create connections."""

    kind: ClassVar[str] = "poolReadyEvent"


@dataclass(frozen=True, slots=True)
class PoolClearedEvent(PoolEvent):
    """Every connection of a pool, or of one service behind a load balancer, became stale."""

    kind: ClassVar[str] = "poolClearedEvent"
    service_id: ObjectId | None = None
    interrupt_in_use_connections: bool = False


@dataclass(frozen=True, slots=True)
class PoolClosedEvent(PoolEvent):
    """A pool was closed for good."""

    kind: ClassVar[str] = "poolClosedEvent"


@dataclass(frozen=True, slots=True)
class ConnectionEvent(PoolEvent):
    """What the events of one connection have in common."""

    connection_id: int


@dataclass(frozen=True, slots=True)
class ConnectionCreatedEvent(ConnectionEvent):
    """A connection object exists; nothing was sent."""

    kind: ClassVar[str] = "connectionCreatedEvent"


@dataclass(frozen=True, slots=True)
class ConnectionReadyEvent(ConnectionEvent):
    """A connection finished its handshake."""

    kind: ClassVar[str] = "connectionReadyEvent"
    duration: float


@dataclass(frozen=True, slots=True)
class ConnectionClosedEvent(ConnectionEvent):
    """A connection was closed: `stale`, `idle`, `error` or `poolClosed`."""

    kind: ClassVar[str] = "connectionClosedEvent"
    reason: str
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class ConnectionCheckOutStartedEvent(PoolEvent):
    """An operation asked for a connection."""

    kind: ClassVar[str] = "connectionCheckOutStartedEvent"


@dataclass(frozen=True, slots=True)
class ConnectionCheckOutFailedEvent(PoolEvent):
    """An operation got no connection: `poolClosed`, `timeout` or `connectionError`."""

    kind: ClassVar[str] = "connectionCheckOutFailedEvent"
    reason: str
    duration: float
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class ConnectionCheckedOutEvent(ConnectionEvent):
    """An operation got a connection."""

    kind: ClassVar[str] = "connectionCheckedOutEvent"
    duration: float


@dataclass(frozen=True, slots=True)
class ConnectionCheckedInEvent(ConnectionEvent):
    """An operation gave its connection back."""

    kind: ClassVar[str] = "connectionCheckedInEvent"


# --- Server Discovery and Monitoring ---


@dataclass(frozen=True, slots=True)
class TopologyEvent(DriverEvent):
    """What the events of discovery have in common."""

    topology_id: ObjectId


@dataclass(frozen=True, slots=True)
class TopologyOpeningEvent(TopologyEvent):
    """A client began to discover its deployment."""

    kind: ClassVar[str] = "topologyOpeningEvent"


@dataclass(frozen=True, slots=True)
class TopologyClosedEvent(TopologyEvent):
    """A client was closed."""

    kind: ClassVar[str] = "topologyClosedEvent"


@dataclass(frozen=True, slots=True)
class TopologyDescriptionChangedEvent(TopologyEvent):
    """What is known of the deployment changed."""

    kind: ClassVar[str] = "topologyDescriptionChangedEvent"
    previous_description: TopologyDescription
    new_description: TopologyDescription


@dataclass(frozen=True, slots=True)
class ServerEvent(TopologyEvent):
    """What the events of one server have in common."""

    address: str


@dataclass(frozen=True, slots=True)
class ServerOpeningEvent(ServerEvent):
    """A server was added to the topology."""

    kind: ClassVar[str] = "serverOpeningEvent"


@dataclass(frozen=True, slots=True)
class ServerClosedEvent(ServerEvent):
    """A server was removed from the topology."""

    kind: ClassVar[str] = "serverClosedEvent"


@dataclass(frozen=True, slots=True)
class ServerDescriptionChangedEvent(ServerEvent):
    """What is known of one server changed."""

    kind: ClassVar[str] = "serverDescriptionChangedEvent"
    previous_description: ServerDescription
    new_description: ServerDescription


@dataclass(frozen=True, slots=True)
class HeartbeatEvent(DriverEvent):
    """What the heartbeat events have in common; `awaited` is true in the streaming protocol.

    The server's number of the monitor's connection is known after the first reply.
    """

    connection_id: str
    awaited: bool
    driver_connection_id: int | None = field(default=None, kw_only=True)
    server_connection_id: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class ServerHeartbeatStartedEvent(HeartbeatEvent):
    """A monitor began a check."""

    kind: ClassVar[str] = "serverHeartbeatStartedEvent"


@dataclass(frozen=True, slots=True)
class ServerHeartbeatSucceededEvent(HeartbeatEvent):
    """A check was answered."""

    kind: ClassVar[str] = "serverHeartbeatSucceededEvent"
    duration: float
    reply: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ServerHeartbeatFailedEvent(HeartbeatEvent):
    """A check failed."""

    kind: ClassVar[str] = "serverHeartbeatFailedEvent"
    duration: float
    failure: Exception

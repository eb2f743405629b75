"""Descriptions of a server and of its deployment, parsed from `hello` replies.

Addresses are strings `host:port` in lower case, as `hello` replies hold them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from bson import Int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from bson import ObjectId


RETRYABLE_WRITES_WIRE_VERSION = 6
MIN_WIRE_VERSION = 6
MAX_WIRE_VERSION = 29
"""The wire versions that this driver speaks: MongoDB 3.6 to 9.0."""


class ServerType(Enum):
    """SDAM: ServerType."""

    STANDALONE = "Standalone"
    MONGOS = "Mongos"
    POSSIBLE_PRIMARY = "PossiblePrimary"  # of single-threaded clients, and of the public tests of all
    RS_PRIMARY = "RSPrimary"
    RS_SECONDARY = "RSSecondary"
    RS_ARBITER = "RSArbiter"
    RS_OTHER = "RSOther"
    RS_GHOST = "RSGhost"
    LOAD_BALANCER = "LoadBalancer"
    UNKNOWN = "Unknown"


class TopologyType(Enum):
    """SDAM: TopologyType."""

    SINGLE = "Single"
    REPLICA_SET_NO_PRIMARY = "ReplicaSetNoPrimary"
    REPLICA_SET_WITH_PRIMARY = "ReplicaSetWithPrimary"
    SHARDED = "Sharded"
    LOAD_BALANCED = "LoadBalanced"
    UNKNOWN = "Unknown"


REPLICA_SET_TYPES = (TopologyType.REPLICA_SET_NO_PRIMARY, TopologyType.REPLICA_SET_WITH_PRIMARY)
MEMBER_TYPES = (ServerType.RS_PRIMARY, ServerType.RS_SECONDARY, ServerType.RS_ARBITER, ServerType.RS_OTHER)
DATA_BEARING = (
    ServerType.STANDALONE,
    ServerType.MONGOS,
    ServerType.RS_PRIMARY,
    ServerType.RS_SECONDARY,
    ServerType.LOAD_BALANCER,
)


@dataclass(frozen=True, slots=True)
class TopologyVersion:
    """How new a server's view of itself is: comparable within one process of the server."""

    process_id: ObjectId
    counter: int

    @classmethod
    def parse(cls, document: Mapping[str, Any] | None) -> TopologyVersion | None:
        """Return the `topologyVersion` of a reply, or None for none that makes sense."""
        try:
            return cls(document["processId"], int(document["counter"])) if document else None
        except (KeyError, TypeError, ValueError):
            return None

    def to_document(self) -> dict[str, Any]:
        """Return the form that `hello` takes."""
        return {"processId": self.process_id, "counter": Int64(self.counter)}


def is_fresher(new: TopologyVersion | None, than: TopologyVersion | None, *, or_equal: bool = False) -> bool:
    """Return whether `new` is newer than what is known; versions that cannot be compared are newer.

    SDAM: topologyVersion Comparison.
    """
    # Counters begin anew with the process. Of two processes nobody can say which is the newer one, and to
    # believe the newer message is the lesser mistake: a check will put it right.
    if new is None or than is None or new.process_id != than.process_id:
        return True
    return new.counter > than.counter or (or_equal and new.counter == than.counter)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one message to a server may hold."""

    max_bson_object_size: int = 16 * 1024 * 1024
    max_message_size: int = 48_000_000
    max_write_batch_size: int = 100_000

    @classmethod
    def of(cls, hello: Mapping[str, Any]) -> Limits:
        """Return the limits in a `hello` reply."""
        return cls(
            int(hello.get("maxBsonObjectSize", 16 * 1024 * 1024)),
            int(hello.get("maxMessageSizeBytes", 48_000_000)),
            int(hello.get("maxWriteBatchSize", 100_000)),
        )


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """SDAM: ServerDescription. Times are in seconds; `last_update` is an instant of the client's clock."""

    address: str
    type: ServerType = ServerType.UNKNOWN
    error: Exception | None = None
    round_trip_time: float | None = None
    min_round_trip_time: float = 0.0
    last_write_date: datetime | None = None
    last_update: float = 0.0
    op_time: Any = None
    min_wire_version: int = 0
    max_wire_version: int = 0
    me: str | None = None
    hosts: tuple[str, ...] = ()
    passives: tuple[str, ...] = ()
    arbiters: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    set_name: str | None = None
    set_version: int | None = None
    election_id: ObjectId | None = None
    primary: str | None = None
    logical_session_timeout_minutes: int | None = None
    topology_version: TopologyVersion | None = None
    limits: Limits = field(default_factory=Limits)
    hello: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_data_bearing(self) -> bool:
        """Whether operations may be sent to it."""
        return self.type in DATA_BEARING

    @property
    def is_known(self) -> bool:
        """Whether the last check succeeded."""
        return self.type is not ServerType.UNKNOWN

    @property
    def members(self) -> tuple[str, ...]:
        """Every member that it knows of, each once."""
        return tuple(dict.fromkeys((*self.hosts, *self.passives, *self.arbiters)))

    @property
    def supports_retryable_writes(self) -> bool:
        """Retryable Writes: Supported Server Versions: wire version, logicalSessionTimeoutMinutes, type."""
        # Load Balancers: what supports them is new enough for retryable writes, though it names no timeout.
        if self.type is ServerType.LOAD_BALANCER:
            return True
        return (
            self.max_wire_version >= RETRYABLE_WRITES_WIRE_VERSION
            and self.logical_session_timeout_minutes is not None
            and self.type is not ServerType.STANDALONE
        )

    def same_as(self, other: ServerDescription) -> bool:
        """Return whether nothing changed that events report (SDAM Monitoring: equality)."""
        return _compared(self) == _compared(other)

    def unknown(self, error: Exception | None, *, now: float) -> ServerDescription:
        """Return the description after an error: everything is forgotten; the error may hold a version."""
        version = error_topology_version(error)
        return ServerDescription(self.address, error=error, topology_version=version, last_update=now)


def _compared(server: ServerDescription) -> tuple[object, ...]:
    return (
        server.address,
        server.type,
        (type(server.error), str(server.error)),
        server.min_wire_version,
        server.max_wire_version,
        server.me,
        server.hosts,
        server.passives,
        server.arbiters,
        dict(server.tags),
        server.set_name,
        server.set_version,
        server.election_id,
        server.primary,
        server.logical_session_timeout_minutes,
        server.topology_version,
    )


def error_topology_version(error: Exception | None) -> TopologyVersion | None:
    """Return the topology version that a server put into its error, or None."""
    response = getattr(error, "response", None) or {}
    return TopologyVersion.parse(response.get("topologyVersion"))


def parse_hello(
    address: str, hello: Mapping[str, Any], *, now: float, round_trip_time: float | None = None
) -> ServerDescription:
    """Return what a successful `hello` reply says (SDAM: Parsing a hello or legacy hello response)."""
    last_write = hello.get("lastWrite") or {}
    me = hello.get("me")
    primary = hello.get("primary")
    return ServerDescription(
        address,
        server_type(hello),
        round_trip_time=round_trip_time,
        last_write_date=last_write.get("lastWriteDate"),
        op_time=last_write.get("opTime"),
        last_update=now,
        min_wire_version=int(hello.get("minWireVersion", 0)),
        max_wire_version=int(hello.get("maxWireVersion", 0)),
        me=me.lower() if me else None,
        hosts=_lower(hello.get("hosts", ())),
        passives=_lower(hello.get("passives", ())),
        arbiters=_lower(hello.get("arbiters", ())),
        tags=dict(hello.get("tags", {})),
        set_name=hello.get("setName"),
        set_version=hello.get("setVersion"),
        election_id=hello.get("electionId"),
        primary=primary.lower() if primary else None,
        logical_session_timeout_minutes=hello.get("logicalSessionTimeoutMinutes"),
        topology_version=TopologyVersion.parse(hello.get("topologyVersion")),
        limits=Limits.of(hello),
        hello=hello,
    )


def _lower(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(address.lower() for address in addresses)


def server_type(hello: Mapping[str, Any]) -> ServerType:
    """Return the type that a `hello` reply shows (SDAM: type)."""
    if hello.get("ok") != 1:
        return ServerType.UNKNOWN
    if hello.get("msg") == "isdbgrid":
        return ServerType.MONGOS
    if hello.get("isreplicaset"):
        return ServerType.RS_GHOST
    if not hello.get("setName"):
        return ServerType.STANDALONE
    # Hidden before all else: such a member may be a secondary too, and is not for applications.
    if hello.get("hidden"):
        return ServerType.RS_OTHER
    if hello.get("isWritablePrimary") or hello.get("ismaster"):
        return ServerType.RS_PRIMARY
    if hello.get("secondary"):
        return ServerType.RS_SECONDARY
    return ServerType.RS_ARBITER if hello.get("arbiterOnly") else ServerType.RS_OTHER


@dataclass(frozen=True)  # without slots, for what every operation asks and is found out once
class TopologyDescription:
    """SDAM: TopologyDescription. `servers` keeps the order in which they were learnt."""

    type: TopologyType
    servers: Mapping[str, ServerDescription]
    set_name: str | None = None
    max_set_version: int | None = None
    max_election_id: ObjectId | None = None

    @cached_property
    def known_servers(self) -> tuple[ServerDescription, ...]:
        """The servers whose last check succeeded."""
        return tuple(server for server in self.servers.values() if server.is_known)

    @cached_property
    def data_bearing(self) -> tuple[ServerDescription, ...]:
        """The servers that hold data, or route to it."""
        return tuple(server for server in self.servers.values() if server.is_data_bearing)

    @property
    def primary(self) -> ServerDescription | None:
        """The primary of a replica set, if one is known."""
        return next((s for s in self.servers.values() if s.type is ServerType.RS_PRIMARY), None)

    @cached_property
    def logical_session_timeout_minutes(self) -> int | None:
        """The smallest of the data-bearing servers', None if any has none."""
        timeouts = [server.logical_session_timeout_minutes for server in self.data_bearing]
        present = [timeout for timeout in timeouts if timeout is not None]
        return min(present) if present and len(present) == len(timeouts) else None

    @cached_property
    def compatibility_error(self) -> str | None:
        """Why this driver cannot speak with a server of the deployment, or None.

        SDAM: Checking wire protocol compatibility.
        """
        for server in self.known_servers:
            if server.type is ServerType.LOAD_BALANCER:
                continue
            if server.min_wire_version > MAX_WIRE_VERSION:
                return (
                    f"Server at {server.address} requires wire version {server.min_wire_version}, "
                    f"but this version of the driver only supports up to {MAX_WIRE_VERSION}."
                )
            if server.max_wire_version < MIN_WIRE_VERSION:
                return (
                    f"Server at {server.address} reports wire version {server.max_wire_version}, "
                    f"but this version of the driver requires at least {MIN_WIRE_VERSION} (MongoDB 3.6)."
                )
        return None

    def with_server(self, server: ServerDescription) -> TopologyDescription:
        """Return the same topology with one server described anew."""
        return replace(self, servers={**self.servers, server.address: server})

    def without(self, address: str) -> TopologyDescription:
        """Return the same topology without one server."""
        return replace(self, servers={a: s for a, s in self.servers.items() if a != address})

    def same_as(self, other: TopologyDescription) -> bool:
        """Return whether nothing changed that events report."""
        return (
            (self.type, self.set_name, self.max_set_version, self.max_election_id)
            == (other.type, other.set_name, other.max_set_version, other.max_election_id)
            and self.servers.keys() == other.servers.keys()
            and all(self.servers[address].same_as(other.servers[address]) for address in self.servers)
        )

    def __str__(self) -> str:
        servers = ", ".join(
            f"{server.address}: {server.type.value}" + (f" ({server.error})" if server.error else "")
            for server in self.servers.values()
        )
        return f"{self.type.value} topology [{servers}]"


# Round trip times of a server: an average for the latency window, a minimum for deadlines.


ALPHA = 0.2
"""The weight of the newest sample: one slow reply moves the average little."""

SAMPLES = 10
"""How many the minimum is taken of: long enough to have met a quick one, short enough to forget the past."""


@dataclass(slots=True)
class RoundTripTimes:
    """Server Selection: Round Trip Times and the Latency Window, in seconds."""

    average: float | None = None
    _recent: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def add(self, sample: float) -> None:
        """Count a sample: newer ones weigh a fifth of the average."""
        self.average = sample if self.average is None else ALPHA * sample + (1 - ALPHA) * self.average
        self._recent.append(sample)

    @property
    def minimum(self) -> float:
        """The shortest of the last ten, 0 until there are two."""
        # One sample alone may be far too long, and would hold commands back.
        return min(self._recent) if len(self._recent) > 1 else 0.0

    def reset(self) -> None:
        """Forget everything: the server became Unknown."""
        self.average = None
        self._recent.clear()

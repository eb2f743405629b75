"""What a deployment is to be: declared, frozen, printable. `fakeserver.cluster` runs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fakeserver.profile import DEFAULT_PROFILE, Profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.tls import TlsSpec

_MAX_MEMBERS = 50
_MAX_VOTERS = 7
_MAX_PRIORITY = 1000
_MAX_PORT = 65535
_MAX_ROUTERS = 50
_SHARD_MEMBERS = 3

JOURNAL_RECORDS = 65_536
"""How many records a journal keeps unless a spec says otherwise: some 20 MB when it is full."""


class Topology(StrEnum):
    """The kinds of deployment."""

    STANDALONE = "standalone"
    REPLICA_SET = "replica_set"
    SHARDED = "sharded"
    LOAD_BALANCED = "load_balanced"


@dataclass(frozen=True, slots=True)
class UserSpec:
    """A user that a deployment is started with.

    `db` is the database that it belongs to (`authSource`), `$external` for one that comes with a client
    certificate and has no password. `roles` are names on that database (on admin, where it has no
    such role), or documents `{role, db}`.
    """

    name: str
    password: str | None = field(default=None, repr=False)
    db: str = "admin"
    roles: Sequence[str | Mapping[str, str]] = ("root",)
    mechanisms: tuple[str, ...] = ("SCRAM-SHA-1", "SCRAM-SHA-256")

    def __post_init__(self) -> None:
        """Refuse what no server would store."""
        if not self.name:
            raise ValueError("a user's name must not be empty")
        if (self.password is None) != (self.db == "$external"):
            raise ValueError(f"user {self.name!r}: a password is for every database but $external")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """What one member of a replica set is, as `replSetGetConfig` shows it.

    `priority` is 1 unless the member is one that cannot be elected: an arbiter, hidden, without a vote, or
    `delay` seconds behind on purpose (`secondaryDelaySecs`). A passive member is one of priority 0.
    """

    arbiter: bool = False
    hidden: bool = False
    priority: float | None = None
    votes: int = 1
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    delay: int = 0

    def __post_init__(self) -> None:
        """Refuse what no configuration of a set may hold, with a message that names the field."""
        if self.votes not in {0, 1}:
            raise ValueError(f"votes must be 0 or 1, not {self.votes}")
        if self.delay < 0:
            raise ValueError("delay is a number of seconds and cannot be negative")
        if self.arbiter and (self.tags or self.delay or not self.votes):
            raise ValueError("an arbiter has a vote, and neither tags nor a delay")
        never = self.arbiter or self.hidden or not self.votes or self.delay > 0
        priority = (0 if never else 1) if self.priority is None else self.priority
        if not 0 <= priority <= _MAX_PRIORITY:
            raise ValueError(f"priority must be from 0 to {_MAX_PRIORITY}, not {priority}")
        if never and priority:
            raise ValueError(
                "priority must be 0 for an arbiter, a hidden or a delayed member, and for one without a vote"
            )
        object.__setattr__(self, "priority", float(priority))
        object.__setattr__(self, "tags", MappingProxyType(dict(self.tags)))

    @property
    def rank(self) -> float:
        """The priority, never None."""
        return self.priority or 0.0

    @property
    def is_electable(self) -> bool:
        """Whether it may ever be primary."""
        return self.rank > 0

    @property
    def is_shown(self) -> bool:
        """Whether the hello of its set names it."""
        return not self.hidden and not self.delay


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A deployment's description.

    `members` is how many a set has, or a `MemberSpec` for each. `host` is the name that they advertise and,
    unless `bind_ip` says otherwise, listen on; `ports` are theirs in order (none given: free ones).
    `parameters` are server parameters as at start-up, for every member. `election_delay` is how long, in
    seconds, a set is without a primary when one steps down or dies.
    `journal_records` is how many records the deployment's journal keeps: the newest. `auth` switches access
    control on; `users` exist from the start, with or without it. `tls` is a `TlsSpec`. `javascript` says
    whether scripts run at all, as mongod's security.javascriptEnabled does.

    A sharded cluster has `mongos` routers, whose `ports` are given, over `shards` replica sets of `members`
    each, on free ports. In front of a load-balanced one stand two balancers, of the first mongos and of all,
    on `balancer_ports`.
    """

    topology: Topology = Topology.STANDALONE
    members: int | Sequence[MemberSpec] = 1
    mongos: int = 0
    shards: int = 0
    set_name: str = "rs0"
    host: str = "localhost"
    bind_ip: str | None = None
    profile: str = DEFAULT_PROFILE
    parameters: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    seed: int = 0
    ports: tuple[int, ...] = ()
    balancer_ports: tuple[int, ...] = ()
    compressors: tuple[str, ...] | None = None
    election_delay: float = 0.01
    journal_records: int = JOURNAL_RECORDS
    auth: bool = False
    users: tuple[UserSpec, ...] = ()
    tls: TlsSpec | None = None
    javascript: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot run, with a message that names the field."""
        self._check_members()
        self._check_routers()
        self._check_ports()
        if not self.set_name:
            raise ValueError("set_name must not be empty")
        if self.election_delay < 0:
            raise ValueError("election_delay is a number of seconds and cannot be negative")
        if self.journal_records < 1:
            raise ValueError(f"journal_records must be 1 or more, not {self.journal_records}")
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))
        object.__setattr__(self, "users", tuple(self.users))
        Profile.named(self.profile)

    def _check_members(self) -> None:
        if not isinstance(self.members, int):
            object.__setattr__(self, "members", tuple(self.members))
        count = self.members if isinstance(self.members, int) else len(self.members)
        if not 1 <= count <= _MAX_MEMBERS:
            raise ValueError(f"members must be from 1 to {_MAX_MEMBERS}, not {count}")
        if self.topology is Topology.STANDALONE and self.members != 1:
            raise ValueError("a standalone has one member; use ClusterSpec.replica_set(n)")
        members = self.member_specs
        if sum(member.votes for member in members) > _MAX_VOTERS:
            raise ValueError(f"members: at most {_MAX_VOTERS} of them may have a vote")
        if not any(member.is_electable for member in members):
            raise ValueError("members: one of them at least must have a priority above 0")

    def _check_routers(self) -> None:
        least = 1 if self.is_sharded else 0
        most = _MAX_ROUTERS if self.is_sharded else 0
        for name, count in (("mongos", self.mongos), ("shards", self.shards)):
            if not least <= count <= most:
                raise ValueError(f"{name} must be from {least} to {most} in a {self.topology}, not {count}")

    def _check_ports(self) -> None:
        servers = self.mongos or len(self.member_specs)
        if self.ports and len(self.ports) != servers:
            kind = "mongos" if self.is_sharded else "members"
            raise ValueError(f"ports must name one port for each of the {servers} {kind}")
        balancers = self.balancers
        if self.balancer_ports and len(self.balancer_ports) != balancers:
            raise ValueError(f"balancer_ports must name one port for each of the {balancers} load balancers")
        ports = (*self.ports, *self.balancer_ports)
        if any(not 0 <= port <= _MAX_PORT for port in ports):
            raise ValueError(f"ports must be from 0 to {_MAX_PORT}, not {ports}")

    @classmethod
    def standalone(cls, **facts: Any) -> ClusterSpec:
        """Describe one server that replicates nothing."""
        return cls(topology=Topology.STANDALONE, **facts)

    @classmethod
    def replica_set(cls, members: int | Sequence[MemberSpec] = 3, **facts: Any) -> ClusterSpec:
        """Describe a replica set: so many data-bearing members, of which seven vote, or those described."""
        return cls(topology=Topology.REPLICA_SET, members=members, **facts)

    @classmethod
    def sharded(
        cls,
        mongos: int = 2,
        shards: int = 1,
        *,
        members: int | Sequence[MemberSpec] = _SHARD_MEMBERS,
        **facts: Any,
    ) -> ClusterSpec:
        """Describe `mongos` routers over `shards` replica sets of `members` each."""
        return cls(topology=Topology.SHARDED, mongos=mongos, shards=shards, members=members, **facts)

    @classmethod
    def load_balanced(
        cls,
        mongos: int = 2,
        shards: int = 1,
        *,
        members: int | Sequence[MemberSpec] = _SHARD_MEMBERS,
        **facts: Any,
    ) -> ClusterSpec:
        """Describe a sharded cluster whose clients come through a load balancer."""
        return cls(topology=Topology.LOAD_BALANCED, mongos=mongos, shards=shards, members=members, **facts)

    @property
    def member_specs(self) -> tuple[MemberSpec, ...]:
        """What each member of a set is, in order; of those that are only counted the first seven vote."""
        if isinstance(self.members, int):
            return tuple(MemberSpec(votes=int(number < _MAX_VOTERS)) for number in range(self.members))
        return tuple(self.members)

    @property
    def is_replica_set(self) -> bool:
        return self.topology is Topology.REPLICA_SET

    @property
    def is_sharded(self) -> bool:
        """Whether clients talk to mongos, directly or through a balancer."""
        return self.topology in {Topology.SHARDED, Topology.LOAD_BALANCED}

    @property
    def balancers(self) -> int:
        """How many load balancers there are: one of the first mongos alone, one of all."""
        return 2 if self.topology is Topology.LOAD_BALANCED else 0

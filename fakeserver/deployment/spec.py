"""The description of a deployment: frozen and printable. `fakeserver.deployment.cluster` runs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from fakeserver.access import UserSpec
from fakeserver.profile import DEFAULT_PROFILE, Profile

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence


class TlsMode(StrEnum):
    """`--tlsMode`. The two in the middle take both kinds of connection: the difference is between servers."""

    DISABLED = "disabled"
    ALLOW = "allowTLS"
    PREFER = "preferTLS"
    REQUIRE = "requireTLS"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSpec:
    """The TLS settings of a deployment, in mongod's terms.

    Clients must show a certificate of `ca_file` unless it is not given or
    `allow_connections_without_certificates`; with `allow_invalid_certificates` none is asked for.
    """

    mode: TlsMode = TlsMode.REQUIRE
    certificate_key_file: str = ""
    ca_file: str | None = None
    allow_connections_without_certificates: bool = False
    allow_invalid_certificates: bool = False

    def __post_init__(self) -> None:
        """Refuse what a mongod would not start with."""
        object.__setattr__(self, "mode", TlsMode(self.mode))
        if self.mode is not TlsMode.DISABLED and not self.certificate_key_file:
            raise ValueError(f"tlsMode {self.mode} needs a tlsCertificateKeyFile")

    def context(self) -> ssl.SSLContext:
        """Return the context of new sessions. Raises `OSError` for files that cannot be used."""
        import ssl  # noqa: PLC0415 - a deployment without TLS is described without it

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate_key_file)
        if self.ca_file is not None:
            context.load_verify_locations(self.ca_file)
        if self.ca_file is not None and not self.allow_invalid_certificates:
            optional = self.allow_connections_without_certificates
            context.verify_mode = ssl.CERT_OPTIONAL if optional else ssl.CERT_REQUIRED
        return context


STORAGES = ("memory", "mongomock")
"""The storage engines; the first is the default."""
_MAX_MEMBERS = 50
_MAX_VOTERS = 7
_MAX_PRIORITY = 1000
_MAX_PORT = 65535
_MAX_ROUTERS = 50
_SHARD_MEMBERS = 3

JOURNAL_RECORDS = 65_536
"""The records that a journal keeps by default: some 20 MB when it is full."""

JOURNAL_BYTES = 16 << 20
"""The bytes of requests and replies that a journal keeps by default."""


class Topology(StrEnum):
    """The kinds of deployment."""

    SINGLE = "single"
    STANDALONE = SINGLE
    """The server's own word for it."""

    REPLICA_SET = "replicaset"
    SHARDED = "sharded"
    LOAD_BALANCED = "load-balanced"


_SPELLINGS = {
    "standalone": Topology.SINGLE,
    "server": Topology.SINGLE,
    "replset": Topology.REPLICA_SET,
    "shardedcluster": Topology.SHARDED,
    "shardedreplicaset": Topology.SHARDED,
    **{topology.replace("-", ""): topology for topology in Topology},
}
"""Other words for topologies, without hyphens and underscores: those of the drivers' evergreen tools, of the
unified test format, of the server's manual, of other runners of servers, and ours without a hyphen."""


def topology_name(text: str) -> str:
    """Return our spelling of a topology that may be spelled otherwise; other texts as they are."""
    return str(_SPELLINGS.get(text.replace("-", "").replace("_", "").lower(), text))


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSpec:
    """The configuration of one member of a replica set, as `replSetGetConfig` shows it.

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
        """Refuse a member that a configuration cannot hold, with a message that names the field."""
        for name, kind in (("priority", float), ("votes", int), ("delay", int)):
            value = getattr(self, name)
            if not _is_a(value, kind) and (name, value) != ("priority", None):
                raise TypeError(f"{name} must be {_WORDS[kind]}, not {value!r}")
        if not isinstance(self.tags, Mapping):
            raise TypeError(f"tags must be a document, not {self.tags!r}")
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
        """Whether the hello of its set lists it."""
        return not self.hidden and not self.delay


def _is_a(value: object, kind: type) -> bool:
    """Return whether a value is of a kind; True and False are no numbers, whole numbers are numbers."""
    if isinstance(value, bool) and kind is not bool:
        return False
    return isinstance(value, int | float if kind is float else kind)


def _tuple_of(kind: type, values: object, name: str) -> tuple[Any, ...]:
    """Return values of a kind as a tuple. Raises `TypeError`."""
    found = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (None,)
    if not all(_is_a(each, kind) for each in found):
        number = "a whole number, or " if kind is MemberSpec else ""
        raise TypeError(f"{name} must be {number}a sequence, each {_WORDS[kind]}, not {values!r}")
    return found


_WORDS: Final[Mapping[type, str]] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    UserSpec: "a UserSpec",
    MemberSpec: "a MemberSpec",
}
_KINDS: Final[Sequence[tuple[Sequence[str], type]]] = (
    (("mongos", "shards", "seed", "journal_records", "journal_bytes"), int),
    (("election_delay",), float),
    (("set_name", "host", "profile", "storage"), str),
    (("auth", "javascript"), bool),
)
_SEQUENCES: Final[Mapping[str, type]] = {
    **dict.fromkeys(("ports", "balancer_ports", "priority_ports", "proxy_ports"), int),
    "compressors": str,
    "users": UserSpec,
}
"""The fields of a deployment that are checked for their types, and the kinds of their values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """A deployment's description.

    `members` is the number of members of a set, or a `MemberSpec` for each. `host` is the name that they
    advertise and, without a `bind_ip`, listen on; `ports` are their ports in order (empty: free ones).
    `parameters` are server parameters as at start-up, for every member. `election_delay` is the time, in
    seconds, for which a set is without a primary after a step-down or an outage. `election_timeout` is that
    for which a primary of a replica set goes on without a majority, a server's `electionTimeoutMillis`: what
    it writes meanwhile is rolled back when it returns, and an election loses what no member in reach has.
    None, the default, has it step down at once, and nothing is lost.
    `journal_records` is the number of records that the journal keeps: the newest; `journal_bytes` those of
    requests and replies beside them. `journal_file` is a file that gets every record as a line of JSON.
    `auth` switches access control on; `users` exist from the start, with or without it. `tls` is a `TlsSpec`.
    `javascript` allows scripts, as mongod's `security.javascriptEnabled`. `storage` is `memory`, our own,
    or `mongomock`, whose own collections then hold the documents and answer the queries.

    A sharded cluster has `mongos` routers on `ports`, over `shards` replica sets of `members` each, on free
    ports. A load-balanced one has two balancers besides, on `balancer_ports`: one in front of the first
    mongos, and one in front of all.

    `priority_ports` and `proxy_ports` are further ports of the servers that clients connect to, 0 for a free
    one: of the first (mongod's `priorityPort`, 9.0) no limit of connections or requests holds, and on the
    second (`proxyPort` of a mongod, since 8.1) each connection begins with a header of the PROXY protocol.
    """

    topology: Topology = Topology.SINGLE
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
    priority_ports: tuple[int, ...] = ()
    proxy_ports: tuple[int, ...] = ()
    compressors: tuple[str, ...] | None = None
    election_delay: float = 0.01
    election_timeout: float | None = None
    journal_records: int = JOURNAL_RECORDS
    journal_bytes: int = JOURNAL_BYTES
    journal_file: str | None = None
    auth: bool = False
    users: tuple[UserSpec, ...] = ()
    tls: TlsSpec | None = None
    javascript: bool = True
    storage: str = STORAGES[0]

    def __post_init__(self) -> None:
        """Refuse a deployment that cannot run, with a message that names the field.

        Raises `ValueError`, and `TypeError` for a value of another type. Sequences become tuples, and names
        of topologies topologies.
        """
        self._take_types()
        self._check_members()
        self._check_routers()
        self._check_ports()
        if self.storage not in STORAGES:
            raise ValueError(f"storage must be one of {', '.join(STORAGES)}, not {self.storage}")
        if not self.set_name:
            raise ValueError("set_name must not be empty")
        if self.election_delay < 0:
            raise ValueError("election_delay is a number of seconds and cannot be negative")
        if self.election_timeout is not None:
            if self.election_timeout < 0:
                raise ValueError("election_timeout is a number of seconds and cannot be negative")
            if not self.is_replica_set:
                raise ValueError(f"election_timeout is for a replica set, this is {self.topology}")
        if self.journal_records < 1:
            raise ValueError(f"journal_records must be 1 or more, not {self.journal_records}")
        if self.journal_bytes < 0:
            raise ValueError(f"journal_bytes must not be negative, as {self.journal_bytes} is")
        Profile.named(self.profile)

    def _take_types(self) -> None:
        try:
            topology = Topology(topology_name(str(self.topology)))
        except ValueError:
            raise ValueError(
                f"topology must be one of {', '.join(Topology)}, not {self.topology!r}"
            ) from None
        object.__setattr__(self, "topology", topology)
        if not _is_a(self.members, int):
            object.__setattr__(self, "members", _tuple_of(MemberSpec, self.members, "members"))
        for names, kind in _KINDS:
            for name in names:
                if not _is_a(value := getattr(self, name), kind):
                    raise TypeError(f"{name} must be {_WORDS[kind]}, not {value!r}")
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))
        for name, kind in _SEQUENCES.items():
            if (value := getattr(self, name)) is not None or name != "compressors":
                object.__setattr__(self, name, _tuple_of(kind, value, name))

    def _check_members(self) -> None:
        count = self.members if isinstance(self.members, int) else len(self.members)
        if not 1 <= count <= _MAX_MEMBERS:
            raise ValueError(f"members must be from 1 to {_MAX_MEMBERS}, not {count}")
        if self.topology is Topology.SINGLE and self.members != 1:
            raise ValueError("topology single has one member; use ClusterSpec.replica_set(n)")
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
                raise ValueError(
                    f"{name} must be from {least} to {most} with topology {self.topology}, not {count}"
                )

    def _check_ports(self) -> None:
        servers = self.mongos or len(self.member_specs)
        if self.ports and len(self.ports) != servers:
            kind = "mongos" if self.is_sharded else "members"
            raise ValueError(f"ports must name one port for each of the {servers} {kind}")
        balancers = self.balancers
        if self.balancer_ports and len(self.balancer_ports) != balancers:
            raise ValueError(f"balancer_ports must name one port for each of the {balancers} load balancers")
        self._check_sides(servers)
        ports = (*self.ports, *self.balancer_ports, *self.priority_ports, *self.proxy_ports)
        if any(not 0 <= port <= _MAX_PORT for port in ports):
            raise ValueError(f"ports must be from 0 to {_MAX_PORT}, not {ports}")

    def _check_sides(self, servers: int) -> None:
        profile = Profile.named(self.profile)
        for name, ports, known in (
            ("priority_ports", self.priority_ports, profile.has_priority_port),
            ("proxy_ports", self.proxy_ports, profile.has_proxy_port and not self.is_sharded),
        ):
            if ports and len(ports) != servers:
                raise ValueError(f"{name} must name one port for each of the {servers} servers")
            if ports and not known:
                kind = "a mongos" if self.is_sharded and name == "proxy_ports" else f"release {self.profile}"
                raise ValueError(f"{name}: {kind} has no such port")
        named = [port for port in (*self.ports, *self.priority_ports, *self.proxy_ports) if port]
        if len(named) != len(set(named)):
            raise ValueError("ports, priority_ports and proxy_ports must differ")

    @classmethod
    def standalone(cls, **facts: Any) -> ClusterSpec:
        """Describe one server that replicates nothing."""
        return cls(topology=Topology.SINGLE, **facts)

    single = standalone

    @classmethod
    def replica_set(cls, members: int | Sequence[MemberSpec] = 3, **facts: Any) -> ClusterSpec:
        """Describe a replica set: a number of data-bearing members, of which seven vote, or `MemberSpec`s."""
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
        """The members of a set, in order; where `members` is a number, the first seven vote."""
        if isinstance(self.members, int):
            return tuple(MemberSpec(votes=int(number < _MAX_VOTERS)) for number in range(self.members))
        return tuple(self.members)

    @property
    def member_names(self) -> list[list[str]]:
        """The names of the servers by set; a standalone is alone in the first."""
        names = [f"node{number}" for number in range(len(self.member_specs))]
        if not self.is_sharded:
            return [names]
        return [[f"{shard_name(shard)}/{name}" for name in names] for shard in range(self.shards)]

    @property
    def is_replica_set(self) -> bool:
        return self.topology is Topology.REPLICA_SET

    @property
    def is_sharded(self) -> bool:
        """Whether clients connect to mongos, directly or through a balancer."""
        return self.topology in {Topology.SHARDED, Topology.LOAD_BALANCED}

    @property
    def balancers(self) -> int:
        """The number of load balancers: one in front of the first mongos, one in front of all."""
        return 2 if self.topology is Topology.LOAD_BALANCED else 0


def shard_name(number: int) -> str:
    """Return the name of a shard of a sharded cluster, which is that of its replica set."""
    return f"shard{number + 1:02}"


def join_address(host: str, port: int) -> str:
    """Return `host:port`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

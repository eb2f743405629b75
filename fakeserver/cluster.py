"""A running deployment: the one owner of its state, and the verbs that change it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

from fakeserver.access.scram import SHA_1
from fakeserver.access.users import UserStore
from fakeserver.balancer import LoadBalancer
from fakeserver.concerns import DefaultConcerns
from fakeserver.journal import Journal
from fakeserver.logs import ServerLog
from fakeserver.node import Node
from fakeserver.oplog import ClusterTime, Oplog
from fakeserver.profile import Profile
from fakeserver.replication import Member, ReplicaSet, Role
from fakeserver.sessions import SessionCatalog
from fakeserver.shard import Shard, shard_name
from fakeserver.spec import MemberSpec, Topology
from fakeserver.transactions import Transactions
from fakeserver.ttl import TtlMonitor
from fakeserver.turns import Turns
from fakeserver.waiting import Bell
from mongowire.compression import available
from mongowire.ids import object_id, uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from fakeserver.catalog import Catalog
    from fakeserver.oplog import OpTime
    from fakeserver.sharding import ConfigServer
    from fakeserver.spec import ClusterSpec
    from mongowire.ports import Clock, Network, Rng

__all__ = ["CLIENTS", "Cluster", "Node"]

CLIENTS: Final = "clients"
"""The name by which a partition speaks of all clients."""

_STEP_DOWN_SECONDS: Final = 60.0


class Cluster:
    """What runs of a `ClusterSpec`; `fakeserver.start` makes one."""

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        network: Network,
        clock: Clock,
        rng: Rng,
        log_sink: Callable[[str], None] | None = None,
    ) -> None:
        """Build the servers. Raises `CommandError` for a start-up parameter that a server would refuse."""
        from fakeserver.commands import default_table  # noqa: PLC0415 - the storage engine is slow to import
        from fakeserver.commands.cursors import CursorStore  # noqa: PLC0415 - as above

        self.spec = spec
        self.network = network
        self.clock = clock
        self.turns = Turns(clock)
        self.rng = rng
        self.profile = Profile.named(spec.profile)
        self.journal = Journal(capacity=spec.journal_records)
        self.oplog = Oplog(clock.utc)
        self.oplog.on_append = self.catch_up
        self.oplog.on_appended = self._appended
        self._caught_up_until = 0.0
        self.cluster_time = ClusterTime(self.oplog)
        self.sessions = SessionCatalog(on_reaped=self._forget_cursors)
        self.replication = Bell()
        """Rings when a member's position or the primary changes."""
        self.catalog = _new_catalog(rng.spawn("catalog"))
        self.transactions = Transactions(self.catalog, self.oplog, in_shard=spec.is_sharded)
        self.compressors = available() if spec.compressors is None else spec.compressors
        self.shards: tuple[Shard, ...] = ()
        """The replica sets: the shards of a sharded cluster, or the one that a replica set is."""
        self.default_concerns = DefaultConcerns()
        self.config: ConfigServer | None = None
        """The metadata of a sharded cluster."""
        self.ttl = TtlMonitor(self)
        """What deletes documents that have expired."""
        self.catalog.expiry_changed = self.ttl.refresh
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        commands = default_table().known_to(self.profile.max_wire_version)

        def make(name: str, *, is_mongos: bool = False) -> Node:
            return Node(
                self,
                name,
                commands=commands.on_mongos() if is_mongos else commands.on_mongod(),
                cursors=CursorStore(rng.spawn(f"{name}/cursors")),
                rng=rng.spawn(name),
                log=ServerLog(clock.utc, log_sink),
                is_mongos=is_mongos,
            )

        self._make = make
        self.routers = tuple(make(f"mongos{number}", is_mongos=True) for number in range(spec.mongos))
        """The mongos of a sharded cluster."""
        self._members = [[make(name) for name in names] for names in _member_names(spec)]
        self.servers = (*self.routers, *(node for nodes in self._members for node in nodes))
        """Every server, the members of shards too."""
        self.nodes = self.routers or self.servers
        """The servers that clients speak to: the mongos where there are any, else the members."""
        self.balancers = tuple(
            LoadBalancer(self, self.routers[: 1 if number == 0 else None]) for number in range(spec.balancers)
        )
        self.users = UserStore(rng.spawn("users"), self._iterations)
        for user in spec.users:
            self.users.seed(user)

    def __repr__(self) -> str:
        return f"<Cluster {self.spec.topology} of {len(self.nodes)}>"

    # Start and stop.

    async def start(self) -> Self:
        """Listen on every port, form the sets, elect their first members. Raises `OSError`."""
        spec = self.spec
        try:
            for nodes in (self.routers, *self._members):
                for number, node in enumerate(nodes):
                    port = spec.ports[number] if spec.ports and node in self.nodes else 0
                    described = MemberSpec() if node.is_mongos else spec.member_specs[number]
                    await self._open(number, node, port, described)
            for number, balancer in enumerate(self.balancers):
                await balancer.listen(spec.balancer_ports[number] if spec.balancer_ports else 0)
        except BaseException:
            await self.stop()
            raise
        if spec.topology is not Topology.STANDALONE:
            self.shards = tuple(self._form(number) for number in range(len(self._members)))
        if spec.is_sharded:
            self.config = _new_config(self)
        for node in self.servers:
            node.open()
        self.ttl.refresh()
        return self

    def _form(self, number: int) -> Shard:
        name = self.spec.set_name if self.spec.is_replica_set else shard_name(number)
        nodes = self._members[number]
        members = [node.member for node in nodes]
        shard = Shard(self, ReplicaSet(name, object_id(self.clock, self.rng), members), nodes)
        first = shard.replica_set.candidate(self.clock.now())
        assert first is not None, "a spec has a member that can be elected"
        shard.elect(shard.node_of(first))
        return shard

    async def _open(self, number: int, node: Node, port: int, described: MemberSpec) -> None:
        spec = self.spec
        _, port = await node.listen(spec.bind_ip or spec.host, port)
        role = Role.ARBITER if described.arbiter else Role.SECONDARY
        if not node.is_replica_set_member:
            role = Role.PRIMARY
        address = join_address(spec.host, port)
        node.member = Member(number, address, object_id(self.clock, node.rng), role, spec=described)
        secure = spec.tls is not None and spec.tls.mode != "disabled"
        attr = {"port": port, "ssl": "on" if secure else "off"}
        node.log.write("NETWORK", 23015, "Listening on", context="listener", attr={"address": spec.host})
        node.log.write("NETWORK", 23016, "Waiting for connections", context="listener", attr=attr)

    async def stop(self) -> None:
        """Close every listener and connection, and end what still waits. Stopping twice is allowed."""
        for balancer in self.balancers:
            await balancer.stop()
        for node in self.servers:
            await node.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.drained(self.servers)
        self.turns.close()

    async def drained(self, nodes: Sequence[Node]) -> None:
        """Return when no connection to these is left, all of which were closed."""
        while any(node.connections for node in nodes):
            # The transports tell of their end in one of the loop's next turns.
            ended = self._ended
            await ended.wait()

    def _forget_cursors(self, sessions: SessionCatalog) -> None:
        for node in self.nodes:
            node.cursors.keep_sessions(sessions)
            if node.transaction_router is not None:
                node.transaction_router.keep_sessions(sessions)

    def connection_ended(self) -> None:
        """Hear that a connection is no more."""
        ended, self._ended = self._ended, asyncio.Event()
        ended.set()

    def catch_up(self) -> None:
        """Have flow control look at the set as it is, before that changes."""
        if not self.shards:
            return
        now = self.clock.now()
        if now >= self._caught_up_until:
            monitors = [node.flow_monitor for shard in self.shards for node in shard.nodes]
            self._caught_up_until = min(monitor.catch_up(now) for monitor in monitors)

    def _appended(self, optime: OpTime) -> None:
        for shard in self.shards:
            primary = shard.primary
            if primary is not None:
                primary.flow_monitor.written(optime)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine until it ends, or the deployment stops."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # What it looks like from outside.

    @property
    def uri(self) -> str:
        """The connection string: of every mongos where there are any.

        It has the credentials of the spec's first user that has a password. Of TLS it names the authority,
        which is the client's business too; a client certificate is not named.
        """
        return self._uri(self.balancers[-1:] or self.nodes)

    @property
    def uri_single(self) -> str:
        """The connection string of one mongos alone; the same as `uri` where there are none."""
        return self._uri(self.balancers[:1] or self.routers[:1] or self.nodes)

    def _uri(self, doors: Sequence[Node | LoadBalancer]) -> str:
        hosts = ",".join(door.address for door in doors)
        options = [f"replicaSet={self.spec.set_name}"] if self.spec.is_replica_set else []
        options += ["loadBalanced=true"] if self.balancers else []
        who = ""
        user = next((each for each in self.spec.users if each.password is not None), None)
        if user is not None and user.password is not None:
            who = f"{quote(user.name, safe='')}:{quote(user.password, safe='')}@"
            options += [] if user.db == "admin" else [f"authSource={quote(user.db, safe='')}"]
        tls = self.spec.tls
        if tls is not None and tls.mode in {"preferTLS", "requireTLS"}:
            options += ["tls=true"] + ([f"tlsCAFile={quote(tls.ca_file)}"] if tls.ca_file else [])
        return f"mongodb://{who}{hosts}/" + (f"?{'&'.join(options)}" if options else "")

    def _iterations(self, mechanism: str) -> int:
        name = "scramIterationCount" if mechanism == SHA_1 else "scramSHA256IterationCount"
        return int(self.nodes[0].parameters[name])

    @property
    def primary(self) -> Node | None:
        """The server that takes writes, if there is one now; of several mongos the first."""
        return next((node for node in self.nodes if node.is_primary), None)

    def majority(self) -> OpTime:
        """Return the last operation that a majority has: of several shards, of the first."""
        return self.shards[0].majority() if self.shards else self.oplog.last

    @property
    def replica_set(self) -> ReplicaSet | None:
        """The state of the set; of several shards, of the first. None on a standalone."""
        return self.shards[0].replica_set if self.shards else None

    # Verbs.

    def node(self, which: str | Node) -> Node:
        """Return a server by its name or address, or as the "primary" or a "secondary".

        Raises `LookupError` where there is none.
        """
        if isinstance(which, Node):
            return which
        if which == "primary":
            found = self.primary if not self.shards else self.shards[0].primary
        elif which == "secondary":
            found = next((node for node in self.servers if node.role is Role.SECONDARY), None)
        else:
            found = next((node for node in self.servers if which in {node.name, node.address}), None)
        if found is None:
            names = ", ".join(node.name for node in self.servers)
            raise LookupError(f"there is no {which!r} now; there are {names}")
        return found

    def step_down(self, *, seconds: float = _STEP_DOWN_SECONDS) -> Node:
        """Make the primary a secondary that seeks no election for `seconds`, and return it.

        Another member is elected after the spec's `election_delay`; without one that is able, the old one
        is when its time is over. Of several shards it is the first whose primary steps down; ask another one
        itself. Raises `ValueError` where there is no set, or no primary.
        """
        if not self.shards:
            raise ValueError("a standalone has no elections")
        return self.shards[0].step_down(seconds=seconds)

    def elect(self, node: Node) -> None:
        """Make `node` the primary of a new term; the old primary of its set steps down.

        Raises `ValueError` where there is no set, or `node` is in no state to be primary.
        """
        if node.shard is None:
            raise ValueError(f"{node.name} is no member of a replica set: it has no elections")
        node.shard.elect(node)

    def partition(self, *groups: Iterable[str | Node], reset: bool = False) -> None:
        """Part the network into groups of servers, each named as for `node`; the others are one more group.

        Clients reach every server, unless a group names them (`CLIENTS`): then those of that group alone.
        From the others they get silence, or, with `reset`, resets. A second partition takes the place of the
        first. Raises `LookupError` for a server that is not there, `ValueError` for one in two groups.
        """
        islands: dict[Node, int] = {}
        island_of_clients: int | None = None
        for number, group in enumerate(groups, 1):
            for each in group:
                if each == CLIENTS:
                    island_of_clients = number
                    continue
                node = self.node(each)
                if islands.setdefault(node, number) != number:
                    raise ValueError(f"{node.name} is in two groups")
        for node in self.servers:
            island = node.member.island = islands.get(node, 0)
            node.outages.cut_off(from_clients=island_of_clients not in {None, island}, reset=reset)
        for shard in self.shards:
            shard.settle()

    def heal(self) -> None:
        """Make the network whole again."""
        self.partition()

    async def add_server(self) -> Node:
        """Start another server for the replica set, which it does not belong to yet, and return it.

        Raises `ValueError` where there is no set, or several.
        """
        if not self.spec.is_replica_set:
            raise ValueError(f"members can be added to a replica set only, this is {self.spec.topology}")
        node = self._make(f"node{len(self.servers)}")
        await self._open(len(self.servers), node, 0, MemberSpec())
        node.member.role, node.shard = Role.STARTUP, self.shards[0]
        self.nodes = self.servers = (*self.servers, node)
        node.open()
        return node

    async def add_member(self, spec: MemberSpec | None = None) -> Node:
        """Start another server, make it a member of the replica set, and return it.

        Raises `ValueError` where there is no set, or several.
        """
        node = await self.add_server()
        shard = self.shards[0]
        members = {each: each.member.spec for each in shard.nodes}
        shard.reconfigure(members | {node: spec or MemberSpec()})
        return node

    def remove_member(self, which: str | Node) -> Node:
        """Make a member leave its replica set, and return it; it runs on, as REMOVED.

        Raises `LookupError` for one that is not there, `ValueError` if the set cannot do without it.
        """
        node = self.node(which)
        if node.shard is None or node not in node.shard.nodes:
            raise ValueError(f"{node.name} is no member of a replica set")
        left = {each: each.member.spec for each in node.shard.nodes if each is not node}
        if not any(spec.is_electable for spec in left.values()):
            raise ValueError(f"without {node.name} no member could be elected")
        node.shard.reconfigure(left)
        return node


def join_address(host: str, port: int) -> str:
    """Return `host:port`, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _member_names(spec: ClusterSpec) -> list[list[str]]:
    """Return the names of the servers of each set; a standalone is alone in the first."""
    if not spec.is_sharded:
        return [[f"node{number}" for number in range(len(spec.member_specs))]]
    return [
        [f"{shard_name(shard)}/node{number}" for number in range(len(spec.member_specs))]
        for shard in range(spec.shards)
    ]


def _new_config(cluster: Cluster) -> ConfigServer:
    from fakeserver.sharding import ConfigServer  # noqa: PLC0415 - the storage engine is slow to import

    return ConfigServer(cluster)


def _new_catalog(rng: Rng) -> Catalog:
    from fakeserver.catalog import Catalog  # noqa: PLC0415 - the storage engine is slow to import
    from fakeserver.storage.mongomock import MongomockEngine  # noqa: PLC0415 - as above

    return Catalog(MongomockEngine(dice=rng.random), lambda: uuid(rng))

"""A running deployment: the one owner of its state, and the verbs that change it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self
from urllib.parse import quote

from fakeserver.access.scram import SHA_1
from fakeserver.access.users import UserStore
from fakeserver.deployment.doors import sides_of
from fakeserver.deployment.monitors import FlowMonitors
from fakeserver.deployment.node import Node
from fakeserver.deployment.on_loop import on_loop
from fakeserver.deployment.records.events import ServerChanged
from fakeserver.deployment.replication.default_concerns import DefaultConcerns
from fakeserver.deployment.replication.history import Owner
from fakeserver.deployment.replication.state import Member, ReplicaSet, Role
from fakeserver.deployment.shard import Shard
from fakeserver.deployment.spec import MemberSpec, Topology, join_address, shard_name
from fakeserver.deployment.ttl import TtlMonitor
from fakeserver.settings.failpoints import FailPointUses
from fakeserver.waiting.bell import Bell
from mongowire.compression import available
from mongowire.ids import object_id

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from fakeserver.control.rule_methods import LocalMethods
    from fakeserver.deployment.config_server import ConfigServer
    from fakeserver.deployment.doors import Served
    from fakeserver.deployment.records.journal import Journal
    from fakeserver.deployment.replication.history import History
    from fakeserver.deployment.spec import ClusterSpec
    from fakeserver.network.balancer import LoadBalancer
    from fakeserver.network.fault_injector import FaultInjector
    from fakeserver.profile import Profile
    from fakeserver.rules.book import RuleBook
    from fakeserver.sessions.session import SessionCatalog
    from fakeserver.storage.port.oplog import OpTime
    from fakeserver.waiting.turns import Turns
    from mongowire.ports import Clock, Network, Rng

__all__ = ["CLIENTS", "Cluster", "Node"]

CLIENTS: Final = "clients"
"""The name of all clients in a group of `partition`."""

_STEP_DOWN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Shared:
    """The common parts of a deployment's servers: its ports to the world, its data, its records."""

    network: Network
    clock: Clock
    rng: Rng
    profile: Profile
    turns: Turns
    journal: Journal
    history: History
    rules: RuleBook
    faults: FaultInjector


class Makers(Protocol):
    """The makers of a deployment's parts, implemented by `fakeserver.assembly.assembling`."""

    def node(self, cluster: Cluster, name: str, *, is_mongos: bool = False) -> Node:
        """Return a server that does not listen yet. Raises `CommandError` for a bad start-up parameter."""

    def balancer(self, cluster: Cluster, routers: Sequence[Node]) -> LoadBalancer:
        """Return a load balancer in front of mongos, which does not listen yet."""

    def config(self, cluster: Cluster) -> ConfigServer[Shard]:
        """Return the metadata of a sharded cluster, whose shards have been formed."""

    async def ui(self, cluster: Cluster, port: int, token: str | None) -> Served:
        """Serve the verbs over HTTP, and the live page."""


class Cluster(Owner):
    """A running `ClusterSpec`; `fakeserver.start` makes one."""

    def __init__(
        self,
        spec: ClusterSpec,
        shared: Shared,
        makers: Makers,
    ) -> None:
        """Build the servers. Raises `CommandError` for a start-up parameter that a server would refuse."""
        self.spec = spec
        self._take(shared)
        rng = self.rng
        self.compressors = available() if spec.compressors is None else spec.compressors
        self.shards: tuple[Shard, ...] = ()
        """The replica sets: the shards of a sharded cluster, or the one that a replica set is."""
        self.default_concerns = DefaultConcerns()
        self.write_block: str | None = None
        """Why users may not write, None if they may (`setUserWriteBlockMode`)."""
        self.feature_compatibility_version = self.profile.feature_compatibility_version
        """The release whose features the data may need (`setFeatureCompatibilityVersion`)."""
        self.config: ConfigServer[Shard] | None = None
        """The metadata of a sharded cluster."""
        self.fail_point_uses = FailPointUses()
        """The settings of its servers' fail points, and whether they were met."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ended = asyncio.Event()
        self._makers = makers
        self.control: LocalMethods
        """The verbs of the deployment, given to it by `assemble`."""
        self.started: Callable[[], None] = _nothing
        """Called when everything runs: this is the state that `reset` brings back."""
        self.routers = tuple(
            makers.node(self, f"mongos{number}", is_mongos=True) for number in range(spec.mongos)
        )
        """The mongos of a sharded cluster."""
        self._members = [[makers.node(self, name) for name in names] for names in spec.member_names]
        self.servers = (*self.routers, *(node for nodes in self._members for node in nodes))
        """Every server, the members of shards too."""
        self.nodes = self.routers or self.servers
        """The servers that clients connect to: the mongos where there are any, else the members."""
        # The first balancer has one mongos behind it, as `uriOptions: useMultipleMongoses: false` wants it.
        self.balancers = tuple(
            makers.balancer(self, self.routers[: 1 if number == 0 else None])
            for number in range(spec.balancers)
        )
        self.users = UserStore(rng.spawn("users"), self._iterations)
        for user in spec.users:
            self.users.seed(user)

    def _take(self, shared: Shared) -> None:
        """Take the common parts, and listen to those that call back."""
        self.network = shared.network
        self.clock = shared.clock
        self.turns = shared.turns
        self.rng = shared.rng
        self.profile = shared.profile
        self.journal = shared.journal
        self._flow_monitors = FlowMonitors(self)
        shared.history.lend(self)
        self.ttl = TtlMonitor(self)
        """The monitor that deletes documents that have expired."""
        self._listen()
        self.replication = Bell()
        """Rings when a member's position or the primary changes."""
        self.rules = shared.rules
        """The rules that requests of every server meet."""
        self.faults = shared.faults
        """The faults of bytes, in front of connections."""

    def _listen(self) -> None:
        self.oplog.on_append = self._flow_monitors.catch_up
        self.oplog.on_appended = self._flow_monitors.written
        self.sessions.on_reaped = self._forget_cursors
        self.catalog.expiry_changed = self.ttl.refresh

    def go_on_in(self, history: History) -> None:
        """Make a history that has begun in the present one the deployment's own."""
        old = self.history
        old.oplog.on_appended = old.catalog.expiry_changed = _nothing
        history.lend(self)
        self._listen()
        # Whoever waits for writes waits for those of the new history.
        old.oplog.grown.ring()

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
                    if node in self.nodes:
                        node.doors.sides = sides_of(spec, number)
                    described = MemberSpec() if node.is_mongos else spec.member_specs[number]
                    await self._open(number, node, port, described)
            for number, balancer in enumerate(self.balancers):
                await balancer.listen(spec.balancer_ports[number] if spec.balancer_ports else 0)
        except BaseException:
            await self.stop()
            raise
        if spec.topology is not Topology.SINGLE:
            self.shards = tuple(self._form(number) for number in range(len(self._members)))
        if spec.is_sharded:
            self.config = self._makers.config(self)
        for node in self.servers:
            node.open()
        self.ttl.refresh()
        self.started()
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

    @on_loop
    async def stop(self) -> None:
        """Close every listener and connection, and cancel every task. Stopping twice is allowed."""
        self.rules.clear()
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
        self.journal.close()

    async def drained(self, nodes: Sequence[Node]) -> None:
        """Return when no connection to these is left. They must have been closed."""
        while any(node.connections for node in nodes):
            # A transport reports its end in one of the next iterations of the loop.
            ended = self._ended
            await ended.wait()

    @on_loop
    async def serve_ui(self, port: int = 0, token: str | None = None) -> Served:
        """Serve the verbs over HTTP and the live page, on loopback, until the deployment stops.

        `page` of what this returns is the address to open; docs/UI.md lists the routes. Raises `ControlError`
        for a deployment in virtual time, `OSError` if the port is taken.
        """
        return await self._makers.ui(self, port, token)

    def _forget_cursors(self, sessions: SessionCatalog) -> None:
        for node in self.nodes:
            node.cursors.keep_sessions(sessions)
            if node.transaction_router is not None:
                node.transaction_router.keep_sessions(sessions)

    def connection_ended(self) -> None:
        """Wake those who wait in `drained`."""
        ended, self._ended = self._ended, asyncio.Event()
        ended.set()

    def catch_up(self) -> None:
        """Let flow control look at the sets as they are, before they change."""
        self._flow_monitors.catch_up()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine until it ends, or the deployment stops."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self.own(task)
        return task

    def own(self, task: asyncio.Task[Any]) -> None:
        """Cancel a task when the deployment stops."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Addresses and roles.

    @property
    def uri(self) -> str:
        """The connection string: of every mongos where there are any.

        It has the credentials of the spec's first user with a password, and the authority of TLS, which the
        client needs as well. It has no client certificate.
        """
        return self._uri(self.balancers[-1:] or self.nodes)

    @property
    def uri_single(self) -> str:
        """The connection string of one mongos alone; the same as `uri` where there are none."""
        return self._uri(self.balancers[:1] or self.routers[:1] or self.nodes)

    def _uri(self, targets: Sequence[Node | LoadBalancer]) -> str:
        hosts = ",".join(target.address for target in targets)
        options = [f"replicaSet={self.spec.set_name}"] if self.spec.is_replica_set else []
        options += ["loadBalanced=true"] if self.balancers else []
        credentials = ""
        user = next((each for each in self.spec.users if each.password is not None), None)
        if user is not None and user.password is not None:
            credentials = f"{quote(user.name, safe='')}:{quote(user.password, safe='')}@"
            options += [] if user.db == "admin" else [f"authSource={quote(user.db, safe='')}"]
        tls = self.spec.tls
        if tls is not None and tls.mode in {"preferTLS", "requireTLS"}:
            options += ["tls=true"] + ([f"tlsCAFile={quote(tls.ca_file)}"] if tls.ca_file else [])
        return f"mongodb://{credentials}{hosts}/" + (f"?{'&'.join(options)}" if options else "")

    def _iterations(self, mechanism: str) -> int:
        name = "scramIterationCount" if mechanism == SHA_1 else "scramSHA256IterationCount"
        return int(self.nodes[0].parameters[name])

    @property
    def primary(self) -> Node | None:
        """The server that takes writes, if there is one now; of several mongos the first."""
        if self.spec.is_replica_set and self.shards:
            return self.shards[0].primary
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
        """Return a server by its name or address, or as "primary", "secondary" or "mongos".

        Of several secondaries it is the first that runs. Raises `LookupError` where there is none.
        """
        if isinstance(which, Node):
            return which
        if which == "primary":
            found = self.primary if not self.shards else self.shards[0].primary
        elif which == "secondary":
            secondaries = [node for node in self.servers if node.role is Role.SECONDARY]
            found = min(secondaries, key=lambda node: not node.member.alive, default=None)
        elif which == "mongos":
            found = next(iter(self.routers), None)
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
        """Divide the network into groups of servers, each named as for `node`; the others are one more group.

        Clients reach every server, unless a group names them (`CLIENTS`): then only the servers of that
        group. The others are silent to them, or, with `reset`, reset their connections. A second partition
        replaces the first. Raises `LookupError` for an unknown server, `ValueError` for one in two groups.
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
            island = islands.get(node, 0)
            if island != node.member.island:
                change = ("partitioned", f"in group {island}") if island else ("partition healed", "")
                node.record(ServerChanged(*change))
            node.member.island = island
            node.outages.cut_off(from_clients=island_of_clients not in {None, island}, reset=reset)
        for shard in self.shards:
            shard.settle()

    def heal(self) -> None:
        """End the partition."""
        self.partition()

    @on_loop
    async def add_server(self) -> Node:
        """Start another server, which is no member of the replica set yet, and return it.

        Raises `ValueError` where there is no set, or several.
        """
        if not self.spec.is_replica_set:
            raise ValueError(f"members can be added to a replica set only, this is {self.spec.topology}")
        node = self._makers.node(self, f"node{len(self.servers)}")
        await self._open(len(self.servers), node, 0, MemberSpec())
        node.member.role, node.shard = Role.STARTUP, self.shards[0]
        self.nodes = self.servers = (*self.servers, node)
        node.record(ServerChanged("added"))
        node.open()
        return node

    @on_loop
    async def add_member(self, spec: MemberSpec | None = None) -> Node:
        """Start another server, make it a member of the replica set, and return it.

        Raises `ValueError` where there is no set, or several.
        """
        node = await self.add_server()
        shard = self.shards[0]
        members = {each: each.member.spec for each in shard.nodes}
        shard.reconfigure(members | {node: spec or MemberSpec()})
        return node

    async def discard(self, node: Node) -> None:
        """End a server that is a member of no set, and forget it."""
        self.nodes = self.servers = tuple(each for each in self.servers if each is not node)
        await node.stop()
        await self.drained([node])

    def remove_member(self, which: str | Node) -> Node:
        """Remove a member from its replica set, and return it; it runs on, as REMOVED.

        Raises `LookupError` for an unknown server, `ValueError` if no other member could be elected.
        """
        node = self.node(which)
        if node.shard is None or node not in node.shard.nodes:
            raise ValueError(f"{node.name} is no member of a replica set")
        left = {each: each.member.spec for each in node.shard.nodes if each is not node}
        if not any(spec.is_electable for spec in left.values()):
            raise ValueError(f"without {node.name} no member could be elected")
        node.record(ServerChanged("removed", "from its replica set"))
        node.shard.reconfigure(left)
        return node


def _nothing(*_facts: object) -> None:
    """Do nothing."""

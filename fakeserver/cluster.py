"""A running deployment: the one owner of its state, and the verbs that change it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

from fakeserver.access.scram import SHA_1
from fakeserver.access.users import UserStore
from fakeserver.events import PrimaryElected, PrimarySteppedDown
from fakeserver.journal import Journal
from fakeserver.logs import ServerLog
from fakeserver.node import Node
from fakeserver.oplog import ClusterTime, Oplog
from fakeserver.profile import Profile
from fakeserver.replication import Member, ReplicaSet, Role
from fakeserver.sessions import SessionCatalog
from fakeserver.transactions import Transactions
from fakeserver.waiting import Bell
from mongowire.compression import available
from mongowire.ids import object_id, uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fakeserver.catalog import Catalog
    from fakeserver.oplog import OpTime
    from fakeserver.spec import ClusterSpec
    from mongowire.ports import Clock, Network, Rng

__all__ = ["Cluster", "Node"]

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
        self.rng = rng
        self.profile = Profile.named(spec.profile)
        self.journal = Journal(capacity=spec.journal_records)
        self.oplog = Oplog(clock.utc)
        self.cluster_time = ClusterTime(self.oplog)
        self.sessions = SessionCatalog(on_reaped=self._forget_cursors)
        self.replication = Bell()
        """Rings when a member's position or the primary changes."""
        self.catalog = _new_catalog(rng.spawn("catalog"))
        self.transactions = Transactions(self.catalog, self.oplog)
        self.compressors = available() if spec.compressors is None else spec.compressors
        self.replica_set: ReplicaSet | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        commands = default_table().known_to(self.profile.max_wire_version)
        self.nodes = tuple(
            Node(
                self,
                f"node{number}",
                commands=commands,
                cursors=CursorStore(rng.spawn(f"node{number}/cursors")),
                rng=rng.spawn(f"node{number}"),
                log=ServerLog(clock.utc, log_sink),
            )
            for number in range(spec.members)
        )
        self.users = UserStore(rng.spawn("users"), self._iterations)
        for user in spec.users:
            self.users.seed(user)

    def __repr__(self) -> str:
        return f"<Cluster {self.spec.topology} of {len(self.nodes)}>"

    # Start and stop.

    async def start(self) -> Self:
        """Listen on every port, form the set, elect the first member. Raises `OSError`."""
        try:
            for number, node in enumerate(self.nodes):
                await self._open(number, node)
        except BaseException:
            await self.stop()
            raise
        if self.spec.is_replica_set:
            members = [node.member for node in self.nodes]
            self.replica_set = ReplicaSet(self.spec.set_name, object_id(self.clock, self.rng), members)
            self.elect(self.nodes[0])
        for node in self.nodes:
            node.open()
        return self

    async def _open(self, number: int, node: Node) -> None:
        spec = self.spec
        port = spec.ports[number] if spec.ports else 0
        _, port = await node.listen(spec.bind_ip or spec.host, port)
        host = f"[{spec.host}]" if ":" in spec.host else spec.host
        role = Role.SECONDARY if spec.is_replica_set else Role.PRIMARY
        node.member = Member(number, f"{host}:{port}", object_id(self.clock, node.rng), role)
        secure = spec.tls is not None and spec.tls.mode != "disabled"
        attr = {"port": port, "ssl": "on" if secure else "off"}
        node.log.write("NETWORK", 23015, "Listening on", context="listener", attr={"address": host})
        node.log.write("NETWORK", 23016, "Waiting for connections", context="listener", attr=attr)

    async def stop(self) -> None:
        """Close every listener and connection, and end what still waits. Stopping twice is allowed."""
        for node in self.nodes:
            await node.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        while any(node.connections for node in self.nodes):
            # The transports tell of their end in one of the loop's next turns.
            self._ended.clear()
            await self._ended.wait()

    def _forget_cursors(self, sessions: SessionCatalog) -> None:
        for node in self.nodes:
            node.cursors.keep_sessions(sessions)

    def connection_ended(self) -> None:
        """Hear that a connection is no more."""
        self._ended.set()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine until it ends, or the deployment stops."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # What it looks like from outside.

    @property
    def uri(self) -> str:
        """The connection string, with the credentials of the spec's first user that has a password.

        Of TLS it names the authority, which is the client's business too; a client certificate is not named.
        """
        hosts = ",".join(node.address for node in self.nodes)
        options = [f"replicaSet={self.spec.set_name}"] if self.spec.is_replica_set else []
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
        """The server that takes writes, if there is one now."""
        return next((node for node in self.nodes if node.is_primary), None)

    # Replication.

    def replicated(self, optime: OpTime) -> int:
        """Return how many members have the operation of `optime`."""
        return sum(node.applied >= optime for node in self.nodes)

    def majority(self) -> OpTime:
        """Return the last operation that a majority has."""
        positions = sorted((node.applied for node in self.nodes), reverse=True)
        return positions[len(positions) // 2]

    # Verbs.

    def step_down(self, *, seconds: float = _STEP_DOWN_SECONDS) -> Node:
        """Make the primary a secondary that seeks no election for `seconds`, and return it.

        Another member is elected after the spec's `election_delay`; without one that is able, the old one
        is when its time is over. Raises `ValueError` where there is no set, or no primary.
        """
        replica_set = self._require_set()
        node = self._node_of(replica_set.step_down(frozen_until=self.clock.now() + seconds))
        node.record(PrimarySteppedDown(node.name, replica_set.term))
        self.transactions.abort_all()
        self.replication.ring()
        self._seek_election(self.clock.now() + self.spec.election_delay)
        return node

    def elect(self, node: Node) -> None:
        """Make `node` the primary of a new term; the old primary steps down.

        Raises `ValueError` where there is no set, or `node` is in no state to be primary.
        """
        replica_set = self._require_set()
        if node.role is not Role.SECONDARY:
            raise ValueError(f"{node.name} is {node.role.name}, only a SECONDARY can be elected")
        old = replica_set.primary
        if old is not None:
            self.transactions.abort_all()
            name = self._node_of(old).name
            self._node_of(old).record(PrimarySteppedDown(name, replica_set.term))
        replica_set.elect(node.member)
        node.record(PrimaryElected(node.name, replica_set.term))
        self.oplog.term = replica_set.term
        self.oplog.append()
        self.replication.ring()

    def _seek_election(self, at: float) -> None:
        async def campaign() -> None:
            await self.clock.sleep_until(at)
            self._hold_election()

        self.spawn(campaign())

    def _hold_election(self) -> None:
        replica_set = self._require_set()
        if replica_set.primary is not None:
            return
        now = self.clock.now()
        winner = replica_set.candidate(now)
        if winner is not None:
            self.elect(self._node_of(winner))
            return
        thaw = replica_set.next_thaw()
        if thaw is not None:
            self._seek_election(max(thaw, now + self.spec.election_delay))

    def _require_set(self) -> ReplicaSet:
        if self.replica_set is None:
            raise ValueError("a standalone has no elections")
        return self.replica_set

    def _node_of(self, member: Member) -> Node:
        return self.nodes[member.id]


def _new_catalog(rng: Rng) -> Catalog:
    from fakeserver.catalog import Catalog  # noqa: PLC0415 - the storage engine is slow to import
    from fakeserver.storage.mongomock import MongomockEngine  # noqa: PLC0415 - as above

    return Catalog(MongomockEngine(dice=rng.random), lambda: uuid(rng))

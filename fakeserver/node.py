"""One running server of a deployment."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from fakeserver import ttl
from fakeserver.access.session import is_local
from fakeserver.admission.controls import CORES, AdmissionControl
from fakeserver.connection import Connection
from fakeserver.connection_state import ConnectionState
from fakeserver.counters import Counters
from fakeserver.errors import CommandError
from fakeserver.establishment import Gate
from fakeserver.events import FailPointHit
from fakeserver.failpoints import ON_PRIMARY_TRANSACTIONAL_WRITE, FailPointRegistry, Target
from fakeserver.flow_monitor import FlowMonitor
from fakeserver.hello import topology_version
from fakeserver.lag import Position
from fakeserver.outages import Outages
from fakeserver.parameters import ServerParameters
from fakeserver.pipeline import MONGOS, Pipeline
from fakeserver.probing_clock import ProbingClock
from fakeserver.replication import Role
from fakeserver.shard_calls import PARAMETERS as OF_SHARDS
from fakeserver.shard_calls import Shards
from fakeserver.spec import Topology
from fakeserver.stages import mongod_stages, mongos_stages
from fakeserver.startup import (
    RATE_OF_REQUESTS,
    apply_fail_point,
    configure_fail_points,
    hold_if_stopped,
    warn_of_idle_rate,
)
from fakeserver.transaction_router import TransactionRouter
from fakeserver.upkeep import Profiler, WriteLock
from fakeserver.waiting import Bell
from mongowire.ids import ObjectIds, object_id

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from fakeserver.access.users import UserStore
    from fakeserver.catalog import Catalog
    from fakeserver.cluster import Cluster
    from fakeserver.commands.cursors import CursorStore
    from fakeserver.commands.table import CommandTable
    from fakeserver.events import Event
    from fakeserver.hello import MemberFacts
    from fakeserver.journal import Journal
    from fakeserver.lag import TimeOfMember
    from fakeserver.logs import ServerLog
    from fakeserver.oplog import ClusterTime, Oplog, OpTime
    from fakeserver.profile import Profile
    from fakeserver.replication import Member
    from fakeserver.request import RequestContext
    from fakeserver.sessions import Session, SessionCatalog
    from fakeserver.shard import Shard
    from fakeserver.transactions import Transactions
    from mongowire.ports import Clock, Listener, Rng

_LOGGER: Final = logging.getLogger(__name__)
_MAX_REQUEST_ID: Final = (1 << 31) - 1


class Node:
    """A server: its own parameters, fail points, counters and connections; the rest is the deployment's."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        *,
        commands: CommandTable,
        cursors: CursorStore,
        rng: Rng,
        log: ServerLog,
        is_mongos: bool = False,
    ) -> None:
        """Make a server that does not listen yet. Raises `CommandError` for a bad start-up parameter."""
        self.cluster = cluster
        self.name = name
        self.profile: Profile = cluster.profile
        self.clock: Clock = cluster.clock
        self.journal: Journal = cluster.journal
        self.oplog: Oplog = cluster.oplog
        self.cluster_time: ClusterTime | TimeOfMember = cluster.cluster_time
        self.sessions: SessionCatalog = cluster.sessions
        self.catalog: Catalog = cluster.catalog
        self.transactions: Transactions = cluster.transactions
        self.auth = cluster.spec.auth
        self.javascript = cluster.spec.javascript
        """Whether it runs scripts (mongod's security.javascriptEnabled)."""
        self.cursors = cursors
        self.rng = rng
        self.log = log
        self.ready = False
        self.stopped = False
        self.outages = Outages(self)
        """What happens to its process and to its network."""
        self.position = Position(self)
        """How far behind its set it is."""
        self.is_mongos = is_mongos
        self.shard: Shard | None = None
        """The replica set that it is a member of."""
        self.is_replicated = cluster.spec.topology is not Topology.STANDALONE
        """Whether what it writes is replicated, by its own set or those behind it: it knows cluster time."""
        self.is_replica_set_member = self.is_replicated and not is_mongos
        self.tells_topology_version = self.is_replica_set_member and self.profile.awaits_topology_changes
        self._known_commands = commands
        self.boot()
        if is_mongos:
            self.pipeline = Pipeline(mongos_stages(), MONGOS, on_bug=self._log_bug)
        else:
            self.pipeline = Pipeline(mongod_stages(), on_bug=self._log_bug)
        self.connections: dict[int, Connection] = {}
        self.member: Member
        self._news = Bell()
        self.last_operation_id = 0
        self.write_lock = WriteLock(self.pipeline)
        self.profiler = Profiler(self.pipeline, rng.spawn(f"{name}/profiler").random)
        self._listener: Listener | None = None

    def __repr__(self) -> str:
        return f"<Node {self.name}>"

    def boot(self) -> None:
        """Forget all that a process keeps to itself: a new one begins. Raises `CommandError`."""
        parameters = self.cluster.spec.parameters
        self.started_at = self.clock.now()
        self.counters = Counters()
        self.cursors.clear()
        self.last_request_id = 0
        self._next_connection_id = 0
        self.object_ids = ObjectIds(self.clock, self.rng)
        self.service_id = object_id(self.clock, self.rng) if self.is_mongos else None
        """What tells it apart behind a load balancer (`Load Balancers: serviceId`)."""
        self.transaction_router = TransactionRouter() if self.is_mongos else None
        self.shards = Shards(self) if self.is_mongos else None
        self.backoff_dice = self.rng.spawn(f"{self.name}/backoff")
        self.parameters = ServerParameters(self.profile, parameters, is_mongos=self.is_mongos)
        self.fail_points = FailPointRegistry(self.rng.spawn(f"{self.name}/failpoints"))
        self.admission = AdmissionControl(self.parameters, self.profile, cores=CORES, now=self.started_at)
        self.parameters.changed = self._parameters_changed
        self.cursors.timeout = self.parameters["cursorTimeoutMillis"] / 1000
        self.gate = Gate(self)
        self.flow_monitor = FlowMonitor(self)
        self.admission.replenish_flow = self.flow_monitor.catch_up
        self.admission.on_queued = ProbingClock(self).wake
        configure_fail_points(self, parameters)
        warn_of_idle_rate(self)
        self.commands = self._usable(self._known_commands)

    def _usable(self, commands: CommandTable) -> CommandTable:
        if self.parameters["enableTestCommands"]:
            return commands
        return commands.without_test_commands()

    # Admission control.

    def _parameters_changed(self, names: frozenset[str]) -> None:
        self.admission.reconfigure(names, self.clock.now())
        self.cursors.timeout = self.parameters["cursorTimeoutMillis"] / 1000
        if names & {ttl.SLEEP, ttl.ENABLED}:
            self.cluster.ttl.parameters_changed(self, names)
        if self.shards is not None and names & OF_SHARDS:
            self.shards.reconfigure()
        if names & RATE_OF_REQUESTS:
            warn_of_idle_rate(self)

    # Access control.

    @property
    def users(self) -> UserStore:
        """The users and roles of the deployment."""
        return self.cluster.users

    def bypasses(self, connection: ConnectionState) -> bool:
        """Whether the localhost exception holds: the first user may be made from this machine."""
        if len(self.users) or not self.parameters["enableLocalhostAuthBypass"]:
            return False
        return is_local(connection.peer)

    # Its place in the deployment.

    @property
    def address(self) -> str:
        """`host:port`, as the deployment's members advertise it."""
        return self.member.address

    @property
    def role(self) -> Role:
        return self.member.role

    @property
    def is_primary(self) -> bool:
        """Whether it takes writes; a standalone does."""
        return self.member.role is Role.PRIMARY

    @property
    def applied(self) -> OpTime:
        """The last operation that it has."""
        behind = self.position.applied
        return self.oplog.last if behind is None or self.is_primary else behind

    @property
    def writes_to(self) -> Shard | None:
        """The replica set that holds what it writes: its own, or the first behind a mongos."""
        shards = self.cluster.shards
        return self.shard or (shards[0] if shards else None)

    def topology_version(self) -> dict[str, Any]:
        """Return its `topologyVersion`."""
        return topology_version(self.member.process_id, self.member.counter)

    def member_facts(self) -> MemberFacts | None:
        """Return what its hello tells of the set, None where it is a member of none."""
        return None if self.shard is None else self.shard.facts_of(self)

    # Fail points.

    def configure_fail_point(self, name: str, *, mode: Any, data: Any) -> int:
        """Configure a fail point; return how often it was entered so far. Raises `CommandError`."""
        entered = self.fail_points.configure(name, mode=mode, data=data)
        apply_fail_point(self, name, data)
        return entered

    def target_of(self, request: RequestContext) -> Target:
        """Return what fail points' filters look at; what a mongos passes on to a shard is internal there."""
        connection, spec = request.connection, request.spec
        return Target(
            spec.names,
            _namespace(request),
            connection.app_name,
            connection.thread_name,
            connection.internal_client or request.node is not self,
        )

    def record_hit(self, name: str, request: RequestContext, effect: str) -> None:
        """Enter a fail point's hit in the journal."""
        self.record(FailPointHit(name, request.name, request.connection.id, effect))

    def before_transactional_write(self, request: RequestContext, session: Session) -> None:
        """Give `onPrimaryTransactionalWrite` its chance before a statement. Raises `CommandError`."""
        if not self.fail_points.active:
            return
        fault = self.fail_points.transactional_write()
        if fault is None:
            return
        self.record_hit(ON_PRIMARY_TRANSACTIONAL_WRITE, request, "close" if fault.close else "error")
        if fault.close:
            request.connection.hang_up = True
        if fault.code is not None:
            raise CommandError(
                fault.code,
                f"Failing write for {session}:{session.txn_number} due to failpoint. The write must not be"
                " reflected.",
            )

    # Connections.

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Begin to accept; return the address. Raises `OSError`."""
        network, refused = self.cluster.network, self.gate.refuse_for_want_of_files
        self._listener = await network.listen(host, port, self.protocols(), refused=refused)
        return self._listener.address

    def protocols(self, *, balanced: bool = False) -> Callable[[], asyncio.Protocol]:
        """Return what makes the protocol of a new connection, `balanced` where a load balancer hands it over.

        Raises `OSError` for files of TLS that cannot be used.
        """
        tls = self.cluster.spec.tls
        if tls is None or tls.mode == "disabled":
            return lambda: Connection(self, balanced=balanced)
        from fakeserver.tls import behind_door  # noqa: PLC0415 - most deployments speak no TLS

        return behind_door(lambda: Connection(self, balanced=balanced), tls, tls.context())

    @property
    def topology_changed(self) -> Bell:
        """What rings when its hello would tell something new."""
        return self._news if self.shard is None else self.shard.replica_set.changed

    def open(self) -> None:
        """Begin to answer, also those who connected already."""
        self.ready = True
        self.cluster.ttl.refresh()
        hold_if_stopped(self)
        for connection in list(self.connections.values()):
            connection.go_on()
        self.admission.on_queued()

    @property
    def refuses(self) -> bool:
        """Whether connections are reset as soon as they are made."""
        return self.stopped or self.outages.resets

    def announce(self) -> None:
        """Let its hello tell something new."""
        self.member.counter += 1
        self.topology_changed.ring()

    def halt(self) -> None:
        """Answer nobody any more, and close every connection."""
        self.ready, self.stopped = False, True
        for connection in list(self.connections.values()):
            connection.abort("the server stops")

    async def stop(self) -> None:
        """Stop accepting and close every connection."""
        self.halt()
        if self._listener is not None:
            await self._listener.aclose()

    # What can happen to it.

    async def kill(self) -> None:
        """End it at once, as SIGKILL does: connections are reset, and it listens no more.

        Returns when they are gone. Raises `ValueError` if it does not run.
        """
        await self.outages.kill()

    async def shut_down(self, *, quiesce: float = 0.0) -> None:
        """End it in order: a primary steps down, what waits is answered with 11600, connections are closed.

        Before that a secondary or a mongos spends `quiesce` seconds in quiesce mode, in which each hello is
        answered with 91. Raises `ValueError` if it does not run, or is paused.
        """
        await self.outages.shut_down(quiesce=quiesce)

    async def start(self) -> None:
        """Start it again, on its port: a new process, with its data and without cursors or fail points.

        Raises `ValueError` if it runs, `OSError` if its port was taken meanwhile.
        """
        await self.outages.start()

    def pause(self) -> None:
        """Stop it as SIGSTOP does: connections are accepted, bytes are taken, nothing is answered.

        Its set goes on without it. Raises `ValueError` if it does not run.
        """
        self.outages.pause()

    def resume(self) -> None:
        """Let it go on after `pause`, and answer what came meanwhile. Raises `ValueError` if not paused."""
        self.outages.resume()

    def slow(self, seconds: float) -> None:
        """Answer every request so many seconds later; 0 ends that."""
        self.outages.slow(seconds)

    def lag(self, seconds: float) -> None:
        """Apply what the primary writes so many seconds later, while it is a secondary; 0 catches up.

        Raises `ValueError` if it is no member of a set.
        """
        shard = self._set()
        self.position.lag(seconds)
        shard.settle()

    def hold(self) -> None:
        """Apply nothing that the primary writes until `release`, while it is a secondary.

        Raises `ValueError` if it is no member of a set.
        """
        self._set()
        self.position.hold("asked to")

    def release(self) -> None:
        """Go on after `hold`, and catch up."""
        self.position.release("asked to")
        self._set().settle()

    def freeze(self, seconds: float) -> None:
        """Seek no election for so many seconds, as `replSetFreeze`; 0 ends that. A primary stays one.

        Raises `ValueError` if it is no member of a set.
        """
        shard = self._set()
        self.member.frozen_until = self.clock.now() + seconds
        shard.settle()

    def _set(self) -> Shard:
        if self.shard is None:
            raise ValueError(f"{self.name} is no member of a replica set")
        return self.shard

    # Those who connect.

    def admit(self, connection: Connection, peer: str) -> ConnectionState:
        """Take note of a new connection and return its state."""
        self._next_connection_id += 1
        self.counters.connections += 1
        self.connections[self._next_connection_id] = connection
        state = ConnectionState(self._next_connection_id, peer, self.clock.now())
        attr = {"remote": peer, "connectionId": state.id, "connectionCount": len(self.connections)}
        self.log.write("NETWORK", 22943, "Connection accepted", context="listener", attr=attr)
        return state

    def forget(self, connection: Connection) -> None:
        """Take note of a connection's end."""
        state = connection.state
        self.connections.pop(state.id, None)
        attr = {"remote": state.peer, "connectionId": state.id, "connectionCount": len(self.connections)}
        self.log.write("NETWORK", 22944, "Connection ended", context=state.thread_name, attr=attr)
        self.cluster.connection_ended()

    def next_request_id(self) -> int:
        """Return the next id of a reply: one counter for all connections."""
        self.last_request_id = self.last_request_id % _MAX_REQUEST_ID + 1
        return self.last_request_id

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine that ends with the deployment at the latest."""
        return self.cluster.spawn(coroutine)

    # Records.

    def record(self, event: Event) -> None:
        """Enter an event in the journal."""
        self.journal.append(self.clock.now(), self.name, event)

    def log_protocol_error(self, connection: ConnectionState, message: str) -> None:
        """Log what a client sent and should not have."""
        attr = {"error": message, "remote": connection.peer, "connectionId": connection.id}
        context = connection.thread_name
        self.log.write("NETWORK", 22988, "Error receiving request from client", context=context, attr=attr)

    def _log_bug(self, request: RequestContext, bug: Exception) -> None:
        context = request.connection.thread_name
        attr = {"error": repr(bug), "command": request.name}
        self.log.write("COMMAND", 4622103, "Unexpected error", severity="E", context=context, attr=attr)
        _LOGGER.error("%s failed on %s", request.name or "a request", self.name, exc_info=bug)


def _namespace(request: RequestContext) -> str:
    """Return the `db.collection` that a command names, else its database."""
    command = request.command or {}
    if request.spec.kind in {"admin", "internal"}:
        return request.db
    target = (
        command.get("collection") if request.spec.name == "getMore" else next(iter(command.values()), None)
    )
    return f"{request.db}.{target}" if isinstance(target, str) else request.db

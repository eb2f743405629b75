"""One running server of a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.access.session import ConnectionState, is_local
from fakeserver.admission import controls
from fakeserver.deployment import ttl
from fakeserver.deployment.counters import Counters, LogTally
from fakeserver.deployment.doors import Door, Doors
from fakeserver.deployment.logs.log_lines import COUNTED, LOGGED, lines_of
from fakeserver.deployment.on_loop import on_loop
from fakeserver.deployment.outages import Outages
from fakeserver.deployment.records.events import FailPointSet, ParameterSet, ServerChanged
from fakeserver.deployment.replication.hello import topology_version
from fakeserver.deployment.replication.history import Owner, Point
from fakeserver.deployment.replication.position import Position
from fakeserver.deployment.replication.state import Role
from fakeserver.deployment.shard_clients import PARAMETERS as OF_SHARDS
from fakeserver.deployment.spec import Topology
from fakeserver.errors import CommandError
from fakeserver.settings.declaration import Parameter
from fakeserver.settings.failpoints import (
    FLOW_CONTROL_TICKET_OVERRIDE,
    FRACTIONAL_RATE_OVERRIDE,
    HANG_IN_RATE_LIMITER,
    STOP_REPL_PRODUCER,
)
from fakeserver.settings.server_parameters import FAIL_POINT_PREFIX
from fakeserver.waiting.bell import Bell
from mongowire.ids import ObjectIds, object_id

if TYPE_CHECKING:
    import asyncio
    import ssl
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping

    from fakeserver.access.users import UserStore
    from fakeserver.admission.controls import Warned
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.logs.server_log import ServerLog
    from fakeserver.deployment.parts import Parts
    from fakeserver.deployment.records.events import Event
    from fakeserver.deployment.records.journal import Journal
    from fakeserver.deployment.replication.hello import MemberFacts
    from fakeserver.deployment.replication.history import History
    from fakeserver.deployment.replication.state import Member
    from fakeserver.deployment.server import OpenConnection
    from fakeserver.deployment.shard import Shard
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.profile import Profile
    from fakeserver.storage.port.oplog import OpTime
    from mongowire.ports import Clock, Rng

_MAX_REQUEST_ID: Final = (1 << 31) - 1


class Node(Owner):
    """A server: its own parameters, fail points, counters and connections; the rest is the deployment's."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        parts: Parts,
        *,
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
        cluster.history.lend(self)
        self.auth = cluster.spec.auth
        self.javascript = cluster.spec.javascript
        """It runs scripts (mongod's `security.javascriptEnabled`)."""
        self._parts = parts
        self.cursors = parts.cursors
        self.pipeline = parts.pipeline
        self.write_lock = parts.write_lock
        self.profiler = parts.profiler
        self.slowness = parts.slowness
        self.rng = rng
        self.log = log
        self.tally = LogTally(self)
        self.ready = False
        self.stopped = False
        self.outages = Outages(self)
        """The state of its process and of its network."""
        self.position: Position = Position(self)
        """Its position in the oplog."""
        self.is_mongos = is_mongos
        self.shard: Shard | None = None
        """The replica set that it is a member of."""
        self.is_replicated = cluster.spec.topology is not Topology.SINGLE
        """Its writes are replicated, by its own set or the sets behind it: it has a cluster time."""
        self.is_replica_set_member = self.is_replicated and not is_mongos
        self.tells_topology_version = self.is_replica_set_member and self.profile.awaits_topology_changes
        self.boot()
        self.connections: dict[int, OpenConnection] = {}
        self.member: Member
        self._news = Bell()
        self.last_operation_id = 0
        self.doors = Doors(self)

    def __repr__(self) -> str:
        return f"<Node {self.name}>"

    def boot(self) -> None:
        """Begin a new process, without the state of the last one. Raises `CommandError`."""
        self.started_at = self.clock.now()
        self.counters = Counters()
        self.tls_contexts: list[ssl.SSLContext] = []
        """The contexts of its TLS sessions to come, one of each listener."""
        self.cursors.clear()
        self.last_request_id = 0
        self.compaction: Mapping[str, Any] | None = None
        """The settings of the compaction in the background, None while it is off (`autoCompact`)."""
        self._next_connection_id = 0
        self.object_ids = ObjectIds(self.clock, self.rng)
        self.service_id = object_id(self.clock, self.rng) if self.is_mongos else None
        """The id of the process behind a load balancer (`Load Balancers: serviceId`)."""
        self.backoff_rng = self.rng.spawn(f"{self.name}/backoff")
        process = self._parts.new_process(self)
        self.parameters = process.parameters
        self.parameters.changed = self._parameters_changed
        self.parameters.was_set = lambda *setting: self.record(ParameterSet(*setting))
        self.log.listen(self.parameters["logComponentVerbosity"])
        self.fail_points = process.fail_points
        self.fail_points.toggled = self.pipeline.recompile
        self.fail_points.was_set = lambda *setting: self.record(FailPointSet(*setting))
        self.admission = process.admission
        self.gate = process.gate
        self.flow_monitor = process.flow_monitor
        self.transaction_router = process.transaction_router
        self.shards = process.shards
        self.cursors.timeout = self.parameters["cursorTimeoutMillis"] / 1000
        self._configure_fail_points_of_start()
        self._warn(controls.at_start(self.parameters, self.profile))
        table = self._parts.commands
        if not self.parameters["enableTestCommands"]:
            table = table.without_test_commands()
        self.commands: Mapping[str, CommandSpec] = table.commands
        """Its commands, by name and alias."""
        self.pipeline.recompile()

    # Admission control.

    def _parameters_changed(self, names: frozenset[str]) -> None:
        self.pipeline.recompile()
        self.admission.reconfigure(names, self.clock.now())
        self.cursors.timeout = self.parameters["cursorTimeoutMillis"] / 1000
        self.log.listen(self.parameters["logComponentVerbosity"])
        if names & {ttl.SLEEP, ttl.ENABLED}:
            self.cluster.ttl.parameters_changed(self, names)
        if self.shards is not None and names & OF_SHARDS:
            self.shards.reconfigure()
        self._warn(controls.on_change(names, self.parameters, self.profile))

    def _warn(self, warned: Iterable[Warned]) -> None:
        for component, number, message, attr in warned:
            self.log.write(component, number, message, severity="W", context="initandlisten", attr=attr)

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

    # Its part in the deployment.

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

    def committed(self) -> Point:
        """Return what a majority has, as far as this member has come (`Read Concern: majority`)."""
        return Point(self.applied, self.catalog) if self.shard is None else self.shard.committed(self)

    @property
    def majority(self) -> OpTime:
        """The last operation that a majority has, of the history that it has come along itself."""
        return self.cluster.majority() if self.shard is None else self.shard.majority(self.history)

    def follow(self, history: History) -> None:
        """Go on in another history, which has all operations that this member has."""
        behind = self.catalog
        history.lend(self)
        if self.position.applied is not None:
            self.catalog = behind
        self.position.move()

    @property
    def writes_to(self) -> Shard | None:
        """The replica set that holds what it writes: its own, or the first behind a mongos."""
        shards = self.cluster.shards
        return self.shard or (shards[0] if shards else None)

    def topology_version(self) -> dict[str, Any]:
        """Return its `topologyVersion`."""
        return topology_version(self.member.process_id, self.member.counter)

    def member_facts(self) -> MemberFacts | None:
        """Return the facts of its hello about the set, None where it is a member of none."""
        return None if self.shard is None else self.shard.facts_of(self)

    # Fail points.

    def configure_fail_point(self, name: str, *, mode: Any, data: Any) -> int:
        """Configure a fail point; return how often it was entered so far. Raises `CommandError`."""
        entered = self.fail_points.configure(name, mode=mode, data=data)
        # Most fail points act only when a stage asks for them.
        on = self.fail_points.is_configured(name)
        if name == STOP_REPL_PRODUCER:
            self._hold_if_stopped()
        elif name == HANG_IN_RATE_LIMITER:
            for limiter in self.admission.limiters:
                limiter.hangs = on
        elif name == FRACTIONAL_RATE_OVERRIDE:
            self.admission.override_rate((data or {}).get("rate") if on else None, self.clock.now())
            self.pipeline.recompile()
        elif name == FLOW_CONTROL_TICKET_OVERRIDE:
            self.admission.override_flow((data or {}).get("numTickets") if on else None, self.clock.now())
        return entered

    def _configure_fail_points_of_start(self) -> None:
        """Configure the fail points among the start-up parameters, `failpoint.<name>` each.

        Raises `CommandError`, which names the parameter.
        """
        for name, value in self.cluster.spec.parameters.items():
            if not name.startswith(FAIL_POINT_PREFIX):
                continue
            setting = Parameter(name, "document", {}, at_runtime=False).parse(value, text=True)
            point = name.removeprefix(FAIL_POINT_PREFIX)
            try:
                self.configure_fail_point(point, mode=setting.get("mode"), data=setting.get("data"))
            except CommandError as error:
                raise CommandError(error.code, f"parameter {name}: {error.message}") from None

    def _hold_if_stopped(self) -> None:
        """Apply nothing while `stopReplProducer` is on, once the server is a member of a set."""
        if hasattr(self, "member"):
            stopped = self.fail_points.is_configured(STOP_REPL_PRODUCER)
            (self.position.hold if stopped else self.position.release)(STOP_REPL_PRODUCER)

    # Connections.

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Begin to accept; return the address. Raises `OSError`."""
        return await self.doors.open(host, port)

    def waiting(self) -> Iterator[tuple[OpenConnection, Any]]:
        """Iterate over the requests that wait, with their connections; unread messages are none."""
        for connection in list(self.connections.values()):
            if (request := connection.waiting) is not None and request.command is not None:
                yield connection, request

    def protocols(self, door: Door = Door.MAIN) -> Callable[[], asyncio.Protocol]:
        """Return the maker of the protocol of a connection. Raises `OSError` for unusable files of TLS."""
        return self._parts.protocols(self, door)

    @property
    def topology_changed(self) -> Bell:
        """The bell that rings when its hello has changed."""
        return self._news if self.shard is None else self.shard.replica_set.changed

    def open(self) -> None:
        """Begin to answer, also those who connected already."""
        self.ready = True
        self.cluster.ttl.refresh()
        self._hold_if_stopped()
        for connection in list(self.connections.values()):
            connection.go_on()
        self.admission.on_queued()

    @property
    def refuses(self) -> bool:
        """Whether connections are reset as soon as they are made."""
        return self.stopped or self.outages.resets

    def announce(self) -> None:
        """Change its hello: increment `topologyVersion`, and wake the hellos that await a change."""
        self.member.counter += 1
        self.topology_changed.ring()

    def halt(self) -> None:
        """Answer no request any more, and reset every connection."""
        self.ready, self.stopped = False, True
        for connection in list(self.connections.values()):
            connection.abort("the server stops")

    @on_loop
    async def stop(self) -> None:
        """Stop accepting, and reset every connection."""
        self.halt()
        self.tally.flush()
        await self.doors.close()

    # Outages, lag and freezes.

    @on_loop
    async def kill(self) -> None:
        """End it at once, as SIGKILL does: connections are reset, and nothing listens.

        Returns when they are gone. Raises `ValueError` if it does not run.
        """
        await self.outages.kill()

    @on_loop
    async def shut_down(self, *, quiesce: float = 0.0) -> None:
        """End it in order: a primary steps down, waiting requests get 11600, connections are closed.

        Before that a secondary or a mongos spends `quiesce` seconds in quiesce mode, in which each hello is
        answered with 91. Raises `ValueError` if it does not run, or is paused.
        """
        await self.outages.shut_down(quiesce=quiesce)

    @on_loop
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
        """Continue after `pause`, and answer what arrived meanwhile. Raises `ValueError` if not paused."""
        self.outages.resume()

    def slow(self, seconds: float) -> None:
        """Delay every request by `seconds`; 0 ends that."""
        self.outages.slow(seconds)

    def lag(self, seconds: float) -> None:
        """Apply the primary's writes `seconds` later, while it is a secondary; 0 catches up.

        Raises `ValueError` if it is no member of a set.
        """
        shard = self._set()
        self.position.lag(seconds)
        shard.settle()
        self.record(ServerChanged("lags" if seconds else "lags no more", f"{seconds:g} s" if seconds else ""))

    def hold(self) -> None:
        """Apply none of the primary's writes until `release`, while it is a secondary.

        Raises `ValueError` if it is no member of a set.
        """
        self._set()
        self.position.hold("asked to")

    def release(self) -> None:
        """Go on after `hold`, and catch up."""
        self.position.release("asked to")
        self._set().settle()

    def freeze(self, seconds: float) -> None:
        """Seek no election for `seconds`, as `replSetFreeze`; 0 ends that. A primary stays one.

        Raises `ValueError` if it is no member of a set.
        """
        shard = self._set()
        self.member.frozen_until = self.clock.now() + seconds
        self.record(ServerChanged("frozen" if seconds else "no longer frozen", f"for {seconds:g} s"))
        shard.settle()

    def _set(self) -> Shard:
        if self.shard is None:
            raise ValueError(f"{self.name} is no member of a replica set")
        return self.shard

    # Open connections.

    def admit(self, connection: OpenConnection, peer: str, door: Door = Door.MAIN) -> ConnectionState:
        """Enter a new connection, and return its state."""
        self._next_connection_id += 1
        self.counters.connections += 1
        self.connections[self._next_connection_id] = connection
        state = ConnectionState(self._next_connection_id, peer, self.clock.now())
        state.balanced, state.has_priority = door is Door.BALANCED, door is Door.PRIORITY
        attr = {"remote": peer, "connectionId": state.id, "connectionCount": len(self.connections)}
        attr |= {"isPriority": True} if state.has_priority else {}
        level = 0 if state.has_priority else 1
        self.log.write("NETWORK", 22943, "Connection accepted", context="listener", level=level, attr=attr)
        return state

    def forget(self, connection: OpenConnection) -> None:
        """Remove a connection that has ended."""
        state = connection.state
        self.connections.pop(state.id, None)
        attr = {"remote": state.peer, "connectionId": state.id, "connectionCount": len(self.connections)}
        self.log.write("NETWORK", 22944, "Connection ended", context=state.thread_name, level=1, attr=attr)
        self.cluster.connection_ended()

    def next_request_id(self) -> int:
        """Return the next request id of a reply: one counter for all connections, which wraps around."""
        self.last_request_id = self.last_request_id % _MAX_REQUEST_ID + 1
        return self.last_request_id

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine that ends with the deployment at the latest."""
        return self.cluster.spawn(coroutine)

    # Records.

    def record(self, event: Event) -> None:
        """Enter an event in the journal, and in the log where it belongs there."""
        self.journal.append(self.clock.now(), self.name, event)
        if isinstance(event, COUNTED):
            self.tally.add(event)
        elif type(event) in LOGGED:
            for line in lines_of(event):
                self.log.write(*line[:3], **line.about)

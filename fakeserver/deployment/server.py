"""A server as its parts see it: `Node` is the one, its gate, outages, position and monitors are the others.

Each part is made with the server that it belongs to. It knows this protocol and no more, so that a test can
give it a small one, and so that a part can be read without the rest of the deployment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from fakeserver.access.session import ConnectionState
    from fakeserver.admission.controls import AdmissionControl
    from fakeserver.deployment.counters import Counters
    from fakeserver.deployment.doors import Doors
    from fakeserver.deployment.logs.server_log import ServerLog
    from fakeserver.deployment.records.events import Event
    from fakeserver.deployment.replication.history import History
    from fakeserver.deployment.replication.state import Member, ReplicaSet, Role
    from fakeserver.deployment.spec import ClusterSpec
    from fakeserver.errors import CommandError
    from fakeserver.profile import Profile
    from fakeserver.settings.failpoints import FailPointRegistry
    from fakeserver.settings.server_parameters import ServerParameters
    from fakeserver.storage.port.oplog import Oplog, OpTime
    from fakeserver.storage.store.catalog import Catalog
    from fakeserver.waiting.bell import Bell
    from mongowire.ports import Clock, Rng


class OpenConnection(Protocol):
    """A connection of a client, as the server holds it."""

    state: ConnectionState

    @property
    def waiting(self) -> Any:
        """The `RequestContext` of the request that waits, None if none does."""

    def interrupt(self, request: Any, error: CommandError) -> None:
        """End a request with an error; one that waits no more is left alone."""

    def go_on(self) -> None:
        """Deal with what came while the server did not answer."""

    def close(self, reason: str) -> None:
        """Close the connection when what was written has been sent."""

    def abort(self, reason: str) -> None:
        """Close the connection at once."""


class SlownessPart(Protocol):
    """The delay of every request."""

    delay: float
    """Seconds; 0 delays none."""
    jitter: float
    """Seconds by which a delay is shorter or longer at most."""

    def hold(self, delay: float, jitter: float, draw: Callable[[], float]) -> None:
        """Delay requests by `delay` seconds, up to `jitter` less or more as drawn; 0 ends that."""


class OwnSet(Protocol):
    """The replica set of a server."""

    replica_set: ReplicaSet

    @property
    def nodes(self) -> Sequence[object]:
        """The servers that are members now."""

    def majority(self, history: History | None = None) -> OpTime:
        """Return the last operation of a history that a majority of the members with a vote has."""

    def step_down(self, *, seconds: float) -> object:
        """Make the primary a secondary that seeks no election for `seconds`."""

    def settle(self) -> None:
        """Update primary and positions after a member or the network has changed."""


class Deployment(Protocol):
    """The deployment, as far as the parts of a server know it."""

    spec: ClusterSpec
    replication: Bell

    @property
    def shards(self) -> Sequence[Named]:
        """The replica sets, by name."""

    def catch_up(self) -> None:
        """Have flow control look at the set as it is, before that changes."""

    async def drained(self, nodes: Sequence[Any]) -> None:
        """Return when no connection to these servers is left."""


class Named(Protocol):
    """Something that has a name."""

    @property
    def name(self) -> str:
        """The name."""


class Server(Protocol):
    """A server, as far as its parts know it."""

    name: str
    is_mongos: bool
    clock: Clock
    rng: Rng
    log: ServerLog
    oplog: Oplog
    catalog: Catalog
    cluster_time: Any
    """The deployment's cluster time, or that of a member that is behind."""
    history: History
    """The history whose operations it has."""
    started_at: float
    ready: bool
    """It answers requests."""
    stopped: bool
    member: Member
    counters: Counters
    parameters: ServerParameters
    fail_points: FailPointRegistry
    admission: AdmissionControl
    slowness: SlownessPart
    doors: Doors
    profile: Profile

    @property
    def cluster(self) -> Deployment: ...

    @property
    def shard(self) -> OwnSet | None: ...

    @property
    def connections(self) -> Mapping[int, OpenConnection]: ...

    @property
    def address(self) -> str: ...

    @property
    def role(self) -> Role: ...

    @property
    def is_primary(self) -> bool: ...

    def boot(self) -> None: ...

    async def listen(self, host: str, port: int) -> tuple[str, int]: ...

    def open(self) -> None: ...

    def announce(self) -> None: ...

    def halt(self) -> None: ...

    async def stop(self) -> None: ...

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...

    def record(self, event: Event) -> None: ...

"""The reference driver's pool by itself: no client is around it, and nothing monitors its server.

Cases of the format `cmap` drive it. What a client would do for its pool is done here: the handshake has the
client's credentials and TLS, and an error in it clears the pool where discovery would. Connection options are
those of the `uri`; options of the pool are read from the case, and times become seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from driver.auth import Authenticator
from driver.cmap.connection import RequestIds
from driver.cmap.handshake import Handshake
from driver.cmap.metadata import Metadata
from driver.cmap.pool import Pool, PoolPorts
from driver.cmap.state import PoolOptions
from driver.options import ClientOptions
from driver.sdam.description import ServerDescription
from driver.sdam.error_handling import reaction
from harness.adapters.base import Event, UnsupportedOperation
from harness.adapters.reference.results import event_of
from mongowire.system import TcpNetwork
from mongowire.tls import TlsNetwork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from driver.cmap.connection import Connection
    from driver.editions import Edition
    from driver.errors import DriverError
    from driver.events import DriverEvent
    from harness.adapters.base import Handle, PoolSpec
    from harness.adapters.deployment import Deployment
    from mongowire.ports import Clock

NO_SWITCH: Final = "the background runs of the reference driver's pool cannot be switched off"

_OPTIONS: Final[Mapping[str, tuple[str, float]]] = {
    "maxPoolSize": ("max_size", 1),
    "minPoolSize": ("min_size", 1),
    "maxConnecting": ("max_connecting", 1),
    "maxIdleTimeMS": ("max_idle", 0.001),
    "waitQueueTimeoutMS": ("wait_queue_timeout", 0.001),
}


def pool_options(named: Mapping[str, Any]) -> PoolOptions:
    """Return the options of a pool by their URI names; what is no option of a pool does not count."""
    known = {name: value for name, value in named.items() if name in _OPTIONS}
    return PoolOptions(**{_OPTIONS[name][0]: value * _OPTIONS[name][1] for name, value in known.items()})


@dataclass(slots=True)
class PoolHandle:
    """A pool, and what it published."""

    pool: Pool
    events: list[Event] = field(default_factory=list)


def create_pool(spec: PoolSpec, deployment: Deployment, edition: Edition) -> PoolHandle:
    """Return a new pool. Raises UnsupportedOperation where it is to have no background runs."""
    if spec.background_seconds is not None and spec.background_seconds < 0:
        raise UnsupportedOperation(NO_SWITCH)
    options, _ = ClientOptions.of_uri(spec.uri)
    events: list[Event] = []
    clock: Clock = deployment.clock

    def publish(event: DriverEvent) -> None:
        events.append(event_of(event, clock.now()))

    def on_error(address: str, error: DriverError, _generation: int) -> None:
        """Do to the pool what discovery does after a failed handshake (`SDAM: Error Handling`)."""
        if reaction(error, ServerDescription(address)).clear_pool:
            pool.clear(error)

    network = deployment.network or TcpNetwork()
    credential = options.credential
    handshake = Handshake(
        network if options.tls is None else TlsNetwork(network, options.tls.context()),
        deployment.clock,
        edition,
        RequestIds(),
        Metadata(options.app_name),
        authenticator=None if credential is None else Authenticator(credential, deployment.rng),
    )
    ports = PoolPorts(clock, handshake, publish, on_error)
    pool = Pool(options.seeds[0], pool_options(spec.options), ports)
    return PoolHandle(pool, events)


async def _ready(pool: Pool, _arguments: Mapping[str, Any]) -> None:
    pool.ready()


async def _clear(pool: Pool, arguments: Mapping[str, Any]) -> None:
    pool.clear(interrupt_in_use=bool(arguments.get("interruptInUseConnections")))


async def _close(pool: Pool, _arguments: Mapping[str, Any]) -> None:
    pool.close()


async def _check_out(pool: Pool, _arguments: Mapping[str, Any]) -> Connection:
    return await pool.check_out()


async def _check_in(pool: Pool, arguments: Mapping[str, Handle]) -> None:
    pool.check_in(arguments["connection"])


POOL: Final[Mapping[str, Callable[[Pool, Mapping[str, Any]], Awaitable[Any]]]] = {
    "ready": _ready,
    "clear": _clear,
    "close": _close,
    "checkOut": _check_out,
    "checkIn": _check_in,
}
"""The operations on a pool."""

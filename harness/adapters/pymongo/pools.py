"""PyMongo's pool by itself, made as PyMongo's own suite for this format makes it.

A client that nothing monitors is told that its server is there; its pool is then driven by the pool's own
methods, and the client does to it what a failed handshake costs. None of this has a public name.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pymongo import common
from pymongo.hello import Hello
from pymongo.server_description import ServerDescription
from pymongo.topology_description import updated_topology_description

from harness.adapters.pymongo.arguments import settled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping

    from harness.adapters.base import Event

_HELLO: Final = {"ok": 1, "isWritablePrimary": True, "minWireVersion": 0, "maxWireVersion": 21}
"""A server, as a monitor would have found it: nothing of it is asked but that it can be used."""

_BACKGROUND_SECONDS: Final = 0.05
"""The time between background runs where a case does not say, as in PyMongo's own suite."""

# Seconds, some thirty years: PyMongo has no switch for its background.
_NEVER: Final = 1e9


@dataclass(slots=True)
class PyMongoPoolHandle:
    """A pool with the client that it is of, what it published, and the connections that are checked out."""

    client: Any
    pool: Any
    server: Any
    checkout_type: Any
    events: list[Event]
    lent: list[Any] = field(default_factory=list)


class NoMonitor:
    """Stands where a client has the monitor of a server, and never looks at it."""

    def __init__(self, **_parts: Any) -> None:
        """Take whatever a monitor takes."""

    def cancel_check(self) -> None:
        """Do nothing."""

    def open(self) -> None:
        """Do nothing."""

    def request_check(self) -> None:
        """Do nothing."""


class NoMonitorSync(NoMonitor):
    """For the blocking API."""

    def close(self) -> None:
        """Do nothing."""

    def join(self) -> None:
        """Do nothing."""


class NoMonitorAsync(NoMonitor):
    """For the asynchronous API."""

    async def close(self) -> None:
        """Do nothing."""

    async def join(self) -> None:
        """Do nothing."""


@contextmanager
def background(seconds: float | None) -> Iterator[None]:
    """Have clients made here run their background that often; a negative number is never."""
    seconds = _BACKGROUND_SECONDS if seconds is None else seconds
    # PyMongo has no option for either: a client's background keeps what it finds when it is made.
    usual = {name: getattr(common, name) for name in ("KILL_CURSOR_FREQUENCY", "MIN_HEARTBEAT_INTERVAL")}
    common.KILL_CURSOR_FREQUENCY = seconds if seconds >= 0 else _NEVER  # type: ignore[assignment]
    common.MIN_HEARTBEAT_INTERVAL = min(_BACKGROUND_SECONDS, max(0.001, seconds))
    try:
        yield
    finally:
        for name, value in usual.items():
            setattr(common, name, value)


async def opened(client: Any, *, in_background: bool) -> Any:
    """Return the server of a new client, which is told that it is there; its pool stays paused."""
    topology = client._topology  # noqa: SLF001
    address = _tell(topology)
    await settled(client._get_topology() if in_background else topology.open())  # noqa: SLF001
    return topology._servers[address]  # noqa: SLF001


def _tell(topology: Any) -> Any:
    """Tell a topology that its one server is there, and return its address.

    By a change that a monitor reports the pool would be made ready, which is for the case to do.
    """
    (address,) = topology.description.server_descriptions()
    known = ServerDescription(address, Hello(dict(_HELLO)))
    topology._description = updated_topology_description(topology.description, known)  # noqa: SLF001
    return address


async def _check_out(handle: PyMongoPoolHandle, _arguments: Mapping[str, Any]) -> Any:
    checkout = handle.checkout_type(handle.client, handle.server, None)
    enter = getattr(checkout, "__aenter__", None) or checkout.__enter__
    connection = await settled(enter())
    handle.lent.append(connection)
    return connection


async def _check_in(handle: PyMongoPoolHandle, arguments: Mapping[str, Any]) -> None:
    connection = arguments["connection"]
    handle.lent.remove(connection)
    await settled(handle.pool.checkin(connection))


async def _clear(handle: PyMongoPoolHandle, arguments: Mapping[str, Any]) -> None:
    interrupt = bool(arguments.get("interruptInUseConnections"))
    await settled(handle.pool.reset(interrupt_connections=interrupt))


async def _ready(handle: PyMongoPoolHandle, _arguments: Mapping[str, Any]) -> None:
    _tell(handle.client._topology)  # noqa: SLF001 - an error may have made the server Unknown
    await settled(handle.pool.ready())


async def _close(handle: PyMongoPoolHandle, _arguments: Mapping[str, Any]) -> None:
    await settled(handle.pool.close())


POOL: Final[Mapping[str, Callable[[PyMongoPoolHandle, Mapping[str, Any]], Awaitable[Any]]]] = {
    "ready": _ready,
    "clear": _clear,
    "close": _close,
    "checkOut": _check_out,
    "checkIn": _check_in,
}
"""The operations on a pool."""


async def closed(handle: PyMongoPoolHandle) -> None:
    """Close the client, and the connections that its pool has lent and waits for."""
    for context in tuple(handle.pool.active_contexts):
        context.cancel()
    await settled(handle.client.close())
    for connection in handle.lent:
        await settled(connection.close_conn(None))
    handle.lent.clear()

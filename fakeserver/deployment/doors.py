"""The ports of one server: the main one, and those beside it by which who comes is treated differently."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from fakeserver.deployment.spec import join_address

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from fakeserver.deployment.logs.server_log import ServerLog
    from fakeserver.deployment.spec import ClusterSpec
    from mongowire.ports import Listener, Network


class Door(StrEnum):
    """The way by which a connection comes to a server."""

    MAIN = "main"
    BALANCED = "balanced"
    """A load balancer hands it over."""
    PRIORITY = "priority"
    """The port for operators: no limit of connections or requests applies there."""
    PROXY = "proxy"
    """The port on which each connection begins with a header of the PROXY protocol."""


def sides_of(spec: ClusterSpec, number: int) -> dict[Door, int]:
    """Return the ports beside the main one of the server of that number."""
    ports = {Door.PRIORITY: spec.priority_ports, Door.PROXY: spec.proxy_ports}
    return {door: each[number] for door, each in ports.items() if each}


class Surroundings(Protocol):
    """The deployment of a server, as far as its ports know it."""

    network: Network
    spec: ClusterSpec


class Porter(Protocol):
    """Who takes note of connections that could not be accepted."""

    def refuse_for_want_of_files(self) -> None:
        """Take note of a connection for which there was no file descriptor."""


class Building(Protocol):
    """A server, as far as its ports know it."""

    gate: Porter
    log: ServerLog

    @property
    def cluster(self) -> Surroundings: ...

    def protocols(self, door: Door = Door.MAIN) -> Callable[[], asyncio.Protocol]:
        """Return the maker of the protocol of a connection."""


class Doors:
    """The listeners of one server. `sides` are the ports beside the main one, 0 for a free one."""

    def __init__(self, server: Building) -> None:
        self.sides: dict[Door, int] = {}
        self.addresses: dict[Door, str] = {}
        """Where it listens, or has listened."""
        self._server = server
        self._listeners: list[Listener] = []

    def __repr__(self) -> str:
        return f"<Doors {', '.join(f'{door} {address}' for door, address in self.addresses.items())}>"

    async def open(self, host: str, port: int) -> tuple[str, int]:
        """Listen on all ports, and return the main address. Raises `OSError`."""
        main = await self._open(Door.MAIN, host, port)
        for door, side in self.sides.items():
            self.sides[door] = (await self._open(door, host, side))[1]
        return main

    async def _open(self, door: Door, host: str, port: int) -> tuple[str, int]:
        server = self._server
        cluster, refused = server.cluster, server.gate.refuse_for_want_of_files
        listener = await cluster.network.listen(host, port, server.protocols(door), refused=refused)
        self._listeners.append(listener)
        self.addresses[door] = join_address(cluster.spec.host, listener.address[1])
        log, tls, shown = server.log, cluster.spec.tls, {"address": cluster.spec.host}
        attr = {"port": listener.address[1], "ssl": "off" if tls is None or tls.mode == "disabled" else "on"}
        log.write("NETWORK", 23015, "Listening on", context="listener", attr=shown)
        log.write("NETWORK", 23016, "Waiting for connections", context="listener", attr=attr)
        return listener.address

    async def close(self) -> None:
        """Stop accepting."""
        while self._listeners:
            await self._listeners.pop().aclose()


# The form of a door that listens: its address, and its end.


class Served(Protocol):
    """The HTTP door of a running deployment. It ends with the deployment at the latest."""

    @property
    def url(self) -> str:
        """Its address: `http://127.0.0.1:8889`."""

    @property
    def token(self) -> str:
        """The token that every request must have (`Authorization: Bearer …`)."""

    @property
    def page(self) -> str:
        """The address of the page with the token: whoever opens it controls the deployment."""

    def aclose(self) -> Awaitable[None]:
        """Stop listening, and return when every connection has ended."""

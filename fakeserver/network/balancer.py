"""A TCP load balancer: hands each connection to one of the servers behind it, in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from fakeserver.deployment.doors import Door
from fakeserver.deployment.spec import join_address

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from fakeserver.deployment.spec import ClusterSpec
    from mongowire.ports import Listener, Network


class Router(Protocol):
    """A mongos behind the balancer."""

    stopped: bool

    def protocols(self, door: Door = Door.MAIN) -> Callable[[], asyncio.Protocol]:
        """Return the maker of the protocol of a connection that comes by a door."""


class LoadBalancer:
    """A port in front of mongos (`Load Balancers`). It knows connections, and nothing of what they carry.

    TLS, where the deployment speaks it, is between the client and the mongos.
    """

    def __init__(self, spec: ClusterSpec, network: Network, routers: Sequence[Router]) -> None:
        self.routers = tuple(routers)
        self.address = ""
        self._spec = spec
        self._network = network
        self._next = 0
        self._makers: tuple[Callable[[], asyncio.Protocol], ...] = ()
        self._listener: Listener | None = None

    def __repr__(self) -> str:
        return f"<LoadBalancer of {len(self.routers)} at {self.address}>"

    async def listen(self, port: int) -> None:
        """Begin to accept. Raises `OSError`."""
        spec = self._spec
        self._makers = tuple(router.protocols(Door.BALANCED) for router in self.routers)
        self._listener = await self._network.listen(spec.bind_ip or spec.host, port, self._accept)
        self.address = join_address(spec.host, self._listener.address[1])

    async def stop(self) -> None:
        """Stop accepting; connections that were handed over stay."""
        if self._listener is not None:
            await self._listener.aclose()

    def _accept(self) -> asyncio.Protocol:
        """Hand a connection to the next mongos that runs; where none does, to one that refuses it."""
        for _ in self.routers:
            chosen = self._next % len(self.routers)
            self._next += 1
            if not self.routers[chosen].stopped:
                break
        return self._makers[chosen]()

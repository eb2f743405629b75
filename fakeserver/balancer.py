"""A load balancer as TCP has them: whoever connects is handed to one of the servers behind it, in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from fakeserver.cluster import Cluster
    from fakeserver.node import Node
    from mongowire.ports import Listener


class LoadBalancer:
    """A port in front of mongos (`Load Balancers`). It knows connections, and nothing of what they carry.

    TLS, where the deployment speaks it, is between the client and the mongos.
    """

    def __init__(self, cluster: Cluster, routers: Sequence[Node]) -> None:
        self.routers = tuple(routers)
        self.address = ""
        self._cluster = cluster
        self._next = 0
        self._makers: tuple[Callable[[], asyncio.Protocol], ...] = ()
        self._listener: Listener | None = None

    def __repr__(self) -> str:
        return f"<LoadBalancer of {len(self.routers)} at {self.address}>"

    async def listen(self, port: int) -> None:
        """Begin to accept. Raises `OSError`."""
        from fakeserver.cluster import join_address  # noqa: PLC0415 - which imports this module

        spec = self._cluster.spec
        network = self._cluster.network
        self._makers = tuple(router.protocols(balanced=True) for router in self.routers)
        self._listener = await network.listen(spec.bind_ip or spec.host, port, self._accept)
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

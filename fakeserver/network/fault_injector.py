"""The faults of bytes of a deployment: the registry that decides, and the layers that perform."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.errors import CommandError
from fakeserver.network.fault_accept import FirstLayer
from fakeserver.network.fault_layer import FaultTransport
from fakeserver.network.fault_messages import MessageLayer
from fakeserver.network.proxy_test import parse_proxy_test
from fakeserver.network.transport import TransportAbove
from mongowire.codes import ErrorCode
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fakeserver.network.fault_layer import Layer
    from fakeserver.network.fault_registry import FaultRegistry
    from fakeserver.network.faults import Fault


class FaultInjector:
    """The faults of bytes of a deployment. A connection has layers only where there is something to do.

    `registry` is where faults are listed and removed; `add` is here, since it concerns open connections.
    """

    def __init__(self, registry: FaultRegistry) -> None:
        self.registry = registry

    def guarded(
        self, make: Callable[[], Any], behind_tls: Callable[[Any], asyncio.Protocol] | None = None
    ) -> Callable[[], asyncio.Protocol]:
        """Return the maker of the protocol of a connection; `behind_tls` makes the layer of TLS before it."""
        secure = behind_tls is not None

        def accept() -> asyncio.Protocol:
            connection = make()
            protocol: asyncio.Protocol = connection if behind_tls is None else behind_tls(connection)
            if not self.registry.active:
                return protocol
            return FirstLayer(protocol, connection, self.registry, self.attach, secure=secure)

        return accept

    def add(self, fault: Mapping[str, Any], cluster: Any) -> Fault:
        """Add a fault to a deployment, for its open connections too. Raises `ControlError`."""
        nodes = _names(cluster, fault.get("node"))
        commands = {name for node in cluster.servers for name in node.commands}
        added = self.registry.add(fault, now=cluster.clock.now(), nodes=nodes, commands=commands)
        self._attach_all(cluster)
        return added

    def restore(self, faults: Sequence[Fault], cluster: Any) -> None:
        """Have these faults and no others, as if they were added just now."""
        self.registry.restore(faults, cluster.clock.now())
        for connection in _connections(cluster):
            for layer in _layers(connection.transport):
                layer.mend()
        if faults:
            self._attach_all(cluster)

    def _attach_all(self, cluster: Any) -> None:
        for connection in _connections(cluster):
            self.attach(connection)

    def attach(self, connection: Any) -> MessageLayer:
        """Put the layer of messages in front of an open connection, unless it has it; return the layer."""
        transport = connection.transport
        if isinstance(transport, FaultTransport) and isinstance(transport.layer, MessageLayer):
            return transport.layer
        layer = MessageLayer(connection, connection, self.registry, passed=connection.wire.pending)
        layer.attach()
        return layer

    def follow(self, script: Any, connection: Any, request_id: int) -> None:
        """Send the reply to a request as its field `proxyTest` says. Raises `CommandError` (BadValue)."""
        try:
            way = parse_proxy_test(script)
        except ControlError as error:
            raise CommandError(ErrorCode.BAD_VALUE, str(error)) from None
        if connection is not None:
            self.attach(connection).script(request_id, way)


def _names(cluster: Any, given: Any) -> set[str]:
    """Return the words that a fault may have for a server: its name, role or address."""
    names = {node.name for node in cluster.servers} | {"primary"}
    names |= {node.address for node in cluster.servers if node.address == given}
    return names | ({"secondary"} if cluster.shards else set()) | ({"mongos"} if cluster.routers else set())


def _connections(cluster: Any) -> list[Any]:
    """Return the open connections of a deployment, in the order of its servers."""
    return [connection for node in cluster.servers for connection in list(node.connections.values())]


def _layers(transport: Any) -> Iterator[Layer]:
    """Return the layers in front of a connection, from its transport on."""
    while isinstance(transport, TransportAbove):
        if isinstance(transport, FaultTransport):
            yield transport.layer
        transport = transport.below

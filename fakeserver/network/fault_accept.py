"""The layer of faults that knows bytes alone: the phases accept and tlsHello."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.network.fault_layer import FaultTransport, Layer
from fakeserver.network.faults import FaultPhase
from mongowire.tls import TELLING_BYTES, is_client_hello

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from fakeserver.network.fault_layer import Connected
    from fakeserver.network.fault_registry import FaultRegistry, Hit

_OWN_PHASES: Final = frozenset({FaultPhase.ACCEPT, FaultPhase.TLS_HELLO})


class FirstLayer(Layer):
    """The layer of a connection that was accepted while there are faults: bytes alone, accept and tlsHello.

    Effects of these phases on what is sent last as long as the connection. Without a fault of these phases
    it steps aside as soon as the connection is made.
    """

    def __init__(
        self,
        behind: asyncio.Protocol,
        connection: Connected,
        registry: FaultRegistry,
        made: Callable[[Any], object],
        *,
        secure: bool,
    ) -> None:
        """`made` is called with the connection once it is there; `secure`: it may begin with TLS."""
        super().__init__(behind, connection, registry)
        self._made = made
        self._arrived = b""
        self._hello_awaited = secure

    def connection_made(self, transport: Any) -> None:
        if not self._registry.phases & _OWN_PHASES:
            transport.set_protocol(self.behind)
            self.behind.connection_made(transport)
            self._made(self.connection)
            return
        self._below = transport
        super().connection_made(FaultTransport(transport, self))
        self._made(self.connection)
        self._meet(self._fires(FaultPhase.ACCEPT))

    def _meet(self, hits: Sequence[Hit]) -> None:
        for hit in hits:
            effects = hit.effects
            self._pace = self._pace.with_effects(effects)
            if effects.cut:
                self._left = effects.cut
            if effects.garbage is not None:
                self._enqueue(self._pace.steps(self._registry.random_bytes(effects.garbage)))
        self._act(hits)

    def _receive(self, data: bytes) -> None:
        self._arrived += data

    def _advance(self) -> None:
        if self._hello_awaited and self._arrived:
            if len(self._arrived) < TELLING_BYTES:
                return
            self._hello_awaited = False
            if is_client_hello(self._arrived):
                self._meet(self._fires(FaultPhase.TLS_HELLO))
                if self._is_stopped():
                    return
        data, self._arrived = self._arrived, b""
        if data:
            self.behind.data_received(data)

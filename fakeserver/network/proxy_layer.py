"""The port for load balancers: each connection begins with a header that names the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fakeserver.network.transport import ProtocolAbove, TransportAbove
from mongowire.proxy_header import ProxyHeaderError, read_header

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class ProxyLayer(ProtocolAbove):
    """Reads the header, and begins the connection behind it as the client that the header names.

    Who sends none is cut off, after `refused` has heard why: limits and exemptions would otherwise see the
    balancer's address.
    """

    def __init__(self, behind: asyncio.Protocol, refused: Callable[[str, str], None]) -> None:
        super().__init__(behind)
        self._refused = refused
        self._first: bytes | None = b""
        """What came of the header, None behind it."""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._first is None:
            self.behind.data_received(data)
            return
        self._first += data
        try:
            header = read_header(self._first)
        except ProxyHeaderError as error:
            peer = self.transport.get_extra_info("peername")
            self._refused(f"{peer[0]}:{peer[1]}" if peer else "anonymous", str(error))
            self.transport.abort()
            return
        if header is None:
            return
        rest, self._first = self._first[header.size :], None
        self.behind.connection_made(_Proxied(self.transport, self, header.source))
        if rest and not self.transport.is_closing():
            self.behind.data_received(rest)

    def eof_received(self) -> bool | None:
        return self.behind.eof_received() if self._first is None else None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._first is None:
            self.behind.connection_lost(exc)


class _Proxied(TransportAbove):
    """The transport of a connection whose peer is the client, and not the balancer."""

    def __init__(
        self, below: asyncio.Transport, above: ProtocolAbove, source: tuple[str, int] | None
    ) -> None:
        super().__init__(below, above)
        self._source = source

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername" and self._source is not None:
            return self._source
        return super().get_extra_info(name, default)

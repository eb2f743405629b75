"""The port for load balancers: each connection begins with a header that names the client."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from fakeserver.network.transport import ProtocolAbove, TransportAbove

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


# The header of the PROXY protocol, by which a load balancer tells a server who the client is.
#
# Version 1 is a line of text, version 2 is binary; both come once, ahead of all else.


_TEXT: Final = b"PROXY "
_BINARY: Final = b"\r\n\r\n\0\r\nQUIT\n"
_LONGEST_LINE: Final = 107
_FIXED: Final = 16
"""The bytes of a binary header ahead of its addresses."""
_MOST: Final = 536
"""The bytes of addresses and extensions that are taken."""
_SIZES: Final = {1: (socket.AF_INET, 4), 2: (socket.AF_INET6, 16)}
"""The families of binary addresses, and the bytes of an address."""
_LINE_PARTS: Final = 6


class ProxyHeaderError(ValueError):
    """Raised for bytes that begin no header."""


class ProxyHeader(NamedTuple):
    """A header: the client's address, None where the balancer speaks for itself, and its own length."""

    source: tuple[str, int] | None
    size: int


def read_header(data: bytes) -> ProxyHeader | None:
    """Return the header that `data` begins with, None while it is not complete.

    Raises `ProxyHeaderError`.
    """
    if data.startswith(_BINARY[: len(data)]):
        return _binary(data) if len(data) >= _FIXED else None
    if data.startswith(_TEXT[: len(data)]):
        return _text(data)
    raise ProxyHeaderError("Initial bytes of the connection are no PROXY header")


def _text(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\r\n", 0, _LONGEST_LINE)
    if end < 0:
        if len(data) >= _LONGEST_LINE:
            raise ProxyHeaderError("PROXY header is too long")
        return None
    parts = data[:end].decode("latin-1").split(" ")
    if parts[1:2] == ["UNKNOWN"]:
        return ProxyHeader(None, end + 2)
    family = {"TCP4": socket.AF_INET, "TCP6": socket.AF_INET6}.get(parts[1])
    if family is None or len(parts) != _LINE_PARTS or not parts[4].isdecimal() or int(parts[4]) >= 1 << 16:
        raise ProxyHeaderError(f"PROXY header {data[:end]!r} is malformed")
    try:
        socket.inet_pton(family, parts[2])
    except OSError:
        raise ProxyHeaderError(f"PROXY header {data[:end]!r} is malformed") from None
    return ProxyHeader((parts[2], int(parts[4])), end + 2)


def _binary(data: bytes) -> ProxyHeader | None:
    version, command, family = data[12] >> 4, data[12] & 0xF, data[13] >> 4
    length = int.from_bytes(data[14:_FIXED], "big")
    if version != 2 or command > 1 or length > _MOST:  # noqa: PLR2004 - the version that it is
        raise ProxyHeaderError("PROXY header is malformed")
    if len(data) < _FIXED + length:
        return None
    known = _SIZES.get(family)
    if not command or known is None:
        return ProxyHeader(None, _FIXED + length)
    kind, size = known
    if length < 2 * size + 4:
        raise ProxyHeaderError("PROXY header is malformed")
    host = socket.inet_ntop(kind, data[_FIXED : _FIXED + size])
    at = _FIXED + 2 * size
    return ProxyHeader((host, int.from_bytes(data[at : at + 2], "big")), _FIXED + length)

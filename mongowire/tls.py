"""TLS without sockets: bytes in, bytes out, over any stream or transport, in real and in virtual time."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from mongowire.ports import Listener, Network, Stream

HANDSHAKE_RECORD: Final = 0x16
"""The first byte of what a TLS client says first."""
_MAJOR_VERSION: Final = 3
TELLING_BYTES: Final = 3
"""The bytes that show whether a client speaks TLS."""

_READ_BYTES: Final = 1 << 16


def is_client_hello(data: bytes) -> bool:
    """Return whether the first `TELLING_BYTES` of a connection begin a TLS handshake.

    Read as the length of a message they would mean more than 65,000 bytes, which no first message has.
    """
    return data[0] == HANDSHAKE_RECORD and data[1] == _MAJOR_VERSION and data[2] > 0


class TlsSession:
    """One side of a TLS connection.

    Whoever moves the bytes calls `receive` with what arrived, and sends `pending()` after each call. Every
    method may raise `ssl.SSLError`, after which `pending()` holds the alert for the peer.
    """

    def __init__(
        self, context: ssl.SSLContext, *, server_side: bool = False, hostname: str | None = None
    ) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=hostname
        )
        self.established = False
        self.ended = False

    def begin(self) -> None:
        """Write the first flight, as the client does."""
        self._shake_hands()

    def receive(self, data: bytes) -> bytes:
        """Take bytes of the peer, none at its end, and return what they say."""
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        if not self.established and not self._shake_hands():
            return b""
        parts: list[bytes] = []
        try:
            while part := self._object.read(_READ_BYTES):
                parts.append(part)
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            self.ended = True
        return b"".join(parts)

    def send(self, data: bytes) -> None:
        """Encrypt. The handshake must be over."""
        self._object.write(data)

    def close(self) -> None:
        """Say goodbye (close_notify), where there is anybody to say it to."""
        if self.established:
            try:
                self._object.unwrap()
            except ssl.SSLError:
                self.ended = True

    def pending(self) -> bytes:
        """Return the bytes for the peer, and forget them."""
        return self._outgoing.read()

    def peer_certificate(self) -> dict[str, Any]:
        """Return what the peer's certificate says, empty where none was verified."""
        return dict(self._object.getpeercert() or {})

    def _shake_hands(self) -> bool:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        self.established = True
        return True


class TlsStream:
    """A `Stream` inside another one, as the client."""

    def __init__(self, stream: Stream, session: TlsSession) -> None:
        self._stream = stream
        self._session = session
        self._unread = bytearray()

    async def shake_hands(self) -> None:
        """Agree on keys. Raises `OSError`, of which `ssl.SSLError` is one."""
        self._session.begin()
        await self._flush()
        while not self._session.established:
            data = await self._stream.read(_READ_BYTES)
            if not data:
                raise ConnectionResetError("the peer closed the connection during the TLS handshake")
            try:
                self._unread += self._session.receive(data)
            finally:
                await self._flush()

    async def read(self, max_bytes: int) -> bytes:
        while not self._unread and not self._session.ended:
            self._unread += self._session.receive(await self._stream.read(_READ_BYTES))
            await self._flush()
        data = bytes(self._unread[:max_bytes])
        del self._unread[:max_bytes]
        return data

    async def write(self, data: bytes) -> None:
        self._session.send(data)
        await self._flush()

    async def aclose(self, *, abort: bool = False) -> None:
        if not abort:
            self._session.close()
            try:
                await self._flush()
            except OSError:
                abort = True
        await self._stream.aclose(abort=abort)

    def abandon(self) -> None:
        self._stream.abandon()

    async def _flush(self) -> None:
        data = self._session.pending()
        if data:
            await self._stream.write(data)


class TlsNetwork:
    """A network whose connections are TLS from the first byte. It listens as the one below does."""

    def __init__(self, network: Network, context: ssl.SSLContext) -> None:
        self._network = network
        self._context = context

    async def connect(self, host: str, port: int, *, deadline: float) -> Stream:
        """Connect and shake hands. Raises `TimeoutError` after `deadline`, another `OSError` on refusal."""
        stream = await self._network.connect(host, port, deadline=deadline)
        secured = TlsStream(stream, TlsSession(self._context, hostname=host))
        try:
            async with asyncio.timeout_at(deadline):
                await secured.shake_hands()
        except BaseException:
            await stream.aclose(abort=True)
            raise
        return secured

    async def listen(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        refused: Callable[[], None] | None = None,
    ) -> Listener:
        return await self._network.listen(host, port, factory, refused=refused)

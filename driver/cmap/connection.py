"""One connection: connects, shakes hands, and carries one request and its reply at a time."""

from __future__ import annotations

import asyncio
import socket
import ssl
from itertools import count
from math import isinf
from typing import TYPE_CHECKING, Any

from driver.errors import InvalidArgumentError, NetworkError, NetworkTimeoutError
from driver.events import HELLO, SENSITIVE
from driver.sdam.description import ServerDescription, parse_hello
from driver.uri import split_address
from mongowire.connection import Envelope, Signal, WireConnection
from mongowire.errors import LocalProtocolError, ProtocolError
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from bson import ObjectId

    from driver.errors import DriverError
    from mongowire.compression import Compressor
    from mongowire.messages import OpQuery
    from mongowire.ports import Network, Stream

READ_SIZE = 1 << 18
A_LONG_TIME = 1e9
"""Seconds that stand for no limit where a finite instant is needed."""

MAX_REQUEST_ID = 2**31 - 1

SECRET = SENSITIVE | HELLO
"""Commands in lower case that are never compressed: how well a message packs tells of what is in it.

Wire Compression: Messages that cannot be compressed.
"""


class NameResolutionError(NetworkError):
    """The host name could not be resolved: not a sign of overload."""


class CertificateError(NetworkError):
    """The server's certificate is not to be trusted: not a sign of overload."""


class Connection:
    """CMAP: Connection. Its `description` is what the handshake showed of the server.

    `healthy` is false while a request is under way and stays so when its reply was lost: such a connection
    must not be used again.
    """

    def __init__(self, address: str, stream: Stream, *, number: int = 0, generation: int = 0) -> None:
        self.address = address
        self.id = number
        self.generation = generation
        self.description = ServerDescription(address)
        self.compressor: Compressor | None = None
        self.healthy = True
        self._interruption: Callable[[], DriverError] | None = None
        self._stream = stream
        self._wire = WireConnection()

    def __repr__(self) -> str:
        return f"<Connection {self.id} to {self.address}>"

    @classmethod
    async def open(
        cls,
        network: Network,
        address: str,
        *,
        now: float,
        deadline: float,
        number: int = 0,
        generation: int = 0,
    ) -> Connection:
        """Connect. Raises NetworkError and NetworkTimeoutError, marked as of establishing."""
        host, port = split_address(address)
        limit = now + A_LONG_TIME if isinf(deadline) else deadline
        try:
            stream = await network.connect(host, port, deadline=limit)
        except TimeoutError as error:
            raise NetworkTimeoutError(
                f"{address}: connecting timed out", address=address, establishing=True
            ) from error
        except socket.gaierror as error:
            raise NameResolutionError(f"{address}: {error}", address=address, establishing=True) from error
        except ssl.SSLCertVerificationError as error:
            raise CertificateError(f"{address}: {error}", address=address, establishing=True) from error
        except OSError as error:
            raise NetworkError(f"{address}: {error}", address=address, establishing=True) from error
        return cls(address, stream, number=number, generation=generation)

    @property
    def service_id(self) -> ObjectId | None:
        """The service behind a load balancer, from the handshake."""
        service: ObjectId | None = self.description.hello.get("serviceId")
        return service

    @property
    def server_connection_id(self) -> int | None:
        """The server's own number for this connection."""
        number = self.description.hello.get("connectionId")
        return None if number is None else int(number)

    def describe(self, hello: dict[str, Any], *, now: float) -> None:
        """Remember what the handshake's reply says."""
        self.description = parse_hello(self.address, hello, now=now)

    async def round_trip(
        self, message: OpMsg | OpQuery, request_id: int, *, deadline: float
    ) -> dict[str, Any]:
        """Send a request and return the reply's document. Raises NetworkError and NetworkTimeoutError."""
        data = self._encoded(message, request_id, self.compressor)
        # From here on half a request may be on its way, and nothing sensible can follow it.
        self.healthy = False
        # One limit for both ways, and no timer at all where there is none: this is every operation's path.
        if isinf(deadline):
            await self._write(data)
            return (await self._read(request_id))[0]
        async with _Limit(self.address, deadline):
            await self._write(data)
            return (await self._read(request_id))[0]

    async def send(
        self, message: OpMsg | OpQuery, request_id: int, *, deadline: float, compressed: bool = True
    ) -> None:
        """Send a request. One that asks for no reply leaves the connection healthy."""
        data = self._encoded(message, request_id, self.compressor if compressed else None)
        self.healthy = False
        async with _Limit(self.address, deadline):
            await self._write(data)
        self.healthy = getattr(message, "more_to_come", False)

    async def receive(self, response_to: int | None, *, deadline: float) -> tuple[dict[str, Any], bool]:
        """Return the next reply's document and whether more will follow; None accepts any `responseTo`."""
        self.healthy = False
        async with _Limit(self.address, deadline):
            return await self._read(response_to)

    async def aclose(self, *, abort: bool = False) -> None:
        """Close the socket. Closing twice is allowed."""
        self.healthy = False
        await self._stream.aclose(abort=abort)

    def abandon(self) -> None:
        """CMAP: Forking: close the copy that a child process has, and leave the parent's alone."""
        self.healthy = False
        self._stream.abandon()

    async def interrupt(self, reason: Callable[[], DriverError]) -> None:
        """Cancel what is under way: it fails with the error that `reason` makes."""
        self._interruption = reason
        await self.aclose(abort=True)

    def _encoded(self, message: OpMsg | OpQuery, request_id: int, compressor: Compressor | None) -> bytes:
        if compressor is not None and isinstance(message, OpMsg) and message.command_name.lower() in SECRET:
            compressor = None
        try:
            return self._wire.send(message, request_id=request_id, compressor=compressor)
        except LocalProtocolError as error:
            raise InvalidArgumentError(str(error), address=self.address) from error

    async def _write(self, data: bytes) -> None:
        try:
            await self._stream.write(data)
        except (OSError, ProtocolError) as error:
            raise self._lost(error) from error

    async def _read(self, response_to: int | None) -> tuple[dict[str, Any], bool]:
        """Return what `receive` does, however long it takes."""
        try:
            while not isinstance(message := self._wire.next_message(), Envelope):
                if message is Signal.END_OF_FILE:
                    raise ConnectionResetError("connection closed by peer")
                self._wire.receive_data(await self._stream.read(READ_SIZE))
            reply = message.parse()
            document = reply.decode()
        except (OSError, ProtocolError) as error:
            raise self._lost(error) from error
        # A reply to something else would hand one operation the documents of another.
        if response_to is not None and message.response_to != response_to:
            raise NetworkError(
                f"{self.address}: expected the reply to {response_to}, got the one to {message.response_to}",
                address=self.address,
            )
        more_to_come = reply.more_to_come if isinstance(reply, OpMsg) else False
        self.healthy = not more_to_come
        return document, more_to_come

    def _lost(self, error: Exception) -> DriverError:
        """Return what streams and the codec raise as an error of this driver."""
        # The socket was closed on purpose: the error says why, not how it was noticed.
        if self._interruption is not None:
            return self._interruption()
        return NetworkError(f"{self.address}: {error}", address=self.address)


class _Limit:
    """`asyncio.timeout_at`, in the words of this driver, and free of charge without a deadline."""

    def __init__(self, address: str, deadline: float) -> None:
        self._address = address
        self._timeout = None if isinf(deadline) else asyncio.timeout_at(deadline)

    async def __aenter__(self) -> None:
        if self._timeout is not None:
            await self._timeout.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timeout is None:
            return
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError as expired:
            raise NetworkTimeoutError(f"{self._address}: timed out", address=self._address) from expired


class RequestIds:
    """Ids of messages (int32, starting anew after the largest) and of operations (int64), counted per client.

    Counted and not random, so that a run can be repeated.
    """

    def __init__(self) -> None:
        self._requests = count(1)
        self._operations = count(1)

    def next_request(self) -> int:
        """Return a requestId that no recent message had."""
        return (next(self._requests) - 1) % MAX_REQUEST_ID + 1

    def next_operation(self) -> int:
        """Return an operationId, which links the events of one operation over all its attempts."""
        return next(self._operations)

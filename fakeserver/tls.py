"""TLS on the server's port: which connections speak it, and whom their certificates were made out to."""

from __future__ import annotations

import asyncio
import re
import ssl
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from fakeserver.transport import TransportAbove
from mongowire.tls import TELLING_BYTES, TlsSession, is_client_hello

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fakeserver.connection import Connection


class TlsMode(StrEnum):
    """`--tlsMode`. The two in the middle take both kinds of connection: the difference is between servers."""

    DISABLED = "disabled"
    ALLOW = "allowTLS"
    PREFER = "preferTLS"
    REQUIRE = "requireTLS"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSpec:
    """How a deployment speaks TLS, in mongod's terms.

    Clients must show a certificate of `ca_file` unless it is not given or
    `allow_connections_without_certificates`; with `allow_invalid_certificates` none is asked for.
    """

    mode: TlsMode = TlsMode.REQUIRE
    certificate_key_file: str = ""
    ca_file: str | None = None
    allow_connections_without_certificates: bool = False
    allow_invalid_certificates: bool = False

    def __post_init__(self) -> None:
        """Refuse what a mongod would not start with."""
        object.__setattr__(self, "mode", TlsMode(self.mode))
        if self.mode is not TlsMode.DISABLED and not self.certificate_key_file:
            raise ValueError(f"tlsMode {self.mode} needs a tlsCertificateKeyFile")

    def context(self) -> ssl.SSLContext:
        """Return what sessions are made with. Raises `OSError` for files that cannot be used."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate_key_file)
        if self.ca_file is not None:
            context.load_verify_locations(self.ca_file)
        if self.ca_file is not None and not self.allow_invalid_certificates:
            optional = self.allow_connections_without_certificates
            context.verify_mode = ssl.CERT_OPTIONAL if optional else ssl.CERT_REQUIRED
        return context


class Door(asyncio.Protocol):
    """What stands before a connection: it looks at the first bytes, and takes TLS off what comes."""

    def __init__(self, inner: Connection, context: ssl.SSLContext, *, required: bool) -> None:
        self._inner = inner
        self._context = context
        self._required = required
        self._undecided = True
        self._first = b""
        self._held = b""
        self.session: TlsSession | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._inner.connection_made(_DoorTransport(self))

    def data_received(self, data: bytes) -> None:
        if not self._inner.listens:
            # A server that is paused shakes no hands either.
            self._held += data
            self._inner.held = self._go_on
            return
        if self._undecided:
            data, self._first = self._first + data, b""
            if len(data) < TELLING_BYTES:
                self._first = data
                return
            self._undecided = False
            if is_client_hello(data):
                self.session = TlsSession(self._context, server_side=True)
            elif self._required:
                self._refuse("The server is configured to only allow SSL connections")
                return
        if self.session is None:
            self._inner.data_received(data)
        else:
            self._take(self.session, data)

    def _go_on(self) -> None:
        held, self._held = self._held, b""
        self.data_received(held)

    def _take(self, session: TlsSession, data: bytes) -> None:
        shaking = not session.established
        try:
            plain = session.receive(data)
        except ssl.SSLError as error:
            self.flush()
            self._refuse(f"SSL peer failed: {error.reason or error}")
            return
        self.flush()
        if shaking and session.established:
            self._inner.secured(subject_of(session.peer_certificate()))
        if plain:
            self._inner.data_received(plain)
        if session.ended:
            self.transport.close()

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def flush(self) -> None:
        """Send what the session has for the peer."""
        if self.session is not None:
            data = self.session.pending()
            if data and not self.transport.is_closing():
                self.transport.write(data)

    def _refuse(self, reason: str) -> None:
        self._inner.node.log_protocol_error(self._inner.state, reason)
        self._inner.close(reason)


class _DoorTransport(TransportAbove):
    """What a connection writes to: through the door's session, once there is one."""

    def __init__(self, door: Door) -> None:
        super().__init__(door.transport)
        self._door = door

    def write(self, data: bytes | bytearray | memoryview) -> None:
        session = self._door.session
        if session is None:
            self.below.write(data)
        else:
            session.send(bytes(data))
            self._door.flush()

    def close(self) -> None:
        session = self._door.session
        if session is not None and not self.below.is_closing():
            session.close()
            self._door.flush()
        self.below.close()


def behind_door(make: Callable[[], Connection], spec: TlsSpec, context: ssl.SSLContext) -> Callable[[], Door]:
    """Return a maker of connections that may, or must, speak TLS."""
    required = spec.mode is TlsMode.REQUIRE
    return lambda: Door(make(), context, required=required)


_SHORT_NAMES: Final = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL: Final = re.compile(r'([,+"\\<>;])')


def subject_of(certificate: dict[str, Any]) -> str | None:
    """Return the subject of a certificate as RFC 2253 writes it, the last part first; None without one."""
    parts: Iterable[Iterable[tuple[str, str]]] = certificate.get("subject", ())
    texts = [
        "+".join(f"{_SHORT_NAMES.get(name, name)}={_escaped(value)}" for name, value in part)
        for part in parts
    ]
    return ",".join(reversed(texts)) or None


def _escaped(value: str) -> str:
    text = _SPECIAL.sub(r"\\\1", value)
    if text.startswith(("#", " ")):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if text.endswith(" ") else text

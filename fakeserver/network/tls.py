"""TLS on the server's port: the choice between plain text and TLS, and the subjects of certificates."""

from __future__ import annotations

import re
import ssl
from typing import TYPE_CHECKING, Any, Final, cast

from fakeserver.deployment.spec import TlsMode
from fakeserver.network.first_bytes import Refusal, Speech, speech_of
from fakeserver.network.transport import ProtocolAbove, TransportAbove
from mongowire.codes import ErrorCode
from mongowire.framing import HEADER_SIZE
from mongowire.tls import TlsSession

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from fakeserver.deployment.spec import TlsSpec
    from fakeserver.network.connection import Connection


class TlsLayer(ProtocolAbove):
    """The layer in front of a connection: decides by its first bytes, and decrypts what arrives."""

    def __init__(self, inner: Connection, context: ssl.SSLContext, mode: TlsMode) -> None:
        super().__init__(inner)
        self._connection = inner
        self._context = context
        self._mode = mode
        self._undecided = True
        self._first = b""
        self._held = b""
        self.session: TlsSession | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.behind.connection_made(_TlsTransport(self))

    def data_received(self, data: bytes) -> None:
        if not self._connection.listens:
            # A process that is paused does no handshake either.
            self._held += data
            self._connection.held = self._go_on
            return
        if self._undecided:
            data, self._first = self._first + data, b""
            speech = speech_of(data[:HEADER_SIZE])
            if speech is Speech.UNDECIDED:
                self._first = data
                return
            self._undecided = False
            if speech is Speech.TLS:
                self.session = TlsSession(self._context, server_side=True)
            elif speech is Speech.MESSAGES and not self._takes_plain_text():
                return
        if self.session is None:
            self.behind.data_received(data)
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
            node, state = self._connection.node, self._connection.state
            state.secure = True
            state.certificate_subject = subject_of(session.peer_certificate())
            node.counters.completed("TLSHandshake", node.clock.now() - state.accepted)
        if plain:
            self.behind.data_received(plain)
        if session.ended:
            self.transport.close()

    def flush(self) -> None:
        """Send what the session has for the peer."""
        if self.session is not None:
            data = self.session.pending()
            if data and not self.transport.is_closing():
                self.transport.write(data)

    def _takes_plain_text(self) -> bool:
        node, state = self._connection.node, self._connection.state
        if self._mode is TlsMode.REQUIRE:
            self._refuse("The server is configured to only allow SSL connections")
        elif self._mode is TlsMode.PREFER:
            node.log.write(
                "NETWORK",
                23838,
                "SSL mode is set to 'preferred' and connection to remote is not using SSL.",
                context=state.thread_name,
                attr={"connectionId": state.id, "remote": state.peer},
            )
        return self._mode is not TlsMode.REQUIRE

    def _refuse(self, reason: str) -> None:
        self._connection.refuse(Refusal(reason, ErrorCode.SSL_HANDSHAKE_FAILED))


class _TlsTransport(TransportAbove):
    """The transport of the connection behind: encrypts, once there is a TLS session."""

    def __init__(self, layer: TlsLayer) -> None:
        super().__init__(layer.transport, layer)
        self._layer = layer

    def write(self, data: bytes | bytearray | memoryview) -> None:
        session = self._layer.session
        if session is None:
            self.below.write(data)
        else:
            session.send(bytes(data))
            self._layer.flush()

    def close(self) -> None:
        session = self._layer.session
        if session is not None and not self.below.is_closing():
            session.close()
            self._layer.flush()
        self.below.close()


def behind_tls(spec: TlsSpec, context: ssl.SSLContext) -> Callable[[Connection], TlsLayer]:
    """Return a maker of the layer in front of a connection that may, or must, speak TLS."""
    return lambda connection: TlsLayer(connection, context, spec.mode)


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

"""The first bytes of a connection, which tell whether its client speaks the wire protocol at all.

A server reads sixteen bytes, the header of a message, and looks at three things before it takes them for one:

    GET_                            a browser or a health check: a short answer of HTTP, and the end
    PROXY, or its binary signature  a proxy in front of a port that expects none (since 8.1): the end
    responseTo neither 0 nor -1     no first message has that, a TLS hello does: the handshake, or the end

So a text of sixteen bytes is a failed handshake to it. One that is shorter shows in four bytes that it is no
length of a message, and nothing of it is waited for.
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from mongowire.codes import ErrorCode
from mongowire.framing import HEADER, HEADER_SIZE, MAX_MESSAGE_SIZE
from mongowire.tls import HANDSHAKE_RECORD

if TYPE_CHECKING:
    from fakeserver.access.session import ConnectionState
    from fakeserver.deployment.node import Node
    from mongowire.connection import WireConnection

_SIZE: Final = struct.Struct("<i")
_HTTP: Final = b"GET "
_PROXY: Final = (b"PROXY", b"\r\n\r\n\0\r\nQUIT\n")
_ANSWERS_NOTHING: Final = (0, -1)

_ADVICE: Final = b"It looks like you are trying to access MongoDB over HTTP on the native driver port.\r\n"
_ANSWER: Final = (
    b"HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_ADVICE), _ADVICE)
)


class Speech(Enum):
    """What a client begins to speak."""

    UNDECIDED = "too few bytes to tell"
    MESSAGES = "the wire protocol"
    TLS = "TLS, or what can be nothing else"
    HTTP = "HTTP"
    PROXY = "the proxy protocol"


def speech_of(head: bytes) -> Speech:
    """Return what a connection speaks that begins with `head`."""
    if head.startswith(_HTTP):
        return Speech.HTTP
    if head.startswith(_PROXY):
        return Speech.PROXY
    if len(head) >= HEADER_SIZE:
        response_to = HEADER.unpack_from(head)[2]
        return Speech.MESSAGES if response_to in _ANSWERS_NOTHING else Speech.TLS
    if len(head) >= _SIZE.size and head[0] != HANDSHAKE_RECORD:
        (size,) = _SIZE.unpack_from(head)
        if not HEADER_SIZE <= size <= MAX_MESSAGE_SIZE:
            return Speech.MESSAGES
    return Speech.UNDECIDED


class Refusal(NamedTuple):
    """The end of a connection whose client sent what it should not have."""

    message: str
    code: ErrorCode = ErrorCode.PROTOCOL_ERROR
    answer: bytes = b""

    def log(self, node: Node, state: ConnectionState) -> None:
        """Tell the log of it, as a server does."""
        error = {"code": int(self.code), "codeName": self.code.code_name, "errmsg": self.message}
        node.log.write(
            "EXECUTOR",
            22988,
            "Error receiving request from client. Ending connection from remote",
            context=state.thread_name,
            attr={"error": error, "remote": state.peer, "connectionId": state.id},
        )


_OVER_HTTP: Final = Refusal("Client sent an HTTP request over a native MongoDB connection", answer=_ANSWER)
_BEHIND_A_PROXY: Final = Refusal(
    "ProxyProtocol message detected on mongorpc port", ErrorCode.OPERATION_FAILED
)
_OVER_TLS: Final = Refusal(
    "SSL handshake received but server is started without SSL support", ErrorCode.SSL_HANDSHAKE_FAILED
)


class Greeting:
    """The beginning of a connection, until its first bytes have been looked at."""

    def __init__(self, wire: WireConnection, node: Node, state: ConnectionState) -> None:
        self._wire = wire
        self._knows_proxies = node.profile.has_proxy_port
        self._state = state
        self.over = False
        """The client speaks the wire protocol."""

    def refusal(self) -> Refusal | None:
        """Return why the connection ends, None if it goes on or has sent too little."""
        speech = speech_of(self._wire.head)
        self.over = speech is Speech.MESSAGES
        if speech is Speech.HTTP:
            return _OVER_HTTP
        if self._state.secure:
            # The handshake has been, and was looked at in its place.
            self.over = speech is not Speech.UNDECIDED
            return None
        if speech is Speech.PROXY:
            return _BEHIND_A_PROXY if self._knows_proxies else _OVER_TLS
        return _OVER_TLS if speech is Speech.TLS else None

"""Errors on the wire, split by who is to blame.

ProtocolError
├── LocalProtocolError      we tried to send what must not be sent
└── RemoteProtocolError     the peer sent what must not be sent: close the connection
    └── InvalidMessage      one well-framed message with a wrong content: most are answered
"""

from __future__ import annotations


class ProtocolError(Exception):
    """The wire protocol was violated."""


class LocalProtocolError(ProtocolError):
    """This side asked for bytes that no peer could accept."""


class RemoteProtocolError(ProtocolError):
    """The peer's bytes cannot be understood; nothing after them can be trusted."""


class InvalidMessage(RemoteProtocolError):  # noqa: N818 - the name says what was found, as the server's texts do
    """A message that arrived whole and whose content is wrong.

    `code` and `message` are what a server answers with; when `fatal`, it closes the connection without an
    answer. The stream of messages after it is intact.
    """

    def __init__(self, code: int, message: str, *, fatal: bool = False) -> None:
        super().__init__(message)
        self.code = int(code)
        self.message = message
        self.fatal = fatal

    def __repr__(self) -> str:
        return f"InvalidMessage({self.code}, {self.message!r}, fatal={self.fatal})"

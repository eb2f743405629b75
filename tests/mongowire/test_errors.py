"""Errors of the protocol are split by blame."""

from __future__ import annotations

from mongowire.codes import ErrorCode
from mongowire.errors import InvalidMessage, LocalProtocolError, ProtocolError, RemoteProtocolError


def test_the_tree_of_errors() -> None:
    assert issubclass(LocalProtocolError, ProtocolError)
    assert issubclass(RemoteProtocolError, ProtocolError)
    assert issubclass(InvalidMessage, RemoteProtocolError)
    assert not issubclass(LocalProtocolError, RemoteProtocolError)


def test_an_invalid_message_is_what_a_server_answers() -> None:
    error = InvalidMessage(ErrorCode.CHECKSUM_MISMATCH, "wrong sum", fatal=True)
    assert (error.code, error.message, error.fatal) == (288, "wrong sum", True)
    assert str(error) == "wrong sum"
    assert repr(error) == "InvalidMessage(288, 'wrong sum', fatal=True)"

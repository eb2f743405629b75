"""The requests of a connection as they arrive, byte by byte: the phases that each of them reaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from fakeserver.network.faults import FaultPhase
from mongowire.connection import Envelope, WireConnection
from mongowire.errors import RemoteProtocolError
from mongowire.framing import HEADER, HEADER_SIZE, MAX_MESSAGE_SIZE, OpCode
from mongowire.messages import MORE_TO_COME, OpMsg, OpQuery

if TYPE_CHECKING:
    from collections.abc import Iterator

_HELLOS: Final = frozenset({"hello", "isMaster", "ismaster"})
_SPECULATIVE: Final = b"\3speculativeAuthenticate\0"
_KIND_AT: Final = HEADER_SIZE + 4
"""The place of the kind of an OP_MSG's first section; the section of kind 0 is the body."""
_NAME_AT: Final = _KIND_AT + 6
"""The place of the body's first key, behind the kind, the size of the document and a type."""
_LONGEST_NAME: Final = 128
_SMALL: Final = 1 << 16
"""Requests whose name stands elsewhere are read whole up to this size: hellos and authentications."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A request has come to a phase. `bytes_seen` and `named_at` are those of `fault_registry.Place`."""

    phase: FaultPhase
    request_id: int
    command: str | None = None
    bytes_seen: tuple[int, int] = (-1, 0)
    named_at: int = 0


@dataclass(frozen=True, slots=True)
class Whole:
    """A request is complete; `data` are its bytes that have not been passed on."""

    data: bytes
    request_id: int = 0
    command: str | None = None
    expects_reply: bool = False


Progress: TypeAlias = Reached | Whole


class Requests:
    """The bytes of a client, taken apart; pull progress until there is none."""

    def __init__(self, *, greeted: bool = False, passed: bytes = b"") -> None:
        """Begin; `greeted`: the first hello is over; `passed` are bytes that the connection has already."""
        self._greeted = greeted
        while len(passed) >= HEADER_SIZE and HEADER_SIZE <= HEADER.unpack_from(passed)[0] <= len(passed):
            passed = passed[HEADER.unpack_from(passed)[0] :]
        self._buffer = bytearray(passed)  # those of the last request, where it is not complete
        self._passed = len(self._buffer)
        self._walk = self._requests()

    @property
    def idle(self) -> bool:
        """Whether it stands between two requests."""
        return not self._buffer

    def receive(self, data: bytes) -> None:
        """Take bytes of the client."""
        self._buffer += data

    def progress(self) -> Progress | None:
        """Return the next thing that has happened; None until more bytes are there."""
        return next(self._walk)

    def _requests(self) -> Iterator[Progress | None]:
        """Walk through one request after the other, as far as their bytes are there."""
        while True:
            while len(self._buffer) < HEADER_SIZE:
                yield None
            size, request_id, _, op_code = HEADER.unpack_from(self._buffer)
            if not HEADER_SIZE <= size <= MAX_MESSAGE_SIZE:
                break
            yield Reached(FaultPhase.REQUEST_HEADER, request_id)
            yield from self._body(size, request_id, op_code)
            yield from self._phases_of_whole(size, request_id, op_code)
            command = self._command(size, op_code)
            silent = op_code == OpCode.MSG and size > HEADER_SIZE and self._buffer[HEADER_SIZE] & MORE_TO_COME
            data = bytes(self._buffer[self._passed : size])
            del self._buffer[:size]
            self._passed = 0
            yield Whole(data, request_id, command, expects_reply=not silent)
        # No wire protocol: the server says what it makes of that.
        while True:
            yield self._all() if self._buffer else None

    def _body(self, size: int, request_id: int, op_code: int) -> Iterator[Reached | None]:
        seen = 0
        while True:
            there = min(size, len(self._buffer)) - HEADER_SIZE
            if there > seen:
                name, named_at = self._name(HEADER_SIZE + there, op_code)
                if name is None and HEADER_SIZE + there == size:
                    name, named_at = self._command(size, op_code), there
                yield Reached(FaultPhase.REQUEST_BODY, request_id, name, (seen, there), named_at)
                seen = there
            if len(self._buffer) >= size:
                return
            yield None

    def _phases_of_whole(self, size: int, request_id: int, op_code: int) -> Iterator[Reached]:
        command = self._command(size, op_code)
        if command in _HELLOS:
            if not self._greeted:
                self._greeted = True
                yield Reached(FaultPhase.HANDSHAKE, request_id, command)
            if self._buffer.find(_SPECULATIVE, 0, size) >= 0:
                yield Reached(FaultPhase.SASL_START, request_id, command)
        elif command == "saslStart":
            yield Reached(FaultPhase.SASL_START, request_id, command)
        elif command == "saslContinue":
            yield Reached(FaultPhase.SASL_CONTINUE, request_id, command)

    def _name(self, end: int, op_code: int) -> tuple[str | None, int]:
        """Return the command's name in an OP_MSG, and the bytes of the body that it takes to know it.

        None where the name is not there yet, or the body is not the first section.
        """
        if op_code != OpCode.MSG or end <= _NAME_AT or self._buffer[_KIND_AT]:
            return None, 0
        stop = self._buffer.find(0, _NAME_AT, min(end, _NAME_AT + _LONGEST_NAME))
        if stop < 0:
            return None, 0
        return bytes(self._buffer[_NAME_AT:stop]).decode(errors="replace"), stop + 1 - HEADER_SIZE

    def _command(self, size: int, op_code: int) -> str | None:
        """Return the command's name in a whole request."""
        name, _ = self._name(size, op_code)
        if name is not None or size > _SMALL:
            return name
        wire = WireConnection()
        try:
            wire.receive_data(bytes(self._buffer[:size]))
            envelope = wire.next_message()
            message = envelope.parse() if isinstance(envelope, Envelope) else None
        except RemoteProtocolError:
            return None
        return message.command_name if isinstance(message, OpMsg | OpQuery) else None

    def _all(self) -> Whole:
        data = bytes(self._buffer[self._passed :])
        self._buffer.clear()
        self._passed = 0
        return Whole(data)

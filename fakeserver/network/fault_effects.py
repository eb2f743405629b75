"""Effects of a fault of bytes: a row of `EFFECTS` for each, with its reader and what it does.

An effect is one of three kinds. Some are a field of `FaultEffects`, at which the layers look (`delay`,
`split`). Some end the connection (`reset`). The others change the bytes of a reply (`truncate`), each by a
function that stands here, so that a new one is its function and its row.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mongowire.connection import Envelope, WireConnection
from mongowire.documents import arguments
from mongowire.documents.errors import ControlError, unknown
from mongowire.errors import RemoteProtocolError
from mongowire.framing import HEADER, HEADER_SIZE, OpCode
from mongowire.messages import CHECKSUM_PRESENT, checksum_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Reader: TypeAlias = Callable[[Any], Any]
    Edit: TypeAlias = Callable[[Any, bytes], bytes]
    """Takes the value of the effect and a reply, and returns the reply as it is sent."""

_INT32: Final = struct.Struct("<i")
_FLAGS: Final = struct.Struct("<I")


class ConnectionEnd(Enum):
    """The ways in which a fault ends a connection."""

    CLOSE = "close"
    """Both sides hear of its end, in order."""
    RESET = "reset"
    """It is reset, and what was not read is lost."""
    SILENCE = "silence"
    """Nothing is sent any more, and the connection stays open."""


@dataclass(frozen=True, slots=True)
class FaultEffects:
    """The effects of one fault, `do` in its document; those that are not asked for are None or 0."""

    delay: float = 0.0
    """Seconds."""
    jitter: float = 0.0
    """Up to so many seconds more."""
    bandwidth: int | None = None
    """Bytes a second."""
    split: int | None = None
    """The size of the pieces that bytes are sent in."""
    garbage: int | None = None
    """Random bytes that are sent: so many."""
    end: ConnectionEnd | None = None
    """How the connection ends."""
    cut: int = 0
    """The bytes that are sent before it does."""
    edits: tuple[Callable[[bytes], bytes], ...] = ()
    """Changes to the bytes of a reply, in their order."""
    duplicate: bool = False
    """The reply is sent twice, as it is after the changes of all faults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEffect:
    """A row of the table: the reader of the effect's value, and its kind."""

    read: Reader
    field: str = ""
    """The field of `FaultEffects` that has the value."""
    end: ConnectionEnd | None = None
    edit: Edit | None = None
    of_replies: bool = False
    """It changes a reply as a whole."""
    at_close: bool = False
    """It has a meaning when the server closes the connection."""


def parse_effects(
    document: Mapping[str, Any], phase: str, *, has_reply: bool, at_close: bool
) -> FaultEffects:
    """Read the effects of a fault at a phase. Raises `ControlError` with the path of the effect."""
    if not document:
        raise ControlError(f"no effect is given; known are {', '.join(sorted(EFFECTS))}", path=("do",))
    given: dict[str, Any] = {}
    for name, value in document.items():
        if name not in EFFECTS:
            raise unknown("effect", name, EFFECTS, path=("do",))
        effect = EFFECTS[name]
        if effect.of_replies and not has_reply:
            raise ControlError(f"{name} changes a reply, and at {phase} there is none", path=("do", name))
        if at_close and not effect.at_close:
            known = ", ".join(each for each, row in EFFECTS.items() if row.at_close)
            raise ControlError(f"{name} has no meaning at close; known there are {known}", path=("do", name))
        try:
            given[name] = effect.read(value)
        except ControlError as error:
            raise error.within("do", name) from None
    ends = [name for name, row in EFFECTS.items() if row.end is not None and name in given]
    if len(ends) > 1:
        raise ControlError(f"{ends[0]} and {ends[1]} exclude each other", path=("do", ends[1]))
    rows = [(row, given[name]) for name, row in EFFECTS.items() if name in given]
    return FaultEffects(
        **{row.field: value for row, value in rows if row.field},
        end=EFFECTS[ends[0]].end if ends else None,
        edits=tuple(partial(row.edit, value) for row, value in rows if row.edit is not None),
    )


def edited(reply: bytes, effects: Sequence[FaultEffects]) -> bytes:
    """Return a reply as faults change it."""
    for edit in (edit for each in effects for edit in each.edits):
        reply = edit(reply)
    return reply * 2 if any(each.duplicate for each in effects) else reply


# --- changes to the bytes of a reply ---


def _truncated(count: int, reply: bytes) -> bytes:
    """Cut off the last bytes; the header agrees with what is left."""
    reply = _plain(reply)
    left = reply[: max(HEADER_SIZE, len(reply) - count)]
    return _with_length(len(left), left)


def _with_bad_checksum(_: Any, reply: bytes) -> bytes:
    """Give an OP_MSG a checksum that is wrong in every bit; other messages have none."""
    reply = _plain(reply)
    size, request_id, response_to, op_code = HEADER.unpack_from(reply)
    if op_code != OpCode.MSG or size != len(reply):
        return reply
    (flags,) = _FLAGS.unpack_from(reply, HEADER_SIZE)
    payload = _FLAGS.pack(flags | CHECKSUM_PRESENT) + reply[HEADER_SIZE + _FLAGS.size :]
    if flags & CHECKSUM_PRESENT:
        payload = payload[:-4]
    right = checksum_of(payload, request_id=request_id, response_to=response_to)
    wrong = bytes(byte ^ 0xFF for byte in right)
    return HEADER.pack(HEADER_SIZE + len(payload) + 4, request_id, response_to, op_code) + payload + wrong


def _with_response_to(request_id: int, reply: bytes) -> bytes:
    """Have it answer another request."""
    return reply[:8] + _INT32.pack(request_id) + reply[12:]


def _with_length(length: int, reply: bytes) -> bytes:
    """Have its header say another `messageLength`."""
    return _INT32.pack(length) + reply[4:]


def _plain(reply: bytes) -> bytes:
    """Return a reply without compression, so that a fault meets its document."""
    wire = WireConnection()
    try:
        wire.receive_data(reply)
        envelope = wire.next_message()
    except RemoteProtocolError:
        return reply
    if not isinstance(envelope, Envelope) or envelope.compressor is None:
        return reply
    head = (envelope.request_id, envelope.response_to, envelope.op_code)
    return HEADER.pack(HEADER_SIZE + len(envelope.payload), *head) + envelope.payload


# --- readers ---


def positive(read: Reader) -> Reader:
    """Return a reader of a number that has to be 1 or more."""

    def read_positive(value: Any) -> Any:
        number = read(value)
        if not number:
            raise ControlError(f"{value!r} is too small; write 1 or more")
        return number

    return read_positive


def _int32(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise ControlError(f"{value!r} is no int32")
    return int(value)


def _true(value: Any) -> bool:
    if arguments.flag(value) is not True:
        raise ControlError("write true, or leave it out")
    return True


def _bad(value: Any) -> bool:
    if value != "bad":
        raise ControlError(f"{value!r} is no checksum; write bad")
    return True


EFFECTS: Final[Mapping[str, FaultEffect]] = {
    "delay": FaultEffect(read=arguments.duration, field="delay", at_close=True),
    "jitter": FaultEffect(read=arguments.duration, field="jitter", at_close=True),
    "bandwidth": FaultEffect(read=positive(arguments.bandwidth), field="bandwidth"),
    "split": FaultEffect(read=positive(arguments.size), field="split"),
    "cut": FaultEffect(read=arguments.count, field="cut", end=ConnectionEnd.CLOSE),
    "reset": FaultEffect(read=_true, end=ConnectionEnd.RESET, at_close=True),
    "halfOpen": FaultEffect(read=_true, end=ConnectionEnd.SILENCE, at_close=True),
    "garbage": FaultEffect(read=positive(arguments.size), field="garbage", at_close=True),
    "truncate": FaultEffect(read=positive(arguments.count), edit=_truncated, of_replies=True),
    "checksum": FaultEffect(read=_bad, edit=_with_bad_checksum, of_replies=True),
    "responseTo": FaultEffect(read=_int32, edit=_with_response_to, of_replies=True),
    "length": FaultEffect(read=_int32, edit=_with_length, of_replies=True),
    "duplicate": FaultEffect(read=_true, field="duplicate", of_replies=True),
}
"""The effects of faults of bytes by name; those that change a reply in the order in which they do."""

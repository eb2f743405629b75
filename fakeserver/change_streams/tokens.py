"""Resume tokens: names for the positions in a stream of events, which order as the events do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from bson import Timestamp

from fakeserver.errors import CommandError
from fakeserver.storage.values.printing import show_document
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from bson import Binary

_BAD_DATA: Final = 40647
_BAD_TYPE_BITS: Final = 40648
_EMPTY: Final = 40649
_UNKNOWN_TYPE: Final = 50811
_HIGH_WATER_MARK: Final = 0
_EVENT: Final = 128
_FORMAT: Final = bytes.fromhex("2b042c")
_TIMESTAMP: Final = b"\x82"
_UUID: Final = bytes.fromhex("5a1004")
_END: Final = b"\x04"
_LENGTH: Final = 20
"""Bytes of a token ahead of the UUID."""
_LENGTH_WITH_UUID: Final = _LENGTH + len(_UUID) + 16


class StreamPosition(NamedTuple):
    """A position in a stream: a time, and the event there.

    `kind` is that of an event, or of a high-water mark, which stands ahead of all events of its time;
    `number` counts the changes of one operation; `invalidates` marks the invalidation that a change brings;
    `fragment` counts from 1 the parts of an event that was split.
    """

    seconds: int
    increment: int
    kind: int = _HIGH_WATER_MARK
    number: int = 0
    invalidates: bool = False
    fragment: int = 0

    @classmethod
    def mark(cls, timestamp: Timestamp) -> Self:
        """Return the position ahead of all events of a time."""
        return cls(timestamp.time, timestamp.inc)

    @classmethod
    def event(cls, timestamp: Timestamp, number: int) -> Self:
        """Return the position of a change's event."""
        return cls(timestamp.time, timestamp.inc, _EVENT, number)

    @property
    def timestamp(self) -> Timestamp:
        return Timestamp(self.seconds, self.increment)

    @property
    def is_event(self) -> bool:
        """Whether an event is at this position."""
        return self.kind == _EVENT

    @property
    def whole(self) -> StreamPosition:
        """The position of the event that this is a fragment of."""
        return self._replace(fragment=0)


@dataclass(frozen=True, slots=True)
class ResumeToken:
    """A position as the client gets it; `uuid` is that of the event's collection."""

    position: StreamPosition
    uuid: Binary | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The token: an event's `_id`, a batch's `postBatchResumeToken`."""
        position = self.position
        data = (
            _TIMESTAMP + position.seconds.to_bytes(4, "big") + position.increment.to_bytes(4, "big") + _FORMAT
        )
        data += bytes([position.kind]) + position.number.to_bytes(4, "big") + bytes([position.invalidates])
        data += position.fragment.to_bytes(2, "big")
        data += _UUID + self.uuid if self.uuid is not None else b""
        return {"_data": (data + _END).hex().upper()}

    @classmethod
    def parse(cls, document: dict[str, Any]) -> StreamPosition:
        """Return the position that a client's token names.

        What follows the last element is not read, so its end may be missing, as on a server.
        Raises `CommandError` 40647, 40648, 9 FailedToParse, 40649, 50811 or 15 Overflow for what is no token,
        and 260 InvalidResumeToken for what is no token of ours.
        """
        text = document.get("_data")
        if not isinstance(text, str):
            raise CommandError(
                _BAD_DATA,
                "Bad resume token: _data of missing or of wrong type. Expected string, got "
                f"{show_document(document)}",
            )
        if "_typeBits" in document and not isinstance(document["_typeBits"], bytes):
            raise CommandError(
                _BAD_TYPE_BITS, f"Bad resume token: _typeBits of wrong type {show_document(document)}"
            )
        try:
            data = bytes.fromhex(text)
        except ValueError:
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE, "resume token string was not a valid hex string"
            ) from None
        _check_elements(data)
        return StreamPosition(
            int.from_bytes(data[1:5], "big"),
            int.from_bytes(data[5:9], "big"),
            data[12],
            int.from_bytes(data[13:17], "big"),
            bool(data[17]),
            int.from_bytes(data[18:20], "big"),
        )


def _check_elements(data: bytes) -> None:
    """Refuse what is no token by the first of its elements that is wrong. Raises `CommandError`."""
    if data[:1] in {b"", _END}:
        raise CommandError(_EMPTY, "invalid empty resume token")
    if data[:1] != _TIMESTAMP:
        raise CommandError(_UNKNOWN_TYPE, f"Unknown type: {data[0]}")
    needed = _LENGTH_WITH_UUID if data[_LENGTH:].startswith(_UUID) else _LENGTH
    if len(data) < needed:
        raise CommandError(
            ErrorCode.OVERFLOW, f"a resume token of {len(data)} bytes is truncated: it needs {needed}"
        )
    if data[9:12] != _FORMAT or data[12] not in {_HIGH_WATER_MARK, _EVENT} or data[17] not in {0, 1}:
        raise CommandError(
            ErrorCode.INVALID_RESUME_TOKEN,
            f"Bad resume token: {data.hex().upper()!r} was not made by this server",
        )

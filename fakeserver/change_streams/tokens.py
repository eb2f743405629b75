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
_HIGH_WATER_MARK: Final = 0
_EVENT: Final = 128
_FORMAT: Final = bytes.fromhex("2b042c")
_TIMESTAMP: Final = b"\x82"
_UUID: Final = bytes.fromhex("5a1004")
_END: Final = b"\x04"
_LENGTH: Final = 21
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

        Raises `CommandError` 40647, 9 FailedToParse or 260 InvalidResumeToken for what is no token of ours.
        """
        text = document.get("_data")
        if not isinstance(text, str):
            raise CommandError(
                _BAD_DATA,
                "Bad resume token: _data of missing or of wrong type. Expected string, got "
                f"{show_document(document)}",
            )
        try:
            data = bytes.fromhex(text)
        except ValueError:
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE, "resume token string was not a valid hex string"
            ) from None
        if not (
            len(data) in {_LENGTH, _LENGTH_WITH_UUID}
            and data[:1] == _TIMESTAMP
            and data[9:12] == _FORMAT
            and data[12] in {_HIGH_WATER_MARK, _EVENT}
            and data[17] in {0, 1}
            and data[-1:] == _END
        ):
            raise CommandError(
                ErrorCode.INVALID_RESUME_TOKEN, f"Bad resume token: {text!r} was not made by this server"
            )
        return StreamPosition(
            int.from_bytes(data[1:5], "big"),
            int.from_bytes(data[5:9], "big"),
            data[12],
            int.from_bytes(data[13:17], "big"),
            bool(data[17]),
            int.from_bytes(data[18:20], "big"),
        )

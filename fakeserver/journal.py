"""The one record of what a deployment saw and did, in order."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from fakeserver.events import Event, to_document

if TYPE_CHECKING:
    from collections.abc import Sequence

_CAPACITY: Final = 65_536


class Record(NamedTuple):
    """One event: `at` is the clock's instant in seconds, `seq` counts from 1, `source` names the actor."""

    at: float
    seq: int
    source: str
    event: Event


class Journal:
    """Sequence-numbered records, the newest `capacity` of them."""

    def __init__(self, *, capacity: int = _CAPACITY) -> None:
        self._records: deque[Record] = deque(maxlen=capacity)
        self._seq = 0

    def append(self, at: float, source: str, event: Event) -> None:
        """Enter an event."""
        self._seq += 1
        self._records.append(Record(at, self._seq, source, event))

    @property
    def records(self) -> Sequence[Record]:
        """A copy of the records, oldest first."""
        return tuple(self._records)

    @property
    def dropped(self) -> int:
        """How many old records were given up for new ones."""
        return self._seq - len(self._records)

    def of_kind(self, kind: str) -> Sequence[Record]:
        """Return the records whose event is called `kind`."""
        return tuple(record for record in self._records if record.event.kind == kind)

    def to_json_lines(self) -> str:
        """Return one JSON object per line; the same records give the same bytes."""
        return "".join(_line(record) + "\n" for record in self._records)


def _line(record: Record) -> str:
    document = {"at": record.at, "seq": record.seq, "source": record.source, **to_document(record.event)}
    return json.dumps(document, separators=(",", ":"))

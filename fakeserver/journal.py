"""The one record of what a deployment saw and did, in order."""

from __future__ import annotations

import json
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.events import BY_NAME, CommandFinished, Event, to_document
from fakeserver.spec import JOURNAL_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_COMMAND_FINISHED: Final = CommandFinished.__name__
_UUID_BYTES: Final = 16


class Record(NamedTuple):
    """One event: `at` is the clock's instant in seconds, `seq` counts from 1, `source` names the actor."""

    at: float
    seq: int
    source: str
    event: Event


class Journal:
    """Sequence-numbered records, the newest `capacity` of them.

    They are kept as flat tuples and become events when somebody reads them: most are never read, and the
    garbage collector has no work with tuples of plain values.
    """

    def __init__(self, *, capacity: int = JOURNAL_RECORDS) -> None:
        self._kept: deque[tuple[Any, ...]] = deque(maxlen=capacity)
        self._seq = 0

    def append(self, at: float, source: str, event: Event) -> None:
        """Enter an event."""
        self._seq += 1
        self._kept.append((at, self._seq, source, type(event).__name__, *event))

    def command_finished(
        self,
        at: float,
        source: str,
        name: str,
        db: str,
        request_id: int,
        connection: int,
        lsid: bytes | None,
        txn_number: int | None,
        outcome: str | int,
    ) -> None:
        """Enter a `CommandFinished`, which there is one of for each request."""
        self._seq += 1
        self._kept.append(
            (
                *(at, self._seq, source, _COMMAND_FINISHED),
                *(name, db, request_id, connection, lsid, txn_number, outcome),
            )
        )

    @property
    def records(self) -> Sequence[Record]:
        """A copy of the records, oldest first."""
        return tuple(self)

    @property
    def dropped(self) -> int:
        """How many old records were given up for new ones."""
        return self._seq - len(self._kept)

    def of_kind(self, kind: str) -> Sequence[Record]:
        """Return the records whose event is called `kind`."""
        return tuple(record for record in self if record.event.kind == kind)

    def to_json_lines(self) -> str:
        """Return one JSON object per line; the same records give the same bytes."""
        return "".join(_line(record) + "\n" for record in self)

    @property
    def last_seq(self) -> int:
        """The number of the newest record, 0 before the first."""
        return self._seq

    def since(self, seq: int) -> Sequence[Record]:
        """Return the records newer than number `seq` that are kept, oldest first."""
        newest = list(islice(reversed(self._kept), self._seq - seq))
        return tuple(map(_record, reversed(newest)))

    def __iter__(self) -> Iterator[Record]:
        """Iterate over the records, oldest first."""
        return map(_record, list(self._kept))

    def __len__(self) -> int:
        """Return how many records are kept."""
        return len(self._kept)


def _record(kept: tuple[Any, ...]) -> Record:
    at, seq, source, name = kept[:4]
    event: Event = BY_NAME[name](*kept[4:])
    if isinstance(event, CommandFinished) and event.lsid is not None:
        event = event._replace(lsid=event.lsid[:_UUID_BYTES])  # what follows says whose the session is
    return Record(at, seq, source, event)


def _line(record: Record) -> str:
    document = {"at": record.at, "seq": record.seq, "source": record.source, **to_document(record.event)}
    return json.dumps(document, separators=(",", ":"))

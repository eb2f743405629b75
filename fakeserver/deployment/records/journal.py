"""The record of a deployment's events, in order.

The journal is made while requests are answered and mostly never read. So an entry is a flat tuple of plain
values, with which the garbage collector has no work, and becomes a `Record` when somebody reads it. Requests
and replies stand beside the entries, as the bytes that travelled, within a bound of their own: large ones
make room sooner than the facts about them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from asyncio import FIRST_COMPLETED
from bisect import bisect_left
from collections import Counter, deque
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from bson import json_util

from fakeserver.deployment.records.events import BY_NAME, KIND_OF, CommandFinished, Event, to_document
from fakeserver.deployment.records.record import Details, Exchange, Origin, Record, line_of
from fakeserver.deployment.spec import JOURNAL_BYTES, JOURNAL_RECORDS
from fakeserver.waiting.bell import Bell
from fakeserver.waiting.bystanders import aside

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Callable,
        Container,
        Coroutine,
        Hashable,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )


# A journal, folded to a few lines that keep what matters.
#
# A worker that polls writes hundreds of requests between two events, and pushes the one hit of a fault out of
# the last sixty lines. So what repeats is one line with its count, and what a reader looks for is kept first:
#
# 1. *Events* are what people and faults did: verbs, hits, fail points, elections, servers that went. Each has
#    its line. Of one that comes more than `FEW` times, the first two and the last stay events.
# 2. *Requests* between two events are folded by command, collection, server and outcome, where there are more
#    than `FEW` of one kind. So are connections.
# 3. Where there are too many lines all the same, those of requests that succeeded go first, the oldest of
# them;    then errors of a kind that has a line already; then the oldest.


Document = dict[str, Any]

FEW: Final = 3
"""The number of equal records that have a line each."""

_ORDINARY: Final = frozenset(
    {
        *("commandFinished", "connectionAccepted", "connectionClosed", "connectionQueued", "requestQueued"),
        *("messageReceived", "messageSent"),
    }
)
_BY_COMMAND: Final = ("kind", "command", "namespace", "node", "verdict", "outcome", "writeError")
_VARYING: Final = frozenset({"seq", "at", "date", "connection", "peer", "requestId", "response_to", "text"})


class Fold(NamedTuple):
    """Records of one kind: the first of them, the last, and how many there are."""

    first: Mapping[str, Any]
    last: Mapping[str, Any]
    size: int = 1

    @property
    def is_error(self) -> bool:
        """Whether they are requests that failed."""
        return is_error(self.first)

    @property
    def is_event(self) -> bool:
        """Whether they are what a person or a fault did."""
        return self.first["kind"] not in _ORDINARY

    def to_line(self) -> str:
        """Return them as a line for a reader."""
        line = line_of(self.first)
        if self.size == 1:
            return line
        return f"{line}  ({self.size} times, the last at {self.last['at']:.3f} as #{self.last['seq']})"


def is_error(document: Mapping[str, Any]) -> bool:
    """Return whether a record is a request that failed, or was given up."""
    if document["kind"] == "requestAbandoned":
        return True
    if document["kind"] != "commandFinished":
        return False
    failed = document["outcome"] != "ok" or "writeError" in document or "writeConcernError" in document
    return failed or document["verdict"] == "rejected"


def folded(documents: Iterable[Mapping[str, Any]], most: int) -> tuple[list[Fold], int]:
    """Return the records as folds, `most` at most, and the number of records that are left out."""
    folds = list(_folds(list(documents)))
    # The least of them go first, and of two alike the older.
    known: set[Hashable] = set()
    ranks = []
    for fold in folds:
        key = _key(fold.first)
        ranks.append(2 if fold.is_event or (fold.is_error and key not in known) else int(fold.is_error))
        known.add(key)
    order = sorted(range(len(folds)), key=lambda place: (ranks[place], place))
    gone = set(order[: max(len(folds) - most, 0)])
    kept = [fold for place, fold in enumerate(folds) if place not in gone]
    return kept, sum(fold.size for fold in folds) - sum(fold.size for fold in kept)


def lines_of(documents: Iterable[Mapping[str, Any]], most: int) -> list[str]:
    """Return the records as lines for a reader, `most` at most beside the one that says what is left out."""
    kept, left_out = folded(documents, most)
    told = [f"… {left_out} records left out, of requests that succeeded first"] if left_out else []
    return [*told, *(fold.to_line() for fold in kept)]


def _folds(documents: Sequence[Mapping[str, Any]]) -> Iterator[Fold]:
    events = _events(documents)
    waiting: list[Mapping[str, Any]] = []
    for number, document in enumerate(documents):
        if number in events:
            yield from _folded_by_key(waiting)
            yield Fold(document, document)
            waiting = []
        else:
            waiting.append(document)
    yield from _folded_by_key(waiting)


def _events(documents: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the places of the events: of one that comes often, of the first two and the last."""
    places: dict[Hashable, deque[int]] = {}
    for number, document in enumerate(documents):
        if document["kind"] not in _ORDINARY:
            found = places.setdefault(_key(document), deque())
            found.append(number)
            if len(found) > FEW:
                del found[FEW - 1]
    return {number for found in places.values() for number in found}


def _folded_by_key(documents: Sequence[Mapping[str, Any]]) -> Iterator[Fold]:
    """Yield the folds of records between two events, each at the place of its first record."""
    keys = [_key(document) for document in documents]
    counts = Counter(keys)
    last = dict(zip(keys, documents, strict=True))
    folded_already: set[Hashable] = set()
    for key, document in zip(keys, documents, strict=True):
        if counts[key] <= FEW:
            yield Fold(document, document)
        elif key not in folded_already:
            folded_already.add(key)
            yield Fold(document, last[key], counts[key])


def _key(document: Mapping[str, Any]) -> Hashable:
    if document["kind"] == "commandFinished":
        return tuple(document.get(name) for name in _BY_COMMAND)
    return tuple((name, repr(document[name])) for name in document if name not in _VARYING)


__all__ = ["Journal", "Record"]

COMMAND_FINISHED: Final = CommandFinished.__name__
"""The name of the event of which there is one for each request."""
_UUID_BYTES: Final = 16
_EVENT: Final = 3
"""The position of an event's fields in an entry."""
_DETAILS: Final = _EVENT + len(CommandFinished._fields)
_MOST_FOLDED: Final = 20_000
"""The records that are folded into lines: the newest. Each must be made."""
_HANDSHAKES: Final = frozenset({"hello", "isMaster", "ismaster"})


class Sink(Protocol):
    """A copy of the journal elsewhere."""

    def write(self, record: Record) -> None:
        """Take a record."""

    def close(self) -> None:
        """Take no more."""


class Journal:
    """Sequence-numbered records, the newest `capacity` of them.

    Of requests and replies it keeps the newest `capacity_bytes`. `changed` rings after each record.
    """

    def __init__(
        self,
        *,
        capacity: int = JOURNAL_RECORDS,
        capacity_bytes: int = JOURNAL_BYTES,
        origin: Origin = Origin(),  # noqa: B008 - an immutable value
    ) -> None:
        self._kept: deque[tuple[Any, ...]] = deque(maxlen=capacity)
        """The entries without their numbers, which have no holes: `_seq` is that of the last."""
        self._exchanges: deque[tuple[int, int, bytes, bytes]] = deque()
        """The number of the record, and the fields of an `Exchange`."""
        self._capacity = capacity
        self._capacity_bytes = capacity_bytes
        self._bytes = 0
        self._seq = 0
        self._cleared = 0
        """The number of records that `clear` dropped."""
        self._closed = False
        self.origin = origin
        self.changed = Bell()
        self.sink: Sink | None = None
        """Gets each record as it is entered."""

    def append(self, at: float, source: str, event: Event) -> None:
        """Enter an event."""
        self._seq += 1
        self._kept.append((at, source, type(event).__name__, *event))
        if self.changed.listeners or self.sink is not None:
            self._announce()

    def enter_request(
        self, entry: tuple[Any, ...], op_code: int, payload: bytes | None, reply: bytes = b""
    ) -> None:
        """Enter a request that was dealt with, which is what most records are about.

        `entry` is the instant, the source, `COMMAND_FINISHED`, and the fields of that event and of `Details`.
        The others are the fields of an `Exchange`; without a payload none is kept.
        """
        self._seq += 1
        self._kept.append(entry)
        if payload is not None:
            exchanges = self._exchanges
            if len(exchanges) == self._capacity:
                self._forget_exchange()
            exchanges.append((self._seq, op_code, payload, reply))
            self._bytes += len(payload) + len(reply)
            while self._bytes > self._capacity_bytes:
                self._forget_exchange()
        if self.changed.listeners or self.sink is not None:
            self._announce()

    def _forget_exchange(self) -> None:
        _, _, payload, reply = self._exchanges.popleft()
        self._bytes -= len(payload) + len(reply)

    def _announce(self) -> None:
        if self.sink is not None:
            with aside("the sink of the journal"):
                self.sink.write(self.since(self._seq - 1)[0])
        if self.changed.listeners:
            self.changed.ring()

    # What is read.

    @property
    def records(self) -> Sequence[Record]:
        """A copy of the records, oldest first."""
        return tuple(self)

    @property
    def dropped(self) -> int:
        """The number of old records that were dropped for new ones."""
        return self._seq - len(self._kept) - self._cleared

    @property
    def bytes_kept(self) -> int:
        """The bytes of the requests and replies that are kept."""
        return self._bytes

    def of_kind(self, kind: str) -> Sequence[Record]:
        """Return the records whose event is called `kind`."""
        return tuple(record for record in self if record.event.kind == kind)

    def to_json_lines(self) -> str:
        """Return one JSON object per line; the same records give the same bytes."""
        documents = (
            {"at": record.at, "seq": record.seq, "source": record.source, **to_document(record.event)}
            for record in self
        )
        return "".join(json.dumps(document, separators=(",", ":")) + "\n" for document in documents)

    def to_text(self, last: int | None = None, *, whole: bool = False, folded: bool = False) -> str:
        """Return the `last` records, or all, as lines for a reader.

        Left out are the heartbeats that succeed, unless it is to be `whole`. `folded` makes `last` lines of
        the newest records, in which what repeats is one line, and verbs, hits and errors are kept first.
        """
        if folded:
            records = self.since(max(self._seq - _MOST_FOLDED, 0))
            read = [each.to_document() for each in records if whole or not _is_heartbeat(each)]
            lines = lines_of(read, len(read) if last is None else last)
            return "".join(line + "\n" for line in lines)
        shown = (record for record in self.newest_first() if whole or not _is_heartbeat(record))
        newest = list(islice(shown, last))
        return "".join(record.to_line() + "\n" for record in reversed(newest))

    @property
    def last_seq(self) -> int:
        """The number of the newest record, 0 before the first."""
        return self._seq

    def since(self, seq: int, limit: int | None = None) -> Sequence[Record]:
        """Return the records newer than number `seq` that are kept, oldest first: the first `limit` of them.

        The cost is that of the records that are returned.
        """
        last = self._seq
        newer = min(max(last - seq, 0), len(self._kept))
        first = last - newer + 1
        if limit is None or newer <= limit:
            chosen = list(islice(reversed(self._kept), newer))[::-1]
            beside = list(islice(reversed(self._exchanges), newer))
        else:
            skipped = len(self._kept) - newer
            chosen = list(islice(self._kept, skipped, skipped + limit))
            start = bisect_left(self._exchanges, first, key=itemgetter(0))
            beside = list(islice(self._exchanges, start, start + limit))
        exchanges = {each[0]: each for each in beside}
        return tuple(
            self._record(number, entry, exchanges.get(number)) for number, entry in enumerate(chosen, first)
        )

    def newest_first(self) -> Iterator[Record]:
        """Yield the records, the newest first, each made when it is asked for."""
        return self.select(newest_first=True)

    def select(
        self,
        *,
        since: int = 0,
        kinds: Container[str] | None = None,
        commands: Container[str] | None = None,
        newest_first: bool = False,
    ) -> Iterator[Record]:
        """Yield the records newer than number `since` of some kinds, each made when it is asked for.

        Requests of other commands than `commands` are left out; one that was not read may be of any. What is
        left out costs a tenth of a record.
        """
        kept = list(islice(reversed(self._kept), max(self._seq - since, 0)))
        exchanges = {each[0]: each for each in list(islice(reversed(self._exchanges), len(kept)))}
        numbered = zip(range(self._seq, 0, -1), kept, strict=False)
        for seq, entry in numbered if newest_first else reversed(list(numbered)):
            kind, name = entry[2], entry[_EVENT]
            if kinds is not None and KIND_OF[kind] not in kinds:
                continue
            if commands is not None and kind == COMMAND_FINISHED and name and name not in commands:
                continue
            yield self._record(seq, entry, exchanges.get(seq))

    async def follow(self, since: int | None = None) -> AsyncIterator[Record]:
        """Yield the records newer than number `since`, then each as it comes; without it the new ones alone.

        It ends when the deployment stops. A reader that is slower than the journal forgets misses records,
        which their numbers show.
        """
        seen = self._seq if since is None else since
        while True:
            for record in self.since(seen):
                seen = record.seq
                yield record
            if self._closed:
                return
            if seen >= self._seq:
                await self._another()

    async def until(self, condition: Callable[[], bool], deadline: Coroutine[Any, Any, None]) -> None:
        """Return when a record made a condition true, at the end of `deadline`, or with the deployment."""
        timer = asyncio.ensure_future(deadline)
        try:
            while not (condition() or timer.done() or self._closed):
                await self._another(timer)
        finally:
            timer.cancel()

    async def _another(self, timer: asyncio.Future[None] | None = None) -> None:
        """Wait for a record, or for the timer."""
        entered = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not entered.done():
                entered.set_result(None)

        number = self.changed.listen(wake)
        try:
            await (entered if timer is None else asyncio.wait({entered, timer}, return_when=FIRST_COMPLETED))
        finally:
            self.changed.ignore(number)

    def clear(self) -> int:
        """Forget every record, and return how many there were; the numbers go on."""
        count = len(self._kept)
        self._kept.clear()
        self._exchanges.clear()
        self._bytes = 0
        self._cleared += count
        return count

    def close(self) -> None:
        """End those who follow, and the sink: nothing will be entered any more."""
        self._closed = True
        self.changed.ring()
        if self.sink is not None:
            self.sink.close()
            self.sink = None

    def __iter__(self) -> Iterator[Record]:
        """Iterate over the records, oldest first."""
        return iter(self.since(0))

    def __len__(self) -> int:
        """Return the number of records that are kept."""
        return len(self._kept)

    def _record(
        self, seq: int, entry: tuple[Any, ...], exchange: tuple[int, int, bytes, bytes] | None
    ) -> Record:
        at, source, name = entry[:_EVENT]
        if name != COMMAND_FINISHED:
            return Record(at, seq, source, BY_NAME[name](*entry[_EVENT:]), origin=self.origin)
        event = CommandFinished(*entry[_EVENT:_DETAILS])
        if event.lsid is not None:
            event = event._replace(lsid=event.lsid[:_UUID_BYTES])  # the digest of the user follows
        details = Details(*entry[_DETAILS:]) if len(entry) > _DETAILS else None
        both = None if exchange is None else Exchange(*exchange[1:])
        return Record(at, seq, source, event, details, both, self.origin)


def _is_heartbeat(record: Record) -> bool:
    event = record.event
    return isinstance(event, CommandFinished) and event.name in _HANDSHAKES and event.outcome == "ok"


_LOGGER: Final = logging.getLogger(__name__)


class JournalFile:
    """Appends records, with the documents of requests and replies, to a file.

    A file that cannot be written to any more is given up, and the deployment goes on.
    """

    def __init__(self, path: str) -> None:
        """Check that the file can be written to. Raises `OSError`."""
        self._path = Path(path)
        self._path.open("a").close()
        self._file: IO[str] | None = None
        self._given_up = False

    def write(self, record: Record) -> None:
        """Write a record, which is in the file when this returns."""
        if self._given_up:
            return
        document = record.to_document(documents=True)
        line = json_util.dumps(document, json_options=json_util.RELAXED_JSON_OPTIONS)
        try:
            if self._file is None:
                self._file = self._path.open("a", buffering=1, encoding="utf-8")
            self._file.write(line + "\n")
        except OSError as error:
            self._given_up = True
            _LOGGER.error("the journal's file is given up: %s", error)  # noqa: TRY400 - one line says it all
            self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

"""The order of writes: operation times, and the changes of each.

A deployment has one oplog, and members have positions in it (an `OpTime` each), instead of a copy each. Write
concerns wait until members reach a position, change streams read on from one, snapshot reads and rollbacks
undo the changes behind one. An entry holds documents before and after, which are values of the storage: it
costs a few references, and `local.oplog.rs` makes a server's form of it when somebody reads that.

Times only grow: an entry is later than all before it, even where the clock stands still or is set back.
`OpTime`s compare by time first and then by term, a server's by term first. Both give one order here, because
a new term goes on from the last time of the old one.
"""

from __future__ import annotations

import datetime as dt
import struct
from collections import deque
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import bson
from bson import Int64, Timestamp

from fakeserver.storage.port.engine import Stats
from fakeserver.waiting.bell import Bell
from fakeserver.waiting.bystanders import tell
from mongowire.framing import elements_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bson import Binary

    from fakeserver.storage.port.engine import Changed, Namespace

# How far change streams and snapshot reads reach back (docs/LIMITS.md): operations, and bytes of documents.
_CAPACITY: Final = 10_000
_CAPACITY_BYTES: Final = 128 * 1024 * 1024
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 -- BSON dates are decoded as naive UTC
_TIMESTAMP: Final = struct.Struct("<II")
_new: Final = tuple.__new__


class OpTime(NamedTuple):
    """The time of an operation, in the total order of its set."""

    seconds: int
    increment: int
    term: int

    @property
    def timestamp(self) -> Timestamp:
        return Timestamp(self.seconds, self.increment)

    @property
    def document(self) -> dict[str, Any]:
        """As `lastWrite.opTime` shows it."""
        return {"ts": self.timestamp, "t": Int64(self.term)}


_NO_DETAIL: Final[Mapping[str, Any]] = {}


class Written(NamedTuple):
    """One change: of a document, or (`ns` is `db.$cmd`, `change.after` the command) of collections.

    `uuid` is the collection's, `images` whether it keeps pre- and post-images; `detail` is what a change of
    collections holds besides its command, such as the indexes that it dropped.
    """

    ns: Namespace
    change: Changed
    uuid: Binary | None = None
    images: bool = False
    detail: Mapping[str, Any] = _NO_DETAIL


class OplogEntry(NamedTuple):
    """One operation: the changes that it made at once; one without changes moves time alone.

    `utc` is when it was made, in seconds since the Unix epoch. `session_id` and `txn_number` are those of the
    transaction that it commits.
    """

    optime: OpTime
    changes: tuple[Written, ...]
    utc: float
    session_id: bytes | None = None
    txn_number: int | None = None

    @property
    def wall(self) -> dt.datetime:
        """Its date and time as BSON has them, to the millisecond."""
        return _EPOCH + dt.timedelta(milliseconds=int(self.utc * 1000))


def _nothing(*_facts: object) -> None:
    """Do nothing: nobody listens."""


class Oplog:
    """The operations of one deployment, the newest of them kept; the position of each member is an optime.

    `utc` returns seconds since the Unix epoch. Kept are `capacity` operations at most, and no more than come
    to `capacity_bytes` with their documents, as a server's oplog has a size.
    """

    def __init__(
        self,
        utc: Callable[[], float],
        *,
        capacity: int = _CAPACITY,
        capacity_bytes: int = _CAPACITY_BYTES,
    ) -> None:
        self._utc = utc
        self._capacity = capacity
        self._capacity_bytes = self._left = capacity_bytes
        self._entries: deque[OplogEntry] = deque()
        self.term = 1
        self.last = OpTime(int(utc()), 0, self.term)
        self.forgotten: OpTime | None = None
        """The newest operation that is no longer kept."""
        self.grown = Bell()
        self.on_append: Callable[[], None] = _nothing
        """Called before an operation is entered: whoever looks at the oplog from time to time catches up."""
        self.on_appended: Callable[[OpTime], None] = _nothing
        """Called with the time of an operation that was entered."""

    def append(
        self,
        changes: Sequence[Written] = (),
        *,
        session_id: bytes | None = None,
        txn_number: int | None = None,
    ) -> OpTime:
        """Enter an operation and return its time, later than all before it.

        The changes of a transaction have one time; its session and number say whose they are.
        """
        # Listeners are bystanders: what they raise is told, and fails no write.
        try:
            self.on_append()
        except Exception as error:  # noqa: BLE001 - a bystander
            tell("who looks at the oplog", error)
        last = self.last
        utc = self._utc()
        seconds, increment = int(utc), 1
        # Within a second, and while the clock is behind, the increment grows instead.
        if seconds <= last.seconds:
            seconds, increment = last.seconds, last.increment + 1
        # What the named tuples' own constructors do, at half their cost.
        self.last = optime = _new(OpTime, (seconds, increment, self.term))
        entries = self._entries
        entries.append(_new(OplogEntry, (optime, tuple(changes), utc, session_id, txn_number)))
        for written in changes:
            self._left -= written.change.size
        # The newest entry stays, however large: who waits for its time must find it.
        while len(entries) > self._capacity or (self._left < 0 and len(entries) > 1):
            forgotten = entries.popleft()
            self.forgotten = forgotten.optime
            for written in forgotten.changes:
                self._left += written.change.size
        try:
            self.on_appended(optime)
        except Exception as error:  # noqa: BLE001 - likewise
            tell("who looks at the oplog", error)
        if self.grown.listeners:
            self.grown.ring()
        return optime

    @property
    def stats(self) -> Stats:
        """The number of operations that are kept, and the bytes of their documents."""
        return Stats(len(self._entries), self._capacity_bytes - self._left)

    @property
    def capacity_bytes(self) -> int:
        """The bytes of documents that are kept at most."""
        return self._capacity_bytes

    def until(self, optime: OpTime) -> Oplog:
        """Return an oplog with the operations up to `optime`, for a set that goes another way from there.

        What it enters is later than all that this one has: clients carry times from one to the other.
        """
        branch = Oplog(self._utc, capacity=self._capacity, capacity_bytes=self._capacity_bytes)
        branch._entries.extend(entry for entry in self._entries if entry.optime <= optime)
        branch._left -= sum(written.change.size for entry in branch._entries for written in entry.changes)
        branch.term, branch.last, branch.forgotten = self.term, self.last, self.forgotten
        return branch

    def forget(self) -> None:
        """Drop all operations, and enter one without changes: the data are others now, and time goes on."""
        self._entries.clear()
        self._left = self._capacity_bytes
        self.forgotten = self.last
        self.append()

    def reaches_back_to(self, time: Timestamp) -> bool:
        """Return whether all operations later than `time` are kept."""
        return self.forgotten is None or self.forgotten.timestamp <= time

    def after(self, time: Timestamp) -> list[OplogEntry]:
        """Return the kept operations later than `time`, the oldest first."""
        found = takewhile(lambda entry: entry.optime.timestamp > time, reversed(self._entries))
        return list(found)[::-1]

    def since(self, optime: OpTime) -> Iterator[OplogEntry]:
        """Iterate over the kept operations later than `optime`."""
        return iter(self._after(lambda entry: entry.optime > optime))

    def from_time(self, timestamp: Timestamp) -> list[OplogEntry]:
        """Return the kept operations of `timestamp` and later."""
        return self._after(lambda entry: entry.optime[:2] >= (timestamp.time, timestamp.inc))

    # From the newest backwards, since readers are nearly always at the end of the oplog.
    def _after(self, wanted: Callable[[OplogEntry], bool]) -> list[OplogEntry]:
        """Return the newest operations, all of which are wanted, at a cost of their number alone."""
        newest = list(takewhile(wanted, reversed(self._entries)))
        newest.reverse()
        return newest


class ClusterTime:
    """The latest time that a deployment has heard of, its own or a client's (`Cluster time gossip`)."""

    def __init__(self, oplog: Oplog) -> None:
        self._oplog = oplog
        self._heard = (0, 0)
        self._elements = b""
        self._elements_of: tuple[OpTime, tuple[int, int]] | None = None

    def advance(self, heard: Timestamp) -> None:
        """Take note of a client's `$clusterTime.clusterTime`."""
        self._heard = max(self._heard, (heard.time, heard.inc))

    @property
    def latest(self) -> Timestamp:
        """The time itself."""
        return Timestamp(*max(self._heard, self._oplog.last[:2]))

    def fields(self) -> dict[str, Any]:
        """Return `$clusterTime` and `operationTime`."""
        return _gossip(self.latest, self._oplog.last.timestamp)

    def elements(self) -> bytes:
        """Return the same as BSON elements, to be put at the end of a reply."""
        last, heard = self._oplog.last, self._heard
        # Made anew when a time has changed: between two writes all replies carry the same bytes.
        if self._elements_of != (last, heard):
            self._elements_of = (last, heard)
            self._elements = _GOSSIP % (_in_bson(max(heard, last[:2])), _in_bson(last[:2]))
        return self._elements


def gossip_of(cluster_time: Timestamp, operation_time: Timestamp) -> bytes:
    """Return `$clusterTime` and `operationTime` as BSON elements."""
    times = ((time.time, time.inc) for time in (cluster_time, operation_time))
    return _GOSSIP % tuple(_in_bson(time) for time in times)


def _gossip(cluster_time: Timestamp, operation_time: Timestamp) -> dict[str, Any]:
    signature = {"hash": bytes(20), "keyId": Int64(0)}
    return {
        "$clusterTime": {"clusterTime": cluster_time, "signature": signature},
        "operationTime": operation_time,
    }


def _in_bson(time: tuple[int, int]) -> bytes:
    seconds, increment = time
    return _TIMESTAMP.pack(increment, seconds)


def _template() -> bytes:
    """Return the encoded gossip with `%b` for each of its two times.

    Filling in eight bytes twice costs a fraction of an encoding, and every reply of a set has the two fields.
    """
    marker = (0x5EC0_4D51, 0x14C0_4E57)
    elements = elements_of(bson.encode(_gossip(Timestamp(*marker), Timestamp(*marker))))
    return elements.replace(b"%", b"%%").replace(_in_bson(marker), b"%b")


_GOSSIP: Final = _template()

"""The order of writes: operation times, and what was written at each."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Int64, Timestamp

from fakeserver.waiting import Bell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fakeserver.storage.engine import Changed, Namespace

_CAPACITY: Final = 10_000
_INCREMENT_LIMIT: Final = (1 << 31) - 1


class OpTime(NamedTuple):
    """When an operation was written, in the total order of its set."""

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


class OplogEntry(NamedTuple):
    """One operation: a change of data, or a no-operation (`ns` is None) that moves time alone."""

    optime: OpTime
    ns: Namespace | None
    change: Changed | None


class Oplog:
    """The operations of one deployment, the newest of them kept; the position of each member is an optime.

    `utc` returns seconds since the Unix epoch.
    """

    def __init__(self, utc: Callable[[], float], *, capacity: int = _CAPACITY) -> None:
        self._utc = utc
        self._entries: deque[OplogEntry] = deque(maxlen=capacity)
        self.term = 1
        self.last = OpTime(int(utc()), 0, self.term)
        self.grown = Bell()

    def append(self, ns: Namespace | None = None, change: Changed | None = None) -> OpTime:
        """Enter an operation and return its time, later than all before it."""
        last = self.last
        seconds = int(self._utc())
        if seconds > last.seconds:
            self.last = optime = OpTime(seconds, 1, self.term)
        else:
            self.last = optime = OpTime(last.seconds, last.increment + 1, self.term)
        self._entries.append(OplogEntry(optime, ns, change))
        if len(self.grown):
            self.grown.ring()
        return optime

    def since(self, optime: OpTime) -> Iterator[OplogEntry]:
        """Iterate over the kept operations later than `optime`."""
        return (entry for entry in list(self._entries) if entry.optime > optime)


class ClusterTime:
    """The latest time that a deployment has heard of, its own or told by a client (`Cluster time gossip`)."""

    def __init__(self, oplog: Oplog) -> None:
        self._oplog = oplog
        self._told = (0, 0)
        self._fields: dict[str, Any] = {}
        self._fields_of: tuple[OpTime, tuple[int, int]] | None = None

    def advance(self, told: Timestamp) -> None:
        """Take note of a client's `$clusterTime.clusterTime`."""
        self._told = max(self._told, (told.time, told.inc))

    def fields(self) -> dict[str, Any]:
        """Return `$clusterTime` and `operationTime`: one dictionary for many replies, not to be changed."""
        state = (self._oplog.last, self._told)
        if self._fields_of != state:
            self._fields_of, self._fields = state, self._render(*state)
        return self._fields

    @staticmethod
    def _render(last: OpTime, told: tuple[int, int]) -> dict[str, Any]:
        signature = {"hash": bytes(20), "keyId": Int64(0)}
        cluster_time = Timestamp(*max(told, last[:2]))
        return {
            "$clusterTime": {"clusterTime": cluster_time, "signature": signature},
            "operationTime": last.timestamp,
        }

"""Cursors: results that are handed out in batches, and the cursors that a server has open."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.storage.values.limits import Room, surely_fit
from fakeserver.storage.values.pacing import PACE
from fakeserver.waiting.interrupts import check_for_interrupt
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Container, Iterator, Mapping

    from bson import Timestamp

    from fakeserver.storage.port.engine import Document, Namespace
    from mongowire.ports import Rng

_FEW: Final = 1000
"""Documents whose bytes are added up at once."""
IDLE_TIMEOUT: Final = 600.0
"""The seconds after which an unused cursor is forgotten, unless `cursorTimeoutMillis` says otherwise."""


@dataclass(slots=True, eq=False)
class Cursor:
    """Results that are left to be fetched."""

    ns: Namespace
    pending: deque[Document]
    """The results that have not been fetched."""
    origin: Mapping[str, Any]
    """The command that opened it."""
    session_id: bytes | None = None
    owner: frozenset[tuple[str, str]] = frozenset()
    """The users who opened it, each a name and a database."""
    privileges: object = None
    """Those that were last found to permit what opened it, told by identity; None without access control."""
    txn_number: int | None = None
    small: bool = False
    """All results surely fit into one reply, so their sizes are not added up."""
    counted: bool = False
    """The last result is known to be the last, as that of a list or of a limit is."""
    ended: bool = False
    """A batch has looked for one more result, and there was none: how other cursors notice their end."""
    at: Timestamp | None = None
    """The time of its snapshot."""
    time_left: float | None = None
    """The seconds that the opening command left of its `maxTimeMS`."""
    no_timeout: bool = False
    refill: Callable[[], list[Document]] | None = None
    """Fetches the results that have come since; a cursor that has it is tailable and never exhausted."""
    await_data: bool = False
    """A getMore waits for results."""
    death: CommandError | None = None
    """The error of a cursor that can give no more results."""
    in_use: bool = False
    """A getMore works on it."""
    id: int = 0
    last_use: float = 0.0
    """The instant of its opening, or of its last getMore."""

    def take(self, limit: int | None) -> list[Document]:
        """Return the next documents: at most `limit`, and no more bytes than a reply can hold."""
        if self.refill is not None and not self.pending:
            self.pending.extend(self.refill())
        count = len(self.pending) if limit is None else min(limit, len(self.pending))
        small = self.small or (count <= _FEW and surely_fit(islice(self.pending, count)))
        if not small:
            batch = self._fitting(count)
        elif count == len(self.pending):
            batch = list(self.pending)
            self.pending.clear()
        else:
            batch = [self.pending.popleft() for _ in range(count)]
        if not self.pending and (limit is None or len(batch) < limit):
            self.ended = True
        return batch

    def _fitting(self, count: int) -> list[Document]:
        batch: list[Document] = []
        room = Room()
        # It admits a first document of any size: a result is never too large to be fetched at all.
        while len(batch) < count and room.admits(self.pending[0]):
            if not len(batch) % PACE:
                check_for_interrupt()
            batch.append(self.pending.popleft())
        return batch

    def fields(self) -> Document:
        """Return the fields of a batch beside its documents."""
        return {}

    @property
    def is_change_stream(self) -> bool:
        """Whether it is a change stream's: it outlives its collection, and its errors are labelled."""
        return False

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left, and nothing will come."""
        return not self.pending and self.refill is None and (self.counted or self.ended)


@dataclass(slots=True)
class CursorStore:
    """The open cursors of one node, by id. Instants are seconds of the caller's clock."""

    rng: Rng
    timeout: float = IDLE_TIMEOUT
    cursors: dict[int, Cursor] = field(default_factory=dict)
    opened: int = 0
    timed_out: int = 0
    _idle_since: float = math.inf
    """No cursor that times out was used for the last time before this instant."""

    def open(self, cursor: Cursor, now: float) -> int:
        """Keep a cursor and return its id, a positive 63-bit number drawn from the server's `rng`."""
        self.expire(now)
        while cursor.id == 0 or cursor.id in self.cursors:
            cursor.id = int.from_bytes(self.rng.randbytes(8), "big") >> 1
        cursor.last_use = now
        self._idle_since = min(self._idle_since, now)
        self.opened += 1
        self.cursors[cursor.id] = cursor
        return cursor.id

    def get(self, cursor_id: int, now: float) -> Cursor:
        """Return an open cursor. Raises `CommandError` 43."""
        self.expire(now)
        cursor = self.cursors.get(cursor_id)
        if cursor is None:
            raise CommandError(ErrorCode.CURSOR_NOT_FOUND, f"cursor id {cursor_id} not found")
        cursor.last_use = now
        return cursor

    def kill(self, cursor_id: int) -> bool:
        """Forget a cursor; return whether it was open."""
        return self.cursors.pop(cursor_id, None) is not None

    def kill_session(self, session_id: bytes) -> int:
        """Forget the cursors that a session opened; return their number."""
        owned = [cursor.id for cursor in self if cursor.session_id == session_id]
        return sum(self.kill(cursor_id) for cursor_id in owned)

    def clear(self) -> None:
        """Forget all cursors."""
        self.cursors.clear()

    def keep_sessions(self, known: Container[bytes]) -> None:
        """Forget the cursors whose sessions are no longer known."""
        for cursor in self:
            if cursor.session_id is not None and cursor.session_id not in known:
                del self.cursors[cursor.id]

    def expire(self, now: float) -> None:
        """Forget the cursors that were idle for the timeout."""
        if now - self._idle_since <= self.timeout:
            return
        self._idle_since = math.inf
        for cursor in self:
            # A cursor of a session lives as long as the session, which the client refreshes.
            if cursor.no_timeout or cursor.session_id is not None:
                continue
            if now - cursor.last_use > self.timeout:
                self.timed_out += 1
                del self.cursors[cursor.id]
            else:
                self._idle_since = min(self._idle_since, cursor.last_use)

    def invalidate(self, ns: Namespace, error: CommandError) -> None:
        """Have the cursors over a collection that is gone answer with `error`."""
        for cursor in self:
            if cursor.ns == ns and not cursor.is_change_stream:
                cursor.death = error

    def invalidate_all(self, error: CommandError) -> None:
        """Have all open cursors answer with `error`, change streams too: the data are not what they were."""
        for cursor in self:
            cursor.death, cursor.refill = error, None
            cursor.pending.clear()

    def __iter__(self) -> Iterator[Cursor]:
        """Iterate over the open cursors, the oldest first."""
        return iter(list(self.cursors.values()))

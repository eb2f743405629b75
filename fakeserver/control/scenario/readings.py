"""Readings for the triggers of a timeline: numbers of requests, rates, connections, the primary."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fakeserver.deployment.records.events import CommandFinished, ConnectionAccepted, ConnectionClosed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeserver.deployment.records.journal import Record

UNCOUNTED: Final = frozenset(
    {
        *("hello", "isMaster", "ismaster", "saslStart", "saslContinue", "authenticate", "logout", "getnonce"),
        *("endSessions", "pushbackd", "configureFailPoint"),
    }
)
"""Commands that are no requests of an application: handshakes, monitoring, authentication, control.

Their number depends on time and on the driver, so no trigger may depend on it.
"""

_REJECTED: Final = frozenset({462, 433})
_WINDOW: Final = 1.0


@dataclass(slots=True)
class Readings:
    """The quantities of conditions (`triggers.QUANTITIES`).

    The records of the journal tell of requests and connections; the rest is set by who knows.
    """

    requests: int = 0
    errors: int = 0
    rejections: int = 0
    connections: int = 0
    """The connections by the records of the journal, which tell of an end before it is over."""
    held: float = math.inf
    """The connections that the servers hold, those that are about to end among them."""
    queued: int = 0
    primary: str | None = None
    by_command: Counter[str] = field(default_factory=Counter)
    now: float = 0.0
    _recent: dict[str, deque[float]] = field(
        default_factory=lambda: {name: deque() for name in ("requests", "errors", "rejections")}
    )

    def note(self, records: Iterable[Record]) -> None:
        """Take records of the journal into account."""
        for record in records:
            event = record.event
            if isinstance(event, ConnectionAccepted):
                self.connections += 1
            elif isinstance(event, ConnectionClosed):
                self.connections -= 1
            elif isinstance(event, CommandFinished) and event.name not in UNCOUNTED:
                self._finished(record.at, event)

    def _finished(self, at: float, event: CommandFinished) -> None:
        self.by_command[event.name] += 1
        kinds = ["requests"]
        if event.outcome != "ok":
            kinds.append("errors")
        if event.outcome in _REJECTED:
            kinds.append("rejections")
        for kind in kinds:
            setattr(self, kind, getattr(self, kind) + 1)
            self._recent[kind].append(at)
            self._forget(kind, at)

    def answered(self, command: str = "") -> int:
        """Return the number of requests answered, of one command where it is named."""
        return self.by_command[command] if command else self.requests

    def of(self, quantity: str) -> Any:
        """Return a quantity by its name in conditions."""
        name, per, _ = quantity.partition("/")
        if name == "connections":
            return min(self.connections, self.held)
        if not per:
            return getattr(self, name)
        self._forget(name, self.now)
        return len(self._recent[name])

    def _forget(self, kind: str, now: float) -> None:
        recent = self._recent[kind]
        while recent and recent[0] <= now - _WINDOW:
            recent.popleft()

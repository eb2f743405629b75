"""What a server says of itself, in the shape of a mongod's log."""

from __future__ import annotations

import json
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_CAPACITY: Final = 1024


class ServerLog:
    """The newest lines, for `getLog`, and a `sink` that sees each as it comes.

    `utc` returns seconds since the Unix epoch.
    """

    def __init__(self, utc: Callable[[], float], sink: Callable[[str], None] | None = None) -> None:
        self._utc = utc
        self._sink = sink
        self._lines: deque[dict[str, Any]] = deque(maxlen=_CAPACITY)
        self.total = 0

    def write(
        self,
        component: str,
        number: int,
        message: str,
        *,
        context: str,
        severity: str = "I",
        attr: Mapping[str, Any] | None = None,
    ) -> None:
        """Log one message; `number` is the one that a mongod gives this message."""
        at = datetime.fromtimestamp(self._utc(), UTC).isoformat(timespec="milliseconds")
        line = {"t": {"$date": at}, "s": severity, "c": component, "id": number, "svc": "S"}
        line |= {"ctx": context, "msg": message} | ({"attr": dict(attr)} if attr else {})
        self._lines.append(line)
        self.total += 1
        if self._sink is not None:
            self._sink(json.dumps(line))

    @property
    def lines(self) -> Sequence[str]:
        """The lines kept, oldest first."""
        return [json.dumps(line) for line in self._lines]

"""What a server says of itself, in the shape of a mongod's log."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bson import json_util

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
            self._sink(_text(line))

    @property
    def lines(self) -> Sequence[str]:
        """The lines kept, oldest first."""
        return [_text(line) for line in self._lines]


def _text(line: Mapping[str, Any]) -> str:
    """Return a line as JSON; BSON's own types as Extended JSON has them."""
    return json_util.dumps(line, json_options=json_util.RELAXED_JSON_OPTIONS)

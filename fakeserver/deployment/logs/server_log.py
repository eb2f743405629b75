"""The log of a server, in the format of a mongod's.

`attr.node` of every line names the server that speaks: the logs of all servers are one stream, and readers of
a mongod's log leave `attr` open, while its outer fields are fixed. A line is bounded, as by a mongod's
`maxLogSizeKB`: what does not fit is left out of `attr`, and named in `truncated`. It becomes text when it is
read, which few lines are.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bson import json_util

from fakeserver.errors import CommandError
from fakeserver.settings import log_components
from fakeserver.waiting.bystanders import aside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.storage.port.engine import Document


CAPACITY: Final = 1024
_LONGEST: Final = 10 * 1024
"""The characters of the values in `attr`."""
_SCALAR: Final = 8
"""What a value costs whose size is not looked at, in characters."""


class ServerLog:
    """The newest lines, for `getLog`, and a `sink` that sees each as it comes.

    `utc` returns seconds since the Unix epoch. Lines of a level above `level` are not written.
    """

    def __init__(
        self,
        utc: Callable[[], float],
        sink: Callable[[str], None] | None = None,
        *,
        node: str = "",
        level: int = 0,
    ) -> None:
        self._utc = utc
        self._sink = sink
        self._node = node
        self._lines: deque[tuple[float, Mapping[str, Any]]] = deque(maxlen=CAPACITY)
        """The instant of each line, in seconds since the Unix epoch, and its other fields."""
        self.level = level
        self._levels: Mapping[str, int] = {}
        """The verbosity (`logLevel`): 0 for what an operator wants to see, 1 to 5 for debugging."""
        self.total = 0

    def listen(self, verbosity: Mapping[str, Any]) -> None:
        """Take the verbosity of each component, as `logComponentVerbosity` has it."""
        self.level = verbosity["verbosity"]
        self._levels = log_components.levels(verbosity)

    def write(
        self,
        component: str,
        number: int,
        message: str,
        *,
        context: str,
        severity: str = "I",
        level: int = 0,
        attr: Mapping[str, Any] | None = None,
    ) -> None:
        """Log one message; `number` is the one that a mongod gives this message.

        One of `level` 1 to 5 is for debugging, and has the severity of its level.
        """
        if level and level > self._levels.get(component, self.level):
            return
        with aside("the log"):
            self._write(component, number, message, context, f"D{level}" if level else severity, attr or {})

    def _write(
        self,
        component: str,
        number: int,
        message: str,
        context: str,
        severity: str,
        attr: Mapping[str, Any],
    ) -> None:
        fields: dict[str, Any] = {"s": severity, "c": component, "id": number}
        fields |= {"svc": "S", "ctx": context, "msg": message}
        shown, truncated = {}, {}
        room = _Room(_LONGEST)
        for name, value in attr.items():
            room.is_short = False
            shown[name] = room.take(value)
            if room.is_short:
                truncated[name] = {"type": type(value).__name__}
        if self._node:
            shown["node"] = self._node
        fields |= ({"attr": shown} if shown else {}) | ({"truncated": truncated} if truncated else {})
        at = self._utc()
        self._lines.append((at, fields))
        self.total += 1
        if self._sink is not None:
            self._sink(_text(at, fields))

    @property
    def lines(self) -> Sequence[str]:
        """The lines kept, oldest first."""
        return [_text(*line) for line in self._lines]


def _text(at: float, fields: Mapping[str, Any]) -> str:
    date = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    line = {"t": {"$date": date}, **fields}
    return json_util.dumps(line, json_options=json_util.RELAXED_JSON_OPTIONS, default=_stand_in)


def _stand_in(value: Any) -> Any:
    """Return a value as Extended JSON has it, and text for what BSON has no type for."""
    try:
        return json_util.default(value, json_util.RELAXED_JSON_OPTIONS)
    except TypeError:
        return str(value)


class _Room:
    """The characters that are left for a line: a value is looked at no further than it is shown."""

    def __init__(self, left: int) -> None:
        self._left = left
        self.is_short = False
        """Something did not fit."""

    def take(self, value: Any) -> Any:
        """Return a value without what does not fit."""
        if isinstance(value, dict):
            return {name: self.take(each) for name, each in value.items() if self._has(len(name))}
        if isinstance(value, list | tuple):
            return [self.take(each) for each in value if self._has(_SCALAR)]
        if isinstance(value, str | bytes):
            fits = max(self._left, 0)
            self._has(len(value))
            return value[:fits]
        self._has(_SCALAR)
        return value

    def _has(self, size: int) -> bool:
        has = self._left > 0
        self._left -= size
        self.is_short = self.is_short or self._left < 0
        return has


# The settings of the profiler, and which operations they record (`profile`).


_ALL: Final = 2
_SLOW_MS: Final = 100


@dataclass(slots=True)
class Profiling:
    """The settings of the profiler: `levels` by database; level 1 is for `slow_ms`, or for `filter`."""

    levels: dict[str, int] = field(default_factory=dict)
    slow_ms: int = _SLOW_MS
    sample_rate: float = 1.0
    filter: Document | None = None
    matches: Callable[[Document], bool] | None = None

    def wants(self, db: str, entry: Document, draw: Callable[[], float]) -> bool:
        """Say whether an operation is recorded; `draw` gives a number from 0 to 1."""
        level = self.levels.get(db, 0)
        if not level:
            return False
        if self.matches is not None:
            try:
                return self.matches(entry)
            except CommandError:
                return False  # as on a server: a filter that fails on an entry does not match it
        return level == _ALL or (entry["millis"] >= self.slow_ms and draw() < self.sample_rate)

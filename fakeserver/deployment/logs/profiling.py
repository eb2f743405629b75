"""The settings of the profiler, and which operations they record (`profile`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from fakeserver.errors import CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.storage.port.engine import Document

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

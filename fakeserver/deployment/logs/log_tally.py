"""Events that may come thousands of times a second: each is logged once a second, with how often it came."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.deployment.logs.log_lines import counted_line, rejected_line
from fakeserver.deployment.records.events import FailPointHit, FaultHit, RuleHit
from fakeserver.waiting.bystanders import aside, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.deployment.server import Server

Counted: TypeAlias = FailPointHit | FaultHit | RuleHit | str

_ABOUT: Final[Mapping[type, Callable[[Any], tuple[str, ...]]]] = {
    FailPointHit: itemgetter(0, 1, 3),
    RuleHit: itemgetter(0, 1, 3),
    FaultHit: itemgetter(0, 2, 3),
}
"""The fields of an event but its connection."""
_PERIOD: Final = 1.0
_MOST: Final = 100
"""The different messages of a period; the next one ends it early."""


class LogTally:
    """The events of one server's current second: hits, and rejections by the name of the mechanism."""

    def __init__(self, node: Server) -> None:
        self._node = node
        self._counts: dict[object, int] = {}
        self._first: dict[object, Counted] = {}

    def add(self, what: Counted) -> None:
        """Count an event. Those of different connections are alike."""
        try:
            self._add(what)
        except Exception as error:  # noqa: BLE001 -- it looks on
            tell("the tally of the log", error)

    def _add(self, what: Counted) -> None:
        key = what if isinstance(what, str) else (type(what), _ABOUT[type(what)](what))
        count = self._counts.get(key)
        if count is not None:
            self._counts[key] = count + 1
            return
        if len(self._counts) == _MOST:
            self.flush()
        if not self._counts:
            self._node.spawn(self._end_of_period())
        self._counts[key], self._first[key] = 1, what

    async def _end_of_period(self) -> None:
        clock = self._node.clock
        await clock.sleep_until(clock.now() + _PERIOD)
        self.flush()

    def flush(self) -> None:
        """Log what was counted."""
        with aside("the tally of the log"):
            self._flush()

    def _flush(self) -> None:
        counts, self._counts = self._counts, {}
        first, self._first = self._first, {}
        for key, count in counts.items():
            what = first[key]
            line = rejected_line(what) if isinstance(what, str) else counted_line(what)
            self._node.log.write(
                line.component,
                line.number,
                line.message,
                context=line.context,
                severity=line.severity,
                attr={**line.attr, "count": count},
            )

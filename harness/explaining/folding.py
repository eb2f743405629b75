"""The events before a case's first operation as one line: clients connect, in many pool events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from harness.unified.schema.events import POOL_EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.running.result import Moment

FOLDED: Final = "connected"
"""The kind of the moment that stands for those that are folded."""

_CONNECTING: Final = frozenset({*POOL_EVENTS, "connectionAccepted", "connectionClosed"})
_WORTH_IT: Final = 2


class Fold(NamedTuple):
    """A timeline without its early pool and connection events, which `line` stands for if there are any."""

    moments: tuple[Moment, ...]
    folded: tuple[Moment, ...] = ()
    line: Moment | None = None


def folded(timeline: Iterable[Moment]) -> Fold:
    """Fold the pool and connection events before the first operation; a single one stays."""
    moments = tuple(timeline)
    first = next((index for index, moment in enumerate(moments) if moment.kind == "operation"), 0)
    early = tuple(moment for moment in moments[:first] if moment.kind in _CONNECTING)
    if len(early) < _WORTH_IT:
        return Fold(moments)
    line = early[0]._replace(kind=FOLDED, link=None, text=_counted(early))
    left = (moment for moment in moments[:first] if moment.kind not in _CONNECTING)
    before = (*left, line)
    return Fold((*sorted(before, key=lambda moment: moment.at), *moments[first:]), early, line)


def _counted(early: Sequence[Moment]) -> str:
    sources = ", ".join(dict.fromkeys(moment.source for moment in early))
    return f"{len(early)} pool and connection events of {sources} before the first operation"

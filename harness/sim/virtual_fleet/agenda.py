"""The agenda of the virtual tier: ticks as seconds of a virtual loop, with an instant for each event.

A virtual loop calls what is due at one instant together, and tasks that these wake come after all of them.
The engine finishes with one client before it turns to the next. So each thing that happens has an instant to
itself: the tick, then the place that its kind has in `engine.advance`, then its number.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mongowire.ports import Clock

OUTAGES: Final = 1 / 8
LEAVE: Final = 2 / 8
LOOK: Final = 3 / 8
GIVE_UP: Final = 4 / 8
WAKE: Final = 6 / 8
"""The end of its place: what was set last comes first."""
WINDOW: Final = 7 / 8

_STEP: Final = 2.0**-30
"""Between two numbers. A float tells them apart up to `MOST_TICKS`; an eighth has room for 134 million."""
MOST_TICKS: Final = 2**22


class Agenda:
    """The instants of a run on a clock whose second is a tick."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._numbers = itertools.count(1)

    @property
    def now(self) -> int:
        """The present tick."""
        return int(self._clock.now())

    def number(self) -> int:
        """Return the number of something that begins now."""
        return next(self._numbers)

    def instant(self, tick: int, place: float, number: int = 0) -> float:
        """Return the instant of something in a tick, after what has a smaller number."""
        return tick + place + number * _STEP

    async def reach(self, tick: int, place: float, number: int = 0) -> None:
        """Wait for such an instant."""
        await self._clock.sleep_until(self.instant(tick, place, number))

    async def wake(self, tick: int) -> None:
        """Wait until it is this client's turn in a tick: before those who waited for it already."""
        await self._clock.sleep_until(self.instant(tick, WAKE, -self.number()))

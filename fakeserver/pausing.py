"""The waiting of a request, or of a connection, as the pipeline asks for it."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

from fakeserver.pipeline import Await

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.node import Node
    from fakeserver.pipeline import Delay
    from fakeserver.waiting import Bell


class Pause:
    """Waits for time, a bell, or both, and then calls `resume`."""

    def __init__(self, node: Node, resume: Callable[[], None], action: Delay | Await) -> None:
        self._bell: Bell | None = action.bell if isinstance(action, Await) else None
        self._number = self._bell.listen(self._rung) if self._bell is not None else 0
        self._resume = resume
        self._over = False
        self._timer: asyncio.Task[None] | None = None
        if not math.isinf(action.until):
            self._timer = node.spawn(node.clock.sleep_until(action.until))
            self._timer.add_done_callback(self._timed_out)

    def _rung(self) -> None:
        # Not at once: whoever rings is in the middle of a change.
        self._bell = None
        asyncio.get_running_loop().call_soon(self._go_on)

    def _timed_out(self, timer: asyncio.Task[None]) -> None:
        if not timer.cancelled():
            self._go_on()

    def _go_on(self) -> None:
        if not self._over:
            self.cancel()
            self._resume()

    def cancel(self) -> None:
        """Wait no more."""
        self._over = True
        if self._bell is not None:
            self._bell.ignore(self._number)
        if self._timer is not None:
            self._timer.cancel()

"""The waits that a request, or a connection, asks for: for an instant, for a bell, or for both."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from fakeserver.waiting.bell import Bell
    from mongowire.ports import Clock


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait until an instant, then go on to the next stage."""

    until: float


@dataclass(frozen=True, slots=True)
class Await:
    """Wait until the bell rings or an instant comes, then enter the same stage again."""

    bell: Bell | None = None
    until: float = math.inf


class Park(Exception):  # noqa: N818 - nothing is wrong: a handler asks to be called again
    """Raised by a command that must wait: for a ring of the bell, until an instant at the latest.

    The command is then called again, with the new time.
    """

    def __init__(self, bell: Bell | None, until: float) -> None:
        super().__init__(until)
        self.action = Await(bell, until)


class Host(Protocol):
    """The server on whose clock a pause passes."""

    @property
    def clock(self) -> Clock:
        """The clock of the instants."""

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine that ends with the deployment at the latest."""


class Pause:
    """Waits for an instant, a bell, or the first of both, and then calls `resume` once."""

    def __init__(self, host: Host, resume: Callable[[], None], action: Delay | Await) -> None:
        self._bell: Bell | None = action.bell if isinstance(action, Await) else None
        self._number = self._bell.listen(self._rung) if self._bell is not None else 0
        self._resume = resume
        self._over = False
        self._timer: asyncio.Task[None] | None = None
        if not math.isinf(action.until):
            self._timer = host.spawn(host.clock.sleep_until(action.until))
            self._timer.add_done_callback(self._timed_out)

    def _rung(self) -> None:
        # Not at once: the code that rings is in the middle of a change.
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

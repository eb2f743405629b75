"""How long loops go on, and who may ask for their end.

Unified Test Format: loop. The format's loops end when an outer program says so; here a count and a time say
so too, because a run of scenarios has an end.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.unified.model import Case, nested

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

ITERATIONS = 100
SECONDS = 10.0


@dataclass(slots=True)
class Loops:
    """What bounds the loops of all cases of a run: whatever comes first ends each.

    `seconds` are of the clock that a case runs on. Once the end was asked for, no iteration begins any more.
    """

    iterations: int = ITERATIONS
    seconds: float = SECONDS
    ended: bool = False

    def end(self) -> None:
        """Ask for the end of all loops, those under way and those to come; iterations are not cut short."""
        self.ended = True

    def go_on(self, iterations: int, seconds: float) -> bool:
        """Return whether a loop that is this far begins another iteration."""
        return not self.ended and iterations < self.iterations and seconds < self.seconds


def has_loop(case: object) -> bool:
    """Return whether a case, of whatever format, goes on until somebody asks for its end."""
    return isinstance(case, Case) and any(operation.name == "loop" for operation in nested(case.operations))


@contextmanager
def first_interrupt(end: Callable[[], None]) -> Iterator[None]:
    """Have the first SIGINT call `end`; from the second on they do what they did before."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled in the main thread only
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: FrameType | None) -> None:
        del number, frame
        signal.signal(signal.SIGINT, before)
        end()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handle:
            signal.signal(signal.SIGINT, before)

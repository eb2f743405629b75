"""Ends this process on the spot when a signal asks for it: before its work has begun, and after it.

Imports nothing that takes time, because it runs first.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

SIGNALS = tuple(
    getattr(signal.Signals, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)

AT_ONCE: set[Callable[[], object]] = set()
"""Functions to call when the process leaves without cleaning up; they must neither wait nor raise."""


def exit_code(number: int) -> int:
    """Return the exit code that shells give to a process that a signal has ended."""
    return 128 + number


def leave_at_once() -> None:
    """Let signals end this process with one line of output. Those that are ignored stay ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)


def leave(number: int, _frame: FrameType | None = None) -> None:
    """End the process as this signal would."""
    try:
        for undo in tuple(AT_ONCE):
            undo()
        os.write(2, f"interrupted by {signal.Signals(number).name}\n".encode())
    finally:
        os._exit(exit_code(number))

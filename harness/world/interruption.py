"""Signals that ask a command to end: the first one counts, whatever the process is doing just then.

Python answers Ctrl-C by an exception at any instruction, and SIGTERM by dying on the spot. The one breaks
whatever it hits (a callback of an event loop, a half-made object), the other leaves processes and torn files
behind. Here a signal is noted, the coroutine that runs is cancelled, and code that runs no loop asks between
two steps (`check`). Exceptions at any instruction are left to short commands that hold nothing.

A process that has not begun its work, or is done with it, leaves at once (`harness.world.immediate_exit`).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from harness.world.immediate_exit import AT_ONCE, SIGNALS, leave
from mongowire.whole_file import disown_unfinished, remove_unfinished

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from types import FrameType

_AGAIN: Final = 0.5
"""Seconds after which another signal is another wish: `timeout` and terminals send the first one twice."""

_ECHO: Final = 0.02
"""Seconds until a signal comes again whose exception was lost, in a finalizer for instance."""

AT_ONCE.add(remove_unfinished)


class Interrupted(KeyboardInterrupt):
    """A signal has asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = signal.Signals(number)

    def __str__(self) -> str:
        return f"interrupted by {self.number.name}"


class _Listener:
    """The signals that this process has received, and its reactions."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.polite = 0
        """How many open blocks are `politely`: no exception at any instruction."""
        self.tasks: list[asyncio.Task[Any]] = []
        self.spare: Callable[[], None] | None = None
        """The effect of the first Ctrl-C, where it does not end the run."""
        self._last = (0, 0.0)

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Take a signal."""
        (last, heard_at), self._last = self._last, (number, time.monotonic())
        if number == last and time.monotonic() - heard_at < _AGAIN:
            return
        if number == signal.SIGINT and self.spare is not None:
            spare, self.spare = self.spare, None
            spare()
        elif self.number is not None:
            leave(number, frame)
        else:
            self.number = number
            if not self.polite:
                raise Interrupted(number)
            for task in self.tasks[-1:]:
                task.cancel()
                task.get_loop().call_soon_threadsafe(lambda: None)  # it may be waiting for a packet

    def lost(self, args: Any) -> bool:
        """Return whether an `Interrupted` was raised where nothing can catch it; then repeat the signal."""
        if not isinstance(args.exc_value, Interrupted):
            return False
        self.number = None
        self._last = (0, 0.0)
        again = threading.Timer(_ECHO, os.kill, (os.getpid(), args.exc_value.number))
        again.daemon = True
        again.start()
        return True


_listener: _Listener | None = None


@contextmanager
def listening() -> Iterator[None]:
    """Listen to signals while the block runs. In another thread than the main one, nothing is heard."""
    global _listener  # noqa: PLW0603 - a process has one set of signal handlers
    if threading.current_thread() is not threading.main_thread() or _listener is not None:
        yield
        return
    listener = _listener = _Listener()
    unraisable = sys.unraisablehook
    before = {number: signal.getsignal(number) for number in SIGNALS}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    sys.unraisablehook = lambda args: None if listener.lost(args) else unraisable(args)
    try:
        for number in heard:
            signal.signal(number, listener.hear)
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
        sys.unraisablehook = unraisable
        _listener = None


def check() -> None:
    """Raise `Interrupted` when a signal has asked for the end."""
    if _listener is not None and _listener.number is not None:
        raise Interrupted(_listener.number)


def forget() -> None:
    """Forget the signal: it was the expected end, and no interruption."""
    if _listener is not None:
        _listener.number = None


def begin_anew() -> None:
    """Forget, in a fork, what its parent has heard and what that would do when it leaves at once."""
    global _listener  # noqa: PLW0603 - see above
    _listener = None
    disown_unfinished()
    AT_ONCE.clear()
    AT_ONCE.add(remove_unfinished)


@contextmanager
def politely() -> Iterator[None]:
    """Raise no exception at any instruction of the block: it calls `check`, or its coroutine is cancelled.

    Raises `Interrupted` at the end of the block for a signal that was not noticed in it.
    """
    listener = _listener
    if listener is None:
        yield
        return
    listener.polite += 1
    try:
        yield
    finally:
        listener.polite -= 1
    if not listener.polite:
        check()


@contextmanager
def cancels(task: asyncio.Task[Any]) -> Iterator[None]:
    """Have the first signal cancel a task while the block runs."""
    listener = _listener
    if listener is None:
        yield
        return
    listener.tasks.append(task)
    if listener.number is not None:
        task.cancel()
    try:
        yield
    finally:
        listener.tasks.remove(task)


@contextmanager
def first_interrupt(end: Callable[[], None]) -> Iterator[None]:
    """Have the first Ctrl-C (SIGINT) call `end`; from the second on they act as before."""
    listener = _listener
    if listener is None:
        yield
        return
    listener.spare = end
    try:
        yield
    finally:
        listener.spare = None

"""Yield points: a command that works for long gives way to others there, and learns that it shall end.

A server runs each command on a thread of its own, which looks now and then whether it shall go on
(`checkForInterrupt`) and lets go of its locks when it had them for a while (a yield point). Here one event
loop runs them all, so a command must hand it back: it runs on a stack of its own (`Worker`), which is left at
a yield point and entered again when the others have had their turn.

    worker.call(walk, request, now, until)  -> what `walk` returned, or `GAVE_WAY`
    worker.resume(until)                   -> likewise

Yield points are calls of `check_for_interrupt`, which storage and commands make between documents, where
nothing is half done. What was read before one may have changed behind it: a scan goes on in the documents as
they were (they are values), a write looks at each document again. On no worker, as in virtual time, the
call does nothing.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator
    from contextlib import AbstractContextManager

T = TypeVar("T")


class Interruptible(Protocol):
    """Work that a worker does, such as a request."""

    def giving_way(self) -> AbstractContextManager[None]:
        """Let others have their turn inside. Raises `CommandError` for what ended the work meanwhile."""


class _GaveWay:
    """Answers for a call that has not returned yet."""

    def __repr__(self) -> str:
        return "GAVE_WAY"


GAVE_WAY: Final = _GaveWay()


class Worker(greenlet):
    """A stack on which requests run, one after the other, and on which one can be left in the middle.

    Making one costs ten times what a turn on it does, so it is kept for the next request.
    """

    work: Interruptible | None = None

    def __init__(self, now: Callable[[], float], *, is_real: bool = False) -> None:
        """Make a worker whose turns end by the clock `now`, in seconds, which `is_real` or virtual."""
        super().__init__(self._run)
        self._now = now
        self.is_real = is_real
        self._caller: greenlet = getcurrent()
        self.until = 0.0
        """The instant at which its turn is over."""
        self.switch()

    def call(
        self,
        walk: Callable[[Any, float], Any],
        work: Interruptible,
        now: float,
        until: float,
    ) -> Any:
        """Call `walk` with some work and an instant. Returns what it does, or `GAVE_WAY` at a yield point.

        It gives way at the first yield point at which the clock says `until` or later.
        """
        self.work = work
        self._caller, self.until = getcurrent(), until
        return self.switch(walk, work, now)

    def resume(self, until: float) -> Any:
        """Go on with a call that gave way, as `call` does."""
        self._caller, self.until = getcurrent(), until
        return self.switch()

    def end(self) -> None:
        """End the stack, which must be idle."""
        # An end goes on at the parent, which may be an idle stack as well: that of the request in whose
        # middle this one was made.
        self.parent = getcurrent()
        self.throw()

    def _run(self) -> None:
        task = self._caller.switch()
        while True:
            walk, work, now = task
            answer = walk(work, now)
            self.work = None
            del walk, work, task  # what is idle holds nothing
            task = self._caller.switch(answer)

    def check(self) -> None:
        """Give way when the turn is over. Raises `CommandError` for what ended the work meanwhile."""
        work = self.work
        assert work is not None
        if self._now() >= self.until:
            with work.giving_way():
                self._caller.switch(GAVE_WAY)


def check_for_interrupt() -> None:
    """Let others have their turn, when it is time for that: a yield point.

    Call it where nothing is half done. Raises `CommandError` for what ends the command: 50
    MaxTimeMSExpired, 11601 Interrupted, 279 ClientDisconnect, 11600 InterruptedAtShutdown and the like.
    """
    worker = getcurrent()
    if type(worker) is Worker:
        worker.check()


def may_give_way() -> bool:
    """Return whether time passes while work is done here, and others could have their turn meanwhile."""
    worker = getcurrent()
    return type(worker) is Worker and worker.is_real and worker.until < inf


def interruptible(items: Iterable[T]) -> Iterator[T]:
    """Iterate over `items` with a yield point before each. Raises what `check_for_interrupt` does."""
    worker = getcurrent()
    if type(worker) is not Worker:
        yield from items
        return
    check = worker.check
    for item in items:
        check()
        yield item


def in_steps(steps: Generator[None, None, T]) -> T:
    """Take all steps of some work, with a yield point between two, and return what it returns.

    Raises what the work and `check_for_interrupt` do.
    """
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result
        check_for_interrupt()


class in_one_turn:  # noqa: N801 -- used as a function is
    """Let nobody else have a turn inside: what looks like a yield point there is none.

    For what holds a collection for itself, as under a server's exclusive lock, and where a filter or an
    expression, which have yield points, is asked about the document that a write is about to change.
    """

    __slots__ = ("_until", "_worker")

    def __enter__(self) -> None:
        """Put the end of the turn off."""
        worker = getcurrent()
        self._worker = worker if type(worker) is Worker else None
        if self._worker is not None:
            self._until, self._worker.until = self._worker.until, inf

    def __exit__(self, *_: object) -> None:
        """Have the turn end when it was to end."""
        if self._worker is not None:
            self._worker.until = self._until

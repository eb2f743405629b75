"""Futures of the standard library's executors, taken as they end, with an ear for signals."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final, TypeVar

from harness.running import interruption

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from concurrent.futures import Future

T = TypeVar("T")
K = TypeVar("K")

_ASK_SECONDS: Final = 0.2
"""How often a wait asks whether a signal has come: none wakes a wait for another thread."""


def as_they_end(futures: MutableMapping[Future[T], K]) -> Iterator[tuple[Future[T], K]]:
    """Take each future out of the mapping when it has ended, and yield it with what it stands for.

    Nothing here keeps what was taken: a cluster computes again what a dead worker has held for somebody.
    Raises `Interrupted`.
    """
    done: SimpleQueue[Future[T]] = SimpleQueue()
    for each in [*futures]:
        each.add_done_callback(done.put)
        del each
    while futures:
        ended = _next(done)
        key = futures.pop(ended)
        yield ended, key
        del ended


def _next(done: SimpleQueue[Future[T]]) -> Future[T]:
    while True:
        interruption.check()
        try:
            return done.get(timeout=_ASK_SECONDS)
        except Empty:
            continue

"""Objects that stay to the end, which the garbage collector need not look at."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


_COLLECTED_EVERY: Final = 16
"""Blocks after which garbage is collected: a tenth of a second of walking, once in so many."""


class _Freezing:
    """Who has frozen objects: blocks that have begun, and what else is in the process.

    Where others have frozen theirs, blocks freeze nothing: it would stay so to the end, and with it the
    cycles that each block leaves behind. Counting what is frozen is a walk through all of it, a tenth of a
    second where there are a million objects, and is therefore done until there is some, and no more.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._begun = 0
        self._blocks = 0
        self._others = False

    def begin(self) -> None:
        with self._lock:
            if not self._begun and not self._others:
                self._others = gc.get_freeze_count() > 0
            self._begun += 1
            if self._others:
                return
            self._blocks += 1
            if self._blocks % _COLLECTED_EVERY == 0:
                gc.collect()  # what is frozen and released counts as looked at: nobody would find its cycles
            gc.freeze()

    def end(self) -> None:
        with self._lock:
            self._begun -= 1
            if not self._begun and not self._others:
                gc.unfreeze()


_FREEZING = _Freezing()


@contextmanager
def frozen() -> Iterator[None]:
    """Leave alone, inside, what is there already, unless somebody has frozen what stays to the end."""
    _FREEZING.begin()
    try:
        yield
    finally:
        _FREEZING.end()

"""This process: the processors that it may use, and its garbage collection while scenarios are read."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from mongowire.garbage import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator


# The processors that this process may use.


CAN_FORK: Final = sys.platform == "linux"
"""Elsewhere there are no forks, or system libraries that do not survive one."""


def processors() -> int:
    """Return how many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


# Garbage collection while scenarios are read, and while cases run.


_NEW_OBJECTS: Final = 20_000
"""How many more objects there must be. A deployment has some ten thousand, and most live as long as its case:
with Python's 700 they are looked at again and again, which takes a fifth of the time of a case."""


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Collect garbage seldom while the block runs, and leave alone what has been loaded before it."""
    before = gc.get_threshold()
    with frozen():
        gc.set_threshold(_NEW_OBJECTS, *before[1:])
        try:
            yield
        finally:
            gc.set_threshold(*before)


@contextmanager
def never_collecting() -> Iterator[None]:
    """Collect no garbage while the block reads files: what is in them holds no cycles, and is kept."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

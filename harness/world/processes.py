"""This process, with its processors and its garbage collection, and a pool of others beside it.

Each of those imports this module first, so it is a light one.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import TYPE_CHECKING, Final

from mongowire.garbage import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor


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


# Other processes.


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Give an executor of so many processes of this machine. A block that raises ends them at once."""
    others = {*active_children()}
    executor = ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_begin)
    try:
        yield executor
    except BaseException:
        for child in {*active_children()} - others:
            child.kill()
        raise
    finally:
        executor.shutdown()


def _begin() -> None:
    """Let the sweep answer Ctrl-C, which a terminal sends to all, and end with it when it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)

"""A pool of processes on this machine. Each imports this module first, so it is a light one."""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor


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

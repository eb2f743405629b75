"""A cluster: Dask's scheduler and workers run what this machine's processes run otherwise (extra `cluster`).

`on_cluster` gives an executor of the standard library's kind, for functions of modules. What a worker had
begun when it died runs again elsewhere; a task whose workers die again and again has no result.
"""

from __future__ import annotations

import logging
from concurrent.futures import CancelledError
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from harness.running import interruption
from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping
    from concurrent.futures import Executor, Future


T = TypeVar("T")

INSTALL: Final = "pip install 'pushbackd[cluster]'"
CONNECT_SECONDS: Final = 10.0
"""How long a scheduler may take to answer."""


class ClusterError(Exception):
    """The cluster cannot be used, or not any more; the message says why, and how it could."""


@contextmanager
def on_cluster(address: str) -> Iterator[Executor]:
    """Give an executor on the cluster of the scheduler at `address`, `tcp://127.0.0.1:8786` for instance.

    When the block raises, what has not been started there never will be. Raises `ClusterError`.
    """
    try:
        import distributed  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ClusterError(f"a cluster needs a package that is not installed: {INSTALL}") from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # whatever matters is raised as well
    connect: Any = distributed.Client
    try:
        client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(f"no scheduler answers at {address} (start one with `dask scheduler`)") from error
    try:
        if not client.nthreads():
            raise ClusterError(f"the scheduler at {address} has no workers (start some with `dask worker`)")
        executor: Executor = client.get_executor(pure=False)
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False)
            raise
    finally:
        client.close()


def threads_of(executor: Executor) -> int:
    """Return how many tasks a cluster's executor can run at a time now."""
    client: Any = vars(executor)["_client"]
    return sum(client.nthreads().values())


def _told(error: BaseException) -> ClusterError | None:
    """Return what the error of a task says of the cluster; None for one of the work itself."""
    kind = type(error).__name__
    if isinstance(error, CancelledError) or kind in {"FutureCancelledError", "CommClosedError"}:
        return ClusterError("the scheduler has gone")
    if kind == "KilledWorker":
        return ClusterError("workers die again and again at the same task; they may be out of memory")
    if isinstance(error, ImportError):
        return ClusterError(f"{error} on a worker (install the same pushbackd, with its extras, on all)")
    if isinstance(error, ScenarioError):
        return ClusterError(f"a worker cannot use {error} (all need the same files at the same paths)")
    return None


def result_of(future: Future[T]) -> T:
    """Return the result of a task that has ended. Raises `ClusterError`, or what the work has raised."""
    try:
        return future.result()
    except (Exception, CancelledError) as error:
        of_cluster = _told(error)
        if of_cluster is None:
            raise
        raise of_cluster from error


# Futures of the standard library's executors, taken as they end, with an ear for signals.


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

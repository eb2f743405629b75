"""A cluster: Dask's scheduler and workers run what this machine's processes run otherwise (extra `cluster`).

`on_cluster` gives an executor of the standard library's kind, for functions of modules. What a worker had
begun when it died runs again elsewhere; a task whose workers die again and again has no result.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import CancelledError
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

from harness.planning.plan import Item, Settings
from harness.planning.result import Result
from harness.running.worker_pool import WorkerPool
from harness.unified.errors import ScenarioError
from harness.world import interruption

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
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
        interruption.check()
        try:
            ended = done.get(timeout=_ASK_SECONDS)
        except Empty:
            continue
        key = futures.pop(ended)
        yield ended, key
        del ended


# The cases of a run on a cluster: an equal of `WorkerPool`.
#
# Items travel in batches. Each batch has a worker process of its own on the machine that gets it, the same
# that a local run has, so drivers and servers meet none of Dask's threads. The workers need this package, and
# the scenario files at the same paths. What a worker had begun when it died runs again elsewhere.


_WORTH_A_BATCH: Final = {"real": 12, "virtual": 60}
"""How many items a batch must have to be worth the start of its process."""

_BATCHES_PER_THREAD: Final = 3
"""So that a thread of the cluster that is done early gets more."""


class ClusterPool:
    """Runs items on the cluster at `address`, and hands each result with its index to `on_result`.

    `batch` is how many items are a task; None for as many as are worth it.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        address: str,
        on_result: Callable[[int, Result], None],
        batch: int | None = None,
    ) -> None:
        self._settings = settings
        self._address = address
        self._on_result = on_result
        self._batch = batch

    def run(self, items: Mapping[int, Item], order: Iterable[int]) -> None:
        """Run all items; `order` says which to start first.

        Raises `Interrupted`, `ClusterError`, and what `on_result` raises. Batches that run then come to their
        end on their machines, but nobody hears of it.
        """
        with on_cluster(self._address) as executor:
            # Each batch has some of the long items, which are the first.
            indexes = [*order]
            even = -(-len(indexes) // (threads_of(executor) * _BATCHES_PER_THREAD))
            size = self._batch or max(even, _WORTH_A_BATCH[self._settings.time])
            count = -(-len(indexes) // size)
            batches = [indexes[first::count] for first in range(count)]
            settings = self._settings.to_dict()
            futures = {
                executor.submit(run_batch, settings, [items[index].to_dict() for index in batch]): batch
                for batch in batches
            }
            for future, batch in as_they_end(futures):
                results: Sequence[Mapping[str, Any]] = result_of(future)
                for index, result in zip(batch, results, strict=True):
                    self._on_result(index, Result.from_dict(result))


def run_batch(settings: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Run a batch on this machine, in a process of its own; return the results as documents, in order.

    Raises `ScenarioError` for a file that is not here.
    """
    batch = {index: Item(**item) for index, item in enumerate(items)}
    for item in batch.values():
        item.case()
    results: dict[int, Result] = {}
    pool = WorkerPool(Settings.from_dict(settings), jobs=1, on_result=results.__setitem__)
    asyncio.run(pool.run(batch, batch))
    return [results[index].to_dict() for index in batch]

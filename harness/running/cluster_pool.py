"""The cases of a run on a cluster: an equal of `WorkerPool`.

Items travel in batches. Each batch has a worker process of its own on the machine that gets it, the same that
a local run has, so drivers and servers meet none of Dask's threads. The workers need this package, and the
scenario files at the same paths. What a worker had begun when it died runs again elsewhere.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from harness.running.cluster import as_they_end, on_cluster, result_of, threads_of
from harness.running.plan import Item, Settings
from harness.running.result import Result
from harness.running.worker_pool import WorkerPool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
            batches = self._batches([*order], threads_of(executor))
            settings = self._settings.to_dict()
            futures = {
                executor.submit(run_batch, settings, [items[index].to_dict() for index in batch]): batch
                for batch in batches
            }
            for future, batch in as_they_end(futures):
                results: Sequence[Mapping[str, Any]] = result_of(future)
                for index, result in zip(batch, results, strict=True):
                    self._on_result(index, Result.from_dict(result))

    def _batches(self, order: Sequence[int], threads: int) -> Sequence[Sequence[int]]:
        """Return batches of indexes: each has some of the long items, which are the first."""
        even = -(-len(order) // (threads * _BATCHES_PER_THREAD))
        size = self._batch or max(even, _WORTH_A_BATCH[self._settings.time])
        count = -(-len(order) // size)
        return [order[first::count] for first in range(count)]


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

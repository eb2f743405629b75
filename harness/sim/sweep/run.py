"""The sweep itself: points to an executor, results to whoever keeps them, as they come."""

from __future__ import annotations

from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, TypeAlias

from harness.running.cluster import ClusterError, as_they_end, result_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from harness.sim.sweep.grid import GridPoint

    Evaluate: TypeAlias = Callable[[Any], Mapping[str, Any]]
    """Makes a scenario's measures; a function of a module, because another process calls it."""


class PointFailedError(Exception):
    """A point has no result; the message says which and why."""


def run_points(
    points: Sequence[GridPoint],
    evaluate: Evaluate,
    executor: Executor,
    on_done: Callable[[GridPoint, Mapping[str, Any]], None],
) -> None:
    """Run points on an executor, and hand each with its measures to `on_done`, in the order of their ends.

    Raises `Interrupted`, `PointFailedError`, `ClusterError`, and what `on_done` raises. It is then for
    the executor to drop the points that are left.
    """
    futures = {executor.submit(evaluate, point.scenario): point for point in points}
    for future, point in as_they_end(futures):
        try:
            measures = result_of(future)
        except ClusterError:
            raise
        except BrokenProcessPool as error:
            raise PointFailedError(
                "a process that ran a point has died; it may have been out of memory"
            ) from error
        except Exception as error:
            why = f"{type(error).__name__}: {error}".strip(": ")
            raise PointFailedError(f"the point {point} failed: {why}") from error
        on_done(point, measures)

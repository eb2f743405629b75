"""A cluster on loopback: Dask's scheduler and workers as processes of their own, without their nannies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributed import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).parents[2]
_WAIT_SECONDS = 60


class DaskCluster:
    """A scheduler, and the workers that were added to it."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "scheduler.json"
        self._log = (folder / "cluster.log").open("wb")
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start(
            "dask_scheduler", "--port=0", f"--scheduler-file={self._file}", "--no-dashboard", "--no-show"
        )
        self.workers: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        """The address of the scheduler, once a worker has come."""
        return str(json.loads(self._file.read_text())["address"])

    def grow(self, count: int) -> None:
        """Add workers of one thread each, and wait until those that live are there."""
        for _ in range(count):
            options = (f"--scheduler-file={self._file}", "--nthreads=1", "--no-nanny", "--no-dashboard")
            self.workers.append(self._start("dask_worker", *options))
        connect: Any = Client
        living = sum(worker.poll() is None for worker in self.workers)
        with connect(scheduler_file=str(self._file), timeout=_WAIT_SECONDS, set_as_default=False) as client:
            client.wait_for_workers(living, timeout=_WAIT_SECONDS)

    def lose_one(self) -> None:
        """Kill the first worker that lives."""
        next(worker for worker in self.workers if worker.poll() is None).kill()

    def end(self) -> None:
        """End all processes."""
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._log.close()

    def _start(self, module: str, *options: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", "--host=127.0.0.1", *options],
            cwd=self._file.parent,
            env={**os.environ, "PYTHONPATH": os.pathsep.join((str(_ROOT), str(Path(__file__).parent)))},
            stdout=self._log,
            stderr=self._log,
        )
        self._processes.append(process)
        return process


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[DaskCluster]:
    """Give a cluster whose processes end with the block."""
    cluster = DaskCluster(folder)
    try:
        cluster.grow(workers)
        yield cluster
    finally:
        cluster.end()

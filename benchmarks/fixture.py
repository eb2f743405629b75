"""The cost of the pytest fixture: how long tests take that have a deployment each, or share one.

`python -m benchmarks.fixture` writes tests that insert a document through PyMongo, runs them with pytest
under xdist, once for each scope of the fixture, and prints the seconds of the wall clock and of CPU time, of
which starting the workers and importing the servers are a part that does not grow. Then, in this process, it
prints what starting and stopping a deployment takes in milliseconds of CPU time, the median of several.
Read the wall clock on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from fakeserver import ClusterSpec
from fakeserver.assembly.background import BackgroundCluster

TESTS = 500
WORKERS = 2
SCOPES = ("function", "session")
SPECS = {
    "single": ClusterSpec.standalone(),
    "replicaset of 1": ClusterSpec.replica_set(1),
    "replicaset of 3": ClusterSpec.replica_set(3),
    "sharded, 2 mongos": ClusterSpec.sharded(2),
}

_MODULE = """
import pymongo
import pytest


@pytest.mark.parametrize("number", range({tests}))
def test_an_order_is_stored(fakeserver, number):
    with pymongo.MongoClient(fakeserver.uri) as client:
        client.shop.orders.insert_one({{"_id": 1}})
"""
_PLUGIN = "fakeserver.pytest_plugin"


def run(tests: int = TESTS, workers: int = WORKERS, rounds: int = 20) -> dict[str, Any]:
    """Return the seconds of a run by scope, and the milliseconds of a start and a stop by deployment."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_orders.py").write_text(_MODULE.format(tests=tests))
        seconds = {scope: _seconds(folder, scope, workers) for scope in SCOPES}
    costs = {name: _start_and_stop(spec, rounds) for name, spec in SPECS.items()}
    return {"tests": tests, "workers": workers, "seconds": seconds, "start_and_stop_ms": costs}


def _seconds(folder: str, scope: str, workers: int) -> dict[str, float]:
    installed = any(each.value == _PLUGIN for each in metadata.entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", _PLUGIN]
    options = ["-q", "-p", "no:cacheprovider", *plugin, "--fakeserver-scope", scope]
    options += ["-n", str(workers)] if workers else []
    command = [sys.executable, "-m", "pytest", *options, folder]
    began, cpu = time.perf_counter(), _cpu_of_children()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
    return {"wall": time.perf_counter() - began, "cpu": _cpu_of_children() - cpu}


def _cpu_of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _start_and_stop(spec: ClusterSpec, rounds: int) -> dict[str, float]:
    with BackgroundCluster(spec):  # the first one imports
        pass
    starts, stops = [], []
    for _ in range(rounds):
        begun = time.process_time()
        cluster = BackgroundCluster(spec).start()
        running = time.process_time()
        cluster.stop()
        starts.append(running - begun)
        stops.append(time.process_time() - running)
    return {"start": 1000 * statistics.median(starts), "stop": 1000 * statistics.median(stops)}


def table(report: dict[str, Any]) -> str:
    """Return the report for a reader."""
    lines = [f"{report['tests']} tests, {report['workers']} workers"]
    for scope, took in report["seconds"].items():
        lines.append(f"  {scope:<20} {took['wall']:6.1f} s  {took['cpu']:6.1f} s of CPU")
    lines.append("start and stop of a deployment, CPU")
    for name, cost in report["start_and_stop_ms"].items():
        lines.append(f"  {name:<20} {cost['start']:6.2f} ms  {cost['stop']:6.2f} ms")
    return "\n".join(lines)


def main() -> None:
    """Run the benchmark and print its report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tests", type=int, default=TESTS)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args()
    report = run(options.tests, options.workers)
    print(json.dumps(report) if options.json else table(report))


if __name__ == "__main__":
    main()

"""What a reset costs: a replica set of three with 1,000 documents, after changes of several kinds.

`python -m benchmarks.reset` changes the deployment, resets it, and prints the medians of both.
The change that follows a reset pays for the copy of the keys of the collection that it writes to, so it is
measured too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import fakeserver
from fakeserver import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.deployment.cluster import Cluster

_MICROSECONDS: Final = 1e6
_NS: Final = "shop.orders"
_FIND_FAILS: Final = {"failCommands": ["find"], "errorCode": 91}

CHANGES: Final[Mapping[str, Callable[[Cluster], Any]]] = {
    "nothing": lambda _: None,
    "an insert": lambda cluster: cluster.control.seed(_NS, {"_id": -1}),
    "a drop": lambda cluster: cluster.control.drop(_NS),
    "a fail point": lambda cluster: cluster.control.set_fail_point("failCommand", 1, _FIND_FAILS),
    "a limit": lambda cluster: cluster.control.limits(requests="100/s"),
    "an election": lambda cluster: cluster.control.elect("node1"),
    "a partition": lambda cluster: cluster.control.partition([["node0"]]),
}
"""The changes to take back, by name."""


async def run(*, rounds: int, documents: int) -> dict[str, Any]:
    """Measure, and return a report made of numbers."""
    async with fakeserver.start(ClusterSpec.replica_set(3)) as cluster:
        cluster.control.seed(_NS, [{"_id": number, "text": "x" * 50} for number in range(documents)])
        cluster.control.begin()
        changes = {name: _measured(cluster, change, rounds) for name, change in CHANGES.items()}
    return {
        "python": platform.python_version(),
        "rounds": rounds,
        "documents": documents,
        "changes": changes,
    }


def _measured(cluster: Cluster, change: Callable[[Cluster], Any], rounds: int) -> dict[str, float]:
    changed, reset = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        change(cluster)
        between = time.perf_counter()
        cluster.control.reset()
        changed.append(between - began)
        reset.append(time.perf_counter() - between)
    return {
        "change_us": statistics.median(changed) * _MICROSECONDS,
        "reset_us": statistics.median(reset) * _MICROSECONDS,
    }


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    lines = [f"{'µs, medians, after':24}{'change':>10}{'reset':>10}"]
    for name, row in report["changes"].items():
        lines.append(f"{name:24}{row['change_us']:10.0f}{row['reset_us']:10.0f}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reset", description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    report = asyncio.run(run(rounds=options.rounds, documents=options.documents))
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What storage alone costs, at several sizes of a collection: a cost that grows with the size is a scan.

`python -m benchmarks.storage` calls the storage engine as the commands do, and prints the CPU time of each
operation: the least of several rounds, which is what other processes on the machine disturb least.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from typing import TYPE_CHECKING, Any

import bson

from fakeserver.storage.port.engine import IndexSpec, Namespace, Query, Update
from fakeserver.storage.store.memory_engine import MemoryEngine

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.storage.port.engine import Document

_MICROSECONDS = 1e6
_NS = Namespace("benchmark", "things")
_SIZES = (10, 1_000, 100_000)
_BATCH = 100
"""Documents of a reply; of a smaller collection, all."""


def filled(size: int) -> MemoryEngine:
    """Return an engine with a collection of `size` documents, and an index on one of their fields."""
    engine = MemoryEngine()
    engine.create_index(_NS, IndexSpec("n_1", {"n": 1}))
    for number in range(size):
        engine.insert(_NS, _document(number))
    return engine


def _document(number: int) -> Document:
    return {"_id": number, "name": "Ada", "tags": ["a", "b"], "n": number}


def operations(engine: MemoryEngine, size: int) -> dict[str, Callable[[int], object]]:
    """Return what is measured: functions of the number of their call."""
    by_id, by_index, by_scan = Query({"_id": size - 1}), Query({"n": size - 1}), Query({"none": 1})

    def insert_one(number: int) -> None:
        engine.insert(_NS, _document(size + number))

    def update_one(number: int) -> None:
        engine.update(_NS, Update(by_id, {"$set": {"extra": number}}))

    def reply_with(batch: list[Document]) -> bytes:
        return bson.encode({"cursor": {"firstBatch": batch, "id": bson.Int64(0), "ns": str(_NS)}, "ok": 1.0})

    part = engine.find(_NS, Query(limit=_BATCH))
    decoded = [dict(document) for document in part]
    return {
        "find_one by _id": lambda _number: engine.find(_NS, by_id),
        "find_one by an indexed field": lambda _number: engine.find(_NS, by_index),
        "update_one by _id": update_one,
        "a scan": lambda _number: engine.find(_NS, by_scan),
        "insert_one": insert_one,
        f"a reply of {_BATCH}": lambda _number: reply_with(part),
        f"a reply of {_BATCH} decoded ones": lambda _number: reply_with(decoded),
    }


def cost(operation: Callable[[int], object], *, rounds: int, calls: int) -> float:
    """Return the CPU time of a call, in microseconds."""
    times = []
    for turn in range(rounds):
        began = time.process_time()
        for number in range(turn * calls, (turn + 1) * calls):
            operation(number)
        times.append((time.process_time() - began) / calls)
    return min(times) * _MICROSECONDS


def run(*, rounds: int, calls: int, sizes: tuple[int, ...] = _SIZES) -> dict[str, Any]:
    """Measure everything and return a report made of numbers and names."""
    costs: dict[str, dict[str, float]] = {}
    for size in sizes:
        for name, operation in operations(filled(size), size).items():
            often = calls if name != "a scan" else max(1, calls * sizes[0] // size)
            costs.setdefault(name, {})[str(size)] = cost(operation, rounds=rounds, calls=often)
    return {"python": platform.python_version(), "rounds": rounds, "calls": calls, "cpu_us": costs}


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    costs = report["cpu_us"]
    sizes = next(iter(costs.values()))
    lines = [
        f"Python {report['python']}, CPU time in µs, the least of {report['rounds']} rounds",
        f"{'documents':32}" + "".join(f"{int(size):>12,}" for size in sizes),
    ]
    for name, row in costs.items():
        lines.append(f"{name:32}" + "".join(f"{each:12.1f}" for each in row.values()))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=500, help="calls of each round")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(_SIZES), help="documents")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    report = run(rounds=options.rounds, calls=options.calls, sizes=tuple(options.sizes))
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

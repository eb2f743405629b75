"""What a request costs in Python alone: bytes handed to a server's protocol, bytes taken from it.

`python -m benchmarks.request_cost` runs the workloads of `benchmarks.server_cpu` in this process. Sockets and
the event loop, which cost each server the same and so soften the ratio, are left out; what is left depends
little on what else the machine does. Printed is the CPU time of a request, the least of many short rounds;
the servers, and `ratio`, are those of `benchmarks.server_cpu`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
import time
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import fakeserver
from benchmarks.canned_storage import CannedEngine
from benchmarks.minimal_server import MinimalProtocol, MinimalServer
from benchmarks.raw_client import encoded
from benchmarks.server_cpu import NO_LIMIT, WORKLOADS
from benchmarks.stage_costs import AROUND, Meter, put_in
from fakeserver.network.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.server_cpu import Workload

_MICROSECONDS = 1e6
_WARM = 5
"""The requests before the path of a shape is surely worked out."""


class _Ears(asyncio.Transport):
    """A transport that hears what a protocol says, and forgets it."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol
        protocol.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 0) if name == "peername" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Hear a reply."""

    def abort(self) -> None:
        self._protocol.connection_lost(None)


async def _protocols(stack: AsyncExitStack) -> dict[str, asyncio.Protocol]:
    # Nobody else is there to give way to, and nothing but this measures.
    spec = fakeserver.ClusterSpec.standalone(parameters={"internalQueryExecYieldPeriodMS": 1_000_000})
    fake, canned = [await stack.enter_async_context(fakeserver.start(spec)) for _ in range(2)]
    canned.catalog.engine = CannedEngine()
    return {
        "fake": Connection(fake.nodes[0]),
        "canned": Connection(canned.nodes[0]),
        "minimal": MinimalProtocol(MinimalServer()),
    }


def cost(protocol: asyncio.Protocol, workload: Workload, requests: int) -> float:
    """Run one round and return the CPU time of a request, in microseconds."""
    with prepared(protocol, workload):
        next_message = workload.messages()
        messages = [next_message() for _ in range(requests)]
        receive = protocol.data_received
        began = time.process_time()
        for message in messages:
            receive(message)
        used = time.process_time() - began
    return used / requests * _MICROSECONDS


@contextmanager
def prepared(protocol: asyncio.Protocol, workload: Workload) -> Iterator[None]:
    """Have a server ready for a workload inside."""
    settings = protocol.node.parameters.set if isinstance(protocol, Connection) else None
    for command in workload.before:
        protocol.data_received(encoded(command))
    if settings is not None and workload.settings:
        settings(workload.settings)
    yield
    if settings is not None and workload.settings:
        settings(NO_LIMIT)
    for command in workload.after:
        protocol.data_received(encoded(command))


async def run(*, rounds: int, requests: int) -> dict[str, Any]:
    """Measure everything and return a report made of numbers and names."""
    costs: dict[str, dict[str, list[float]]] = {}
    async with AsyncExitStack() as stack:
        protocols = await _protocols(stack)
        for protocol in protocols.values():
            _Ears(protocol)
        for _ in range(rounds):
            for workload in WORKLOADS:
                for name, protocol in protocols.items():
                    row = costs.setdefault(workload.name, {}).setdefault(name, [])
                    row.append(cost(protocol, workload, requests))
    least = {workload: {name: min(row) for name, row in rows.items()} for workload, rows in costs.items()}
    return {
        "python": platform.python_version(),
        "rounds": rounds,
        "requests": requests,
        "workloads": {
            name: {"cpu_us": row, "cpu_ratio": row["canned"] / max(row["minimal"], 1e-3)}
            for name, row in least.items()
        },
    }


async def run_stages(*, rounds: int, requests: int) -> dict[str, dict[str, float]]:
    """Measure the stages on the path of each workload over canned storage, in µs for a request."""
    found: dict[str, dict[str, float]] = {}
    async with AsyncExitStack() as stack:
        protocol: Any = (await _protocols(stack))["canned"]
        _Ears(protocol)
        pipeline = protocol.node.pipeline
        meter = Meter()
        for workload in WORKLOADS:
            least: dict[str, float] = {}
            whole = min(cost(protocol, workload, requests) for _ in range(rounds))
            for _ in range(rounds):
                with prepared(protocol, workload):
                    next_message = workload.messages()
                    for _ in range(_WARM):
                        protocol.data_received(next_message())
                    put_in(pipeline.ways, meter)
                    for message in [next_message() for _ in range(requests)]:
                        protocol.data_received(message)
                    spent = {
                        name: each * _MICROSECONDS for name, each in meter.read(requests).items() if each
                    }
                    pipeline.recompile()
                    meter.spent.clear()
                for name, each in spent.items():
                    least[name] = min(each, least.get(name, each))
            found[workload.name] = least | {AROUND: max(whole - sum(least.values()), 0.0)}
    return found


def stage_table(report: dict[str, dict[str, float]]) -> str:
    """Return the prices of the stages as text."""
    lines = [f"Python {platform.python_version()}, µs for a request over canned storage"]
    for workload, rows in report.items():
        lines += ["", f"{workload:32}{sum(rows.values()):8.2f}"]
        lines += [f"    {name:28}{each:8.2f}" for name, each in rows.items()]
    return "\n".join(lines)


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    lines = [
        f"Python {report['python']}, CPU time in µs, the least of {report['rounds']} rounds",
        f"{'':24}{'fake':>10}{'canned':>10}{'minimal':>10}{'ratio':>10}",
    ]
    for name, row in report["workloads"].items():
        costs = "".join(f"{each:10.1f}" for each in row["cpu_us"].values())
        lines.append(f"{name:24}{costs}{row['cpu_ratio']:10.1f}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.request_cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--requests", type=int, default=300, help="requests of each round")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--stages", action="store_true", help="print the price of each stage")
    options = parser.parse_args(arguments)
    if options.stages:
        prices = asyncio.run(run_stages(rounds=options.rounds, requests=options.requests))
        print(json.dumps(prices, indent=2) if options.json else stage_table(prices))
        return 0
    report = asyncio.run(run(rounds=options.rounds, requests=options.requests))
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

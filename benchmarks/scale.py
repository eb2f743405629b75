"""How far one process goes: start and stop, idle and busy connections, and memory over many commands.

`python -m benchmarks.scale` measures the fake server in a process of its own over loopback. `--full` runs a
million commands to see whether memory grows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from itertools import cycle
from typing import TYPE_CHECKING, Any

from bson import Binary, Int64

import fakeserver
from benchmarks.raw_client import RawClient, encoded
from benchmarks.server_cpu import contestant, serve_fake, serve_replica_set

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.server_cpu import Contestant

_MILLISECONDS = 1e3
_MICROSECONDS = 1e6
_KIB = 1024
_FEW_COMMANDS = 20_000
_MANY_COMMANDS = 1_000_000
_QUARTERS = 4
_SPARE_FILES = 100
_SESSIONS = 50
_IMPORT = "import time; start = time.perf_counter(); import fakeserver; print(time.perf_counter() - start)"


def import_time(rounds: int) -> dict[str, float]:
    """Measure `import fakeserver` in new interpreters, in milliseconds."""
    times = []
    for _ in range(rounds):
        command = [sys.executable, "-c", _IMPORT]
        output = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own
        times.append(float(output.stdout) * _MILLISECONDS)
    return {"import_ms": statistics.median(times)}


def start_and_stop(rounds: int) -> dict[str, float]:
    """Measure the start and the stop of a replica set of three in this process, in milliseconds.

    The first start is told apart: it imports the storage engine.
    """

    async def once() -> tuple[float, float]:
        began = time.perf_counter()
        cluster = await fakeserver.start(fakeserver.ClusterSpec.replica_set(3))
        started = time.perf_counter()
        await cluster.stop()
        return (started - began) * _MILLISECONDS, (time.perf_counter() - started) * _MILLISECONDS

    async def main() -> list[tuple[float, float]]:
        return [await once() for _ in range(rounds + 1)]

    (first, _), *others = asyncio.run(main())
    return {
        "first_start_ms": first,
        "start_ms": statistics.median(start for start, _ in others),
        "stop_ms": statistics.median(stop for _, stop in others),
    }


def connections(count: int, requests: int) -> dict[str, float]:
    """Open `count` connections that say hello and fall silent; then have all of them work.

    Memory is that of the server's process, per connection, in KiB.
    """
    with contestant("fake", serve_fake, 1) as server:
        before = server.usage()
        began = time.perf_counter()
        client = RawClient(server.client.address, count)
        try:
            hello = encoded({"hello": 1, "$db": "admin"})
            client.run(lambda: hello, count)
            took = time.perf_counter() - began
            idle = server.usage()
            ping = encoded({"ping": 1, "$db": "admin"})
            seconds = client.run(lambda: ping, requests)
            busy = server.usage()
        finally:
            client.close()
    return {
        "connections": count,
        "memory_kib": (idle.memory - before.memory) / count / _KIB,
        "accepted_per_second": count / took,
        "cpu_us": (busy.cpu - idle.cpu) / requests * _MICROSECONDS,
        "requests_per_second": requests / seconds,
    }


def commands() -> Iterator[bytes]:
    """Return endless commands of several kinds and sessions, which leave the data as large as it was."""
    for number, session in enumerate(cycle(range(_SESSIONS)), 1):
        lsid = {"id": Binary(session.to_bytes(16, "big"), 4)}
        update = {"q": {"_id": session}, "u": {"$set": {"n": number}}, "upsert": True}
        txn = {"lsid": lsid, "txnNumber": Int64(number), "$db": "benchmark"}
        yield encoded({"update": "c", "updates": [update], **txn})
        yield encoded({"find": "c", "filter": {"_id": session}, "lsid": lsid, "$db": "benchmark"})
        yield encoded({"ping": 1, "lsid": lsid, "$db": "admin"})
        yield encoded({"noSuchCommand": 1, "$db": "admin"})


def memory(total: int) -> dict[str, Any]:
    """Run `total` commands and look at the memory of the server's process, in KiB, after each quarter."""
    with contestant("fake", serve_replica_set, 16) as server:
        next_message = commands().__next__
        sizes = [_kib_after(server, next_message, total // _QUARTERS) for _ in range(_QUARTERS)]
    return {"commands": total, "memory_kib": sizes, "growth_kib": sizes[-1] - sizes[-2]}


def _kib_after(server: Contestant, next_message: Callable[[], bytes], requests: int) -> float:
    server.client.run(next_message, requests)
    return server.usage().memory / _KIB


def allow_files(count: int) -> int:
    """Have this process, and those it starts, open `count` files more; return how many are allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _SPARE_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft - _SPARE_FILES


def run(*, rounds: int, idle: int, busy: int, requests: int, total: int) -> dict[str, Any]:
    """Measure everything and return a report made of numbers."""
    allowed = allow_files(max(idle, busy))
    return {
        "python": platform.python_version(),
        "rounds": rounds,
        **import_time(rounds),
        **start_and_stop(rounds),
        "idle": connections(min(idle, allowed), min(idle, allowed)),
        "busy": connections(min(busy, allowed), requests),
        "memory": memory(total),
    }


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    idle, busy, memory = report["idle"], report["busy"], report["memory"]
    sizes = ", ".join(f"{size / _KIB:.1f}" for size in memory["memory_kib"])
    rows = [
        ("import fakeserver", f"{report['import_ms']:.1f} ms"),
        ("start of a set of three", f"{report['start_ms']:.1f} ms"),
        ("the first start, imports and all", f"{report['first_start_ms']:.1f} ms"),
        ("stop", f"{report['stop_ms']:.1f} ms"),
        (f"{idle['connections']:,} idle connections", f"{idle['memory_kib']:.1f} KiB each"),
        ("accepted and greeted", f"{idle['accepted_per_second']:,.0f} per second"),
        (f"{busy['connections']:,} busy connections", f"{busy['cpu_us']:.1f} µs of CPU per ping"),
        ("pings answered", f"{busy['requests_per_second']:,.0f} per second"),
        (f"memory over {memory['commands']:,} commands", f"{sizes} MiB after each quarter"),
    ]
    head = f"Python {report['python']}, medians of {report['rounds']} rounds"
    return "\n".join([head, *(f"{name:36}{value}" for name, value in rows)])


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle", type=int, default=5000, help="idle connections")
    parser.add_argument("--busy", type=int, default=1000, help="busy connections")
    parser.add_argument("--requests", type=int, default=20_000, help="requests of the busy connections")
    parser.add_argument("--commands", type=int, default=_FEW_COMMANDS, help="commands to watch memory over")
    parser.add_argument("--full", action="store_true", help="watch memory over a million commands")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    report = run(
        rounds=options.rounds,
        idle=options.idle,
        busy=options.busy,
        requests=options.requests,
        total=_MANY_COMMANDS if options.full else options.commands,
    )
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What a request costs our server, beside the least that a server in Python could do.

`python -m benchmarks.server_cpu` starts three servers in processes of their own: ours, ours over storage that
costs next to nothing (`canned`), and the minimal one, whose storage is a dictionary. It sends them the same
requests in alternating rounds over loopback, and prints the medians: CPU time of the server per request, and
requests per second (which the client in this process limits too). `ratio` is that of the canned server to the
minimal one: the cost of a request beyond storage. What the canned server saves is the cost of storage.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import platform
import resource
import statistics
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import fakeserver
from benchmarks.canned_storage import CannedEngine
from benchmarks.minimal_server import MinimalProtocol, MinimalServer
from benchmarks.raw_client import RawClient, encoded, inserts, updates
from fakeserver.deployment.garbage import collected_when_idle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    LoopFactory: TypeAlias = "Callable[[], asyncio.AbstractEventLoop] | None"

_MICROSECONDS = 1e6


# The servers' processes.


class Usage(NamedTuple):
    """What a process has used: CPU time in seconds, the memory that it has now, in bytes, and its sleeps."""

    cpu: float
    memory: int
    sleeps: int
    """How often it had nothing to do."""

    @classmethod
    def now(cls) -> Usage:
        """Return the usage of this process."""
        sleeps = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        return cls(time.process_time(), _resident_bytes(), sleeps)


def _resident_bytes() -> int:
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    # Elsewhere the peak has to do.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def make_reads_cheap() -> None:
    """Free one large block, so that reads cost what they do in a process that has run for a while.

    asyncio reads into blocks of 256 KiB. The C library maps and unmaps each of those, which costs 15 µs,
    until a larger block has been freed; whether that was so hung on what a server imports.
    """
    bytearray(1 << 20)


async def until_closed(pipe: Connection, apply: Callable[[dict[str, Any]], Any] = bool) -> None:
    """Apply each message on `pipe` and answer with what this process has used, until it is closed."""
    closed = asyncio.Event()

    def answer() -> None:
        try:
            if parameters := pipe.recv():
                apply(parameters)
            pipe.send(Usage.now())
        except (EOFError, ConnectionResetError):
            closed.set()

    loop = asyncio.get_running_loop()
    loop.add_reader(pipe.fileno(), answer)
    await closed.wait()
    loop.remove_reader(pipe.fileno())


def serve_minimal(pipe: Connection) -> None:
    """Run the minimal server in this process."""
    server = MinimalServer()
    serve_protocol(pipe, lambda: MinimalProtocol(server))


def serve_protocol(
    pipe: Connection, factory: Callable[[], asyncio.BaseProtocol], loop_factory: LoopFactory = None
) -> None:
    """Serve each connection by a new protocol, in this process."""
    make_reads_cheap()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(factory, "127.0.0.1", 0)
        pipe.send(listener.sockets[0].getsockname()[1])
        await until_closed(pipe)
        listener.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(main())


def serve_fake(pipe: Connection) -> None:
    """Run a standalone fake server in this process."""
    serve(pipe, fakeserver.ClusterSpec.standalone())


def serve_canned(pipe: Connection) -> None:
    """Run a standalone fake server over canned storage in this process."""
    serve(pipe, fakeserver.ClusterSpec.standalone(), CannedEngine())


def serve_replica_set(pipe: Connection) -> None:
    """Run a fake replica set in this process."""
    serve(pipe, fakeserver.ClusterSpec.replica_set(3))


def serve(
    pipe: Connection,
    spec: fakeserver.ClusterSpec,
    engine: CannedEngine | None = None,
    loop_factory: LoopFactory = None,
) -> None:
    """Run a fake deployment in this process; its first member is the one that is measured."""
    make_reads_cheap()

    async def main() -> None:
        async with fakeserver.start(spec) as cluster:
            if engine is not None:
                cluster.catalog.engine = engine
            pipe.send(int(cluster.nodes[0].address.rpartition(":")[2]))
            await until_closed(pipe, cluster.nodes[0].parameters.set)

    # As `pushbackd serve` runs it.
    with asyncio.Runner(loop_factory=loop_factory) as runner, collected_when_idle():
        runner.run(main())


class Pipe(Protocol):
    """The way to a server's process: it sets the parameters that it is sent, and answers with its usage."""

    def send(self, obj: dict[str, Any]) -> None: ...

    def recv(self) -> Usage: ...


@dataclass(frozen=True, slots=True)
class Contestant:
    """One server in its own process, and a client of it."""

    name: str
    pipe: Pipe
    client: RawClient

    def usage(self) -> Usage:
        """Ask the server's process what it has used."""
        return self.set({})

    def set(self, parameters: dict[str, Any]) -> Usage:
        """Set parameters of a fake server by its process's pipe; the others have none."""
        self.pipe.send(parameters)
        return self.pipe.recv()


@contextmanager
def contestant(name: str, serve: Callable[[Connection], None], connections: int) -> Iterator[Contestant]:
    """Start a server's process, connect, and end both."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    client = RawClient(("127.0.0.1", ours.recv()), connections)
    try:
        yield Contestant(name, ours, client)
    finally:
        client.close()
        ours.close()
        process.join()


# The workloads.


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests of one kind; `before` and `after` are commands run once around each round."""

    name: str
    messages: Callable[[], Callable[[], bytes]]
    before: tuple[dict[str, Any], ...] = ()
    after: tuple[dict[str, Any], ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    """Server parameters that hold meanwhile, set from outside: the limiter refuses commands as well."""


def _always(command: dict[str, Any]) -> Callable[[], Callable[[], bytes]]:
    message = encoded(command)
    return lambda: lambda: message


_PING = {"ping": 1, "$db": "admin"}
_FIND = {"find": "found", "filter": {"_id": 5}, "limit": 1, "singleBatch": True, "$db": "benchmark"}


_FILL = {
    "insert": "found",
    "documents": [{"_id": n, "name": "Ada", "tags": ["a", "b"], "n": n} for n in range(10)],
    "$db": "benchmark",
}
FILL_MANY = {
    "insert": "found",
    "documents": [
        {
            "_id": n,
            "number": f"2026-{n:06}",
            "status": "shipped",
            "customer": {"name": "Ada Lovelace", "email": "ada@example.org", "city": "London"},
            "items": [
                {"sku": "A-1001", "quantity": 2, "price": 19.9},
                {"sku": "B-2002", "quantity": 1, "price": 5.5},
            ],
            "total": 45.3,
            "paid": True,
            "tags": ["gift", "express"],
            "note": None,
            "version": 3,
        }
        for n in range(100)
    ],
    "$db": "benchmark",
}
"""A hundred orders of ten fields, some 330 bytes each, as applications have them."""
_FAIL = {
    "configureFailPoint": "failCommand",
    "mode": "alwaysOn",
    "data": {"failCommands": ["ping"], "errorCode": 462},
    "$db": "admin",
}
_STOP_FAILING = {"configureFailPoint": "failCommand", "mode": "off", "$db": "admin"}

_LIMITER = "ingressRequestRateLimiterEnabled"
_NO_TOKENS = {
    _LIMITER: True,
    "ingressRequestAdmissionRatePerSec": 1,
    "ingressRequestAdmissionBurstCapacitySecs": 5e-6,
}
"""A bucket that never holds a whole token."""
NO_LIMIT: Final = {_LIMITER: False}
"""What ends the settings of a workload."""

WORKLOADS = (
    Workload("ping", _always(_PING)),
    Workload("find_one", _always(_FIND), (_FILL,), ({"drop": "found", "$db": "benchmark"},)),
    Workload("update_one", lambda: updates().__next__, (_FILL,), ({"drop": "found", "$db": "benchmark"},)),
    Workload("insert_one", lambda: inserts().__next__, (), ({"drop": "inserted", "$db": "benchmark"},)),
    Workload("failCommand rejection", _always(_PING), (_FAIL,), (_STOP_FAILING,)),
    Workload("limiter's rejection", _always(_PING), settings=_NO_TOKENS),
)

SERVERS: dict[str, Callable[[Connection], None]] = {
    "fake": serve_fake,
    "canned": serve_canned,
    "minimal": serve_minimal,
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one workload against one server."""

    cpu_us: float
    requests_per_second: float
    sleeps: float
    """How often the server slept, for each request."""


def measure(server: Contestant, workload: Workload, requests: int) -> Sample:
    """Run one round."""
    for command in workload.before:
        _must_succeed(server, command)
    next_message = workload.messages()
    if workload.settings:
        server.set(workload.settings)
    before = server.usage()
    seconds = server.client.run(next_message, requests)
    after = server.usage()
    if workload.settings:
        server.set(NO_LIMIT)
    for command in workload.after:
        _must_succeed(server, command)
    return Sample(
        (after.cpu - before.cpu) / requests * _MICROSECONDS,
        requests / seconds,
        (after.sleeps - before.sleeps) / requests,
    )


def _must_succeed(server: Contestant, command: dict[str, Any]) -> None:
    reply = server.client.command(command)
    if reply.get("ok") != 1:
        raise RuntimeError(f"{server.name} answers {next(iter(command))} with {reply}")


def run(*, rounds: int, requests: int, connections: int) -> dict[str, Any]:
    """Measure everything and return a report made of numbers and names."""
    samples: dict[tuple[str, str], list[Sample]] = {}
    with ExitStack() as stack:
        servers = [
            stack.enter_context(contestant(name, serve, connections)) for name, serve in SERVERS.items()
        ]
        for server in servers:
            measure(server, WORKLOADS[0], requests)
        for _ in range(rounds):
            for workload in WORKLOADS:
                for server in servers:
                    sample = measure(server, workload, requests)
                    samples.setdefault((workload.name, server.name), []).append(sample)
    return {
        "python": platform.python_version(),
        "rounds": rounds,
        "requests": requests,
        "connections": connections,
        "workloads": {workload.name: _summary(workload.name, samples) for workload in WORKLOADS},
    }


def _summary(workload: str, samples: dict[tuple[str, str], list[Sample]]) -> dict[str, Any]:
    summary: dict[str, Any] = {
        name: {
            "cpu_us": statistics.median(sample.cpu_us for sample in samples[workload, name]),
            "requests_per_second": statistics.median(
                sample.requests_per_second for sample in samples[workload, name]
            ),
        }
        for name in SERVERS
    }
    return summary | {"cpu_ratio": summary["canned"]["cpu_us"] / max(summary["minimal"]["cpu_us"], 1e-3)}


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    setting = (
        f"Python {report['python']}, {report['connections']} connections, "
        f"median of {report['rounds']} rounds of {report['requests']} requests"
    )
    lines = [
        setting,
        f"{'':24}{'server CPU, µs/request':>40}{'requests/s':>22}",
        f"{'':24}{'fake':>10}{'canned':>10}{'minimal':>10}{'ratio':>10}{'fake':>12}{'minimal':>10}",
    ]
    for name, row in report["workloads"].items():
        fake, canned, minimal = (row[server] for server in SERVERS)
        lines.append(
            f"{name:24}{fake['cpu_us']:10.1f}{canned['cpu_us']:10.1f}{minimal['cpu_us']:10.1f}"
            f"{row['cpu_ratio']:10.1f}"
            f"{fake['requests_per_second']:12,.0f}{minimal['requests_per_second']:10,.0f}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server_cpu", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=2000, help="requests of each round")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    report = run(rounds=options.rounds, requests=options.requests, connections=options.connections)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What an operation costs our client, beside PyMongo's asynchronous one, and what the pool alone costs.

`python -m benchmarks.driver` starts a server in a process of its own that answers everything at once, and has
both clients do the same operations in alternating rounds: one after the other, and by sixteen tasks together.
Printed are operations per second and CPU time of this process per operation, the best of all rounds, since
whatever else the machine does can only make a round worse. `speed` is ours to PyMongo's. Both run on the same
event loop, asyncio's unless `--loop uvloop` asks for the other one.

`least` is a ping that was encoded beforehand, over a bare protocol: what no client on this loop, machine and
server can go below. One operation after the other mostly waits there, for two processes to be woken.

Then tasks check the only connection of a pool out and in again, in memory: all but one of them wait.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import platform
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import pymongo

from benchmarks.instant_server import serve_instantly
from benchmarks.raw_client import encoded
from benchmarks.server_cpu import make_reads_cheap
from driver import AsyncClient
from driver.cmap.connection import Connection
from driver.cmap.pool import Pool, PoolPorts
from driver.cmap.state import PoolOptions
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from driver.cmap.handshake import Handshake
    from mongowire.ports import Stream

    Operation = Callable[[], Awaitable[Any]]

MICROSECONDS: Final = 1e6
TASKS: Final = (1, 16)
TASKS_AT_POOL: Final = (1, 10, 1000)


def _uvloop() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop  # noqa: PLC0415 - it may not be there

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


LOOPS: Final[dict[str, Callable[[], Callable[[], asyncio.AbstractEventLoop] | None]]] = {
    "asyncio": lambda: None,
    "uvloop": _uvloop,
}


@contextmanager
def instant_server() -> Iterator[int]:
    """Run an instant server in a process of its own; the value is its port."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve_instantly, args=(theirs,), daemon=True
    )
    process.start()
    theirs.close()
    try:
        yield int(ours.recv())
    finally:
        ours.close()
        process.join()


# Operations.


def ours(client: AsyncClient) -> dict[str, Operation]:
    """Return each operation with our client."""
    things = client.database("db").collection("things")
    return {
        "ping": lambda: client.command("admin", {"ping": 1}),
        "find_one": lambda: things.find_one({"_id": 5}),
        "insert_one": lambda: things.insert_one({"name": "Ada", "n": 1}),
        "update_one": lambda: things.update_one({"_id": 5}, {"$set": {"n": 1}}),
    }


def theirs(client: pymongo.AsyncMongoClient[dict[str, Any]]) -> dict[str, Operation]:
    """Return each operation with PyMongo's client."""
    things = client["db"]["things"]
    return {
        "ping": lambda: client.admin.command({"ping": 1}),
        "find_one": lambda: things.find_one({"_id": 5}),
        "insert_one": lambda: things.insert_one({"name": "Ada", "n": 1}),
        "update_one": lambda: things.update_one({"_id": 5}, {"$set": {"n": 1}}),
    }


@dataclass(frozen=True, slots=True)
class Sample:
    """One round."""

    per_second: float
    cpu_us: float


async def measure(operation: Operation, count: int, tasks: int) -> Sample:
    """Run an operation `count` times, shared out among tasks."""

    async def work() -> None:
        for _ in range(count // tasks):
            await operation()

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work() for _ in range(tasks)))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    done = count // tasks * tasks
    return Sample(done / wall, cpu / done * MICROSECONDS)


async def compare(port: int, *, rounds: int, operations: int) -> dict[str, Any]:
    """Measure both clients, in alternating rounds."""
    uri = f"mongodb://127.0.0.1:{port}/?directConnection=true"
    samples: dict[str, dict[str, list[Sample]]] = {}
    async with AsyncClient(uri) as client, pymongo.AsyncMongoClient[dict[str, Any]](uri) as pymongo_client:
        contestants = {"driver": ours(client), "pymongo": theirs(pymongo_client)}
        for _ in range(rounds + 1):
            for name in contestants["driver"]:
                for tasks in TASKS:
                    row = samples.setdefault(_title(name, tasks), {})
                    for who, table in contestants.items():
                        sample = await measure(table[name], operations, tasks)
                        row.setdefault(who, []).append(sample)
    return {title: _summary(row) for title, row in samples.items()}


def _title(name: str, tasks: int) -> str:
    return name if tasks == 1 else f"{name}, {tasks} tasks"


def _summary(row: dict[str, list[Sample]]) -> dict[str, Any]:
    """Return the best of each, the first round apart, which connects and warms up."""
    best = {who: _best(samples[1:]) for who, samples in row.items()}
    return {**best, "speed": best["driver"]["per_second"] / best["pymongo"]["per_second"]}


def _best(samples: list[Sample]) -> dict[str, float]:
    return {
        "per_second": max(sample.per_second for sample in samples),
        "cpu_us": min(sample.cpu_us for sample in samples),
    }


# The least that a client can cost.


class _Least(asyncio.Protocol):
    """A connection that sends what was encoded beforehand, and decodes nothing."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._reply.set_result(data)  # replies are so small that none comes in pieces

    async def exchange(self, request: bytes) -> None:
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        await self._reply

    def close(self) -> None:
        self._transport.close()


async def least(port: int, *, rounds: int, operations: int) -> dict[str, Any]:
    """Measure what the event loop, the system and the server leave to any client: pings as bytes."""
    loop = asyncio.get_running_loop()
    idle = [(await loop.create_connection(_Least, "127.0.0.1", port))[1] for _ in range(max(TASKS))]
    ping = encoded({"ping": 1, "$db": "admin"})

    async def operation() -> None:
        connection = idle.pop()
        await connection.exchange(ping)
        idle.append(connection)

    samples = {
        str(tasks): _best([await measure(operation, operations, tasks) for _ in range(rounds)])
        for tasks in TASKS
    }
    for connection in idle:
        connection.close()
    await asyncio.sleep(0)  # they are closed in the loop's next turn
    return samples


# The pool.


class _Nowhere:
    """A stream to nobody."""

    async def aclose(self, *, abort: bool = False) -> None:
        """Close."""


class _AtOnce:
    """A handshake that takes no time."""

    async def establish(self, address: str, *, number: int, generation: int, **_limits: Any) -> Connection:
        """Return a connection to nobody."""
        return Connection(address, cast("Stream", _Nowhere()), number=number, generation=generation)


async def pool_rate(tasks: int, operations: int) -> Sample:
    """Return how often the one connection of a pool can be checked out and in by so many tasks."""
    ports = PoolPorts(
        SystemClock(),
        cast("Handshake", _AtOnce()),
        lambda _event: None,
        lambda _address, _error, _at: None,
        hears=lambda: False,  # as in a program without listeners and log
    )
    pool = Pool("127.0.0.1:1", PoolOptions(max_size=1), ports)
    pool.ready()

    async def use() -> None:
        connection = await pool.check_out()
        await asyncio.sleep(0)  # the others queue up
        pool.check_in(connection)

    await use()
    sample = await measure(use, max(operations, tasks), tasks)
    await pool.aclose()
    return sample


async def pool_rates(*, rounds: int, operations: int) -> dict[str, Any]:
    """Return the best of several rounds for each number of tasks."""
    rates: dict[str, Any] = {}
    for tasks in TASKS_AT_POOL:
        rates[str(tasks)] = _best([await pool_rate(tasks, operations) for _ in range(rounds)])
    return rates


# The report.


def run(*, rounds: int, operations: int, loop: str = "asyncio") -> dict[str, Any]:
    """Measure everything and return a report made of numbers and names."""
    make_reads_cheap()
    with instant_server() as port, asyncio.Runner(loop_factory=LOOPS[loop]()) as runner:
        compared = runner.run(compare(port, rounds=rounds, operations=operations))
        floor = runner.run(least(port, rounds=rounds, operations=operations))
        pool = runner.run(pool_rates(rounds=rounds, operations=operations))
    return {
        "python": platform.python_version(),
        "loop": loop,
        "pymongo": pymongo.version,
        "rounds": rounds,
        "operations": operations,
        "compared": compared,
        "least": floor,
        "pool": pool,
    }


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    setting = (
        f"Python {report['python']}, {report['loop']}, PyMongo {report['pymongo']}, "
        f"the best of {report['rounds']} rounds of {report['operations']} operations"
    )
    lines = [
        setting,
        f"{'':24}{'operations/s':>20}{'CPU, µs/operation':>24}",
        f"{'':24}{'driver':>10}{'pymongo':>10}{'driver':>14}{'pymongo':>10}{'speed':>10}",
    ]
    for title, row in report["compared"].items():
        mine, other = row["driver"], row["pymongo"]
        lines.append(
            f"{title:24}{mine['per_second']:10,.0f}{other['per_second']:10,.0f}"
            f"{mine['cpu_us']:14.1f}{other['cpu_us']:10.1f}{row['speed']:10.2f}"
        )
    for tasks, row in report["least"].items():
        title = _title("least", int(tasks))
        lines.append(f"{title:24}{row['per_second']:10,.0f}{row['cpu_us']:24.1f}")
    lines.append(f"{'pool, tasks':24}{'out and in/s':>20}{'CPU, µs':>24}")
    for tasks, row in report["pool"].items():
        lines.append(f"{int(tasks):<24,}{row['per_second']:20,.0f}{row['cpu_us']:24.1f}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.driver", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--operations", type=int, default=2000, help="operations of each round")
    parser.add_argument("--loop", choices=LOOPS, default="asyncio", help="event loop of both clients")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    report = run(rounds=options.rounds, operations=options.operations, loop=options.loop)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

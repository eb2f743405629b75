"""Whether one client waits for what another asked: requests that keep a server busy, and a ping beside them.

`python -m benchmarks.liveness` starts a server in a process of its own and, while each of the requests below
runs, pings it from another process. It prints how long the slowest ping and the slowest hello took, how long
the request took and what it came to; for those with `maxTimeMS`, how much later than that they ended; and
last how long the server took to end at SIGTERM while one of them ran. Times are milliseconds of the wall
clock: read them on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.raw_client import RawClient, encoded
from mongowire.connection import Envelope, WireConnection
from mongowire.messages import DocumentSequence, OpMsg

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

DB = "benchmark"
_LIMIT_MS = 500
_MS = 1000.0


def _insert_of(documents: list[dict[str, Any]] | list[bytes], collection: str = "many") -> OpMsg:
    raw = [each if isinstance(each, bytes) else OpMsg.of(each).body for each in documents]
    sequence = DocumentSequence("documents", tuple(raw))
    return OpMsg.of({"insert": collection, "$db": DB, "ordered": False}, sequences=[sequence])


def _bulk_write(count: int) -> OpMsg:
    operations = DocumentSequence.of("ops", ({"insert": 0, "document": {"n": n}} for n in range(count)))
    names = DocumentSequence.of("nsInfo", [{"ns": f"{DB}.bulk"}])
    return OpMsg.of({"bulkWrite": 1, "$db": "admin"}, sequences=[operations, names])


def _aggregate(*pipeline: dict[str, Any], collection: str = "hundred", **more: Any) -> OpMsg:
    return OpMsg.of({"aggregate": collection, "pipeline": list(pipeline), "cursor": {}, "$db": DB, **more})


def _doubling() -> dict[str, Any]:
    text: Any = "x" * 1024
    for _ in range(30):
        text = {"$let": {"vars": {"t": text}, "in": {"$concat": ["$$t", "$$t"]}}}
    return {"$project": {"t": text}}


PRODUCT: list[dict[str, Any]] = [
    {"$lookup": {"from": "hundred", "pipeline": [], "as": "x"}},
    {"$unwind": "$x"},
] * 4

REQUESTS: dict[str, Callable[[], OpMsg]] = {
    "$pow of 10^9": lambda: _aggregate({"$project": {"x": {"$pow": [2, 1_000_000_000]}}}),
    "$range to 10^9": lambda: _aggregate({"$project": {"x": {"$range": [0, 1_000_000_000]}}}),
    "doubling $concat": lambda: _aggregate(_doubling()),
    "regex ^(a+)+$": lambda: OpMsg.of({"find": "texts", "filter": {"t": {"$regex": "^(a+)+$"}}, "$db": DB}),
    "product of 100^5": lambda: _aggregate(*PRODUCT, maxTimeMS=_LIMIT_MS),
    "update of 10^5, maxTimeMS": lambda: OpMsg.of(
        {
            "update": "many",
            "updates": [{"q": {}, "u": {"$inc": {"n": 1}}, "multi": True}],
            "maxTimeMS": _LIMIT_MS,
            "$db": DB,
        }
    ),
    "bulkWrite of 10^5": lambda: _bulk_write(100_000),
    "insert of 10^5": lambda: _insert_of([{"n": n} for n in range(100_000)], "inserted"),
    "47 MB of empty documents": lambda: _insert_of([b"\5\0\0\0\0"] * 9_400_000),
    "sort of 10^5": lambda: _aggregate({"$sort": {"n": -1, "_id": 1}}, collection="many"),
    "$group of 10^5": lambda: _aggregate({"$group": {"_id": "$n", "k": {"$sum": 1}}}, collection="many"),
    "$lookup of 10^5 on _id": lambda: _aggregate(
        {"$lookup": {"from": "many", "localField": "_id", "foreignField": "_id", "as": "x"}},
        collection="many",
    ),
    "find of 10^5": lambda: OpMsg.of({"find": "many", "batchSize": 1_000_000, "$db": DB}),
    "delete of 10^5": lambda: OpMsg.of({"delete": "many", "deletes": [{"q": {}, "limit": 0}], "$db": DB}),
}
"""What keeps a server busy; the last empties the collection that others need."""


class Row(NamedTuple):
    """One request: times in milliseconds."""

    name: str
    ping: float
    hello: float
    took: float
    answer: str


class Server:
    """A standalone in a process of its own."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "fakeserver", "--port", "0", *options]
        self.process = subprocess.Popen(  # noqa: S603 - it is ours
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        host, _, port = self.process.stdout.readline().split("/")[2].rpartition(":")
        self.address = (host, int(port))

    def fill(self) -> None:
        """Insert what the requests are about."""
        client = RawClient(self.address, 1)
        for first in range(0, 100_000, 10_000):
            message = _insert_of([{"_id": n, "n": n % 100} for n in range(first, first + 10_000)])
            exchange(client, message)
        exchange(client, _insert_of([{"_id": n} for n in range(100)], "hundred"))
        exchange(client, _insert_of([{"t": "a" * 40 + "!"}], "texts"))
        client.close()

    def end(self) -> float:
        """Send SIGTERM, and return how many seconds the end took."""
        began = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        return time.perf_counter() - began


def exchange(client: RawClient, message: OpMsg) -> dict[str, Any]:
    """Send a message and return the reply."""
    sock, wire = client.sockets[0], WireConnection()
    sock.settimeout(300)
    sock.sendall(wire.send(message, request_id=1))
    while not isinstance(envelope := wire.next_message(), Envelope):
        wire.receive_data(sock.recv(1 << 16))
    reply = envelope.parse()
    assert isinstance(reply, OpMsg)
    return reply.decode()


def ping(address: tuple[str, int], pipe: Connection) -> None:
    """Ping until told to end, in a process of its own; tell the slowest of each command, in milliseconds."""
    client = RawClient(address, 1)
    slowest = {"ping": 0.0, "hello": 0.0}
    pipe.send(None)
    while not pipe.poll(0.002):
        for command, slower in slowest.items():
            began = time.perf_counter()
            client.command({command: 1, "$db": "admin"})
            slowest[command] = max(slower, (time.perf_counter() - began) * _MS)
    pipe.send(slowest)


def measure(server: Server, name: str, message: OpMsg) -> Row:
    """Run a request while another process pings."""
    client = RawClient(server.address, 1)
    ours, theirs = multiprocessing.Pipe()
    pinging = multiprocessing.Process(target=ping, args=(server.address, theirs))
    pinging.start()
    ours.recv()
    began = time.perf_counter()
    reply = exchange(client, message)
    took = time.perf_counter() - began
    ours.send(None)
    slowest = ours.recv()
    pinging.join()
    client.close()
    answer = "ok" if reply["ok"] else f"{reply['code']} {reply['codeName']}"
    return Row(name, slowest["ping"], slowest["hello"], took * _MS, answer)


def run(wanted: str) -> dict[str, Any]:
    """Measure everything and return a report made of numbers and names."""
    server = Server()
    try:
        server.fill()
        rows = [measure(server, name, make()) for name, make in REQUESTS.items() if wanted in name]
        last = RawClient(server.address, 1)
        last.sockets[0].sendall(encoded(_aggregate(*PRODUCT).decode()))
        time.sleep(0.2)
        return {"rows": [row._asdict() for row in rows], "sigterm": server.end() * _MS}
    finally:
        if server.process.poll() is None:
            os.kill(server.process.pid, signal.SIGKILL)


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    lines = [f"{'milliseconds':28}{'ping':>9}{'hello':>9}{'took':>10}  answer"]
    for row in report["rows"]:
        numbers = f"{row['ping']:9.0f}{row['hello']:9.0f}{row['took']:10.0f}"
        lines.append(f"{row['name']:28}{numbers}  {row['answer']}")
    return "\n".join([*lines, f"the server ended {report['sigterm']:.0f} ms after SIGTERM, busy"])


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.liveness", description=__doc__)
    parser.add_argument("--only", default="", help="requests whose name contains this")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    report = run(options.only)
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What one large request costs: writes of very many documents, joins, and messages that claim too much.

`python -m benchmarks.large_requests` hands each request to a server's protocol in this process, and prints
the CPU time until the reply is there. `insert_many beside a transaction` is the ratio to an insert with none
open, each the least of several rounds that alternate.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Binary, Int64

import fakeserver
from fakeserver.network.connection import Connection
from mongowire.connection import Envelope, WireConnection
from mongowire.messages import DocumentSequence, OpMsg

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeserver.deployment.node import Node

    Document = dict[str, Any]

_SIZE = 100_000
_JOINED = 1_000
_EMPTY: Final = bson.encode({})
_SESSION: Final = {"lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(1), "autocommit": False}


class Client(asyncio.Transport):
    """A client without a socket, on one connection."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._heard = WireConnection()
        self._replied = asyncio.Event()
        self._protocol = Connection(node)
        self._protocol.connection_made(self)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 0) if name == "peername" else default

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Hear a reply."""
        self._heard.receive_data(bytes(data))
        self._replied.set()

    def pause_reading(self) -> None:
        """Nothing more is sent before the reply is there."""

    def resume_reading(self) -> None:
        """Hear that more could be sent."""

    def abort(self) -> None:
        self._protocol.connection_lost(None)

    async def command(self, body: Document, **sequence: Iterable[Document | bytes]) -> tuple[Document, float]:
        """Run a command and return its reply, and the CPU seconds that it took."""
        used = await self.exchange(encoded(body, **sequence))
        return self.reply(), used

    async def exchange(self, data: bytes) -> float:
        """Send a message and await the reply to it; return the CPU seconds that it took."""
        self._replied.clear()
        began = time.process_time()
        self._protocol.data_received(data)
        await self._replied.wait()
        return time.process_time() - began

    def reply(self) -> Document:
        """Return the reply that came."""
        envelope = self._heard.next_message()
        assert isinstance(envelope, Envelope)
        return envelope.parse().decode()

    async def cost(self, body: Document, **sequence: Iterable[Document | bytes]) -> float:
        """Run a command that must succeed, and return the CPU seconds that it took."""
        reply, used = await self.command(body, **sequence)
        if reply["ok"] != 1.0 or "writeErrors" in reply:
            raise RuntimeError(f"{next(iter(body))} failed: {reply}")
        return used


def encoded(body: Document, **sequence: Iterable[Document | bytes]) -> bytes:
    """Return a command, with its document sequences, as it travels."""
    sections = [
        DocumentSequence(
            name, tuple(each if isinstance(each, bytes) else bson.encode(each) for each in documents)
        )
        for name, documents in sequence.items()
    ]
    message = OpMsg.of({**body, "$db": body.get("$db", "db")}, sequences=sections)
    return WireConnection().send(message, request_id=1)


def _documents(size: int) -> list[Document]:
    return [{"_id": number, "name": "Ada", "n": number} for number in range(size)]


async def _writes(client: Client, size: int) -> dict[str, float]:
    """Return what writes of so many documents cost."""
    update = {"u": {"$inc": {"n": 1}}, "multi": True}
    costs = {
        "insert_many": await client.cost({"insert": "a"}, documents=_documents(size)),
        "update of all": await client.cost({"update": "a", "updates": [{"q": {}, **update}]}),
        "delete of all": await client.cost({"delete": "a", "deletes": [{"q": {}, "limit": 0}]}),
    }
    operations = {
        "inserts": [{"insert": 0, "document": document} for document in _documents(size)],
        "updates": [
            {"update": 0, "filter": {"_id": number}, "updateMods": {"$inc": {"n": 1}}}
            for number in range(size)
        ],
        "deletes": [{"delete": 0, "filter": {"_id": number}} for number in range(size)],
    }
    for name, ops in operations.items():
        bulk = {"bulkWrite": 1, "nsInfo": [{"ns": "db.b"}], "errorsOnly": True, "$db": "admin"}
        costs[f"bulkWrite of {name}"] = await client.cost(bulk, ops=ops)
    return costs


async def _beside_a_transaction(client: Client, other: Client, size: int, rounds: int) -> dict[str, float]:
    """Return what an insert costs without and with a transaction open, and the ratio."""
    alone, beside = [], []
    documents = [bson.encode(document) for document in _documents(size)]
    await client.cost({"create": "other"})
    for number in range(rounds):
        session = {**_SESSION, "txnNumber": Int64(number + 1)}
        alone.append(await _insert(client, documents))
        begun = {"insert": "other", "documents": [{}], "startTransaction": True, **session}
        await other.cost(begun)
        beside.append(await _insert(client, documents))
        await other.cost({"abortTransaction": 1, "$db": "admin", **session})
    return {"alone": min(alone), "beside": min(beside), "ratio": min(beside) / max(min(alone), 1e-9)}


async def _insert(client: Client, documents: list[bytes]) -> float:
    await client.cost({"create": "c"})
    used = await client.cost({"insert": "c"}, documents=documents)
    await client.cost({"delete": "c", "deletes": [{"q": {}, "limit": 0}]})
    return used


async def _joins(client: Client, size: int) -> dict[str, float]:
    """Return what joins of so many documents with as many cost."""
    await client.cost({"insert": "local"}, documents=_documents(size))
    await client.cost({"insert": "foreign"}, documents=_documents(size))
    match = {"$match": {"$expr": {"$eq": ["$n", "$$n"]}}}
    graph = {"startWith": "$n", "connectFromField": "_id", "connectToField": "n"}
    stages: dict[str, dict[str, Document]] = {
        "$lookup on _id": {"$lookup": {"localField": "n", "foreignField": "_id"}},
        "$lookup on a field": {"$lookup": {"localField": "_id", "foreignField": "n"}},
        "$lookup by a pipeline": {"$lookup": {"let": {"n": "$n"}, "pipeline": [match]}},
        "$graphLookup": {"$graphLookup": graph},
    }
    costs = {}
    for name, stage in stages.items():
        ((operator, argument),) = stage.items()
        pipeline = [{operator: {"from": "foreign", "as": "joined", **argument}}]
        command = {"aggregate": "local", "pipeline": pipeline, "cursor": {"batchSize": 0}}
        costs[name] = await client.cost(command)
    return costs


async def _refusals(client: Client, size: int) -> dict[str, float]:
    """Return what it costs to refuse an insert of too many documents."""
    empty = max(size * 90, 400_000)
    _, by_sequence = await client.command({"insert": "c"}, documents=[_EMPTY] * empty)
    _, by_body = await client.command({"insert": "c", "documents": [{}] * (empty // 3)})
    return {f"{empty:,} in a sequence": by_sequence, f"{empty // 3:,} in the body": by_body}


async def run(*, size: int = _SIZE, joined: int = _JOINED, rounds: int = 3) -> dict[str, Any]:
    """Measure everything and return a report made of numbers and names."""
    async with fakeserver.start(fakeserver.ClusterSpec.replica_set(1)) as cluster:
        client, other = Client(cluster.nodes[0]), Client(cluster.nodes[0])
        return {
            "python": platform.python_version(),
            "documents": size,
            "joined": joined,
            "writes": await _writes(client, size),
            "beside_a_transaction": await _beside_a_transaction(client, other, size, rounds),
            "joins": await _joins(client, joined),
            "refusals": await _refusals(client, size),
        }


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    beside = report["beside_a_transaction"]
    lines = [f"Python {report['python']}, CPU time in s"]
    for title, name in (
        (f"writes of {report['documents']:,}", "writes"),
        (f"joins of {report['joined']:,} with as many", "joins"),
        ("refused", "refusals"),
    ):
        lines.append(f"{title}:")
        lines += [f"  {each:30}{cost:10.3f}" for each, cost in report[name].items()]
    lines.append(
        f"insert_many beside a transaction: {beside['beside']:.3f}, without: {beside['alone']:.3f},"
        f" ratio {beside['ratio']:.2f}"
    )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_requests", description=__doc__)
    parser.add_argument("--size", type=int, default=_SIZE, help="documents of a write")
    parser.add_argument("--joined", type=int, default=_JOINED, help="documents of each side of a join")
    parser.add_argument("--rounds", type=int, default=3, help="inserts with and without a transaction")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    report = asyncio.run(run(size=options.size, joined=options.joined, rounds=options.rounds))
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A scripted peer for the driver's tests: it answers from a list of replies, over mongowire alone."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from bson import Int64, ObjectId

from mongowire.connection import Signal, WireConnection
from mongowire.messages import OpMsg, OpQuery, OpReply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mongowire.ports import Listener, Network

Document: TypeAlias = "dict[str, Any]"
HELLOS = frozenset({"hello", "ismaster", "isMaster"})
OPENS_A_CURSOR = frozenset({"find", "aggregate", "listCollections", "listIndexes"})
NO_DOCUMENTS = {"ok": 1.0, "cursor": {"id": 0, "ns": "db.things", "firstBatch": []}}
PROCESS = ObjectId("6500000000000000000000aa")


class Drop:
    """Close the connection instead of answering."""


class Silence:
    """Never answer."""


@dataclass(frozen=True)
class Late:
    """Answer after some seconds."""

    seconds: float
    answer: Document = field(default_factory=lambda: {"ok": 1.0})


Said: TypeAlias = "Document | Drop | Silence | Late"
Answer: TypeAlias = "Said | Callable[[Document], Said]"


@dataclass
class ScriptedMongod:
    """One member. `script` holds answers by command name, used in turn; without one `{ok: 1}` is the answer.

    `received` keeps every command but hellos, `hellos` those, in the order of arrival.
    """

    port: int
    hello: Document = field(default_factory=dict)
    script: dict[str, deque[Answer]] = field(default_factory=dict)
    received: list[Document] = field(default_factory=list)
    hellos: list[Document] = field(default_factory=list)
    connections: list[Peer] = field(default_factory=list)
    compressed: list[str] = field(default_factory=list)
    listener: Listener | None = None

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    async def start(self, network: Network) -> None:
        self.listener = await network.listen("localhost", self.port, lambda: Peer(self))

    async def stop(self) -> None:
        if self.listener is not None:
            await self.listener.aclose()
        for peer in self.connections:
            peer.abort()

    def will(self, command: str, *answers: Answer) -> None:
        self.script.setdefault(command, deque()).extend(answers)

    def commands(self, name: str) -> list[Document]:
        return [command for command in self.received if next(iter(command)) == name]

    def answer(self, command: Document) -> Said:
        name = next(iter(command))
        queue = self.script.get(name)
        answer: Answer = queue.popleft() if queue else self._default(name)
        return answer(command) if callable(answer) else answer

    def _default(self, name: str) -> Document:
        if name in HELLOS:
            return dict(self.hello)
        return dict(NO_DOCUMENTS) if name in OPENS_A_CURSOR else {"ok": 1.0}


class Peer(asyncio.Protocol):
    """One accepted connection."""

    def __init__(self, server: ScriptedMongod) -> None:
        self._server = server
        self._wire = WireConnection()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.append(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._wire.receive_data(data)
        while not isinstance(envelope := self._wire.next_message(), Signal):
            message = envelope.parse()
            assert isinstance(message, OpMsg | OpQuery)
            if envelope.compressor is not None:
                self._server.compressed.append(message.command_name)
            self._serve(message.decode(), envelope.request_id, message)

    def _serve(self, command: Document, request_id: int, message: OpMsg | OpQuery) -> None:
        name = next(iter(command))
        (self._server.hellos if name in HELLOS else self._server.received).append(command)
        answer = self._server.answer(command)
        if isinstance(answer, Drop):
            self.abort()
        elif isinstance(answer, Late):
            loop = asyncio.get_running_loop()
            loop.call_later(answer.seconds, self._reply, answer.answer, request_id, message)
        elif isinstance(answer, dict) and not getattr(message, "more_to_come", False):
            self._reply(answer, request_id, message)

    def _reply(self, answer: Mapping[str, Any], request_id: int, message: OpMsg | OpQuery) -> None:
        reply = OpReply.of(answer) if isinstance(message, OpQuery) else OpMsg.of(answer)
        assert self._transport is not None
        if self._transport.is_closing():
            return
        self._transport.write(self._wire.send(reply, request_id=1, response_to=request_id))


LIMITS = {
    "maxBsonObjectSize": 16777216,
    "maxMessageSizeBytes": 48000000,
    "maxWriteBatchSize": 100000,
    "minWireVersion": 0,
    "maxWireVersion": 27,
    "logicalSessionTimeoutMinutes": 30,
    "ok": 1.0,
}


def member_hello(ports: list[int], me: int, *, primary: int | None, **extra: Any) -> Document:
    """The hello of a member of the replica set rs0."""
    return {
        "helloOk": True,
        "hosts": [f"localhost:{port}" for port in ports],
        "setName": "rs0",
        "setVersion": 1,
        "ismaster": me == primary,
        "isWritablePrimary": me == primary,
        "secondary": me != primary,
        "me": f"localhost:{me}",
        **({"electionId": ObjectId("7fffffff0000000000000001")} if me == primary else {}),
        **LIMITS,
        **extra,
    }


def standalone_hello(**extra: Any) -> Document:
    return {"helloOk": True, "ismaster": True, "isWritablePrimary": True, **LIMITS, **extra}


def mongos_hello(**extra: Any) -> Document:
    return {"helloOk": True, "ismaster": True, "msg": "isdbgrid", **LIMITS, **extra}


def topology_version(counter: int) -> Document:
    return {"processId": PROCESS, "counter": Int64(counter)}


def error(code: int, message: str = "", *labels: str, **extra: Any) -> Document:
    labelled = {"errorLabels": list(labels)} if labels else {}
    return {"ok": 0.0, "code": code, "errmsg": message or f"error {code}", **labelled, **extra}


def replica_set(ports: list[int]) -> list[ScriptedMongod]:
    """Members of rs0 whose first is the primary."""
    return [ScriptedMongod(port, member_hello(ports, port, primary=ports[0])) for port in ports]

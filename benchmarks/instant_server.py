"""A primary that answers at once: every reply was encoded before the first request came.

It looks at nothing but a command's name, so that what a client costs can be seen.
"""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any, Final

import bson

from benchmarks.server_cpu import until_closed
from mongowire import framing
from mongowire.framing import HEADER, HEADER_SIZE, OpCode

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_QUERY_HEAD: Final = struct.Struct("<i")
_QUERY_NUMBERS_SIZE: Final = 8
_REPLY_HEAD: Final = struct.Struct("<iqii")
_MSG_HEAD: Final = b"\0\0\0\0\0"

DOCUMENT: Final = {"_id": 5, "name": "Ada", "tags": ["a", "b"], "n": 5}


def _replies(port: int) -> dict[str, dict[str, Any]]:
    address = f"127.0.0.1:{port}"
    hello = {
        "helloOk": True,
        "isWritablePrimary": True,
        "ismaster": True,
        "setName": "rs",
        "hosts": [address],
        "me": address,
        "maxBsonObjectSize": 16 * 1024 * 1024,
        "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000,
        "logicalSessionTimeoutMinutes": 30,
        "minWireVersion": 0,
        "maxWireVersion": 25,
        "ok": 1.0,
    }
    found = {"cursor": {"firstBatch": [DOCUMENT], "id": bson.Int64(0), "ns": "db.things"}, "ok": 1.0}
    return {
        "hello": hello,
        "ismaster": hello,
        "find": found,
        "insert": {"n": 1, "ok": 1.0},
        "update": {"n": 1, "nModified": 1, "ok": 1.0},
        "ping": {"ok": 1.0},
    }


class InstantServer:
    """Replies by lower-case command name, as bytes."""

    def __init__(self, port: int) -> None:
        self._encoded = {name.lower(): bson.encode(reply) for name, reply in _replies(port).items()}
        self._other = bson.encode({"ok": 1.0})

    def answer(self, command_name: str) -> bytes:
        """Return the reply to a command."""
        return self._encoded.get(command_name.lower(), self._other)


class InstantProtocol(asyncio.Protocol):
    """One connection. Requests are OP_MSG, and OP_QUERY for the handshake."""

    def __init__(self, server: InstantServer) -> None:
        self._server = server
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= HEADER_SIZE:
            size, request_id, _, op_code = HEADER.unpack_from(self._buffer)
            if len(self._buffer) < size:
                return
            payload, self._buffer = self._buffer[HEADER_SIZE:size], self._buffer[size:]
            self._transport.write(self._reply(request_id, op_code, payload))

    def _reply(self, request_id: int, op_code: int, payload: bytes) -> bytes:
        if op_code == OpCode.QUERY:
            query = payload[payload.index(b"\0", _QUERY_HEAD.size) + 1 + _QUERY_NUMBERS_SIZE :]
            head, op_code = _REPLY_HEAD.pack(8, 0, 0, 1), OpCode.REPLY
        else:
            query, head = payload[len(_MSG_HEAD) :], _MSG_HEAD
        body = head + self._server.answer(framing.first_key(query))
        return HEADER.pack(HEADER_SIZE + len(body), 0, request_id, op_code) + body


def serve_instantly(pipe: Connection) -> None:
    """Run an instant server in this process until `pipe` is closed; its port is sent first."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        servers: list[InstantServer] = []
        listener = await loop.create_server(lambda: InstantProtocol(servers[0]), "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        servers.append(InstantServer(port))
        pipe.send(port)
        await until_closed(pipe)
        listener.close()

    asyncio.run(main())

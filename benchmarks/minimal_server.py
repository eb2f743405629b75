"""The least that could answer a driver: asyncio's protocol, bson and a dict.

It validates nothing, keeps no journal and knows no sessions: what a server in Python cannot go below.
"""

from __future__ import annotations

import asyncio
import struct
from itertools import islice
from typing import Any, cast

import bson

_HEADER = struct.Struct("<iiii")
_BODY_AT = _HEADER.size + 5


class MinimalServer:
    """The data of all connections."""

    def __init__(self) -> None:
        self.documents: dict[Any, dict[str, Any]] = {}
        self.failing: dict[str, dict[str, Any]] = {}

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        """Run a command."""
        name = next(iter(command))
        if name in self.failing:
            return self.failing[name]
        handler = getattr(self, f"_{name.lower()}", None)
        return {"ok": 1.0} if handler is None else handler(command)

    def _insert(self, command: dict[str, Any]) -> dict[str, Any]:
        for document in command["documents"]:
            self.documents[document["_id"]] = document
        return {"n": len(command["documents"]), "ok": 1.0}

    def _find(self, command: dict[str, Any]) -> dict[str, Any]:
        wanted = command["filter"]
        if wanted:
            document = self.documents.get(wanted["_id"])
            batch = [] if document is None else [document]
        else:
            batch = list(islice(self.documents.values(), command["limit"]))
        namespace = f"{command['$db']}.{command['find']}"
        return {"cursor": {"firstBatch": batch, "id": 0, "ns": namespace}, "ok": 1.0}

    def _update(self, command: dict[str, Any]) -> dict[str, Any]:
        for statement in command["updates"]:
            self.documents[statement["q"]["_id"]].update(statement["u"]["$set"])
        count = len(command["updates"])
        return {"n": count, "nModified": count, "ok": 1.0}

    def _drop(self, command: dict[str, Any]) -> dict[str, Any]:
        self.documents.clear()
        return {"ns": f"{command['$db']}.{command['drop']}", "ok": 1.0}

    def _configurefailpoint(self, command: dict[str, Any]) -> dict[str, Any]:
        self.failing.clear()
        if command["mode"] != "off":
            data = command["data"]
            failure = {"ok": 0.0, "errmsg": "failed", "code": data["errorCode"], "codeName": "Failed"}
            self.failing = dict.fromkeys(data["failCommands"], failure)
        return {"ok": 1.0}


class MinimalProtocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: MinimalServer) -> None:
        self._server = server
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            size, request_id, _, _ = _HEADER.unpack_from(self._buffer)
            if len(self._buffer) < size:
                return
            message, self._buffer = self._buffer[:size], self._buffer[size:]
            reply = bson.encode(self._server.answer(bson.decode(message[_BODY_AT:])))
            header = _HEADER.pack(_BODY_AT + len(reply), 0, request_id, 2013)
            self._transport.write(header + b"\0\0\0\0\0" + reply)

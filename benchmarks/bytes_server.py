"""The least that could answer a driver when documents stay the BSON bytes that they came as.

A reply is spliced of them, and a command is decoded only where there is something to compute. As the minimal
server, it validates nothing, keeps no journal and knows no sessions.
"""

from __future__ import annotations

import asyncio
import struct
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import bson

if TYPE_CHECKING:
    from collections.abc import Iterable

_HEAD: Final = struct.Struct("<iiiiIB")
"""The header of an OP_MSG, its flag bits, and the kind of its one section."""
_INT32: Final = struct.Struct("<i")
_MSG: Final = 2013
_NAME_AT: Final = 5
_ID_AT: Final = _INT32.size
_ARRAY_NAMES: Final = [b"\3%d\0" % number for number in range(1000)]
_SIZES: Final = {0x01: 8, 0x07: 12, 0x10: 4, 0x12: 8}
"""The sizes of the values that an `_id` may have here."""


def _framed(elements: bytes) -> bytes:
    return b"%b%b\0" % (_INT32.pack(len(elements) + 5), elements)


def _element(kind: bytes, name: bytes, value: bytes) -> bytes:
    return b"%b%b\0%b" % (kind, name, value)


_OK: Final = b"\1ok\0" + struct.pack("<d", 1.0)
_CURSOR_ID: Final = b"\x12id\0" + struct.pack("<q", 0)
_PLAIN: Final = _framed(_OK)
_INSERTED: Final = _framed(b"\x10n\0" + _INT32.pack(1) + _OK)
_UPDATED: Final = _framed(b"\x10n\0" + _INT32.pack(1) + b"\x10nModified\0" + _INT32.pack(1) + _OK)


def _id_of(document: bytes) -> bytes:
    """Return type, name and value of the first element, which is the `_id`."""
    return document[_ID_AT : document.index(b"\0", _ID_AT + 1) + 1 + _SIZES[document[_ID_AT]]]


def _string_after(body: bytes, name_end: int) -> bytes:
    (size,) = _INT32.unpack_from(body, name_end + 1)
    return body[name_end + 5 : name_end + 4 + size]


def _document_named(body: bytes, element: bytes) -> bytes:
    """Return the document or the array that stands behind the type and the name `element`."""
    start = body.index(element) + len(element)
    (size,) = _INT32.unpack_from(body, start)
    return body[start : start + size]


class BytesServer:
    """The data of all connections."""

    def __init__(self) -> None:
        self.documents: dict[bytes, bytes] = {}
        self._handlers = {
            b"insert": self._insert,
            b"find": self._find,
            b"update": self._update,
            b"drop": self._drop,
        }

    def answer(self, body: bytes) -> bytes:
        """Run a command."""
        name_end = body.index(b"\0", _NAME_AT)
        handler = self._handlers.get(body[_NAME_AT:name_end])
        return _PLAIN if handler is None else handler(body, name_end)

    def _insert(self, body: bytes, _: int) -> bytes:
        documents = _document_named(body, b"\4documents\0")
        position, stop = _INT32.size, len(documents) - 1
        while position < stop:
            position = documents.index(b"\0", position) + 1
            (size,) = _INT32.unpack_from(documents, position)
            document = documents[position : position + size]
            self.documents[_id_of(document)] = document
            position += size
        return _INSERTED

    def _find(self, body: bytes, name_end: int) -> bytes:
        wanted = _document_named(body, b"\3filter\0")
        if wanted == b"\5\0\0\0\0":
            (most,) = _INT32.unpack_from(body, body.index(b"\x10limit\0") + 7)
            return self._found(body, name_end, islice(self.documents.values(), most))
        document = self.documents.get(_id_of(wanted))
        return self._found(body, name_end, () if document is None else (document,))

    def _found(self, body: bytes, name_end: int, documents: Iterable[bytes]) -> bytes:
        batch = b"".join([part for pair in zip(_ARRAY_NAMES, documents) for part in pair])  # noqa: B905 - as many as there are
        database = _string_after(body, body.index(b"\2$db\0") + 4)
        namespace = b"%b.%b\0" % (database, _string_after(body, name_end))
        cursor = _element(b"\4", b"firstBatch", _framed(batch)) + _CURSOR_ID
        cursor += _element(b"\2", b"ns", _INT32.pack(len(namespace)) + namespace)
        return _framed(_element(b"\3", b"cursor", _framed(cursor)) + _OK)

    def _update(self, body: bytes, _: int) -> bytes:
        command: dict[str, Any] = bson.decode(body)
        for statement in command["updates"]:
            key = _id_of(bson.encode(statement["q"]))
            document = bson.decode(self.documents[key])
            document.update(statement["u"]["$set"])
            self.documents[key] = bson.encode(document)
        return _UPDATED

    def _drop(self, _body: bytes, _: int) -> bytes:
        self.documents.clear()
        return _PLAIN


class BytesProtocol(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: BytesServer) -> None:
        self._server = server
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        while len(data) >= _HEAD.size:
            size, request_id, *_ = _HEAD.unpack_from(data)
            if len(data) < size:
                break
            reply = self._server.answer(data[_HEAD.size : size])
            self._transport.write(_HEAD.pack(_HEAD.size + len(reply), 0, request_id, _MSG, 0, 0) + reply)
            data = data[size:]
        self._buffer = data

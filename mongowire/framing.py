"""The extent of BSON documents and strings in a payload, found without decoding them."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING

from mongowire.codes import ErrorCode
from mongowire.errors import InvalidMessage, LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


_INT32 = struct.Struct("<i")
_MIN_DOCUMENT = 5
_STEP = 8192
"""Small things that are looked at in one step: some milliseconds' work."""
_EQUALS_BYTES = 1 << 16

# The sizes of BSON values by type byte (`BSON: Grammar`): a number of bytes, or how a length is read.
_FIXED = {
    0x01: 8, 0x06: 0, 0x07: 12, 0x08: 1, 0x09: 8, 0x0A: 0,
    0x10: 4, 0x11: 8, 0x12: 8, 0x13: 16, 0x7F: 0, 0xFF: 0,
}  # fmt: skip
_PREFIXED = {0x02: 4, 0x03: 0, 0x04: 0, 0x05: 5, 0x0C: 16, 0x0D: 4, 0x0E: 4, 0x0F: 0}
_REGEX = 0x0B


def invalid(message: str) -> InvalidMessage:
    """Return the error for bytes that are no BSON."""
    return InvalidMessage(ErrorCode.INVALID_BSON, message)


def need(data: bytes, position: int, count: int, end: int) -> None:
    """Raise `InvalidMessage` unless `count` bytes are left."""
    if position + count > end or end > len(data):
        raise InvalidMessage(ErrorCode.OVERFLOW, "the message ends inside one of its fields")


def block_end(data: bytes, position: int, end: int) -> int:
    """Return where the block ends that begins with its own int32 size."""
    need(data, position, _INT32.size, end)
    (size,) = _INT32.unpack_from(data, position)
    if size < _INT32.size or size > end - position:
        raise InvalidMessage(ErrorCode.OVERFLOW, f"a document sequence cannot be {size} bytes long here")
    return position + int(size)


def document_end(data: bytes, position: int, end: int) -> int:
    """Return where the document at `position` ends; its size and its last byte are all that is checked."""
    if end - position < _MIN_DOCUMENT:
        raise invalid(f"BSON data has to be at least {_MIN_DOCUMENT} bytes")
    (size,) = _INT32.unpack_from(data, position)
    if size < _MIN_DOCUMENT or size > end - position:
        raise invalid(f"Invalid BSON object size: {size}")
    document_stop = position + int(size)
    if data[document_stop - 1]:
        raise invalid("BSON object not terminated with EOO")
    return document_stop


def documents_between(data: bytes, position: int, end: int) -> tuple[bytes, ...]:
    """Return the documents that fill the bytes from `position` to `end`."""
    documents = []
    while position < end:
        stop = document_end(data, position, end)
        documents.append(data[position:stop])
        position = stop
    return tuple(documents)


def documents_in_steps(
    data: bytes, position: int, end: int, most: int
) -> Generator[None, None, tuple[list[bytes], int]]:
    """Return the same, in steps, and how many documents there are; of more than `most` none are returned."""
    documents: list[bytes] = []
    count = 0
    while position < end:
        stop = document_end(data, position, end)
        if count < most:
            documents.append(data[position:stop])
        elif count == most:
            documents = []
        count += 1
        if count % _STEP == 0:
            yield
            if count > most:
                stop, more = _past_equals(data, position, stop, end)
                count += more
        position = stop
    return documents, count


def _past_equals(data: bytes, position: int, stop: int, end: int) -> tuple[int, int]:
    """Return where the documents end that equal the one at `position`, by the thousand, and their number."""
    size = stop - position
    if size > _EQUALS_BYTES:
        return stop, 0
    many = _EQUALS_BYTES // size
    equals, more = data[position:stop] * many, 0
    while data.startswith(equals, stop, end):
        stop, more = stop + len(equals), more + many
    return stop, more


def count_elements(data: bytes, start: int, end: int) -> Generator[None, None, int]:
    """Return, in steps, how many elements a document or an array has. Raises `InvalidMessage`."""
    count = 0
    position, stop = start + _INT32.size, end - 1
    while position < stop:
        name_end = data.find(b"\0", position + 1, stop)
        if name_end < 0:
            raise InvalidMessage(ErrorCode.OVERFLOW, "a string of the message has no end")
        position = value_end(data, data[position], name_end + 1, stop)
        count += 1
        if count % _STEP == 0:
            yield
    return count


def read_c_string(data: bytes, position: int, end: int) -> tuple[str, int]:
    """Return the string that ends with a zero byte, and where what follows it begins."""
    stop = data.find(b"\0", position, end)
    if stop < 0:
        raise InvalidMessage(ErrorCode.OVERFLOW, "a string of the message has no end")
    try:
        return data[position:stop].decode(), stop + 1
    except UnicodeDecodeError as error:
        raise invalid(f"a string of the message is not UTF-8: {error.reason}") from error


def c_string(text: str) -> bytes:
    """Return `text` with a zero byte behind it. Raises `LocalProtocolError` if it holds one already."""
    if "\0" in text:
        raise LocalProtocolError(f"{text!r} cannot be sent: it contains a zero byte")
    return text.encode() + b"\0"


def first_key(document: bytes) -> str:
    """Return a document's first key, `""` if it has none. Raises `InvalidMessage`."""
    if len(document) <= _MIN_DOCUMENT:
        return ""
    return read_c_string(document, _MIN_DOCUMENT, len(document))[0]


def names(document: bytes) -> Iterator[str]:
    """Iterate over a document's top-level keys. Raises `InvalidMessage` for what is not well framed."""
    position, end = _INT32.size, len(document) - 1
    while position < end:
        kind = document[position]
        name, position = read_c_string(document, position + 1, end)
        yield name
        position = value_end(document, kind, position, end)


def keys(document: bytes) -> frozenset[str]:
    """Return a document's top-level keys. Raises `InvalidMessage` where its elements are not well framed."""
    return frozenset(names(document))


def value_end(document: bytes, kind: int, position: int, end: int) -> int:
    """Return where the value of a BSON type ends that begins at `position`. Raises `InvalidMessage`."""
    if kind in _FIXED:
        position += _FIXED[kind]
    elif kind in _PREFIXED:
        need(document, position, _INT32.size, end)
        (size,) = _INT32.unpack_from(document, position)
        if size < 0:
            raise invalid(f"a value cannot be {size} bytes long")
        position += int(size) + _PREFIXED[kind]
    elif kind == _REGEX:
        position = read_c_string(document, position, end)[1]
        position = read_c_string(document, position, end)[1]
    else:
        raise invalid(f"Unrecognized BSON type {kind}")
    if position > end:
        raise invalid("a value reaches beyond the end of its document")
    return position


def keys_in_steps(document: bytes) -> Generator[None, None, frozenset[str]]:
    """Return the same as `keys`, in steps."""
    found = set()
    for count, name in enumerate(names(document), 1):
        found.add(name)
        if count % _STEP == 0:
            yield
    return frozenset(found)


def check_outgoing(document: bytes) -> None:
    """Raise `LocalProtocolError` unless `document` is framed as one BSON document."""
    size = len(document)
    if size < _MIN_DOCUMENT or _INT32.unpack_from(document)[0] != size or document[-1]:
        raise LocalProtocolError(f"{size} bytes that are not one BSON document")


def extended(document: bytes, elements: bytes) -> bytes:
    """Return `document` with encoded `elements` behind its own; both must be well framed."""
    return b"%b%b%b\0" % (_INT32.pack(len(document) + len(elements)), document[_INT32.size : -1], elements)


def elements_of(document: bytes) -> bytes:
    """Return a document's elements, without its size and its end."""
    return document[_INT32.size : -1]


# The sixteen bytes in front of every message.


HEADER = struct.Struct("<iiii")
"""messageLength, requestID, responseTo, opCode."""

HEADER_SIZE = HEADER.size
MAX_MESSAGE_SIZE = 48_000_000


class OpCode(IntEnum):
    """The operation codes that are, or once were, sent to servers."""

    REPLY = 1
    UPDATE = 2001
    INSERT = 2002
    QUERY = 2004
    GET_MORE = 2005
    DELETE = 2006
    KILL_CURSORS = 2007
    COMPRESSED = 2012
    MSG = 2013

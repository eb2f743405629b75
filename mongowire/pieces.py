"""Decoding and encoding of large messages piece by piece, with time for other work in between.

The BSON library decodes a document in one call, which takes a second for one of millions of values. Here a
document is walked down to pieces of a bounded size, and the library is asked for these. A generator that
decodes `yields` between two pieces, and returns what it has decoded.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import bson

from mongowire import framing
from mongowire.codes import ErrorCode
from mongowire.errors import InvalidMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator, Iterable, Mapping

T = TypeVar("T")
Steps: TypeAlias = "Generator[None, None, T]"
"""Work in steps: one at each `next`; what it returns is the result."""

PIECE_BYTES: Final = 1 << 16
"""Bytes that are decoded at once: some milliseconds at most, whatever it holds."""

_INT32 = struct.Struct("<i")
_OBJECT: Final = 3
_ARRAY: Final = 4
_AS_ARRAY: Final = b"\4\0"
_END: Final = b"\0"
_EMPTY: Final = bson.encode({})
_AT_ONCE: Final = 64
"""Elements of an array that are encoded at once."""


class Unread(list[Any]):
    """An array of which only the length is known: it is longer than anybody would read, and holds nothing."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length = length

    def __len__(self) -> int:
        return self._length


def finish(steps: Steps[T]) -> T:
    """Take all steps at once, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result


class Decoder:
    """Decodes documents piece by piece.

    `decode` makes a dictionary of the BSON of a document; its argument is how many documents and arrays are
    around it. Arrays at the top that are named in `counted` become `Unread` if they have more than `most`
    elements. `deepest` is how deep documents and arrays may be nested in one: beyond that `InvalidMessage`
    (15) is raised.
    """

    def __init__(
        self,
        decode: Callable[[bytes, int], dict[str, Any]],
        *,
        deepest: int,
        counted: Container[str] = (),
        most: int = 0,
    ) -> None:
        self._decode = decode
        self._deepest = deepest
        self._counted = counted
        self._most = most

    def document(self, data: bytes, *, top: bool = False) -> Steps[dict[str, Any]]:
        """Decode a document; `top` says that `counted` are among its fields. Raises `InvalidMessage`."""
        if len(data) <= PIECE_BYTES:
            return self._decode(data, 0)
        framing.document_end(data, 0, len(data))
        return dict((yield from self._members(data, 0, len(data), 0, top=top)))

    def documents(self, documents: Iterable[bytes]) -> Steps[list[dict[str, Any]]]:
        """Decode documents, one after the other. Raises `InvalidMessage`."""
        found = []
        size = 0
        for document in documents:
            size += len(document)
            if len(document) > PIECE_BYTES:
                found.append((yield from self.document(document)))
            else:
                found.append(self._decode(document, 0))
            if size > PIECE_BYTES:
                size = 0
                yield
        return found

    def _members(
        self, data: bytes, start: int, end: int, around: int, *, array: bool = False, top: bool = False
    ) -> Steps[list[tuple[str, Any]]]:
        """Decode a document or an array that is larger than a piece, to its fields or its elements."""
        if around > self._deepest:
            raise too_deep(self._deepest)
        found: list[tuple[str, Any]] = []
        pending = position = start + _INT32.size
        stop = end - 1
        while position < stop:
            kind = data[position]
            name_end = data.find(_END, position + 1, stop)
            value = name_end + 1
            after = framing.value_end(data, kind, value, stop) if name_end >= 0 else stop + 1
            if after > stop:
                raise framing.invalid("a value reaches beyond the end of its document")
            if after - value > PIECE_BYTES and kind in (_OBJECT, _ARRAY):
                found += self._piece(data, pending, position, around, array=array)
                name = framing.read_c_string(data, position + 1, stop)[0]
                framing.document_end(data, value, after)
                counted = top and kind == _ARRAY and name in self._counted
                found.append(
                    (name, (yield from self._inner(data, value, after, around, kind, counted=counted)))
                )
                pending = after
            elif after - pending > PIECE_BYTES:
                found += self._piece(data, pending, after, around, array=array)
                pending = after
                yield
            position = after
        found += self._piece(data, pending, stop, around, array=array)
        return found

    def _inner(
        self, data: bytes, start: int, end: int, around: int, kind: int, *, counted: bool
    ) -> Steps[dict[str, Any] | list[Any]]:
        if counted:
            length = yield from framing.count_elements(data, start, end)
            if length > self._most:
                return Unread(length)
        members = yield from self._members(data, start, end, around + 1, array=kind == _ARRAY)
        return [value for _, value in members] if kind == _ARRAY else dict(members)

    def _piece(self, data: bytes, start: int, end: int, around: int, *, array: bool) -> list[tuple[str, Any]]:
        """Decode neighbours in a document or an array."""
        if start == end:
            return []
        document = b"%b%b\0" % (_INT32.pack(end - start + 5), data[start:end])
        if not array:
            return list(self._decode(document, around).items())
        # The names of an array's elements do not matter, so two of the same name are two.
        wrapped = b"%b%b%b\0" % (_INT32.pack(len(document) + 7), _AS_ARRAY, document)
        return [("", value) for value in self._decode(wrapped, around - 1)[""]]


def too_deep(deepest: int) -> InvalidMessage:
    """Return the error for what is nested too deep."""
    return InvalidMessage(ErrorCode.OVERFLOW, f"BSON exceeds maximum nested object depth: {deepest}")


def encode_in_steps(document: Mapping[str, Any]) -> Steps[bytes]:
    """Encode a document in steps, as `bson.encode` does: long arrays in it, such as a batch, in pieces.

    Raises what `bson.encode` does for a value that cannot be encoded.
    """
    elements = yield from _elements(document)
    return _framed(elements)


def _elements(document: Mapping[str, Any]) -> Steps[bytes]:
    parts: list[bytes] = []
    plain: dict[str, Any] = {}
    for name, value in document.items():
        many = type(value) is list and len(value) > _AT_ONCE
        holds_many = type(value) is dict and any(
            type(each) is list and len(each) > _AT_ONCE for each in value.values()
        )
        if not many and not holds_many:
            plain[name] = value
            continue
        parts.append(framing.elements_of(bson.encode(plain)))
        plain = {}
        inside = yield from (_array(value) if many else _elements(value))
        # The library puts the name and checks it.
        head = framing.elements_of(bson.encode({name: [] if many else {}}))[: -len(_EMPTY)]
        parts.append(head + _framed(inside))
    parts.append(framing.elements_of(bson.encode(plain)))
    return b"".join(parts)


def _array(values: list[Any]) -> Steps[bytes]:
    parts: list[bytes] = []
    for start in range(0, len(values), _AT_ONCE):
        piece = values[start : start + _AT_ONCE]
        numbered = {str(number): value for number, value in enumerate(piece, start)}
        parts.append(framing.elements_of(bson.encode(numbered)))
        yield
    return b"".join(parts)


def _framed(elements: bytes) -> bytes:
    return b"%b%b\0" % (_INT32.pack(len(elements) + len(_EMPTY)), elements)

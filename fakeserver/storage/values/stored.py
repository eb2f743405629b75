"""A document at rest: its fields, and its BSON beside them, which was made once.

`bson.encode` copies the bytes of a `Stored` wherever it stands in what is encoded, because it takes it for
one of the library's own raw documents (`_type_marker`). So a reply with stored documents costs a copy of
their bytes, whatever they hold.

The bytes must stay those of the fields, so a `Stored` refuses every change. Within it, documents and arrays
are ordinary ones and could be changed: who wants another document copies with `types.copy_value` first.
Sizes (`collStats`, the 16 MB limit, batches of a cursor) are lengths of `raw`, and never another encoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

import bson

if TYPE_CHECKING:
    from collections.abc import Mapping

    Document = dict[str, Any]

_RAW: Final = 101
"""The mark by which the library knows documents that are bytes (`bson.raw_bson.RawBSONDocument`)."""
_HEAD: Final = 6
"""The bytes before an embedded document whose name is empty: a size, a type and the end of the name."""


class Stored(dict[str, Any]):
    """A document that nothing may change, so that its bytes, `raw`, stay those of its fields."""

    __slots__ = ("raw",)

    raw: bytes
    _type_marker = _RAW
    # The library asks for it before it looks at base classes, by which this is an ordinary dictionary.

    def _refuse(self, *_args: object, **_named: object) -> NoReturn:
        """Say that this is a value."""
        raise TypeError("a stored document is a value: change a copy of it")

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = setdefault = pop = popitem = clear = _refuse

    # `copy` and `pickle` come here: an ordinary dictionary may be changed, and needs no bytes.
    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[Document]]:
        """Have copies be plain documents."""
        return dict, (dict(self),)


def stored(document: Mapping[str, Any], raw: bytes | None = None) -> Stored:
    """Return a document as it is stored. What it holds is not copied; `raw` is its BSON, if that is known."""
    kept = Stored(document)
    kept.raw = encoded(document) if raw is None else raw
    return kept


def encoded(document: Mapping[str, Any]) -> bytes:
    """Return a document as BSON, its fields in their order: the library puts `_id` first at the top."""
    if "_id" not in document or next(iter(document)) == "_id":
        return bson.encode(document)
    # Within another document the library keeps the order; the frame around it is cut off.
    return bson.encode({"": document})[_HEAD:-1]


def as_stored(document: dict[str, Any]) -> Stored:
    """Return a document of another engine as it is kept."""
    return document if type(document) is Stored else stored(document)

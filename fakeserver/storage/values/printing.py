"""Values as a server prints them in error messages: `{ _id: 1, name: "x" }`.

It is the form of `BSONObj::toString` and `BSONElement::toString`, neither JSON nor the shell's: names have no
quotes, finite doubles have a point or an exponent. Tests of drivers compare such messages (`dup key: { a: 1.0
}`), and `explain` prints bounds in it. Nothing reads it back.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from typing import TYPE_CHECKING, Any, Final

from bson import Binary, Code, DatetimeMS, DBRef, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp

from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.types import as_mapping, milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_UUID_SUBTYPE: Final = 4
_UUID_BYTES: Final = 16


def show(value: Any) -> str:
    """Return a value as an error message shows it."""
    if isinstance(value, str) and not isinstance(value, Code):
        return f'"{value}"'
    if isinstance(value, dict | DBRef):
        return show_document(as_mapping(value))
    if isinstance(value, list | tuple):
        return "[ " + ", ".join(map(show, paced(value))) + " ]" if value else "[]"
    for kind, printer in _PRINTERS:
        if isinstance(value, kind):
            return printer(value)
    return str(value)


def show_document(document: Mapping[str, Any]) -> str:
    """Return a document as `{ a: 1, b: 2 }`, an empty one as `{}`."""
    if not document:
        return "{}"
    return "{ " + ", ".join(f"{name}: {show(value)}" for name, value in paced(document.items())) + " }"


def show_field(name: str, value: Any) -> str:
    """Return one field as `{a: 1}`, the form that messages about a single element use."""
    return f"{{{name}: {show(value)}}}"


def _show_double(value: float) -> str:
    if value.is_integer() and abs(value) < 1e15:  # noqa: PLR2004 -- where doubles turn to an exponent
        return f"{value:.1f}"
    return {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(repr(value), f"{value:.15g}")


def _show_binary(value: bytes) -> str:
    subtype = getattr(value, "subtype", 0)
    if subtype == _UUID_SUBTYPE and len(value) == _UUID_BYTES:
        return f'UUID("{uuid.UUID(bytes=bytes(value))}")'
    return f"BinData({subtype}, {bytes(value).hex().upper()})"


def regex_options(regex: Any) -> str:
    """Return the options of a regular expression as letters."""
    return "".join(letter for letter, flag in _OPTIONS.items() if regex.flags & flag)


_OPTIONS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
# In order, since `isinstance` decides: a bool is an int, and `Binary` is bytes.
_PRINTERS: Final[tuple[tuple[Any, Callable[[Any], str]], ...]] = (
    (bool, lambda value: "true" if value else "false"),
    (type(None), lambda _value: "null"),
    (float, _show_double),
    (Decimal128, str),
    (ObjectId, lambda value: f"ObjectId('{value}')"),
    (uuid.UUID, lambda value: f'UUID("{value}")'),
    ((bytes, Binary), _show_binary),
    ((dt.datetime, DatetimeMS), lambda value: f"new Date({milliseconds(value)})"),
    (Timestamp, lambda value: f"Timestamp({value.time}, {value.inc})"),
    (Regex, lambda value: f"/{value.pattern}/{regex_options(value)}"),
    (MinKey, lambda _value: "MinKey"),
    (MaxKey, lambda _value: "MaxKey"),
)

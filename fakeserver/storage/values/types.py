"""BSON values: types, order and equality.

Values are what the `bson` library decodes: `int` is an int or a long by its size, `Int64` always a long,
dates are naive `datetime`s in UTC (`DatetimeMS` beyond Python's years). Two notions of equality stand beside
each other. To a query, `1`, `1.0` and `Decimal128("1")` are one value (`order`, `identity`, `equal`). Whether
a write has changed anything is asked of their bytes, to which they are three (`identical`, `Stored.raw`).

Python's own `==` is neither: it calls `True` and `1` equal, and two documents whatever the order of their
fields. Compare values by `order` or `identity`, and look them up in a hash table by `identity`.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import uuid
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from bson.binary import OLD_BINARY_SUBTYPE

from fakeserver.storage.values.stored import Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    Fold = Callable[[str], Any]


class _Missing:
    """The type of `MISSING`."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""The value of a path that leads nowhere. Nothing that is stored is ever missing."""

SCALARS: Final = frozenset({int, str, bool, float, bytes, dt.datetime, Binary, Decimal128, Int64, ObjectId})
"""Types whose values are equal exactly where their `identity` is, so that a hash table finds them."""

OWN_IDENTITY: Final = frozenset({ObjectId, str, int, Int64})
"""Types whose values are their own `identity`: those of most `_id`s.

`bool` is not among them, because `True` and `1` are one key of a dictionary, and two values of BSON.
"""

INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)

_LONG_MAX: Final = 2**63 - 1
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 -- BSON dates are decoded as naive UTC

TYPE_CODES: Final[dict[str, int]] = {
    "double": 1, "string": 2, "object": 3, "array": 4, "binData": 5, "undefined": 6, "objectId": 7, "bool": 8,
    "date": 9, "null": 10, "regex": 11, "dbPointer": 12, "javascript": 13, "symbol": 14,
    "javascriptWithScope": 15, "int": 16, "timestamp": 17, "long": 18, "decimal": 19, "minKey": -1,
    "maxKey": 127,
}  # fmt: skip
"""The aliases of `$type` and their numbers."""

# The canonical types of a server (`canonicalizeBSONType`): all numbers are one type there, strings and
# symbols another. A missing field sorts before null; only MinKey stands before it.
_RANKS: Final[dict[str, int]] = {
    "missing": 0, "minKey": -1, "null": 5, "int": 10, "long": 10, "double": 10, "decimal": 10, "string": 15,
    "symbol": 15, "object": 20, "array": 25, "binData": 30, "objectId": 35, "bool": 40, "date": 45,
    "timestamp": 47, "regex": 50, "dbPointer": 55, "javascript": 60, "javascriptWithScope": 65, "maxKey": 127,
}  # fmt: skip

# Looked up by the exact class first: a chain of `isinstance` for each value would dominate a scan.
_EXACT_TYPES: Final[dict[type, str]] = {
    str: "string", dict: "object", Stored: "object", list: "array", ObjectId: "objectId", bool: "bool",
    float: "double", type(None): "null", Int64: "long", Decimal128: "decimal", dt.datetime: "date",
    DatetimeMS: "date", bytes: "binData", Binary: "binData", uuid.UUID: "binData", Timestamp: "timestamp",
    Regex: "regex", re.Pattern: "regex", MinKey: "minKey", MaxKey: "maxKey", DBRef: "object",
    _Missing: "missing",
}  # fmt: skip


def type_name(value: Any) -> str:
    """Return the alias of a value's BSON type, as `$type` and error messages call it."""
    if type(value) is int:
        return "int" if INT32_MIN <= value <= INT32_MAX else "long"
    name = _EXACT_TYPES.get(type(value))
    return name if name is not None else _type_by_inheritance(value)


def _type_by_inheritance(value: Any) -> str:
    # First, because `Code` is a subclass of `str`, which the loop below would find.
    if isinstance(value, Code):
        return "javascript" if value.scope is None else "javascriptWithScope"
    for kind, name in _EXACT_TYPES.items():
        if isinstance(value, kind):
            return name
    if isinstance(value, int):
        return "long"
    if hasattr(value, "items"):
        return "object"
    if isinstance(value, tuple):
        return "array"
    raise TypeError(f"{type(value).__name__} is not a BSON type")


def rank(value: Any) -> int:
    """Return where values of this type stand in the order of all types."""
    return _RANKS[type_name(value)]


def is_number(value: Any) -> bool:
    """Return whether a value is an int, a long, a double or a decimal."""
    return isinstance(value, int | float | Decimal128) and not isinstance(value, bool)


def exact(number: Any) -> Any:
    """Return a number as one that Python compares exactly with any other."""
    # `Decimal128` has no order of its own; a `Decimal` compares exactly with an int and with a float.
    return number.to_decimal() if isinstance(number, Decimal128) else number


def is_nan(number: Any) -> bool:
    """Return whether a number is not one."""
    if isinstance(number, Decimal128):
        return number.to_decimal().is_nan()
    return isinstance(number, float) and number != number  # noqa: PLR0124 -- the definition of NaN


def order(value: Any, fold: Fold | None = None) -> tuple[Any, ...]:
    """Return a key that sorts as BSON does: type first, then value, strings as `fold` sees them.

    Two values with the same key are equal to a query, whatever number types they are made of.
    """
    kind = type_name(value)
    rank_of = _RANKS[kind]
    if rank_of == 10:  # noqa: PLR2004 -- the rank of numbers
        # NaN stands before all other numbers, and equals itself: Python's own comparison knows neither.
        return (rank_of, 0, 0) if is_nan(value) else (rank_of, 1, exact(value))
    if kind == "string":
        return (rank_of, fold(value) if fold is not None else value)
    return (rank_of, *_ORDERS[kind](value, fold)) if kind in _ORDERS else (rank_of,)


def _order_object(value: Any, fold: Fold | None) -> tuple[Any, ...]:
    # As a server's `woCompare` does field by field: type first, then the name, then the value.
    items = as_mapping(value).items()
    return (tuple((rank(item), name, order(item, fold)) for name, item in items),)


def _order_array(value: Any, fold: Fold | None) -> tuple[Any, ...]:
    # The keys that `order` would make of integers, at a fraction of the calls: rank, "no NaN", number.
    if len(value) > _MANY and _INTEGERS.issuperset(map(type, value)):
        return (tuple((10, 1, item) for item in value),)
    return (tuple(order(item, fold) for item in value),)


_MANY: Final = 100
_INTEGERS: Final = frozenset({int, Int64})
"""The usual types of the elements of long arrays, which order by themselves."""


def _order_binary(value: Any, _fold: Fold | None) -> tuple[Any, ...]:
    # Binary data are compared by their length, then their subtype, then their bytes.
    if isinstance(value, uuid.UUID):
        return (len(value.bytes), 4, value.bytes)
    data, subtype = bytes(value), getattr(value, "subtype", 0)
    # The old subtype repeats the length in front of the data.
    return (len(data) + 4 if subtype == OLD_BINARY_SUBTYPE else len(data), subtype, data)


_ORDERS: Final[dict[str, Callable[[Any, Fold | None], tuple[Any, ...]]]] = {
    "object": _order_object,
    "array": _order_array,
    "binData": _order_binary,
    # A compiled pattern of Python's always has the flag UNICODE, a decoded `Regex` only where it was sent.
    "regex": lambda value, _fold: (str(value.pattern), value.flags & ~re.UNICODE),
    "objectId": lambda value, _fold: (value.binary,),
    "bool": lambda value, _fold: (bool(value),),
    "date": lambda value, _fold: (milliseconds(value),),
    "timestamp": lambda value, _fold: (value.time, value.inc),
    "javascript": lambda value, _fold: (str(value),),
    "javascriptWithScope": lambda value, _fold: (str(value), order(value.scope)),
}


def identity(value: Any) -> Hashable:
    """Return a hashable key that two values share if and only if a query calls them equal.

    Cheaper than `order` for the kinds of `_id` that people use.
    """
    kind = type(value)
    if kind in OWN_IDENTITY:
        return value  # type: ignore[no-any-return]
    if kind is float and not is_nan(value):
        return value  # type: ignore[no-any-return]
    if kind is Decimal128 and not is_nan(value):
        return value.to_decimal()  # type: ignore[no-any-return]
    return order(value)


def equal(left: Any, right: Any, fold: Fold | None = None) -> bool:
    """Return whether a query calls two values equal: numbers by value, documents by the order of fields."""
    return order(left, fold) == order(right, fold)


def identical(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Return whether two documents are the same bytes: number types and order of fields count."""
    # The comparison of dictionaries is cheap, and says no to nearly all that differ.
    return left == right and bson.encode(left) == bson.encode(right)


def milliseconds(date: Any) -> int:
    """Return a date as milliseconds since the Unix epoch."""
    if isinstance(date, DatetimeMS):
        return int(date)
    offset = date.utcoffset()
    naive = date.replace(tzinfo=None) - offset if offset is not None else date
    # Integers all the way: `timestamp()` returns a double, and takes naive dates for local ones.
    elapsed: dt.timedelta = naive - _EPOCH
    return elapsed // dt.timedelta(milliseconds=1)


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return an object as a mapping of its fields; a `DBRef` is one in disguise."""
    mapping: Mapping[str, Any] = value.as_doc() if isinstance(value, DBRef) else value
    return mapping


def is_object(value: Any) -> bool:
    """Return whether a value is a document."""
    return isinstance(value, dict | DBRef)


def copy_value(value: Any) -> Any:
    """Return a copy that shares no document and no array. Everything else in BSON is immutable."""
    if isinstance(value, dict):
        return {name: copy_value(item) if type(item) in DEEP else item for name, item in value.items()}
    if isinstance(value, list):
        return [copy_value(item) if type(item) in DEEP else item for item in value]
    return value


DEEP: Final = frozenset({dict, list, bson.SON, Stored})
"""The types of values that may hold others."""


def truthy(value: Any) -> bool:
    """Return a value as a condition: false, null, missing and zero are false, all else is true."""
    if value is None or value is MISSING or value is False:
        return False
    if is_number(value):
        return bool(exact(value) != 0)
    return True


def whole(value: Any) -> int | None:
    """Return a number that is a whole one as a 64-bit integer, the nearest there is, or None.

    `1e300` is whole, and comes back as the largest long: callers that must refuse it compare the two.
    """
    if not is_number(value) or is_nan(value):
        return None
    number = exact(value)
    if isinstance(number, decimal.Decimal):
        fits = number.is_finite() and number == number.to_integral_value()
    else:
        fits = not isinstance(number, float) or number.is_integer()
    if not fits:
        return None
    return max(-_LONG_MAX - 1, min(_LONG_MAX, int(number)))


def safe_int(value: Any) -> int:
    """Return a number as a bounded 64-bit integer: doubles truncated, decimals rounded, NaN 0.

    It is `safeNumberLong` of a server, which refuses nothing: what is out of range is the nearest end of it.
    """
    if is_nan(value):
        return 0
    number = exact(value)
    if number >= _LONG_MAX:
        return _LONG_MAX
    if number <= -_LONG_MAX - 1:
        return -_LONG_MAX - 1
    if isinstance(number, decimal.Decimal):
        number = number.to_integral_value(decimal.ROUND_HALF_EVEN)
    return int(number)


def not_an_integer(value: Any) -> str | None:
    """Return why a value is no 64-bit integer, in a server's words, or None for one that is."""
    if not is_number(value):
        return "Expected a number in"
    if isinstance(value, float) and is_nan(value):
        return "Expected an integer, but found NaN in"
    number = whole(value)
    if number is not None and number == exact(value):
        return None
    fits = isinstance(value, float) and INT64_MIN <= value <= INT64_MAX
    return "Expected an integer" if fits else "Cannot represent as a 64-bit integer"


def is_finite(value: Any) -> bool:
    """Return whether a number is neither an infinity nor "not a number"."""
    number = exact(value)
    return math.isfinite(number) if not isinstance(number, decimal.Decimal) else number.is_finite()

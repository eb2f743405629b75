"""Expression operators that name and convert types.

`$convert` and its shorthands (`$toInt` …) read their arguments here and leave the work to `conversions`. A
shorthand is `$convert` without `onNull` and `onError`: null makes null, and a failure is an error (241).
`$toString` takes binary data in the format `auto`; `$toUUID` makes a UUID of text.

`$type` never fails, and says `missing` for what is not there. A UUID, bytes and a `Binary` are all binary
data; the type of an int is that of its size, as Python has one type for int and long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Int64, Timestamp

from fakeserver.errors import CommandError
from fakeserver.idl.features import VECTORS
from fakeserver.storage.expressions.conversions import (
    BASES,
    BYTE_ORDERS,
    CONVERSIONS,
    FORMATS,
    UUID_SUBTYPE,
    Manner,
    convert,
)
from fakeserver.storage.expressions.functions import FunctionTable, NamedArguments, Wording, null_in, nullish
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.rows import hashed
from fakeserver.storage.values.types import (
    MISSING,
    TYPE_CODES,
    is_number,
    is_object,
    type_name,
    whole,
)
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


functions = FunctionTable()
function = functions.function


@function("$type")
def _type(value: Any) -> str:
    return type_name(value)


@function("$isNumber")
def _is_number(value: Any) -> bool:
    return is_number(value)


_ALIASES: Final = {code: name for name, code in TYPE_CODES.items()}


_SHORTHANDS: Final = {
    **{f"$to{name[0].upper()}{name[1:]}": (name, Manner()) for name in CONVERSIONS},
    "$toString": ("string", Manner(format="auto")),
    "$toUUID": ("binData", Manner(format="uuid", subtype=UUID_SUBTYPE)),
}


_CONVERT: Final = NamedArguments(
    ErrorCode.FAILED_TO_PARSE,
    ErrorCode.FAILED_TO_PARSE,
    dict.fromkeys(("input", "to"), ErrorCode.FAILED_TO_PARSE),
    dict.fromkeys(("onError", "onNull", "format", "byteOrder", "base"), MISSING),
    Wording(
        "{name} expects an object of named arguments but found: {found}",
        missing="Missing '{key}' parameter to {name}",
    ),
)


@function("$convert", arguments=_CONVERT, by_release=True)
def _convert(parts: dict[str, Any], *, release: int) -> Any:
    value, (target, subtype) = parts["input"], _target(parts["to"])
    if nullish(value):
        return parts.get("onNull")
    if target is None:
        return None
    # A null input is answered before these arguments are looked at, but after the type in `to`.
    manner = _manner(parts, subtype)._replace(has_vectors=not 0 < release < VECTORS)
    try:
        return convert(value, target, manner)
    except CommandError as error:
        # Other codes are about the arguments of `$convert`, and not about the value.
        if error.code == ErrorCode.CONVERSION_FAILURE and "onError" in parts:
            return parts["onError"]
        raise


def _target(to: Any) -> tuple[str | None, Any]:
    """Return the type to convert to, None for null, and its subtype. Raises `CommandError`."""
    if nullish(to):
        return None, 0
    if not is_object(to):
        return _wanted(to), 0
    return _wanted(to.get("type", MISSING)), to.get("subtype", 0)


def _manner(parts: Mapping[str, Any], subtype: Any) -> Manner:
    """Return how to convert. Raises `CommandError` for arguments of other types and values."""
    base, name, byte_order = (parts.get(key) for key in ("base", "format", "byteOrder"))
    if not nullish(base):
        number = whole(base)
        if number is None:
            raise CommandError(3501300, "In $convert, 'base' argument is not an integer")
        if number not in BASES:
            raise CommandError(3501301, "In $convert, 'base' argument is not a valid base")
        base = number
    if not nullish(name):
        _one_of("format", name, FORMATS, (4341114, 4341125))
    if not nullish(byte_order):
        _one_of("byteOrder", byte_order, BYTE_ORDERS, (9130001, 9130002))
    return Manner(base or None, name or None, byte_order or "little", subtype)


def _one_of(name: str, value: Any, known: Collection[str], codes: tuple[int, int]) -> None:
    """Refuse another value of an argument: `codes` for what is no string, and for an unknown one."""
    if type(value) is not str:
        found = f"{type_name(value)} with value {show(value)}"
        raise CommandError(codes[0], f"$convert requires that '{name}' be a string, found: {found}")
    if value not in known:
        raise CommandError(codes[1], f"Invalid '{name}' argument for $convert: {value}")


def _wanted(target: Any) -> str:
    """Return the name of the type to convert to. Raises `CommandError` for what names none."""
    if type(target) is str:
        if target not in TYPE_CODES and target != "missing":
            raise CommandError(ErrorCode.BAD_VALUE, f"Unknown type name: {target}")
        return target
    if not is_number(target):
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"$convert's 'to' argument must be a string or number, but is {type_name(target)}",
        )
    number = whole(target)
    if number is None:
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "In $convert, numeric 'to' argument is not an integer")
    # The number of no type, which ends a document in BSON. Nothing can be converted to it (241).
    if number == 0:
        return "missing"
    if number not in _ALIASES:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"In $convert, numeric value for 'to' does not correspond to a BSON type: {number}",
        )
    return _ALIASES[number]


def _shorthand(name: str, target: str, manner: Manner) -> None:
    @function(name, arity=50723)
    def _call(value: Any) -> Any:
        return None if nullish(value) else convert(value, target, manner)


for _name, (_type_wanted, _how) in _SHORTHANDS.items():
    _shorthand(_name, _type_wanted, _how)


@function("$tsSecond")
@null_in
def _ts_second(value: Any) -> Any:
    return Int64(_timestamp("$tsSecond", 5687301, value).time)


@function("$tsIncrement")
@null_in
def _ts_increment(value: Any) -> Any:
    return Int64(_timestamp("$tsIncrement", 5687302, value).inc)


def _timestamp(name: str, code: int, value: Any) -> Timestamp:
    if not isinstance(value, Timestamp):
        raise CommandError(code, f"Argument to {name} must be a timestamp, but is {type_name(value)}")
    return value


@function("$bsonSize")
@null_in
def _bson_size(value: Any) -> Any:
    if not isinstance(value, dict):
        raise CommandError(31393, f"$bsonSize requires a document input, found: {type_name(value)}")
    # The cost is that of encoding the document.
    return len(bson.encode(value))


@function("$binarySize")
@null_in
def _binary_size(value: Any) -> Any:
    if type(value) is str:
        return len(value.encode())
    if not isinstance(value, bytes):
        raise CommandError(
            51276, f"$binarySize requires a string or BinData argument, found: {type_name(value)}"
        )
    return len(value)


# Expression operators that make hashes.


@function("$toHashedIndexKey")
def _to_hashed_index_key(value: Any) -> Any:
    return hashed(None if value is MISSING else value)

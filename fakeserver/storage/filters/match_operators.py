"""The query operators that test one value: `$eq`, `$gt`, `$in`, `$type` and their kin.

Each is compiled by its row in `LEAF_OPERATORS` from its argument to a test. `matching` decides which values
the test sees: the elements of an array too (`each`), or the value alone.

Comparisons are bracketed by type: `$gt` of a number is false for any string, without an error. Numbers
compare by value whatever their types, and strings by the collation. Null equals a missing field, NaN equals
NaN and is neither less nor greater than a number; the ends of the order, MinKey and MaxKey, compare with
all types.

In Python `True == 1`, and a bool is an int: wherever numbers are tested by `==`, bools are told apart by
their type. Tests run for each document, so the usual types have short ways of their own; all others compare
by `order`, which makes a key of each value.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import Binary, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex
from bson.binary import OLD_BINARY_SUBTYPE

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.arithmetic_operators import remainder
from fakeserver.storage.expressions.regex import compile_regex, source_of
from fakeserver.storage.values.limits import MAX_USER_BYTES
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.printing import show, show_field
from fakeserver.storage.values.types import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    MISSING,
    TYPE_CODES,
    exact,
    identity,
    is_finite,
    is_nan,
    is_number,
    not_an_integer,
    order,
    rank,
    type_name,
    whole,
)
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.storage.values.types import Fold

    Test: TypeAlias = Callable[[Any], bool]
    Compile: TypeAlias = Callable[[Any, str, Mapping[str, Any], Fold | None], Test]


_REGEXES: Final = (Regex, re.Pattern)
_REFERENCE: Final = frozenset({"$ref", "$id"})
"""The fields by which a query knows a document for a DBRef, which is a value to equal."""


_OPTIONS_TWICE: Final = 51075
_OPTIONS_BEFORE: Final = 51074
_INVALID_REGEX: Final = 51091
_LONGEST_PATTERN: Final = 16 * 1024
"""Bytes of the longest pattern."""


@dataclass(frozen=True, slots=True)
class LeafOperator:
    """The compiler of an operator's argument to a test; `each` if the elements of an array are tested too."""

    compile: Compile
    each: bool = True


def is_operators(condition: Any) -> bool:
    """Return whether a condition is a document of operators, not a value to equal.

    The first field decides, as for a server. A document with `$ref` and `$id` is a reference, and so a
    value.
    """
    if not isinstance(condition, dict) or not condition:
        return False
    return next(iter(condition)).startswith("$") and not condition.keys() >= _REFERENCE


def _bad(message: str) -> CommandError:
    return CommandError(ErrorCode.BAD_VALUE, message)


def equality(target: Any, fold: Fold | None) -> Test:
    """Return the test whether a value equals `target`: null equals missing, numbers of all types compare."""
    kind = type(target)
    if target is None:
        return lambda value: value is None or value is MISSING
    # Values of these types equal those of no other type in Python, as in BSON.
    if kind is ObjectId or (kind is str and fold is None):
        return lambda value: value == target
    # `is`, because 1 and 1.0 equal True in Python.
    if kind is bool:
        return lambda value: value is target
    # NaN equals itself in BSON and not in Python, and goes the long way.
    if (kind is int or kind is Int64 or kind is float) and not is_nan(target):
        return _equality_with_number(target)
    key = order(target, fold)
    return lambda value: value is not MISSING and order(value, fold) == key


def _equality_with_number(target: float) -> Test:
    def test(value: Any) -> bool:
        if value == target:
            return type(value) is not bool
        # Python's decimals compare exactly with ints and doubles, those of BSON with no number.
        return type(value) is Decimal128 and value.to_decimal() == target

    return test


def regex_test(regex: Any, options: str = "") -> Test:
    """Return the test whether a string matches, or whether a value is that very regular expression."""
    source, _flags = source_of(regex, options)
    if len(source) > _LONGEST_PATTERN or len(source.encode()) > _LONGEST_PATTERN:
        raise CommandError(_INVALID_REGEX, "Regular expression is invalid: regular expression is too large")
    pattern = compile_regex(regex, options)
    same = order(Regex(*source_of(regex, options)))

    def test(value: Any) -> bool:
        if type(value) is str:
            return pattern.matches(value)
        return isinstance(value, _REGEXES) and order(value) == same

    return test


def _eq(argument: Any, _name: str, _condition: Mapping[str, Any], fold: Fold | None) -> Test:
    return equality(argument, fold)


def _comparison(compare: Callable[[Any, Any], bool], *, inclusive: bool) -> Compile:
    """Return the compiler of a comparison, bracketed by type; `inclusive` says whether equals pass.

    The special cases stand before the general one: null (only null and missing are as great), the ends of
    the order (which compare with all types, missing fields too) and NaN (as great as NaN alone).
    """

    def compile_comparison(
        argument: Any, name: str, _condition: Mapping[str, Any], fold: Fold | None
    ) -> Test:
        if isinstance(argument, _REGEXES):
            raise _bad(f"Can't have RegEx as arg to predicate over field '{name}'.")
        key, bit = order(argument, fold), rank(argument)
        if argument is None:
            return lambda value: inclusive and (value is None or value is MISSING)
        if isinstance(argument, MinKey | MaxKey):
            return lambda value: compare(order(value, fold), key)
        if is_nan(argument):
            return lambda value: inclusive and is_nan(value)

        def test(value: Any) -> bool:
            if value is MISSING or rank(value) != bit or is_nan(value):
                return False
            return compare(order(value, fold), key)

        return test

    return compile_comparison


def _in(argument: Any, _name: str, _condition: Mapping[str, Any], fold: Fold | None) -> Test:
    return membership("$in", argument, fold)


def membership(operator_name: str, argument: Any, fold: Fold | None) -> Test:
    """Return the test whether a value is one of many, or matches a regular expression among them."""
    if not isinstance(argument, list):
        raise _bad(f"{operator_name} needs an array")
    for item in paced(argument):
        if is_operators(item):
            raise _bad(f"cannot nest $ under {operator_name}")
    patterns = [regex_test(item) for item in paced(argument) if isinstance(item, _REGEXES)]
    plain = [item for item in paced(argument) if not isinstance(item, _REGEXES)]
    # A hash table: the cost for a document does not grow with the list. Regular expressions are tried one
    # by one, and a value is compared with them only where no key is the same.
    key: Callable[[Any], Any] = identity if fold is None else lambda value: order(value, fold)
    keys = frozenset(key(item) for item in paced(plain))
    # As `$eq` of null does, null in a list finds documents without the field.
    if None in plain:
        keys |= {key(MISSING)}
    return lambda value: key(value) in keys or any(pattern(value) for pattern in paced(patterns))


def _size(argument: Any, _name: str, _condition: Mapping[str, Any], _fold: Fold | None) -> Test:
    """Compile `$size`: a whole number that is not negative; every other argument is code 2."""
    size, reason = whole(argument), not_an_integer(argument)
    if size is not None and size < 0:
        reason = reason or "Expected a non-negative number in"
    if size is not None and size > INT32_MAX:
        reason = reason or "Cannot represent in int"
    if reason is not None:
        raise _bad(f"Failed to parse $size. {reason}: $size: {show(argument)}")
    return lambda value: isinstance(value, list) and len(value) == size


def _mod(argument: Any, _name: str, _condition: Mapping[str, Any], _fold: Fold | None) -> Test:
    """Compile `$mod`, which tests 64-bit integers: fractions of both sides are cut off before they divide.

    The remainder has the sign of the value, as in C. What is infinite, NaN or beyond 64 bits never matches.
    """
    if not isinstance(argument, list):
        raise _bad("malformed mod, needs to be an array")
    if len(argument) < 2:  # noqa: PLR2004 -- divisor and remainder
        raise _bad("malformed mod, not enough elements")
    if len(argument) > 2:  # noqa: PLR2004 -- divisor and remainder
        raise _bad("malformed mod, too many elements")
    for part, value in zip(("divisor", "remainder"), argument, strict=True):
        if not is_number(value):
            raise _bad(f"malformed mod, {part} not a number")
        if not is_finite(value):
            raise _bad(
                f"malformed mod, {part} value is invalid :: caused by :: Unable to coerce NaN/Inf "
                "to integral type"
            )
        if not INT64_MIN <= exact(value) <= INT64_MAX:
            raise _bad(
                f"malformed mod, {part} value is invalid :: caused by :: Out of bounds coercing "
                "to integral value"
            )
    divisor, wanted = (int(exact(value)) for value in argument)
    if divisor == 0:
        raise _bad("divisor cannot be 0")

    def test(value: Any) -> bool:
        if not is_number(value) or not is_finite(value) or not INT64_MIN <= exact(value) <= INT64_MAX:
            return False
        return bool(remainder(int(exact(value)), divisor) == wanted)

    return test


def _type(argument: Any, name: str, _condition: Mapping[str, Any], _fold: Fold | None) -> Test:
    """Compile `$type` by names and numbers of types.

    The test sees an array and its elements, so `{$type: "array"}` finds arrays, whatever they hold.
    """
    aliases = argument if isinstance(argument, list) else [argument]
    if not aliases:
        raise CommandError(ErrorCode.FAILED_TO_PARSE, f"{name} must match at least one type")
    wanted = frozenset(alias for each in aliases for alias in type_aliases(each))
    return lambda value: value is not MISSING and type_name(value) in wanted


def type_aliases(alias: Any) -> tuple[str, ...]:
    """Return the types that a `$type` argument names: an alias, a number, or `number` for four of them."""
    if alias == "number":
        return ("int", "long", "double", "decimal")
    if type(alias) is str:
        if alias not in TYPE_CODES:
            raise _bad(f"Unknown type name alias: {alias}")
        return (alias,)
    if not is_number(alias):
        raise CommandError(ErrorCode.TYPE_MISMATCH, "type must be represented as a number or a string")
    # By value: 2.0 names the same type as 2.
    names = tuple(name for name, code in TYPE_CODES.items() if code == exact(alias))
    if not names:
        raise _bad(f"Invalid numerical type code: {exact(alias)}")
    return names


def _regex(argument: Any, _name: str, condition: Mapping[str, Any], _fold: Fold | None) -> Test:
    options = condition.get("$options", "")
    if type(options) is not str:
        raise _bad("$options has to be a string")
    if type(argument) is not str and not isinstance(argument, Regex | re.Pattern):
        raise _bad("$regex has to be a string")
    if options and isinstance(argument, Regex | re.Pattern) and argument.flags & ~re.UNICODE:
        # A server has one code for each order of the two.
        first = next(name for name in condition if name in {"$regex", "$options"})
        code = _OPTIONS_BEFORE if first == "$options" else _OPTIONS_TWICE
        raise CommandError(code, "options set in both $regex and $options")
    return regex_test(argument, options)


def _bits(matches: Callable[[int, int], bool], name: str) -> Compile:
    """Return the compiler of a test of bits: of whole numbers as two's complement, and of binary data.

    A number beyond 64 bits or with a fraction never matches. Negative ones have their sign in all higher
    bits, as Python's integers have.
    """

    def compile_bits(argument: Any, _path: str, _condition: Mapping[str, Any], _fold: Fold | None) -> Test:
        mask = _mask(argument, name)

        def test(value: Any) -> bool:
            if isinstance(value, bytes | Binary):
                return matches(_bits_of_binary(value), mask)
            bits = whole(value) if not_an_integer(value) is None else None
            return bits is not None and matches(bits, mask)

        return test

    return compile_bits


def _mask(argument: Any, name: str) -> int:
    if isinstance(argument, list):
        return _mask_of(argument)
    shown = show_field(name, argument)[1:-1]
    if isinstance(argument, bytes | Binary):
        return _bits_of_binary(argument)
    if not is_number(argument):
        raise _bad(f"{name} takes an Array, a number, or a BinData but received: {shown}")
    bits, reason = whole(argument), not_an_integer(argument)
    # A mask has no sign, so one that needs the highest bit of 64 is a list of positions, or binary data.
    if reason is None and bits is not None and bits >= 0:
        return bits
    raise CommandError(ErrorCode.FAILED_TO_PARSE, f"{reason or 'Expected a non-negative number in'}: {shown}")


def _mask_of(positions: list[Any]) -> int:
    """Return a number with bits at these positions.

    All positions beyond the longest value that there is to test are alike: the first one stands for them.
    """
    bits_set = [min(_bit_position(*item), 8 * MAX_USER_BYTES) for item in enumerate(paced(positions))]
    bits = bytearray(max(bits_set, default=0) // 8 + 1)
    for bit in paced(bits_set):
        bits[bit // 8] |= 1 << bit % 8
    return int.from_bytes(bits, "little")


def _bit_position(index: int, value: Any) -> int:
    shown = show_field(str(index), value)[1:-1]
    position = whole(value)
    if position is None:
        raise _bad(f"bit positions must be an integer but got: {shown}")
    if not INT32_MIN <= position <= INT32_MAX:
        raise _bad(f"bit positions cannot be represented as a 32-bit signed integer: {shown}")
    if position < 0:
        raise _bad(f"bit positions must be >= 0 but got: {shown}")
    return position


def _bits_of_binary(value: bytes) -> int:
    """Return binary data as a number; the old binary subtype has the length of its content before it."""
    length = len(value).to_bytes(4, "little") if getattr(value, "subtype", 0) == OLD_BINARY_SUBTYPE else b""
    return int.from_bytes(length + value, "little")


LEAF_OPERATORS: Final[dict[str, LeafOperator]] = {
    "$eq": LeafOperator(_eq),
    "$gt": LeafOperator(_comparison(operator.gt, inclusive=False)),
    "$gte": LeafOperator(_comparison(operator.ge, inclusive=True)),
    "$lt": LeafOperator(_comparison(operator.lt, inclusive=False)),
    "$lte": LeafOperator(_comparison(operator.le, inclusive=True)),
    "$in": LeafOperator(_in),
    "$size": LeafOperator(_size, each=False),
    "$mod": LeafOperator(_mod),
    "$type": LeafOperator(_type),
    "$regex": LeafOperator(_regex),
    "$bitsAllSet": LeafOperator(_bits(lambda bits, mask: bits & mask == mask, "$bitsAllSet")),
    "$bitsAnySet": LeafOperator(_bits(lambda bits, mask: bits & mask != 0, "$bitsAnySet")),
    "$bitsAllClear": LeafOperator(_bits(lambda bits, mask: bits & mask == 0, "$bitsAllClear")),
    "$bitsAnyClear": LeafOperator(_bits(lambda bits, mask: bits & mask != mask, "$bitsAnyClear")),
}
"""`$exists`, `$ne`, `$nin`, `$not`, `$all`, `$elemMatch` are about all elements at once: see `matching`."""


# Names of the geographic operators, for those who only recognise them.


NEAR: Final = frozenset({"$near", "$nearSphere", "$geoNear"})
DISTANCES: Final = frozenset({"$maxDistance", "$minDistance"})
WITHIN: Final = frozenset({"$geoWithin", "$within"})
OPERATORS: Final = NEAR | WITHIN | {"$geoIntersects"}

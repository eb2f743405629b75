"""Array and object expression operators.

Where an array is wanted, most operators answer null for null or missing, and refuse anything else by an
error of their own. Those that refuse null too are `$size`, `$range`, `$firstN` and its kin, `$setEquals`,
`$setIsSubset`, `$anyElementTrue` and `$allElementsTrue`; `$isArray` refuses nothing.

Positions and counts may be numbers of any type that are whole and fit into 32 bits. Objects and arrays are
never changed in place: they may be those of a stored document, which others read.

Operators that make arrays check the size before they make them (146 beyond 100 MB), and loop through
`paced` or `interruptible`, so that other requests have their turns.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.functions import (
    VARIES,
    FunctionTable,
    NamedArguments,
    Wording,
    all_there,
    null_in,
    nullish,
)
from fakeserver.storage.values.limits import VALUE_BYTES, check_array, check_length
from fakeserver.storage.values.pacing import identity_at_leisure, paced
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.sorting import sort_values
from fakeserver.storage.values.types import (
    INT32_MAX,
    INT32_MIN,
    MISSING,
    as_mapping,
    is_number,
    is_object,
    truthy,
    type_name,
    whole,
)
from fakeserver.waiting.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.storage.values.types import Fold


functions = FunctionTable()
function = functions.function


def _array(name: str, code: int, value: Any, found: str = "is") -> list[Any]:
    if not isinstance(value, list):
        raise CommandError(code, f"{name} must be an array, but {found} {type_name(value)}")
    return value


@function("$size")
def _size(value: Any) -> int:
    if not isinstance(value, list):
        raise CommandError(
            17124, f"The argument to $size must be an array, but was of type: {type_name(value)}"
        )
    return len(value)


@function("$isArray")
def _is_array(value: Any) -> bool:
    return isinstance(value, list)


@function("$arrayElemAt", 2)
@null_in
def _element_at(array: Any, index: Any) -> Any:
    items = _array("$arrayElemAt's first argument", 28689, array)
    if not is_number(index):
        raise CommandError(
            28690, f"$arrayElemAt's second argument must be a numeric value, but is {type_name(index)}"
        )
    position = whole(index)
    if position is None or not -(2**31) <= position < 2**31:
        shown = f"representable as a 32-bit integer: {show(index)}"
        raise CommandError(28691, f"$arrayElemAt's second argument must be {shown}")
    # Negative positions count from the end. Beyond either end there is nothing: missing, not null.
    position += len(items) if position < 0 else 0
    return items[position] if 0 <= position < len(items) else MISSING


@function("$first")
@null_in
def _first(array: Any) -> Any:
    return next(iter(_array("$first's argument", 28689, array)), MISSING)


@function("$last")
@null_in
def _last(array: Any) -> Any:
    items = _array("$last's argument", 28689, array)
    return items[-1] if items else MISSING


@function("$slice", 2, 3)
@null_in
def _slice(array: Any, *bounds: Any) -> Any:
    items = _array("First argument to $slice", 28724, array, "is of type:")
    second = _bound("Second", 28725, bounds[0])
    if len(bounds) == 1:
        return slice_of(items, [second])
    third = _bound("Third", 28727, bounds[1])
    # The count of three operands is positive; the one of two may be negative, or zero.
    if third <= 0:
        raise CommandError(28729, f"Third argument to $slice must be positive: {show(bounds[1])}")
    return slice_of(items, [second, third])


def _bound(which: str, code: int, value: Any) -> int:
    """Return an argument of `$slice` as a number. Raises `CommandError`."""
    if not is_number(value):
        message = f"{which} argument to $slice must be numeric, but is of type: {type_name(value)}"
        raise CommandError(code, message)
    number = whole(value)
    if number is None or not -(2**31) <= number < 2**31:
        message = f"{which} argument to $slice can't be represented as a 32-bit integer: {show(value)}"
        # The code after that of another type, as in `_limit` below.
        raise CommandError(code + 1, message)
    return number


def slice_of(items: list[Any], bounds: list[int]) -> list[Any]:
    """Return a part of an array: the first n, the last n (negative), or n from a position.

    A position beyond the start counts as the start; beyond the end nothing is left.
    """
    if len(bounds) == 1:
        return items[: bounds[0]] if bounds[0] >= 0 else items[bounds[0] :]
    start, count = bounds
    # Python would take a start that is still negative from the end again.
    start = max(start + len(items), 0) if start < 0 else start
    return items[start : start + count]


def _check_concatenated(array: Any) -> None:
    if not isinstance(array, list):
        raise CommandError(28664, f"$concatArrays only supports arrays, not {type_name(array)}")


@function("$concatArrays", 0, None)
def _concat_arrays(*arrays: Any) -> Any:
    if not all_there(arrays, _check_concatenated):
        return None
    # Before any is joined: in a `$reduce` the arrays may double with each step.
    check_length("$concatArrays", sum(map(len, arrays)))
    items: list[Any] = []
    for array in paced(arrays):
        items += array
    return items


@function("$reverseArray")
@null_in
def _reverse(array: Any) -> Any:
    return _array("The argument to $reverseArray", 34435, array, "was of type:")[::-1]


def _check_constant_array(operands: Mapping[int, Any]) -> bool:
    """Refuse a constant that is no array, with another code than at run time; say whether it is null."""
    array = operands[0]
    if array is VARIES:
        return False
    if not nullish(array) and not isinstance(array, list):
        raise CommandError(
            50809,
            f"First operand of $indexOfArray must be an array. First argument is of type: {type_name(array)}",
        )
    return nullish(array)


@function("$indexOfArray", 2, 4, folds=True, settle=_check_constant_array)
def _index_of(
    array: Any, value: Any, start: Any = 0, end: Any = INT32_MAX, *, fold: Fold | None = None
) -> Any:
    if nullish(array):
        return None
    if not isinstance(array, list):
        raise CommandError(
            40090, f"$indexOfArray requires an array as a first argument, found: {type_name(array)}"
        )
    # Equal means equal to a query: 1, 1.0 and a decimal 1 are the same, as are strings by collation.
    key = key_of(value, fold)
    first = search_index("$indexOfArray", "starting index", start, _INDEX_OF_ARRAY)
    last = min(search_index("$indexOfArray", "ending index", end, _INDEX_OF_ARRAY), len(array))
    return next((index for index in paced(range(first, last)) if key_of(array[index], fold) == key), -1)


_INDEX_OF_ARRAY: Final = (9711600, 9711601)


def search_index(name: str, what: str, value: Any, codes: tuple[int, int] = (40096, 40097)) -> int:
    """Return a bound of a search. Raises `CommandError` for what is no 32-bit integer, or is negative."""
    number = whole(value)
    if number is None or not INT32_MIN <= number <= INT32_MAX:
        raise CommandError(
            codes[0],
            f"{name} requires an integral {what}, found a value of type: {type_name(value)}, with value: "
            f"{show(value)}",
        )
    if number < 0:
        raise CommandError(codes[1], f"{name} requires a nonnegative {what}, found: {show(value)}")
    return number


@function("$range", 2, 3)
def _range(*limits: Any) -> list[int]:
    names = ("starting", "ending", "step")
    # Each limit has two codes: 34443, 34445 and 34447 for what is no number, and the next one for a number
    # that is no 32-bit integer.
    numbers = [_limit(name, 34443 + 2 * n, limits[n]) for n, name in enumerate(names[: len(limits)])]
    if numbers[2:] == [0]:
        raise CommandError(34449, "$range requires a non-zero step value")
    wanted = range(*numbers)
    # A range is known without being made, so a huge one is refused at no cost.
    check_array("$range", _ARRAY_BYTES + VALUE_BYTES * len(wanted))
    made: list[int] = []
    for start in interruptible(range(0, len(wanted), _AT_ONCE)):
        made.extend(wanted[start : start + _AT_ONCE])
    return made


_AT_ONCE: Final = 100_000
"""Numbers that are made between two yield points."""
_ARRAY_BYTES: Final = 24
"""Bytes that a server counts for an array itself."""


def _limit(name: str, code: int, value: Any) -> int:
    """Return an argument of `$range` as a number. Raises `CommandError`."""
    if not is_number(value):
        shown = MISSING if value is MISSING else type_name(value)
        raise CommandError(code, f"$range requires a numeric {name} value, found value of type: {shown}")
    number = whole(value)
    if number is None or not -(2**31) <= number < 2**31:
        message = f"$range requires a {name} value that can be represented as a 32-bit integer, found value: "
        raise CommandError(code + 1, message + show(value))
    return number


@function(
    "$zip",
    arguments=NamedArguments(
        34460,
        34464,
        {"inputs": 34465},
        {"defaults": MISSING, "useLongestLength": False},
        Wording("{name} only supports an object as an argument, found {found}"),
    ),
)
def _zip(parts: dict[str, Any]) -> Any:
    inputs = parts["inputs"]
    if not isinstance(inputs, list):
        raise CommandError(34461, f"inputs must be an array of expressions, found {type_name(inputs)}")
    if not inputs:
        raise CommandError(34465, "$zip requires at least one input array")
    # Before the check for arrays: one null makes null, whatever stands beside it.
    if any(nullish(each) for each in inputs):
        return None
    for each in inputs:
        if not isinstance(each, list):
            raise CommandError(34468, f"$zip found a non-array expression in input: {show(each)}")
    _check_defaults(parts, len(inputs))
    longest = bool(parts.get("useLongestLength", False))
    check_length("$zip", (len(inputs) + 1) * (max if longest else min)(map(len, inputs)))
    if not longest:
        return [list(row) for row in interruptible(zip(*inputs, strict=False))]
    defaults = parts.get("defaults") or [None] * len(inputs)
    # A null element stays; only what is not there is replaced.
    rows = zip_longest(*inputs, fillvalue=MISSING)
    return [
        [default if item is MISSING else item for item, default in zip(row, defaults, strict=True)]
        for row in interruptible(rows)
    ]


def _check_defaults(parts: dict[str, Any], count: int) -> None:
    if not isinstance(parts.get("useLongestLength", False), bool):
        found = type_name(parts["useLongestLength"])
        raise CommandError(34463, f"useLongestLength must be a bool, found {found}")
    defaults = parts.get("defaults")
    if defaults is None:
        return
    if not isinstance(defaults, list):
        raise CommandError(34462, f"defaults must be an array of expressions, found {type_name(defaults)}")
    if not parts.get("useLongestLength"):
        raise CommandError(34466, "cannot specify defaults unless useLongestLength is true")
    if len(defaults) != count:
        raise CommandError(34467, "defaults and inputs must have the same length")


_SORT_ARRAY: Final = NamedArguments(2942500, 2942501, {"input": 2942502, "sortBy": 2942503})


def _literal_order(parts: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments with `sortBy` as it stands, for it is no expression. Raises `CommandError`.

    A direction is 1 or -1 in any type of number; an object orders documents by fields, a number whole
    values.
    """
    by = parts["sortBy"]
    if is_object(by):
        if not by or any(whole(direction) not in (1, -1) for direction in by.values()):
            raise CommandError(2942505, f"The $sort element value must be either 1 or -1, found: {show(by)}")
    elif not is_number(by):
        raise CommandError(2942507, f"The $sort must be an object or a number, found: {type_name(by)}")
    elif whole(by) not in (1, -1):
        raise CommandError(2942506, f"The $sort element value must be either 1 or -1, found: {show(by)}")
    return {**parts, "sortBy": {"$literal": by}}


@function("$sortArray", parse=_literal_order, folds=True, arguments=_SORT_ARRAY)
def _sort_array(parts: dict[str, Any], *, fold: Fold | None = None) -> Any:
    items = parts["input"]
    if nullish(items):
        return None
    if not isinstance(items, list):
        raise CommandError(
            2942504,
            f"The input argument to $sortArray must be an array, but was of type: {type_name(items)}",
        )
    return sort_values(items, parts["sortBy"], fold)


@function("$arrayToObject")
@null_in
def _array_to_object(array: Any) -> dict[str, Any]:
    if not isinstance(array, list):
        raise CommandError(40386, f"$arrayToObject requires an array input, found: {type_name(array)}")
    if not array:
        return {}
    if not is_object(array[0]) and not isinstance(array[0], list):
        raise CommandError(40398, f"Unrecognised input type format for $arrayToObject: {type_name(array[0])}")
    # The first element decides for all. Of equal keys the last one counts, at the place of the first.
    pair = _key_and_value if is_object(array[0]) else _pair
    return dict(map(pair, paced(array)))


def _pair(item: Any) -> tuple[str, Any]:
    if not isinstance(item, list):
        raise CommandError(40396, f"{_MIXED}Array was detected, now found: {type_name(item)}")
    if len(item) != 2:  # noqa: PLR2004 -- key and value
        raise CommandError(
            40397, f"$arrayToObject requires an array of size 2 arrays,found array of size: {len(item)}"
        )
    wrong = CommandError(
        40395,
        "$arrayToObject requires an array of key-value pairs, where the key must be of type string. Found "
        f"key type: {type_name(item[0])}",
    )
    return _objectkey_of(item[0], wrong, 4940400), item[1]


def _key_and_value(item: Any) -> tuple[str, Any]:
    if not is_object(item):
        raise CommandError(40391, f"{_MIXED}Object was detected, now found: {type_name(item)}")
    fields = as_mapping(item)
    if len(fields) != 2:  # noqa: PLR2004 -- key and value
        raise CommandError(
            40392,
            "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of "
            f"keys:{len(fields)}",
        )
    if fields.keys() != {"k", "v"}:
        raise CommandError(
            40393,
            "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys from: "
            f"{show(fields)}",
        )
    wrong = CommandError(
        40394,
        "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' must be of type "
        f"string. Found type: {type_name(fields['k'])}",
    )
    return _objectkey_of(fields["k"], wrong, 4940401), fields["v"]


_MIXED = "$arrayToObject requires a consistent input format. Elements mustall be arrays or all be objects. "


def _objectkey_of(value: Any, wrong_type: CommandError, null_byte: int) -> str:
    if type(value) is not str:
        raise wrong_type
    if "\0" in value:
        raise CommandError(null_byte, "Key field cannot contain an embedded null byte")
    return value


@function("$objectToArray")
@null_in
def _object_to_array(value: Any) -> list[dict[str, Any]]:
    if not is_object(value):
        raise CommandError(40390, f"$objectToArray requires a document input, found: {type_name(value)}")
    return [{"k": name, "v": item} for name, item in paced(as_mapping(value).items())]


@function("$mergeObjects", 0, None)
def merge_objects(*values: Any) -> dict[str, Any]:
    """Return the fields of all documents, the last one winning; null and missing count as none.

    A single operand that is an array stands for its elements. Raises `CommandError` 40400 for another
    value.
    """
    merged: dict[str, Any] = {}
    for value in interruptible(values[0] if len(values) == 1 and isinstance(values[0], list) else values):
        if nullish(value):
            continue
        if not is_object(value):
            found = f"{show(value)} is of type {type_name(value)}"
            raise CommandError(40400, f"$mergeObjects requires object inputs, but input {found}")
        merged.update(value)
    return merged


_N_OF: Final = NamedArguments(
    5787900,
    5787901,
    {"n": 5787906, "input": 5787907},
    wording=Wording(
        "specification must be an object; found {found}",
        "Unknown argument for 'n' operator: {key}",
        "Missing value for '{key}'",
    ),
)


def _n_of(name: str, take: Callable[[list[Any], int, Fold | None], list[Any]]) -> None:
    @function(name, arguments=_N_OF, folds=True)
    def _call(arguments: dict[str, Any], *, fold: Fold | None = None) -> Any:
        items = arguments["input"]
        if not isinstance(items, list):
            raise CommandError(5788200, "Input must be an array")
        value = arguments["n"]
        number = whole(value)
        if number is None or number <= 0:
            raise CommandError(5787908, f"'n' must be greater than 0, found {value} for {name}")
        return take(items, number, fold)


def _without_nulls(items: list[Any]) -> list[Any]:
    """Return what `$minN` and `$maxN` compare; `$firstN` and `$lastN` count nulls as elements."""
    return [item for item in paced(items) if not nullish(item)]


_n_of("$firstN", lambda items, count, _fold: items[:count])
_n_of("$lastN", lambda items, count, _fold: items[-count:])
_n_of("$minN", lambda items, count, fold: sort_values(_without_nulls(items), 1, fold)[:count])
_n_of("$maxN", lambda items, count, fold: sort_values(_without_nulls(items), -1, fold)[:count])


# Set expression operators: arrays in which neither order nor repetition counts.


def key_of(value: Any, fold: Fold | None) -> Any:
    """Return what two values share that are equal, their texts as `fold` sees them.

    One set has one collation: keys of different ones must not be compared.
    """
    return identity_at_leisure(value, fold)


def unique(items: list[Any], fold: Fold | None = None) -> list[Any]:
    """Return each value once, in the order of its first appearance."""
    return list(_set(items, fold).values())


def _set(items: list[Any], fold: Fold | None) -> dict[Any, Any]:
    """Return each value once by its key: of those that are equal the first."""
    found: dict[Any, Any] = {}
    for item in paced(items):
        found.setdefault(key_of(item, fold), item)
    return found


def _sets(
    name: str, codes: tuple[int, ...], arrays: tuple[Any, ...], fold: Fold | None
) -> list[dict[Any, Any]]:
    """Return arrays as sets. Raises `CommandError` for others, with a code for the first and for the rest."""
    for number, array in enumerate(paced(arrays)):
        _check_set(name, codes[min(number, len(codes) - 1)], array)
    return [_set(array, fold) for array in paced(arrays)]


def _check_set(name: str, code: int, array: Any) -> None:
    if not isinstance(array, list):
        message = f"All operands of {name} must be arrays. One argument is of type: {type_name(array)}"
        raise CommandError(code, message)


@function("$setUnion", 0, None, folds=True)
def _set_union(*arrays: Any, fold: Fold | None = None) -> Any:
    if not all_there(arrays, lambda array: _check_set("$setUnion", 17043, array)):
        return None
    # Of equal values that of the first array is kept: later updates replace, so arrays go in from the last.
    merged: dict[Any, Any] = {}
    for each in interruptible(reversed(_sets("$setUnion", (17043,), arrays, fold))):
        merged.update(each)
    return sort_values(list(merged.values()), 1, fold)


@function("$setIntersection", 0, None, folds=True)
def _set_intersection(*arrays: Any, fold: Fold | None = None) -> Any:
    if not all_there(arrays, lambda array: _check_set("$setIntersection", 17047, array)):
        return None
    first, *rest = _sets("$setIntersection", (17047,), arrays, fold) or [{}]
    common = [item for key, item in paced(first.items()) if all(key in each for each in paced(rest))]
    # Union and intersection are sorted here, since their order is a server's own choice and must repeat; a
    # difference keeps the order of its first operand.
    return sort_values(common, 1, fold)


@function("$setDifference", 2, folds=True)
@null_in
def _set_difference(left: Any, right: Any, *, fold: Fold | None = None) -> Any:
    first, second = _sets("$setDifference", (17048, 17049), (left, right), fold)
    return [item for key, item in paced(first.items()) if key not in second]


def _check_constant_sets(operands: Mapping[int, Any]) -> bool:
    for array in paced(operands.values()):
        if array is not VARIES:
            _check_set("$setEquals", 5887502, array)
    return False


@function("$setEquals", 2, None, folds=True, arity=17045, settle=_check_constant_sets)
def _set_equals(*arrays: Any, fold: Fold | None = None) -> bool:
    first, *rest = _sets("$setEquals", (17044,), arrays, fold)
    return all(first.keys() == each.keys() for each in interruptible(rest))


def _check_constant_whole(operands: Mapping[int, Any]) -> bool:
    if operands[1] is not VARIES:
        _check_set("$setIsSubset", 17311, operands[1])
    return False


@function("$setIsSubset", 2, folds=True, settle=_check_constant_whole)
def _set_is_subset(left: Any, right: Any, *, fold: Fold | None = None) -> bool:
    first, second = _sets("$setIsSubset", (17046, 17042), (left, right), fold)
    return first.keys() <= second.keys()


@function("$anyElementTrue")
def _any_element_true(array: Any) -> bool:
    return any(truthy(item) for item in paced(_elements("$anyElementTrue", 17041, array)))


@function("$allElementsTrue")
def _all_elements_true(array: Any) -> bool:
    return all(truthy(item) for item in paced(_elements("$allElementsTrue", 17040, array)))


def _elements(name: str, code: int, array: Any) -> list[Any]:
    if not isinstance(array, list):
        raise CommandError(code, f"{name}'s argument must be an array, but is {type_name(array)}")
    return array

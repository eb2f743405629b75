"""Array, set and object expression operators."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from fakeserver.errors import CommandError
from fakeserver.storage.functions import FunctionTable, null_in, nullish
from fakeserver.storage.sorting import sort_values
from fakeserver.storage.values import MISSING, identity, is_object, truthy, type_name, whole

if TYPE_CHECKING:
    from collections.abc import Callable

functions = FunctionTable()
function = functions.function


def _array(name: str, code: int, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise CommandError(code, f"{name} must be an array, but is {type_name(value)}")
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
    place = int(index) + (len(items) if index < 0 else 0)
    return items[place] if 0 <= place < len(items) else MISSING


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
    items = _array("First argument to $slice", 28724, array)
    return slice_of(items, [int(bound) for bound in bounds])


def slice_of(items: list[Any], bounds: list[int]) -> list[Any]:
    """Return a part of an array: the first n, the last n (negative), or n from a place."""
    if len(bounds) == 1:
        return items[: bounds[0]] if bounds[0] >= 0 else items[bounds[0] :]
    start, count = bounds
    start = max(start + len(items), 0) if start < 0 else start
    return items[start : start + count]


@function("$concatArrays", 0, None)
@null_in
def _concat_arrays(*arrays: Any) -> Any:
    for array in arrays:
        if not isinstance(array, list):
            raise CommandError(28664, f"$concatArrays only supports arrays, not {type_name(array)}")
    return [item for array in arrays for item in array]


@function("$reverseArray")
@null_in
def _reverse(array: Any) -> Any:
    return _array("The argument to $reverseArray", 34435, array)[::-1]


@function("$indexOfArray", 2, 4)
def _index_of(array: Any, value: Any, start: int = 0, end: int | None = None) -> Any:
    if nullish(array):
        return None
    items = _array("$indexOfArray's first argument", 40090, array)
    key = identity(value)
    places = range(start, min(len(items), len(items) if end is None else end))
    return next((index for index in places if identity(items[index]) == key), -1)


@function("$range", 2, 3)
def _range(start: Any, end: Any, step: Any = 1) -> list[int]:
    if step == 0:
        raise CommandError(34449, "$range requires a non-zero step value")
    return list(range(int(start), int(end), int(step)))


@function("$zip", named=True)
def _zip(parts: dict[str, Any]) -> Any:
    inputs = parts.get("inputs", [])
    if any(nullish(each) for each in inputs):
        return None
    if not parts.get("useLongestLength", False):
        return [list(row) for row in zip(*inputs, strict=False)]
    defaults = parts.get("defaults") or [None] * len(inputs)
    rows = zip_longest(*inputs, fillvalue=MISSING)
    return [
        [default if item is MISSING else item for item, default in zip(row, defaults, strict=True)]
        for row in rows
    ]


@function("$sortArray", named=True)
def _sort_array(parts: dict[str, Any]) -> Any:
    items = parts.get("input")
    return sort_values(items, parts.get("sortBy", 1)) if isinstance(items, list) else None


@function("$arrayToObject")
@null_in
def _array_to_object(array: Any) -> dict[str, Any]:
    items = _array("$arrayToObject requires an array input; it", 40386, array)
    return dict((item["k"], item["v"]) if is_object(item) else tuple(item) for item in items)


@function("$objectToArray")
@null_in
def _object_to_array(value: Any) -> list[dict[str, Any]]:
    if not is_object(value):
        raise CommandError(40390, f"$objectToArray requires a document input, found: {type_name(value)}")
    return [{"k": name, "v": item} for name, item in value.items()]


@function("$mergeObjects", 0, None)
def merge_objects(*values: Any) -> dict[str, Any]:
    """Return the fields of all documents, the last one winning; null and missing count as none."""
    merged: dict[str, Any] = {}
    for value in values[0] if len(values) == 1 and isinstance(values[0], list) else values:
        if nullish(value):
            continue
        if not is_object(value):
            raise CommandError(
                40400,
                f"$mergeObjects requires object inputs, but input {value} is of type {type_name(value)}",
            )
        merged.update(value)
    return merged


def unique(items: list[Any]) -> list[Any]:
    """Return each value once, in the order of its first appearance."""
    return list({identity(item): item for item in reversed(items)}.values())[::-1]


def _sets(name: str, code: int, arrays: tuple[Any, ...]) -> list[dict[Any, Any]]:
    for array in arrays:
        if not isinstance(array, list):
            raise CommandError(
                code, f"All operands of {name} must be arrays. One argument is of type: {type_name(array)}"
            )
    return [{identity(item): item for item in array} for array in arrays]


@function("$setUnion", 0, None)
@null_in
def _set_union(*arrays: Any) -> Any:
    merged: dict[Any, Any] = {}
    for each in _sets("$setUnion", 17043, arrays):
        merged.update(each)
    return sort_values(list(merged.values()), 1)


@function("$setIntersection", 0, None)
@null_in
def _set_intersection(*arrays: Any) -> Any:
    first, *rest = _sets("$setIntersection", 17047, arrays) or [{}]
    common = [item for key, item in first.items() if all(key in each for each in rest)]
    return sort_values(common, 1)


@function("$setDifference", 2)
@null_in
def _set_difference(left: Any, right: Any) -> Any:
    first, second = _sets("$setDifference", 17048, (left, right))
    return [item for key, item in first.items() if key not in second]


@function("$setEquals", 2, None)
def _set_equals(*arrays: Any) -> bool:
    first, *rest = _sets("$setEquals", 17044, arrays)
    return all(first.keys() == each.keys() for each in rest)


@function("$setIsSubset", 2)
def _set_is_subset(left: Any, right: Any) -> bool:
    first, second = _sets("$setIsSubset", 17046, (left, right))
    return first.keys() <= second.keys()


@function("$anyElementTrue")
def _any_element_true(array: Any) -> bool:
    return any(truthy(item) for item in _array("$anyElementTrue's argument", 17041, array))


@function("$allElementsTrue")
def _all_elements_true(array: Any) -> bool:
    return all(truthy(item) for item in _array("$allElementsTrue's argument", 17040, array))


def _count(name: str, value: Any) -> int:
    number = whole(value)
    if number is None or number <= 0:
        raise CommandError(5787908, f"'n' must be greater than 0, found {value} for {name}")
    return number


def _n_of(name: str, take: Callable[[list[Any], int], list[Any]]) -> None:
    @function(name, named=True)
    def _call(given: dict[str, Any]) -> Any:
        if given.keys() != {"n", "input"}:
            raise CommandError(5787907, f"{name} takes 'n' and 'input', and nothing else")
        items = given["input"]
        if nullish(items):
            return None
        if not isinstance(items, list):
            raise CommandError(5788200, "Input must be an array")
        return take(items, _count(name, given["n"]))


def _without_nulls(items: list[Any]) -> list[Any]:
    return [item for item in items if not nullish(item)]


_n_of("$firstN", lambda items, count: items[:count])
_n_of("$lastN", lambda items, count: items[-count:])
_n_of("$minN", lambda items, count: sort_values(_without_nulls(items), 1)[:count])
_n_of("$maxN", lambda items, count: sort_values(_without_nulls(items), -1)[:count])

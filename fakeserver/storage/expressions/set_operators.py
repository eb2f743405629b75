"""Set expression operators: arrays in which neither order nor repetition counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.functions import FunctionTable, all_there, null_in
from fakeserver.storage.values.pacing import identity_at_leisure, paced
from fakeserver.storage.values.sorting import sort_values
from fakeserver.storage.values.types import truthy, type_name
from fakeserver.waiting.interrupts import interruptible

if TYPE_CHECKING:
    from fakeserver.storage.values.types import Fold

functions = FunctionTable()
function = functions.function


def key_of(value: Any, fold: Fold | None) -> Any:
    """Return what two values share that are equal, their texts as `fold` sees them."""
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
    return sort_values(common, 1, fold)


@function("$setDifference", 2, folds=True)
@null_in
def _set_difference(left: Any, right: Any, *, fold: Fold | None = None) -> Any:
    first, second = _sets("$setDifference", (17048, 17049), (left, right), fold)
    return [item for key, item in paced(first.items()) if key not in second]


def _check_literal_set(array: Any) -> None:
    _check_set("$setEquals", 5887502, array)


@function("$setEquals", 2, None, folds=True, arity=17045, parse_each=_check_literal_set)
def _set_equals(*arrays: Any, fold: Fold | None = None) -> bool:
    first, *rest = _sets("$setEquals", (17044,), arrays, fold)
    return all(first.keys() == each.keys() for each in interruptible(rest))


@function("$setIsSubset", 2, folds=True)
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

"""The paths of an update that name array elements: `a.$`, `a.$[]` and `a.$[identifier]`.

`updates.updating` compiles the array filters once (`compile_array_filters`), checks that paths and filters
name the same identifiers, and asks `concrete` for each document which paths a path stands for. These have
numbers for elements, and are written one by one. Projections of `a.$` ask `matched_index`.

`a.$` is the element by which the document matched. A filter is a predicate and does not say, so it is found
anew, as a server would have met it: the conditions are sorted in a server's order, and the last one that an
element decides wins. The manual calls filters on several arrays ambiguous; a server still has one answer.

An array filter `{"x.a": 1}` is compiled as a filter on documents with one field: each element is tested as
`{x: element}`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from bson import Regex

from fakeserver.errors import CommandError
from fakeserver.storage.filters.match_operators import DISTANCES, OPERATORS, is_operators
from fakeserver.storage.filters.matching import (
    SPECIAL,
    compile_element,
    compile_filter,
    compile_value,
    refuse_operators,
)
from fakeserver.storage.port.engine import Scope
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.paths import array_index, exactly, split
from fakeserver.storage.values.printing import show, show_field
from fakeserver.storage.values.types import MISSING, as_mapping, is_object, truthy
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_PLAIN: Final = Scope()
_IDENTIFIER: Final = re.compile(r"[a-z][a-zA-Z0-9]*")


def compile_array_filters(
    filters: Sequence[Mapping[str, Any]], scope: Scope
) -> dict[str, Callable[[Any], bool]]:
    """Return the predicates of `arrayFilters` by their identifiers. Raises `CommandError` for bad ones.

    Codes: 9 without a field, with two, or for the same identifier twice, 2 for a name that is no
    identifier; those of `SPECIAL` for operators that are not about an element.
    """
    compiled: dict[str, Callable[[Any], bool]] = {}
    for each in filters:
        refuse_operators(each, SPECIAL)
        names = list(_identifiers(each))
        if not names:
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE,
                "Cannot use an expression without a top-level field name in arrayFilters",
            )
        name = names[0]
        if any(other != name for other in names):
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE,
                "Error parsing array filter :: caused by :: Expected a single top-level field name, "
                f"found '{name}' and '{next(other for other in names if other != name)}'",
            )
        if not _IDENTIFIER.fullmatch(name):
            raise CommandError(
                ErrorCode.BAD_VALUE,
                "Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric "
                f"string beginning with a lowercase letter, found '{name}'",
            )
        if name in compiled:
            raise CommandError(
                ErrorCode.FAILED_TO_PARSE,
                f"Found multiple array filters with the same top-level field name {name}",
            )
        compiled[name] = compile_filter(each, scope)
    return compiled


def _identifiers(query: Mapping[str, Any]) -> Iterator[str]:
    """Yield the first part of each path in a filter, also in its branches."""
    for name, condition in query.items():
        if name in {"$and", "$or", "$nor"}:
            for item in condition:
                yield from _identifiers(item)
        elif not name.startswith("$"):
            yield split(name)[0]


def is_filtered(part: str) -> bool:
    """Return whether a part of a path stands for array elements: `$[]` or `$[identifier]`."""
    return part.startswith("$[") and part.endswith("]")


def used_identifiers(path: str) -> Iterator[str]:
    """Yield the identifiers of `$[identifier]` in a path."""
    for part in split(path):
        if is_filtered(part) and part != "$[]":
            yield part[2:-1]


def concrete(
    document: dict[str, Any],
    path: str,
    *,
    query: Mapping[str, Any],
    filters: Mapping[str, Callable[[Any], bool]],
    scope: Scope = _PLAIN,
) -> list[tuple[str, ...]]:
    """Return the paths that `path` stands for in `document`, array elements by their numbers.

    Raises `CommandError` 2 where a path needs an array that is not there, or `$` finds no element. A path
    for an empty array stands for none, and changes nothing.
    """
    parts = split(path)
    # Most paths have none, and need no document.
    if "$" not in path:
        return [parts]
    return list(interruptible(_expand(document, (), parts, path, query, filters, scope)))


def _expand(
    document: dict[str, Any],
    done: tuple[str, ...],
    rest: tuple[str, ...],
    path: str,
    query: Mapping[str, Any],
    filters: Mapping[str, Callable[[Any], bool]],
    scope: Scope,
) -> Iterator[tuple[str, ...]]:
    for index, part in enumerate(rest):
        if part == "$":
            chosen = matched_index(document, query, scope)
            if chosen is None:
                raise CommandError(
                    ErrorCode.BAD_VALUE,
                    "The positional operator did not find the match needed from the query.",
                )
            yield from _expand(document, (*done, str(chosen)), rest[index + 1 :], path, query, filters, scope)
            return
        if is_filtered(part):
            for position in _chosen(document, done, part[2:-1], path, filters):
                yield from _expand(
                    document, (*done, str(position)), rest[index + 1 :], path, query, filters, scope
                )
            return
        done = (*done, part)
    yield done


def _chosen(
    document: dict[str, Any],
    done: tuple[str, ...],
    name: str,
    path: str,
    filters: Mapping[str, Callable[[Any], bool]],
) -> list[int]:
    """Return the positions of the elements that `$[]` (no name) or `$[name]` stands for in an array."""
    array = exactly(document, done)
    if array is MISSING:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"The path '{'.'.join(done)}' must exist in the document in order to apply array updates.",
        )
    if not isinstance(array, list):
        shown = show_field(done[-1], array)[1:-1]
        raise CommandError(ErrorCode.BAD_VALUE, f"Cannot apply array updates to non-array element {shown}")
    if not name:
        return list(range(len(array)))
    if name not in filters:
        raise missing_filter(name, path)
    return [index for index, item in enumerate(paced(array)) if filters[name]({name: item})]


def matched_index(document: Any, query: Mapping[str, Any], scope: Scope = _PLAIN) -> int | None:
    """Return the index of the array element by which a document matches a query, None if no element decides.

    Each condition finds the first element that meets it, in the outermost array on its path; the last
    condition in a server's order wins. Negations, alternatives and conditions on a whole array find none.
    """
    found = None
    # By operator, then by path: a server sorts a conjunction before it matches, and remembers the last
    # element.
    clauses = sorted(_clauses(query), key=lambda clause: (_order_of(clause[1]), clause[0]))
    for name, condition in clauses:
        index = _deciding_element(document, split(name), condition, scope)
        found = found if index is None else index
    return found


_ORDER: Final = (
    "$elemMatch", "$size", "$eq", "$lte", "$lt", "$gt", "$gte", "$regex", "$mod", "$exists", "$in",
    "$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear", "$type",
)  # fmt: skip
"""The order in which a server tests the conditions of one conjunction."""

_WHOLE: Final = OPERATORS | {"$size", "$exists", "$elemMatch"}
"""The operators that see the value at the end of a path, not the elements of one that is an array."""


def _order_of(condition: Mapping[str, Any]) -> int:
    operator = next(iter(condition))
    return _ORDER.index(operator) if operator in _ORDER else len(_ORDER)


def _clauses(query: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the conditions of a conjunction, each of one operator and its options."""
    for name, condition in query.items():
        if name == "$and":
            for item in condition:
                yield from _clauses(item)
        elif name == "$or":
            yield from _clauses(_as_membership(condition))
        elif not name.startswith("$"):
            yield from ((name, each) for each in _operators(condition))


def _operators(condition: Any) -> Iterator[dict[str, Any]]:
    if not is_operators(condition):
        operator = "$regex" if isinstance(condition, Regex | re.Pattern) else "$eq"
        yield {operator: condition}
        return
    # Each operator is tested alone, and `$regex` needs its options for that.
    options = {name: condition[name] for name in ("$options",) if name in condition}
    for name, argument in condition.items():
        if name == "$all":
            for item in argument:
                yield from _operators(item)
        # A server rewrites a list of one as an equality, which has another place in its order.
        elif name == "$in" and len(argument) == 1:
            yield from _operators(argument[0])
        elif name == "$regex":
            yield {name: argument, **options}
        elif name not in _UNDECIDED and (name != "$exists" or truthy(argument)):
            yield {name: argument}


_UNDECIDED: Final = DISTANCES | {"$ne", "$nin", "$not", "$options", "$comment", "$uniqueDocs"}
"""What is no test of an element: negations, and the options of other operators."""


def _as_membership(branches: list[dict[str, Any]]) -> Mapping[str, Any]:
    """Return alternatives as the one condition that a server makes of them: values of the same field."""
    if len(branches) == 1:
        return branches[0]
    # Alternatives on different fields, or with operators, stay alternatives, which decide no element.
    names = {name for branch in branches for name in branch}
    values = [value for branch in branches for value in branch.values()]
    if len(names) != 1 or len(values) < len(branches):
        return {}
    wanted = [value["$eq"] if is_operators(value) and set(value) == {"$eq"} else value for value in values]
    (name,) = names
    return {} if name.startswith("$") or any(map(is_operators, wanted)) else {name: {"$in": wanted}}


def _deciding_element(
    document: Any, parts: tuple[str, ...], condition: Mapping[str, Any], scope: Scope
) -> int | None:
    """Return the index of the first element that meets a condition, None where none or a whole array does."""
    operator = next(iter(condition))
    test = compile_value(condition, scope)
    for value, index in _read_with_index(document, parts, None):
        # Not yet within an array: the elements of this one are meant.
        if operator == "$elemMatch" and isinstance(value, list) and index is None:
            element = compile_element(condition[operator], scope)
            return next((place for place, item in enumerate(paced(value)) if element(item)), None)
        if isinstance(value, list) and operator not in _WHOLE:
            place = next((place for place, item in enumerate(paced(value)) if test(item)), None)
            if place is not None:
                return place if index is None else index
        if test(value):
            return index
    return None


def _read_with_index(
    value: Any, parts: tuple[str, ...], index: int | None
) -> Iterator[tuple[Any, int | None]]:
    """Yield what a query sees at a path, with the index in the outermost array that it entered."""
    if not parts:
        yield value, index
    elif is_object(value):
        yield from _read_with_index(as_mapping(value).get(parts[0], MISSING), parts[1:], index)
    elif isinstance(value, list):
        # A number in a path picks an element, and does not count as entering the array.
        number = array_index(parts[0])
        if number is not None and number < len(value):
            yield from _read_with_index(value[number], parts[1:], index)
        for place, item in enumerate(paced(value)):
            if is_object(item):
                yield from _read_with_index(item, parts, place if index is None else index)
    else:
        yield MISSING, index


def missing_filter(name: str, path: str) -> CommandError:
    """Return the error for a path with an identifier that has no array filter."""
    return CommandError(
        ErrorCode.BAD_VALUE, f"No array filter found for identifier '{name}' in path '{path}'"
    )


def unused_filter(name: str, change: Any) -> CommandError:
    """Return the error for an array filter that no path names."""
    return CommandError(
        ErrorCode.FAILED_TO_PARSE,
        f"The array filter for identifier '{name}' was not used in the update {show(change)}",
    )

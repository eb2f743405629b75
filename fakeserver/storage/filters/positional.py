"""The paths of an update that name array elements: `a.$`, `a.$[]` and `a.$[identifier]`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.storage.filters.match_operators import is_operators
from fakeserver.storage.filters.matching import compile_element, compile_filter
from fakeserver.storage.port.engine import Scope
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.paths import array_index, exactly, split
from fakeserver.storage.values.printing import show, show_field
from fakeserver.storage.values.types import MISSING
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_PLAIN: Final = Scope()
_NO_NEAR: Final = 5626500
_IDENTIFIER: Final = re.compile(r"[a-z][a-zA-Z0-9]*")


def compile_array_filters(
    filters: Sequence[Mapping[str, Any]], scope: Scope
) -> dict[str, Callable[[Any], bool]]:
    """Return the predicates of `arrayFilters` by their identifiers. Raises `CommandError` for bad ones."""
    compiled: dict[str, Callable[[Any], bool]] = {}
    for each in filters:
        _check_operators(each)
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


def _check_operators(query: Any) -> None:
    """Refuse searches that an index has to answer. Raises `CommandError` 2 or 5626500."""
    if not isinstance(query, dict):
        return
    for name, condition in query.items():
        if name == "$text":
            raise CommandError(ErrorCode.BAD_VALUE, "$text is not allowed in this context")
        if name in {"$near", "$nearSphere", "$geoNear"}:
            raise CommandError(_NO_NEAR, f"{name} is not allowed in this context")
        for each in condition if isinstance(condition, list) else [condition]:
            _check_operators(each)


def _identifiers(query: Mapping[str, Any]) -> Iterator[str]:
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
    """Return the paths that `path` stands for in `document`, array elements by their numbers."""
    parts = split(path)
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
            chosen = str(matched_index(document, query, done, scope))
            yield from _expand(document, (*done, chosen), rest[index + 1 :], path, query, filters, scope)
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
        raise CommandError(
            ErrorCode.BAD_VALUE, f"No array filter found for identifier '{name}' in path '{path}'"
        )
    return [index for index, item in enumerate(paced(array)) if filters[name]({name: item})]


def matched_index(
    document: dict[str, Any], query: Mapping[str, Any], path: tuple[str, ...], scope: Scope = _PLAIN
) -> int:
    """Return which element of the array at `path` made the query match. Raises `CommandError` if none did."""
    for name, condition in _conditions(query):
        parts = split(name)
        shared = min(len(parts), len(path))
        if parts[:shared] != path[:shared]:
            continue
        index = _first_match(exactly(document, path), parts[len(path) :], condition, scope)
        if index is not None:
            return index
    raise CommandError(
        ErrorCode.BAD_VALUE, "The positional operator did not find the match needed from the query."
    )


def _conditions(query: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, condition in query.items():
        if name in {"$and", "$or"}:
            for item in condition:
                yield from _conditions(item)
        elif not name.startswith("$"):
            yield name, condition


def _first_match(array: Any, rest: tuple[str, ...], condition: Any, scope: Scope) -> int | None:
    if not isinstance(array, list):
        return None
    if rest and array_index(rest[0]) is not None:
        return array_index(rest[0])
    if is_operators(condition) and "$elemMatch" in condition and not rest:
        test = compile_element(condition["$elemMatch"], scope)
    elif rest:
        inner = compile_filter({".".join(rest): condition}, scope)
        return next(
            (i for i, item in enumerate(paced(array)) if isinstance(item, dict) and inner(item)), None
        )
    else:
        test = compile_element(condition, scope) if is_operators(condition) else _equal_test(condition, scope)
    return next((index for index, item in enumerate(paced(array)) if test(item)), None)


def _equal_test(condition: Any, scope: Scope) -> Callable[[Any], bool]:
    inner = compile_filter({"value": condition}, scope)
    return lambda item: inner({"value": item})


def unused_filter(name: str, change: Any) -> CommandError:
    """Return the error for an array filter that no path names."""
    return CommandError(
        ErrorCode.FAILED_TO_PARSE,
        f"The array filter for identifier '{name}' was not used in the update {show(change)}",
    )

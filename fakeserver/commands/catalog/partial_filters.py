"""Filters that a partial index may have (`partialFilterExpression`).

An index can only promise to hold a document if its filter is a conjunction of conditions that a planner can
compare with a query's. Operators are therefore named one by one, and an unknown one is refused with 67 and
the expression tree in a server's form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Regex

from fakeserver.errors import CommandError
from fakeserver.storage.filters.match_operators import is_operators
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.values.printing import show
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALLOWED: Final = frozenset({"$eq", "$gt", "$gte", "$lt", "$lte", "$type", "$in", "$geoWithin", "$options"})
_TREES: Final = ("$and", "$or")
_BANNED: Final[dict[str, int]] = {
    "$expr": ErrorCode.QUERY_FEATURE_NOT_ALLOWED,
    "$where": ErrorCode.BAD_VALUE,
    "$text": ErrorCode.BAD_VALUE,
    "$near": ErrorCode.BAD_VALUE,
    "$nearSphere": ErrorCode.BAD_VALUE,
}


def check_partial_filter(wanted: Mapping[str, Any]) -> None:
    """Refuse a filter that a partial index cannot have.

    Raises `CommandError`: 67 for an operator that it does not know, and what a query fails with.
    """
    _check_banned(wanted)
    compile_filter(wanted)
    _check(wanted)


def _check_banned(value: Any) -> None:
    if isinstance(value, dict):
        for name, inside in value.items():
            if name in _BANNED:
                raise CommandError(_BANNED[name], f"{name} is not allowed in this context")
            _check_banned(inside)
    elif isinstance(value, list):
        for inside in value:
            _check_banned(inside)


def _check(wanted: Mapping[str, Any]) -> None:
    for path, condition in wanted.items():
        if path in _TREES:
            for branch in condition:
                _check(branch)
        elif path.startswith("$"):
            raise _unsupported(f"{path}\n")
        elif is_operators(condition):
            for name, value in condition.items():
                _check_operator(path, name, value)
        elif isinstance(condition, Regex):
            raise _unsupported(f"{path} regex {show(condition)}\n")


def _check_operator(path: str, name: str, value: Any) -> None:
    if name in _ALLOWED or (name == "$exists" and value):
        return
    if name == "$exists":
        raise _unsupported(f"$not\n    {path} exists\n")
    if name in {"$ne", "$nin"}:
        raise _unsupported(f"$not\n    {path} {'$eq' if name == '$ne' else '$in'} {show(value)}\n")
    raise _unsupported(f"{path} {name} {show(value)}\n")


def _unsupported(tree: str) -> CommandError:
    return CommandError(ErrorCode.CANNOT_CREATE_INDEX, f"Expression not supported in partial index: {tree}")

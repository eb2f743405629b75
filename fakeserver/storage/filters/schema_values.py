"""The keywords of `$jsonSchema` that are about one value: its type, its size, its bounds.

A check returns the details for a rejected document, none for an accepted one. Makers of checks raise
`CommandError` for an argument that a server refuses.
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.regex import compile_regex
from fakeserver.storage.values.arithmetic import to_decimal
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import (
    equal,
    exact,
    identity,
    is_finite,
    is_nan,
    is_number,
    type_name,
    whole,
)
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Details: TypeAlias = list[dict[str, Any]]
    Check: TypeAlias = Callable[[Any], Details]

_EXACT: Final = 12_400
"""Digits that are enough for the largest decimal in units of the smallest one."""

_JSON_TYPES: Final = {
    "object": ("object",), "array": ("array",), "number": ("int", "long", "double", "decimal"),
    "boolean": ("bool",), "string": ("string",), "null": ("null",),
}  # fmt: skip


def unparsable(message: str) -> CommandError:
    """Return the error 9 for a schema that is written wrong."""
    return CommandError(ErrorCode.FAILED_TO_PARSE, message)


def must_be(keyword: str, what: str, value: Any) -> CommandError:
    """Return the error 14 for a keyword whose argument is of another type."""
    return CommandError(
        ErrorCode.TYPE_MISMATCH,
        f"$jsonSchema keyword '{keyword}' must be {what}, but found an element of type {type_name(value)}",
    )


def violation(name: str, argument: Any, value: Any, reason: str) -> Details:
    """Return the details about one keyword for a rejected document."""
    shown = {"specifiedAs": {name: argument}, "reason": reason, "consideredValue": value}
    return [{"operatorName": name, **shown}]


def typed(name: str, aliases_of: Callable[[Any], tuple[str, ...]]) -> Callable[[Any], Check]:
    """Return the maker of a check of a value's type, whose names `aliases_of` explains."""

    def make(argument: Any) -> Check:
        aliases = argument if isinstance(argument, list) else [argument]
        wanted = frozenset(alias for each in aliases for alias in aliases_of(each))

        def check(value: Any) -> Details:
            kind = type_name(value)
            if kind in wanted:
                return []
            details = violation(name, argument, value, "type did not match")
            return [{**details[0], "consideredType": kind}]

        return check

    return make


def json_type(alias: Any) -> tuple[str, ...]:
    """Return the BSON types that a type of JSON Schema names."""
    if alias == "integer":
        raise unparsable("$jsonSchema type 'integer' is not currently supported.")
    if type(alias) is not str:
        raise must_be("type", "either a string or an array of strings", alias)
    if alias not in _JSON_TYPES:
        raise CommandError(ErrorCode.BAD_VALUE, f"Unknown type name alias: {alias}")
    return _JSON_TYPES[alias]


def one_of(argument: Any) -> Check:
    """Return the check that a value is one of a list."""
    if not isinstance(argument, list):
        raise must_be("enum", "an array", argument)
    if not argument:
        raise unparsable("$jsonSchema keyword 'enum' cannot be an empty array")

    def check(value: Any) -> Details:
        if any(equal(value, item) for item in argument):
            return []
        return violation("enum", argument, value, "value was not found in enum")

    return check


def unique_items(argument: Any) -> Check:
    """Return the check that no element of an array is there twice."""
    if not isinstance(argument, bool):
        raise CommandError(ErrorCode.TYPE_MISMATCH, "$jsonSchema keyword 'uniqueItems' must be a boolean")

    def check(value: Any) -> Details:
        if (
            not argument
            or not isinstance(value, list)
            or len({identity(item) for item in paced(value)}) == len(value)
        ):
            return []
        return violation("uniqueItems", argument, value, "found a duplicate item")

    return check


def _is_within(value: Any, limit: Any, beyond: Callable[[Any, Any], bool], *, strictly: bool) -> bool:
    """Return whether a number is not beyond a limit. What is no number is within a limit that is none."""
    if is_nan(value) or is_nan(limit):
        return is_nan(value) and is_nan(limit) and not strictly
    number, bound = exact(value), exact(limit)
    return not beyond(number, bound) and not (strictly and number == bound)


def limit(name: str, opposite: Callable[[Any, Any], bool]) -> Callable[[Mapping[str, Any]], Check]:
    """Return the maker of a check of a number; `exclusiveMinimum` and its like make the limit one too far."""
    exclusive = f"exclusive{name.capitalize()}"

    def make(schema: Mapping[str, Any]) -> Check:
        strictly = schema.get(exclusive, False)
        if not isinstance(strictly, bool):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH, f"$jsonSchema keyword '{exclusive}' must be a boolean"
            )
        if name not in schema:
            if exclusive in schema:
                raise unparsable(f"$jsonSchema keyword '{name}' must be a present if {exclusive} is present")
            return nothing
        limit = schema[name]
        if not is_number(limit):
            raise must_be(name, "a number", limit)

        def check(value: Any) -> Details:
            if not is_number(value) or _is_within(value, limit, opposite, strictly=strictly):
                return []
            details = violation(name, limit, value, "comparison failed")
            details[0]["specifiedAs"] |= {exclusive: True} if strictly else {}
            return details

        return check

    return make


def count(
    name: str, applies: Callable[[Any], bool], holds: Callable[[int, int], bool]
) -> Callable[[Any], Check]:
    """Return the maker of a check of how much a text, an array or a document holds."""

    def make(argument: Any) -> Check:
        limit = whole(argument)
        if limit is None or limit < 0:
            what = (
                "a number"
                if not is_number(argument)
                else "an integer"
                if limit is None
                else "a positive number"
            )
            raise unparsable(f"Expected {what} in: {name}: {show(argument)}")

        def check(value: Any) -> Details:
            if not applies(value) or holds(len(value), limit):
                return []
            return violation(name, argument, value, "comparison failed")

        return check

    return make


def matching_pattern(argument: Any) -> Check:
    """Return the check that a text matches a regular expression."""
    if type(argument) is not str:
        raise must_be("pattern", "a string", argument)
    regex = compile_regex(argument)

    def check(value: Any) -> Details:
        if type(value) is not str or regex.matches(value):
            return []
        return violation("pattern", argument, value, "regular expression did not match")

    return check


def _divides(divisor: Any, value: Any) -> bool:
    """Return whether a number is a multiple of another; what is infinite or no number is none.

    Of infinity zero alone is one: what is left of a division by it is the number itself.
    """
    if not is_finite(value) or is_nan(divisor):
        return False
    if not is_finite(divisor):
        return bool(exact(value) == 0)
    with decimal.localcontext(prec=_EXACT):
        return bool(to_decimal(value) % to_decimal(divisor) == 0)


def multiple_of(argument: Any) -> Check:
    """Return the check that a number is a multiple of another."""
    if not is_number(argument):
        raise must_be("multipleOf", "a number", argument)
    if not is_nan(argument) and exact(argument) <= 0:
        raise unparsable("$jsonSchema keyword 'multipleOf' must have a positive value")

    def check(value: Any) -> Details:
        if not is_number(value) or _divides(argument, value):
            return []
        return violation(
            "multipleOf", argument, value, "considered value is not a multiple of the specified value"
        )

    return check


def nothing(_value: Any) -> Details:
    """Check nothing."""
    return []

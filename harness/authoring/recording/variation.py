"""From what several runs saw in one place to what to expect there: values that vary become operators.

Unified Test Format: Special Operators for Matching Assertions.
"""

from __future__ import annotations

import datetime as dt
import uuid
from typing import TYPE_CHECKING, Any, Final

from bson import Binary, ObjectId, Timestamp, json_util

from harness.unified.matching.matcher import type_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_INTEGERS: Final = ("int", "long")
_MADE_UP: Final = (ObjectId, Timestamp, dt.datetime, Binary, uuid.UUID)
"""Types of values that drivers and servers make up themselves, also when two runs make up the same."""


class WrittenValues:
    """The values that stand in a scenario, which an expectation may repeat."""

    def __init__(self, *documents: Any) -> None:
        self._known = {_key(value) for value in _leaves(documents)}

    def __contains__(self, value: object) -> bool:
        return _key(value) in self._known


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for member in value.values():
            yield from _leaves(member)
    elif isinstance(value, (list, tuple)):
        for element in value:
            yield from _leaves(element)
    elif isinstance(value, _MADE_UP):
        yield value


def _key(value: object) -> str:
    return json_util.dumps(value, json_options=json_util.CANONICAL_JSON_OPTIONS)


def common(values: Sequence[Any], written: WrittenValues, *, root: bool = False) -> Any:
    """Return what all values match, as closely as operators can say it; there is at least one value.

    Of root documents, which may have more fields than are expected, those that only some have are left out.
    """
    first = values[0]
    if all(isinstance(value, dict) for value in values):
        return _of_documents(values, written, root=root)
    if all(isinstance(value, list) and len(value) == len(first) for value in values):
        return [common(elements, written) for elements in zip(*values, strict=True)]
    repeatable = not isinstance(first, _MADE_UP) or first in written
    if repeatable and all(_same(value, first) for value in values):
        return first
    names = dict.fromkeys(type_name(value) for value in values)
    if not names.keys().isdisjoint(
        _INTEGERS
    ):  # how wide an integer is depends on its value and on the driver
        names |= dict.fromkeys(_INTEGERS)
    return {"$$type": next(iter(names)) if len(names) == 1 else list(names)}


def _of_documents(values: Sequence[dict[str, Any]], written: WrittenValues, *, root: bool) -> dict[str, Any]:
    expected: dict[str, Any] = {}
    for name in dict.fromkeys(name for value in values for name in value):
        seen = [value[name] for value in values if name in value]
        if len(seen) == len(values):
            expected[name] = common(seen, written)
        elif not root:
            expected[name] = {"$$unsetOrMatches": common(seen, written)}
    return expected


def _same(value: Any, other: Any) -> bool:
    """Numbers compare by value, as in assertions."""
    both_numbers = all(type_name(each) in (*_INTEGERS, "double") for each in (value, other))
    return (both_numbers or type_name(value) == type_name(other)) and bool(value == other)

"""Helpers that the readers of rules share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from mongowire.documents import arguments
from mongowire.documents.errors import ControlError, unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")


def at(place: str | int, reader: Callable[..., T], *values: Any) -> T:
    """Call a reader. Raises its `ControlError` with `place` in front of the path."""
    try:
        return reader(*values)
    except ControlError as error:
        raise error.within(place) from None


def check_known(kind: str, document: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raise `ControlError` for a key that is not known."""
    names = tuple(known)
    for key in document:
        if key not in names:
            raise unknown(kind, key, names)


def one_text(value: Any) -> str:
    """Return a text. Raises `ControlError`."""
    return arguments.text(value)


def count_from_one(value: Any) -> int:
    """Return a whole number from 1. Raises `ControlError`."""
    number = arguments.count(value)
    if number < 1:
        raise ControlError(f"{value!r} is less than 1; counts begin with 1")
    return number


def plain(value: Any) -> Any:
    """Return a value with plain documents and lists in place of what Python code may hand over."""
    if hasattr(value, "keys"):
        return {key: plain(value[key]) for key in value}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value

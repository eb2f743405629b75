"""Dotted paths into documents: reading as queries do (through arrays), and writing as updates do."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from bson import DBRef

from fakeserver.storage.values.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterator


@lru_cache(maxsize=4096)
def split(path: str) -> tuple[str, ...]:
    """Return the parts of a dotted path."""
    return tuple(path.split("."))


def prefixes(path: str) -> list[str]:
    """Return a dotted path, and the paths that lead to it: `a`, `a.b` and `a.b.c` for `a.b.c`."""
    parts = split(path)
    return [".".join(parts[: number + 1]) for number in range(len(parts))]


@lru_cache(maxsize=4096)
def array_index(part: str) -> int | None:
    """Return the index that a part of a path is in an array, None for a name: `01` and `²` are names."""
    if not (part.isascii() and part.isdigit()) or (part[0] == "0" and part != "0"):
        return None
    return int(part)


def read(value: Any, parts: tuple[str, ...]) -> Iterator[Any]:
    """Yield what a query sees at a path: each array on the way is entered, by index and element by element.

    A document that lacks the field yields `MISSING`; an array without documents yields nothing.
    """
    if not parts:
        yield value
        return
    if isinstance(value, DBRef):
        value = value.as_doc()
    if isinstance(value, dict):
        if parts[0] in value:
            yield from read(value[parts[0]], parts[1:])
        else:
            yield MISSING
    elif isinstance(value, list):
        yield from _read_array(value, parts)
    else:
        yield MISSING


def _read_array(array: list[Any], parts: tuple[str, ...]) -> Iterator[Any]:
    index = array_index(parts[0])
    if index is not None and index < len(array):
        yield from read(array[index], parts[1:])
    for item in array:
        if isinstance(item, dict | DBRef):
            yield from read(item, parts)


def gather(value: Any, parts: tuple[str, ...]) -> Any:
    """Return what an expression sees at a path: an array on the way makes an array of what is in it."""
    for index, part in enumerate(parts):
        if isinstance(value, DBRef):
            value = value.as_doc()
        if isinstance(value, dict):
            value = value.get(part, MISSING)
        elif isinstance(value, list):
            found = [gather(item, parts[index:]) for item in value]
            return [item for item in found if item is not MISSING]
        else:
            return MISSING
    return value


def exactly(value: Any, parts: tuple[str, ...]) -> Any:
    """Return what stands at a path where numbers index arrays and nothing is entered otherwise."""
    for part in parts:
        if isinstance(value, DBRef):
            value = value.as_doc()
        if isinstance(value, dict):
            value = value.get(part, MISSING)
        elif isinstance(value, list):
            index = array_index(part)
            value = value[index] if index is not None and index < len(value) else MISSING
        else:
            return MISSING
    return value


def assign(document: dict[str, Any], parts: tuple[str, ...], value: Any) -> None:
    """Set a field of nested documents, replacing what is not a document on the way."""
    for part in parts[:-1]:
        child = document.get(part)
        if not isinstance(child, dict):
            child = document[part] = {}
        document = child
    document[parts[-1]] = value


def remove(value: Any, parts: tuple[str, ...]) -> None:
    """Delete a field of nested documents, in each element of an array on the way."""
    if isinstance(value, list):
        for item in value:
            remove(item, parts)
    elif isinstance(value, dict):
        if len(parts) == 1:
            value.pop(parts[0], None)
        elif parts[0] in value:
            remove(value[parts[0]], parts[1:])

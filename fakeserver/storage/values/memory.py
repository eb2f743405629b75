"""Limits on the memory of a command's values, and estimates of their size.

A server bounds each operator that holds values, by parameters of their own (`internalQueryMaxPushBytes` and
the like) that are all 100 MB unless they are set. Values are weighed about as a server weighs them, 16 bytes
each and what they hold beside that: enough to separate the large from the small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Int64, ObjectId

from fakeserver.errors import CommandError
from fakeserver.storage.values.pacing import PACE, paced
from fakeserver.storage.values.sizes import MAX_INTERNAL_BYTES, MAX_USER_BYTES, invalid_size
from fakeserver.waiting.interrupts import check_for_interrupt, interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


_KEPT: Final = 100_000


class Volume:
    """Measures documents, each once as long as it is the same object."""

    def __init__(self) -> None:
        # With the document, whose `id` would else be another's when it is gone.
        self._sizes: dict[int, tuple[Any, int]] = {}

    def size(self, document: Any) -> int:
        """Return a document's bytes as BSON."""
        known = self._sizes.get(id(document))
        if known is None:
            if len(self._sizes) >= _KEPT:
                self._sizes.clear()
            known = self._sizes[id(document)] = (document, len(bson.encode(document)))
        return known[1]

    def fits(self, documents: Sequence[Any], most: int) -> bool:
        """Return whether documents, each of which can be stored, come to at most `most` bytes."""
        if len(documents) * MAX_INTERNAL_BYTES <= most:
            return True
        total = 0
        for document in documents:
            total += self.size(document)
            if total > most:
                return False
        return True


MAX_OPERATOR_BYTES: Final = 100 * 1024 * 1024
"""The bytes that one operator or stage may hold: the default of every parameter that bounds one."""
MAX_BUFFER_BYTES: Final = 64 * 1024 * 1024
"""The most bytes in a server's buffers: documents beyond this are never made to look at their size."""
MAX_HELD_BYTES: Final = 256 * 1024 * 1024
"""The bytes of exploded arrays between two stages. A server hands on one document after the other there;
this one holds what a stage needs that needs them all, and the results."""
VALUE_BYTES: Final = 16
"""The bytes of any value beside its contents."""

_STRING_TOO_LONG: Final = 16493
_PLAIN: Final = frozenset({int, float, bool, Int64, ObjectId, type(None)})


def weight(value: Any, most: float = math.inf) -> int:
    """Return about how many bytes a value takes; of one that takes more than `most`, any number above.

    A value that occurs several times counts each time, as it is copied when it is sent or stored.
    """
    kind = type(value)
    if kind in _PLAIN:
        return VALUE_BYTES
    if kind is str:
        return VALUE_BYTES + len(value)
    total, pending, seen = VALUE_BYTES, [value], 0
    while pending and total <= most:
        held = pending.pop()
        if isinstance(held, dict):
            total += VALUE_BYTES * len(held) + sum(map(len, held))
            items: Collection[Any] = held.values()
        elif isinstance(held, list):
            total += VALUE_BYTES * len(held)
            items = held
        else:
            total += len(held) if isinstance(held, str | bytes) else VALUE_BYTES
            continue
        for item in paced(items):
            kind = type(item)
            if kind is str:
                total += len(item)
            elif kind not in _PLAIN:
                pending.append(item)
        seen += len(items)
        if seen > PACE:
            check_for_interrupt()
            seen = 0
    return total


class Budget:
    """The bytes that an operator may still hold. `spend` raises `exceeded` where they do not do."""

    __slots__ = ("_exceeded", "_left")

    def __init__(self, exceeded: CommandError, most: int = MAX_OPERATOR_BYTES) -> None:
        self._exceeded = exceeded
        self._left = most

    def spend(self, size: int) -> None:
        """Take that many bytes."""
        self._left -= size
        if self._left < 0:
            raise self._exceeded

    def hold(self, value: Any) -> None:
        """Take what a value weighs."""
        self.spend(weight(value, self._left))


def too_much(name: str) -> CommandError:
    """Return the error of an accumulator that holds too much."""
    return CommandError(
        ErrorCode.EXCEEDED_MEMORY_LIMIT,
        f"{name} used too much memory and cannot spill to disk. Memory limit: {MAX_OPERATOR_BYTES} bytes",
    )


def check_array(name: str, size: int) -> None:
    """Refuse to make an array of so many bytes. Raises `CommandError` 146."""
    if size >= MAX_OPERATOR_BYTES:
        raise CommandError(
            ErrorCode.EXCEEDED_MEMORY_LIMIT,
            f"{name} would use too much memory ({size} bytes) and cannot spill to disk. Memory limit: "
            f"{MAX_OPERATOR_BYTES} bytes",
        )


def check_length(name: str, count: int) -> None:
    """Refuse to make an array of so many elements. Raises `CommandError` 146."""
    check_array(name, VALUE_BYTES * count)


def check_value(name: str, value: Any) -> Any:
    """Return what an operator made. Raises `CommandError` 146 for an array or a document too large."""
    if isinstance(value, list | dict):
        check_array(name, weight(value, MAX_OPERATOR_BYTES))
    return value


def check_text(characters: int) -> None:
    """Refuse to make a string of so many characters. Raises `CommandError` 16493."""
    if characters >= MAX_USER_BYTES:
        raise CommandError(
            _STRING_TOO_LONG, f"Tried to create string longer than {MAX_USER_BYTES // (1024 * 1024)}MB"
        )


def checked_text(text: str) -> str:
    """Return a string that was made. Raises `CommandError` 16493 for one that is longer than any may be."""
    if len(text) * 4 >= MAX_USER_BYTES:
        check_text(len(text.encode()))
    return text


def checked_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document that a stage made. Raises `CommandError` 10334 for one that could never be sent.

    A larger one than may be stored or sent is let pass while a later stage may make it smaller.
    """
    size = weight(document, MAX_BUFFER_BYTES)
    if size > MAX_BUFFER_BYTES:
        raise invalid_size(size)
    return document


def check_sorted(documents: Iterable[dict[str, Any]]) -> None:
    """Refuse to sort more than fits into memory, where no disk may be used. Raises `CommandError` 292."""
    _check_without_disk(
        documents,
        f"Sort exceeded memory limit of {MAX_OPERATOR_BYTES} bytes, but did not opt in to external sorting."
        " Aborting operation. Pass allowDiskUse:true to opt in.",
    )


def check_gathered(name: str, values: Iterable[Any]) -> None:
    """Refuse to gather by more keys than fit into memory, where the disk may not be used.

    Raises `CommandError` 292.
    """
    _check_without_disk(
        values,
        f"Exceeded memory limit for {name}, but didn't allow external sort."
        " Pass allowDiskUse:true to opt in.",
    )


def _check_without_disk(values: Iterable[Any], message: str) -> None:
    budget = Budget(CommandError(ErrorCode.QUERY_EXCEEDED_MEMORY_LIMIT_NO_DISK_USE_ALLOWED, message))
    for value in interruptible(values):
        budget.hold(value)

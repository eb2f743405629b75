"""Limits on the size of documents and replies, and on the memory of a command's values.

Two kinds of limit, in two parts. The first is of BSON, in exact bytes: a document of a client's has 16 MB at
most, anything at all 16 KB more, and a batch of a cursor as much as one document. The second is of memory, in
estimates (`weight`), for what a command holds: an accumulator, a sort without the disk, a string or an array
that an expression makes. It is here so that no request brings the process down, as much as for its errors.

A check comes before the value is made where its size can be told (`check_array`, `check_length`,
`check_text`), else after it (`check_value`, `checked_text`). Estimates look at large values in turns, and
stop at the limit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import bson
from bson import Int64, ObjectId

from fakeserver.errors import CommandError, WriteError
from fakeserver.storage.values.pacing import PACE, paced
from fakeserver.storage.values.stored import Stored
from fakeserver.waiting.interrupts import check_for_interrupt, interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


# The limits on the size of documents and replies.


MAX_USER_BYTES: Final = 16 * 1024 * 1024
"""The largest document of a client's own, and what the documents of one reply may come to."""
MAX_INTERNAL_BYTES: Final = MAX_USER_BYTES + 16 * 1024
"""The largest document at all, such as a whole reply: what the largest of a client's needs around it."""
TOO_LARGE_AFTER_UPDATE: Final = 17419
TOO_LARGE_TO_UPSERT: Final = 17420
OVERHEAD_BYTES: Final = 10
"""Bytes that an array may add to each of its documents: a type, up to eight digits and their terminator."""


class Room:
    """The bytes that are left in a reply for the documents of one batch; the first always fits."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken = 0

    def admits(self, document: dict[str, Any]) -> bool:
        """Return whether a document still fits, and count it if it does."""
        size = len(document.raw if type(document) is Stored else bson.encode(document))
        # The first document is let in whatever its size, else a cursor with one of 16 MB would never go on.
        if self._taken and self._taken + size > MAX_USER_BYTES:
            return False
        self._taken += size + OVERHEAD_BYTES
        return True


def fit_one_reply(count: int, size: int) -> bool:
    """Return whether `count` documents of `size` bytes in all fit into one reply."""
    return size + count * OVERHEAD_BYTES <= MAX_USER_BYTES


def surely_fit(documents: Iterable[dict[str, Any]]) -> bool:
    """Return whether documents fit into one reply, as their bytes tell: others than stored ones do not."""
    count = size = 0
    for document in documents:
        if type(document) is not Stored:
            return False
        count += 1
        size += len(document.raw)
    return fit_one_reply(count, size)


def check_updated(size: int, code: int, what: str) -> None:
    """Refuse what an update made if it is too large: `code` says of which kind of update.

    Raises `WriteError`, beyond the internal limit the `CommandError` of `invalid_size`.
    """
    if size > MAX_INTERNAL_BYTES:
        raise invalid_size(size)
    if size > MAX_USER_BYTES:
        raise WriteError(code, f"{what} is larger than {MAX_USER_BYTES}")


def invalid_size(size: int) -> CommandError:
    """Return the error for a document that is larger than any may be."""
    return CommandError(
        ErrorCode.BSON_OBJECT_TOO_LARGE,
        f"BSONObj size: {size} (0x{size:X}) is invalid. Size must be between 0 and "
        f"{MAX_INTERNAL_BYTES}(16MB)",
    )


# Limits on the memory of a command's values, and estimates of their size.
#
# A server bounds each operator that holds values, by parameters of their own (`internalQueryMaxPushBytes`
# and the like) that are all 100 MB unless they are set. Values are weighed about as a server weighs them,
# 16 bytes each and what they hold beside that: enough to separate the large from the small.


_KEPT: Final = 100_000
"""The sizes that are remembered at most; then all are forgotten, which costs their encoding once more."""


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
        # So few that even the largest fit: none has to be encoded.
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
    # A list of what is left to look at, not a recursion: values may be nested deeper than Python's stack is.
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
    # A character is four bytes of UTF-8 at most: shorter texts need not be encoded to be measured.
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

"""The limits on the size of documents and replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import bson

from fakeserver.errors import CommandError, WriteError
from fakeserver.storage.values.stored import Stored
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

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

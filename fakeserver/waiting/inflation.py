"""The memory for messages that are being decompressed: one budget for all connections.

A few bytes may hold a message of 48 MB, and each connection may send one. They are decompressed and decoded
while others have their turns, so without a bound all of them would lie in memory at the same time.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from fakeserver.waiting.bell import Bell

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST: Final = 2
"""The large messages that are decompressed at a time; a third one would not make the first two any faster."""


class Inflation:
    """The budget: who finds no room waits for `freed`."""

    def __init__(self) -> None:
        self.freed = Bell()
        self.under_way = 0
        """The large messages that are being decompressed and decoded."""

    @property
    def has_room(self) -> bool:
        """Whether one more may be decompressed now."""
        return self.under_way < _MOST

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Take the room of one message while the block runs."""
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1
            self.freed.ring()

"""What a request may wait for besides time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Bell:
    """Something that changes: whoever listens is told once, in the order in which they began to listen."""

    def __init__(self) -> None:
        self._listeners: dict[int, Callable[[], None]] = {}
        self._next = 0

    def listen(self, callback: Callable[[], None]) -> int:
        """Have `callback` called at the next ring; return a number for `ignore`."""
        self._next += 1
        self._listeners[self._next] = callback
        return self._next

    def ignore(self, number: int) -> None:
        """Stop listening; a number that was called already is no error."""
        self._listeners.pop(number, None)

    def ring(self) -> None:
        """Call every listener, each of which must listen anew for the next ring."""
        listeners, self._listeners = self._listeners, {}
        for callback in listeners.values():
            callback()

    def __len__(self) -> int:
        """Return how many listen."""
        return len(self._listeners)

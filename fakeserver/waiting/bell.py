"""Bells: changes that a request may wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeserver.waiting.bystanders import tell

if TYPE_CHECKING:
    from collections.abc import Callable


class Bell:
    """Announces a change to its listeners: to each once, in the order in which they began to listen."""

    def __init__(self) -> None:
        self.listeners: dict[int, Callable[[], None]] = {}
        """The callbacks by number, in the order in which they began to listen."""
        self._next = 0

    def listen(self, callback: Callable[[], None]) -> int:
        """Have `callback` called at the next ring; return a number for `ignore`."""
        self._next += 1
        self.listeners[self._next] = callback
        return self._next

    def ignore(self, number: int) -> None:
        """Stop listening; a number that was called already is no error."""
        self.listeners.pop(number, None)

    def ring(self) -> None:
        """Call every listener, each of which must listen anew; one that fails is no matter."""
        # Swapped first: a listener that listens again in its callback waits for the next ring.
        listeners, self.listeners = self.listeners, {}
        for callback in listeners.values():
            try:
                callback()
            except Exception as error:  # noqa: BLE001 -- it looks on
                tell("a listener", error)

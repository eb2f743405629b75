"""The outcome of a verb, for callers that wait and for callers that do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Generator


class VerbOutcome(dict[str, Any]):
    """The document that a verb answers with.

    The verb has begun when the call returns, whether the outcome is awaited or not. One that takes time (a
    restart closes connections and listens anew) is complete, and its document here, when it was awaited.
    """

    def __init__(self, document: dict[str, Any] | None = None, task: asyncio.Task[Any] | None = None) -> None:
        super().__init__(document or {})
        self._task = task
        self.awaited = False
        """Somebody waits, or has waited, for its end, and hears of its failure."""

    def __await__(self) -> Generator[Any, None, VerbOutcome]:
        """Wait for its end; raise what it raised."""
        self.awaited = True
        if self._task is not None:
            self.update((yield from self._task) or {})
        return self

    @property
    def done(self) -> bool:
        """Whether it is complete, or has failed."""
        return self._task is None or self._task.done()

    @property
    def failure(self) -> BaseException | None:
        """The error that it has failed with, if it has."""
        if self._task is None or not self._task.done() or self._task.cancelled():
            return None
        return self._task.exception()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Have a function called at its end, from the loop; the caller hears of a failure in `result`."""
        self.awaited = True
        if self._task is not None:
            self._task.add_done_callback(lambda _: callback())

    def result(self) -> VerbOutcome:
        """Return the complete outcome of a verb that is done; raise what it raised."""
        if self._task is not None:
            self.update(self._task.result() or {})
        return self

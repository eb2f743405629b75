"""Bystanders: what looks on while requests are answered, and changes nothing of it.

The profiler, the log and its sink, the journal with its file and its readers, the tap of the wire, whoever
listens to a bell or follows the oplog: none of them may reach a request, or the client would lose a
connection because somebody looked on. So each is called `aside`, and this is where its exceptions end:

    with aside("the sink of the log"):
        sink(line)

They are told to Python's log, and the next call is made as if nothing had been. Where each document passes, a
plain `try` costs nothing, and `tell` does the rest.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import TracebackType

_LOGGER: Final = logging.getLogger(__name__)


def tell(who: str, error: Exception) -> None:
    """Tell the log of a bystander's exception."""
    _LOGGER.error("%s failed, and the request goes on: %r", who, error, exc_info=error)


class aside:  # noqa: N801 -- used as a function is
    """Let no exception of a bystander out of the block; `who` names it in the log."""

    __slots__ = ("_who",)

    def __init__(self, who: str) -> None:
        self._who = who

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> bool:
        """End it, and an exception with it; what ends the program or a task goes on."""
        if not isinstance(error, Exception):
            return False
        tell(self._who, error)
        return True

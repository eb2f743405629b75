"""timeoutMode: what timeoutMS means for a cursor (Client Side Operations Timeout: Cursors)."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from driver.errors import InvalidArgumentError
from driver.operations.base import MaxTime

if TYPE_CHECKING:
    from driver.operations.base import Operation
    from driver.policy.deadline import Timeout

NON_TAILABLE = "nonTailable"


class TimeoutMode(Enum):
    """Whether timeoutMS is for a cursor's whole life or for each call; the values are the option's."""

    LIFETIME = "cursorLifetime"
    ITERATION = "iteration"


def mode_of(mode: str | None, cursor_type: str = NON_TAILABLE) -> TimeoutMode:
    """Return how timeoutMS applies to a cursor. Raises InvalidArgumentError (Tailable Cursors)."""
    tailable = cursor_type != NON_TAILABLE
    if mode is None:
        return TimeoutMode.ITERATION if tailable else TimeoutMode.LIFETIME
    try:
        chosen = TimeoutMode(mode)
    except ValueError:
        raise InvalidArgumentError(f"timeoutMode is cursorLifetime or iteration, not {mode!r}") from None
    if tailable and chosen is TimeoutMode.LIFETIME:
        raise InvalidArgumentError("a tailable cursor has no lifetime for timeoutMS: use iteration")
    return chosen


def opening(
    operation: Operation,
    *,
    mode: str | None = None,
    cursor_type: str = NON_TAILABLE,
    max_await_time_ms: int | None = None,
    writes: bool = False,
) -> Operation:
    """Return an operation that opens a cursor, with what the server learns of its time.

    Raises InvalidArgumentError for a combination that the specification refuses.
    """
    chosen = mode_of(mode, cursor_type)
    if mode is not None and operation.timeout.seconds is None:
        raise InvalidArgumentError("timeoutMode needs timeoutMS")
    if mode is not None and writes and chosen is TimeoutMode.ITERATION:
        raise InvalidArgumentError("an aggregation that writes has no iterations for timeoutMS")
    check_await_time(operation.timeout, max_await_time_ms)
    awaits = cursor_type == "tailableAwait"
    if chosen is TimeoutMode.LIFETIME or awaits:
        return operation
    return replace(operation, max_time=MaxTime.NONE)


def check_await_time(timeout: Timeout, max_await_time_ms: int | None) -> None:
    """Raise InvalidArgumentError for a server that would wait at least as long as the client does."""
    if max_await_time_ms and timeout.seconds and max_await_time_ms >= timeout.seconds * 1000:
        raise InvalidArgumentError("maxAwaitTimeMS must be less than timeoutMS")

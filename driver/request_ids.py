"""Numbers for messages and operations, counted per client so that a run can be repeated."""

from __future__ import annotations

from itertools import count

MAX_INT32 = 2**31 - 1


class RequestIds:
    """Ids of messages (int32, starting anew after the largest) and of operations (int64)."""

    def __init__(self) -> None:
        self._requests = count(1)
        self._operations = count(1)

    def next_request(self) -> int:
        """Return a requestId that no recent message had."""
        return (next(self._requests) - 1) % MAX_INT32 + 1

    def next_operation(self) -> int:
        """Return an operationId, which links the events of one operation over all its attempts."""
        return next(self._operations)

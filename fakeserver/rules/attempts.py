"""The operation that a request belongs to, and the number of its attempt.

A server is not told which requests are attempts of one operation. It concludes it:

* With a transaction number, outside of a transaction, and for commit and abort: the requests of one session
  with the same number and command are attempts of one operation.
* Otherwise a request is a further attempt if the last request of its session was the same command, but for
  the fields that a driver writes anew (cluster time, read concern, read preference, `maxTimeMS`), and did not
  succeed. The same read after a success is another operation. For a command without a session, its
  connection stands for the session.

Attempts that admission control or a fail point ended are not seen here, and do not count.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

MOST: Final = 10_000
"""The operations that are remembered; beyond that the oldest are forgotten."""

_ENDS: Final = frozenset({"commitTransaction", "abortTransaction"})
_WRITTEN_ANEW: Final = frozenset(
    {"$clusterTime", "$configTime", "$readPreference", "$topologyTime", "maxTimeMS", "readConcern", "lsid"}
)


@dataclass(frozen=True, slots=True)
class OperationAttempt:
    """One attempt of an operation: `number` tells the operation from others, `attempt` counts from 1."""

    number: int
    attempt: int


@dataclass(slots=True)
class _Known:
    number: int
    attempt: int
    command: Mapping[str, Any] | None
    """The command of an operation without a transaction number, which it is known by."""


class Attempts:
    """Counts the attempts of operations."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()
        self._keys: dict[int, Hashable] = {}
        """The keys of operations that are known by their command, which success ends."""
        self._count = 0

    def of(
        self, name: str, document: Mapping[str, Any], *, session: Hashable, txn_number: int | None
    ) -> OperationAttempt:
        """Return the operation of a request, and count the attempt.

        `session` is the session's id, or what stands for it.
        """
        in_transaction = txn_number is not None and "autocommit" in document and name not in _ENDS
        if txn_number is not None and not in_transaction:
            return self._next((session, txn_number, name), None)
        return self._next(
            session, {key: value for key, value in document.items() if key not in _WRITTEN_ANEW}
        )

    def _next(self, key: Hashable, command: Mapping[str, Any] | None) -> OperationAttempt:
        known = self._known.get(key)
        if known is None or known.command != command:
            self._count += 1
            if known is not None:
                self._keys.pop(known.number, None)
            known = self._known[key] = _Known(self._count, 0, command)
            if command is not None:
                self._keys[known.number] = key
        self._known.move_to_end(key)
        known.attempt += 1
        if len(self._known) > MOST:
            _, oldest = self._known.popitem(last=False)
            self._keys.pop(oldest.number, None)
        return OperationAttempt(known.number, known.attempt)

    def succeeded(self, operation: OperationAttempt) -> None:
        """Take note that an attempt succeeded: the same command is another operation from now on."""
        key = self._keys.pop(operation.number, None)
        if key is not None:
            del self._known[key]

"""Retries of a mongos against an overloaded shard: later each time, and within a budget.

Pure: `ShardClient.failed` takes a failed attempt and answers with the delay before the next.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from bson import Int64

_WHOLE: Final = 1000
"""Delays are whole milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryParameters:
    """The server parameters `defaultClient…` and `shardRetryToken…`. Backoffs are seconds."""

    max_attempts: int = 3
    base_backoff: float = 0.1
    max_backoff: float = 10.0
    capacity: float = 1000
    return_rate: float = 0.1
    counts_when_sent: bool = False
    """Since 9.0 retries and backoffs are counted when the retry is sent, before that when it is decided."""


@dataclass(slots=True)
class ShardOperation:
    """One operation that is sent to a shard, and how its attempts went."""

    retries: int = 0
    """Attempts after the first, for whatever reason: `max_attempts` bounds them."""
    overloads: int = 0
    """Retries because of an overload: they alone lengthen the backoff."""
    was_overloaded: bool = False
    """Whether the last attempt met an overload."""
    hint: float | None = None
    """The shard's `baseBackoffMS`, in seconds, where it gave one."""
    avoided: list[str] = field(default_factory=list)
    """The servers that said they were overloaded."""
    over: bool = False
    backoff: float | None = None
    """The seconds of backoff before the next attempt, None where no overload has asked for it."""
    was_counted: bool = False
    """Whether it is counted among those that were retried."""


class ShardClient:
    """A mongos as a client of one shard: the budget of retries, and what is counted."""

    def __init__(self, parameters: RetryParameters) -> None:
        self.parameters = parameters
        self.balance = float(parameters.capacity)
        """Tokens of the retry budget: each overload takes one, whatever else happens gives some back."""
        self._attempted = 0
        self._overloaded_operations = 0
        self._recovered = 0
        self._retries = 0
        self._retargeted = 0
        self._overloads = 0
        self._backoff_ms = 0

    def __repr__(self) -> str:
        return f"<ShardClient {self.balance:g} of {self.parameters.capacity:g} tokens>"

    def reconfigure(self, parameters: RetryParameters) -> None:
        """Take changed parameters into account: a smaller bucket loses what does not fit."""
        self.parameters = parameters
        self.balance = min(self.balance, parameters.capacity)

    def begin(self) -> ShardOperation:
        """Count an operation that is about to be sent."""
        self._attempted += 1
        return ShardOperation()

    def failed(
        self,
        operation: ShardOperation,
        *,
        overloaded: bool,
        retryable: bool,
        target: str,
        hint: float | None = None,
        jitter: float = 1.0,
        backoff: float | None = None,
    ) -> float | None:
        """Return the seconds until the operation is tried again, None to give it up.

        `target` is the server that refused it, `hint` its `baseBackoffMS` in seconds, `jitter` a number from
        0 to 1 that scales the delay; `backoff` takes the place of the delay after an overload.
        """
        # Paid before the other conditions are looked at: an overload costs a token even if no retry follows.
        affords = self._afford(operation, overloaded=overloaded)
        if not affords or operation.retries >= self.parameters.max_attempts or not retryable:
            operation.over = True
            return None
        operation.retries += 1
        operation.backoff = None
        if overloaded:
            operation.overloads += 1
            operation.hint = hint
            if target not in operation.avoided:
                operation.avoided.append(target)
        delay = self._delay(operation, jitter)
        if backoff is not None and operation.overloads:
            delay = backoff
        if overloaded:
            operation.backoff = delay
            if not self.parameters.counts_when_sent:
                self._count(operation)
        return delay

    def sent_again(self, operation: ShardOperation) -> None:
        """Take note that the backoff of an operation is over: its next attempt is sent."""
        self._count(operation)

    def _count(self, operation: ShardOperation) -> None:
        if operation.backoff is None:
            return
        self._retries += 1
        self._backoff_ms += round(operation.backoff * _WHOLE)
        operation.backoff = None
        if not operation.was_counted and self.parameters.counts_when_sent:
            operation.was_counted = True
            self._overloaded_operations += 1

    def _afford(self, operation: ShardOperation, *, overloaded: bool) -> bool:
        """Pay for a retry from the budget; an operation that met no overload need not, and gives back."""
        if not overloaded:
            # The shard let it through: a part of a token, and the whole one that its last overload cost.
            returned = self.parameters.return_rate + operation.was_overloaded
            operation.was_overloaded = False
            self.balance = min(self.balance + returned, max(self.parameters.capacity, self.balance))
            return True
        self._overloads += 1
        if not self.parameters.counts_when_sent:
            # The older count: of each first overload, retried or not.
            self._overloaded_operations += operation.overloads == 0 and not operation.was_overloaded
        operation.was_overloaded = True
        if self.balance < 1:
            return False
        self.balance -= 1
        return True

    def _delay(self, operation: ShardOperation, jitter: float) -> float:
        """Return a backoff: it doubles with each overload, from the shard's own base if it named one."""
        if not operation.overloads:
            return 0.0
        # The first retry waits twice the base, as the exponent counts overloads and not retries before it.
        own = self.parameters
        base = own.base_backoff if operation.hint is None else operation.hint
        longest = min(base * 2**operation.overloads, own.max_backoff)
        return int(longest * jitter * _WHOLE) / _WHOLE

    def retargeted(self) -> None:
        """Count a retry that went to another server because of an overload."""
        self._retargeted += 1

    def ended(self, operation: ShardOperation, *, overloaded: bool, failed: bool) -> None:
        """Count the end of an operation whose attempts the shard let through, or that was refused within."""
        if operation.over:
            return
        operation.over = True
        met = operation.overloads > 0
        self._afford(operation, overloaded=overloaded)
        self._recovered += met and not failed

    def stats(self) -> dict[str, Any]:
        """Return its section of `shardingStatistics.shards`."""
        return {
            "numOperationsAttempted": Int64(self._attempted),
            "numOperationsRetriedAtLeastOnceDueToOverload": Int64(self._overloaded_operations),
            "numOperationsRetriedAtLeastOnceDueToOverloadAndSucceeded": Int64(self._recovered),
            "numRetriesDueToOverloadAttempted": Int64(self._retries),
            "numRetriesRetargetedDueToOverload": Int64(self._retargeted),
            "numOverloadErrorsReceived": Int64(self._overloads),
            "totalBackoffTimeMillis": Int64(self._backoff_ms),
            "retryBudgetTokenBucketBalance": self.balance,
        }

"""Deadlines of operations (Client Side Operations Timeout): values and arithmetic, no clock.

A deadline is an instant. The earliest of several wins, and none is infinity. What timeoutMS says is known
long before the operation begins; `Timeout.start` makes a `Deadline` of it when it does.

Not bound by it: monitors; `killCursors` when a cursor is closed, and the abort by which withTransaction ends,
which have all of the timeout again. The commands of a handshake have a deadline but no maxTimeMS.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from driver.errors import InvalidArgumentError

NEVER = inf
MAX_TIME_MS_LIMIT = 2**31 - 1
"""The largest maxTimeMS that servers accept."""


def after(now: float, timeout: float | None) -> float:
    """Return the instant `timeout` seconds from `now`; None and 0 are no limit."""
    return now + timeout if timeout else NEVER


@dataclass(frozen=True, slots=True)
class Deadline:
    """The instant `at` which an operation must be done, and the `timeout` in seconds that it comes from.

    A timeout of 0 never ends, one of None is unset: then the older options hold, such as socketTimeoutMS.
    """

    timeout: float | None = None
    at: float = NEVER

    @classmethod
    def starting(cls, now: float, timeout: float | None) -> Deadline:
        """Return the deadline of what begins now."""
        return cls(timeout, after(now, timeout))

    @property
    def is_set(self) -> bool:
        """Whether timeoutMS was set at any level, which puts the older options out of force."""
        return self.timeout is not None

    def refreshed(self, now: float) -> Deadline:
        """Return a deadline of the same timeout that begins now."""
        return Deadline.starting(now, self.timeout)

    def expired(self, now: float) -> bool:
        """Return whether it has passed."""
        return now >= self.at

    def allows_round_trip(self, now: float, round_trip_time: float) -> bool:
        """Return whether a command may be sent: a reply could come in time (Command Execution)."""
        return self.at - now > round_trip_time

    def max_time_ms(self, now: float, round_trip_time: float) -> int | None:
        """Return the maxTimeMS of a command: the time that is left but for the way; None without a limit.

        At least 1, as 0 would have the server wait forever.
        """
        if self.at == NEVER:
            return None
        # Rounded down: the server should give up before the client does, so that its error comes in time.
        milliseconds = int((self.at - now - round_trip_time) * 1000)
        return min(max(1, milliseconds), MAX_TIME_MS_LIMIT)


UNSET = Deadline()


@dataclass(frozen=True, slots=True)
class Timeout:
    """What timeoutMS says to an operation: in `seconds`, as in `Deadline`.

    `own` says that the operation itself has it, rather than its collection, its database or its client.
    `shared` is a deadline that has begun, of which this operation is a part.
    """

    seconds: float | None = None
    own: bool = False
    shared: Deadline | None = None

    def start(self, now: float, *, within: Deadline | None = None) -> Deadline:
        """Return when an operation that begins now must be done (Validation and Overrides).

        `within` is the deadline of the withTransaction that the operation is part of: if it is set, it is the
        operation's too. Raises InvalidArgumentError for an operation that has a timeoutMS of its own there.
        """
        if within is None or not within.is_set:
            return self.shared if self.shared is not None else Deadline.starting(now, self.seconds)
        if self.own:
            raise InvalidArgumentError("timeoutMS cannot be set on operations within withTransaction")
        return earlier(within, self.shared)


NO_TIMEOUT = Timeout()


def earlier(one: Deadline, other: Deadline | None) -> Deadline:
    """Return the deadline that is set and comes first."""
    if other is None or not other.is_set:
        return one
    return other if not one.is_set or other.at < one.at else one

"""The loop of withTransaction: run the callback, commit, and again (Convenient API for Transactions)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, TypeVar

from driver.errors import DriverError, OperationTimeoutError
from driver.transaction import WITH_TRANSACTION_TIMEOUT, backoff_before, is_max_time_expired
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from driver.editions import Edition
    from driver.policy.deadline import Deadline, Timeout
    from mongowire.ports import Clock, Rng


class TransactionalSession(Protocol):
    """What the loop does with its session."""

    deadline: Deadline | None

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was started and has not ended."""

    async def commit_transaction(self) -> None:
        """Commit. Raises DriverError."""

    async def abort_transaction(self, *, deadline: Deadline | None = None) -> None:
        """Abort, whatever the server says to it."""


S = TypeVar("S", bound=TransactionalSession)
T = TypeVar("T")


class _AgainError(Exception):
    """The whole transaction shall run again, because of its cause."""

    def __init__(self, cause: DriverError) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(slots=True, kw_only=True)
class Convenience(Generic[S]):
    """One call of withTransaction. `begin` starts a transaction; `rng` is for the jitter of the backoffs."""

    session: S
    begin: Callable[[], None]
    timeout: Timeout
    clock: Clock
    rng: Rng
    edition: Edition
    deadline: float = 0.0

    async def run(self, callback: Callable[[S], Awaitable[T]]) -> T:
        """Return what the callback returned in the transaction that was committed. Raises what ended it.

        The session carries the deadline to the operations of the callback; what is not set gives them none.
        """
        now = self.clock.now()
        deadline = self.timeout.start(now)
        self.deadline = deadline.at if deadline.is_set else now + WITH_TRANSACTION_TIMEOUT
        outer, self.session.deadline = self.session.deadline, deadline
        attempt = 0
        try:
            while True:
                self.begin()
                attempt += 1
                try:
                    result = await self._call(callback)
                    await self._commit()
                except _AgainError as again:
                    await self._back_off(attempt, again.cause)
                else:
                    return result
        finally:
            self.session.deadline = outer

    async def _call(self, callback: Callable[[S], Awaitable[T]]) -> T:
        try:
            return await callback(self.session)
        except BaseException as error:
            # Whatever ended the callback, its locks on the server go, with all of the timeout for that: there
            # may be nothing left of it.
            if self.session.in_transaction:
                refreshed = self.timeout.start(self.clock.now())
                await self.session.abort_transaction(deadline=refreshed)
            if isinstance(error, DriverError) and error.has_label(Label.TRANSIENT_TRANSACTION):
                self._again(error)
            raise

    async def _commit(self) -> None:
        """Commit, unless the callback has ended the transaction itself."""
        if not self.session.in_transaction:
            return
        while True:
            try:
                await self.session.commit_transaction()
            except DriverError as error:
                # The commit alone again, at once: it may have been applied, so that a new transaction would
                # apply everything twice. Not where maxTimeMS ended it: the next one would take as long.
                unknown = error.has_label(Label.UNKNOWN_TRANSACTION_COMMIT_RESULT)
                if unknown and not is_max_time_expired(error) and not self._out_of_time(error):
                    self._check_time(error)
                    continue
                if error.has_label(Label.TRANSIENT_TRANSACTION):
                    self._again(error)
                raise
            return

    def _out_of_time(self, error: DriverError) -> bool:
        """Return whether the timeoutMS of the whole call ended a command, a little early perhaps."""
        return error.timed_out and self.timeout.seconds is not None

    def _again(self, error: DriverError) -> NoReturn:
        self._check_time(error)
        raise _AgainError(error) from error

    def _check_time(self, error: DriverError, wait: float = 0.0) -> None:
        if self._out_of_time(error) or self.clock.now() + wait >= self.deadline:
            self._give_up(error)

    def _give_up(self, error: DriverError) -> NoReturn:
        """Raise the last error, wrapped in a timeout where timeoutMS or the edition wants it so."""
        # Without timeoutMS the older edition raises the error itself, as programs of its time expect.
        wraps = self.timeout.seconds is not None or self.edition.wraps_transaction_timeout
        if error.timed_out or not wraps:
            raise error
        message = f"withTransaction ran out of time: {error}"
        raise OperationTimeoutError(message, cause=error, address=error.address, labels=error.labels)

    async def _back_off(self, attempt: int, error: DriverError) -> None:
        exponent = self.edition.first_transaction_exponent
        wait = backoff_before(attempt, self.rng.random(), exponent)
        self._check_time(error, wait)  # before the wait: what would end too late is not begun
        await self.clock.sleep_until(self.clock.now() + wait)

"""The loop of withTransaction: run the callback, commit, and again (Convenient API for Transactions)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from driver.errors import DriverError, OperationTimeoutError
from driver.transaction import WITH_TRANSACTION_TIMEOUT, backoff_before, is_max_time_expired
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from driver.client import AsyncClient
    from driver.policy.deadline import Timeout
    from driver.session import ClientSession

T = TypeVar("T")


class _AgainError(Exception):
    """The whole transaction shall run again, because of its cause."""

    def __init__(self, cause: DriverError) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(slots=True)
class Convenience:
    """One call of withTransaction. Time is the client's, jitter the throws of its dice."""

    session: ClientSession
    client: AsyncClient
    timeout: Timeout
    deadline: float = 0.0

    async def run(self, callback: Callable[[ClientSession], Awaitable[T]], options: Mapping[str, Any]) -> T:
        """Return what the callback returned in the transaction that was committed. Raises what ended it.

        The session carries the deadline to the operations of the callback; what is not set gives them none.
        """
        now = self.client.clock.now()
        deadline = self.timeout.start(now)
        self.deadline = deadline.at if deadline.is_set else now + WITH_TRANSACTION_TIMEOUT
        outer, self.session.deadline = self.session.deadline, deadline
        try:
            return await self._until_committed(callback, options)
        finally:
            self.session.deadline = outer

    async def _until_committed(
        self, callback: Callable[[ClientSession], Awaitable[T]], options: Mapping[str, Any]
    ) -> T:
        attempt = 0
        while True:
            self.session.start_transaction(**options)
            attempt += 1
            try:
                result = await self._call(callback)
                await self._commit()
            except _AgainError as again:
                await self._back_off(attempt, again.cause)
            else:
                return result

    async def _call(self, callback: Callable[[ClientSession], Awaitable[T]]) -> T:
        try:
            return await callback(self.session)
        except BaseException as error:
            if self.session.in_transaction:
                refreshed = self.timeout.start(self.client.clock.now())
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
        if self._out_of_time(error) or self.client.clock.now() + wait >= self.deadline:
            self._give_up(error)

    def _give_up(self, error: DriverError) -> NoReturn:
        """Raise the last error, wrapped in a timeout where timeoutMS or the edition wants it so."""
        wraps = self.timeout.seconds is not None or self.client.edition.wraps_transaction_timeout
        if error.timed_out or not wraps:
            raise error
        message = f"withTransaction ran out of time: {error}"
        raise OperationTimeoutError(message, cause=error, address=error.address, labels=error.labels)

    async def _back_off(self, attempt: int, error: DriverError) -> None:
        exponent = self.client.edition.first_transaction_exponent
        wait = backoff_before(attempt, self.client.transaction_rng.random(), exponent)
        self._check_time(error, wait)
        await self.client.clock.sleep_until(self.client.clock.now() + wait)

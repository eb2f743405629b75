"""The transactions that are run through one mongos (`Transactions: Sharded Transactions`).

A mongos has no other state: the shards that take part in a transaction are known to the router of its first
statement alone. So a client pins a transaction to one mongos, and any other answers its statements with 251.

A commit is the exception. When the first mongos has died, it may come to another one, with the recovery token
of the replies. The token names a shard that the transaction has written to, and that shard knows the outcome.
Without a write there is no outcome to know, and the token is empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.sessions.transactions import State
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from fakeserver.sessions.session import Session, SessionCatalog
    from fakeserver.sessions.transactions import Transaction, Transactions

_NO_RECOVERY_TOKEN: Final = 50940


@dataclass(slots=True)
class Routed:
    """One session's newest transaction as a mongos has seen it."""

    number: int
    first_shard: str = ""
    """The shard of its first statement."""
    recovering: bool = False
    """Its commit is the first command that came here: another mongos has run the statements."""
    answered: bool = False
    """A statement has succeeded, so there is something that can be committed."""
    recovery_shard: str | None = None
    """The shard of its first write."""

    @property
    def token(self) -> dict[str, str]:
        """The `recoveryToken` of its replies: empty while nothing was written."""
        return {} if self.recovery_shard is None else {"recoveryShardId": self.recovery_shard}

    def unanswered(self, session: Session) -> CommandError:
        """Return the refusal of a commit when no statement has succeeded."""
        return CommandError(
            ErrorCode.NO_SUCH_TRANSACTION,
            f"{session}:{self.number} Failed to commit transaction because a previous statement on the"
            f" transaction participant {self.first_shard} was unsuccessful.",
        )


class TransactionRouter:
    """The transactions of one mongos, by session. It forgets those whose sessions are forgotten."""

    def __init__(self) -> None:
        self._routed: dict[bytes, Routed] = {}

    def route(self, session: Session, number: int, *, starts: bool = False, commits: bool = False) -> Routed:
        """Begin or continue a transaction with a command that `starts` or `commits` it, or neither.

        Raises `CommandError` 225 for an old number, 117 for a start of one that began here, and 251 for a
        statement of one that did not.
        """
        routed = self._routed.get(session.id)
        known = -1 if routed is None else routed.number
        if number < known:
            raise CommandError(
                ErrorCode.TRANSACTION_TOO_OLD,
                f"txnNumber {number} is less than last txnNumber {known} seen in session {session}",
            )
        if routed is not None and number == known:
            if starts:
                raise CommandError(
                    ErrorCode.CONFLICTING_OPERATION_IN_PROGRESS,
                    f"txnNumber {number} txnRetryCounter 0 for session {session} already started",
                )
            return routed
        if not starts and not commits:
            raise CommandError(
                ErrorCode.NO_SUCH_TRANSACTION,
                f"cannot continue txnId {known} for session {session} with txnRetryCounter 0",
            )
        begun = self._routed[session.id] = Routed(number, recovering=not starts)
        return begun

    def clear(self) -> None:
        """Forget all transactions."""
        self._routed.clear()

    def keep_sessions(self, sessions: SessionCatalog) -> None:
        """Forget the transactions of sessions that are no longer known."""
        self._routed = {key: routed for key, routed in self._routed.items() if key in sessions}

    def __len__(self) -> int:
        """Return the number of sessions with a transaction."""
        return len(self._routed)


def recover(
    transactions: Transactions, session: Session, number: int, token: Any, shards: Collection[str]
) -> Transaction:
    """Return the transaction that a commit on another mongos asks about, once its outcome is certain.

    An open one is aborted first: the mongos that could have committed it is gone, and it would hold its
    claims until it expires. Raises `CommandError` 50940 without a token, 70 for one that names no shard, 225,
    and 251 unless the transaction was committed.
    """
    if token is None:
        raise CommandError(
            _NO_RECOVERY_TOKEN, "Cannot recover the transaction decision without a recoveryToken"
        )
    shard = token.get("recoveryShardId")
    if shard is None:
        raise CommandError(
            ErrorCode.NO_SUCH_TRANSACTION,
            "Recovery token is empty, meaning the transaction only performed reads and can be safely retried",
        )
    if shard not in shards:
        raise CommandError(ErrorCode.SHARD_NOT_FOUND, f"Shard {shard} not found")
    transaction = transactions.proceed(session, number, "commitTransaction")
    if transaction.state is State.IN_PROGRESS:
        transactions.abort(transaction)
        transactions.proceed(session, number, "commitTransaction")
    return transaction

"""What one mongos knows of the transactions that are run through it (`Transactions: Sharded Transactions`).

Each mongos remembers its own statements alone, so a client must send all of them to one. Only a commit may
come to another one, with the recovery token: the decision is then asked of the shard that the token names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.transactions import State
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from fakeserver.sessions import Session, SessionCatalog
    from fakeserver.transactions import Transaction, Transactions

_NO_RECOVERY_TOKEN: Final = 50940


@dataclass(slots=True)
class Routed:
    """One session's newest transaction as a mongos has seen it.

    `recovering` says that its commit was the first to come here, `answered` that a statement has succeeded;
    `first_shard` is the one that its first statement went to, `recovery_shard` the first that it wrote to.
    """

    number: int
    first_shard: str = ""
    recovering: bool = False
    answered: bool = False
    recovery_shard: str | None = None

    @property
    def token(self) -> dict[str, str]:
        """What replies carry as `recoveryToken`: empty while nothing was written."""
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

    def keep_sessions(self, sessions: SessionCatalog) -> None:
        """Forget what belongs to sessions that are remembered no more."""
        self._routed = {key: routed for key, routed in self._routed.items() if key in sessions}

    def __len__(self) -> int:
        """Return of how many sessions it knows a transaction."""
        return len(self._routed)


def recover(
    transactions: Transactions, session: Session, number: int, token: Any, shards: Collection[str]
) -> Transaction:
    """Return the transaction that a commit on another mongos asks about, once its outcome is certain.

    One that is still open is aborted: who asks has lost the mongos that could have committed it. Raises
    `CommandError` 50940 without a token, 70 for one that names no shard, 225, and 251 unless the transaction
    was committed.
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

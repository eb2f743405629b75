"""Which error labels a reply carries (`Retryable Writes: RetryableWriteError`, `Error Labels`).

A pure function of what is known when a command has run, in the order in which a server appends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from mongowire.codes import Category, ErrorCode, Label, is_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.oplog import OpTime
    from fakeserver.profile import Profile

COMMIT_OR_ABORT: Final = frozenset(
    {
        *("commitTransaction", "abortTransaction", "coordinateCommitTransaction"),
        *("clusterCommitTransaction", "clusterAbortTransaction"),
    }
)
_STALE_SHARD_VERSION: Final = 63
_SHARD_CANNOT_REFRESH_DUE_TO_LOCKS_HELD: Final = 343
_CHANGE_STREAM_COMMANDS: Final = frozenset({"aggregate", "getMore"})
_ALWAYS_TRANSIENT: Final = frozenset(
    {
        ErrorCode.WRITE_CONFLICT,
        ErrorCode.LOCK_TIMEOUT,
        ErrorCode.PREPARED_TRANSACTION_IN_PROGRESS,
        _SHARD_CANNOT_REFRESH_DUE_TO_LOCKS_HELD,
        ErrorCode.STALE_DB_VERSION,
    }
)
_RESUMABLE: Final = frozenset(
    {
        ErrorCode.RETRY_CHANGE_STREAM,
        ErrorCode.FAILED_TO_SATISFY_READ_PREFERENCE,
        ErrorCode.QUERY_PLAN_KILLED,
    }
)


class LabelFacts(NamedTuple):
    """What the labels of one reply depend on.

    `code` is the error the command failed with, `write_concern_code` that of its `writeConcernError`;
    `txn_number` and `autocommit` say whether the request carried those fields. `before` and `after` are the
    client's last operation times around the run, None where the command did not run.
    """

    profile: Profile
    command: str
    code: int | None = None
    write_concern_code: int | None = None
    txn_number: bool = False
    autocommit: bool = False
    internal_client: bool = False
    mongos: bool = False
    from_router: bool = False
    shutting_down: bool = False
    change_stream: bool = False
    before: OpTime | None = None
    after: OpTime | None = None


def labels(facts: LabelFacts) -> list[str]:
    """Return the labels that a server computes, in its order; most replies have none."""
    if facts.code is None and facts.write_concern_code is None:
        return []
    found: list[str] = []
    if _is_transient_transaction_error(facts):
        found.append(Label.TRANSIENT_TRANSACTION)
    elif _is_retryable_write_error(facts):
        found.append(Label.RETRYABLE_WRITE)
        if facts.profile.labels_no_writes_performed and facts.before is not None:
            found += [Label.NO_WRITES_PERFORMED] if facts.before == facts.after else []
    if not found:
        found += _change_stream_labels(facts)
    if (
        facts.code is not None
        and facts.profile.knows_overload
        and is_in(facts.code, Category.SYSTEM_OVERLOADED)
    ):
        found.append(Label.SYSTEM_OVERLOADED)
    return found


def carries_backoff_hint(error_labels: Sequence[str]) -> bool:
    """Say whether `baseBackoffMS` belongs beside these labels (Client Backpressure)."""
    return Label.SYSTEM_OVERLOADED in error_labels and Label.RETRYABLE in error_labels


def is_retriable(code: int, profile: Profile) -> bool:
    """Say whether this release counts `code` among the errors that a retry may cure."""
    if is_in(code, Category.SYSTEM_OVERLOADED) and not profile.knows_overload:
        return False
    return is_in(code, Category.RETRIABLE)


def _is_transient_transaction_error(facts: LabelFacts) -> bool:
    code = facts.code
    if code is None or not facts.txn_number or not facts.autocommit:
        return False
    if code == ErrorCode.INTERNAL_TRANSACTION_NOT_SUPPORTED:
        return False
    if code in _ALWAYS_TRANSIENT or is_in(code, Category.SNAPSHOT) or _needs_retargeting(facts):
        return True
    if facts.command in COMMIT_OR_ABORT:
        return code == ErrorCode.NO_SUCH_TRANSACTION and facts.write_concern_code is None
    return code == ErrorCode.NO_SUCH_TRANSACTION or is_retriable(code, facts.profile)


def _needs_retargeting(facts: LabelFacts) -> bool:
    """Say whether a router shall ask another shard."""
    if facts.code == _STALE_SHARD_VERSION:
        return facts.profile.knows_stale_shard_version
    return facts.code is not None and is_in(facts.code, Category.NEED_RETARGETING)


def _is_retryable_write_error(facts: LabelFacts) -> bool:
    if facts.internal_client or not facts.txn_number or not facts.profile.labels_retryable_writes:
        return False
    if facts.autocommit and facts.command not in COMMIT_OR_ABORT:
        return False
    if facts.shutting_down and _is_shutdown(facts.code):
        return True
    if facts.code == ErrorCode.STALE_CONFIG and not facts.from_router:
        return True
    if facts.mongos:
        return False
    codes = (facts.code, facts.write_concern_code)
    return any(code is not None and is_retriable(code, facts.profile) for code in codes)


def _is_shutdown(code: int | None) -> bool:
    return code is not None and (code == ErrorCode.CALLBACK_CANCELED or is_in(code, Category.SHUTDOWN))


def _change_stream_labels(facts: LabelFacts) -> list[str]:
    code = facts.code
    if code is None or facts.write_concern_code is not None or not facts.change_stream:
        return []
    if facts.command not in _CHANGE_STREAM_COMMANDS or not facts.profile.labels_retryable_writes:
        return []
    if is_in(code, Category.NON_RESUMABLE_CHANGE_STREAM):
        return [Label.NON_RESUMABLE_CHANGE_STREAM]
    resumable = code in _RESUMABLE or is_retriable(code, facts.profile) or is_in(code, Category.NETWORK)
    if resumable or _needs_retargeting(facts):
        return [Label.RESUMABLE_CHANGE_STREAM]
    return []

"""The error labels of a reply (`Retryable Writes: RetryableWriteError`, `Error Labels`).

A pure function of the facts that are known when a command has run. A label is the server's advice to a
driver: only the server knows whether the same request, sent again, may succeed and does no harm twice.

    TransientTransactionError    run the whole transaction again. Only for statements with txnNumber and
                                 autocommit, which no driver retries by themselves
    RetryableWriteError          send the same command again. Only with a transaction number: without one
                                 the server could not recognise a statement that it has applied
    NoWritesPerformed            beside it: this attempt has written nothing, so a driver that has tried
                                 several times reports an error of an attempt that may have
    ResumableChangeStreamError   open the stream again from its resume token
    NonResumableChangeStreamError
                                 its history is gone: opening it again would fail likewise
    SystemOverloadedError        back off before anything else is sent

The first two exclude each other, and both exclude the labels of change streams. SystemOverloadedError is
independent of all others. RetryableError has no rule: a server appends it only where it has refused a request
unread (the rate limiter's own reply, `admission.controls`), or where a fail point says so. The same holds for
`baseBackoffMS`, which needs both labels.

Failures in steps before `Step.LABELS` have no labels at all: see `request.pipeline`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from mongowire.codes import Category, ErrorCode, Label, is_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.profile import Profile
    from fakeserver.storage.port.oplog import OpTime

COMMIT_OR_ABORT: Final = frozenset(
    {
        *("commitTransaction", "abortTransaction", "coordinateCommitTransaction"),
        *("clusterCommitTransaction", "clusterAbortTransaction"),
    }
)
"""The statements of a transaction that drivers retry by themselves, as if they were retryable writes."""
_STALE_SHARD_VERSION: Final = 63
_SHARD_CANNOT_REFRESH_DUE_TO_LOCKS_HELD: Final = 343
_CHANGE_STREAM_COMMANDS: Final = frozenset({"aggregate", "getMore"})
# Conflicts with others that will be gone: also for a commit, which then has not taken place.
_ALWAYS_TRANSIENT: Final = frozenset(
    {
        ErrorCode.WRITE_CONFLICT,
        ErrorCode.LOCK_TIMEOUT,
        ErrorCode.PREPARED_TRANSACTION_IN_PROGRESS,
        _SHARD_CANNOT_REFRESH_DUE_TO_LOCKS_HELD,
        ErrorCode.STALE_DB_VERSION,
    }
)
# Resumable, although no retry of a read or write would cure them.
_RESUMABLE: Final = frozenset(
    {
        ErrorCode.RETRY_CHANGE_STREAM,
        ErrorCode.FAILED_TO_SATISFY_READ_PREFERENCE,
        ErrorCode.QUERY_PLAN_KILLED,
    }
)


class LabelFacts(NamedTuple):
    """The facts that the labels of one reply depend on."""

    profile: Profile
    command: str
    """The command's canonical name."""
    code: int | None = None
    """The code of the error that the command failed with."""
    write_concern_code: int | None = None
    """The code of the reply's `writeConcernError`."""
    txn_number: bool = False
    """The request has a `txnNumber`."""
    autocommit: bool = False
    """The request has an `autocommit` field: it is a transaction's."""
    internal_client: bool = False
    """The client is a server, by the `internalClient` of its hello."""
    mongos: bool = False
    """The reply is a mongos's."""
    from_router: bool = False
    """The request was passed on by a mongos."""
    shutting_down: bool = False
    """This process is about to end."""
    change_stream: bool = False
    """The command opens or reads a change stream."""
    before: OpTime | None = None
    """The last operation before the run, None where the command did not run."""
    after: OpTime | None = None
    """The last operation after the run, None where the command did not run."""


def labels(facts: LabelFacts) -> list[str]:
    """Return the labels that a server computes, in its order; most replies have none."""
    if facts.code is None and facts.write_concern_code is None:
        return []
    found: list[str] = []
    # A commit could be both. "Transient" is stronger: nothing was committed, so all of it has to run again.
    if _is_transient_transaction_error(facts):
        found.append(Label.TRANSIENT_TRANSACTION)
    elif _is_retryable_write_error(facts):
        found.append(Label.RETRYABLE_WRITE)
        # Two optimes are compared, since no code says what a failed batch has written before it failed. A
        # command that did not run, such as one that a fail point fails, has none, and the server adds no
        # label: it compares nothing that it has not read.
        unchanged = facts.before is not None and facts.before == facts.after
        if unchanged and facts.profile.labels_no_writes_performed:
            found.append(Label.NO_WRITES_PERFORMED)
    if not found:
        found += _change_stream_labels(facts)
    # By the code of the command alone: a writeConcernError is about members, not about this one's load.
    if (
        facts.code is not None
        and facts.profile.knows_overload
        and is_in(facts.code, Category.SYSTEM_OVERLOADED)
    ):
        found.append(Label.SYSTEM_OVERLOADED)
    return found


def carries_backoff_hint(error_labels: Sequence[str]) -> bool:
    """Say whether `baseBackoffMS` belongs beside these labels (Client Backpressure).

    It is a delay before a retry, so an error that must not be retried has none, however overloaded it is.
    """
    return Label.SYSTEM_OVERLOADED in error_labels and Label.RETRYABLE in error_labels


def is_retriable(code: int, profile: Profile) -> bool:
    """Say whether this release counts `code` among the errors that a retry may cure."""
    # Releases before the overload codes would not send them; a fail point can, and they mean nothing there.
    if is_in(code, Category.SYSTEM_OVERLOADED) and not profile.knows_overload:
        return False
    return is_in(code, Category.RETRIABLE)


def _is_transient_transaction_error(facts: LabelFacts) -> bool:
    code = facts.code
    if code is None or not facts.txn_number or not facts.autocommit:
        return False
    # A member of another version: the same transaction would fail there again.
    if code == ErrorCode.INTERNAL_TRANSACTION_NOT_SUPPORTED:
        return False
    # A snapshot that is gone, or a shard that has moved, is found anew by a new transaction.
    if code in _ALWAYS_TRANSIENT or is_in(code, Category.SNAPSHOT) or _needs_retargeting(facts):
        return True
    if facts.command in COMMIT_OR_ABORT:
        # Not for every retriable code, as below: the commit may have taken place, and is asked again by
        # itself. Nor for 251 beside a writeConcernError: a primary that lost its majority may say so of a
        # transaction that another one knows to be committed.
        return code == ErrorCode.NO_SUCH_TRANSACTION and facts.write_concern_code is None
    return code == ErrorCode.NO_SUCH_TRANSACTION or is_retriable(code, facts.profile)


def _needs_retargeting(facts: LabelFacts) -> bool:
    """Say whether the error asks a router to look up the shard again (category NeedRetargettingError)."""
    # Code 63 is the name of early releases for it; later ones have left it out of the category.
    if facts.code == _STALE_SHARD_VERSION:
        return facts.profile.knows_stale_shard_version
    return facts.code is not None and is_in(facts.code, Category.NEED_RETARGETING)


def _is_retryable_write_error(facts: LabelFacts) -> bool:
    # A server that gets an error from a server decides by itself: only clients are advised. Releases before
    # 4.4 advise nobody, and their drivers go by lists of codes.
    if facts.internal_client or not facts.txn_number or not facts.profile.labels_retryable_writes:
        return False
    # A statement inside a transaction cannot be sent again, the primary that began it has its snapshot.
    if facts.autocommit and facts.command not in COMMIT_OR_ABORT:
        return False
    code = facts.code
    # The server's own end, whether a mongod's or a mongos's: another one can take the command. While it does
    # not shut down, these codes come from elsewhere, and the rules below decide.
    ends = code is not None and (code == ErrorCode.CALLBACK_CANCELED or is_in(code, Category.SHUTDOWN))
    if facts.shutting_down and ends:
        return True
    # A client that addresses a shard directly knows no versions of the routing table; a router that does so
    # refreshes its table first.
    if code == ErrorCode.STALE_CONFIG and not facts.from_router:
        return True
    # A mongos has retried what its shard refused before it gives up. Were its error labelled too, a driver
    # would double each of these retries, and under overload the load. So it adds no label of its own.
    if facts.mongos:
        return False
    codes = (code, facts.write_concern_code)
    return any(each is not None and is_retriable(each, facts.profile) for each in codes)


def _change_stream_labels(facts: LabelFacts) -> list[str]:
    code = facts.code
    if code is None or facts.write_concern_code is not None or not facts.change_stream:
        return []
    # Releases before 4.4 leave the decision to the driver's list of codes, here as above.
    if facts.command not in _CHANGE_STREAM_COMMANDS or not facts.profile.labels_retryable_writes:
        return []
    if is_in(code, Category.NON_RESUMABLE_CHANGE_STREAM):
        return [Label.NON_RESUMABLE_CHANGE_STREAM]
    resumable = code in _RESUMABLE or is_retriable(code, facts.profile) or is_in(code, Category.NETWORK)
    if resumable or _needs_retargeting(facts):
        return [Label.RESUMABLE_CHANGE_STREAM]
    return []

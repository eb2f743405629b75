"""Permits of retries by the specifications: whether another attempt follows a failed one, and how many.

The rules stand here once more, apart from the reference driver's: an oracle that asked the driver would find
every driver right. Retryable Writes: Determining Retryable Errors; Retryable Reads: Retryable Error; Client
Backpressure: Overload retry policy.

`may_retry` and `must_retry` differ on purpose: between them lies what the specifications leave to drivers, of
which no oracle says anything. `attempts` asks the first for what was sent again, and `must_retry`, the
narrower one, for what was not; `tokens` asks the latter as well.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from harness.unified.server_side.model import CountRule
from harness.unified.server_side.oracles.trace import ENDS
from harness.unified.server_side.rules import attempts_expected
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.unified.server_side.attempt import JudgedAttempt
    from harness.unified.server_side.oracles.trace import SentCommand, Trace, TracedOperation

WRITES: Final = frozenset({"insert", "update", "delete", "findAndModify", "bulkWrite"})
"""Commands that may have a transaction number of their own."""

RETRYABLE_READS: Final = frozenset(
    {"find", "aggregate", "count", "distinct", "listCollections", "listDatabases", "listIndexes"}
)
READS: Final = RETRYABLE_READS | {"getMore", "killCursors"}

GENERIC: Final = frozenset({"runCommand", "runCursorCommand", "createCommandCursor"})
"""Operations that send the user's own command."""

_RETRYABLE_WRITE_CODES: Final = frozenset({6, 7, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436})
CHANGES_STATE: Final = frozenset({91, 189, 10058, 10107, 11600, 11602, 13435, 13436})
"""Codes after which a server has to be looked for: how long that takes, no rule says."""

_RETRYABLE_READ_CODES: Final = _RETRYABLE_WRITE_CODES | {134}
_LABELLING: Final = (4, 4)
"""Servers from this release on label errors of retryable writes themselves."""


def is_write_stage(command: SentCommand) -> bool:
    """Return whether an aggregation writes."""
    pipeline = command.first.command.get("pipeline") or ()
    return any(name in stage for stage in pipeline for name in ("$out", "$merge"))


def is_network_error(attempt: JudgedAttempt) -> bool:
    """Return whether the connection was lost before the reply."""
    return attempt.request.end == "server"


def may_retry(trace: Trace, operation: TracedOperation, command: SentCommand, index: int) -> bool:
    """Return whether an attempt that failed may be followed by another one of the same command."""
    attempt = command.attempts[index]
    options = operation.client.options
    reads, writes = bool(options.get("retryReads", True)), bool(options.get("retryWrites", True))
    if command.name == "endSessions" or attempt.request.command.get("writeConcern", {}).get("w") == 0:
        return False
    kind = kind_of(operation, command)
    if attempt.is_overloaded:
        # Rule 2 of the overload retry policy: reads by retryReads, writes by retryWrites, a user's own
        # command by both; the end of a transaction always may.
        return {"end": True, "read": reads, "write": writes, "generic": reads and writes}[kind]
    # A write without a number has not asked to be retried; a statement of a transaction has the
    # transaction's.
    if kind in ("end", "write") and "txnNumber" in command.first.command and not command.in_transaction:
        return is_retryable_write_error(trace, attempt)
    if kind == "read" and command.name in RETRYABLE_READS and not command.in_transaction:
        code = (attempt.request.reply or {}).get("code")
        return reads and (is_network_error(attempt) or code in _RETRYABLE_READ_CODES)
    return False


def must_retry(trace: Trace, operation: TracedOperation, command: SentCommand, index: int) -> bool:
    """Return whether an attempt that failed is to be followed by another one.

    Where the error of a write concern alone has the label, drivers may go by the labels of the reply.
    """
    if command.attempts[index].is_overloaded and not trace.is_of_backpressure:
        return False
    reply = command.attempts[index].request.reply or {}
    if "writeConcernError" in reply and trace.version >= _LABELLING:
        return Label.RETRYABLE_WRITE in reply.get("errorLabels", ()) and may_retry(
            trace, operation, command, index
        )
    # A reply with ok and nothing but write errors has succeeded as a command.
    if reply.get("ok") and not is_old_write_error(trace, reply):
        return False
    return may_retry(trace, operation, command, index)


def kind_of(operation: TracedOperation, command: SentCommand) -> str:
    """Return what a command is for the retry policies: read, write, generic, or the end of a transaction."""
    if command.name in ENDS:
        return "end"
    if operation.name in GENERIC and command.name not in ("getMore", "killCursors"):
        return "generic"
    if command.name in READS and not is_write_stage(command):
        return "read"
    return "write"


def is_retryable_write_error(trace: Trace, attempt: JudgedAttempt) -> bool:
    """Return whether Retryable Writes allow a retry (RetryableWriteError Labels)."""
    if is_network_error(attempt):
        return True
    if Label.RETRYABLE_WRITE in attempt.labels:
        return True
    reply = attempt.request.reply or {}
    return trace.version < _LABELLING and bool(reply) and is_old_write_error(trace, reply)


def is_old_write_error(trace: Trace, reply: Mapping[str, Any]) -> bool:
    """Return whether the code of a reply is one that drivers label for servers that do not.

    Drivers label errors of servers before 4.4 by a list of codes; newer servers do it themselves.
    """
    if not reply.get("ok"):
        return reply.get("code") in _RETRYABLE_WRITE_CODES
    concern = reply.get("writeConcernError") or {}
    # Before 4.4 the code of a write concern error decides about a retry only where it is a mongod's.
    return not trace.topology.has_mongos and concern.get("code") in _RETRYABLE_WRITE_CODES


def most_retries(
    trace: Trace, operation: TracedOperation, command: SentCommand, *, until: int | None = None
) -> float:
    """Return how many retries there may be after the attempts up to an index (all of them without one)."""
    met = command.attempts if until is None else command.attempts[: until + 1]
    overload = attempts_expected(CountRule(), trace.edition, operation.client.options).most
    # One overload error is enough: from then on the number of the overload policy holds for retries of every
    # kind.
    if any(Label.SYSTEM_OVERLOADED in attempt.labels for attempt in met):
        return overload
    # Servers may not have heard of an overload: an error while a connection was established counts as one.
    if operation.is_disturbed:
        return inf if operation.is_timed else max(overload, 1)
    return inf if operation.is_timed else 1

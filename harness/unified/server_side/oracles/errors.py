"""Oracles of what the application gets: success or an error, which of several, and its labels.

Retryable Writes and Client Backpressure (which error of several), Transactions (labels), SDAM. Each compares
what `expectError` could have asked, the adapter's `ErrorReport`, with what servers sent. Only operations of a
single command that ran alone are judged (`_judged`): of several commands nobody can say which one an error is
about.

What may have failed on the client's side is left out: deadlines (`is_timed`), connections that could not be
had (`is_disturbed`), requests that the client itself gave up. An adapter that reports no address or no reply
is not asked for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.adapters.deployment import Topology
from harness.unified.server_side.oracles.permits import is_network_error, kind_of
from harness.unified.server_side.oracles.pool_life import CLOSED
from harness.unified.server_side.oracles.trace import ENDS, is_ok
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.adapters.base import ErrorReport
    from harness.unified.server_side.attempt import JudgedAttempt
    from harness.unified.server_side.connection_judge import ConnectionLife
    from harness.unified.server_side.oracles.trace import SentCommand, Trace, TracedOperation

_SINGLE: Final = frozenset(
    {"insertOne", "updateOne", "updateMany", "replaceOne", "deleteOne", "deleteMany", "findOneAndUpdate"}
    | {"findOneAndDelete", "findOneAndReplace", "find", "findOne", "distinct", "countDocuments", "runCommand"}
    | {"estimatedDocumentCount", "listCollections", "listDatabases", "listIndexes"}
)
"""Operations that send one command, but for getMore."""


def success_and_failure_reach_the_application(trace: Trace) -> Iterator[str]:
    """Command execution; CRUD: Error Handling."""
    for operation, command, error in _judged(trace):
        last = command.last
        refused = is_network_error(last) or not (last.request.reply or {"ok": 0}).get("ok")
        if error is None and refused and last.request.end != "open":
            yield f"{operation} succeeded, though its last attempt met {last.met}"
        # ok with write errors or a write concern error: an error to the application, except for runCommand,
        # which returns the reply.
        if error is None and not refused and not is_ok(last) and operation.name != "runCommand":
            yield f"{operation} succeeded, though its last attempt met {last.met}"
        if error is not None and is_ok(last) and not operation.is_timed and not operation.is_disturbed:
            yield f"{operation} failed ({error.message}), though its last attempt succeeded"


def the_error_that_tells_most(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Executing (NoWritesPerformed); Client Backpressure: Overload retry policy, rule 7."""
    for operation, command, error in _judged(trace):
        if error is None or operation.is_timed or operation.is_disturbed or is_ok(command.last):
            continue
        if kind_of(operation, command) not in ("write", "generic", "read") or len(command.attempts) == 1:
            continue
        kept = surviving(command)
        # The client gave up the attempt that tells most; its error is the client's own.
        if kept.request.end == "client":
            continue
        code, wanted = error.code, (kept.request.reply or {}).get("code")
        if (kept.request.reply is None) != error.is_client_error:
            got = "a client's error" if error.is_client_error else f"error {code}"
            yield f"{operation} raised {got}, where {kept.met} tells most"
        elif kept.request.reply is not None and not kept.request.reply.get("ok") and code != wanted:
            yield f"{operation} raised error {code}, where {kept.met} tells most"
        elif kept.request.reply is not None and error.response is not None and not _is_of(error, kept):
            yield f"{operation} raised the error of another attempt than the one that tells most"


def _is_of(error: ErrorReport, kept: JudgedAttempt) -> bool:
    """Return whether an error has the reply of an attempt; messages of two attempts may be equal."""
    response, reply = error.response or {}, kept.request.reply or {}
    return response.get("errmsg") == reply.get("errmsg")


def surviving(command: SentCommand) -> JudgedAttempt:
    """Return the attempt whose error the application is to get.

    An error with NoWritesPerformed says nothing about the data, so the one before it is kept; the first
    attempt has none before it.
    """
    kept = command.attempts[0]
    for attempt in command.attempts[1:]:
        if Label.NO_WRITES_PERFORMED not in attempt.labels:
            kept = attempt
    return kept


def labels_reach_the_application(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Error Labels; Retryable Writes: RetryableWriteError Labels."""
    for operation, command, error in _judged(trace):
        if error is None or operation.is_timed or operation.is_disturbed or is_ok(command.last):
            continue
        kept = surviving(command)
        if kept.request.reply is not None and not kept.request.reply.get("ok"):
            missing = frozenset(kept.request.reply.get("errorLabels", ())) - error.labels
            if missing:
                yield (
                    f"{operation} raised an error without"
                    f" {', '.join(sorted(missing))}, which the server gave it"
                )
        yield from _own_labels(trace, operation, command, kept, error)


def _own_labels(
    trace: Trace,
    operation: TracedOperation,
    command: SentCommand,
    kept: JudgedAttempt,
    error: ErrorReport,
) -> Iterator[str]:
    """Judge the label that a driver adds by itself."""
    labelled = Label.RETRYABLE_WRITE in error.labels
    given = Label.RETRYABLE_WRITE in kept.labels
    numbered = "txnNumber" in command.first.command and not command.in_transaction
    lost = is_network_error(kept)
    if lost and numbered and not labelled and not error.is_timeout_error:
        yield f"{operation} raised a network error of a retryable write without RetryableWriteError"
    # Servers before 4.4 give no labels, so drivers do.
    older = trace.version < (4, 4)
    # Of lost connections it is said of all that a client with retryWrites sends, not of its writes alone.
    may_label = lost or (older and kind_of(operation, command) == "write")
    allowed = may_label and operation.client.options.get("retryWrites", True)
    if labelled and not given and not allowed and command.name not in ENDS:
        yield f"{operation} raised an error with RetryableWriteError, which nobody may have given it"


def an_error_has_the_address_of_its_server(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Executing (server information). Drivers that tell no address are not asked."""
    for operation, command, error in (*_judged(trace), *_judged_bulk_writes(trace)):
        if error is None or error.address is None or operation.is_timed or operation.is_disturbed:
            continue
        kept = surviving(command)
        address = trace.addresses.get(kept.request.server)
        if address is None or is_ok(command.last) or kept.request.end == "client":
            continue
        # Behind a load balancer all servers have one address.
        if error.address != address and trace.topology is not Topology.LOAD_BALANCED:
            yield f"{operation} raised an error of {error.address}, where {address} gave it"


def an_uncertain_statement_is_transient(trace: Trace) -> Iterator[str]:
    """Transactions: TransientTransactionError; Retryable Writes Within Transactions."""
    for operation, command, error in _judged(trace):
        if error is None or not command.in_transaction or operation.is_disturbed or operation.is_timed:
            continue
        if is_network_error(command.last) and Label.TRANSIENT_TRANSACTION not in error.labels:
            yield f"{operation} lost its connection in a transaction without TransientTransactionError"
        if Label.RETRYABLE_WRITE in error.labels - command.last.labels:
            yield f"{operation} raised RetryableWriteError for a statement of a transaction"


def a_commit_tells_whether_its_result_is_known(trace: Trace) -> Iterator[str]:
    """Transactions: UnknownTransactionCommitResult (errors of write concerns)."""
    for operation in trace.operations:
        error = operation.step.error
        if operation.name != "commitTransaction" or error is None or operation.is_timed:
            continue
        last = operation.commands[-1].last.request if operation.commands else None
        reply = {} if last is None else last.reply or {}
        code = (reply.get("writeConcernError") or {}).get("code")
        if not reply.get("ok") or code is None or operation.is_disturbed:
            continue
        unknown = Label.UNKNOWN_TRANSACTION_COMMIT_RESULT in error.report.labels
        if unknown == (code in _NEVER_SATISFIED):
            told = "unknown" if unknown else "known"
            yield f"{operation} told that its result is {told} after error {code} of its write concern"


_NEVER_SATISFIED: Final = frozenset({79, 100})
"""UnknownReplWriteConcern, UnsatisfiableWriteConcern: the commit was applied, and no repetition helps."""


def what_could_not_be_established_is_overload(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Overload while establishing (before authentication, and only there).

    A connection that was lost early may be a monitor's: so the pool is to have closed as many as were lost.
    """
    if not trace.is_of_backpressure:
        return
    for operation in trace.operations:
        error, ended = operation.step.error, operation.step.ended
        client = operation.client
        if (
            error is None
            or ended is None
            or operation.commands
            or not operation.is_alone
            or operation.is_timed
        ):
            continue
        limit = client.options.get("serverSelectionTimeoutMS", 30_000) / 1000
        if (
            # A client that polls has no stream that ends meanwhile; and an operation that ended at its
            # selection timeout failed for that, not for the handshake.
            client.options.get("serverMonitoringMode") != "poll"
            or ended - operation.step.began > limit * _ALMOST
        ):
            continue
        closed = [each for each in client.during(operation, CLOSED) if each.fields.get("reason") == "error"]
        lost = [life for life in trace.connections if _was_lost(operation, life)]
        # As many as the pool closed for an error: otherwise some of them were a monitor's, whose loss is no
        # error of the operation.
        if not lost or len(lost) != len(closed):
            continue
        labels = frozenset({Label.SYSTEM_OVERLOADED, Label.RETRYABLE})
        if all(life.authentication for life in lost) and labels & error.report.labels:
            yield f"{operation} lost its connection while it authenticated, and raised an error of overload"
        if not any(life.authentication for life in lost) and not labels <= error.report.labels:
            missing = ", ".join(sorted(labels - error.report.labels))
            yield f"{operation} could establish no connection, and raised an error without {missing}"


_ALMOST: Final = 0.95
"""Part of serverSelectionTimeoutMS after which an error may be one of selection."""


def _was_lost(operation: TracedOperation, life: ConnectionLife) -> bool:
    """Return whether a server closed a connection of an operation's client before it was established."""
    return (
        life.seen.app_name in (operation.client.app_name, None)
        and operation.began < life.seen.accepted_seq < operation.ended
        and life.closed_by == "server"
        and life.established_seq > life.seen.closed_seq
    )


def _judged(trace: Trace) -> Iterator[tuple[TracedOperation, SentCommand, ErrorReport | None]]:
    """Yield each operation of a single command that ran alone, with the error that it raised."""
    for operation in trace.operations:
        sent = [command for command in operation.commands if command.name != "killCursors"]
        if operation.name not in _SINGLE or len(sent) != 1 or not operation.is_alone:
            continue
        if operation.step.ended is None:
            continue
        error = operation.step.error
        yield operation, sent[0], None if error is None else error.report


def _judged_bulk_writes(trace: Trace) -> Iterator[tuple[TracedOperation, SentCommand, ErrorReport | None]]:
    """Yield each bulk write that ran alone and ended with a command that failed, with its error."""
    for operation in trace.operations:
        error = operation.step.error
        if operation.name not in _BULK or error is None or not operation.is_alone or not operation.commands:
            continue
        last = operation.commands[-1]
        if not (last.last.request.reply or {"ok": 0}).get("ok"):
            yield operation, last, error.report


_BULK: Final = frozenset({"insertMany", "bulkWrite", "clientBulkWrite"})

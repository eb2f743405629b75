"""Oracles of attempts: which commands are sent again, how often, and where."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from harness.unified.deployment import Topology
from harness.unified.server_side.oracles.permits import (
    is_network_error,
    kind_of,
    may_retry,
    most_retries,
    must_retry,
)
from harness.unified.server_side.oracles.trace import is_failed, is_ok
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.unified.server_side.oracles.trace import SentCommand, Trace, TracedOperation


def only_what_may_be_retried(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Executing; Retryable Reads: Executing; Client Backpressure: Overload retry policy."""
    for operation, command in trace.commands():
        if _is_committed_again(operation, command):
            continue
        for index, attempt in enumerate(command.attempts[:-1]):
            lost = is_network_error(attempt) or attempt.request.reply is not None
            if lost and not may_retry(trace, operation, command, index):
                yield (
                    f"{operation} sent {command.name} again after {attempt.met}"
                    f"{_labels(attempt.labels)}, which is not to be retried"
                )


def not_too_often(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Overload retry policy, rule 2; Retryable Writes: Executing."""
    for operation, command in trace.commands():
        if _is_committed_again(operation, command):
            continue
        for index in range(len(command.attempts) - 1):
            most = most_retries(trace, operation, command, until=index)
            if index + 1 > most:
                sent = len(command.attempts)
                yield (
                    f"{operation} sent {command.name} {sent} times; after"
                    f" attempt {index + 1} {most:g} retries are allowed"
                )
                break


def _is_committed_again(operation: TracedOperation, command: SentCommand) -> bool:
    """Return whether withTransaction may repeat a commit, beside the retries that a commit has by itself."""
    return operation.name == "withTransaction" and command.name == "commitTransaction"


def as_often_as_may_be(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Executing; Client Backpressure: Overload retry policy, rule 2."""
    for operation, command in trace.commands():
        last, retries = command.last, len(command.attempts) - 1
        if is_ok(last) or not _is_conclusive(operation, command):
            continue
        if not is_failed(last.request) or last.request.end in ("client", "open"):
            continue
        if must_retry(trace, operation, command, retries) and retries < most_retries(
            trace, operation, command
        ):
            yield (
                f"{operation} gave up {command.name} after {retries} retries, though {last.met}"
                f"{_labels(last.labels)} is to be retried"
            )


def _is_conclusive(operation: TracedOperation, command: SentCommand) -> bool:
    """Return whether all that ends the attempts of a command early has been seen."""
    if operation.is_timed or operation.is_disturbed or not operation.is_alone:
        return False
    if operation.client.options.get("adaptiveRetries") and operation.client.tokens is None:
        return False
    if operation.client.options.get("adaptiveRetries") and operation.client.tokens < _MANY:  # type: ignore[operator]
        return False
    return kind_of(operation, command) != "generic" or operation.name == "runCommand"


_MANY: Final = 50
"""Tokens with which no retry was refused for want of one: a bucket does not fill so far in one case."""


def avoids_failed_servers(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Executing; Client Backpressure: Overload retry policy, rule 5."""
    if trace.topology is not Topology.SHARDED:
        return
    for operation, command in trace.commands():
        if command.in_transaction or command.name in _PINNED or not _reaches_many(trace, operation):
            continue
        servers = {
            life.seen.server for life in trace.connections if life.seen.app_name == operation.client.app_name
        }
        failed: set[str] = set()
        for before, attempt in pairwise(command.attempts):
            failed.add(before.request.server)
            known = servers - failed
            if known and attempt.request.server in failed and not operation.is_disturbed:
                yield (
                    f"{operation} sent {command.name} again to {attempt.request.server}, which had failed,"
                    f" and not to {' or '.join(sorted(known))}"
                )


_PINNED: Final = frozenset({"getMore", "killCursors", "commitTransaction", "abortTransaction"})


def _reaches_many(trace: Trace, operation: TracedOperation) -> bool:
    """Return whether the client knows more than one mongos, each of which can be reached."""
    lost = {
        attempt.request.server
        for each, command in trace.commands()
        if each.client.name == operation.client.name
        for attempt in command.attempts
        if is_network_error(attempt) or (not attempt.labels & _HARMLESS and not is_ok(attempt))
    }
    return operation.client.seeds > 1 and not lost


_HARMLESS: Final = frozenset({Label.SYSTEM_OVERLOADED, Label.RETRYABLE_WRITE})


def a_failed_command_ends_a_bulk_write(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Executing (an unordered bulk write ends as well)."""
    for operation in trace.operations:
        if operation.name not in ("bulkWrite", "insertMany", "clientBulkWrite"):
            continue
        for command, following in pairwise(operation.commands):
            if not (command.last.request.reply or {"ok": 0}).get("ok") and command.name != "killCursors":
                yield (
                    f"{operation} sent {following.name} after"
                    f" {command.name} had failed with {command.last.met}"
                )
                break


def _labels(labels: frozenset[str]) -> str:
    return f" with {', '.join(sorted(labels))}" if labels else ""

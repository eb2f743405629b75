"""Oracles of attempts: which commands are sent again, how often, and where; and what they ask of servers.

Retryable Writes, Retryable Reads, Client Backpressure, Server Selection (deprioritized servers). What may and
must be retried is asked of `permits`; here it is applied to each command, attempt by attempt. A commit that
withTransaction sends anew is left out where repetitions are counted (`is_committed_again`): it looks like a
retry and is a call of its own.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from harness.adapters.deployment import Topology
from harness.unified.server_side.oracles.permits import (
    CHANGES_STATE,
    GENERIC,
    WRITES,
    is_network_error,
    is_write_stage,
    kind_of,
    may_retry,
    most_retries,
    must_retry,
)
from harness.unified.server_side.oracles.trace import is_committed_again, is_failed, is_ok
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.unified.server_side.attempt import JudgedAttempt
    from harness.unified.server_side.oracles.trace import SentCommand, Trace, TracedOperation


def only_what_may_be_retried(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Executing; Retryable Reads: Executing; Client Backpressure: Overload retry policy."""
    for operation, command in trace.commands():
        if is_committed_again(operation, command):
            continue
        for index, attempt in enumerate(command.attempts[:-1]):
            # A request that the client itself gave up has no outcome that servers know of.
            lost = is_network_error(attempt) or attempt.request.reply is not None
            if lost and not may_retry(trace, operation, command, index):
                yield (
                    f"{operation} sent {command.name} again after {attempt.met}"
                    f"{_labels(attempt.labels)}, which is not to be retried"
                )


def not_too_often(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Overload retry policy, rule 2; Retryable Writes: Executing."""
    for operation, command in trace.commands():
        if is_committed_again(operation, command):
            continue
        for index in range(len(command.attempts) - 1):
            most = most_retries(trace, operation, command, until=index)
            # Judged after each attempt by what was met so far: an overload error raises the number for those
            # after it.
            if index + 1 > most:
                sent = len(command.attempts)
                yield (
                    f"{operation} sent {command.name} {sent} times; after"
                    f" attempt {index + 1} {most:g} retries are allowed"
                )
                break


def as_often_as_may_be(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Executing; Client Backpressure: Overload retry policy, rule 2."""
    for operation, command in trace.commands():
        last, retries = command.last, len(command.attempts) - 1
        if is_ok(last) or not _is_conclusive(trace, operation, command):
            continue
        if (
            not is_failed(last.request)
            or last.request.end in ("client", "open")
            or _found_none(operation, last)
        ):
            continue
        if must_retry(trace, operation, command, retries) and retries < most_retries(
            trace, operation, command
        ):
            yield (
                f"{operation} gave up {command.name} after {retries} retries, though {last.met}"
                f"{_labels(last.labels)} is to be retried"
            )


def _found_none(operation: TracedOperation, last: JudgedAttempt) -> bool:
    """Return whether an operation ended so late that it may have found no server for a retry.

    A retry that finds no server ends after serverSelectionTimeoutMS, and servers hear nothing of it.
    """
    limit, ended = operation.client.options.get("serverSelectionTimeoutMS", 30_000), operation.step.ended
    return ended is not None and ended - last.request.ended > limit / 1000 * _ALMOST


_ALMOST: Final = 0.95
"""Part of serverSelectionTimeoutMS after which an operation may have found no server."""


def _is_conclusive(trace: Trace, operation: TracedOperation, command: SentCommand) -> bool:
    """Return whether all that ends the attempts of a command early has been seen."""
    # A deadline ends retries, a connection that cannot be had ends them unseen, and beside another operation
    # a retry may have been counted as that one's.
    if operation.is_timed or operation.is_disturbed or not operation.is_alone:
        return False
    has_bucket = operation.client.options.get("adaptiveRetries") and not trace.edition.retries_configurable
    # A bucket that is nearly empty refuses retries by right.
    if has_bucket and (operation.client.tokens or 0) < _MANY:
        return False
    # A client that goes away leaves cursors, which end by themselves.
    if operation.name == "close" and operation.step.operation.object == operation.client.name:
        return False
    return kind_of(operation, command) != "generic" or operation.name == "runCommand"


_MANY: Final = 50
"""Tokens with which no retry was refused for want of one: a bucket does not fill so far in one case."""


def avoids_failed_servers(trace: Trace) -> Iterator[str]:
    """Retryable Writes: Executing; Client Backpressure: Overload retry policy, rules 4 and 5."""
    for operation, command in trace.commands():
        if command.in_transaction or command.name in _PINNED or operation.is_disturbed:
            continue
        if trace.topology is Topology.SHARDED and not _reaches_many(trace, operation):
            continue
        failed: set[str] = set()
        for before, attempt in pairwise(command.attempts):
            if _is_avoided(trace, operation, before):
                failed.add(before.request.server)
            # Where all have failed, any of them is right.
            others = _others(trace, operation, command) - failed
            if others and attempt.request.server in failed:
                yield (
                    f"{operation} sent {command.name} again to {attempt.request.server}, which had failed,"
                    f" and not to {' or '.join(sorted(others))}"
                )


def _is_avoided(trace: Trace, operation: TracedOperation, attempt: JudgedAttempt) -> bool:
    """Return whether the server of an attempt that failed is one that its retry does not go to first."""
    if trace.topology is Topology.SHARDED:
        return True
    if trace.topology is not Topology.REPLICA_SET or Label.SYSTEM_OVERLOADED not in attempt.labels:
        return False
    return bool(not trace.edition.retries_configurable or _retargets(trace, operation))


def _retargets(trace: Trace, operation: TracedOperation) -> bool:
    return bool(
        trace.edition.retries_configurable and operation.client.options.get("enableOverloadRetargeting")
    )


def _others(trace: Trace, operation: TracedOperation, command: SentCommand) -> frozenset[str]:
    """Return the servers that a command may go to, as far as its client has shown that it knows them.

    Of a replica set only reads with another preference than primary have a choice. A server that the client
    may have taken for lost is none: it might not be selectable just then.
    """
    if trace.topology is Topology.SHARDED:
        return frozenset(
            life.seen.server for life in trace.connections if life.seen.app_name == operation.client.app_name
        )
    mode = operation.client.options.get("readPreference", "primary")
    if command.name not in _ANYWHERE or is_write_stage(command) or kind_of(operation, command) != "read":
        return frozenset()
    if mode == "primary":
        return frozenset()
    return frozenset(trace.addresses) - _perhaps_lost(trace, operation)


_ANYWHERE: Final = frozenset({"find", "aggregate", "count", "distinct"})
"""Commands that go where the read preference says."""


def stays_where_it_is(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Overload retargeting (off unless it is asked for, from 2026-07-08 on)."""
    if trace.topology is not Topology.REPLICA_SET or not trace.edition.retries_configurable:
        return
    for operation, command in trace.commands():
        prefers = operation.client.options.get("readPreference") == "primaryPreferred"
        if not prefers or _retargets(trace, operation) or operation.is_disturbed or command.name in _PINNED:
            continue
        for before, attempt in pairwise(command.attempts):
            if before.is_overloaded and before.request.role == "primary" != attempt.request.role:
                yield (
                    f"{operation} sent {command.name} again to {attempt.request.server} after an overload of"
                    f" the primary, without enableOverloadRetargeting"
                )


_PINNED: Final = frozenset({"getMore", "killCursors", "commitTransaction", "abortTransaction"})


def _reaches_many(trace: Trace, operation: TracedOperation) -> bool:
    """Return whether the client knows more than one mongos, each of which can be reached."""
    return operation.client.seeds > 1 and not _perhaps_lost(trace, operation)


def _perhaps_lost(trace: Trace, operation: TracedOperation) -> frozenset[str]:
    """Return the servers that a client may have taken for lost at some time of the case.

    Whole cases are looked at, not the time of the attempt: how soon a client finds a server again is nobody's
    rule.
    """
    return frozenset(
        attempt.request.server
        for each, command in trace.commands()
        if each.client.name == operation.client.name
        for attempt in command.attempts
        if is_network_error(attempt) or CHANGES_STATE & {*attempt.ends}
    )


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


def cursors_stay_where_they_are(trace: Trace) -> Iterator[str]:
    """Find, getMore and killCursors: getMore; killCursors (both go to the server that has the cursor)."""
    servers: dict[tuple[str, int], set[str]] = defaultdict(set)
    for operation, command in sorted(trace.commands(), key=lambda pair: pair[1].first.seq):
        asked = command.first.command
        continued = [asked["getMore"]] if command.name == "getMore" else asked.get("cursors", ())
        for attempt in command.attempts:
            here = attempt.request.server
            for cursor in continued if command.name in ("getMore", "killCursors") else ():
                known = servers.get((operation.client.name, cursor))
                # A number of a cursor may be used by several servers at once, so all of them are right.
                if known is not None and here not in known:
                    yield f"{operation} sent {command.name} to {here}, and {min(known)} has the cursor"
            opened = ((attempt.request.reply or {}).get("cursor") or {}).get("id")
            if opened:
                servers[operation.client.name, opened].add(here)


def reads_say_their_preference(trace: Trace) -> Iterator[str]:
    """Server Selection: Passing a Read Preference."""
    for operation, command in _own(trace):
        if command.name not in _ANYWHERE or is_write_stage(command) or command.in_transaction:
            continue
        wanted = operation.client.options.get("readPreference", "primary")
        said = (command.first.command.get("$readPreference") or {}).get("mode")
        if trace.topology is Topology.SINGLE and said is not None:
            yield f"{operation} sent {command.name} with the read preference {said} to a standalone"
        elif trace.topology is not Topology.SINGLE and wanted not in ("primary", said):
            yield f"{operation} sent {command.name} with the read preference {said}, and has {wanted}"


def concerns_are_said(trace: Trace) -> Iterator[str]:
    """Read and Write Concern: On the Wire."""
    for operation, command in _own(trace):
        if "autocommit" in command.first.command:
            continue
        options, document = operation.client.options, command.first.command
        level, said = options.get("readConcernLevel"), (document.get("readConcern") or {}).get("level")
        if command.name in _ANYWHERE and said != level:
            yield f"{operation} sent {command.name} with the read concern {said}, and has {level}"
        w, wrote = options.get("w"), (document.get("writeConcern") or {}).get("w")
        if (command.name in WRITES or is_write_stage(command)) and wrote != w:
            yield f"{operation} sent {command.name} with w: {wrote}, and has {w}"


def _own(trace: Trace) -> Iterator[tuple[TracedOperation, SentCommand]]:
    """Yield the commands that a driver makes itself; those about search indexes take no concern."""
    return (
        (operation, command)
        for operation, command in trace.commands()
        if operation.name not in (*GENERIC, "listSearchIndexes")
    )


def _labels(labels: frozenset[str]) -> str:
    return f" with {', '.join(sorted(labels))}" if labels else ""

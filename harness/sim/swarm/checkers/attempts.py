"""Rules of attempts: how many there are, how long they wait, which error they end with, and when.

Where driver and server can see different things, the rule asks the one that cannot be wrong: attempts are
counted as servers received them, waits and tokens as the client's events tell them. What neither tells is
followed at both ends (`_between`) or passed over, for a false alarm costs more than a bug that a later seed
shows. The numbers are those of `harness.unified.server_side.rules`, which judges real drivers too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from driver import errors
from driver.events import (
    CommandFailedEvent,
    CommandStartedEvent,
    CommandSucceededEvent,
    ConnectionCheckOutFailedEvent,
    ConnectionCheckOutStartedEvent,
    ServerDescriptionChangedEvent,
    ServerHeartbeatSucceededEvent,
    TopologyDescriptionChangedEvent,
)
from harness.sim.swarm.history import READS, TRANSACTIONS, Violation, checker, number_of
from harness.unified.server_side.rules import EDITIONS, EXACT, TRANSACTION_BACKOFF_MAX, overload_backoff
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping, Sequence

    from driver.events import DriverEvent
    from harness.sim.swarm.history import ClientSetup, Heard, RunHistory, WorkloadOperation
    from harness.unified.server_side.seen import SeenRequest


UNCOUNTED: Final = frozenset({"getMore", "killCursors", "commitTransaction"})
"""Commands that an operation sends again without retrying: withTransaction commits until it knows."""

_Command: TypeAlias = "tuple[int, Hashable, str, Hashable]"


@checker("attempts", "No command is attempted more often than its edition allows.")
def attempts(history: RunHistory) -> Iterator[Violation]:
    """Yield each command that servers have received too often.

    Counted is what servers have received. The numbers are those of `harness.unified.server_side.rules`.
    """
    operations = {operation.number: operation for operation in history.operations}
    clients = {client.number: client for client in history.clients}
    refused = {
        heard.operation for heard in history.events if isinstance(heard.event, ConnectionCheckOutFailedEvent)
    }
    for (number, _, name, _), requests in _commands(history.ending.requests).items():
        operation = operations.get(number)
        client = None if operation is None else clients.get(operation.client)
        if operation is None or client is None:
            continue
        most = most_attempts(operation, client, name, requests, refused=number in refused)
        if len(requests) > most:
            what = f"{name} of operation {number} ({operation.kind}) was attempted {len(requests)} times"
            yield Violation(f"{what}, {most:g} allowed by {client.edition}", (number,))


def most_attempts(
    operation: WorkloadOperation,
    client: ClientSetup,
    name: str,
    requests: Sequence[SeenRequest],
    *,
    refused: bool,
) -> float:
    """Return how often a command may be attempted (Client Backpressure: Overload retry policy, rule 2).

    `refused` says that the operation got no connection once, which may have been an overload error too.
    """
    ends = name == "abortTransaction"
    enabled = ends or (client.retry_reads if operation.kind in READS else client.retry_writes)
    if not enabled:
        return 1
    overload = 1 + overload_retries(client)
    if any(is_overloaded(request.reply) for request in requests):
        return overload
    within = operation.kind in TRANSACTIONS and not ends
    ordinary = 1 if within else inf if operation.deadline < inf else 2
    return max(ordinary, overload) if refused else ordinary


def overload_retries(client: ClientSetup) -> int:
    """Return how many retries an operation has once it has met an overload."""
    edition = EDITIONS[client.edition]
    configured = client.max_adaptive_retries if edition.retries_configurable else None
    return edition.overload_retries if configured is None else configured


def is_overloaded(reply: Mapping[str, Any] | None) -> bool:
    """Return whether a reply says that its server was overloaded."""
    return Label.SYSTEM_OVERLOADED in (reply or {}).get("errorLabels", ())


def _commands(requests: Sequence[SeenRequest]) -> Mapping[_Command, list[SeenRequest]]:
    """Return the attempts of each command: of one operation, step and transaction."""
    commands: dict[_Command, list[SeenRequest]] = defaultdict(list)
    owners: dict[Hashable, int] = {}
    for request in requests:
        command = request.command
        lsid = command.get("lsid")
        transaction = ((bytes(lsid["id"]) if isinstance(lsid, dict) else None), command.get("txnNumber"))
        number = number_of(command.get("comment"))
        if number is not None and "autocommit" in command:
            owners[transaction] = number
        number = owners.get(transaction) if number is None else number
        if number is not None and request.name not in UNCOUNTED:
            step = repr(command.get("comment"))
            within = transaction if "autocommit" in command else None
            commands[number, step, request.name, within].append(request)
    return commands


NEWS: Final = (ServerHeartbeatSucceededEvent, ServerDescriptionChangedEvent, TopologyDescriptionChangedEvent)
"""Events that may end a server selection."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed attempt: when, how many attempts there had been, and the instant by which a retry begins."""

    at: float
    attempts: int
    until: float


@checker("waits", "No wait before a retry is longer than its bound.")
def waits(history: RunHistory) -> Iterator[Violation]:
    """Yield each retry that began later than its bound allows.

    After an overload that bound is the backoff of the edition; after any other error a retry follows at once.
    A retry that had to wait for a server to be found is not judged: news of the deployment ends such a wait.
    """
    clients = {client.number: client for client in history.clients}
    operations = {operation.number: operation for operation in history.operations}
    news: dict[int, list[float]] = defaultdict(list)
    by_operation: dict[int, list[Heard]] = defaultdict(list)
    for heard in history.events:
        if isinstance(heard.event, NEWS):
            news[heard.client].append(heard.at)
        elif heard.operation is not None:
            by_operation[heard.operation].append(heard)
    for number, events in by_operation.items():
        operation = operations.get(number)
        if operation is not None and operation.client in clients:
            yield from _of(operation, clients[operation.client], events, news[operation.client])


def _of(
    operation: WorkloadOperation, client: ClientSetup, events: Sequence[Heard], news: Sequence[float]
) -> Iterator[Violation]:
    failure: _Failure | None = None
    attempts = 0
    asks = False
    for heard in events:
        match heard.event:
            case ConnectionCheckOutStartedEvent():
                if failure is not None and _is_late(failure, heard.at, news):
                    yield _violation(operation, failure, heard.at)
                failure, attempts, asks = None, attempts + 1, True
            case CommandStartedEvent():
                failure, asks = None, False
            case CommandSucceededEvent(reply=reply) if "writeConcernError" not in reply:
                attempts = 0
            case ConnectionCheckOutFailedEvent() if not asks:
                pass
            case CommandSucceededEvent() | CommandFailedEvent() | ConnectionCheckOutFailedEvent():
                error = getattr(heard.event, "failure", None) or getattr(heard.event, "error", None)
                until = heard.at + _most_wait(operation, client, attempts, error)
                # The end of a check-out may be told in the task of another operation, which made it end. So
                # this one may not be the operation's own: the latest instant of all counts.
                if failure is None or until > failure.until:
                    failure = _Failure(heard.at, attempts, until)
            case _:
                pass


def _is_late(failure: _Failure, at: float, news: Sequence[float]) -> bool:
    if at <= failure.until + EXACT:
        return False
    place = bisect_left(news, failure.until)
    return place == len(news) or news[place] > at


def _violation(operation: WorkloadOperation, failure: _Failure, at: float) -> Violation:
    what = f"retry {failure.attempts} of operation {operation.number} ({operation.kind}) began"
    allowed = failure.until - failure.at
    text = f"{what} {at - failure.at:.3f} s after the failure, {allowed:.3g} s allowed"
    return Violation(text, (operation.number,))


def _most_wait(operation: WorkloadOperation, client: ClientSetup, retry: int, error: Any) -> float:
    """Return the longest wait after a failed attempt, in seconds."""
    # What fails in a transaction may be followed by a retry of the whole transaction.
    most = TRANSACTION_BACKOFF_MAX if operation.kind in TRANSACTIONS else 0.0
    if Label.SYSTEM_OVERLOADED in getattr(error, "labels", ()):
        reply: Mapping[str, Any] = getattr(error, "response", None) or {}
        most = max(most, overload_backoff(EDITIONS[client.edition], retry, reply))
    return most


CAPACITY: Final = 1000.0
"""The tokens with which a client's bucket begins, and the most that it holds."""
EARNED: Final = 0.1
"""Tokens for a success."""
_ROUNDING: Final = 1e-6


@checker("tokens", "Tokens are neither lost nor made, in clients' buckets for retries and servers' limiters.")
def tokens(history: RunHistory) -> Iterator[Violation]:
    """Yield each client and each limiter whose tokens are not what was earned and taken.

    A client's bucket is followed through its events (Client Backpressure: Token Bucket): a success earns a
    tenth, one on a retry what it had cost besides, a retry after an overload takes one, and one that fails
    for another reason gives it back. Where events do not tell (an attempt that got no connection, a retry
    that found no server), both ends of what may have happened are followed. A limiter admits no more than it
    had and what accrued since.
    """
    by_client: dict[int, list[DriverEvent]] = defaultdict(list)
    for heard in history.events if history.ending.tokens else ():
        by_client[heard.client].append(heard.event)
    for client, tokens in history.ending.tokens.items():
        least, most = _between(by_client[client])
        if not least - _ROUNDING <= tokens <= most + _ROUNDING:
            allowed = f"{most:g}" if least == most else f"{least:g} to {most:g}"
            yield Violation(f"client {client} has {tokens:g} tokens for retries, and {allowed} by its events")
    for limit in history.limits:
        most = limit.available_at_start + limit.rate * (limit.end - limit.start) + limit.credit
        if limit.admitted + limit.available_at_end > most + _ROUNDING:
            text = f"the limiter of {limit.kind} on {limit.server} admitted {limit.admitted} and has"
            since = f"from {limit.start:g} s to {limit.end:g} s"
            yield Violation(f"{text} {limit.available_at_end:g} tokens left, of {most:g} that it had {since}")


@dataclass(slots=True)
class _Attempt:
    """One attempt of a command. `retry` says that another went before it, `retried` that one follows."""

    name: str
    retry: bool
    ended: DriverEvent | None = None
    retried: bool = False


def _between(events: Sequence[DriverEvent]) -> tuple[float, float]:
    """Return the least and the most tokens that a bucket may hold after these events."""
    attempts = _attempts(events)
    least = most = CAPACITY
    for event in events:
        if isinstance(event, ConnectionCheckOutFailedEvent):
            # The attempt may have been one after an overload, or met one; the next one counts as a retry.
            change = -1.0, 2.0
        elif isinstance(event, CommandSucceededEvent | CommandFailedEvent) and event.request_id in attempts:
            change = _change(attempts[event.request_id])
        else:
            continue
        least, most = (min(CAPACITY, each + by) for each, by in zip((least, most), change, strict=True))
    unended = sum(each.ended is None for each in attempts.values())
    return max(0.0, least - unended), min(CAPACITY, most + 2 * unended)


def _attempts(events: Sequence[DriverEvent]) -> dict[int, _Attempt]:
    """Return the attempts by the ids of their requests. What follows a success is another command."""
    attempts: dict[int, _Attempt] = {}
    newest: dict[int, _Attempt] = {}
    for event in events:
        if isinstance(event, CommandStartedEvent):
            before = newest.get(event.operation_id)
            retry = before is not None and before.name == event.command_name and _failed(before.ended)
            if retry and before is not None:
                before.retried = True
            newest[event.operation_id] = attempts[event.request_id] = _Attempt(event.command_name, retry)
        elif isinstance(event, CommandSucceededEvent | CommandFailedEvent) and event.request_id in attempts:
            attempts[event.request_id].ended = event
    return attempts


def _failed(ended: DriverEvent | None) -> bool:
    return not isinstance(ended, CommandSucceededEvent) or "writeConcernError" in ended.reply


def _change(attempt: _Attempt) -> tuple[float, float]:
    """Return by how many tokens an attempt changed the bucket, at least and at most."""
    ended, success = attempt.ended, EARNED + attempt.retry
    if isinstance(ended, CommandSucceededEvent):
        if not _failed(ended):
            return success, success
        # An error of a write concern is an error to some commands, and a reply to others.
        paid = is_overloaded(ended.reply)
        return -float(paid), success
    assert isinstance(ended, CommandFailedEvent)
    if Label.SYSTEM_OVERLOADED not in getattr(ended.failure, "labels", ()):
        given_back = float(attempt.retry)
        # A retry that found no server is an attempt as well, and no event tells of it.
        return given_back, given_back + (not attempt.retried)
    return -1.0, -1.0 if attempt.retried else 1.0


_SEVERAL: Final = TRANSACTIONS | {"batch", "scan"}
"""The kinds whose commands are several, each with errors of its own."""


@checker("errors", "Of several errors the one is raised that tells most.")
def hidden_errors(history: RunHistory) -> Iterator[Violation]:
    """Yield each operation that was told that nothing had happened, though an attempt may have done it.

    An error of an attempt that reached no server, or one labelled NoWritesPerformed, would let the caller
    believe that nothing was written; so it never stands for an earlier one that says less for certain.
    """
    doubts: dict[int | None, Exception] = {}
    for heard in history.events:
        event = heard.event
        if isinstance(event, CommandFailedEvent) and isinstance(event.failure, errors.DriverError):
            failure = event.failure
            if failure.attempted and not failure.has_label(Label.NO_WRITES_PERFORMED):
                doubts.setdefault(heard.operation, failure)
    for operation in history.operations:
        doubt = doubts.get(operation.number)
        if doubt is None or operation.outcome != "failed" or operation.kind in _SEVERAL:
            continue
        if not operation.attempted or Label.NO_WRITES_PERFORMED in operation.labels:
            told = f"{operation.kind} {operation.number} of {operation.key} failed with {operation.error}"
            text = f"{told}, which hides {type(doubt).__name__} of an attempt that a server may have executed"
            yield Violation(text, (operation.number,))


GRACE: Final = 0.01
"""Seconds after the deadline: more than the clock rounds, less than a bad network takes."""


@checker("deadlines", "Every operation returns, and none outlives its deadline.")
def deadlines(history: RunHistory) -> Iterator[Violation]:
    """Yield each operation that returned too late, or never.

    What ends a transaction after its deadline has all of the timeout once more, so that the server's locks
    are freed, and so has what closes a cursor (Client Side Operations Timeout: Convenient Transactions API,
    Cursors).
    """
    for operation in history.operations:
        until = latest_end(operation)
        if operation.completed == inf:
            text = f"{operation.kind} {operation.number} never returned"
        elif operation.completed > until + GRACE:
            late = operation.completed - operation.deadline
            text = f"{operation.kind} {operation.number} returned {late:.3f} s after its deadline"
        else:
            continue
        yield Violation(text, (operation.number,))


def latest_end(operation: WorkloadOperation) -> float:
    """Return the instant by which an operation must have returned."""
    again = (operation.kind in TRANSACTIONS) + (operation.kind in ("read_accounts", "scan"))
    timeout = operation.deadline - operation.invoked
    return operation.deadline + again * timeout if again else operation.deadline


@checker("recovery", "After the last fault, operations succeed again within a bound.")
def recovery(history: RunHistory) -> Iterator[Violation]:
    """Yield each operation that began when all had recovered, and did not succeed."""
    recovered = history.calm_from + history.recovery
    for operation in history.operations:
        if operation.invoked > recovered and operation.outcome == "failed":
            after = operation.invoked - history.calm_from
            what = f"{operation.kind} {operation.number} failed {after:.3f} s after the last fault"
            text = f"{what}, where {history.recovery:g} s are allowed: {operation.error}"
            yield Violation(text, (operation.number,))

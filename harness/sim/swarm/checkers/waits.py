"""No wait before a retry is longer than its bound.

After an overload that bound is the backoff of the edition; after any other error a retry follows at once. A
retry that had to wait for a server to be found is not judged: news of the deployment ends such a wait.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

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
from harness.sim.swarm.checkers.violation import Violation
from harness.sim.swarm.history import TRANSACTIONS
from harness.unified.server_side.rules import EDITIONS, EXACT, TRANSACTION_BACKOFF_MAX, overload_backoff
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.sim.swarm.history import ClientSetup, Heard, RunHistory, WorkloadOperation


NEWS: Final = (ServerHeartbeatSucceededEvent, ServerDescriptionChangedEvent, TopologyDescriptionChangedEvent)
"""Events that may end a server selection."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A failed attempt: when, how many attempts there had been, and the instant by which a retry begins."""

    at: float
    attempts: int
    until: float


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each retry that began later than its bound allows."""
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

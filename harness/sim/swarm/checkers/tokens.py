"""Tokens are neither lost nor made: those of a client's retry bucket, and those of a server's rate limiter.

A client's bucket is followed through its events (Client Backpressure: Token Bucket): a success earns a tenth,
one on a retry what it had cost besides, a retry after an overload takes one, and one that fails for another
reason gives it back. Where events do not tell (an attempt that got no connection, a retry that found no
server), both ends of what may have happened are followed. A limiter admits no more than it had and what
accrued since.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from driver.events import (
    CommandFailedEvent,
    CommandStartedEvent,
    CommandSucceededEvent,
    ConnectionCheckOutFailedEvent,
)
from harness.sim.swarm.checkers.attempts import is_overloaded
from harness.sim.swarm.checkers.violation import Violation
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from driver.events import DriverEvent
    from harness.sim.swarm.history import Limit, RunHistory

CAPACITY: Final = 1000.0
"""The tokens with which a client's bucket begins, and the most that it holds."""
EARNED: Final = 0.1
"""Tokens for a success."""
_ROUNDING: Final = 1e-6


def check(history: RunHistory) -> Iterator[Violation]:
    """Yield each client and each limiter whose tokens are not what was earned and taken."""
    by_client: dict[int, list[DriverEvent]] = defaultdict(list)
    for heard in history.events if history.ending.tokens else ():
        by_client[heard.client].append(heard.event)
    for client, tokens in history.ending.tokens.items():
        least, most = _between(by_client[client])
        if not least - _ROUNDING <= tokens <= most + _ROUNDING:
            allowed = f"{most:g}" if least == most else f"{least:g} to {most:g}"
            yield Violation(f"client {client} has {tokens:g} tokens for retries, and {allowed} by its events")
    for limit in history.limits:
        yield from _limited(limit)


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


def _limited(limit: Limit) -> Iterator[Violation]:
    most = limit.available_at_start + limit.rate * (limit.end - limit.start) + limit.credit
    if limit.admitted + limit.available_at_end > most + _ROUNDING:
        text = f"the limiter of {limit.kind} on {limit.server} admitted {limit.admitted} and has"
        since = f"from {limit.start:g} s to {limit.end:g} s"
        yield Violation(f"{text} {limit.available_at_end:g} tokens left, of {most:g} that it had {since}")

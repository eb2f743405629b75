"""Oracles of check-outs: who waits for how long, who is served first, and with which connection.

They go by instants at which things happen together, so most are asked in virtual time alone: on the wall
clock other threads need a while for the same.

CMAP: WaitQueue, Checking Out a Connection, Background Thread. Events do not say which check-out a connection
was lent to; `durationMS` does, indirectly, for a check-out began that long before it ended. `asking` less the
connections that are being established is the number of those who really wait: whoever has a connection made
for himself waits for the handshake and not for the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.unified.server_side.attempts import milliseconds
from harness.unified.server_side.oracles.pool_events import final_lives, lives, take
from harness.unified.server_side.oracles.pool_life import (
    CHECK_OUT_FAILED,
    CHECKED_IN,
    CHECKED_OUT,
    CLOSED,
    POOL_CLEARED,
    POOL_CLOSED,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.adapters.base import Event
    from harness.unified.server_side.oracles.pool_life import PoolLife
    from harness.unified.server_side.oracles.trace import Trace, TracedClient

_EXACT: Final = 1e-4
"""Seconds by which two instants of a virtual clock count as one."""


def who_waits_longest_is_served_first(trace: Trace) -> Iterator[str]:
    """CMAP: WaitQueue (fairness). A duration tells when a check-out began."""
    if trace.timing.round_trip is None:
        return
    for client in trace.clients:
        answers = _answers(trace, client)
        for where, life, event in lives(trace, client):
            take(life, event)
            if event.kind != CHECKED_OUT:
                continue
            began = event.at - event.fields.get("durationMS", 0) / 1000
            number, pending = event.fields["connectionId"], list(life.connections.values()).count("pending")
            if event.at - began <= _EXACT and not life.asking:
                continue
            earlier = sum(
                begun < began - _EXACT and seq > event.seq and at - event.at > _EXACT
                for begun, at, seq in answers.get(where, ())
            )
            # Those for whom a connection is being made may be answered later by right.
            if earlier > pending:
                yield f"{where}: connection {number} was lent, and {earlier} had waited for longer"


def _answers(trace: Trace, client: TracedClient) -> dict[str, list[tuple[float, float, int]]]:
    """Return when each check-out of a pool began and was answered, with the place of that among events."""
    found: dict[str, list[tuple[float, float, int]]] = {}
    for where, life, event in lives(trace, client):
        if event.kind in (CHECKED_OUT, CHECK_OUT_FAILED):
            began = event.at - event.fields.get("durationMS", 0) / 1000
            found.setdefault(where, []).append((began, event.at, event.seq))
        take(life, event)
    return found


def check_outs_wait_no_longer_than_they_may(trace: Trace) -> Iterator[str]:
    """CMAP: waitQueueTimeoutMS; Clearing a Connection Pool (the queue is emptied); Closing a Pool."""
    for client in trace.clients:
        limit = client.options.get("waitQueueTimeoutMS", 0) / 1000
        timed = any(operation.is_timed for operation in trace.operations if operation.client is client)
        before: dict[str, float] = {}
        for where, life, event in lives(trace, client):
            if trace.timing.round_trip is not None:
                waited = event.at - before.setdefault(where, event.at)
                # A clear or a close empties the queue at its own instant, so only a later one shows who was
                # left.
                waiting = life.asking - list(life.connections.values()).count("pending")
                if waited > _EXACT and waiting > 0 and life.state in ("paused", "closed"):
                    yield f"{where}: {waiting} check-outs wait, and the pool is {life.state}"
            if event.kind in (CHECKED_OUT, CHECK_OUT_FAILED) and not timed:
                yield from (f"{where}: {why}" for why in _wrong_wait(trace, life, event, limit))
            before[where] = event.at
            take(life, event)


def _wrong_wait(trace: Trace, life: PoolLife, event: Event, limit: float) -> Iterator[str]:
    """Yield what is wrong with how long a check-out waited, which ends with an event."""
    took = event.fields.get("durationMS", 0) / 1000
    exact = trace.timing.round_trip is not None
    late = _EXACT if exact else _BUSY + took / 4
    is_new = event.fields.get("connectionId") not in life.used
    # The time of a handshake is not limited by waitQueueTimeoutMS, so a first use is left out.
    if event.kind == CHECKED_OUT and limit and took > limit + late and not is_new:
        yield f"a check-out took {milliseconds(took)}, waitQueueTimeoutMS is {milliseconds(limit)}"
    if event.kind == CHECK_OUT_FAILED and event.fields.get("reason") == "timeout":
        if took < limit - late:
            yield (
                f"a check-out timed out after {milliseconds(took)},"
                f" waitQueueTimeoutMS is {milliseconds(limit)}"
            )
        pending = list(life.connections.values()).count("pending")
        if exact and not life.services and life.asking <= pending and life.state == "ready":
            yield "a check-out timed out while a connection was being established for it"


_BUSY: Final = 0.15
"""Seconds by which a check-out may be late on the wall clock, beside a quarter of its time."""


def failed_check_outs_have_a_cause(trace: Trace) -> Iterator[str]:
    """CMAP: ConnectionCheckOutFailedEvent (connectionError), Checking Out a Connection."""
    if trace.timing.round_trip is None:
        return
    for client in trace.clients:
        causes: dict[str, float] = {}
        for where, life, event in lives(trace, client):
            if event.kind in (CLOSED, POOL_CLEARED, POOL_CLOSED):
                causes[where] = event.at
            # At the same instant: the failure and the check-out that it ends are told together.
            is_error = event.kind == CHECK_OUT_FAILED and event.fields.get("reason") == "connectionError"
            if is_error and life.state == "ready" and event.at - causes.get(where, -1.0) > _EXACT:
                yield f"{where}: a check-out failed as connectionError, and no connection had failed"
            take(life, event)


def what_was_used_last_is_lent_first(trace: Trace) -> Iterator[str]:
    """CMAP: Checking Out a Connection (available connections are a stack)."""
    if trace.timing.round_trip is None:
        return
    for client in trace.clients:
        used: dict[str, dict[int, int]] = {}
        for where, life, event in lives(trace, client):
            places = used.setdefault(where, {})
            if event.kind == CHECKED_OUT and life.state == "ready" and not life.services:
                number = event.fields["connectionId"]
                newer = [
                    each for each in life.available() if places.get(each, -1) > places.get(number, event.seq)
                ]
                if newer:
                    yield f"{where}: connection {number} was lent, and {newer[0]} had been used after it"
            if event.kind == CHECKED_IN:
                # By order: several connections may come back at one instant.
                places[event.fields["connectionId"]] = event.seq
            take(life, event)


def perished_connections_leave_by_themselves(trace: Trace) -> Iterator[str]:
    """CMAP: Background Thread (perished connections are removed)."""
    if trace.timing.round_trip is None:
        return
    for client in trace.clients:
        limit = client.options.get("maxIdleTimeMS", 0) / 1000
        for where, life, _ in final_lives(trace, client):
            if life.services or life.state == "closed":
                continue
            for number, state in life.connections.items():
                rests = trace.ended - life.since.get(number, trace.ended)
                stale = life.is_stale(number) and trace.ended - life.cleared > _SWEPT and rests > _SWEPT
                if state == "available" and (stale or (limit and rests > limit + _SWEPT)):
                    how = "stale" if stale else f"idle for {milliseconds(rests)}"
                    yield f"{where}: connection {number} is {how}, and was not closed in the background"


_SWEPT: Final = 1.2
"""Seconds in which a background thread has looked at every connection."""


def a_failed_handshake_is_told_to_its_caller(trace: Trace) -> Iterator[str]:
    """CMAP: Checking Out a Connection (an error of establishing is the caller's)."""
    if trace.timing.round_trip is None:
        return
    for client in trace.clients:
        if client.options.get("minPoolSize"):
            continue  # what was made for the pool has no caller
        due: dict[str, tuple[int, float]] = {}
        for where, life, event in lives(trace, client):
            if event.kind == CHECK_OUT_FAILED:
                due.pop(where, None)
            if where in due and event.at - due[where][1] > _EXACT:
                number, _ = due.pop(where)
                yield f"{where}: connection {number} could not be established, and nobody was told"
            failed = event.kind == CLOSED and life.connections.get(event.fields["connectionId"]) == "pending"
            pending = list(life.connections.values()).count("pending")
            if failed and event.fields.get("reason") == "error" and life.asking >= pending:
                due[where] = event.fields["connectionId"], event.at
            take(life, event)

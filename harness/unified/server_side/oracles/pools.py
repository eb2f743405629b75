"""Oracles of pools: what their events tell, against the grammar of the specification and against the wire.

CMAP: Events, Connection Pool, Closing, Clearing; SDAM: Error Handling. Most read the events of a pool one
after the other beside its state before each (`pool_events.lives`), and must have that take the event in
themselves (`take`) before the next one comes: an early `continue` would leave the pool behind. The wire comes
in where an event needs a cause: whether servers saw an error before a clear, and whether one was cleared
after an error that they saw.

On the wall clock several threads tell events, so that a clear may be told after the close that it caused;
`life.exact` or the round trip says where the order can be relied on.
"""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.deployment import Topology
from harness.unified.server_side.oracles.command_events import FAILED
from harness.unified.server_side.oracles.permits import is_network_error
from harness.unified.server_side.oracles.pool_events import final_lives, lives, take
from harness.unified.server_side.oracles.pool_life import (
    CHECK_OUT_FAILED,
    CHECK_OUT_STARTED,
    CHECKED_IN,
    CHECKED_OUT,
    CLOSED,
    CREATED,
    POOL_CLEARED,
    POOL_CLOSED,
    POOL_CREATED,
    READY,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.adapters.base import Event
    from harness.unified.server_side.oracles.pool_life import PoolLife
    from harness.unified.server_side.oracles.trace import Trace, TracedClient


def pools_keep_the_grammar(trace: Trace) -> Iterator[str]:
    """CMAP: Events; Connection Pool; Connection."""
    for where, life, event in lives(trace):
        yield from (f"{where}: {why}" for why in take(life, event))


def connections_are_closed_for_a_reason(trace: Trace) -> Iterator[str]:
    """CMAP: ConnectionClosedEvent; Closing a Connection Pool."""
    for client in trace.clients:
        for where, life, event in lives(trace, client):
            if event.kind == CLOSED:
                number, reason = event.fields["connectionId"], event.fields.get("reason")
                # Another thread may tell of the clear later.
                is_early = reason == "stale" and not life.exact and any(client.of_kind(POOL_CLEARED))
                if not is_early:
                    yield from (f"{where}: {why}" for why in _wrong_reason(client, life, number, reason))
                # How long a connection rested is known in virtual time alone.
                if life.exact and reason == "idle":
                    yield from _not_idle(where, client, life, event)
            take(life, event)


def _not_idle(where: str, client: TracedClient, life: PoolLife, event: Event) -> Iterator[str]:
    number, limit = event.fields["connectionId"], client.options.get("maxIdleTimeMS", 0) / 1000
    rested = event.at - life.since.get(number, -inf)
    if life.connections.get(number) == "available" and rested < limit - _EXACT:
        yield f"{where}: connection {number} was closed as idle, {rested * 1000:g} ms after its use"


def a_connection_that_failed_is_closed_for_it(trace: Trace) -> Iterator[str]:
    """CMAP: ConnectionClosedEvent (error)."""
    if trace.timing.round_trip is None:
        return
    lost = {
        attempt.request.request_id
        for _operation, command in trace.commands()
        for attempt in command.attempts
        if is_network_error(attempt)
    }
    for client in trace.clients:
        broken: set[tuple[Any, Any]] = set()
        for event in client.of_kind(FAILED, CLOSED):
            if event.kind == FAILED:
                if event.fields.get("requestId") in lost:
                    broken.add((event.fields.get("connectionId"), event.fields.get("driverConnectionId")))
                continue
            key = event.fields["address"], event.fields["connectionId"]
            # A pool that was closed meanwhile closes it for that, whichever came first.
            if key in broken and event.fields.get("reason") not in ("error", "poolClosed"):
                yield (
                    f"pool of {key[0]} in {client.name}: connection {key[1]} was lost under a command,"
                    f" and closed as {event.fields.get('reason')}"
                )


def _wrong_reason(client: TracedClient, life: PoolLife, number: int, reason: Any) -> Iterator[str]:
    if reason == "idle" and not client.options.get("maxIdleTimeMS"):
        yield f"connection {number} was closed as idle, without maxIdleTimeMS"
    if reason == "stale" and not life.services and not life.is_stale(number):
        yield f"connection {number} was closed as stale, and no clear had made it so"
    if reason == "idle" and not life.services and life.is_stale(number):
        yield f"connection {number} was closed as idle, and a clear had made it stale"
    if reason == "poolClosed" and life.connections.get(number) == "in use":
        yield f"connection {number} was closed with its pool while it was in use"


def check_outs_fail_for_a_reason(trace: Trace) -> Iterator[str]:
    """CMAP: ConnectionCheckOutFailedEvent."""
    for client in trace.clients:
        # A deadline of an operation ends its check-out as a timeout, too.
        timed = client.options.get("waitQueueTimeoutMS") or any(each.is_timed for each in trace.operations)
        for where, life, event in lives(trace, client):
            if event.kind == CHECK_OUT_FAILED:
                reason = event.fields.get("reason")
                if reason == "timeout" and (not timed or life.state == "paused"):
                    yield f"{where}: a check-out failed by a timeout, and the pool is {life.state}"
                closing = life.state == "closed" or any(
                    step.operation.name == "close" for step in trace.steps
                )
                if (reason == "poolClosed" and not closing) or (
                    life.state == "closed" and reason != "poolClosed"
                ):
                    yield f"{where}: a check-out failed as {reason}, and the pool is {life.state}"
            take(life, event)


def connections_are_numbered(trace: Trace) -> Iterator[str]:
    """CMAP: Connection (the numbers of a pool are 1, 2, 3 …)."""
    for client in trace.clients:
        newest: dict[str, int] = {}
        for event in client.of_kind(POOL_CREATED, CREATED):
            address = event.fields["address"]
            if event.kind == POOL_CREATED:
                newest[address] = 0
                continue
            number = event.fields["connectionId"]
            if number != newest.get(address, 0) + 1:
                yield (
                    f"pool of {address} in {client.name}: connection"
                    f" {number} follows {newest.get(address, 0)}"
                )
            newest[address] = number


def durations_are_those_of_the_events(trace: Trace) -> Iterator[str]:
    """CMAP: durationMS of events."""
    for client in trace.clients:
        asked: dict[str, list[float]] = defaultdict(list)
        made: dict[tuple[str, int], float] = {}
        for event in client.of_kind(CHECK_OUT_STARTED, CHECK_OUT_FAILED, CHECKED_OUT, CREATED, READY):
            address, number = event.fields["address"], event.fields.get("connectionId", 0)
            told = event.fields.get("durationMS")
            if event.kind == CHECK_OUT_STARTED:
                asked[address].append(event.at)
            elif event.kind == CREATED:
                made[address, number] = event.at
            elif event.kind == READY and (address, number) in made:
                yield from _differs(trace, client, event, told, [made[address, number]])
            elif event.kind in (CHECKED_OUT, CHECK_OUT_FAILED) and asked[address]:
                yield from _differs(trace, client, event, told, asked[address])
                # Which check-out has ended no event says: the one whose beginning fits the duration best.
                asked[address].remove(_nearest(event, told, asked[address]))


def _nearest(event: Event, told: float | None, begins: list[float]) -> float:
    """Return which of several instants a duration was most likely measured from."""
    return min(begins, key=lambda began: abs(event.at - began - (told or 0) / 1000))


def _differs(
    trace: Trace, client: TracedClient, event: Event, told: float | None, begins: list[float]
) -> Iterator[str]:
    took = event.at - _nearest(event, told, begins)
    exact = trace.timing.round_trip is not None
    off = abs(took - (told or 0) / 1000)
    if told is not None and (off > _EXACT if exact else off > _NOT_THE_SAME * max(took, 1.0)):
        kind = event.kind.removesuffix("Event")
        yield f"{client.name}: {kind} tells {told:g} ms, and it took {took * 1000:g} ms"


_EXACT: Final = 1e-4
_NOT_THE_SAME: Final = 0.5
"""Part of a time on the wall clock by which its measure may be off: machines are busy."""


def pools_tell_their_options(trace: Trace) -> Iterator[str]:
    """CMAP: PoolCreatedEvent (options that are not the defaults)."""
    for client in trace.clients:
        given = {name: value for name, value in client.options.items() if name in _OPTIONS}
        for event in client.of_kind(POOL_CREATED):
            told = event.fields.get("options")
            if not isinstance(told, dict):
                continue
            for name, value in given.items():
                # An option that is set to its default may be told or not.
                if value != _OPTIONS[name] and told.get(name) != value:
                    yield f"{client.name}: poolCreated tells {name} {told.get(name)}, the client has {value}"
            for name in _OPTIONS:
                if name in told and name not in given:
                    yield f"{client.name}: poolCreated tells {name} {told[name]}, which nobody gave"


_OPTIONS: Final[Mapping[str, int]] = {
    "maxPoolSize": 100,
    "minPoolSize": 0,
    "maxConnecting": 2,
    "maxIdleTimeMS": 0,
    "waitQueueTimeoutMS": 0,
}
"""Options of a pool, with their defaults."""


def lost_connections_clear_the_pool_once(trace: Trace) -> Iterator[str]:
    """SDAM: Error Handling (network errors); CMAP: Clearing a Connection Pool."""
    if trace.topology is Topology.LOAD_BALANCED:
        yield from _services(trace)
        return
    for client in trace.clients:
        cleared = list(client.of_kind(POOL_CLEARED))
        for operation, command in trace.commands():
            if operation.client is not client or operation.is_timed or not operation.is_alone:
                continue
            for attempt in command.attempts:
                server = attempt.request.server
                if attempt.request.end != "server" or client.timed_out(attempt.request):
                    continue
                address = trace.addresses.get(server)
                if not any(
                    event.fields.get("address") == address and event.seq > attempt.request.seq
                    for event in cleared
                ) and any(event.seq > attempt.request.ended_seq for event in client.events):
                    yield f"{operation} lost its connection to {server}, and the pool was not cleared"


def _services(trace: Trace) -> Iterator[str]:
    """Judge clears behind a load balancer, each of which is of one service."""
    for client in trace.clients:
        for event in client.of_kind(POOL_CLEARED):
            if event.fields.get("serviceId") is None:
                yield f"{client.name}: poolCleared behind a load balancer names no service"
        lost = sum(
            attempt.request.end == "server" and not client.timed_out(attempt.request)
            for operation, command in trace.commands()
            if operation.client is client
            for attempt in command.attempts
        )
        if lost and not any(client.of_kind(POOL_CLEARED)):
            yield f"{client.name} lost {lost} connections behind a load balancer, and cleared no service"


def nothing_else_clears_the_pool(trace: Trace) -> Iterator[str]:
    """SDAM: Error Handling (what clears a pool, and what does not).

    Any trouble before the clear is taken for its cause, however long ago: the rule finds clears without any,
    not those that came late.
    """
    for client in trace.clients:
        for event in client.of_kind(POOL_CLEARED):
            if not _has_cause(trace, client, event):
                yield (
                    f"{client.name}: the pool of {event.fields.get('address')}"
                    f" was cleared, and no error was its cause"
                )


def _has_cause(trace: Trace, client: TracedClient, event: Event) -> bool:
    """Return whether servers saw, before a clear, what is to clear the pool of an address."""
    address = event.fields.get("address")
    # Monitors may have lost checks from then on of which no record has anything.
    if trace.greetings_fail < event.seq:
        return True
    for life in trace.connections:
        if life.seen.app_name != client.app_name and life.seen.app_name is not None:
            continue
        if trace.addresses.get(life.seen.server) != address and trace.topology is not Topology.LOAD_BALANCED:
            continue
        if life.seen.closed_seq < event.seq and life.seen.closed_by == "server":
            return True
        for request in life.seen.requests:
            if request.seq > event.seq:
                break
            code = (request.reply or {}).get("code") or (
                (request.reply or {}).get("writeConcernError") or {}
            ).get("code")
            # A request without a reply may have timed out at the client, which no server sees.
            if request.end in ("client", "open", "server") or code in _SHUTDOWN:
                return True
            # Since 4.2 servers keep connections across a change of primary, and pools stay.
            if trace.version < (4, 2) and code in _NOT_PRIMARY:
                return True
            if request.name in _HELLOS and not (request.reply or {}).get("ok"):
                return True
            if request.name in _AUTHENTICATION and not (request.reply or {}).get("ok"):
                return True
    return False


_SHUTDOWN: Final = frozenset({91, 11600})
_NOT_PRIMARY: Final = frozenset({189, 10107, 11602, 13435, 13436})
_HELLOS: Final = frozenset({"hello", "ismaster", "isMaster"})
_AUTHENTICATION: Final = frozenset({"saslStart", "saslContinue", "authenticate"})


def pools_are_filled(trace: Trace) -> Iterator[str]:
    """CMAP: Populating the Pool with a Connection (minPoolSize)."""
    for client in trace.clients:
        least, most = client.options.get("minPoolSize", 0), client.options.get("maxPoolSize", 100) or 10**9
        # A maximum below the minimum wins; 0 is none.
        wanted = min(least, most)
        if not wanted:
            continue
        for where, life, since in final_lives(trace, client):
            open_ = sum(state not in ("closed", "pending") for state in life.connections.values())
            if life.state == "ready" and trace.ended - since > _FILLED and open_ < wanted:
                yield f"{where}: {open_} connections for {trace.ended - since:.1f} s, minPoolSize is {least}"


_FILLED: Final = 1.2
"""Seconds in which a ready pool is filled, if nothing fails."""


def pools_are_not_overfilled(trace: Trace) -> Iterator[str]:
    """CMAP: a connection is made for who asks, or to reach minPoolSize.

    On the wall clock an event may be told while another thread already knows more.
    """
    if trace.timing.round_trip is None:
        return
    for client in trace.clients:
        least = client.options.get("minPoolSize", 0)
        for where, life, event in lives(trace, client):
            if event.kind == CREATED and not life.services:
                states = list(life.connections.values())
                open_, free = len(states) - states.count("closed"), states.count("available")
                stale = sum(
                    life.is_stale(each) and state != "closed" for each, state in life.connections.items()
                )
                # Stale ones are on their way out, and do not count towards minPoolSize.
                if open_ - stale >= least and not life.asking:
                    yield f"{where}: a connection was made, and nobody waits for one"
                elif _fresh(client, life, event.at) and open_ - stale >= least:
                    yield f"{where}: a connection was made, though {free} are available"
            take(life, event)


def _fresh(client: TracedClient, life: PoolLife, at: float) -> int:
    """Return how many connections are available that are neither stale nor idle for too long."""
    limit = client.options.get("maxIdleTimeMS", 0) / 1000 or inf
    return sum(at - life.since.get(number, at) < limit - _EXACT for number in life.available())


def check_outs_wait_for_a_reason(trace: Trace) -> Iterator[str]:
    """CMAP: Checking Out a Connection (who waits is served as soon as a connection is there or may be made).

    On the wall clock other threads need time for that.
    """
    if trace.timing.round_trip is None:
        return
    for client in trace.clients:
        before: dict[str, float] = {}
        for where, life, event in lives(trace, client):
            waited = event.at - before.setdefault(where, event.at)
            if waited > _EXACT and _may_serve(life):
                yield f"{where}: {life.asking} check-outs waited, and one might have had a connection"
            before[where] = event.at
            take(life, event)


def _may_serve(life: PoolLife) -> bool:
    """Return whether one of those for whom no connection is made could have one, or one be made for it.

    Of those who ask, as many are served by the connections that are being made; the others wait for one that
    is free, or for leave to make one.
    """
    states = list(life.connections.values())
    pending, open_ = states.count("pending"), len(states) - states.count("closed")
    if life.state != "ready" or life.asking <= pending:
        return False
    may_be_made = pending < life.max_connecting and (open_ < life.max_pool_size or not life.max_pool_size)
    return may_be_made or any(
        state == "available" and not life.is_stale(number) for number, state in life.connections.items()
    )


def closing_closes_connections_first(trace: Trace) -> Iterator[str]:
    """CMAP: Closing a Connection Pool."""
    for client in trace.clients:
        for where, life, event in lives(trace, client):
            if event.kind == POOL_CLOSED:
                left = [number for number, state in life.connections.items() if state == "available"]
                if left:
                    yield f"{where}: it was closed, and connections {left} were available still"
            take(life, event)
        yield from _left_open(trace, client)


def _left_open(trace: Trace, client: TracedClient) -> Iterator[str]:
    """Yield a client that was closed, and of whose pools some have not been."""
    if not any(
        step.operation.name == "close" and step.operation.object == client.name for step in trace.steps
    ):
        return
    for where, life, _ in final_lives(trace, client):
        if life.state != "closed":
            yield f"{where}: its client was closed, and it is {life.state}"
        kept = [number for number, state in life.connections.items() if state == "available"]
        if kept:
            yield f"{where}: its client was closed, and connections {kept} are available"


def stale_connections_come_back_to_be_closed(trace: Trace) -> Iterator[str]:
    """CMAP: Checking In a Connection (one that has perished is closed)."""
    for client in trace.clients:
        pending: dict[str, int] = {}
        for where, life, event in lives(trace, client):
            number = event.fields.get("connectionId")
            due = pending.get(where)
            # On the wall clock another thread may tell of something else in between.
            if due is not None and (life.exact or number == due):
                del pending[where]
                if event.kind != CLOSED or number != due:
                    told = f"connection {due} was checked in stale or to a closed pool, and is not closed"
                    yield f"{where}: {told}"
            if (
                event.kind == CHECKED_IN
                and number is not None
                and (life.is_stale(number) or life.state == "closed")
                and (life.exact or life.state != "closed")
                and not life.services
            ):
                pending[where] = number
            take(life, event)

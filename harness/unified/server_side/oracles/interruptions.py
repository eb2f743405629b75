"""Oracles of interruptions: what a clear ends besides, and what a client closes while it awaits a reply.

CMAP: Clearing a non-load balanced pool; SDAM: Network error during server check. Three parties have to agree:
the monitor whose check timed out (on the wire, a connection that the client closed while it waited for a
hello), the clear with `interruptInUseConnections`, and the operations whose connections it closes (on the
wire, requests that ended by the client). They are joined by time, within `_limit`, because no event names its
cause. Behind a load balancer there are no monitors, and nothing to judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.adapters.deployment import Topology
from harness.unified.server_side.attempts import milliseconds
from harness.unified.server_side.oracles.permits import kind_of
from harness.unified.server_side.oracles.pool_events import lives, take
from harness.unified.server_side.oracles.pool_life import CLOSED, POOL_CLEARED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.adapters.base import Event
    from harness.unified.server_side.connection_judge import ConnectionLife
    from harness.unified.server_side.oracles.trace import Trace, TracedClient

INTERRUPTS: Final = "interruptInUseConnections"
_AT_ONCE: Final = 0.1
_SOON: Final = 1.0
"""Seconds in which a clear is known to everybody: in virtual time, and on the wall clock."""


def a_check_that_timed_out_interrupts(trace: Trace) -> Iterator[str]:
    """SDAM: Network error during server check; CMAP: Clearing a non-load balanced pool."""
    for client in trace.clients:
        timeouts = list(_timed_out_checks(trace, client))
        for event in client.of_kind(POOL_CLEARED):
            address, interrupts = event.fields.get("address"), event.fields.get(INTERRUPTS)
            caused = [
                life
                for life in timeouts
                if _ran_out(trace, client, life)
                and trace.addresses.get(life.seen.server) == address
                and abs(life.seen.closed - event.at) < _limit(trace)
            ]
            # Asked of the whole case and not of the moment: which check caused the clear no event says.
            if interrupts and not timeouts:
                yield (
                    f"{client.name}: a clear of the pool of {address} interrupts,"
                    f" and no check of its server timed out"
                )
            if caused and interrupts is False:
                yield (
                    f"{client.name}: a check timed out, and the clear of the pool"
                    f" of {address} does not interrupt"
                )


def _ran_out(trace: Trace, client: TracedClient, life: ConnectionLife) -> bool:
    """Return whether a check certainly timed out: a client that polls waits for connectTimeoutMS."""
    limit = client.options.get("connectTimeoutMS", 0) / 1000
    # A stream waits for longer than connectTimeoutMS by right, and without the option each driver has its
    # own.
    if client.options.get("serverMonitoringMode") != "poll" or not limit or trace.timing.round_trip is None:
        return False
    return bool(life.seen.closed - life.seen.requests[-1].at >= limit - _AT_ONCE / 2)


def _limit(trace: Trace) -> float:
    return _AT_ONCE if trace.timing.round_trip is not None else _SOON


def _timed_out_checks(trace: Trace, client: TracedClient) -> Iterator[ConnectionLife]:
    """Yield the connections that a client gave up because a server was late for a hello."""
    for life in trace.connections:
        if life.seen.app_name not in (client.app_name, None) or not life.seen.requests:
            continue
        last = life.seen.requests[-1]
        waits = last.end == "client" or last.is_streaming
        if life.is_monitoring and life.closed_by == "client" and waits:
            yield life


def a_clear_that_interrupts_closes_what_is_in_use(trace: Trace) -> Iterator[str]:
    """CMAP: Clearing a non-load balanced pool (interruptInUseConnections)."""
    for client in trace.clients:
        due: dict[tuple[str, int], Event] = {}
        last = 0.0
        for where, life, event in lives(trace, client):
            last = event.at
            if event.kind == CLOSED:
                cause = due.pop((where, event.fields["connectionId"]), None)
                if cause is not None and event.at - cause.at > _limit(trace):
                    yield (
                        f"{where}: connection {event.fields['connectionId']} was closed"
                        f" {milliseconds(event.at - cause.at)} after the clear that interrupts it"
                    )
            if event.kind == POOL_CLEARED and event.fields.get(INTERRUPTS):
                # Pending ones too: a connection that is being established is of the old generation.
                due |= {
                    (where, number): event
                    for number, state in life.connections.items()
                    if state in ("in use", "pending")
                }
            take(life, event)
        for (where, number), cause in due.items():
            if max(last, trace.ended) - cause.at > _limit(trace):
                yield f"{where}: connection {number} was not closed after the clear that interrupts it"


def what_is_in_use_is_let_be(trace: Trace) -> Iterator[str]:
    """CMAP: Clearing a Connection Pool (a clear that does not interrupt leaves what is in use alone)."""
    # Closing a client closes what is in use without any clear, and a deadline does so for its own connection.
    closes = any(step.operation.name == "close" for step in trace.steps)
    for client in trace.clients:
        timed = any(operation.is_timed for operation in trace.operations if operation.client is client)
        cleared = list(client.of_kind(POOL_CLEARED))
        if (
            closes
            or timed
            or not cleared
            or any(event.fields.get(INTERRUPTS) is not False for event in cleared)
        ):
            continue
        for life in trace.connections:
            if life.seen.app_name != client.app_name or life.is_monitoring or life.closed_by != "client":
                continue
            last = life.seen.requests[-1]
            if any(last is request for request in trace.unacknowledged):
                continue  # nobody waits for a reply
            if last.end == "client" and last.name not in _GREETINGS and "exhaustAllowed" not in last.command:
                yield f"{life.name} was closed while it waited for the reply to {last.name}"


_GREETINGS: Final = frozenset({"hello", "ismaster", "isMaster", "saslStart", "saslContinue"})


def an_interrupted_operation_is_tried_again(trace: Trace) -> Iterator[str]:
    """CMAP: Clearing a non-load balanced pool (an interrupted operation fails with a retryable error)."""
    if trace.topology is Topology.LOAD_BALANCED:
        return
    for client in trace.clients:
        interrupts = [event for event in client.of_kind(POOL_CLEARED) if event.fields.get(INTERRUPTS)]
        for operation in trace.operations:
            error = operation.step.error
            if operation.client is not client or operation.is_timed or error is None or not interrupts:
                continue
            for command in operation.commands:
                last = command.last.request
                may = client.options.get("retryReads", True) and kind_of(operation, command) == "read"
                if last.end != "client" or not may or command.in_transaction or command.name == "getMore":
                    continue
                if len(command.attempts) == 1 and any(
                    abs(event.at - last.ended) < _limit(trace) for event in interrupts
                ):
                    yield f"{operation} was interrupted by a clear, and not tried again"


def an_interrupted_operation_is_told_why(trace: Trace) -> Iterator[str]:
    """CMAP: Clearing a non-load balanced pool (the error names the address and the monitor's timeout)."""
    if trace.topology is Topology.LOAD_BALANCED:
        return
    for operation in trace.operations:
        error, client = operation.step.error, operation.client
        if error is None or operation.is_timed or len(operation.commands) != 1:
            continue
        last = operation.commands[0].last.request
        interrupts = [event for event in client.of_kind(POOL_CLEARED) if event.fields.get(INTERRUPTS)]
        met = any(abs(event.at - last.ended) < _limit(trace) for event in interrupts)
        address = trace.addresses.get(last.server, "")
        if (
            last.end == "client"
            and met
            and not (_TOLD in error.report.message and address in error.report.message)
        ):
            yield f"{operation} was interrupted at {address}, and raised {error.report.message!r}"


_TOLD: Final = "interrupted due to server monitor timeout"
"""What the specification has the error say."""

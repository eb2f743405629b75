"""Oracles of monitors: what they ask, how often, what they tell, and what a failed check leads to.

Server Monitoring and SDAM, in two parts. The first goes by the wire: a connection is a monitor's if it says
hello more than once and nothing else (`_monitoring`), which only tells clients apart whose application names
differ. The second goes by heartbeat events. What a failed check leads to is asked by pools' and servers'
events together, in virtual time alone, since drivers tell of them from several threads.

False alarms that are avoided: a connection that minPoolSize made and nobody used looks like one that measures
round trips; a connection lost under an unacknowledged write is noticed by whoever takes it next, not by a
monitor; a client that ran out of time just before a loss sees a time-out, which ends no check. Times are
exact in virtual time but for the way of a message (`_WAY`), and may be half as long again on the wall clock
(`_LATE`).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.deployment import Topology
from harness.unified.server_side.attempts import milliseconds
from harness.unified.server_side.oracles.pool_events import DESCRIBED, UNKNOWN
from harness.unified.server_side.oracles.pool_life import POOL_CLEARED, POOL_CREATED, POOL_READY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from harness.adapters.base import Event
    from harness.unified.server_side.connection_judge import ConnectionLife
    from harness.unified.server_side.oracles.trace import Trace, TracedClient
    from harness.unified.server_side.seen import SeenRequest

STARTED: Final = "serverHeartbeatStartedEvent"
SUCCEEDED: Final = "serverHeartbeatSucceededEvent"
FAILED: Final = "serverHeartbeatFailedEvent"

_MIN_HEARTBEAT: Final = 0.5
"""Seconds. Server Monitoring: minHeartbeatFrequencyMS."""

_AWAITS: Final = ("topologyVersion", "maxAwaitTimeMS")
_GREETINGS: Final = frozenset({"hello", "isMaster", "ismaster"})
_LOGS_IN: Final = ("speculativeAuthenticate", "saslSupportedMechs")
_WAY: Final = 0.02
"""Seconds that a reply and the next request travel in virtual time, at most."""

_ROUGHLY: Final = 0.2
"""Part of a time on the wall clock by which two instants may be nearer."""


def _monitoring(trace: Trace, client: TracedClient) -> Mapping[str, list[ConnectionLife]]:
    """Return the connections of a client's monitors, by server: those that said hello more than once.

    Nobody can say whose they are where two clients have one name, or none.
    """
    found: dict[str, list[ConnectionLife]] = defaultdict(list)
    if client.app_name is None or [each.app_name for each in trace.clients].count(client.app_name) > 1:
        return found
    for life in trace.connections:
        if life.seen.app_name == client.app_name and life.is_monitoring and len(life.seen.requests) > 1:
            found[life.seen.server].append(life)
    return found


def _frequency(client: TracedClient) -> float:
    """Return heartbeatFrequencyMS in seconds."""
    return float(client.options.get("heartbeatFrequencyMS", 10_000)) / 1000


# --- on the wire ---


def checks_ask_for_news_as_they_may(trace: Trace) -> Iterator[str]:
    """Server Monitoring: Streaming Protocol, Polling Protocol, serverMonitoringMode, Measuring RTT.

    None of them authenticates (Servers are monitored with dedicated sockets).
    """
    for life in trace.connections:
        again = any(request.name in _GREETINGS for request in life.seen.requests[1:])
        if again and (life.authentication or any(name in life.hello for name in _LOGS_IN)):
            yield f"{life.name} said hello again and again, and logs in"
    for client in trace.clients:
        polls = client.options.get("serverMonitoringMode") == "poll"
        wanted = client.options.get("heartbeatFrequencyMS")
        for lives in _monitoring(trace, client).values():
            for life in lives:
                yield from _asked(life, polls=polls, frequency=wanted)


def _asked(life: ConnectionLife, *, polls: bool, frequency: int | None) -> Iterator[str]:
    first, *others = life.seen.requests
    if first.exhaust_allowed or any(name in first.command for name in _AWAITS):
        yield f"{life.name} began with a hello that waits for news"
    before = first
    for request in others:
        waits = [name for name in _AWAITS if name in request.command]
        if "client" in request.command:
            yield f"{life.name} said who its client is once more"
        if request.command.get("apiVersion") != first.command.get("apiVersion"):
            yield f"{life.name} declared another API version than at first"
        if waits and polls:
            yield f"{life.name} waited for news, and its client is to poll"
        if len(waits) == 1:
            yield f"{life.name} asked with {waits[0]} alone"
        if bool(waits) != request.exhaust_allowed:
            yield f"{life.name} {'allowed' if request.exhaust_allowed else 'did not allow'} further answers"
        if len(waits) == len(_AWAITS):
            # The last of several replies: a stream's later ones carry newer versions.
            known = None if before.latest is None else before.latest.document.get("topologyVersion")
            if request.command["topologyVersion"] != known:
                yield f"{life.name} asked for news since another version than the last that it was told"
            if frequency is not None and request.command["maxAwaitTimeMS"] != frequency:
                said = request.command["maxAwaitTimeMS"]
                yield f"{life.name} waits for {said} ms, heartbeatFrequencyMS is {frequency}"
        before = request


def one_connection_checks_a_server(trace: Trace) -> Iterator[str]:
    """Server Monitoring: Multi-threaded or asynchronous monitoring, Measuring RTT."""
    for client in trace.clients:
        # A second one measures round trips while the first waits for news.
        most = 1 if client.options.get("serverMonitoringMode") == "poll" else 2
        for server, lives in _monitoring(trace, client).items():
            at_once = max(
                sum(each.seen.accepted_seq <= life.seen.accepted_seq < each.seen.closed_seq for each in lives)
                for life in lives
            )
            if at_once > most:
                yield f"{client.name} had {at_once} connections that check {server}"


def checks_keep_their_pace(trace: Trace) -> Iterator[str]:
    """Server Monitoring: heartbeatFrequencyMS, minHeartbeatFrequencyMS, Network error during server check."""
    exact = trace.timing.round_trip is not None
    for client in trace.clients:
        frequency = _frequency(client)
        least = min(_MIN_HEARTBEAT, frequency) * (1.0 if exact else 1 - _ROUGHLY)
        for lives in _monitoring(trace, client).values():
            for life in lives:
                # On one connection alone: a check on a new one after an error comes at once by right.
                for before, request in pairwise(life.seen.requests):
                    gap = request.at - before.at
                    if not any(name in request.command for name in _AWAITS) and gap < least - _WAY:
                        yield f"{life.name} said hello again after {milliseconds(gap)}"
        if exact and not trace.timing.is_disturbed:
            yield from _gaps(trace, client, frequency)


def _gaps(trace: Trace, client: TracedClient, frequency: float) -> Iterator[str]:
    """Judge the time between two checks of a server, as a client told of them."""
    for address, told in _told(client).items():
        known = False
        for (_, ended), (following, _) in pairwise(_checks(told)):
            gap = following.at - ended.at
            # An error that the server replied is no sign of a broken connection, and is not checked again at
            # once.
            lost = ended.kind == FAILED and known and not _is_refused(trace, client, ended)
            streams = following.fields.get("awaited") or (
                ended.kind == SUCCEEDED and ended.fields.get("awaited")
            )
            known = ended.kind == SUCCEEDED
            # A network error of a server that was known is checked again at once, to tell a broken connection
            # from a server that is gone.
            if lost and gap > _WAY:
                yield f"{client.name} lost a check of {address}, and repeated it after {milliseconds(gap)}"
            if not (lost or streams) and gap < min(_MIN_HEARTBEAT, frequency) - _WAY:
                yield f"{client.name} checked {address} again after {milliseconds(gap)}"
            if gap > frequency + _WAY and "heartbeatFrequencyMS" in client.options:
                yield f"{client.name} checked {address} again after {milliseconds(gap)} only"


def _is_refused(trace: Trace, client: TracedClient, ended: Event) -> bool:
    """Return whether a check failed by an error that the server replied: a moment before it was told."""
    return any(
        0 <= ended.at - request.latest.at < 2 * _WAY and not request.latest.document.get("ok")
        for life in trace.connections
        if life.seen.app_name == client.app_name and life.is_monitoring
        for request in life.seen.requests
        if request.latest is not None
    )


def round_trips_are_measured_beside_a_stream(trace: Trace) -> Iterator[str]:
    """Server Monitoring: Measuring RTT (every heartbeatFrequencyMS while a connection streams).

    Each attempt counts, whatever came of it: one that failed is followed by another.
    """
    exact = trace.timing.round_trip is not None
    if exact and trace.timing.is_disturbed:
        return
    for client in trace.clients:
        frequency = _frequency(client)
        most = frequency + _WAY if exact else frequency * _LATE + _LATER
        for server, lives in _monitoring(trace, client).items():
            measured = [
                (request.at, min(request.ended, life.seen.closed))
                for life in _hellos(trace, client, server)
                for request in life.seen.requests
                if not _awaits(request)
            ]
            for began, ended in filter(None, (_streamed(life, trace.ended) for life in lives)):
                gap = _longest_gap(sorted(measured), began, ended)
                if gap > most:
                    how_long = f"{milliseconds(gap)}, heartbeatFrequencyMS is {milliseconds(frequency)}"
                    yield f"{client.name} streamed from {server} and measured no round trip for {how_long}"
                once = _used_once(_hellos(trace, client, server), frequency, began, ended)
                if once >= _SEVERAL and not client.options.get("minPoolSize"):
                    yield f"{client.name} measured round trips to {server} on {once} connections, once each"


_LATE: Final = 1.5
_LATER: Final = 0.5
"""How many times longer, and how many seconds, a time may be on the wall clock: machines are busy."""


def _hellos(trace: Trace, client: TracedClient, server: str) -> Iterator[ConnectionLife]:
    """Yield all connections of a client to a server on which nothing but hello was said."""
    return (
        life
        for life in trace.connections
        if life.seen.app_name == client.app_name and life.is_monitoring and life.seen.server == server
    )


def _awaits(request: SeenRequest) -> bool:
    return any(name in request.command for name in _AWAITS)


def _streamed(life: ConnectionLife, ended: float) -> tuple[float, float] | None:
    """Return from when to when a connection waited for news, None for one that never did."""
    began = next((request.at for request in life.seen.requests if _awaits(request)), None)
    return None if began is None else (began, min(life.seen.closed, ended))


def _used_once(lives: Iterable[ConnectionLife], frequency: float, began: float, ended: float) -> int:
    """Return on how many connections hello was said once, a heartbeat apart, before the client closed them.

    Connections that a pool never used look like that as well, but come by the clock for minPoolSize alone.
    """
    found: list[ConnectionLife] = []
    for life in lives:
        (request, *others), seen = life.seen.requests, life.seen
        if others or request.end != "reply" or seen.closed_by != "client" or seen.accepted < began:
            continue
        due = found[-1].seen.accepted + (1 - _ROUGHLY) * frequency if found else began
        if due <= seen.accepted and seen.closed < ended:
            found.append(life)
    return len(found)


_SEVERAL: Final = 3
"""Connections, a heartbeat apart each: fewer may have another reason."""


def _longest_gap(measured: Sequence[tuple[float, float]], began: float, ended: float) -> float:
    """Return the longest time between two instants in which nothing was measured, or being measured."""
    longest, since = 0.0, began
    for asked, answered in measured:
        if asked > ended:
            break
        longest = max(longest, asked - since)
        since = max(since, min(answered, ended))
    return max(longest, ended - since)


def a_refused_check_ends_its_connection(trace: Trace) -> Iterator[str]:
    """Server Monitoring: Network or command error during server check (close the current connection).

    What measures round trips looks at no reply.
    """
    for client in trace.clients:
        polls = client.options.get("serverMonitoringMode") == "poll"
        for lives in _monitoring(trace, client).values():
            for life in lives:
                requests = life.seen.requests
                if not polls and not any(map(_awaits, requests)):
                    continue
                for before, request in pairwise(requests):
                    if before.latest is not None and not before.latest.document.get("ok"):
                        yield f"{life.name} said {request.name} again after a check that was refused"


def a_lost_connection_cancels_the_check_under_way(trace: Trace) -> Iterator[str]:
    """Server Monitoring: hello or legacy hello Cancellation; SDAM: Network error when reading or writing.

    Of a server whose connection was lost while it authenticated or carried a command, the monitor waits for
    no news on the connection that it has. An error of an older generation says nothing new.
    """
    if trace.topology is Topology.LOAD_BALANCED:
        return
    patience = _WAY if trace.timing.round_trip is not None else _SOON
    for client in trace.clients:
        watching = _monitoring(trace, client)
        for lost in trace.connections:
            if lost.seen.app_name != client.app_name or not _is_news(trace, client, lost):
                continue
            for life in watching.get(lost.seen.server, ()):
                awaited = next((each for each in life.seen.requests if _awaits(each)), None)
                if awaited is None or not awaited.seq < lost.seen.closed_seq < life.seen.closed_seq:
                    continue
                until = min(life.seen.closed, trace.ended)
                if until - lost.seen.closed > patience:
                    kept = milliseconds(until - lost.seen.closed)
                    yield f"{life.name} was kept for {kept} after {lost.name} had been lost"


_SOON: Final = 1.0
"""Seconds within which a busy machine closes a connection."""


def _is_news(trace: Trace, client: TracedClient, lost: ConnectionLife) -> bool:
    """Return whether a client reads that a server cut off a pool's connection, and no error came before.

    After an unacknowledged write nobody reads, and who takes the idle connection next may see it late. Who
    ran out of time a moment before sees a time-out, which ends no check.
    """
    *greeting, last = lost.seen.requests
    if lost.is_monitoring or lost.seen.closed_by != "server" or last.end != "server" or not greeting:
        return False
    if any(last is request for request in trace.unacknowledged) or client.timed_out(last):
        return False
    began, ended = lost.seen.accepted_seq, lost.seen.closed_seq
    return not any(
        began <= life.seen.closed_seq < ended
        for life in trace.connections
        if (life.seen.app_name, life.seen.server) == (lost.seen.app_name, lost.seen.server)
    )


# --- as clients tell of them ---


def _told(client: TracedClient) -> Mapping[str, list[Event]]:
    """Return what a client told of the checks of each server, where it told of beginnings and of ends."""
    found: dict[str, list[Event]] = defaultdict(list)
    for event in client.of_kind(STARTED, SUCCEEDED, FAILED):
        found[_address(event)].append(event)
    kinds = {event.kind for events in found.values() for event in events}
    return found if STARTED in kinds and len(kinds) > 1 else {}


def _address(event: Event) -> str:
    return str(event.fields.get("address", event.fields.get("connectionId", "")))


def _checks(told: list[Event]) -> list[tuple[Event, Event]]:
    """Return the checks that ended, each as its beginning and its end."""
    return [(began, ended) for began, ended in pairwise(told) if began.kind == STARTED != ended.kind]


def heartbeats_begin_and_end(trace: Trace) -> Iterator[str]:
    """SDAM Logging and Monitoring: Heartbeats."""
    exact = trace.timing.round_trip is not None
    for client in trace.clients:
        tells_all = all(any(client.of_kind(kind)) for kind in (STARTED, SUCCEEDED, FAILED))
        for address, told in _told(client).items():
            if told[0].fields.get("awaited"):
                yield f"{client.name}: the first check of {address} was awaited"
            for before, event in pairwise(told):
                twice = before.kind == event.kind == STARTED and tells_all
                if twice or STARTED not in (before.kind, event.kind):
                    yield f"{client.name} told of {address}: {event.kind} after {before.kind}"
            for began, ended in _checks(told):
                if began.fields.get("awaited") != ended.fields.get("awaited"):
                    yield f"{client.name}: a check of {address} began awaited or not, and ended the other way"
                yield from _duration(client, began, ended, exact=exact)


def _duration(client: TracedClient, began: Event, ended: Event, *, exact: bool) -> Iterator[str]:
    told: Any = ended.fields.get("durationMS")
    took = (ended.at - began.at) * 1000
    if told is not None and abs(told - took) > (_EXACT_MS if exact else max(took, _SOME_MS) / 2):
        yield f"{client.name}: {ended.kind} tells {told:g} ms, and it took {took:g} ms"


_EXACT_MS: Final = 0.1
_SOME_MS: Final = 100.0
"""What a busy machine may take between two events."""


def checks_take_no_longer_than_they_may(trace: Trace) -> Iterator[str]:
    """Server Monitoring: connectTimeoutMS, Streaming Protocol (socket timeout)."""
    exact = trace.timing.round_trip is not None
    for client in trace.clients:
        limit = client.options.get("connectTimeoutMS")
        if not limit:  # each driver has a default of its own, and 0 is no limit
            continue
        for address, told in _told(client).items():
            for began, ended in _checks(told):
                if ended.kind != FAILED:
                    continue
                waits = _frequency(client) if began.fields.get("awaited") else 0.0
                # Once to connect and once for the reply.
                most = 2 * limit / 1000 if began is told[0] else limit / 1000
                took, allowed = ended.at - began.at, waits + most
                if took > (allowed + _WAY if exact else allowed * _LATE + _LATER):
                    yield f"{client.name} gave up a check of {address} after {milliseconds(took)} only"


def a_failed_check_makes_its_server_unknown(trace: Trace) -> Iterator[str]:
    """Server Monitoring: Network or command error during server check; SDAM: Connection Pool Management."""
    # On the wall clock a driver may tell of checks and of servers from two threads.
    if trace.topology is Topology.LOAD_BALANCED or trace.timing.round_trip is None:
        return
    for client in trace.clients:
        types: dict[str, str] = {}
        ready: set[str] = set()
        failed: set[str] = set()
        for event in client.of_kind(STARTED, FAILED, DESCRIBED, POOL_READY, POOL_CREATED, POOL_CLEARED):
            if event.kind == DESCRIBED:
                described: Mapping[str, Any] = event.fields["newDescription"]
                types[described.get("address", event.fields.get("address"))] = described["type"]
                continue
            address = _address(event)
            if event.kind == FAILED:
                failed.add(address)
            elif event.kind == STARTED and address in failed:
                failed.discard(address)
                if types.get(address, UNKNOWN) != UNKNOWN:
                    yield f"{client.name}: a check of {address} failed, and it was {types[address]} still"
                if address in ready:
                    yield f"{client.name}: a check of {address} failed, and its pool was ready still"
            elif event.kind == POOL_READY:
                ready.add(address)
            elif event.kind in (POOL_CREATED, POOL_CLEARED):
                ready.discard(address)

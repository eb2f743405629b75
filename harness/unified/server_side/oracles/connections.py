"""Oracles of connections as servers see them: how many, what they carry, and how they end.

CMAP (sizes of pools, idle connections), MongoDB Handshake, Wire Compression, Client Backpressure (handshake).
All but one (`closed_connections_are_closed`) need no events, so they judge drivers that tell nothing. Options
that a client does not set have the defaults of the specification. Which connection is a monitor's is decided
by `connection_judge.lives_of`; a connection that a pool made and never used counts as one, so numbers here
are never too high.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, Final

from bson import BSON

from harness.adapters.deployment import Topology
from harness.unified.server_side.attempts import milliseconds
from harness.unified.server_side.oracles.pool_life import CLOSED, CREATED
from harness.unified.server_side.rules import LATE, LATER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from harness.unified.server_side.connection_judge import ConnectionLife
    from harness.unified.server_side.oracles.trace import Trace, TracedClient


def the_handshake_declares_backpressure(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Handshake changes."""
    if not trace.is_of_backpressure:
        return
    wanted = trace.edition.backpressure
    for life in trace.connections:
        said = life.hello.get("backpressure")
        # True equals 1 in Python, and on the wire they are two types.
        if said != wanted or isinstance(said, bool) != isinstance(wanted, bool):
            yield f"the handshake of {life.name} has backpressure {said!r}, the edition {wanted!r}"


def what_establishes_is_sent_once(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Driver mechanisms subject to the retry policy (handshakes and logins are not)."""
    for life in trace.connections:
        if life.is_monitoring:
            continue
        # Up to the first command that is no greeting: a later hello is not part of the handshake.
        for before, request in pairwise(life.seen.requests):
            if request.name not in _ESTABLISHING:
                break
            if before.name == request.name and not (before.reply or {"ok": 1}).get("ok"):
                code = (before.reply or {}).get("code")
                yield f"{life.name} carried {request.name} again after error {code}"


_ESTABLISHING: Final = frozenset({"hello", "isMaster", "ismaster", "saslStart", "saslContinue"})


def no_more_are_established_at_once(trace: Trace) -> Iterator[str]:
    """CMAP: maxConnecting."""
    for client, server, lives in _by_server(trace):
        most = client.options.get("maxConnecting", 2)
        at_once = _peak(lives, lambda life: life.establishing_ended_seq)
        if at_once > most:
            yield (
                f"{client.name} established {at_once} connections"
                f" to {server} at once, maxConnecting is {most}"
            )


def no_more_are_open(trace: Trace) -> Iterator[str]:
    """CMAP: maxPoolSize."""
    for client, server, lives in _by_server(trace):
        most = client.options.get("maxPoolSize", 100)
        at_once = _peak(lives, lambda life: life.seen.closed_seq)
        if at_once > most > 0:
            yield f"{client.name} had {at_once} connections to {server}, maxPoolSize is {most}"


def one_request_at_a_time(trace: Trace) -> Iterator[str]:
    """CMAP: Connection (one request and its reply at a time)."""
    for life in trace.connections:
        if life.is_monitoring:
            continue
        for before, request in pairwise(life.seen.requests):
            concern = before.command.get("writeConcern") or {}
            # An unacknowledged write has no reply to wait for.
            if before.ended_seq > request.seq and concern.get("w") != 0:
                yield f"{life.name} carried {request.name} before the reply to {before.name}"


def idle_connections_are_not_used(trace: Trace) -> Iterator[str]:
    """CMAP: maxIdleTimeMS."""
    for client, _server, lives in _by_server(trace):
        limit = client.options.get("maxIdleTimeMS", 0) / 1000
        # The limit is the pool's, at the check-out; servers see a command when it arrives.
        late = limit * LATER + 3 * LATE if trace.timing.round_trip is None else limit + _WAY
        for life in lives:
            if limit and life.idle > late and not _is_pinned(trace, life):
                yield f"{life.name} was idle for {milliseconds(life.idle)}, maxIdleTimeMS is {limit * 1000:g}"


def _is_pinned(trace: Trace, life: ConnectionLife) -> bool:
    """Return whether a connection was kept, behind a load balancer, by a transaction or a cursor."""
    return trace.topology is Topology.LOAD_BALANCED and any(
        "autocommit" in request.command or request.name in ("getMore", "killCursors")
        for request in life.seen.requests
    )


_WAY: Final = 0.02
"""Seconds that messages and a check-out take in virtual time, at most."""


def closed_connections_are_closed(trace: Trace) -> Iterator[str]:
    """CMAP: Closing a Connection."""
    if trace.topology is Topology.LOAD_BALANCED:
        return
    for client in trace.clients:
        told: dict[str, int] = defaultdict(int)
        late = trace.ended - (_WAY if trace.timing.round_trip is not None else 3 * LATE)
        for event in client.of_kind(CREATED, CLOSED):
            if event.kind == CREATED:
                told[event.fields["address"]] += 1
            elif event.at < late:  # of a later one servers may not have heard yet
                told[event.fields["address"]] -= 1
        for of, server, lives in _by_server(trace):
            open_ = sum(life.seen.closed == inf for life in lives)
            alive = told.get(trace.addresses.get(server, ""), 0)
            if of is client and open_ > alive:
                yield f"{client.name} has {open_} connections open to {server}, and told of {alive}"


def _by_server(trace: Trace) -> Iterator[tuple[TracedClient, str, list[ConnectionLife]]]:
    """Yield the connections of each client's pools, server by server."""
    for client in trace.clients:
        lives: Mapping[str, list[ConnectionLife]] = defaultdict(list)
        for life in trace.connections:
            if life.seen.app_name == client.app_name and not life.is_monitoring:
                lives[life.seen.server].append(life)
        yield from ((client, server, of_server) for server, of_server in lives.items())


def _peak(lives: list[ConnectionLife], end: Callable[[ConnectionLife], float]) -> int:
    """Return how many connections were, at the time when most were, between their acceptance and `end`."""
    return max(
        (
            sum(each.seen.accepted_seq <= begun.seen.accepted_seq < end(each) for each in lives)
            for begun in lives
        ),
        default=0,
    )


def clients_say_who_they_are_in_512_bytes(trace: Trace) -> Iterator[str]:
    """MongoDB Handshake: Client Metadata, Limitations."""
    exact = trace.timing.round_trip is not None
    appended = any(step.operation.name == "appendMetadata" for step in trace.steps)
    first: dict[tuple[str | None, bool], Any] = {}
    for life in trace.connections:
        said: Any = life.hello.get("client")
        if said is None:
            continue
        size = len(BSON.encode(said))
        if size > _MAX_METADATA_SIZE:
            yield f"the client's metadata on {life.name} have {size} bytes"
        # Monitors may name another part of the driver than pools do, and some drivers greet with either.
        who = life.seen.app_name, life.is_monitoring
        if exact and first.setdefault(who, said) != said and not appended:
            yield f"{life.name} says something else of its client than the connection before"


# Bytes. Servers refuse a handshake with more.
_MAX_METADATA_SIZE: Final = 512


def only_what_may_be_is_compressed(trace: Trace) -> Iterator[str]:
    """Wire Compression: Compressor Negotiation, Messages that cannot be compressed."""
    for life in trace.connections:
        reply = life.seen.requests[0].reply or {}
        known = frozenset(reply.get("compression") or ())
        agreed = [name for name in life.hello.get("compression") or () if name in known]
        for request in life.seen.requests:
            if request.compressor is None:
                continue
            if request.name in _NEVER_COMPRESSED:
                yield f"{life.name} carried a compressed {request.name}"
            elif request.compressor not in agreed:
                by = request.compressor
                yield f"{life.name} carried a {request.name} compressed by {by}, which is not agreed on"
            elif request.compressor != agreed[0]:
                by = f"{request.compressor}, where the client prefers {agreed[0]}"
                yield f"{life.name} carried a {request.name} compressed by {by}"


_NEVER_COMPRESSED: Final = _ESTABLISHING | {
    *("authenticate", "getnonce", "createUser", "updateUser", "copydbSaslStart", "copydbgetnonce", "copydb")
}
"""Commands that may hold secrets, or come before a compressor is agreed on."""

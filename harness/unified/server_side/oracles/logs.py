"""Oracles of log messages: each event of a pool has its message, with the words of the specification.

Messages are compared with events one by one: same number, same order, same facts. So the oracle needs a
driver that tells both, and no scenario with expectations of its own. Words and reasons are those of the
specification, to the letter, as users search for them.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import LOG_MESSAGE
from harness.unified.server_side.oracles import pool_life as kinds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.adapters.base import Event
    from harness.unified.server_side.oracles.trace import Trace, TracedClient

MESSAGES: Final[Mapping[str, str]] = {
    kinds.POOL_CREATED: "Connection pool created",
    kinds.POOL_READY: "Connection pool ready",
    kinds.POOL_CLEARED: "Connection pool cleared",
    kinds.POOL_CLOSED: "Connection pool closed",
    kinds.CREATED: "Connection created",
    kinds.READY: "Connection ready",
    kinds.CLOSED: "Connection closed",
    kinds.CHECK_OUT_STARTED: "Connection checkout started",
    kinds.CHECK_OUT_FAILED: "Connection checkout failed",
    kinds.CHECKED_OUT: "Connection checked out",
    kinds.CHECKED_IN: "Connection checked in",
}
_REASONS: Final[Mapping[tuple[str, str], str]] = {
    (kinds.CLOSED, "stale"): "Connection became stale because the pool was cleared",
    (
        kinds.CLOSED,
        "idle",
    ): "Connection has been available but unused for longer than the configured max idle time",
    (kinds.CLOSED, "error"): "An error occurred while using the connection",
    (kinds.CLOSED, "poolClosed"): "Connection pool was closed",
    (kinds.CHECK_OUT_FAILED, "timeout"): "Wait queue timeout elapsed without a connection becoming available",
    (
        kinds.CHECK_OUT_FAILED,
        "connectionError",
    ): "An error occurred while trying to establish a new connection",
    (kinds.CHECK_OUT_FAILED, "poolClosed"): "Connection pool was closed",
}


def every_pool_event_is_logged(trace: Trace) -> Iterator[str]:
    """CMAP: Connection Pool Logging."""
    for client in trace.clients:
        messages = list(_of_pools(client))
        if not messages:
            continue  # nobody asked for them
        if trace.timing.round_trip is None:
            continue  # a driver may log from another thread than it tells events
        events = list(client.of_kind(*MESSAGES))
        for event, message in zip_longest(events, messages):
            if (
                event is None
                or message is None
                or MESSAGES[event.kind] != message.fields["data"].get("message")
            ):
                told = "nothing" if event is None else event.kind
                said = "nothing" if message is None else message.fields["data"].get("message")
                yield f"{client.name} told {told}, and logged {said}"
                break
            yield from (f"{client.name}: {why}" for why in _differs(event, message.fields))


def _of_pools(client: TracedClient) -> Iterator[Event]:
    """Yield the messages that have the words of a pool's, whatever their component."""
    return (
        event
        for event in client.of_kind(LOG_MESSAGE)
        if event.fields.get("data", {}).get("message") in _WORDS
    )


_WORDS: Final = frozenset(MESSAGES.values())


def _differs(event: Event, message: Mapping[str, Any]) -> Iterator[str]:
    """Yield how a message differs from the event that it is about."""
    data, words = message["data"], message["data"]["message"]
    if (message.get("level"), message.get("component")) != ("debug", "connection"):
        yield f"{words!r} is logged at {message.get('level')} by {message.get('component')}"
    # The last colon: an address of IPv6 has others.
    host, _, port = str(event.fields["address"]).rpartition(":")
    if (data.get("serverHost"), str(data.get("serverPort"))) != (host, port):
        yield (
            f"{words!r} is about {data.get('serverHost')}:{data.get('serverPort')},"
            f" the event about {host}:{port}"
        )
    if "connectionId" in event.fields and data.get("driverConnectionId") != event.fields["connectionId"]:
        yield (
            f"{words!r} has driverConnectionId {data.get('driverConnectionId')},"
            f" the event {event.fields['connectionId']}"
        )
    told, said = event.fields.get("durationMS"), data.get("durationMS")
    if told is not None and (said is None or abs(told - said) > _CLOSE):
        yield f"{words!r} has durationMS {said}, the event {told:g}"
    wanted = _REASONS.get((event.kind, str(event.fields.get("reason"))))
    if wanted is not None and data.get("reason") != wanted:
        yield f"{words!r} has the reason {data.get('reason')!r}, the event {event.fields['reason']!r}"
    if event.fields.get("reason") in ("error", "connectionError") and not data.get("error"):
        yield f"{words!r} does not have the error"
    if event.fields.get("serviceId") is not None and str(data.get("serviceId")) != str(
        event.fields["serviceId"]
    ):
        yield f"{words!r} has serviceId {data.get('serviceId')}, the event {event.fields['serviceId']}"
    for name, value in (event.fields.get("options") or {}).items():
        if data.get(name) != value:
            yield f"{words!r} has {name} {data.get(name)}, the event {value}"


_CLOSE: Final = 1.0
"""Milliseconds by which the duration of a message may differ from that of its event: it may be rounded."""

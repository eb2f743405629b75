"""How long a request has waited in the queues of admission control, as a server tells of it.

`currentOp` tells of one that runs; `system.profile` and the log's slow queries of one that is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import Int64

from fakeserver.profile import WIRE_80

if TYPE_CHECKING:
    from fakeserver.request import RequestContext


def of_running(request: RequestContext, now: float) -> dict[str, Any]:
    """Return `queues`, `currentQueue` (null outside of any), and what flow control has to do with it."""
    shown: dict[str, Any] = {}
    if request.node.profile.max_wire_version >= WIRE_80:
        queue, since = _current_queue(request)
        waits = {queue: now - since} if queue else {}
        shown["queues"] = _queues(request, waits)
        shown["currentQueue"] = {"name": queue, "timeQueuedMicros": _micros(now - since)} if queue else None
    throttled = request.throttled_since
    shown["waitingForFlowControl"] = throttled is not None
    shown["flowControlStats"] = _flow(request, 0.0 if throttled is None else now - throttled)
    return shown


def of_finished(request: RequestContext) -> dict[str, Any]:
    """Return `queues` and `flowControl`, what was never asked left out."""
    shown: dict[str, Any] = {}
    if request.node.profile.max_wire_version >= WIRE_80:
        queues = {name: facts for name, facts in _queues(request, {}).items() if any(facts.values())}
        shown |= {"queues": queues} if queues else {}
    flow = _flow(request, 0.0)
    return shown | ({"flowControl": flow} if flow else {})


def seconds_queued(request: RequestContext) -> float:
    """Return for how long a request did nothing but wait to be admitted."""
    return request.ingress_queued + request.execution_queued + request.flow_queued


def _current_queue(request: RequestContext) -> tuple[str, float]:
    """Return the queue that a request stands in, and since when; an empty name outside of any."""
    if request.queued_since is not None:
        return "ingress", request.queued_since
    for name, ticket in (("ingress", request.ingress_ticket), ("execution", request.execution_ticket)):
        if ticket is not None and ticket.started is None:
            return name, ticket.arrived
    return "", 0.0


def _queues(request: RequestContext, waits: dict[str, float]) -> dict[str, Any]:
    counted = {
        "ingress": (request.ingress_admissions, request.ingress_queued),
        "execution": (request.execution_admissions, request.execution_queued),
    }
    return {
        name: {
            "admissions": admissions,
            "totalTimeQueuedMicros": _micros(queued + waits.get(name, 0.0)),
        }
        for name, (admissions, queued) in counted.items()
    }


def _flow(request: RequestContext, waits: float) -> dict[str, Any]:
    counted = {
        "acquireCount": Int64(request.flow_acquired),
        "acquireWaitCount": Int64(request.flow_waits),
        "timeAcquiringMicros": _micros(request.flow_queued + waits),
    }
    return {name: value for name, value in counted.items() if value}


def _micros(seconds: float) -> Int64:
    return Int64(round(seconds * 1_000_000))

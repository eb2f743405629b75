"""The waits of a request in the queues of admission control, as a server shows them.

`currentOp` shows those of a running request; `system.profile` and the slow query log those of a finished one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.profile import WIRE_80

if TYPE_CHECKING:
    from fakeserver.request.context import RequestContext

_RATE_QUEUE: Final = "ingress_request"
"""The queue of the request rate limiter, which only 9.0 has."""
_WRITE_QUEUE: Final = "writeThrottle"
"""The queue of the write throttler, likewise."""


def of_running(request: RequestContext, now: float) -> dict[str, Any]:
    """Return `queues`, `currentQueue` (null outside of any), and the fields of flow control."""
    shown: dict[str, Any] = {}
    if request.node.profile.max_wire_version >= WIRE_80:
        queue, since = _current_queue(request)
        waits = {queue: now - since} if queue else {}
        shown["queues"] = _queues(request, waits)
        shown["currentQueue"] = {"name": queue, "timeQueuedMicros": _micros(now - since)} if queue else None
    if request.admission.low_priority:
        shown["priorityLowered"] = True
    throttled = request.admission.throttled_since
    shown["waitingForFlowControl"] = throttled is not None
    shown["flowControlStats"] = _flow(request, 0.0 if throttled is None else now - throttled)
    return shown


def of_finished(request: RequestContext) -> dict[str, Any]:
    """Return `queues` and `flowControl`, without queues that the request has not met."""
    shown: dict[str, Any] = {}
    if request.node.profile.max_wire_version >= WIRE_80:
        queues = {name: facts for name, facts in _queues(request, {}).items() if any(facts.values())}
        shown |= {"queues": queues} if queues else {}
    flow = _flow(request, 0.0)
    shown |= {"priorityLowered": True} if request.admission.low_priority else {}
    return shown | ({"flowControl": flow} if flow else {})


def seconds_queued(request: RequestContext) -> float:
    """Return the seconds that a request has waited to be admitted."""
    progress = request.admission
    before = progress.rate_queued + progress.ingress_queued + progress.write_queued
    return before + progress.execution_queued + progress.flow_queued


def _current_queue(request: RequestContext) -> tuple[str, float]:
    """Return the queue in which a request stands, and the instant of its arrival there; "" outside of any."""
    progress = request.admission
    if progress.queued_since is not None:
        return _RATE_QUEUE, progress.queued_since
    if progress.write_reservation is not None:
        return _WRITE_QUEUE, progress.write_reservation.since
    for name, ticket in (
        ("ingress", progress.ingress_ticket),
        ("execution", progress.execution_ticket),
    ):
        if ticket is not None and ticket.started is None:
            return name, ticket.arrived
    return "", 0.0


def _queues(request: RequestContext, waits: dict[str, float]) -> dict[str, Any]:
    progress = request.admission
    counted = {
        "ingress": (progress.ingress_admissions, progress.ingress_queued),
        "execution": (progress.execution_admissions, progress.execution_queued),
    }
    if progress.rate_admissions or progress.queued_since is not None:
        counted[_RATE_QUEUE] = (progress.rate_admissions, progress.rate_queued)
    if progress.write_admissions or progress.write_reservation is not None:
        counted[_WRITE_QUEUE] = (progress.write_admissions, progress.write_queued)
    return {
        name: {
            "admissions": admissions,
            "totalTimeQueuedMicros": _micros(queued + waits.get(name, 0.0)),
        }
        for name, (admissions, queued) in counted.items()
    }


def _flow(request: RequestContext, waits: float) -> dict[str, Any]:
    progress = request.admission
    counted = {
        "acquireCount": Int64(progress.flow_acquired),
        "acquireWaitCount": Int64(progress.flow_waits),
        "timeAcquiringMicros": _micros(progress.flow_queued + waits),
    }
    return {name: value for name, value in counted.items() if value}


def _micros(seconds: float) -> Int64:
    return Int64(round(seconds * 1_000_000))

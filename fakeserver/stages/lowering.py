"""Low priority of operations, and the instant of their next look (`Prioritization`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.admission.invocations import is_subject
from fakeserver.admission.tickets import Priority

if TYPE_CHECKING:
    from fakeserver.admission.controls import AdmissionControl
    from fakeserver.request.context import RequestContext

_ROUNDING: Final = 1e-9
"""Sums of turns are no whole numbers."""


def is_lowered(request: RequestContext, admission: AdmissionControl, admissions: int) -> bool:
    """Decide whether an operation takes tickets of low priority from now on, and count it."""
    progress, low = request.admission, admission.low
    if not low.in_use or progress.priority is Priority.EXEMPT:
        return False
    # A shard sees the connection of the mongos, and not that of its client.
    connection = request.connection if progress.control is None else None
    spec = request.spec
    observes = spec.name == "aggregate" and not is_subject(spec.kind, spec.name, request.command or {})
    if observes or low.spares(connection, in_transaction=request.has_autocommit):
        low.spared += not admissions
        return False
    progress.low_priority = low.lowers(request.spec.name, admissions)
    low.lowered += progress.low_priority
    return progress.low_priority


def turn_ends(request: RequestContext, admission: AdmissionControl, now: float, until: float) -> float | None:
    """Return the instant at which an operation with work until `until` yields its ticket, None for never."""
    low = admission.low
    if not low.in_use or not low.turn or request.admission.priority is Priority.EXEMPT:
        return None
    return now + low.turn if until - now - low.turn > _ROUNDING else None

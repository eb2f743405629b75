"""The place of a request in the pipeline, as far as it decides when the loss of its client is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.admission.invocations import writes
from fakeserver.admission.lost_clients import RequestPlace, ends_with_client, noticed_at
from fakeserver.request.pipeline import Step

if TYPE_CHECKING:
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext

_PLACES: Final = {
    Step.RULES: RequestPlace.HELD,
    Step.EXECUTION_CONTROL: RequestPlace.QUEUED,
    Step.EXECUTE: RequestPlace.QUEUED,
    Step.WRITE_CONCERN: RequestPlace.BEHIND,
}


def loss_noticed_at(request: RequestContext, now: float) -> float:
    """Return when the server notices that a request's client has gone (`abandonedRequests`).

    That is `now` for at once and inf for never, for as long as the request waits where it does.
    """
    # Unknown as long as the message is unread.
    spec: CommandSpec | None = getattr(request, "spec", None)
    marked = spec is not None and ends_with_client(
        spec.name,
        writes=writes(spec.name, request.command or {}),
        exhaust=request.is_continuation,
    )
    served_since = request.admission.served_since
    # What gave way has worked since it came, or nearly so.
    since = request.arrived if served_since is None else served_since
    when = request.node.parameters["abandonedRequests"]
    return noticed_at(when, _place(request), marked=marked, since=since, now=now)


def _place(request: RequestContext) -> RequestPlace:
    if request.paused is None or request.admission.served_since is not None:
        return RequestPlace.WORKING
    return _PLACES.get(request.paused.step, RequestPlace.AHEAD)

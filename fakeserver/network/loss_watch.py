"""The wait for the instant at which a server notices that the client of a connection has gone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from fakeserver.admission.invocations import writes
from fakeserver.admission.lost_clients import AT_ONCE, RequestPlace, ends_with_client, noticed_at
from fakeserver.request.pipeline import Step
from fakeserver.waiting.pause import Await, Pause

if TYPE_CHECKING:
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.network.connection import Connection
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


LEFT: Final = "peer"
"""The reason of a connection that ends because its client has gone."""


class LossWatch:
    """What a connection knows of the loss of its client: that it has gone, and when that is noticed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.lost = False
        """The client has gone, and what it sent goes on: replies are sent nowhere."""
        self.has_missed_reply = False
        """It did not get a reply: a server that cannot send one reads no further request."""
        self._check: Pause | None = None
        self._due = math.inf
        """The instant of that check."""

    def begin(self) -> bool:
        """Take note that the client has gone; return whether anything goes on without it."""
        node = self._connection.node
        if not self._connection.outlives_client or node.parameters["abandonedRequests"] == AT_ONCE:
            return False
        request = self._connection.waiting
        if request is not None and node.ready:
            now = node.clock.now()
            if loss_noticed_at(request, now) <= now:
                return False
        self.lost = True
        self.look()
        return True

    def misses_reply(self) -> bool:
        """Take note that a reply has nowhere to go; return whether that is so."""
        self.has_missed_reply = self.has_missed_reply or self.lost
        return self.lost

    def look(self) -> None:
        """Have a loss noticed in time, now that the connection's request waits for something else."""
        due = self._due
        self.end()
        node, request = self._connection.node, self._connection.waiting
        if request is None:
            return
        now = node.clock.now()
        # A check that came due during a turn of the request is made behind it.
        self._due = now if due <= now else loss_noticed_at(request, now)
        if self._due <= now:
            self._connection.notice_loss()
        elif self._due < math.inf:
            self._check = Pause(node, self._connection.notice_loss, Await(until=self._due))

    def end(self) -> None:
        """Watch no more."""
        self._due = math.inf
        if self._check is not None:
            self._check.cancel()
            self._check = None

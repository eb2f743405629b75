"""What fail points do to hellos besides `failCommand`: they wait, or tell more."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fakeserver.failpoints import APPEND_HELLO_OK, WAIT_IN_HELLO
from fakeserver.pipeline import PASS, Action, Await, Outcome, Stage, Step

if TYPE_CHECKING:
    from fakeserver.commands.table import CommandSpec
    from fakeserver.request import RequestContext


class HelloFailPoints(Stage):
    """Stands directly in front of the run: a hello that waits here has not begun to await a change."""

    step = Step.EXECUTION_CONTROL

    def concerns(self, spec: CommandSpec) -> bool:
        return spec.handshake

    def enter(self, request: RequestContext, now: float) -> Action:
        fail_points = request.node.fail_points
        name, until = request.hello_waits or (None, 0.0)
        if name is None and fail_points.active:
            name, until = _begin(request, now)
            request.hello_waits = None if name is None else (name, until)
        over = now >= until or (math.isinf(until) and not fail_points.is_configured(name or ""))
        if name is None or over:
            return PASS
        return Await(fail_points.changed if math.isinf(until) else None, until)

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - a stage's signature
        node, connection = request.node, request.connection
        if not node.fail_points.active or request.body is None:
            return
        name = APPEND_HELLO_OK[node.is_mongos]
        if node.fail_points.tells_hello_ok(name, connection.thread_name):
            request.body = {**request.body, "clientSupportsHello": connection.hello_ok}


def _begin(request: RequestContext, now: float) -> tuple[str | None, float]:
    """Return the fail point that a hello waits for, and until when."""
    node = request.node
    for name in (WAIT_IN_HELLO[node.is_mongos], WAIT_IN_HELLO[-1]):
        delay = node.fail_points.hello_delay(name, internal=request.connection.internal_client)
        if delay is not None:
            node.record_hit(name, request, "block")
            return name, now + delay
    return None, now

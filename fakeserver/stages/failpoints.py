"""`failCommand`, before a command runs.

The order of its effects is the server's: labels, block, closed connection, error. All of them are one hit,
one of the fail point's `times`. Its `writeConcernError` is another hit, after the run (`stages.concerns`).

A mongos has armed the deadline by then, which cuts a block short; a mongod has not, so that a block that is
longer than `maxTimeMS` is served in full, and the command fails with 50 after it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fakeserver.errors import expired
from fakeserver.request.pipeline import PASS, RESPOND, Action, Disconnect, Outcome, Stage, Step
from fakeserver.settings.failpoints import APPEND_HELLO_OK, FAIL_COMMAND, WAIT_IN_HELLO
from fakeserver.waiting.pause import Await

if TYPE_CHECKING:
    from fakeserver.deployment.node import Node
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext
    from fakeserver.request.stage import Enter, Leave, Shape
    from fakeserver.settings.failpoints import CommandFault


class FailPoints(Stage):
    """Blocks, then closes the connection or fails: one hit for all of it."""

    step = Step.FAIL_POINTS

    def entry(self, _spec: CommandSpec | None, _shape: Shape, node: Node) -> Enter | None:
        return self.enter if node.fail_points.active else None

    def enter(self, request: RequestContext, now: float) -> Action:
        fault = request.faults.fault
        if fault is None:
            node = request.node
            if not node.fail_points.active:
                return PASS
            fault = node.fail_points.fail_command(request.fail_point_target(node))
            if fault is None:
                return PASS
            # Kept on the request: entered again after the block, it must not take a second hit.
            request.record_hit(FAIL_COMMAND, fault.effect)
            request.faults.fault = fault
            request.response.label_override = fault.labels
            request.faults.rewrites_state_changes = fault.rewrites
            if fault.block:
                return _block(request, fault, now)
        elif _still_blocked(request, fault, now):
            return _block(request, fault, now)
        if request.deadline is not None and now >= request.deadline:
            raise expired()
        # Ahead of the error: a fail point with both gives no reply.
        if fault.close:
            return Disconnect("failCommand closes the connection")
        if fault.error is not None:
            request.response.failure = fault.error
            return RESPOND
        return PASS


def _block(request: RequestContext, fault: CommandFault, now: float) -> Action:
    bell = request.node.fail_points.changed if math.isinf(fault.block) else None
    until = now + fault.block
    return Await(bell, until if request.deadline is None else min(until, request.deadline))


def _still_blocked(request: RequestContext, fault: CommandFault, now: float) -> bool:
    """Say whether a block without a time goes on: until the fail point is off, or the deadline has come.

    The bell rings for every fail point that changes, so this one may still be on.
    """
    late = request.deadline is not None and now >= request.deadline
    return math.isinf(fault.block) and not late and request.node.fail_points.is_configured(FAIL_COMMAND)


# The fail points of hello besides `failCommand`: one lets it wait, one adds a field to its reply.


class HelloFailPoints(Stage):
    """Stands directly in front of the run: a hello that waits here has not begun to await a change.

    So its `maxAwaitTimeMS` begins after the block, as on a server, whose fail point is in the command itself.
    """

    step = Step.EXECUTION_CONTROL

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.handshake

    def entry(self, _spec: CommandSpec | None, _shape: Shape, node: Node) -> Enter | None:
        return self.enter if node.fail_points.active else None

    def exit(self, _spec: CommandSpec, _shape: Shape, node: Node) -> Leave | None:
        return self.leave if node.fail_points.active else None

    def enter(self, request: RequestContext, now: float) -> Action:
        fail_points = request.node.fail_points
        name, until = request.faults.hello_waits or (None, 0.0)
        if name is None and fail_points.active:
            name, until = _begin(request, now)
            request.faults.hello_waits = None if name is None else (name, until)
        # Without a delay it lasts until the fail point is switched off; the bell rings for any that changes.
        over = now >= until or (math.isinf(until) and not fail_points.is_configured(name or ""))
        if name is None or over:
            return PASS
        return Await(fail_points.changed if math.isinf(until) else None, until)

    def leave(self, request: RequestContext, _outcome: Outcome, _now: float) -> None:
        node, connection = request.node, request.connection
        if not node.fail_points.active or request.response.body is None:
            return
        name = APPEND_HELLO_OK[node.is_mongos]
        if node.fail_points.tells_hello_ok(name, connection.thread_name):
            request.response.body = {**request.response.body, "clientSupportsHello": connection.hello_ok}


def _begin(request: RequestContext, now: float) -> tuple[str | None, float]:
    """Return the fail point that a hello waits for, and until when."""
    node = request.node
    for name in (WAIT_IN_HELLO[node.is_mongos], WAIT_IN_HELLO[-1]):
        delay = node.fail_points.hello_delay(name, internal=request.connection.internal_client)
        if delay is not None:
            request.record_hit(name, "block")
            return name, now + delay
    return None, now

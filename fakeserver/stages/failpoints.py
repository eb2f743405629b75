"""`failCommand`, before a command runs.

A mongos has armed the deadline by then, which cuts a block short; a mongod has not.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from fakeserver.errors import expired
from fakeserver.failpoints import FAIL_COMMAND
from fakeserver.pipeline import PASS, RESPOND, Action, Await, Disconnect, Stage, Step

if TYPE_CHECKING:
    from fakeserver.failpoints import CommandFault
    from fakeserver.request import RequestContext


class FailPoints(Stage):
    """Blocks, then hangs up or fails, as the fail point says: one hit for all of it."""

    step = Step.FAIL_POINTS

    def enter(self, request: RequestContext, now: float) -> Action:
        fault = request.fault
        if fault is None:
            node = request.node
            if not node.fail_points.active:
                return PASS
            fault = node.fail_points.fail_command(node.target_of(request))
            if fault is None:
                return PASS
            node.record_hit(FAIL_COMMAND, request, fault.effect)
            request.fault = fault
            request.label_override = fault.labels
            request.rewrites_state_changes = fault.rewrites
            if fault.block:
                return _block(request, fault, now)
        elif _still_blocked(request, fault, now):
            return _block(request, fault, now)
        if request.deadline is not None and now >= request.deadline:
            raise expired()
        if fault.close:
            return Disconnect("failCommand closes the connection")
        if fault.error is not None:
            request.failure = fault.error
            return RESPOND
        return PASS


def _block(request: RequestContext, fault: CommandFault, now: float) -> Action:
    bell = request.node.fail_points.changed if math.isinf(fault.block) else None
    until = now + fault.block
    return Await(bell, until if request.deadline is None else min(until, request.deadline))


def _still_blocked(request: RequestContext, fault: CommandFault, now: float) -> bool:
    """Say whether a block without end goes on: until the fail point is off, or the command's time is over."""
    late = request.deadline is not None and now >= request.deadline
    return math.isinf(fault.block) and not late and request.node.fail_points.is_configured(FAIL_COMMAND)

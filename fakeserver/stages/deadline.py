"""`maxTimeMS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError, expired
from fakeserver.failpoints import MAX_TIME_ALWAYS_TIME_OUT, MAX_TIME_NEVER_TIME_OUT
from fakeserver.idl import Field, whole
from fakeserver.pipeline import PASS, Action, Outcome, Stage, Step
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.cursors import Cursor
    from fakeserver.commands.table import CommandSpec
    from fakeserver.request import RequestContext

_INT32_MAX: Final = (1 << 31) - 1
_MAX_TIME_MS: Final = Field("maxTimeMS", "number")


class Deadline(Stage):
    """Arms the deadline, counted from the arrival, and fails what is late already."""

    step = Step.DEADLINE

    def enter(self, request: RequestContext, now: float) -> Action:
        command = request.command
        # On a getMore it is how long to wait for more, which is the cursor's affair.
        if command is None or command.get("maxTimeMS") is None or request.spec.name == "getMore":
            return PASS
        max_time_ms = parse_max_time_ms(command["maxTimeMS"], request.name)
        if not max_time_ms:
            return PASS
        fail_points = request.node.fail_points
        if fail_points.active:
            if fail_points.is_on(MAX_TIME_ALWAYS_TIME_OUT):
                raise expired()
            if fail_points.is_on(MAX_TIME_NEVER_TIME_OUT):
                return PASS
        request.deadline = request.arrived + max_time_ms / 1000
        if now >= request.deadline:
            raise expired()
        return PASS


class TimeLeft(Stage):
    """Gives a getMore the time that the command which opened its cursor has left of its `maxTimeMS`.

    The time counts from here, unlike a command's own: what held the getMore back before is no part of it.
    The handler fails what is late, and a cursor whose time is over is destroyed.
    """

    step = Step.READ_CONCERN

    def concerns(self, spec: CommandSpec) -> bool:
        return spec.name == "getMore"

    def enter(self, request: RequestContext, now: float) -> Action:
        cursor = _cursor(request)
        if cursor is None or cursor.time_left is None or cursor.await_data:
            return PASS
        fail_points, left = request.node.fail_points, cursor.time_left
        if fail_points.active:
            if fail_points.is_on(MAX_TIME_ALWAYS_TIME_OUT):
                left = 0.0
            elif fail_points.is_on(MAX_TIME_NEVER_TIME_OUT):
                return PASS
        request.deadline = now + left
        return PASS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - a stage's signature
        failure, cursor = request.failure, _cursor(request)
        if failure is not None and failure.code == ErrorCode.MAX_TIME_MS_EXPIRED and cursor is not None:
            request.node.cursors.kill(cursor.id)


def _cursor(request: RequestContext) -> Cursor | None:
    return request.node.cursors.cursors.get((request.command or {}).get("getMore", 0))


def parse_max_time_ms(value: Any, command_name: str) -> int:
    """Return `maxTimeMS`, in milliseconds. Raises `CommandError` 14 or 2."""
    number = whole(_MAX_TIME_MS.check(value, f"{command_name}.maxTimeMS"))
    if number < 0:
        raise CommandError(
            ErrorCode.BAD_VALUE, f"BSON field 'maxTimeMS' value must be >= 0, actual value '{number}'"
        )
    if number > _INT32_MAX:
        raise CommandError(
            ErrorCode.BAD_VALUE, f"{number} value for maxTimeMS is out of range [0, {_INT32_MAX}]"
        )
    if isinstance(value, float) and value != number:
        raise CommandError(ErrorCode.BAD_VALUE, "maxTimeMS has non-integral value")
    return number

"""`configureFailPoint` and `waitForFailPoint`, which exist where test commands are enabled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.commands.table import CommandTable, Reply, first_argument
from fakeserver.errors import CommandError, expired
from fakeserver.idl import Field, Fields
from fakeserver.pipeline import Park
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()

_POLL_INTERVAL: Final = 0.1


@table.command("configureFailPoint", kind="internal", admin_only=True, requires_auth=False, test_only=True)
def configure_fail_point(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Turn a fail point on or off."""
    name = str(first_argument(command))
    ctx.node.fail_points.get(name)
    if "mode" not in command:
        raise CommandError(ErrorCode.ILLEGAL_OPERATION, "When setting a failpoint, you must supply a 'mode'")
    entered = ctx.node.configure_fail_point(name, mode=command["mode"], data=command.get("data"))
    return {"count": Int64(entered)}


@table.command(
    "waitForFailPoint",
    kind="internal",
    admin_only=True,
    requires_auth=False,
    test_only=True,
    fields=Fields.of(Field("timesEntered", "long", required=True), strict=False),
)
def wait_for_fail_point(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Wait until a fail point was entered so many times."""
    deadline = ctx.request.deadline
    if deadline is None:
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "Missing maxTimeMS")
    point = ctx.node.fail_points.get(str(first_argument(command)))
    if point.times_entered >= command["timesEntered"]:
        return {}
    if ctx.now >= deadline:
        raise expired()
    raise Park(None, min(ctx.now + _POLL_INTERVAL, deadline))

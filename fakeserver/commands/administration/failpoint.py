"""The commands configureFailPoint and waitForFailPoint: faults on purpose.

Behaviour: They exist where `enableTestCommands` is on, need neither authentication nor privileges, and run on
every server in every state. configureFailPoint replaces mode and data at once and returns `count`, how often
the point was entered since the server started, which configuring does not reset. The name is looked up first
(266), then `mode` must be there (20) and be one (2, 14); the contents of `data` are not looked at until the
point is met. waitForFailPoint needs `maxTimeMS` (9) and looks ten times a second, as a server does, so it may
answer up to 100 ms late; 50 at its deadline.

Versions: The same in every release.

Not modelled: A server has hundreds of fail points. Here are those of the driver specifications' tests, of
admission control, of hello and of the session workflow; another name answers 266.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.errors import CommandError, expired
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument
from fakeserver.waiting.pause import Park
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()

_POLL_INTERVAL: Final = 0.1
"""Seconds; a server polls too, so tests that time it see the same steps."""


@table.command("configureFailPoint", kind="internal", admin_only=True, requires_auth=False, test_only=True)
def configure_fail_point(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Turn a fail point on or off."""
    name = str(first_argument(command))
    ctx.node.fail_points.get(name)  # an unknown name is reported before a missing mode
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

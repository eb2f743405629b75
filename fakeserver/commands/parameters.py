"""`getParameter` and `setParameter`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.commands.table import CommandTable, Reply, first_argument
from fakeserver.errors import CommandError
from fakeserver.idl import GENERIC
from fakeserver.parameters import FAIL_POINT_PREFIX
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.commands.context import CommandContext

table = CommandTable()


@table.command("getParameter", kind="internal", admin_only=True)
def get_parameter(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Tell the values of server parameters: those named, or all."""
    first = first_argument(command)
    options = first if isinstance(first, dict) else {}
    wants_all = first == "*" or bool(options.get("allParameters"))
    reply: Reply = {}
    for name, value, startup, runtime in _values(ctx):
        if not (wants_all or name in command) or not _settable(options.get("setAt"), startup, runtime):
            continue
        if options.get("showDetails"):
            reply[name] = {"value": value, "settableAtRuntime": runtime, "settableAtStartup": startup}
        else:
            reply[name] = value
    if not reply and not wants_all:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "no option found to get")
    return reply


def _values(ctx: CommandContext) -> Iterator[tuple[str, Any, bool, bool]]:
    parameters = ctx.node.parameters
    for parameter in parameters:
        yield parameter.name, parameters[parameter.name], parameter.at_startup, parameter.at_runtime
    if parameters["enableTestCommands"]:
        for point in ctx.node.fail_points:
            yield FAIL_POINT_PREFIX + point.name, point.document(), True, False


def _settable(when: Any, startup: bool, runtime: bool) -> bool:  # noqa: FBT001 - two facts of a table's row
    return {"startup": startup, "runtime": runtime}.get(when, True)


@table.command("setParameter", kind="internal", admin_only=True)
def set_parameter(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Change server parameters; the reply tells what the first of them was."""
    names = [name for name in list(command)[1:] if name not in GENERIC]
    if not names:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "no option found to set, use help:true to see options ")
    return {"was": ctx.node.parameters.set({name: command[name] for name in names})}

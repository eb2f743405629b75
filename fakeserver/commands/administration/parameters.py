"""The commands getParameter and setParameter: the parameters of a server.

Behaviour: getParameter returns the parameters that the command names, or all for `*`, and 72 if it knows none
of them. `setAt` and `showDetails` select and describe. Fail points are shown as `failpoint.<name>` where test
commands are on. setParameter changes all of its parameters or none: an unknown name is 72, one that only
start-up sets 20, a bad value 2. It returns in `was` the earlier value of the first.

Versions: A parameter begins with its release; before that its name is unknown (docs/ADMISSION.md names the
release of those of admission control).

Not modelled: Parameters that nothing here would obey are without effect: those that tools and hosting scripts
set (docs/PARAMETERS.md). A server has hundreds more, which are unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import GENERIC, first_argument
from fakeserver.settings.server_parameters import FAIL_POINT_PREFIX
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.node import Node

table = CommandTable()


@table.command("getParameter", kind="internal", admin_only=True)
def get_parameter(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the values of server parameters: those named, or all."""
    first = first_argument(command)
    options = first if isinstance(first, dict) else {}
    wants_all = first == "*" or bool(options.get("allParameters"))
    reply: Reply = {}
    for name, value, startup, runtime in values(ctx.node):
        settable = {"startup": startup, "runtime": runtime}.get(options.get("setAt", ""), True)
        if not (wants_all or name in command) or not settable:
            continue
        if options.get("showDetails"):
            reply[name] = {"value": value, "settableAtRuntime": runtime, "settableAtStartup": startup}
        else:
            reply[name] = value
    # Unknown names are passed over as long as one is known, as a server does.
    if not reply and not wants_all:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "no option found to get")
    return reply


def values(node: Node) -> Iterator[tuple[str, Any, bool, bool]]:
    """Return the parameters of a server: name, value, whether they are set at start-up and at run time."""
    parameters = node.parameters
    for parameter in parameters:
        yield parameter.name, parameters[parameter.name], parameter.at_startup, parameter.at_runtime
    if parameters["enableTestCommands"]:
        for point in node.fail_points:
            yield FAIL_POINT_PREFIX + point.name, point.document(), True, False


@table.command("setParameter", kind="internal", admin_only=True)
def set_parameter(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Change server parameters; the reply has the earlier value of the first."""
    names = [name for name in list(command)[1:] if name not in GENERIC]
    if not names:
        raise CommandError(ErrorCode.INVALID_OPTIONS, "no option found to set, use help:true to see options ")
    return {"was": ctx.node.parameters.set({name: command[name] for name in names})}

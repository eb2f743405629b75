"""The command pushbackd: the verbs of `fakeserver.control`, from any client.

Behaviour: `{pushbackd: "stepDown", seconds: 10}` performs a verb on the deployment, whichever of its servers
is asked, and answers with the verb's document; docs/CONTROL.md lists the verbs. A verb or an argument that
does not exist, or does not fit the deployment as it is, answers 2 BadValue, and nothing is done. A verb that
takes time is answered when it is over; one that ends this server's connections gets no answer. The command
exists where `enableTestCommands` is on and, with access control, needs a client with the role root.

Versions: The same in every release.

Not modelled: No real server has this command. It passes admission control and fail points like any other, the
control listener does not; no rule covers it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError, expired
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import GENERIC, Fields, first_argument
from fakeserver.request.pipeline import HangUp
from fakeserver.waiting.bell import Bell
from fakeserver.waiting.pause import Park
from mongowire.codes import ErrorCode
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()

_COMMAND: Final = "pushbackd"
_OUTCOME: Final = 0
"""The number under which the context keeps the outcome of a verb that takes time."""


@table.command(_COMMAND, kind="internal", admin_only=True, test_only=True, fields=Fields.of(strict=False))
def control(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Perform a verb of the control."""
    # Called again while a verb takes time: it is performed once.
    outcome = ctx.finished.get(_OUTCOME)
    try:
        if outcome is None:
            arguments = {
                name: value
                for name, value in command.items()
                if name != _COMMAND and not name.startswith("$") and name not in GENERIC
            }
            outcome = ctx.node.cluster.control.perform(str(first_argument(command)), arguments)
            if ctx.node.refuses:
                raise HangUp("the verb has ended this connection")
            if not outcome.done:
                # Have the command called again at the end of a verb, or at its deadline.
                ctx.finished[_OUTCOME] = outcome
                over = Bell()
                outcome.when_done(over.ring)
                deadline = ctx.request.deadline
                raise Park(over, math.inf if deadline is None else deadline)
        elif not outcome.done:
            raise expired()
        return dict(outcome.result())
    except ControlError as error:
        raise CommandError(ErrorCode.BAD_VALUE, str(error)) from None

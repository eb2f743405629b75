"""The commands of authentication, on a deployment that has no users.

Behaviour: every attempt fails, as on a server without access control whose users are unknown.
Versions: getnonce until 6.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.table import CommandTable, Reply
from fakeserver.errors import CommandError
from fakeserver.idl import Field, Fields
from fakeserver.profile import WIRE_60
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()

_MECHANISM_UNAVAILABLE: Final = 334
_NONCE_BYTES: Final = 8


@table.command(
    "saslStart",
    kind="internal",
    requires_auth=False,
    fields=Fields.of(
        Field("mechanism", "string", required=True),
        Field("payload", "string|binData", required=True),
        strict=False,
    ),
)
def sasl_start(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Begin a SASL conversation."""
    mechanism = command["mechanism"]
    if mechanism not in ctx.node.parameters["authenticationMechanisms"]:
        raise CommandError(
            _MECHANISM_UNAVAILABLE,
            f"Received authentication for mechanism {mechanism} which is not enabled",
        )
    raise _failed()


@table.command(
    "saslContinue",
    kind="internal",
    requires_auth=False,
    fields=Fields.of(
        Field("conversationId", "int", required=True),
        Field("payload", "string|binData", required=True),
        strict=False,
    ),
)
def sasl_continue(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Go on with a SASL conversation."""
    raise CommandError(ErrorCode.PROTOCOL_ERROR, "No SASL session state found")


@table.command("authenticate", kind="internal", requires_auth=False)
def authenticate(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Authenticate by a client certificate."""
    raise _failed()


@table.command("logout", kind="internal", requires_auth=False)
def logout(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Forget who the client is."""
    return {}


@table.command("getnonce", kind="internal", requires_auth=False, until=WIRE_60)
def getnonce(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return a number used once."""
    return {"nonce": ctx.node.rng.randbytes(_NONCE_BYTES).hex()}


def _failed() -> CommandError:
    return CommandError(ErrorCode.AUTHENTICATION_FAILED, "Authentication failed.")

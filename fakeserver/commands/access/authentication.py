"""The commands for authentication: SASL with SCRAM, client certificates, logout.

Behaviour: `saslStart` begins a conversation, of which a connection has one at a time (its id is 1), and drops
an earlier one; `saslContinue` takes it further and, at its end, logs the user in. `authenticate` logs in the
user of `$external` that is the subject of the client's certificate. hello's `speculativeAuthenticate` runs
the same functions and leaves any failure out of its reply. A client is not told why it failed
(Authentication: every failure is 18 AuthenticationFailed), but for 17 (the conversation is out of step), 334
(the mechanism is not enabled, or the user has no password for it) and, of `authenticate`, 2 (another
mechanism).

Versions: `getnonce` until 6.0.

Not modelled: PLAIN, GSSAPI, MONGODB-AWS and MONGODB-OIDC, which answer as mechanisms that are not enabled
(334); with them, sessions that expire and have to authenticate again (391). The delay that a server may put
before the answer to a failure. A payload that is text is taken as it is; a server takes it for base64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.access.scram import MECHANISMS, ScramConversation, failed, skips_empty_exchange
from fakeserver.access.users import EXTERNAL
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from fakeserver.profile import WIRE_60
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.access.users import User
    from fakeserver.commands.context import CommandContext

table = CommandTable()

_NONCE_BYTES: Final = 8
_X509: Final = "MONGODB-X509"
_SASL_START: Final = Fields.of(
    Field("mechanism", "string", required=True),
    Field("payload", "string|binData", required=True),
    Field("options", "object"),
    strict=False,
)
_PASSED_ON: Final = frozenset({ErrorCode.PROTOCOL_ERROR, ErrorCode.MECHANISM_UNAVAILABLE})
"""The only failures that a client can tell from others: they say nothing of users or passwords."""


@table.command("saslStart", kind="internal", requires_auth=False, fields=_SASL_START)
def sasl_start(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Begin a SASL conversation."""
    return start_conversation(ctx, command, ctx.db)


def start_conversation(ctx: CommandContext, command: dict[str, Any], db: str) -> Reply:
    """Answer `saslStart`, also a speculative one. Raises `CommandError` 17, 18 or 334."""
    mechanism = command["mechanism"]
    # A client may give up a conversation and begin anew; a server keeps one for each connection.
    ctx.connection.identity.conversation = None
    if mechanism not in ctx.node.parameters["authenticationMechanisms"] or mechanism not in MECHANISMS:
        raise CommandError(
            ErrorCode.MECHANISM_UNAVAILABLE,
            f"Received authentication for mechanism {mechanism} which is not enabled",
        )
    skips = skips_empty_exchange(command)
    conversation = ScramConversation(mechanism, db, skip_empty_exchange=skips)
    try:
        reply = conversation.start(_payload(command), ctx.node.users.find, ctx.node.rng)
    except CommandError as error:
        raise _failure(ctx, conversation, error) from error
    ctx.connection.identity.conversation = conversation
    return reply


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
def sasl_continue(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Continue a SASL conversation."""
    identity = ctx.connection.identity
    # Taken out first: whatever fails below has ended the conversation, and no step can be tried twice.
    conversation, identity.conversation = identity.conversation, None
    if conversation is None:
        raise CommandError(ErrorCode.PROTOCOL_ERROR, "No SASL session state found")
    if conversation.db != ctx.db:
        raise CommandError(
            ErrorCode.PROTOCOL_ERROR, "Attempt to switch database target during SASL authentication."
        )
    try:
        reply = conversation.go_on(command["conversationId"], _payload(command))
    except CommandError as error:
        raise _failure(ctx, conversation, error) from error
    if not reply["done"]:
        identity.conversation = conversation
    elif conversation.user is not None:
        _log_in(ctx, conversation.user, conversation.mechanism)
    return reply


@table.command("authenticate", kind="internal", requires_auth=False)
def authenticate(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Authenticate by a client certificate."""
    return authenticate_by_certificate(ctx, command)


def authenticate_by_certificate(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Answer `authenticate`, also a speculative one. Raises `CommandError` 18, whatever is wrong."""
    if command.get("mechanism") != _X509:
        raise failed()
    # Drivers may leave the user out since 3.4; one that they name must be the certificate's all the same.
    subject = ctx.connection.certificate_subject
    named = command.get("user", subject)
    user = None if subject is None or named != subject else ctx.node.users.find(subject, EXTERNAL)
    if user is None:
        _log_failure(ctx, str(named or ""), EXTERNAL, _X509)
        raise failed()
    _log_in(ctx, user, _X509)
    return {"dbname": EXTERNAL, "user": user.name}


@table.command("logout", kind="internal", requires_auth=False)
def logout(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Log the client out of a database."""
    ctx.connection.identity.log_out(ctx.db)
    return {}


@table.command("getnonce", kind="internal", requires_auth=False, until=WIRE_60)
def getnonce(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return a number used once."""
    return {"nonce": ctx.node.rng.randbytes(_NONCE_BYTES).hex()}


def speculate(ctx: CommandContext, attempt: dict[str, Any]) -> Reply | None:
    """Return the answer to a hello's `speculativeAuthenticate`, None for one that fails for any reason."""
    # A speculative attempt names its database in `db`, because hello runs on another; X.509 may leave it out.
    db = attempt.get("db", EXTERNAL if attempt.get("mechanism") == _X509 else None)
    if type(db) is not str:
        return None
    fields = {name: value for name, value in attempt.items() if name != "db"}
    try:
        if "saslStart" in attempt:
            _SASL_START.check_command(fields)
            return start_conversation(ctx, fields, db)
        return authenticate_by_certificate(ctx, fields)
    except CommandError:
        # Left out of hello's reply: the client then authenticates in the ordinary way, and learns why.
        return None


def _payload(command: dict[str, Any]) -> bytes:
    payload = command["payload"]
    return payload.encode() if type(payload) is str else bytes(payload)


def _failure(ctx: CommandContext, conversation: ScramConversation, error: CommandError) -> CommandError:
    _log_failure(ctx, conversation.user_name, conversation.db, conversation.mechanism)
    return error if error.code in _PASSED_ON else failed()


def _log_in(ctx: CommandContext, user: User, mechanism: str) -> None:
    ctx.node.counters.authentications[mechanism, True] += 1
    ctx.connection.identity.log_in(user)
    ctx.node.counters.completed("Auth", ctx.now - ctx.connection.accepted)
    attr = {"user": f"{user.name}@{user.db}", "mechanism": mechanism, "client": ctx.connection.peer}
    ctx.node.log.write(
        "ACCESS", 5286306, "Successfully authenticated", context=ctx.connection.thread_name, attr=attr
    )


def _log_failure(ctx: CommandContext, name: str, db: str, mechanism: str) -> None:
    ctx.node.counters.authentications[mechanism, False] += 1
    attr = {"user": f"{name}@{db}", "mechanism": mechanism, "client": ctx.connection.peer}
    ctx.node.log.write(
        "ACCESS", 5286307, "Failed to authenticate", context=ctx.connection.thread_name, attr=attr
    )

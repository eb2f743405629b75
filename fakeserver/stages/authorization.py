"""Access control: strangers are asked who they are, others held to what their roles permit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.access.ask import Ask
from fakeserver.access.required import permitted
from fakeserver.errors import CommandError
from fakeserver.pipeline import PASS, Action, Stage, Step
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.request import RequestContext

_SECRETS: Final = frozenset({"pwd", "payload", "key", "digest"})


class Authentication(Stage):
    """Refuses strangers all but the commands that need no authentication."""

    step = Step.AUTHENTICATION

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - a stage's signature
        node = request.node
        if not node.auth or not request.spec.requires_auth:
            return PASS
        bypass = node.bypasses(request.connection)
        if not request.connection.identity.is_known(node.users, bypass=bypass):
            raise CommandError(ErrorCode.UNAUTHORIZED, f"Command {request.spec.name} requires authentication")
        return PASS


class Authorization(Stage):
    """Keeps a command of the admin database there, and a client within its roles."""

    step = Step.AUTHORIZATION

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - a stage's signature
        spec = request.spec
        if spec.admin_only and request.db != "admin":
            raise CommandError(
                ErrorCode.UNAUTHORIZED, f"{spec.name} may only be run against the admin database."
            )
        if request.node.auth:
            _check_privileges(request)
        return PASS


def _check_privileges(request: RequestContext) -> None:
    node, command = request.node, request.command
    assert command is not None
    if not request.spec.requires_auth:
        return
    identity, bypass = request.connection.identity, node.bypasses(request.connection)
    ask = Ask(node, identity, identity.privileges(node.users, bypass=bypass), request.db, command)
    if not _is_permitted(request, ask):
        from fakeserver.storage.printing import show_document  # noqa: PLC0415 - refusals are few

        raise CommandError(
            ErrorCode.UNAUTHORIZED,
            f"not authorized on {request.db} to execute command {show_document(_redacted(command))}",
        )


def _is_permitted(request: RequestContext, ask: Ask) -> bool:
    """Say whether a command is permitted: a server refuses all in the same words, for whatever reason.

    Raises `CommandError` for what is wrong with it otherwise.
    """
    try:
        return permitted(request.spec, ask)
    except CommandError as error:
        if error.code == ErrorCode.UNAUTHORIZED:
            return False
        raise


def _redacted(command: dict[str, Any]) -> dict[str, Any]:
    return {name: "xxx" if name in _SECRETS else value for name, value in command.items()}

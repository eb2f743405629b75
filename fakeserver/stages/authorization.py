"""Access control: strangers are asked who they are, others held to what their roles permit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.access.required import needs
from fakeserver.access.roles import permits
from fakeserver.commands.table import first_argument
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
    identity, bypass = request.connection.identity, node.bypasses(request.connection)
    wanted = list(needs(request.spec, request.db, command))
    if not wanted or _asks_of_itself(request, command):
        return
    privileges = identity.privileges(node.users, bypass=bypass)
    if not all(permits(privileges, resource, action) for resource, action in wanted):
        from fakeserver.storage.printing import show_document  # noqa: PLC0415 - refusals are few

        raise CommandError(
            ErrorCode.UNAUTHORIZED,
            f"not authorized on {request.db} to execute command {show_document(_redacted(command))}",
        )


def _asks_of_itself(request: RequestContext, command: dict[str, Any]) -> bool:
    """Say whether a user wants to know about itself, as anybody may."""
    if request.spec.name != "usersInfo":
        return False
    target, mine = first_argument(command), request.connection.identity.names
    asked = target if isinstance(target, list) else [target]
    return bool(asked) and all(_user(each, request.db) in mine for each in asked)


def _user(name: Any, db: str) -> tuple[Any, Any]:
    return (name.get("db"), name.get("user")) if isinstance(name, dict) else (db, name)


def _redacted(command: dict[str, Any]) -> dict[str, Any]:
    return {name: "xxx" if name in _SECRETS else value for name, value in command.items()}

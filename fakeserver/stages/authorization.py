"""Access control: clients must authenticate, and their roles must permit the command.

The two are far apart in the order of steps. A stranger is refused before the body is validated, so that it
learns nothing from errors about it. Privileges depend on the command's fields, so they come after validation,
and on a mongod after fail points: a test can fail a command that its user may not run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.access.ask import Ask
from fakeserver.access.required import permitted
from fakeserver.errors import CommandError
from fakeserver.request.pipeline import PASS, Action, Stage, Step
from fakeserver.storage.values.printing import show_document
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext

_SECRETS: Final = frozenset({"pwd", "payload", "key", "digest"})


class Authentication(Stage):
    """Refuses commands of unauthenticated clients, except those that need no authentication."""

    step = Step.AUTHENTICATION

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.requires_auth

    def enter(self, request: RequestContext, _now: float) -> Action:
        node = request.node
        bypass = node.bypasses(request.connection)
        if not request.connection.identity.is_known(node.users, bypass=bypass):
            raise CommandError(ErrorCode.UNAUTHORIZED, f"Command {request.spec.name} requires authentication")
        return PASS


class AdminDatabase(Stage):
    """Refuses a command of the admin database on another one, with access control or without."""

    step = Step.AUTHORIZATION

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.admin_only

    def enter(self, request: RequestContext, _now: float) -> Action:
        if request.db != "admin":
            name = request.spec.name
            raise CommandError(ErrorCode.UNAUTHORIZED, f"{name} may only be run against the admin database.")
        return PASS


class Authorization(Stage):
    """Refuses a command that the client's roles do not permit."""

    step = Step.AUTHORIZATION

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.requires_auth

    def enter(self, request: RequestContext, _now: float) -> Action:
        node, command = request.node, request.command
        assert command is not None
        identity, bypass = request.connection.identity, node.bypasses(request.connection)
        ask = Ask(node, identity, identity.privileges(node.users, bypass=bypass), request.db, command)
        if not _is_permitted(request, ask):
            # The message quotes the command, and may be logged by the client.
            shown = {name: "xxx" if name in _SECRETS else value for name, value in command.items()}
            raise CommandError(
                ErrorCode.UNAUTHORIZED,
                f"not authorized on {request.db} to execute command {show_document(shown)}",
            )
        return PASS


def _is_permitted(request: RequestContext, ask: Ask) -> bool:
    """Say whether a command is permitted. Raises `CommandError` for other faults in it.

    The reason is dropped: a server refuses in the same words, whatever is missing.
    """
    try:
        return permitted(request.spec, ask)
    except CommandError as error:
        if error.code == ErrorCode.UNAUTHORIZED:
            return False
        raise

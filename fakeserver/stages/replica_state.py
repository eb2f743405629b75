"""Whether a member in its present state may run a command (`SDAM: "not writable primary" errors`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.admission.invocations import needs_primary
from fakeserver.errors import CommandError
from fakeserver.failpoints import RESPOND_WITH_NOT_PRIMARY, SKIP_NOT_PRIMARY_CHECK
from fakeserver.pipeline import PASS, Action, Stage, Step
from fakeserver.replication import Role
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.table import CommandSpec
    from fakeserver.request import RequestContext


class ReplicaState(Stage):
    """Writes need the primary; reads may opt in to secondaries; the rest runs anywhere."""

    step = Step.REPLICA_STATE

    def concerns(self, spec: CommandSpec) -> bool:
        return spec.kind not in {"admin", "internal"}

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - a stage's signature
        node = request.node
        fail_points = node.fail_points
        if fail_points.active:
            if fail_points.is_on(SKIP_NOT_PRIMARY_CHECK):
                return PASS
            if fail_points.is_on(RESPOND_WITH_NOT_PRIMARY):
                raise _not_primary(request)
        role = node.role
        if role is Role.PRIMARY or request.db == "local":
            return PASS
        if needs_primary(request.spec.kind, request.spec.name, request.command or {}):
            raise _not_primary(request)
        if not request.spec.on_secondaries and not _opts_in(request.command):
            raise _no_secondary_ok(request)
        if role is Role.RECOVERING:
            raise CommandError(ErrorCode.NOT_PRIMARY_OR_SECONDARY, "node is recovering")
        if role is not Role.SECONDARY:
            message = "node is not in primary or recovering state"
            raise CommandError(ErrorCode.NOT_PRIMARY_OR_SECONDARY, message)
        return PASS


def _opts_in(command: Any) -> bool:
    preference = command.get("$readPreference")
    return isinstance(preference, dict) and preference.get("mode", "primary") != "primary"


def _not_primary(request: RequestContext) -> CommandError:
    message = "not primary" if request.connection.hello_ok else "not master"
    return CommandError(ErrorCode.NOT_WRITABLE_PRIMARY, message)


def _no_secondary_ok(request: RequestContext) -> CommandError:
    new_words = request.connection.hello_ok
    message = "not primary and secondaryOk=false" if new_words else "not master and slaveOk=false"
    return CommandError(ErrorCode.NOT_PRIMARY_NO_SECONDARY_OK, message)

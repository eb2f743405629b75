"""What a mongos does with a command besides running it: find the shard, and hide the shard's changes.

The shards share the store of the cluster, so the command runs here; what a shard would have refused, or
kept waiting, is asked of the primary of the database's shard.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.pipeline import PASS, Action, Await, Outcome, Stage, Step
from fakeserver.stages.deadline import expired
from mongowire.codes import Category, ErrorCode, Label, is_in

if TYPE_CHECKING:
    from fakeserver.failpoints import CommandFault
    from fakeserver.node import Node
    from fakeserver.request import RequestContext
    from fakeserver.shard import Shard

_FIND_HOST_SECONDS: Final = 20.0
_ATTEMPTS: Final = 4
_PRIMARY_ONLY: Final = (None, "primary")
_REWRITTEN: Final = (("not master", "(NOT_PRIMARY)"), ("node is recovering", "(NODE_IS_RECOVERING)"))


class Routing(Stage):
    """Waits for the primary of the shard that a command is for, and for what its fail points do there."""

    step = Step.AUTHORIZATION

    def enter(self, request: RequestContext, now: float) -> Action:
        if request.spec.kind in {"admin", "internal"}:
            return PASS
        if request.db == "local":
            raise CommandError(ErrorCode.ILLEGAL_OPERATION, "Can't use 'local' database through mongos")
        config = request.node.cluster.config
        assert config is not None
        shard = config.home_of(request.db)
        primary = shard.primary
        if primary is None:
            return PASS if _opts_in(request) else _await_primary(request, shard, now)
        request.admission = primary.admission
        if primary.fail_points.any_active:
            return _ask(request, primary, now)
        return PASS


def _opts_in(request: RequestContext) -> bool:
    preference = (request.command or {}).get("$readPreference")
    mode = preference.get("mode") if isinstance(preference, dict) else None
    return request.spec.kind == "read" and mode not in _PRIMARY_ONLY


def _await_primary(request: RequestContext, shard: Shard, now: float) -> Action:
    until = request.arrived + _FIND_HOST_SECONDS
    if request.deadline is not None:
        until = min(until, request.deadline)
    if now < until:
        return Await(request.node.cluster.replication, until)
    if request.deadline is not None and now >= request.deadline:
        raise expired()
    raise CommandError(
        ErrorCode.FAILED_TO_SATISFY_READ_PREFERENCE,
        f'Could not find host matching read preference {{ mode: "primary" }} for set {shard.name}',
    )


def _ask(request: RequestContext, primary: Node, now: float) -> Action:
    """Meet the shard's `failCommand`, if it is meant for internal clients; a mongos tries a few times."""
    fault = request.shard_fault
    if fault is None:
        fault = request.shard_fault = _met(request, primary)
        if fault is not None and fault.block:
            return Await(primary.fail_points.changed if math.isinf(fault.block) else None, now + fault.block)
    if fault is None:
        return PASS
    if fault.close:
        message = f"Connection closed by peer :: caused by :: {primary.name}"
        raise CommandError(ErrorCode.HOST_UNREACHABLE, message)
    if fault.error is not None:
        if is_in(fault.error.code, Category.SYSTEM_OVERLOADED):
            request.label_override = (Label.SYSTEM_OVERLOADED,)
        raise fault.error
    return PASS


def _met(request: RequestContext, primary: Node) -> CommandFault | None:
    """Return what the last of several attempts met; one that met nothing ends them."""
    fault = None
    for _ in range(_ATTEMPTS):
        fault = primary.fail_points.fail_command(primary.target_of(request))
        if fault is None or fault.block:
            break
        primary.record_hit("failCommand", request, fault.effect)
        if fault.error is not None and not is_in(fault.error.code, Category.RETRIABLE):
            break
    return fault


class RewriteStateChanges(Stage):
    """Hides from clients of a mongos that a shard has another primary: they could do nothing about it.

    Codes of the "not primary" and shutdown kinds become 6 HostUnreachable, at the top level, in write errors
    and in a write concern error, unless a fail point made them.
    """

    step = Step.CLUSTER_TIME

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002
        if not request.rewrites_state_changes or request.node.outages.shutting_down:
            return
        failure = request.failure
        if failure is not None and _is_state_change(failure.code):
            message = _reworded(failure.message)
            request.failure = CommandError(ErrorCode.HOST_UNREACHABLE, message, extra=failure.extra)
        if request.write_concern_error is not None:
            request.write_concern_error = _rewritten(request.write_concern_error)
        errors = (request.body or {}).get("writeErrors")
        if request.body is not None and errors:
            request.body = {**request.body, "writeErrors": [_rewritten(error) for error in errors]}


def _is_state_change(code: int) -> bool:
    return is_in(code, Category.NOT_PRIMARY) or is_in(code, Category.SHUTDOWN)


def _rewritten(error: Any) -> Any:
    if not isinstance(error, dict) or not _is_state_change(int(error.get("code", 0))):
        return error
    fields = {**error, "code": int(ErrorCode.HOST_UNREACHABLE), "errmsg": _reworded(error.get("errmsg", ""))}
    if "codeName" in error:
        fields["codeName"] = ErrorCode.HOST_UNREACHABLE.code_name
    return fields


def _reworded(message: str) -> str:
    for known, neutral in _REWRITTEN:
        message = message.replace(known, neutral)
    return message

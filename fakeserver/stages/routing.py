"""What a mongos does with a command besides running it: find the shard, and hide the shard's changes.

The shards share the store of the cluster, so the command runs here; what a shard would have refused, or
kept waiting, is asked of a member of the database's shard, once for each attempt.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fakeserver.admission.invocations import needs_primary
from fakeserver.admission.rate_limiter import ADMITTED, REJECTED
from fakeserver.errors import CommandError, expired
from fakeserver.failpoints import FAIL_COMMAND, FAIL_INGRESS_REQUEST_RATE_LIMITING, RETURN_MAX_BACKOFF_DELAY
from fakeserver.labels import carries_backoff_hint, is_retriable
from fakeserver.pipeline import PASS, Action, Await, Outcome, Stage, Step
from fakeserver.replication import Role
from fakeserver.shard_calls import ShardCall
from mongowire.codes import Category, ErrorCode, Label, is_in

if TYPE_CHECKING:
    from fakeserver.node import Node
    from fakeserver.request import RequestContext
    from fakeserver.shard import Shard

_FIND_HOST_SECONDS: Final = 20.0
_PRIMARY_ONLY: Final = (None, "primary")
_REWRITTEN: Final = (("not master", "(NOT_PRIMARY)"), ("node is recovering", "(NODE_IS_RECOVERING)"))


class Routing(Stage):
    """Finds a member of the shard that a command is for, and asks at its door, again if it is refused.

    Asked there is what stands in front of a mongod's commands: its request rate limiter, its `failCommand`
    for internal clients, its queue. The tickets of the steps that follow are that member's too.
    """

    step = Step.AUTHORIZATION

    def enter(self, request: RequestContext, now: float) -> Action:
        if request.spec.kind in {"admin", "internal"}:
            return PASS
        if request.db == "local":
            raise CommandError(ErrorCode.ILLEGAL_OPERATION, "Can't use 'local' database through mongos")
        node = request.node
        config, shards = node.cluster.config, node.shards
        assert config is not None
        assert shards is not None
        shard = config.home_of(request.db)
        call = request.shard_call
        if call is None:
            call = request.shard_call = ShardCall(shards.client(shard))
        elif request.deadline is not None and now >= request.deadline:
            raise expired()
        return _send(request, shard, call, now)

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - a stage's signature
        call = request.shard_call
        if call is None:
            return
        request.shard_call = None
        call.withdraw()
        failure = request.failure
        overloaded = failure is not None and _is_overload(request, failure.code)
        failed = failure is not None or outcome is Outcome.ABANDONED
        call.client.ended(call.operation, overloaded=overloaded, failed=failed)


def _send(request: RequestContext, shard: Shard, call: ShardCall, now: float) -> Action:
    """Try until an attempt is let in, has to wait, or is refused for good. Raises `CommandError`."""
    while True:
        if call.retry_at is not None and now < call.retry_at:
            return Await(until=_until(request, call.retry_at))
        call.retry_at = None
        if call.target is None:
            target = _target(request, shard, call)
            if target is None:
                return PASS if _opts_in(request) else _await_primary(request, shard, now)
            if call.refused_by is not None and target is not call.refused_by:
                call.client.retargeted()
            refusal = _arrive(request, target, call, now)
        else:
            refusal = None
        outcome = refusal or _stay(request, call, now)
        if not isinstance(outcome, Refusal):
            return outcome
        call.retry_at = now + _after(request, call, outcome)


def _target(request: RequestContext, shard: Shard, call: ShardCall) -> Node | None:
    """Return the member that an attempt goes to (`Read Preference`), None while there is none."""
    if not _opts_in(request):
        return shard.primary
    mode = request.command["$readPreference"]["mode"] if request.command else "nearest"
    primary = [] if shard.primary is None else [shard.primary]
    others = [
        node
        for node in shard.data_bearing
        if node.role is Role.SECONDARY and node.ready and node.member.spec.is_shown
    ]
    ordered = {
        "secondary": others,
        "secondaryPreferred": [*others, *primary],
        "primaryPreferred": [*primary, *others],
    }.get(mode, [*primary, *others])
    if request.node.parameters["overloadAwareServerSelectionEnabled"]:
        ordered = sorted(ordered, key=lambda node: node.name in call.operation.avoided)
    return ordered[0] if ordered else None


def _arrive(request: RequestContext, target: Node, call: ShardCall, now: float) -> Refusal | None:
    """Ask the member's rate limiter, then its fail point."""
    call.target, request.admission = target, target.admission
    admission, shards = target.admission, request.node.shards
    assert shards is not None
    if admission.limits_requests:
        if admission.exempts(shards.connection(target, request.spec.name)):
            admission.requests.exempt()
        else:
            fails = target.fail_points.is_on(FAIL_INGRESS_REQUEST_RATE_LIMITING)
            verdict = REJECTED if fails else admission.requests.acquire(now)
            if verdict is REJECTED:
                return Refusal.of(admission.refusal, tuple(admission.refusal.extra["errorLabels"]))
            call.reservation = None if verdict is ADMITTED else verdict
    if target.fail_points.active:
        call.fault = fault = target.fail_points.fail_command(target.target_of(request))
        if fault is not None:
            target.record_hit(FAIL_COMMAND, request, fault.effect)
            call.blocked_until = now + fault.block
    return None


def _stay(request: RequestContext, call: ShardCall, now: float) -> Action | Refusal:
    """Do what the member's fail point says, then wait for a token that was promised."""
    fault, target = call.fault, call.target
    assert target is not None
    if fault is not None:
        endless = math.isinf(fault.block)
        blocked = target.fail_points.is_configured(FAIL_COMMAND) if endless else now < call.blocked_until
        if blocked:
            bell = target.fail_points.changed if endless else None
            return Await(bell, _until(request, call.blocked_until))
        if fault.close:
            message = f"Connection closed by peer :: caused by :: {target.name}"
            return Refusal(CommandError(ErrorCode.HOST_UNREACHABLE, message), ())
        if fault.error is not None:
            return Refusal.of(fault.error, fault.labels or (), target)
    reservation, admission = call.reservation, target.admission
    if reservation is None:
        return PASS
    if now < reservation.ready_at and admission.limits_requests:
        call.queued = True
        return Await(admission.changed, _until(request, reservation.ready_at))
    if now < reservation.ready_at:
        admission.requests.release()
    else:
        admission.requests.mature(reservation)
    call.reservation, call.queued = None, False
    return PASS


class Refusal(NamedTuple):
    """A shard's error: as the client would see it, its labels, and its `baseBackoffMS` in seconds."""

    error: CommandError
    labels: tuple[str, ...]
    hint: float | None = None

    @classmethod
    def of(cls, error: CommandError, labels: tuple[str, ...], target: Node | None = None) -> Refusal:
        """Return the refusal of an error as a shard answers it; the client gets labels of the mongos."""
        extra = dict(error.extra)
        extra.pop("errorLabels", None)
        hint_ms = extra.pop("baseBackoffMS", None)
        if target is not None and target.profile.hints_backoff and carries_backoff_hint(labels):
            hint_ms = target.parameters["externalClientBaseBackoffMS"] or None
        hint = None if hint_ms is None else int(hint_ms) / 1000
        return cls(CommandError(error.code, error.message, extra=extra), labels, hint)


def _after(request: RequestContext, call: ShardCall, refusal: Refusal) -> float:
    """Return how many seconds later to try again. Raises the `CommandError` of what is given up."""
    node, target, code = request.node, call.target, refusal.error.code
    assert target is not None
    call.withdraw()
    call.refused_by = target
    exact = node.fail_points.is_on(RETURN_MAX_BACKOFF_DELAY)
    delay = call.client.failed(
        call.operation,
        overloaded=Label.SYSTEM_OVERLOADED in refusal.labels or _is_overload(request, code),
        retryable=_is_retryable(request, refusal),
        target=target.name,
        hint=refusal.hint,
        dice=1.0 if exact else node.backoff_dice.random(),
    )
    if delay is None:
        raise refusal.error
    return delay


def _is_overload(request: RequestContext, code: int) -> bool:
    return request.node.profile.knows_overload and is_in(code, Category.SYSTEM_OVERLOADED)


def _is_retryable(request: RequestContext, refusal: Refusal) -> bool:
    """Whether a mongos tries again: what says so itself, and errors of what does no harm twice."""
    if Label.RETRYABLE in refusal.labels:
        return True
    if request.has_autocommit or not is_retriable(refusal.error.code, request.node.profile):
        return False
    harmless = _only_reads(request) or request.txn_number is not None
    return harmless or is_in(refusal.error.code, Category.NOT_PRIMARY)


def _until(request: RequestContext, instant: float) -> float:
    return instant if request.deadline is None else min(instant, request.deadline)


def _opts_in(request: RequestContext) -> bool:
    preference = (request.command or {}).get("$readPreference")
    mode = preference.get("mode") if isinstance(preference, dict) else None
    return _only_reads(request) and mode not in _PRIMARY_ONLY


def _only_reads(request: RequestContext) -> bool:
    spec = request.spec
    return spec.kind == "read" and not needs_primary(spec.kind, spec.name, request.command or {})


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

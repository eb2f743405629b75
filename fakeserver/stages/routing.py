"""The way of a command from a mongos to a shard, and the rewriting of the shard's errors.

A real mongos sends the command to the shards that own its data, and merges their replies. Here all servers of
a cluster share one store (docs/adr/0008), so the command runs on the mongos itself. What a client can observe
of the shard in between is asked of one of its members, for each attempt:

    1. a member that fits the read preference; a write waits up to 20 s for a primary, as a mongos does
    2. its request rate limiter, unless the mongos's connection is exempt
    3. its `failCommand`, if that says `failInternalCommands`: block, close or fail
    4. the wait for a token that the limiter granted on credit

A refusal in 2 or 3 is retried by the mongos, by the rules of a driver: backoff with jitter, the shard's
`baseBackoffMS` where it sent one, a budget per shard, another member for reads under overload
(`admission.shard_retries`). The error that remains reaches the client with the labels of a mongos. The
shard's RetryableError and `baseBackoffMS` are dropped: the retries that they ask for have taken place.

Tickets and flow control of the steps that follow are the member's too (`Progress.control`): a mongos has no
storage that they could protect.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Int64

from fakeserver.admission.invocations import needs_primary
from fakeserver.admission.rate_limiter import ADMITTED, REJECTED
from fakeserver.deployment.records.journal_search import COLLECTION
from fakeserver.deployment.replication.state import Role
from fakeserver.errors import CommandError, expired
from fakeserver.request.context import ShardCall
from fakeserver.request.labels import carries_backoff_hint, is_retriable
from fakeserver.request.pipeline import PASS, RESPOND, Action, Outcome, Stage, Step
from fakeserver.settings.failpoints import (
    FAIL_COMMAND,
    FAIL_INGRESS_REQUEST_RATE_LIMITING,
    RETURN_MAX_BACKOFF_DELAY,
)
from fakeserver.waiting.pause import Await
from mongowire.codes import Category, ErrorCode, Label, is_in

if TYPE_CHECKING:
    from fakeserver.deployment.node import Node
    from fakeserver.deployment.shard import Shard
    from fakeserver.request.context import RequestContext


_FIND_HOST_SECONDS: Final = 20.0
"""`defaultFindReplicaSetHostTimeoutMS`, counted from the request's arrival."""
_PRIMARY_ONLY: Final = (None, "primary")
_REWRITTEN: Final = (("not master", "(NOT_PRIMARY)"), ("node is recovering", "(NODE_IS_RECOVERING)"))


class Routing(Stage):
    """Chooses a member of the database's shard, and retries what that member's limiter or fail point refuses.

    It is the last stage of its step: a mongos authorizes first, and a refusal costs the shard nothing.
    """

    step = Step.AUTHORIZATION

    def enter(self, request: RequestContext, now: float) -> Action:
        # Commands about the mongos itself, or the whole cluster, go to no single shard.
        if request.spec.kind in {"admin", "internal"}:
            return PASS
        # Each server has its own `local`, so the name means nothing behind a router.
        if request.db == "local":
            if request.target == COLLECTION:  # the deployment's, which each of its servers has
                return PASS
            raise CommandError(ErrorCode.ILLEGAL_OPERATION, "Can't use 'local' database through mongos")
        node = request.node
        config, shards = node.cluster.config, node.shards
        assert config is not None
        assert shards is not None
        shard = config.home_of(request.db)
        call = request.routing.shard_call
        if call is None:
            call = request.routing.shard_call = ShardCall(shards.client(shard))
        elif request.deadline is not None and now >= request.deadline:
            # Entered again after a backoff, a block or a queue.
            raise expired()
        return _send(request, shard, call, now)

    def leave(self, request: RequestContext, outcome: Outcome, _now: float) -> None:
        call = request.routing.shard_call
        if call is None:
            return
        request.routing.shard_call = None
        call.withdraw()
        failure = request.response.failure or call.gave_up_by
        # The budget of retries grows with each operation that succeeds; an abandoned one has not.
        overloaded = failure is not None and _is_overload(request, failure.code)
        failed = failure is not None or outcome is Outcome.ABANDONED
        call.client.ended(call.operation, overloaded=overloaded, failed=failed)


def _send(request: RequestContext, shard: Shard, call: ShardCall, now: float) -> Action:
    """Make attempts until one is admitted, has to wait, or is refused for good. Raises `CommandError`."""
    while True:
        if call.retry_at is not None and now < call.retry_at:
            return Await(until=_until(request, call.retry_at))
        if call.retry_at is not None:
            call.client.sent_again(call.operation)
            call.retry_at = None
        if call.target is None:
            target = _target(request, shard, call)
            if target is None:
                # A read that any member could serve finds the shared store here, whoever runs.
                return PASS if _opts_in(request) else _await_primary(request, shard, now)
            if call.refused_by is not None and target is not call.refused_by:
                call.client.retargeted()
            refusal = _arrive(request, target, call, now)
        else:
            refusal = None
        outcome = refusal or _stay(request, call, now)
        if not isinstance(outcome, ShardRefusal):
            return outcome
        delay = _after(request, call, outcome)
        if delay is None:
            return _report(request, call, outcome.error)
        call.retry_at = now + delay


def _report(request: RequestContext, call: ShardCall, error: CommandError) -> Action:
    """Answer with the error that remains: a batch of writes in its reply. Raises `CommandError`."""
    call.gave_up_by = error
    body = _refused_batch(request, error) if _is_overload(request, error.code) else None
    if body is None:
        raise error
    request.response.body = body
    return RESPOND


def _target(request: RequestContext, shard: Shard, call: ShardCall) -> Node | None:
    """Return the member for an attempt (`Read Preference`), None while there is none."""
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
    # Stable: members that have refused this operation move behind the others, and stay candidates.
    if request.node.parameters["overloadAwareServerSelectionEnabled"]:
        ordered = sorted(ordered, key=lambda node: node.name in call.operation.avoided)
    return ordered[0] if ordered else None


def _arrive(request: RequestContext, target: Node, call: ShardCall, now: float) -> ShardRefusal | None:
    """Ask the member's rate limiter, then its fail point."""
    call.target, request.admission.control = target, target.admission
    admission, shards = target.admission, request.node.shards
    assert shards is not None
    if admission.limits_requests:
        # The member sees the mongos's connection, with the mongos's own address and application name.
        if admission.exempts(shards.connection(target, request.spec.name)):
            admission.requests.exempt()
        else:
            fails = target.fail_points.is_on(FAIL_INGRESS_REQUEST_RATE_LIMITING)
            verdict = REJECTED if fails else admission.requests.acquire(now)
            if verdict is REJECTED:
                return ShardRefusal.of(admission.refusal, tuple(admission.refusal.extra["errorLabels"]))
            call.reservation = None if verdict is ADMITTED else verdict
    if target.fail_points.active:
        call.fault = fault = target.fail_points.fail_command(request.fail_point_target(target))
        if fault is not None:
            request.record_hit(FAIL_COMMAND, fault.effect, at=target)
            call.blocked_until = now + fault.block
    return None


def _stay(request: RequestContext, call: ShardCall, now: float) -> Action | ShardRefusal:
    """Do what the member's fail point says, then wait for a token that was promised."""
    fault, target = call.fault, call.target
    assert target is not None
    if fault is not None:
        # A block without a time lasts until the fail point is switched off; a mongos cuts each one short at
        # the operation's deadline, unlike a mongod, which arms its deadline after its fail points.
        endless = math.isinf(fault.block)
        blocked = target.fail_points.is_configured(FAIL_COMMAND) if endless else now < call.blocked_until
        if blocked:
            bell = target.fail_points.changed if endless else None
            return Await(bell, _until(request, call.blocked_until))
        if fault.close:
            # To the mongos a closed connection is a network error, and those carry no labels.
            message = f"Connection closed by peer :: caused by :: {target.name}"
            return ShardRefusal(CommandError(ErrorCode.HOST_UNREACHABLE, message), ())
        if fault.error is not None:
            return ShardRefusal.of(fault.error, fault.labels or (), target)
    reservation, admission = call.reservation, target.admission
    if reservation is None:
        return PASS
    if now < reservation.ready_at and admission.limits_requests:
        call.queued = True
        return Await(admission.changed, _until(request, reservation.ready_at))
    if now < reservation.ready_at:
        # The limiter was switched off meanwhile, which releases its queue.
        admission.requests.release()
    else:
        admission.requests.mature(reservation)
    call.reservation, call.queued = None, False
    return PASS


class ShardRefusal(NamedTuple):
    """A shard's error."""

    error: CommandError
    """The error as the client would see it."""
    labels: tuple[str, ...]
    """The labels of the shard's reply, which decide about a retry."""
    hint: float | None = None
    """The reply's `baseBackoffMS`, in seconds."""

    @classmethod
    def of(cls, error: CommandError, labels: tuple[str, ...], target: Node | None = None) -> ShardRefusal:
        """Return the refusal for a shard's error: the shard's labels and hint are for the mongos alone."""
        extra = dict(error.extra)
        extra.pop("errorLabels", None)
        hint_ms = extra.pop("baseBackoffMS", None)
        if target is not None and target.profile.hints_backoff and carries_backoff_hint(labels):
            hint_ms = target.parameters["externalClientBaseBackoffMS"] or None
        hint = None if hint_ms is None else int(hint_ms) / 1000
        return cls(CommandError(error.code, error.message, extra=extra), labels, hint)


def _after(request: RequestContext, call: ShardCall, refusal: ShardRefusal) -> float | None:
    """Return the backoff before the next attempt, in seconds, None after the last one."""
    node, target, code = request.node, call.target, refusal.error.code
    assert target is not None
    call.withdraw()
    call.refused_by = target
    exact = node.fail_points.is_on(RETURN_MAX_BACKOFF_DELAY)
    return call.client.failed(
        call.operation,
        overloaded=Label.SYSTEM_OVERLOADED in refusal.labels or _is_overload(request, code),
        retryable=_is_retryable(request, refusal),
        target=target.name,
        hint=refusal.hint,
        jitter=1.0 if exact else node.backoff_rng.random(),
        backoff=node.fail_points.backoff(),
    )


def _is_overload(request: RequestContext, code: int) -> bool:
    return request.node.profile.knows_overload and is_in(code, Category.SYSTEM_OVERLOADED)


def _is_retryable(request: RequestContext, refusal: ShardRefusal) -> bool:
    """Whether a mongos retries: where the shard says so, and where the command does no harm twice."""
    if Label.RETRYABLE in refusal.labels:
        return True
    # Statements of a transaction: the client must learn of the error and run the whole transaction again.
    if request.has_autocommit or not is_retriable(refusal.error.code, request.node.profile):
        return False
    # "Not primary" means that the member has not begun, so that even a write without a number can go on.
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

    A driver that reads "not primary" marks the server that said so as unknown, and here that would be the
    mongos. So the codes of the "not primary" and shutdown kinds become 6 HostUnreachable, at the top level,
    in write errors and in a write concern error. Labels are computed before that, from the shard's code.

    Two kinds are left alone: codes that a fail point made, for tests want them as they are, and the mongos's
    own shutdown, which its clients must know of.
    """

    step = Step.CLUSTER_TIME

    def leave(self, request: RequestContext, _outcome: Outcome, _now: float) -> None:
        response = request.response
        if not request.faults.rewrites_state_changes or request.node.outages.shutting_down:
            return
        failure = response.failure
        if failure is not None and _is_state_change(failure.code):
            message = _reworded(failure.message)
            response.failure = CommandError(ErrorCode.HOST_UNREACHABLE, message, extra=failure.extra)
        if response.write_concern_error is not None:
            response.write_concern_error = _rewritten(response.write_concern_error)
        # A new body: the handler may have kept the documents of the old one, as records of statements.
        errors = (response.body or {}).get("writeErrors")
        if response.body is not None and errors:
            response.body = {**response.body, "writeErrors": [_rewritten(error) for error in errors]}


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


# A batch of writes that a shard has refused for overload, as a mongos reports it: in the reply of the batch.
#
# The mongos notes the shard's error for each statement that it had sent, and its own reply says `ok: 1`.
# Labels are for errors of commands, so there are none, and no driver retries the batch. A transaction ends
# with the error itself, for which there is a label.

_STATEMENTS: Final = {"insert": "documents", "update": "updates", "delete": "deletes", "bulkWrite": "ops"}
_COUNTS: Final = ("nInserted", "nMatched", "nModified", "nUpserted", "nDeleted")


def _refused_batch(request: RequestContext, error: CommandError) -> dict[str, Any] | None:
    """Return the reply to a batch whose shard has refused it, None where the error itself is the reply."""
    name, command = request.spec.name, request.command or {}
    statements = command.get(_STATEMENTS.get(name, ""))
    if request.has_autocommit or not isinstance(statements, list) or not statements:
        return None
    # In order, nothing is tried behind the first failure.
    failed = range(1 if command.get("ordered", True) else len(statements))
    told = {"code": int(error.code), "errmsg": error.message}
    if name != "bulkWrite":
        modified = {"nModified": 0} if name == "update" else {}
        return {"n": 0, **modified, "writeErrors": [{"index": index, **told} for index in failed]}
    results = []
    for index in failed:
        modified = {"nModified": 0} if "update" in statements[index] else {}
        results.append({"ok": 0.0, "idx": index, **told, "n": 0, **modified})
    cursor = {"id": Int64(0), "firstBatch": results, "ns": "admin.$cmd.bulkWrite"}
    return {"cursor": cursor, "nErrors": len(results), **dict.fromkeys(_COUNTS, 0)}

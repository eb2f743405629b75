"""Where a request meets the server's admission control (`fakeserver.admission` decides)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from fakeserver.admission.rate_limiter import ADMITTED, REJECTED
from fakeserver.admission.tickets import Overflow, Priority
from fakeserver.errors import CommandError
from fakeserver.failpoints import FAIL_INGRESS_REQUEST_RATE_LIMITING
from fakeserver.pipeline import PASS, RESPOND, Action, Await, Outcome, Stage, Step
from fakeserver.stages.deadline import expired
from fakeserver.waiting import Bell
from mongowire.codes import ErrorCode
from mongowire.messages import MORE_TO_COME

if TYPE_CHECKING:
    from fakeserver.admission.controls import AdmissionControl
    from fakeserver.admission.execution_control import Pool
    from fakeserver.admission.rate_limiter import Reserved
    from fakeserver.admission.tickets import Ticket
    from fakeserver.commands.table import CommandSpec
    from fakeserver.request import RequestContext

_RELEASING: Final = frozenset({"abortTransaction", "commitTransaction", "killCursors"})
"""Commands that free resources: they never wait for any."""
_OVERLOADED: Final = "MongoDB is overloaded and cannot accept new operations. Try again later."


class RequestRateLimit(Stage):
    """Refuses a request that there is no token for, unread (`Ingress Request Rate Limiting`)."""

    step = Step.RATE_LIMIT

    def enter(self, request: RequestContext, now: float) -> Action:
        node = request.node
        admission = node.admission
        if not admission.limits_requests:
            return PASS
        if _is_stranger(request) or admission.exempts(request.connection):
            admission.requests.exempt()
            return PASS
        if node.fail_points.any_active and node.fail_points.is_on(FAIL_INGRESS_REQUEST_RATE_LIMITING):
            return _refuse(request)
        verdict = admission.requests.acquire(now)
        if verdict is REJECTED:
            return _refuse(request)
        if verdict is not ADMITTED:
            request.reservation = verdict
        return PASS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - a stage's signature
        reservation = request.reservation
        if reservation is None:
            return
        request.reservation = None
        limiter = request.node.admission.requests
        if request.queued_since is None:
            limiter.drop()
        else:
            limiter.interrupt()


def _is_stranger(request: RequestContext) -> bool:
    """Whether access control is on and nobody is authenticated: strangers must not use up the tokens."""
    node = request.node
    return node.auth and not request.connection.identity.is_known(node.users, bypass=False)


def _refuse(request: RequestContext) -> Action:
    admission = request.node.admission
    request.failure = admission.refusal
    request.encoded = admission.rejection
    request.silent = bool(request.flags & MORE_TO_COME)
    return RESPOND


class RateLimitQueue(Stage):
    """Where a request that was admitted on credit waits for its token."""

    step = Step.RATE_LIMIT_QUEUE

    def enter(self, request: RequestContext, now: float) -> Action:
        reservation = request.reservation
        if reservation is None:
            return PASS
        admission = request.node.admission
        limiter = admission.requests
        if now >= reservation.ready_at:
            limiter.mature(reservation)
        elif not admission.limits_requests:
            limiter.release()
        elif _is_late(request, now):
            limiter.interrupt()
            request.reservation = None
            late = expired()
            raise CommandError(
                late.code,
                "Interrupted while waiting in rate limiter queue. rateLimiterName="
                f"{limiter.name} :: caused by :: {late.message}",
            )
        else:
            return self._wait(request, reservation, now)
        request.reservation = request.queued_since = None
        return PASS

    def _wait(self, request: RequestContext, reservation: Reserved, now: float) -> Action:
        if request.queued_since is None:
            request.queued_since = now
        return Await(request.node.admission.changed, _until(request, reservation.ready_at))


def _is_late(request: RequestContext, now: float) -> bool:
    return request.deadline is not None and now >= request.deadline


def _until(request: RequestContext, instant: float) -> float:
    return instant if request.deadline is None else min(instant, request.deadline)


class IngressTickets(Stage):
    """Holds a ticket for as long as the command takes (`Data-Node Ingress Admission Control`)."""

    step = Step.TICKETS

    def enter(self, request: RequestContext, now: float) -> Action:
        ticket = request.ingress_ticket
        if ticket is None:
            admission = _admission(request)
            if not admission.limits_ingress:
                return PASS
            if not is_subject(request.spec):
                admission.ingress.pass_by()
                return PASS
            ticket = request.ingress_ticket = _take(request, "ingress", now)
        return PASS if ticket.started is not None else _wait_for(request, ticket, now)

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - a stage's signature
        ticket, request.ingress_ticket = request.ingress_ticket, None
        if ticket is None:
            return
        holder = _admission(request).ingress
        if ticket.started is None:
            holder.cancel(ticket, now)
        else:
            holder.release(ticket, now)


def _admission(request: RequestContext) -> AdmissionControl:
    """Return the admission control of the server that runs the command, from here on the same one.

    What a mongos passes on runs on a shard's primary.
    """
    if request.admission is None:
        node = request.node
        config = node.cluster.config if node.is_mongos else None
        primary = None if config is None else config.home_of(request.db).primary
        request.admission = (primary or node).admission
    return request.admission


def is_subject(spec: CommandSpec) -> bool:
    """Whether a command has to have an ingress ticket: those that read or write data."""
    return spec.kind in {"read", "write"} and spec.name not in _RELEASING


def _take(request: RequestContext, pool: Pool | Literal["ingress"], now: float) -> Ticket:
    """Take a ticket, or queue for it. Raises `CommandError` 433."""
    admission = _admission(request)
    try:
        if pool == "ingress":
            return admission.ingress.acquire(now)
        return admission.execution.acquire(pool, now, _priority(request.spec))
    except Overflow:
        raise CommandError(ErrorCode.ADMISSION_QUEUE_OVERFLOW, _OVERLOADED) from None


def _wait_for(request: RequestContext, ticket: Ticket, now: float) -> Action:
    """Wait until a ticket is handed out. Raises `CommandError` 50."""
    if _is_late(request, now):
        raise expired()
    if ticket.bell is None:
        ticket.bell = Bell()
    return Await(ticket.bell, _until(request, float("inf")))


def _priority(spec: CommandSpec) -> Priority:
    return Priority.EXEMPT if spec.name in _RELEASING else Priority.NORMAL


class WriteThrottle(Stage):
    """Holds writers back while the majority falls behind (`Flow Control`)."""

    step = Step.FLOW_CONTROL

    def concerns(self, spec: CommandSpec) -> bool:
        return spec.kind == "write" and spec.name not in _RELEASING

    def enter(self, request: RequestContext, now: float) -> Action:
        admission = _admission(request)
        replenished_until = admission.replenish_flow(now)
        flow = admission.flow
        if flow.try_acquire():
            if request.throttled_since is not None:
                flow.waited(now - request.throttled_since)
                request.throttled_since = None
            return PASS
        if _is_late(request, now):
            raise expired()
        if request.throttled_since is None:
            request.throttled_since = now
        return Await(admission.changed, _until(request, replenished_until))


class ExecutionTickets(Stage):
    """Takes a ticket of the storage engine for as long as the service-time model says (`Execution Control`).

    The run that follows takes no time of its own, so nothing is held over it.
    """

    step = Step.EXECUTION_CONTROL

    def concerns(self, spec: CommandSpec) -> bool:
        return spec.kind in {"read", "write"}

    def enter(self, request: RequestContext, now: float) -> Action:
        ticket = request.execution_ticket
        pool: Pool = "write" if request.spec.kind == "write" else "read"
        if ticket is None:
            ticket = request.execution_ticket = _take(request, pool, now)
        if ticket.started is None:
            return _wait_for(request, ticket, now)
        admission = _admission(request)
        if request.done_at is None and not admission.serves_at_once:
            request.done_at = admission.service.begin(request.spec.name, now)
        if request.done_at is not None and now < _until(request, request.done_at):
            return Await(until=_until(request, request.done_at))
        late = request.done_at is not None and now < request.done_at
        self._give_back(request, now)
        if late:
            raise expired()
        return PASS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - a stage's signature
        if request.execution_ticket is not None:
            self._give_back(request, now)

    def _give_back(self, request: RequestContext, now: float) -> None:
        ticket, request.execution_ticket = request.execution_ticket, None
        assert ticket is not None
        admission = _admission(request)
        pool: Pool = "write" if request.spec.kind == "write" else "read"
        if ticket.started is None:
            admission.execution.holder(pool).cancel(ticket, now)
            return
        if request.done_at is not None:
            request.done_at = None
            admission.service.finish()
        admission.execution.release(pool, ticket, now)

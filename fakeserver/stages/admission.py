"""Where a request meets the server's admission control (`fakeserver.admission` decides)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from fakeserver.admission import invocations
from fakeserver.admission.invocations import MAY_BE_EXEMPT, MAY_WRITE, RELEASING
from fakeserver.admission.rate_limiter import ADMITTED, REJECTED
from fakeserver.admission.tickets import Overflow, Priority
from fakeserver.errors import CommandError, expired
from fakeserver.failpoints import FAIL_INGRESS_REQUEST_RATE_LIMITING
from fakeserver.pipeline import PASS, RESPOND, Action, Await, Outcome, Stage, Step
from fakeserver.waiting import Bell
from mongowire.codes import ErrorCode
from mongowire.messages import MORE_TO_COME

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.admission.controls import AdmissionControl
    from fakeserver.admission.invocations import Pool
    from fakeserver.admission.rate_limiter import RateLimiter, Reserved
    from fakeserver.admission.tickets import Ticket
    from fakeserver.commands.table import CommandSpec
    from fakeserver.request import RequestContext

_OVERLOADED: Final = "MongoDB is overloaded and cannot accept new operations. Try again later."


class RequestRateLimit(Stage):
    """Refuses a request that there is no token for, unread (`Ingress Request Rate Limiting`)."""

    step = Step.RATE_LIMIT

    def enter(self, request: RequestContext, now: float) -> Action:
        node = request.node
        admission = node.admission
        if not admission.limits_requests:
            return PASS
        if (node.auth and _is_stranger(request)) or admission.exempts(request.connection):
            admission.requests.exempt()
            return PASS
        if node.fail_points.active:
            if node.fail_points.is_on(FAIL_INGRESS_REQUEST_RATE_LIMITING):
                node.record_hit(FAIL_INGRESS_REQUEST_RATE_LIMITING, request, "error")
                return _refuse(request)
        elif admission.admits_freely:
            admission.requests.admit_freely()
            return PASS
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
            return
        limiter.interrupt()
        if request.failure is not None:
            request.failure = _interrupted(limiter, request.failure)


def _is_stranger(request: RequestContext) -> bool:
    """Whether nobody is authenticated: strangers must not use up the tokens."""
    return not request.connection.identity.is_known(request.node.users, bypass=False)


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
            raise expired()
        else:
            return self._wait(request, reservation, now)
        if request.queued_since is not None:
            request.ingress_queued += now - request.queued_since
        request.reservation = request.queued_since = None
        return PASS

    def _wait(self, request: RequestContext, reservation: Reserved, now: float) -> Action:
        if request.queued_since is None:
            request.queued_since = now
        return Await(request.node.admission.changed, _until(request, reservation.ready_at))


def _interrupted(limiter: RateLimiter, error: CommandError) -> CommandError:
    queue = f"Interrupted while waiting in rate limiter queue. rateLimiterName={limiter.name}"
    return CommandError(error.code, f"{queue} :: caused by :: {error.message}", extra=error.extra)


def _is_late(request: RequestContext, now: float) -> bool:
    return request.deadline is not None and now >= request.deadline


def _until(request: RequestContext, instant: float) -> float:
    return instant if request.deadline is None else min(instant, request.deadline)


class IngressExemption(Stage):
    """Counts the commands that never need a ticket (`Data-Node Ingress Admission Control`)."""

    step = Step.TICKETS

    def concerns(self, spec: CommandSpec) -> bool:
        return not may_be_subject(spec)

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - a stage's signature
        admission = request.node.admission
        if admission.limits_ingress:
            admission.ingress.pass_by()
        return PASS


class IngressTickets(Stage):
    """Holds a ticket for as long as the command takes (`Data-Node Ingress Admission Control`)."""

    step = Step.TICKETS

    def concerns(self, spec: CommandSpec) -> bool:
        return may_be_subject(spec)

    def enter(self, request: RequestContext, now: float) -> Action:
        admission = request.admission or request.node.admission
        ticket = request.ingress_ticket
        if ticket is None:
            if not admission.limits_ingress:
                return PASS
            priority = request.priority or _decide_priority(request, admission)
            if priority is Priority.EXEMPT or not _is_subject(request):
                admission.ingress.pass_by()
                return PASS
            request.ingress_admissions += 1
            if admission.ingress.take():
                request.ingress_since = now
                return PASS
            ticket = request.ingress_ticket = _take(admission.ingress.acquire, request, now)
        if ticket.started is None:
            return _wait_for(request, ticket, now)
        request.ingress_queued += ticket.waited
        return PASS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - a stage's signature
        since, ticket = request.ingress_since, request.ingress_ticket
        if since is None and ticket is None:
            return
        holder = (request.admission or request.node.admission).ingress
        request.ingress_since = request.ingress_ticket = None
        if since is not None:
            holder.give_back(since, now)
        elif ticket is not None and ticket.started is not None:
            holder.release(ticket, now)
        elif ticket is not None:
            holder.cancel(ticket, now)


def may_be_subject(spec: CommandSpec) -> bool:
    """Whether an invocation of a command may have to have an ingress ticket."""
    return invocations.is_subject(spec.kind, spec.name, {})


def _is_subject(request: RequestContext) -> bool:
    spec = request.spec
    return spec.name not in MAY_BE_EXEMPT or invocations.is_subject(
        spec.kind, spec.name, request.command or {}
    )


def _decide_priority(request: RequestContext, admission: AdmissionControl) -> Priority:
    """Decide whether an operation waits for nothing (`Admission Priority`), where nobody has yet."""
    spec = request.spec
    exempt = (
        spec.name in RELEASING
        or (admission.has_preferences and admission.prefers(spec.names, request.connection))
        or (spec.name in MAY_BE_EXEMPT and invocations.is_replication(spec.name, request.command or {}))
    )
    request.priority = Priority.EXEMPT if exempt else Priority.NORMAL
    return request.priority


def _pool_of(request: RequestContext) -> Pool:
    spec = request.spec
    if spec.name in MAY_WRITE:
        return invocations.pool_of(spec.kind, spec.name, request.command or {}) or "read"
    return "write" if spec.kind == "write" else "read"


def _take(acquire: Callable[[float, Priority], Ticket], request: RequestContext, now: float) -> Ticket:
    """Take a ticket, or queue for it. Raises `CommandError` 433."""
    try:
        return acquire(now, request.priority or Priority.NORMAL)
    except Overflow:
        raise CommandError(ErrorCode.ADMISSION_QUEUE_OVERFLOW, _OVERLOADED) from None


def _wait_for(request: RequestContext, ticket: Ticket, now: float) -> Action:
    """Wait until a ticket is handed out. Raises `CommandError` 50."""
    if _is_late(request, now):
        raise expired()
    if ticket.bell is None:
        ticket.bell = Bell()
    return Await(ticket.bell, _until(request, float("inf")))


class WriteThrottle(Stage):
    """Holds writers back while the majority falls behind (`Flow Control`)."""

    step = Step.FLOW_CONTROL

    def concerns(self, spec: CommandSpec) -> bool:
        return (spec.kind == "write" and spec.name not in RELEASING) or spec.name in MAY_WRITE

    def enter(self, request: RequestContext, now: float) -> Action:
        admission = request.admission or request.node.admission
        if request.spec.name in MAY_WRITE and _pool_of(request) == "read":
            return PASS
        if (request.priority or _decide_priority(request, admission)) is Priority.EXEMPT:
            return PASS
        replenished_until = admission.replenish_flow(now)
        flow, since = admission.flow, request.throttled_since
        if flow.try_acquire():
            request.flow_acquired += 1
            if since is not None:
                flow.waited(now - since)
                request.flow_queued += now - since
                request.throttled_since = None
            return PASS
        if _is_late(request, now):
            raise expired()
        if since is None:
            request.flow_waits += 1
            request.throttled_since = now
        return Await(admission.changed, _until(request, replenished_until))


class HandshakeExemption(Stage):
    """Counts a hello as exempt: what shows that a server is there never waits (`Admission Priority`)."""

    step = Step.EXECUTION_CONTROL

    def concerns(self, spec: CommandSpec) -> bool:
        return spec.handshake

    def enter(self, request: RequestContext, now: float) -> Action:
        execution = request.node.admission.execution
        execution.catch_up(now)
        execution.read.pass_by()
        return PASS


class ExecutionTickets(Stage):
    """Takes a ticket of the storage engine for as long as the service-time model says (`Execution Control`).

    The run that follows takes no time of its own, so nothing is held over it.
    """

    step = Step.EXECUTION_CONTROL

    def concerns(self, spec: CommandSpec) -> bool:
        return spec.kind in {"read", "write"}

    def enter(self, request: RequestContext, now: float) -> Action:
        admission = request.admission or request.node.admission
        execution, ticket = admission.execution, request.execution_ticket
        if ticket is None:
            pool = request.pool = _pool_of(request)
            exempt = (request.priority or _decide_priority(request, admission)) is Priority.EXEMPT
            request.execution_admissions += 1
            if admission.serves_at_once and execution.use_at_once(pool, now, exempt=exempt):
                return PASS
            ticket = request.execution_ticket = _take(partial(execution.acquire, pool), request, now)
            admission.on_queued()
        if ticket.started is None:
            return _wait_for(request, ticket, now)
        return self._serve(request, ticket, admission, now)

    def _serve(
        self, request: RequestContext, ticket: Ticket, admission: AdmissionControl, now: float
    ) -> Action:
        """Wait until the service-time model has the command done. Raises `CommandError` 50."""
        if request.done_at is None:
            request.execution_queued += ticket.waited
            if admission.serves_at_once:
                self._give_back(request, now)
                return PASS
            request.done_at = admission.service.begin(request.spec.name, now)
        done_at = request.done_at
        until = _until(request, done_at)
        if now < until:
            return Await(until=until)
        self._give_back(request, now)
        if now < done_at:
            raise expired()
        return PASS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - a stage's signature
        if request.execution_ticket is not None:
            self._give_back(request, now)

    def _give_back(self, request: RequestContext, now: float) -> None:
        ticket, request.execution_ticket = request.execution_ticket, None
        assert ticket is not None, "it holds none"
        admission, pool = request.admission or request.node.admission, request.pool
        if request.done_at is not None:
            request.done_at = None
            admission.service.finish()
        if ticket.started is None:
            admission.execution.holder(pool).cancel(ticket, now)
        else:
            admission.execution.release(pool, ticket, now)
            admission.on_queued()

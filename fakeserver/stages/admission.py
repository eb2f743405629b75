"""The stages of admission control: a request asks `fakeserver.admission`, which decides, and waits here.

    RATE_LIMIT         a token of the request rate limiter, before the request is read
    RATE_LIMIT_QUEUE   the wait for a token that was granted on credit
    TICKETS            a ticket of ingress admission control, held until the command is done
    FLOW_CONTROL       a writer's ticket for this second, while the majority lags
    EXECUTION_CONTROL  a ticket of the storage engine, held as long as the service-time model says

The outer stages give back on the way out what the inner ones made them hold, so a request that is refused,
interrupted or abandoned at any step leaves nothing behind. Counters follow the server's: an operation that
is exempt is counted as exempt wherever it passes, and a queued one counts as successful after its wait only.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from fakeserver.admission import invocations
from fakeserver.admission.invocations import MAY_BE_EXEMPT, MAY_WRITE, RELEASING
from fakeserver.admission.progress import EXECUTION_TICKETS, INGRESS_TICKETS, REJECTED, REQUEST_RATE
from fakeserver.admission.rate_limiter import ADMITTED
from fakeserver.admission.rate_limiter import REJECTED as NO_TOKEN
from fakeserver.admission.tickets import Overflow, Priority
from fakeserver.errors import CommandError, expired
from fakeserver.request.pipeline import PASS, RESPOND, Action, Outcome, Stage, Step
from fakeserver.settings.failpoints import FAIL_INGRESS_REQUEST_RATE_LIMITING
from fakeserver.waiting.bell import Bell
from fakeserver.waiting.pause import Await
from mongowire.codes import ErrorCode
from mongowire.messages import MORE_TO_COME

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.admission.controls import AdmissionControl
    from fakeserver.admission.invocations import TicketPool
    from fakeserver.admission.rate_limiter import RateLimiter
    from fakeserver.admission.tickets import Ticket
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext

_OVERLOADED: Final = "MongoDB is overloaded and cannot accept new operations. Try again later."


class RequestRateLimit(Stage):
    """Refuses a request for which there is no token, unread (`Ingress Request Rate Limiting`).

    Nothing is known of it but its connection and its size: no command is exempt, hello included.
    """

    step = Step.RATE_LIMIT

    def enter(self, request: RequestContext, now: float) -> Action:
        node = request.node
        admission = node.admission
        if not admission.limits_requests:
            return PASS
        # Strangers are exempt: they must be able to authenticate under overload, and could use up the tokens
        # of those who have. Monitors of drivers never authenticate, so heartbeats go on.
        exempt = admission.has_exemptions and admission.exempts(request.connection)
        if exempt or (node.auth and not request.connection.identity.is_known(node.users, bypass=False)):
            admission.requests.exempt()
            return PASS
        if node.fail_points.active:
            if node.fail_points.is_on(FAIL_INGRESS_REQUEST_RATE_LIMITING):
                # Without a look at the bucket: its counters do not move, as on a server.
                request.record_hit(FAIL_INGRESS_REQUEST_RATE_LIMITING, "error")
                return _refuse(request)
        elif admission.admits_freely:
            admission.requests.admit_freely()
            return PASS
        verdict = admission.requests.acquire(now)
        if verdict is NO_TOKEN:
            return _refuse(request)
        if verdict is not ADMITTED:
            # On credit: whatever is wrong with the request is found before it waits for its token.
            request.admission.reservation = verdict
        return PASS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - a stage's signature
        progress = request.admission
        reservation = progress.reservation
        if reservation is None:
            return
        progress.reservation = None
        # The token was borrowed and not used, so it goes back. Only what did wait for it was interrupted.
        limiter = request.node.admission.requests
        if progress.queued_since is None:
            limiter.drop()
            return
        limiter.interrupt()
        if request.response.failure is not None:
            request.response.failure = _interrupted(limiter, request.response.failure)


def _refuse(request: RequestContext) -> Action:
    admission = request.node.admission
    request.response.failure = admission.refusal
    request.response.encoded = admission.rejection
    # The message was not parsed, so the flag that forbids a reply has to be looked at here.
    request.response.silent = bool(request.flags & MORE_TO_COME)
    request.admission.verdict, request.admission.queue = REJECTED, REQUEST_RATE
    return RESPOND


class RateLimitQueue(Stage):
    """Holds a request that was admitted on credit until its token is there."""

    step = Step.RATE_LIMIT_QUEUE

    def enter(self, request: RequestContext, now: float) -> Action:
        progress = request.admission
        reservation = progress.reservation
        if reservation is None:
            return PASS
        admission = request.node.admission
        limiter = admission.requests
        if now >= reservation.ready_at:
            limiter.mature(reservation)
        elif not admission.limits_requests:
            # Switched off meanwhile: those that queue are released, and counted as exempt.
            limiter.release()
        elif _is_late(request, now):
            raise expired()
        else:
            if progress.queued_since is None:
                progress.queued_since = now
            # A parameter that changes may bring the token earlier, so that is waited for as well.
            return Await(admission.changed, _until(request, reservation.ready_at))
        if progress.queued_since is not None:
            progress.ingress_queued += now - progress.queued_since
        progress.reservation = progress.queued_since = None
        return PASS


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
        progress = request.admission
        admission = progress.control or request.node.admission
        ticket = progress.ingress_ticket
        # Entered again after a wait, the request has its ticket, which may be handed out by now.
        if ticket is None:
            if not admission.limits_ingress:
                return PASS
            priority = progress.priority or _decide_priority(request, admission)
            if priority is Priority.EXEMPT or not _is_subject(request):
                admission.ingress.pass_by()
                return PASS
            progress.ingress_admissions += 1
            # A free ticket needs no object: the instant is all that its return has to know.
            if admission.ingress.take():
                progress.ingress_since = now
                return PASS
            ticket = progress.ingress_ticket = _take(INGRESS_TICKETS, admission.ingress.acquire, request, now)
        if ticket.started is None:
            return _wait_for(request, ticket, now)
        progress.ingress_queued += ticket.waited
        return PASS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - a stage's signature
        progress = request.admission
        since, ticket = progress.ingress_since, progress.ingress_ticket
        if since is None and ticket is None:
            return
        holder = (progress.control or request.node.admission).ingress
        progress.ingress_since = progress.ingress_ticket = None
        if since is not None:
            holder.give_back(since, now)
        elif ticket is not None and ticket.started is not None:
            holder.release(ticket, now)
        elif ticket is not None:
            holder.cancel(ticket, now)


def may_be_subject(spec: CommandSpec) -> bool:
    """Whether some invocation of a command needs an ingress ticket."""
    return invocations.is_subject(spec.kind, spec.name, {})


def _is_subject(request: RequestContext) -> bool:
    spec = request.spec
    return spec.name not in MAY_BE_EXEMPT or invocations.is_subject(
        spec.kind, spec.name, request.command or {}
    )


def _decide_priority(request: RequestContext, admission: AdmissionControl) -> Priority:
    """Decide on the priority of an operation (`Admission Priority`), once for all steps that ask."""
    progress = request.admission
    spec = request.spec
    # Exempt is what frees resources (commit, abort, killCursors), for it would otherwise queue behind those
    # that wait for just that; and replication, which everything else waits for.
    exempt = (
        spec.name in RELEASING
        or (admission.has_preferences and admission.prefers(spec.names, request.connection))
        or (spec.name in MAY_BE_EXEMPT and invocations.is_replication(spec.name, request.command or {}))
    )
    progress.priority = Priority.EXEMPT if exempt else Priority.NORMAL
    return progress.priority


def _pool_of(request: RequestContext) -> TicketPool:
    spec = request.spec
    if spec.name in MAY_WRITE:
        return invocations.pool_of(spec.kind, spec.name, request.command or {}) or "read"
    return "write" if spec.kind == "write" else "read"


def _take(
    queue: str, acquire: Callable[[float, Priority], Ticket], request: RequestContext, now: float
) -> Ticket:
    """Take a ticket, or queue for it. Raises `CommandError` 433."""
    try:
        return acquire(now, request.admission.priority or Priority.NORMAL)
    except Overflow:
        request.admission.verdict, request.admission.queue = REJECTED, queue
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
        progress = request.admission
        admission = progress.control or request.node.admission
        # An aggregate without $out writes nothing, for example.
        if request.spec.name in MAY_WRITE and _pool_of(request) == "read":
            return PASS
        if (progress.priority or _decide_priority(request, admission)) is Priority.EXEMPT:
            return PASS
        replenished_until = admission.replenish_flow(now)
        flow, since = admission.flow, progress.throttled_since
        if flow.try_acquire():
            progress.flow_acquired += 1
            if since is not None:
                flow.waited(now - since)
                progress.flow_queued += now - since
                progress.throttled_since = None
            return PASS
        # After the attempt: an operation whose ticket and deadline come together runs.
        if _is_late(request, now):
            raise expired()
        if since is None:
            progress.flow_waits += 1
            progress.throttled_since = now
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
        progress = request.admission
        admission = progress.control or request.node.admission
        execution, ticket = admission.execution, progress.execution_ticket
        if ticket is None:
            pool = progress.pool = _pool_of(request)
            exempt = (progress.priority or _decide_priority(request, admission)) is Priority.EXEMPT
            progress.execution_admissions += 1
            if admission.serves_at_once and execution.use_at_once(pool, now, exempt=exempt):
                return PASS
            acquire = partial(execution.acquire, pool)
            ticket = progress.execution_ticket = _take(EXECUTION_TICKETS, acquire, request, now)
            admission.on_queued()
        if ticket.started is None:
            return _wait_for(request, ticket, now)
        return self._serve(request, ticket, admission, now)

    def _serve(
        self, request: RequestContext, ticket: Ticket, admission: AdmissionControl, now: float
    ) -> Action:
        """Wait until the service-time model has the command done. Raises `CommandError` 50."""
        progress = request.admission
        if progress.done_at is None:
            progress.execution_queued += ticket.waited
            if admission.serves_at_once:
                # The model was switched off while it queued: no service time, so nothing to hold.
                self._give_back(request, now)
                return PASS
            progress.served_since = now
            progress.done_at = admission.service.begin(request.spec.name, now)
        if now >= progress.done_at and progress.served_since is not None:
            progress.done_at = admission.service.look(request.spec.name, progress.served_since, now)
        done_at = progress.done_at
        until = _until(request, done_at)
        if now < until:
            return Await(until=until)
        # The deadline has come first: a server interrupts the operation in the middle of its work.
        self._give_back(request, now)
        if now < done_at:
            raise expired()
        return PASS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - a stage's signature
        if request.admission.execution_ticket is not None:
            self._give_back(request, now)

    def _give_back(self, request: RequestContext, now: float) -> None:
        progress = request.admission
        ticket, progress.execution_ticket = progress.execution_ticket, None
        assert ticket is not None, "it holds none"
        admission, pool = progress.control or request.node.admission, progress.pool
        if progress.done_at is not None:
            progress.done_at = progress.served_since = None
            admission.service.finish()
        if ticket.started is None:
            admission.execution.holder(pool).cancel(ticket, now)
        else:
            admission.execution.release(pool, ticket, now)
            # Probing needs a timer only while somebody queues, and this may have been the last one.
            admission.on_queued()

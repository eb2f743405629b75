"""The stages of admission control: a request asks `fakeserver.admission`, which decides, and waits here.

    RATE_LIMIT         a token, before the request is read
    RATE_LIMIT_QUEUE   the wait for one that was granted on credit
    TICKETS            a ticket of ingress admission control, held until the command is done
    FLOW_CONTROL       a writer's ticket for this second, while the majority lags
    EXECUTION_CONTROL  a ticket of the storage engine, held as long as the service-time model says

The outer stages give back on the way out what the inner ones made them hold, so a request that is refused,
interrupted or abandoned at any step leaves nothing behind: its token is given back too. Counters follow the
server's: an operation that is exempt is counted as exempt wherever it passes, and a queued one counts as
successful after its wait only.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

from fakeserver.admission import invocations
from fakeserver.admission.execution_control import Overflow, Priority
from fakeserver.admission.invocations import BY_TERM, MAY_BE_EXEMPT, MAY_WRITE, RELEASING, TERM, is_subject
from fakeserver.admission.progress import EXECUTION_TICKETS, INGRESS_TICKETS, REJECTED, REQUEST_RATE
from fakeserver.admission.rate_limiter import ADMITTED, Reserved
from fakeserver.admission.rate_limiter import REJECTED as NO_TOKEN
from fakeserver.deployment.doors import Door
from fakeserver.errors import CommandError, expired
from fakeserver.request.pipeline import PASS, RESPOND, Action, Outcome, Stage, Step
from fakeserver.settings.failpoints import FAIL_INGRESS_REQUEST_RATE_LIMITING
from fakeserver.waiting.bell import Bell
from fakeserver.waiting.pause import Await
from mongowire.codes import ErrorCode
from mongowire.messages import MORE_TO_COME

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.access.session import ConnectionState
    from fakeserver.admission.controls import AdmissionControl
    from fakeserver.admission.execution_control import Ticket
    from fakeserver.admission.invocations import TicketPool
    from fakeserver.admission.rate_limiter import Verdict
    from fakeserver.deployment.node import Node
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext
    from fakeserver.request.stage import Enter, Leave, Screen, Shape


class RequestRateLimit(Stage):
    """Refuses a request for which there is no token, unread (`Ingress Request Rate Limiting`).

    Nothing is known of it but its connection and its size: no command is exempt, hello included.
    """

    step = Step.RATE_LIMIT

    def enter(self, request: RequestContext, now: float) -> Action:
        node = request.node
        admission = node.admission
        if request.admission.egress is not None:
            return _paced(request, now)
        if not admission.limits_requests:
            return PASS
        if _is_exempt(node, admission, request.connection):
            return PASS
        if node.fail_points.active:
            if node.fail_points.is_on(FAIL_INGRESS_REQUEST_RATE_LIMITING):
                # Without a look at the bucket: its counters do not move, as on a server.
                request.record_hit(FAIL_INGRESS_REQUEST_RATE_LIMITING, "error")
                return _refuse(request, now)
        elif admission.admits_freely:
            admission.requests.admit_freely()
            return PASS
        verdict = admission.requests.acquire(now)
        if verdict is NO_TOKEN:
            return _refuse(request, now)
        if verdict is not ADMITTED:
            # On credit: whatever is wrong with the request is found before it waits for its token.
            request.admission.reservation = verdict
        return PASS

    def entry(self, _spec: CommandSpec | None, _shape: Shape, node: Node) -> Enter | None:
        return self.enter if node.admission.limits_requests else None

    def exit(self, _spec: CommandSpec, _shape: Shape, _node: Node) -> Leave | None:
        return None  # what was admitted at once owes nothing, and `RateLimitQueue` has waited for the rest

    def screen(self, node: Node) -> Screen | None:
        admission = node.admission
        paces, egress = admission.paces_replies, admission.pacing.egress
        if not admission.limits_requests or node.fail_points.active or (paces and not egress.is_unbounded):
            return None
        limiter, freely = admission.requests, admission.admits_freely
        may_be_exempt = admission.has_exemptions or node.auth or Door.PRIORITY in node.doors.sides

        def decide(connection: ConnectionState, now: float) -> Verdict:
            if may_be_exempt and _is_exempt(node, admission, connection):
                return ADMITTED
            if freely:
                limiter.admit_freely()
                return ADMITTED
            verdict = limiter.acquire(now)
            if paces and verdict is NO_TOKEN and not connection.internal_client:
                egress.admit_freely()
            return verdict

        return decide

    def leave(self, request: RequestContext, _outcome: Outcome, _now: float) -> None:
        progress = request.admission
        if progress.egress is not None:
            progress.egress = None
            request.node.admission.pacing.egress.interrupt()
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
            error = request.response.failure
            queue = f"Interrupted while waiting in rate limiter queue. rateLimiterName={limiter.name}"
            request.response.failure = CommandError(
                error.code, f"{queue} :: caused by :: {error.message}", extra=error.extra
            )


def _is_exempt(node: Node, admission: AdmissionControl, connection: ConnectionState) -> bool:
    """Say whether a connection's requests need no token, and count this one if so."""
    # Strangers are exempt: they must be able to authenticate under overload, and could use up the tokens
    # of those who have. Monitors of drivers never authenticate, so heartbeats go on.
    exempt = connection.has_priority or (admission.has_exemptions and admission.exempts(connection))
    if exempt or (node.auth and not connection.identity.is_known(node.users, bypass=False)):
        admission.requests.exempt()
        return True
    return False


def _refuse(request: RequestContext, now: float) -> Action:
    """Refuse a request for want of a token, in the pace that is set for such replies."""
    admission, silent = request.node.admission, bool(request.flags & MORE_TO_COME)
    if admission.paces_replies and not silent and not request.connection.internal_client:
        verdict = admission.pacing.egress.acquire(now)
        if isinstance(verdict, Reserved):
            request.admission.egress = verdict
            return Await(until=verdict.ready_at)
    return _refused(request)


def _paced(request: RequestContext, now: float) -> Action:
    """Send a refusal when its time has come."""
    reservation, egress = request.admission.egress, request.node.admission.pacing.egress
    assert reservation is not None
    if now < reservation.ready_at:
        return Await(until=reservation.ready_at)
    request.admission.egress = None
    egress.mature(reservation)
    return _refused(request)


def _refused(request: RequestContext) -> Action:
    admission = request.node.admission
    request.response.failure = admission.refusal
    request.response.encoded = admission.rejection
    # The message was not parsed, so the flag that forbids a reply has to be looked at here.
    request.response.silent = bool(request.flags & MORE_TO_COME)
    request.verdict, request.queue = REJECTED, REQUEST_RATE
    return RESPOND


class RateLimitQueue(Stage):
    """Holds a request that was admitted on credit until its token is there."""

    step = Step.RATE_LIMIT_QUEUE

    def entry(self, _spec: CommandSpec | None, _shape: Shape, node: Node) -> Enter | None:
        return self.enter if node.admission.limits_requests else None

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
        elif request.deadline is not None and now >= request.deadline:
            raise expired()
        else:
            if progress.queued_since is None:
                progress.queued_since = now
            # A parameter that changes may bring the token earlier, so that is waited for as well.
            ready_at, deadline = reservation.ready_at, request.deadline
            return Await(admission.changed, ready_at if deadline is None else min(ready_at, deadline))
        if progress.queued_since is not None:
            progress.rate_admissions += 1
            progress.rate_queued += now - progress.queued_since
        progress.reservation = progress.queued_since = None
        return PASS


_OVERLOADED: Final = "MongoDB is overloaded and cannot accept new operations. Try again later."


def _is_late(request: RequestContext, now: float) -> bool:
    return request.deadline is not None and now >= request.deadline


def _until(request: RequestContext, instant: float) -> float:
    return instant if request.deadline is None else min(instant, request.deadline)


class IngressExemption(Stage):
    """Counts the commands that never need a ticket (`Data-Node Ingress Admission Control`)."""

    step = Step.TICKETS

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return not may_be_subject(spec)

    def entry(self, _spec: CommandSpec | None, _shape: Shape, node: Node) -> Enter | None:
        return self.enter if node.admission.limits_ingress else None

    def enter(self, request: RequestContext, _now: float) -> Action:
        admission = request.node.admission
        if admission.limits_ingress:
            admission.ingress.pass_by()
        return PASS


class IngressTickets(Stage):
    """Holds a ticket for as long as the command takes (`Data-Node Ingress Admission Control`)."""

    step = Step.TICKETS

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return may_be_subject(spec)

    def entry(self, spec: CommandSpec | None, shape: Shape, node: Node) -> Enter | None:
        # Behind a mongos it is the member's control that decides, which is not known before.
        if spec is None or not _is_ordinary(spec, shape, node):
            return self.enter if node.is_mongos or node.admission.limits_ingress else None
        if not node.admission.limits_ingress:
            return None
        take, whole = node.admission.ingress.take, self.enter

        def enter(request: RequestContext, now: float) -> Action:
            progress = request.admission
            if progress.priority is None and take():
                progress.priority = Priority.NORMAL
                progress.ingress_admissions += 1
                progress.ingress_since = now
                return PASS
            return whole(request, now)

        return enter

    def exit(self, _spec: CommandSpec, _shape: Shape, node: Node) -> Leave | None:
        return self.leave if node.is_mongos or node.admission.limits_ingress else None

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

    def leave(self, request: RequestContext, _outcome: Outcome, now: float) -> None:
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
        request.verdict, request.queue = REJECTED, queue
        raise CommandError(ErrorCode.ADMISSION_QUEUE_OVERFLOW, _OVERLOADED) from None


def _wait_for(request: RequestContext, ticket: Ticket, now: float) -> Action:
    """Wait until a ticket is handed out. Raises `CommandError` 50."""
    if _is_late(request, now):
        raise expired()
    if ticket.bell is None:
        ticket.bell = Bell()
    return Await(ticket.bell, _until(request, float("inf")))


def _is_ordinary(spec: CommandSpec, shape: Shape, node: Node) -> bool:
    """Say whether each invocation is of normal priority, unless a stage decides so, and of one pool."""
    name = spec.name
    may_be_exempt = name in MAY_BE_EXEMPT and (name not in BY_TERM or TERM in shape.names)
    special = name in RELEASING or may_be_exempt or name in MAY_WRITE
    return not (special or node.is_mongos or node.admission.has_preferences)


class WriteThrottle(Stage):
    """Holds writers back while the majority falls behind (`Flow Control`)."""

    step = Step.FLOW_CONTROL

    def entry(self, spec: CommandSpec | None, shape: Shape, node: Node) -> Enter:
        if spec is None or not _is_ordinary(spec, shape, node):
            return self.enter
        admission, whole = node.admission, self.enter
        flow = admission.flow
        if admission.pacing.limits_flow:
            return whole

        def enter(request: RequestContext, now: float) -> Action:
            progress = request.admission
            if progress.priority is None:
                progress.priority = Priority.NORMAL
            admission.replenish_flow(now)
            if progress.priority is Priority.NORMAL and flow.try_acquire():
                progress.flow_acquired += 1
                return PASS
            return whole(request, now)

        return enter

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
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
        if admission.pacing.limits_flow or progress.flow_reservation is not None:
            return self._by_rate(request, admission, now)
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

    def _by_rate(self, request: RequestContext, admission: AdmissionControl, now: float) -> Action:
        """Wait for a token, of as many a second as there would be tickets. Raises `CommandError` 449, 50."""
        progress, pacing = request.admission, admission.pacing
        pacing.allow(admission.flow.granted, now)
        reservation = progress.flow_reservation
        if reservation is None:
            verdict = pacing.flow.acquire(now)
            if verdict is NO_TOKEN:
                raise CommandError(
                    ErrorCode.RATE_LIMIT_EXCEEDED, f"Rate limiter '{pacing.flow.name}' rate exceeded"
                )
            admission.flow.count()
            if not isinstance(verdict, Reserved):
                progress.flow_acquired += 1
                return PASS
            reservation = progress.flow_reservation = verdict
            progress.flow_waits += 1
            progress.throttled_since = now
        if now < reservation.ready_at and pacing.limits_flow:
            if _is_late(request, now):
                raise expired()
            return Await(admission.changed, _until(request, reservation.ready_at))
        pacing.flow.mature(reservation)
        admission.flow.waited(now - reservation.since)
        progress.flow_queued += now - reservation.since
        progress.flow_acquired += 1
        progress.flow_reservation = progress.throttled_since = None
        return PASS

    def leave(self, request: RequestContext, _outcome: Outcome, _now: float) -> None:
        progress = request.admission
        if progress.flow_reservation is not None:
            progress.flow_reservation = None
            (progress.control or request.node.admission).pacing.flow.interrupt()


class HandshakeExemption(Stage):
    """Counts a hello as exempt: what shows that a server is there never waits (`Admission Priority`)."""

    step = Step.EXECUTION_CONTROL

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
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

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.kind in {"read", "write"}

    def entry(self, spec: CommandSpec | None, shape: Shape, node: Node) -> Enter:
        admission, whole = node.admission, self.enter
        at_once = admission.serves_at_once and not admission.low.in_use
        if spec is None or not at_once or not _is_ordinary(spec, shape, node):
            return whole
        pool: TicketPool = "write" if spec.kind == "write" else "read"
        use_at_once = admission.execution.use_at_once

        def enter(request: RequestContext, now: float) -> Action:
            progress = request.admission
            if progress.priority is None:
                progress.priority = Priority.NORMAL
            if progress.priority is Priority.NORMAL and use_at_once(pool, now):
                progress.pool = pool
                progress.execution_admissions += 1
                return PASS
            return whole(request, now)

        return enter

    def exit(self, _spec: CommandSpec, _shape: Shape, _node: Node) -> Leave | None:
        return None  # a ticket is held by those alone who wait for it, or are served for a time

    def enter(self, request: RequestContext, now: float) -> Action:
        progress = request.admission
        admission = progress.control or request.node.admission
        execution, ticket = admission.execution, progress.execution_ticket
        if ticket is None:
            pool = progress.pool = _pool_of(request)
            exempt = (progress.priority or _decide_priority(request, admission)) is Priority.EXEMPT
            progress.execution_admissions += 1
            low = admission.low.holder(pool) if is_lowered(request, admission, 0) else None
            if admission.serves_at_once and (
                low.use_at_once() if low else execution.use_at_once(pool, now, exempt=exempt)
            ):
                return PASS
            acquire = low.acquire if low else partial(execution.acquire, pool)
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
        elif progress.turn_ends == math.inf:
            # It has its next ticket, and stood still while it waited for that.
            progress.execution_queued += ticket.waited
            progress.done_at += ticket.waited
            progress.served_since = (progress.served_since or 0.0) + ticket.waited
            progress.turn_ends = None
        if now >= progress.done_at and progress.served_since is not None:
            progress.done_at = admission.service.look(request.spec.name, progress.served_since, now)
        done_at = progress.done_at
        until = _until(request, done_at)
        if progress.turn_ends is None:
            progress.turn_ends = turn_ends(request, admission, now, until)
        if progress.turn_ends is not None and progress.turn_ends <= now < until:
            return self._yield(request, ticket, admission, now)
        if now < until:
            return Await(until=min(until, progress.turn_ends or math.inf))
        # The deadline has come first: a server interrupts the operation in the middle of its work.
        self._give_back(request, now)
        if now < done_at:
            raise expired()
        return PASS

    def _yield(
        self, request: RequestContext, ticket: Ticket, admission: AdmissionControl, now: float
    ) -> Action:
        """Give the ticket back and ask for the next one. Raises `CommandError` 433."""
        progress, execution, low = request.admission, admission.execution, admission.low
        pool, progress.execution_ticket, progress.turn_ends = progress.pool, None, math.inf
        if progress.low_priority:
            low.holder(pool).release(ticket, now)
        else:
            execution.release(pool, ticket, now)
        lowered = progress.low_priority or is_lowered(request, admission, progress.execution_admissions)
        acquire = low.holder(pool).acquire if lowered else partial(execution.acquire, pool)
        progress.execution_admissions += 1
        try:
            ticket = progress.execution_ticket = _take(EXECUTION_TICKETS, acquire, request, now)
        except CommandError:
            progress.done_at = progress.served_since = None
            admission.service.finish()
            raise
        admission.on_queued()
        if ticket.started is None:
            return _wait_for(request, ticket, now)
        return self._serve(request, ticket, admission, now)

    def leave(self, request: RequestContext, _outcome: Outcome, now: float) -> None:
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
            holder = admission.low if progress.low_priority else admission.execution
            holder.holder(pool).cancel(ticket, now)
        elif progress.low_priority:
            admission.low.holder(pool).release(ticket, now)
        else:
            admission.execution.release(pool, ticket, now)
            # Probing needs a timer only while somebody queues, and this may have been the last one.
            admission.on_queued()


# Low priority of operations, and the instant of their next look (`Prioritization`).

_ROUNDING: Final = 1e-9
"""Sums of turns are no whole numbers."""


def is_lowered(request: RequestContext, admission: AdmissionControl, admissions: int) -> bool:
    """Decide whether an operation takes tickets of low priority from now on, and count it."""
    progress, low = request.admission, admission.low
    if not low.in_use or progress.priority is Priority.EXEMPT:
        return False
    # A shard sees the connection of the mongos, and not that of its client.
    connection = request.connection if progress.control is None else None
    spec = request.spec
    observes = spec.name == "aggregate" and not is_subject(spec.kind, spec.name, request.command or {})
    if observes or low.spares(connection, in_transaction=request.has_autocommit):
        low.spared += not admissions
        return False
    progress.low_priority = low.lowers(request.spec.name, admissions)
    low.lowered += progress.low_priority
    return progress.low_priority


def turn_ends(request: RequestContext, admission: AdmissionControl, now: float, until: float) -> float | None:
    """Return the instant at which an operation with work until `until` yields its ticket, None for never."""
    low = admission.low
    if not low.in_use or not low.turn or request.admission.priority is Priority.EXEMPT:
        return None
    return now + low.turn if until - now - low.turn > _ROUNDING else None

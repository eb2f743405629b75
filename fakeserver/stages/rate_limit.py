"""The stages of the request rate limiter: its decision, and the wait for a token on credit.

    RATE_LIMIT         a token, before the request is read
    RATE_LIMIT_QUEUE   the wait for one that was granted on credit

What is refused, interrupted or abandoned in between gives its token back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakeserver.admission.progress import REJECTED, REQUEST_RATE
from fakeserver.admission.rate_limiter import ADMITTED, Reserved
from fakeserver.admission.rate_limiter import REJECTED as NO_TOKEN
from fakeserver.deployment.doors import Door
from fakeserver.errors import CommandError, expired
from fakeserver.request.pipeline import PASS, RESPOND, Action, Outcome, Stage, Step
from fakeserver.settings.failpoints import FAIL_INGRESS_REQUEST_RATE_LIMITING
from fakeserver.waiting.pause import Await
from mongowire.messages import MORE_TO_COME

if TYPE_CHECKING:
    from fakeserver.access.connection_state import ConnectionState
    from fakeserver.admission.controls import AdmissionControl
    from fakeserver.admission.rate_limiter import RateLimiter, Verdict
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
            request.response.failure = _interrupted(limiter, request.response.failure)


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


def _interrupted(limiter: RateLimiter, error: CommandError) -> CommandError:
    queue = f"Interrupted while waiting in rate limiter queue. rateLimiterName={limiter.name}"
    return CommandError(error.code, f"{queue} :: caused by :: {error.message}", extra=error.extra)

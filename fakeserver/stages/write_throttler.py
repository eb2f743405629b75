"""The write throttler: a rate of documents for writers, whoever they are (`queues.writeThrottler`, 9.0).

A write pays for its statements before it runs, on credit if need be, and waits until its tokens have accrued.
Afterwards it pays for the documents that it has written beyond these, or gets back what it has not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.admission.invocations import RELEASING
from fakeserver.admission.progress import REJECTED, WRITE_RATE
from fakeserver.admission.rate_limiter import REJECTED as NO_TOKEN
from fakeserver.admission.rate_limiter import Reserved
from fakeserver.errors import CommandError, expired
from fakeserver.request.pipeline import PASS, Action, Outcome, Stage, Step
from fakeserver.waiting.pause import Await
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.deployment.node import Node
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext
    from fakeserver.request.stage import Enter, Leave, Shape

_STATEMENTS: Final = {"insert": "documents", "update": "updates", "delete": "deletes", "bulkWrite": "ops"}
_WRITTEN: Final = ("n", "nInserted", "nModified", "nUpserted", "nDeleted")
"""The fields of replies that count documents."""


class WriteRateLimit(Stage):
    """Holds a write back until its tokens are there. Raises `CommandError` 449, 50."""

    step = Step.TICKETS

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.write_concern and spec.kind == "write" and spec.name not in RELEASING

    def entry(self, _spec: CommandSpec | None, _shape: Shape, node: Node) -> Enter | None:
        return self.enter if node.is_mongos or node.admission.pacing.limits_writes else None

    def exit(self, _spec: CommandSpec, _shape: Shape, node: Node) -> Leave | None:
        return self.leave if node.is_mongos or node.admission.pacing.limits_writes else None

    def enter(self, request: RequestContext, now: float) -> Action:
        progress = request.admission
        admission = progress.control or request.node.admission
        pacing, reservation = admission.pacing, progress.write_reservation
        if reservation is None:
            if not pacing.limits_writes:
                return PASS
            command: dict[str, Any] = request.command or {}
            batch = command.get(_STATEMENTS.get(request.spec.name, ""))
            cost = pacing.cost(len(batch) if isinstance(batch, list) else 1)
            verdict = pacing.writes.acquire(now, cost)
            if verdict is NO_TOKEN:
                request.verdict, request.queue = REJECTED, WRITE_RATE
                depth = pacing.writes.max_queue_depth
                queue = f"Rate limiter '{pacing.writes.name}' maximum queue depth ({depth}) exceeded"
                raise CommandError(ErrorCode.RATE_LIMIT_EXCEEDED, queue)
            progress.write_cost = cost
            if not isinstance(verdict, Reserved):
                progress.write_admissions += 1
                return PASS
            reservation = progress.write_reservation = verdict
        if now < reservation.ready_at and pacing.limits_writes:
            if request.deadline is not None and now >= request.deadline:
                raise expired()
            until, deadline = reservation.ready_at, request.deadline
            return Await(admission.changed, until if deadline is None else min(until, deadline))
        pacing.writes.mature(reservation)
        progress.write_admissions += 1
        progress.write_queued += now - reservation.since
        progress.write_reservation = None
        return PASS

    def leave(self, request: RequestContext, _outcome: Outcome, _now: float) -> None:
        progress = request.admission
        pacing, cost = (progress.control or request.node.admission).pacing, progress.write_cost
        progress.write_cost = 0
        if progress.write_reservation is not None:
            progress.write_reservation = None
            pacing.writes.interrupt(cost)
        elif cost and pacing.limits_writes:
            pacing.writes.settle(cost - min(_written(request), pacing.most_cost or _ALL))


_ALL: Final = 2**31


def _written(request: RequestContext) -> int:
    """Return how many documents a command has written, as its reply says."""
    body: dict[str, Any] = request.response.body or {}
    if request.spec.name == "update":
        return int(body.get("nModified", 0)) + len(body.get("upserted", ()))
    last = body.get("lastErrorObject")
    counts = body if not isinstance(last, dict) else last
    return sum(int(counts.get(name, 0)) for name in _WRITTEN)

"""The line that a server logs of an operation that took long."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from fakeserver import queueing
from fakeserver.operations import describe
from fakeserver.pipeline import Outcome, Stage, Step
from fakeserver.profile import WIRE_80

if TYPE_CHECKING:
    from fakeserver.request import RequestContext

_SLOW_QUERY: Final = 51803
_MILLIS: Final = 1000


class SlowQueries(Stage):
    """Logs what took `slowms` and longer; since 8.0 the time in queues of admission control is left out.

    A hello and a getMore that waited for news were asked to.
    """

    step = Step.LABELS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002 - a stage's signature
        profiling = request.node.profiler.profiling
        if (now - request.arrived) * _MILLIS < profiling.slow_ms or _was_asked_to_wait(request):
            return
        if request.node.profile.max_wire_version >= WIRE_80:
            counted = working_millis(request, now)
        else:
            counted = _millis(now - request.arrived)
        if counted >= profiling.slow_ms:
            _log(request, now)


def working_millis(request: RequestContext, now: float) -> int:
    """Return how long a request took, less the time that it waited to be admitted."""
    return _millis(now - request.arrived - queueing.seconds_queued(request))


def _was_asked_to_wait(request: RequestContext) -> bool:
    return request.spec.handshake or request.waits_until is not None


def _log(request: RequestContext, now: float) -> None:
    node, connection = request.node, request.connection
    told = describe(request, now, dt.datetime.fromtimestamp(node.clock.utc(), dt.UTC))
    attr: dict[str, Any] = {"type": "command", "ns": told["ns"]}
    attr |= {"appName": connection.app_name} if connection.app_name else {}
    attr["command"] = told["command"]
    failure = request.failure
    if failure is not None:
        attr |= {"ok": 0, "errMsg": failure.message, "errName": failure.code_name}
        attr["errCode"] = int(failure.code)
    cursor: dict[str, Any] = (request.body or {}).get("cursor") or {}
    batch = cursor.get("firstBatch", cursor.get("nextBatch"))
    attr |= {} if batch is None else {"nreturned": len(batch)}
    attr |= queueing.of_finished(request)
    attr["remote"] = connection.peer
    attr["protocol"] = "op_query" if request.is_legacy else "op_msg"
    if node.profile.max_wire_version >= WIRE_80:
        attr["workingMillis"] = working_millis(request, now)
    attr["durationMillis"] = _millis(now - request.arrived)
    node.log.write("COMMAND", _SLOW_QUERY, "Slow query", context=connection.thread_name, attr=attr)


def _millis(seconds: float) -> int:
    return round(seconds * _MILLIS)

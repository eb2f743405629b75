"""The additions to a reply on its way out (labels, topology version, times), and the slow query log."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from bson import Int64
from bson.errors import BSONError

from fakeserver.errors import CommandError
from fakeserver.profile import WIRE_80
from fakeserver.request import queueing
from fakeserver.request.labels import LabelFacts, carries_backoff_hint, labels
from fakeserver.request.operations import describe, originating
from fakeserver.request.pipeline import Outcome, Stage, Step
from fakeserver.settings.failpoints import MOCK_SHUTDOWN
from fakeserver.waiting.bystanders import aside
from fakeserver.waiting.interrupts import in_steps
from mongowire.codes import Category, is_in
from mongowire.pieces import encode_in_steps

if TYPE_CHECKING:
    from fakeserver.deployment.node import Node
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext
    from fakeserver.request.stage import Leave, Shape


class ClusterTimeGossip(Stage):
    """Adds `$clusterTime` and `operationTime`, except on a standalone; errors carry them too."""

    step = Step.CLUSTER_TIME

    def leave(self, request: RequestContext, _outcome: Outcome, _now: float) -> None:
        # On the way out, so that a write's own operation time is in its reply.
        node = request.node
        if node.is_replicated:
            request.response.gossip = node.cluster_time.elements()

    def exit(self, _spec: CommandSpec, _shape: Shape, node: Node) -> Leave | None:
        return self.leave if node.is_replicated else None


class ErrorLabels(Stage):
    """Adds `errorLabels`, `baseBackoffMS` and `topologyVersion` to failures (`SDAM: topologyVersion`)."""

    step = Step.LABELS

    def leave(self, request: RequestContext, _outcome: Outcome, _now: float) -> None:
        if request.response.failure is None and request.response.write_concern_error is None:
            return
        code = None if request.response.failure is None else int(request.response.failure.code)
        write_concern_error = request.response.write_concern_error
        given = write_concern_error.get("code") if isinstance(write_concern_error, dict) else None
        write_concern_code = int(given) if isinstance(given, int | float) else None
        extra = _labels_and_hint(request, code, write_concern_code)
        node = request.node
        if _tells_topology_version(node, code, write_concern_code):
            extra["topologyVersion"] = node.topology_version()
        request.response.extra = extra

    def exit(self, _spec: CommandSpec, _shape: Shape, _node: Node) -> Leave | None:
        return None


def _tells_topology_version(node: Node, code: int | None, write_concern_code: int | None) -> bool:
    # With it a driver tells an error of this state from one of an earlier state that it knows to be over.
    # Only errors about the state itself carry it, and a standalone's state never changes.
    if node.outages.quiesces and code is not None and is_in(code, Category.SHUTDOWN):
        return node.profile.awaits_topology_changes
    return node.tells_topology_version and (_is_not_primary(code) or _is_not_primary(write_concern_code))


def _is_not_primary(code: int | None) -> bool:
    return code is not None and is_in(code, Category.NOT_PRIMARY)


def _labels_and_hint(
    request: RequestContext, code: int | None, write_concern_code: int | None
) -> dict[str, Any]:
    node = request.node
    if request.response.label_override is not None:
        # A fail point's labels replace all computed ones; an empty list suppresses the field.
        error_labels = list(request.response.label_override)
    else:
        error_labels = labels(
            LabelFacts(
                profile=node.profile,
                command=request.spec.name,
                code=code,
                write_concern_code=write_concern_code,
                txn_number=request.txn_number is not None,
                autocommit=request.has_autocommit,
                internal_client=request.connection.internal_client,
                mongos=node.is_mongos,
                shutting_down=node.outages.shutting_down or node.fail_points.is_on(MOCK_SHUTDOWN),
                change_stream=_is_change_stream(request),
                before=request.execution.before,
                after=request.execution.after,
            )
        )
    error_labels += [label for label in request.response.added_labels if label not in error_labels]
    if not error_labels:
        return {}
    extra: dict[str, Any] = {"errorLabels": [str(label) for label in error_labels]}
    if carries_backoff_hint(error_labels) and node.profile.hints_backoff:
        backoff_ms = node.parameters["externalClientBaseBackoffMS"]
        if backoff_ms > 0:  # 0, the default, leaves the delay to the driver
            extra["baseBackoffMS"] = Int64(backoff_ms)
    return extra


def _is_change_stream(request: RequestContext) -> bool:
    command = request.command or {}
    stages = command.get("pipeline")
    if request.spec.name == "aggregate" and isinstance(stages, list) and stages:
        return isinstance(stages[0], dict) and "$changeStream" in stages[0]
    return request.execution.tails_change_stream


_NAMES: Final = frozenset({"aggregate", "bulkWrite", "distinct", "find", "getMore", "listCollections"})
"""The commands whose replies may hold many values."""

_MANY: Final = 2_000
"""The number of values that the library encodes within a millisecond."""


class LargeReplies(Stage):
    """Encodes a reply of many values before it is sent, where the request can give way to others.

    It stands outside of the labels, which belong to what is encoded; times are added to the bytes.
    """

    step = Step.BODY

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.name in _NAMES

    def leave(self, request: RequestContext, _outcome: Outcome, _now: float) -> None:
        response = request.response
        if response.failure is not None or response.body is None:
            return
        held = response.body.get("cursor", response.body)
        values = held.get("firstBatch") or held.get("nextBatch") or held.get("values") or ()
        if len(values) <= _MANY:
            return
        try:
            response.encoded_body = in_steps(encode_in_steps(response.render()))
        except CommandError as error:
            response.failure = error.without_frames()
        except (BSONError, OverflowError, TypeError, ValueError):
            return  # the connection's own encoding will fail likewise, and answers with the reason


_SLOW_QUERY: Final = 51803
_MILLIS: Final = 1000


class SlowQueries(Stage):
    """Logs requests of `slowms` and longer; since 8.0 without their time in queues of admission control."""

    step = Step.LABELS

    def leave(self, request: RequestContext, _outcome: Outcome, now: float) -> None:
        profiling = request.node.profiler.profiling
        # A hello, or a getMore that awaits data, took as long as it was asked to.
        waits = request.spec.handshake or request.execution.waits_until is not None
        if (now - request.arrived) * _MILLIS < profiling.slow_ms or waits:
            return
        if request.node.profile.max_wire_version >= WIRE_80:
            counted = working_millis(request, now)
        else:
            counted = _millis(now - request.arrived)
        if counted >= profiling.slow_ms:
            with aside("the log of slow queries"):
                _log(request, now)

    def exit(self, _spec: CommandSpec, _shape: Shape, node: Node) -> Leave | None:
        # What was left at the instant of its entry took no time, which 0 makes slow all the same.
        return self.leave if node.profiler.profiling.slow_ms <= 0 else None


def working_millis(request: RequestContext, now: float) -> int:
    """Return the duration of a request in milliseconds, without its waits for admission."""
    return _millis(now - request.arrived - queueing.seconds_queued(request))


def _log(request: RequestContext, now: float) -> None:
    node, connection = request.node, request.connection
    operation = describe(request, now, dt.datetime.fromtimestamp(node.clock.utc(), dt.UTC))
    attr: dict[str, Any] = {"type": "command", "ns": operation["ns"]}
    attr |= {"appName": connection.app_name} if connection.app_name else {}
    attr["command"] = operation["command"]
    attr |= originating(request)
    failure = request.response.failure
    if failure is not None:
        attr |= {"ok": 0, "errMsg": failure.message, "errName": failure.code_name}
        attr["errCode"] = int(failure.code)
    cursor: dict[str, Any] = (request.response.body or {}).get("cursor") or {}
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

"""What is added to replies on the way out: error labels, topology version, cluster time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import Int64

from fakeserver.failpoints import MOCK_SHUTDOWN
from fakeserver.labels import LabelFacts, carries_backoff_hint, labels
from fakeserver.pipeline import Outcome, Stage, Step
from mongowire.codes import Category, is_in

if TYPE_CHECKING:
    from fakeserver.node import Node
    from fakeserver.request import RequestContext


class ClusterTimeGossip(Stage):
    """Adds `$clusterTime` and `operationTime`, except on a standalone; errors carry them too."""

    step = Step.CLUSTER_TIME

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002
        node = request.node
        if node.is_replicated:
            request.gossip = node.cluster_time.elements()


class ErrorLabels(Stage):
    """Adds `errorLabels`, `baseBackoffMS` and `topologyVersion` to failures (`SDAM: topologyVersion`)."""

    step = Step.LABELS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:  # noqa: ARG002
        if request.failure is None and request.write_concern_error is None:
            return
        code = None if request.failure is None else int(request.failure.code)
        write_concern_code = _code_of(request.write_concern_error)
        extra = _labels_and_hint(request, code, write_concern_code)
        node = request.node
        if _tells_topology_version(node, code, write_concern_code):
            extra["topologyVersion"] = node.topology_version()
        request.extra = extra


def _tells_topology_version(node: Node, code: int | None, write_concern_code: int | None) -> bool:
    if node.outages.quiesces and code is not None and is_in(code, Category.SHUTDOWN):
        return node.profile.awaits_topology_changes
    return node.tells_topology_version and (_is_not_primary(code) or _is_not_primary(write_concern_code))


def _is_not_primary(code: int | None) -> bool:
    return code is not None and is_in(code, Category.NOT_PRIMARY)


def _code_of(write_concern_error: Any) -> int | None:
    code = write_concern_error.get("code") if isinstance(write_concern_error, dict) else None
    return int(code) if isinstance(code, int | float) else None


def _labels_and_hint(
    request: RequestContext, code: int | None, write_concern_code: int | None
) -> dict[str, Any]:
    if request.label_override is not None:
        error_labels = list(request.label_override)
    else:
        error_labels = labels(_facts(request, code, write_concern_code))
    if not error_labels:
        return {}
    extra: dict[str, Any] = {"errorLabels": [str(label) for label in error_labels]}
    node = request.node
    if carries_backoff_hint(error_labels) and node.profile.hints_backoff:
        backoff_ms = node.parameters["externalClientBaseBackoffMS"]
        if backoff_ms > 0:
            extra["baseBackoffMS"] = Int64(backoff_ms)
    return extra


def _facts(request: RequestContext, code: int | None, write_concern_code: int | None) -> LabelFacts:
    return LabelFacts(
        profile=request.node.profile,
        command=request.spec.name,
        code=code,
        write_concern_code=write_concern_code,
        txn_number=request.txn_number is not None,
        autocommit=request.has_autocommit,
        internal_client=request.connection.internal_client,
        mongos=request.node.is_mongos,
        shutting_down=request.node.outages.shutting_down or request.node.fail_points.is_on(MOCK_SHUTDOWN),
        change_stream=_is_change_stream(request),
        before=request.before,
        after=request.after,
    )


def _is_change_stream(request: RequestContext) -> bool:
    command = request.command or {}
    stages = command.get("pipeline")
    if request.spec.name == "aggregate" and isinstance(stages, list) and stages:
        return isinstance(stages[0], dict) and "$changeStream" in stages[0]
    return request.tails_change_stream

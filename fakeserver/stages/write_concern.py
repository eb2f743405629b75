"""Acknowledgement by as many members as a write asks for (`Read and Write Concern: writeConcern`)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.failpoints import FAIL_COMMAND
from fakeserver.idl import type_name, whole
from fakeserver.labels import COMMIT_OR_ABORT
from fakeserver.pipeline import PASS, Action, Await, Stage, Step
from fakeserver.replication import Role
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.table import CommandSpec
    from fakeserver.oplog import OpTime
    from fakeserver.request import RequestContext
    from fakeserver.shard import Shard

_MAX_W: Final = 50
_NUMBERS: Final = frozenset({"int", "long", "double", "decimal"})


@dataclass(frozen=True, slots=True)
class WriteConcern:
    """What a command asks for: `w` members or a mode's name, within `timeout` seconds.

    `provenance` says who asked: `clientSupplied`, `customDefault` (the deployment's) or `implicitDefault`.
    """

    w: int | str | dict[str, Any] = 1
    timeout: float = math.inf
    timeout_ms: int = 0
    provenance: str = "clientSupplied"

    @classmethod
    def parse(cls, document: Any) -> WriteConcern:
        """Read a `writeConcern`. Raises `CommandError` 9 FailedToParse, 14 or 2."""
        if not isinstance(document, dict):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f'"writeConcern" had the wrong type. Expected object, found {type_name(document)}',
            )
        w = _parse_w(document.get("w", 1))
        timeout_ms = document.get("wtimeout", document.get("wtimeoutMS", 0))
        timeout_ms = whole(timeout_ms) if type_name(timeout_ms) in _NUMBERS else 0
        timeout = timeout_ms / 1000 if timeout_ms > 0 else math.inf
        return cls(w, timeout, timeout_ms)


def _parse_w(w: Any) -> int | str | dict[str, Any]:
    if isinstance(w, str):
        return w
    if isinstance(w, dict):
        if not w:
            raise CommandError(ErrorCode.FAILED_TO_PARSE, "tagged write concern requires tags")
        return w
    if type_name(w) not in _NUMBERS:
        raise CommandError(ErrorCode.FAILED_TO_PARSE, "w has to be a number, string, or object")
    number = whole(w)
    if not 0 <= number <= _MAX_W:
        raise CommandError(
            ErrorCode.FAILED_TO_PARSE,
            f"w has to be a non-negative number and not greater than {_MAX_W}; found: {number}",
        )
    return number


class WriteConcernCheck(Stage):
    """Refuses, before the run, a write concern that cannot be read or that the command cannot have."""

    step = Step.READ_CONCERN

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - a stage's signature
        command = request.command
        if command is None:
            return PASS
        if "writeConcern" not in command:
            if request.spec.write_concern and request.node.is_replicated:
                request.write_concern = _default(request)
            return PASS
        if request.has_autocommit and request.spec.name not in COMMIT_OR_ABORT:
            raise CommandError(
                ErrorCode.INVALID_OPTIONS,
                "writeConcern is not allowed within a multi-statement transaction",
            )
        if not request.spec.write_concern:
            raise CommandError(ErrorCode.INVALID_OPTIONS, "Command does not support writeConcern")
        concern = WriteConcern.parse(command["writeConcern"])
        if not request.node.is_replicated:
            if isinstance(concern.w, int) and concern.w > 1:
                raise CommandError(ErrorCode.BAD_VALUE, "cannot use 'w' > 1 when a host is not replicated")
            if isinstance(concern.w, str) and concern.w != "majority":
                raise CommandError(
                    ErrorCode.BAD_VALUE,
                    f"cannot use non-majority 'w' mode {concern.w} when a host is not a member of a replica"
                    " set",
                )
        if "w" not in command["writeConcern"] and request.node.is_replicated:
            default = _default(request)
            concern = replace(concern, w=1 if default is None else default.w)
        request.write_concern = concern
        return PASS


def _default(request: RequestContext) -> WriteConcern | None:
    """Return the deployment's concern for a command that brings none, None where none was set.

    The statements of a transaction have none to bring. The implicit default is not waited for: a write
    without a concern returns at once, so that members may lag in scenarios that say nothing of concerns.
    """
    document = request.node.cluster.default_concerns.write
    if document is None or (request.has_autocommit and request.spec.name not in COMMIT_OR_ABORT):
        return None
    return replace(WriteConcern.parse(document), provenance="customDefault")


class WriteConcernWait(Stage):
    """Adds `writeConcernError`: a fail point's, or that of a concern which the set does not satisfy."""

    step = Step.WRITE_CONCERN

    def concerns(self, spec: CommandSpec) -> bool:
        return spec.write_concern or spec.name == "getMore"

    def enter(self, request: RequestContext, now: float) -> Action:
        node = request.node
        if node.fail_points.active and _take_fault(request):
            return PASS
        concern = request.write_concern
        if concern is not None and node.is_replicated:
            return _wait(request, concern, now)
        return PASS


def _take_fault(request: RequestContext) -> bool:
    if request.body is not None and "writeConcernError" in request.body:
        return False
    node = request.node
    if node.is_mongos and (request.failure is not None or not request.spec.write_concern):
        return False
    fault = node.fail_points.write_concern_error(node.target_of(request))
    if fault is None:
        return False
    node.record_hit(FAIL_COMMAND, request, "writeConcernError")
    request.write_concern_error = fault.error
    request.rewrites_state_changes = False
    if fault.labels is not None:
        request.label_override = fault.labels
    elif node.is_mongos:
        request.label_override = ()
    return True


def _wait(request: RequestContext, concern: WriteConcern, now: float) -> Action:
    """Wait for enough members to have what the command wrote, or give the reason why there is no waiting."""
    node, optime = request.node, request.after
    shard = node.writes_to
    assert shard is not None
    if optime is None or not _can_be_met(request, concern, shard) or _is_met(concern, shard, optime):
        return PASS
    if node.role is not Role.PRIMARY or shard.primary is None:
        _fail(
            request,
            concern,
            ErrorCode.PRIMARY_STEPPED_DOWN,
            "Primary stepped down while waiting for replication",
        )
        return PASS
    if request.write_concern_until is None:
        request.write_concern_until = now + concern.timeout
    if now >= request.write_concern_until:
        _fail(request, concern, ErrorCode.WRITE_CONCERN_TIMEOUT, "waiting for replication timed out")
        return PASS
    return Await(node.cluster.replication, request.write_concern_until)


def _is_met(concern: WriteConcern, shard: Shard, optime: OpTime) -> bool:
    if isinstance(concern.w, int):
        return shard.replicated(optime) >= concern.w
    return shard.majority() >= optime


def _can_be_met(request: RequestContext, concern: WriteConcern, shard: Shard) -> bool:
    """Say whether the set could ever satisfy a concern; give the error where it could not."""
    unmet = unmet_for_good(concern, shard)
    if unmet is not None:
        _fail(request, concern, ErrorCode(unmet.code), unmet.message)
    return unmet is None


def unmet_for_good(concern: WriteConcern, shard: Shard) -> CommandError | None:
    """Return why a set can never satisfy a concern (100 or 79), None where it can."""
    if isinstance(concern.w, int):
        if concern.w <= len(shard.data_bearing):
            return None
        return CommandError(ErrorCode.UNSATISFIABLE_WRITE_CONCERN, "Not enough data-bearing nodes")
    if concern.w == "majority":
        return None
    return CommandError(
        ErrorCode.UNKNOWN_REPL_WRITE_CONCERN,
        f"No write concern mode named '{concern.w}' found in replica set configuration",
    )


def _fail(request: RequestContext, concern: WriteConcern, code: ErrorCode, message: str) -> None:
    details: dict[str, Any] = {}
    name = code.code_name
    if code is ErrorCode.WRITE_CONCERN_TIMEOUT:
        details["wtimeout"] = True
        name = request.node.profile.write_concern_timeout_name
    details["writeConcern"] = {
        "w": concern.w,
        "wtimeout": concern.timeout_ms,
        "provenance": concern.provenance,
    }
    request.write_concern_error = {
        "code": int(code),
        "codeName": name,
        "errmsg": message,
        "errInfo": details,
    }

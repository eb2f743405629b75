"""Read concern and write concern: their checks, and their waits (`Read and Write Concern`).

Both are checked before the run, so that a bad concern changes nothing. The read's wait is part of that check:
a member runs the read when it has come as far as the concern asks for. The write's wait comes after the run,
also after one that failed: the error may rest on data (a duplicate key) that is not replicated yet. A write
concern that is not satisfied is no error of the command. It is `writeConcernError` in an otherwise successful
reply, because the write has taken place and will not be undone.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.queries.aggregate import check_concern_of_stages
from fakeserver.deployment.replication.default_concerns import unmet_for_good
from fakeserver.deployment.replication.state import Role
from fakeserver.errors import CommandError, expired
from fakeserver.idl.fields import type_name
from fakeserver.idl.generic_arguments import (
    TIMES,
    WriteConcern,
    check_read_concern,
    read_concern_not_supported,
)
from fakeserver.request.context import Acknowledgement
from fakeserver.request.labels import COMMIT_OR_ABORT
from fakeserver.request.pipeline import PASS, Action, Stage, Step
from fakeserver.settings.failpoints import FAIL_COMMAND
from fakeserver.waiting.pause import Await
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.deployment.node import Node
    from fakeserver.deployment.replication.history import History
    from fakeserver.deployment.shard import Shard
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext
    from fakeserver.request.stage import Enter, Shape
    from fakeserver.storage.port.oplog import OpTime

_SNAPSHOT_READS: Final = frozenset({"find", "aggregate", "distinct"})
_CONCERNED_READS: Final = _SNAPSHOT_READS | {"count", "explain", "dbHash", "mapReduce"}
"""The reads that take a level; those of the catalog and of statistics have no data of a point in time."""
_DEFAULTED: Final = frozenset({"find", "aggregate", "count", "distinct"})
"""The reads that take the deployment's default read concern."""
_ASK_OTHERS: Final = frozenset({"linearizable", "majority", "snapshot"})
"""The levels that return what a majority has, or wait for it."""
_IN_TRANSACTION: Final = frozenset({"local", "majority", "snapshot"})


class ReadConcernCheck(Stage):
    """Refuses a read concern that cannot be read, or that the command or the server cannot honour."""

    step = Step.READ_CONCERN

    def entry(self, _spec: CommandSpec | None, shape: Shape, node: Node) -> Enter | None:
        stated = "readConcern" in shape.names or node.cluster.default_concerns.read is not None
        return self.enter if stated else None

    def enter(self, request: RequestContext, now: float) -> Action:
        command = request.command
        if command is None:
            return PASS
        if request.node.cluster.default_concerns.read is not None:
            _bring_default(request, command)
        concern = command.get("readConcern")
        if concern is None:
            return PASS
        if not isinstance(concern, dict):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f"BSON field '{request.name}.readConcern' is the wrong type '{type_name(concern)}', expected"
                " type 'object'",
            )
        level = check_read_concern(concern)
        name = request.spec.name
        if request.has_autocommit:
            _check_transaction(command, level)
        elif name == "getMore" or (name == "killCursors" and request.node.is_mongos):
            # Accepted, whatever it says, and without effect: a cursor reads with the concern that opened it.
            # A driver's snapshot session sends one with each command; killCursors takes it on a mongos only.
            return PASS
        else:
            _check_support(request, level)
        _check_server(request, concern, level)
        # A member that has everything has each time that can be asked for; some levels ask others too.
        if request.node.position.applied is None and level not in _ASK_OTHERS:
            return PASS
        return _wait_for_times(request, concern, level, now)


def _bring_default(request: RequestContext, command: dict[str, Any]) -> None:
    """Give a read that states no level the deployment's default.

    "local" and "available" read the same here as no level at all. Statements of a transaction take none.
    """
    default = request.node.cluster.default_concerns.read
    if default is None or default.get("level") != "majority" or request.has_autocommit:
        return
    concern = command.get("readConcern") or {}
    if request.spec.name in _DEFAULTED and isinstance(concern, dict) and concern.get("level") is None:
        command["readConcern"] = {**concern, **default}


def _wait_for_times(request: RequestContext, concern: dict[str, Any], level: str, now: float) -> Action:
    """Wait until this member has come as far as the read asks for (`Causal Consistency`)."""
    # A time ahead of all operations is met by the last of them: a server appends a no-op to get there.
    node, reached = request.node, request.node.applied
    newest = node.oplog.last.timestamp
    times = [concern[name] for name in TIMES if name in concern]
    # "Linearizable" proves that the member is still primary: a majority has all that it has.
    if level == "linearizable" and node.shard is not None:
        times, reached = [newest], node.majority
    elif times and level in _ASK_OTHERS and node.shard is not None and not request.has_autocommit:
        reached = min(reached, node.majority)
        # One that reaches no majority gets no further: a no-op of its own would not be a majority's.
        if not node.shard.replica_set.has_majority(node.member):
            newest = max(times)
    if all(reached.timestamp >= min(time, newest) for time in times):
        return PASS
    if request.deadline is not None and now >= request.deadline:
        raise expired()
    return Await(node.cluster.replication, math.inf if request.deadline is None else request.deadline)


def _check_transaction(command: dict[str, Any], level: str) -> None:
    """Refuse a read concern in a transaction (`Transactions: readConcern`). Raises `CommandError` 72."""
    # The first statement takes the snapshot, so a concern of a later one would come too late.
    if not command.get("startTransaction"):
        raise CommandError(
            ErrorCode.INVALID_OPTIONS, "Only the first command in a transaction may specify a readConcern"
        )
    if level not in _IN_TRANSACTION:
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run"
            " in a transaction",
        )


def _check_support(request: RequestContext, level: str) -> None:
    spec = request.spec
    # The weakest level promises nothing, so that every command can keep the promise.
    if level == "local" or (spec.name in _CONCERNED_READS and level != "snapshot"):
        return
    if level == "snapshot" and spec.name in _SNAPSHOT_READS:
        return
    raise read_concern_not_supported(spec.name, level)


def _check_server(request: RequestContext, concern: dict[str, Any], level: str) -> None:
    if request.node.is_replicated:
        if level == "linearizable" and not request.node.is_primary:
            raise CommandError(
                ErrorCode.NOT_WRITABLE_PRIMARY,
                "cannot satisfy linearizable read concern on non-primary node",
            )
        return
    if level in {"snapshot", "linearizable"}:
        if request.spec.name == "aggregate" and request.command is not None:
            check_concern_of_stages(request.command)
        what = "readConcern: snapshot" if level == "snapshot" else "read concern"
        raise CommandError(
            ErrorCode.NOT_A_REPLICA_SET, f"node needs to be a replica set member to use {what}"
        )
    for name in TIMES:
        if name in concern:
            raise CommandError(
                ErrorCode.ILLEGAL_OPERATION,
                f"Cannot specify {name} readConcern without replication enabled",
            )


class WriteConcernCheck(Stage):
    """Refuses, before the run, a write concern that is malformed or that the command cannot have."""

    step = Step.READ_CONCERN

    def entry(self, _spec: CommandSpec | None, shape: Shape, node: Node) -> Enter | None:
        stated = "writeConcern" in shape.names or node.cluster.default_concerns.write is not None
        return self.enter if stated else None

    def enter(self, request: RequestContext, _now: float) -> Action:
        command = request.command
        if command is None:
            return PASS
        stated = command.get("writeConcern")
        if stated is None:
            if request.spec.write_concern and request.node.is_replicated:
                _ask_for(request, _default(request))
            return PASS
        # Statements of a transaction write nothing that could be replicated before its commit.
        if request.has_autocommit and request.spec.name not in COMMIT_OR_ABORT:
            raise CommandError(
                ErrorCode.INVALID_OPTIONS,
                "writeConcern is not allowed within a multi-statement transaction",
            )
        concern = WriteConcern.parse(stated)
        if not request.spec.write_concern:
            raise CommandError(ErrorCode.INVALID_OPTIONS, "Command does not support writeConcern")
        if not request.node.is_replicated:
            if isinstance(concern.w, int) and concern.w > 1:
                raise CommandError(ErrorCode.BAD_VALUE, "cannot use 'w' > 1 when a host is not replicated")
            if isinstance(concern.w, str) and concern.w != "majority":
                raise CommandError(
                    ErrorCode.BAD_VALUE,
                    f"cannot use non-majority 'w' mode {concern.w} when a host is not a member of a replica"
                    " set",
                )
        # A concern with a wtimeout or a j alone keeps these, and takes its w from the default.
        if "w" not in stated and request.node.is_replicated:
            default = _default(request)
            concern = replace(concern, w=1 if default is None else default.w)
        _ask_for(request, concern)
        return PASS


def _ask_for(request: RequestContext, concern: WriteConcern | None) -> None:
    request.execution.acknowledgement = None if concern is None else Acknowledgement(concern)


def _default(request: RequestContext) -> WriteConcern | None:
    """Return the deployment's default for a command without a concern, None where none was set.

    Statements of a transaction have none. A real server's implicit default is "majority", and a client waits
    for it; here a write without a concern returns at once, so that a scenario about lag need not mention
    concerns.
    """
    document = request.node.cluster.default_concerns.write
    if document is None or (request.has_autocommit and request.spec.name not in COMMIT_OR_ABORT):
        return None
    return replace(WriteConcern.parse(document), provenance="customDefault")


class WriteConcernWait(Stage):
    """Adds `writeConcernError`: a fail point's, or that of a concern which the set does not satisfy."""

    step = Step.WRITE_CONCERN

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.write_concern or spec.name == "getMore"

    def entry(self, _spec: CommandSpec | None, shape: Shape, node: Node) -> Enter | None:
        asked_for = "writeConcern" in shape.names or node.cluster.default_concerns.write is not None
        return self.enter if asked_for or node.fail_points.active else None

    def enter(self, request: RequestContext, now: float) -> Action:
        node = request.node
        # The error of a fail point is instead of the wait, not after it.
        if node.fail_points.active and _take_fault(request):
            return PASS
        acknowledgement = request.execution.acknowledgement
        if acknowledgement is not None and node.is_replicated:
            return _wait(request, acknowledgement, now)
        return PASS


def _take_fault(request: RequestContext) -> bool:
    if request.response.body is not None and "writeConcernError" in request.response.body:
        return False
    node = request.node
    # A mongod attaches the error to a command that failed too, and to getMore; a mongos to neither.
    if node.is_mongos and (request.response.failure is not None or not request.spec.write_concern):
        return False
    fault = node.fail_points.write_concern_error(request.fail_point_target(node))
    if fault is None:
        return False
    request.record_hit(FAIL_COMMAND, "writeConcernError")
    request.response.write_concern_error = fault.error
    request.faults.rewrites_state_changes = False
    # Without labels of its own a mongod computes them from the code, and a mongos adds none.
    if fault.labels is not None:
        request.response.label_override = fault.labels
    elif node.is_mongos:
        request.response.label_override = ()
    return True


def _wait(request: RequestContext, acknowledgement: Acknowledgement, now: float) -> Action:
    """Wait until enough members have what the command wrote; or add the error for which they never will."""
    # The last operation of the whole oplog, also for a command that wrote nothing: its result may rest on the
    # writes of others, which would be lost with their primary.
    node, optime, concern = request.node, request.execution.after, acknowledgement.concern
    shard = node.writes_to
    assert shard is not None
    if optime is None:
        return PASS
    unmet = unmet_for_good(concern, len(shard.data_bearing))
    if unmet is not None:
        # At once, and also where the write has reached all members: the concern itself is wrong.
        _fail(request, concern, ErrorCode(unmet.code), unmet.message)
        return PASS
    if _is_met(concern, shard, optime, node.history):
        return PASS
    # Another primary may go on without these writes, so nobody may count on the members that have them.
    if node.role is not Role.PRIMARY or shard.primary is None:
        _fail(
            request,
            concern,
            ErrorCode.PRIMARY_STEPPED_DOWN,
            "Primary stepped down while waiting for replication",
        )
        return PASS
    if acknowledgement.until is None:
        acknowledgement.until = now + concern.timeout
    if now >= acknowledgement.until:
        _fail(request, concern, ErrorCode.WRITE_CONCERN_TIMEOUT, "waiting for replication timed out")
        return PASS
    return Await(node.cluster.replication, acknowledgement.until)


def _is_met(concern: WriteConcern, shard: Shard, optime: OpTime, history: History) -> bool:
    if isinstance(concern.w, int):
        return shard.replicated(optime, history) >= concern.w
    return shard.majority(history) >= optime


def _fail(request: RequestContext, concern: WriteConcern, code: ErrorCode, message: str) -> None:
    details: dict[str, Any] = {}
    name = code.code_name
    # Drivers report a timeout by `errInfo.wtimeout`; the code had another name in older releases.
    if code is ErrorCode.WRITE_CONCERN_TIMEOUT:
        details["wtimeout"] = True
        name = request.node.profile.write_concern_timeout_name
    details["writeConcern"] = {
        "w": concern.w,
        "wtimeout": concern.timeout_ms,
        "provenance": concern.provenance,
    }
    request.response.write_concern_error = {
        "code": int(code),
        "codeName": name,
        "errmsg": message,
        "errInfo": details,
    }

"""Which read concerns a command may have (`Read and Write Concern: readConcern`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from bson import Timestamp

from fakeserver.errors import CommandError, expired
from fakeserver.idl import type_name
from fakeserver.pipeline import PASS, Action, Await, Stage, Step
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.request import RequestContext

LEVELS: Final = ("local", "majority", "linearizable", "available", "snapshot")
_SNAPSHOT_READS: Final = frozenset({"find", "aggregate", "distinct"})
_DEFAULTED: Final = frozenset({"find", "aggregate", "count", "distinct"})
_IN_TRANSACTION: Final = frozenset({"local", "majority", "snapshot"})
TIMES: Final = ("afterClusterTime", "atClusterTime")


class ReadConcernCheck(Stage):
    """Refuses a read concern that cannot be read, or that the command or the server cannot honour."""

    step = Step.READ_CONCERN

    def enter(self, request: RequestContext, now: float) -> Action:
        command = request.command
        if command is None:
            return PASS
        if request.node.cluster.default_concerns.read is not None:
            _bring_default(request, command)
        if "readConcern" not in command:
            return PASS
        concern = command["readConcern"]
        level = _parse(request, concern)
        if request.has_autocommit:
            _check_transaction(command, level)
        elif _ignores_it(request):
            return PASS
        else:
            _check_support(request, level)
        _check_server(request, concern, level)
        if request.node.position.applied is None and level != "linearizable":
            return PASS
        return _wait_for_times(request, concern, level, now)


def _bring_default(request: RequestContext, command: dict[str, Any]) -> None:
    """Give a read that states no level the deployment's, if it is another than the one that it has anyway."""
    default = request.node.cluster.default_concerns.read
    if default is None or default.get("level") != "majority" or request.has_autocommit:
        return
    concern = command.get("readConcern", {})
    if request.spec.name in _DEFAULTED and isinstance(concern, dict) and "level" not in concern:
        command["readConcern"] = {**concern, **default}


def _wait_for_times(request: RequestContext, concern: dict[str, Any], level: str, now: float) -> Action:
    """Wait until this member has come as far as the read asks for (`Causal Consistency`)."""
    node, last = request.node, request.node.oplog.last
    reached = node.applied
    times = [concern[name] for name in TIMES if name in concern]
    if level == "linearizable" and node.shard is not None:
        times, reached = [last.timestamp], node.shard.majority()
    if all(reached.timestamp >= min(time, last.timestamp) for time in times):
        return PASS
    if request.deadline is not None and now >= request.deadline:
        raise expired()
    return Await(node.cluster.replication, math.inf if request.deadline is None else request.deadline)


def _parse(request: RequestContext, concern: Any) -> str:
    if not isinstance(concern, dict):
        raise _wrong_type(f"{request.name}.readConcern", concern, "object")
    level = concern.get("level", "local")
    if not isinstance(level, str):
        raise _wrong_type("readConcern.level", level, "string")
    if level not in LEVELS:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"Enumeration value '{level}' for field 'readConcern.level' is not a valid value.",
        )
    for name in TIMES:
        if name in concern and not isinstance(concern[name], Timestamp):
            raise _wrong_type(f"readConcern.{name}", concern[name], "timestamp")
    return level


def _check_transaction(command: dict[str, Any], level: str) -> None:
    """Refuse what a transaction does not take (`Transactions: readConcern`). Raises `CommandError` 72."""
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


def _ignores_it(request: RequestContext) -> bool:
    """Say whether a command takes any read concern and has no use for it: a cursor has its own."""
    name = request.spec.name
    return name == "getMore" or (name == "killCursors" and request.node.is_mongos)


def _check_support(request: RequestContext, level: str) -> None:
    spec = request.spec
    if level in {"local", "available"} or (spec.kind == "read" and level != "snapshot"):
        return
    if level == "snapshot" and spec.name in _SNAPSHOT_READS:
        return
    raise read_concern_not_supported(spec.name, level)


def read_concern_not_supported(
    command: str, level: str, reason: str = "read concern not supported"
) -> CommandError:
    """Return the error for a read concern that a command cannot have."""
    return CommandError(
        ErrorCode.INVALID_OPTIONS,
        f'Command {command} does not support {{ readConcern: {{ level: "{level}", provenance:'
        f' "clientSupplied" }} }} :: caused by :: {reason}',
    )


def _check_server(request: RequestContext, concern: dict[str, Any], level: str) -> None:
    if request.node.is_replicated:
        if level == "linearizable" and not request.node.is_primary:
            raise CommandError(
                ErrorCode.NOT_WRITABLE_PRIMARY,
                "cannot satisfy linearizable read concern on non-primary node",
            )
        return
    if level == "snapshot":
        raise CommandError(
            ErrorCode.NOT_A_REPLICA_SET,
            "node needs to be a replica set member to use readConcern: snapshot",
        )
    for name in TIMES:
        if name in concern:
            raise CommandError(
                ErrorCode.ILLEGAL_OPERATION,
                f"Cannot specify {name} readConcern without replication enabled",
            )


def _wrong_type(path: str, value: Any, expected: str) -> CommandError:
    return CommandError(
        ErrorCode.TYPE_MISMATCH,
        f"BSON field '{path}' is the wrong type '{type_name(value)}', expected type '{expected}'",
    )

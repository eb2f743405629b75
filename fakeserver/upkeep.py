"""What a server does while somebody has it switched on: `fsync`'s lock against writes, and the profiler.

Each is a stage that stands in the pipeline only for that time, so that nobody else pays for it.
"""

from __future__ import annotations

import datetime as dt
import math
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError, expired
from fakeserver.operations import describe
from fakeserver.pipeline import PASS, Action, Await, Outcome, Stage, Step
from fakeserver.queueing import of_finished
from fakeserver.stages.slow_queries import working_millis
from fakeserver.storage.engine import Namespace
from fakeserver.waiting import Bell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.commands.table import CommandSpec
    from fakeserver.pipeline import Pipeline
    from fakeserver.request import RequestContext
    from fakeserver.storage.engine import Document

PROFILE: Final = "system.profile"
_ALL: Final = 2
_SLOW_MS: Final = 100
_BATCHES: Final = {"update": "updates", "delete": "deletes"}
"""The commands of which each statement is an operation of its own, and the field that holds them."""


class WriteLock(Stage):
    """Holds writes back while the server is locked, as often as it was (`fsync` with `lock`)."""

    step = Step.READ_CONCERN

    def __init__(self, pipeline: Pipeline) -> None:
        self.count = 0
        self._pipeline = pipeline
        self._changed = Bell()
        self._standing = ExitStack()

    def concerns(self, spec: CommandSpec) -> bool:
        return spec.kind == "write" or spec.write_concern

    def enter(self, request: RequestContext, now: float) -> Action:
        deadline = request.deadline
        if not self.count:
            return PASS
        if deadline is not None and now >= deadline:
            raise expired()
        return Await(self._changed, math.inf if deadline is None else deadline)

    def lock(self) -> int:
        """Lock once more; return how often it is locked now."""
        if not self.count:
            self._standing.enter_context(self._pipeline.installed(self))
        self.count += 1
        return self.count

    def unlock(self) -> int:
        """Take one lock away; return how many are left."""
        self.count -= 1
        if not self.count:
            self._standing.close()
            self._changed.ring()
        return self.count


@dataclass(slots=True)
class Profiling:
    """What the profiler records: `levels` by database; at level 1 what takes `slow_ms`, or fits `filter`."""

    levels: dict[str, int] = field(default_factory=dict)
    slow_ms: int = _SLOW_MS
    sample_rate: float = 1.0
    filter: Document | None = None
    matches: Callable[[Document], bool] | None = None

    def wants(self, db: str, entry: Document, throw: Callable[[], float]) -> bool:
        """Say whether an operation is recorded; `throw` is a number from 0 to 1."""
        level = self.levels.get(db, 0)
        if not level:
            return False
        if self.matches is not None:
            return self.matches(entry)
        return level == _ALL or (entry["millis"] >= self.slow_ms and throw() < self.sample_rate)


class Profiler(Stage):
    """Enters the operations that a server has run in `system.profile` of their database."""

    step = Step.EXECUTE

    def __init__(self, pipeline: Pipeline, throw: Callable[[], float]) -> None:
        self.profiling = Profiling()
        self._pipeline = pipeline
        self._throw = throw
        self._standing = ExitStack()
        self._stands = False

    def set_level(self, db: str, level: int) -> None:
        """Record what `level` says of a database's operations from now on: 0 nothing, 2 all."""
        self.profiling.levels[db] = level
        wanted = any(self.profiling.levels.values())
        if wanted and not self._stands:
            self._standing.enter_context(self._pipeline.installed(self))
        elif self._stands and not wanted:
            self._standing.close()
        self._stands = wanted

    def enter(self, request: RequestContext, now: float) -> Action:  # noqa: ARG002 - a stage's signature
        # Only what was entered is left: a command that failed before it ran is not recorded.
        return PASS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:
        if outcome is Outcome.ABANDONED or request.db not in self.profiling.levels:
            return
        for entry in _entries(request, now):
            if self.profiling.wants(request.db, entry, self._throw):
                _record(request, entry)


def _entries(request: RequestContext, now: float) -> list[Document]:
    """Return what the profiler tells of an operation: of updates and deletes each statement that was run."""
    entry = _entry(request, now)
    batch = _BATCHES.get(request.spec.name)
    if batch is None or request.failure is not None:
        return [entry]
    statements = (request.command or {}).get(batch, [])
    failed = {error["index"]: error for error in (request.body or {}).get("writeErrors", [])}
    if failed and (request.command or {}).get("ordered", True):
        statements = statements[: max(failed) + 1]
    return [_told_of(entry, statement, failed.get(number)) for number, statement in enumerate(statements)]


def _told_of(entry: Document, statement: Mapping[str, Any], error: Mapping[str, Any] | None) -> Document:
    """Return the entry of one statement, whose own fields stand for those of the command."""
    told = {**entry, "command": dict(statement)}
    if error is None:
        return told
    name = CommandError(error["code"], error["errmsg"]).code_name
    failure = {"ok": 0.0, "errMsg": error["errmsg"], "errName": name, "errCode": error["code"]}
    return {**told, **failure}


def _entry(request: RequestContext, now: float) -> Document:
    at = dt.datetime.fromtimestamp(request.node.clock.utc(), dt.UTC)
    told = describe(request, now, at)
    entry: dict[str, Any] = {name: told[name] for name in ("op", "ns", "command")}
    cursor: dict[str, Any] | None = (request.body or {}).get("cursor")
    if cursor is not None:
        entry["nreturned"] = len(cursor["firstBatch"] if "firstBatch" in cursor else cursor["nextBatch"])
    failure = request.failure
    if failure is not None:
        entry |= {"ok": 0.0, "errMsg": failure.message, "errName": failure.code_name}
        entry["errCode"] = int(failure.code)
    entry |= of_finished(request)
    entry |= {"protocol": "op_query" if request.is_legacy else "op_msg"}
    entry |= {"millis": round((now - request.arrived) * 1000), "ts": at}
    entry["workingMillis"] = working_millis(request, now)
    entry["client"] = told["client"].rpartition(":")[0]
    if "appName" in told:
        entry["appName"] = told["appName"]
    users = told.get("effectiveUsers", [])
    return entry | {"allUsers": users, "user": f"{users[0]['user']}@{users[0]['db']}" if users else ""}


def _record(request: RequestContext, entry: Document) -> None:
    node, ns = request.node, Namespace(request.db, PROFILE)
    if node.catalog.get(ns) is None:
        node.catalog.create(ns, {"capped": True, "size": 1024 * 1024})
    node.catalog.engine.insert(ns, {"_id": node.object_ids.new(), **entry})

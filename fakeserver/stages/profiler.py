"""The profiler: a stage that stands in the pipeline only while it is on for some database.

So requests pay nothing for it otherwise. It records an operation on its way out, inside the stages that
decorate replies: labels and cluster time are no part of an entry, as on a server.
"""

from __future__ import annotations

import datetime as dt
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from fakeserver.deployment.logs.server_log import Profiling
from fakeserver.errors import CommandError
from fakeserver.request.operations import describe, originating
from fakeserver.request.pipeline import PASS, Action, Outcome, Stage, Step
from fakeserver.request.queueing import of_finished
from fakeserver.stages.replying import working_millis
from fakeserver.waiting.bystanders import aside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.request.context import RequestContext
    from fakeserver.request.pipeline import Pipeline
    from fakeserver.storage.port.engine import Document

_BATCHES: Final = {"update": "updates", "delete": "deletes"}
"""The commands of which each statement is an operation of its own, and the field that holds them."""


class Profiler(Stage):
    """Enters the operations that a server has run in `system.profile` of their database."""

    step = Step.EXECUTE

    def __init__(self, pipeline: Pipeline, draw: Callable[[], float]) -> None:
        self.profiling = Profiling()
        self._pipeline = pipeline
        self._draw = draw
        self._standing = ExitStack()
        self._stands = False

    def set_level(self, db: str, level: int) -> None:
        """Set the level for the operations of a database: 0 records none, 1 slow ones, 2 all."""
        self.profiling.levels[db] = level
        wanted = any(self.profiling.levels.values())
        if wanted and not self._stands:
            self._standing.enter_context(self._pipeline.installed(self))
        elif self._stands and not wanted:
            self._standing.close()
        self._stands = wanted

    def enter(self, _request: RequestContext, _now: float) -> Action:
        # Only what was entered is left: a command that failed before it ran is not recorded.
        return PASS

    def leave(self, request: RequestContext, outcome: Outcome, now: float) -> None:
        if outcome is Outcome.ABANDONED or request.db not in self.profiling.levels:
            return
        with aside("the profiler"):
            for entry in _entries(request, now):
                if self.profiling.wants(request.db, entry, self._draw):
                    node = request.node
                    ns = node.catalog.profile_of(request.db)
                    node.catalog.engine.insert(ns, {"_id": node.object_ids.new(), **entry})


def _entries(request: RequestContext, now: float) -> list[Document]:
    """Return the entries of an operation: one, or for updates and deletes one per statement that was run."""
    entry = _entry(request, now)
    batch = _BATCHES.get(request.spec.name)
    if batch is None or request.response.failure is not None:
        return [entry]
    statements = (request.command or {}).get(batch, [])
    failed = {error["index"]: error for error in (request.response.body or {}).get("writeErrors", [])}
    if failed and (request.command or {}).get("ordered", True):
        statements = statements[: max(failed) + 1]
    return [
        _entry_of_statement(entry, statement, failed.get(number))
        for number, statement in enumerate(statements)
    ]


def _entry_of_statement(
    entry: Document, statement: Mapping[str, Any], error: Mapping[str, Any] | None
) -> Document:
    """Return the entry of one statement: the command's, with the statement's fields instead of its own.

    The comment of the command is one of each statement.
    """
    command = entry["command"]
    shared = {"comment": command["comment"]} if "comment" in command else {}
    own = {**entry, "command": {**statement, **shared}}
    if error is None:
        return own
    name = CommandError(error["code"], error["errmsg"]).code_name
    failure = {"ok": 0.0, "errMsg": error["errmsg"], "errName": name, "errCode": error["code"]}
    return {**own, **failure}


def _entry(request: RequestContext, now: float) -> Document:
    at = dt.datetime.fromtimestamp(request.node.clock.utc(), dt.UTC)
    operation = describe(request, now, at)
    entry: dict[str, Any] = {name: operation[name] for name in ("op", "ns", "command")} | originating(request)
    cursor: dict[str, Any] | None = (request.response.body or {}).get("cursor")
    if cursor is not None:
        entry["nreturned"] = len(cursor["firstBatch"] if "firstBatch" in cursor else cursor["nextBatch"])
    failure = request.response.failure
    if failure is not None:
        entry |= {"ok": 0.0, "errMsg": failure.message, "errName": failure.code_name}
        entry["errCode"] = int(failure.code)
    entry |= of_finished(request)
    entry |= {"protocol": "op_query" if request.is_legacy else "op_msg"}
    entry |= {"millis": round((now - request.arrived) * 1000), "ts": at}
    entry["workingMillis"] = working_millis(request, now)
    entry["client"] = operation["client"].rpartition(":")[0]
    if "appName" in operation:
        entry["appName"] = operation["appName"]
    users = operation.get("effectiveUsers", [])
    return entry | {"allUsers": users, "user": f"{users[0]['user']}@{users[0]['db']}" if users else ""}

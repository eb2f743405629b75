"""Scripted behaviour (`fakeserver.rules`), before a command runs and on its way out.

The stage stands in a server's pipeline while there are rules: without any, a request pays nothing. What
becomes of a request is decided once, when it comes; delays and holds have the stage entered again, with that
decision. A mongos has armed the deadline by then, which cuts them short, as it does a fail point's block.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import bson

from fakeserver.deployment.records.events import RuleHit
from fakeserver.errors import expired
from fakeserver.request.pipeline import PASS, RESPOND, Action, Disconnect, Outcome, Silence, Stage, Step
from fakeserver.rules.rule import CONTROLLING, Asked, Ending, Fail, RuleReply
from fakeserver.waiting.interrupts import in_one_turn
from fakeserver.waiting.pause import Await

if TYPE_CHECKING:
    from fakeserver.deployment.node import Node
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.context import RequestContext
    from fakeserver.request.pipeline import Pipeline
    from fakeserver.rules.book import RuleBook, Ruling
    from fakeserver.rules.rule import Answer

_NO_COLLECTION: Final = frozenset(
    {
        *("createRole", "createUser", "dropRole", "dropUser", "grantPrivilegesToRole", "grantRolesToRole"),
        *("grantRolesToUser", "revokePrivilegesFromRole", "revokeRolesFromRole", "revokeRolesFromUser"),
        *("updateRole", "updateUser"),
    }
)
"""The commands of kind `write` whose first argument is a text, and no collection."""


class Rules(Stage):
    """Applies the rules of the deployment."""

    step = Step.RULES

    def __init__(self, book: RuleBook) -> None:
        self._book = book

    @classmethod
    def concerns(cls, spec: CommandSpec) -> bool:
        return spec.name not in CONTROLLING

    def enter(self, request: RequestContext, now: float) -> Action:
        ruling = request.faults.ruling
        if ruling is None:
            if not self._book.active:
                return PASS
            # A filter has yield points, and a count must not be taken twice meanwhile.
            with in_one_turn():
                ruling = request.faults.ruling = self._book.decide(_asked(request, self._book), now)
            node, connection = request.node, request.connection
            for name, effect in ruling.hits:
                node.record(RuleHit(name, request.name, connection.id, effect))
            for name, error in ruling.failures:
                attr = {"rule": name, "command": request.name, "error": str(error) or repr(error)}
                message = "A rule failed, and let the request pass"
                node.log.write("COMMAND", 0, message, severity="W", context=connection.thread_name, attr=attr)
            request.faults.waits_until = now + ruling.delay
            if not ruling.delay and ruling.held is None:
                return _answer(request, ruling.answer)
        elif request.deadline is not None and now >= request.deadline:
            raise expired()
        return _wait(request, ruling, now)

    def leave(self, request: RequestContext, outcome: Outcome, _now: float) -> None:
        ruling = request.faults.ruling
        if ruling is None:
            return
        if ruling.held is not None:
            ruling.held.left()
        response = request.response
        answer = ruling.held.answer if ruling.held is not None else ruling.answer
        replies = isinstance(answer, RuleReply) and response.failure is None
        if outcome is Outcome.DONE or replies:
            self._book.succeeded(ruling.operation)
        if ruling.write_concern_error is not None and (outcome is not Outcome.ABANDONED or replies):
            response.write_concern_error = dict(ruling.write_concern_error)
            if ruling.replacing_labels is not None:
                response.label_override = ruling.replacing_labels
            request.faults.rewrites_state_changes = False
        if ruling.fields and outcome is Outcome.DONE and response.body is not None:
            without = {name for name, value in ruling.fields.items() if value is None}
            body = {**response.body, **ruling.fields}
            response.body = {name: value for name, value in body.items() if name not in without}
        response.added_labels = ruling.labels
        if isinstance(answer, RuleReply) and replies:
            # Encode a reply of a rule; as bytes, nothing looks into it on its way.
            document: dict[str, Any] = dict(answer.document)
            if ruling.write_concern_error is not None:
                document["writeConcernError"] = dict(ruling.write_concern_error)
            if ruling.labels:
                stated = document.get("errorLabels")
                own = stated if isinstance(stated, list) else []
                document["errorLabels"] = [*own, *(label for label in ruling.labels if label not in own)]
            document.setdefault("ok", 1.0)
            request.response.encoded_body = bson.encode(document)
        elif ruling.labels and response.failure is None and response.write_concern_error is None:
            # What is no failure passes the stage of labels by.
            response.extra = {"errorLabels": list(ruling.labels)}


def _wait(request: RequestContext, ruling: Ruling, now: float) -> Action:
    """Wait for the end of the delay, then for the test that holds the request; then answer."""
    deadline = math.inf if request.deadline is None else request.deadline
    until = request.faults.waits_until
    if now < until:
        return Await(until=min(until, deadline))
    held = ruling.held
    if held is None:
        return _answer(request, ruling.answer)
    if ruling.holder is not None:
        holder, ruling.holder = ruling.holder, None
        holder.put(held)
    if held.answer is None:
        return Await(held.answered, deadline)
    return _answer(request, held.answer)


def _answer(request: RequestContext, answer: Answer | None) -> Action:
    if answer is None or answer is Ending.PASS:
        return PASS
    if isinstance(answer, Fail):
        request.response.failure = answer.error
        request.response.label_override = answer.labels
        request.faults.rewrites_state_changes = False
        return RESPOND
    if isinstance(answer, RuleReply):
        return RESPOND
    if answer is Ending.SILENCE:
        return Silence("a rule gives no answer")
    return Disconnect("a rule closes the connection")


# The facts of a request.


def _asked(request: RequestContext, book: RuleBook) -> Asked:
    node, connection, command = request.node, request.connection, request.command or {}
    session = request.session_id or (node.name, connection.id)
    return Asked(
        request.spec.name,
        request.db,
        _namespaces(request, command),
        connection.app_name,
        node.name,
        node.address,
        role_of(node),
        connection.id,
        command,
        book.operation(request.spec.name, command, session=session, txn_number=request.txn_number),
    )


def role_of(node: Node) -> str:
    """Return the role of a server, as conditions name it."""
    return "mongos" if node.is_mongos else node.role.name.lower()


def _namespaces(request: RequestContext, command: dict[str, Any]) -> tuple[str, ...]:
    spec = request.spec
    if spec.name == "bulkWrite":
        listed = command.get("nsInfo")
        named = [str(each["ns"]) for each in listed if "ns" in each] if isinstance(listed, list) else []
        return tuple(dict.fromkeys(named))
    if spec.name == "explain":
        inner = command.get("explain")
        collection = next(iter(inner.values()), None) if isinstance(inner, dict) else None
    elif spec.name == "getMore":
        collection = command.get("collection")
    else:
        collection = next(iter(command.values()), None)
    if spec.name == "renameCollection":
        return tuple(each for each in (collection, command.get("to")) if isinstance(each, str))
    if not isinstance(collection, str) or spec.name in _NO_COLLECTION:
        return ()
    if spec.name == "killCursors" or spec.kind in {"read", "write"}:
        return (f"{request.db}.{collection}",)
    return ()


# In the pipeline.


def stand_in(pipeline: Pipeline, book: RuleBook) -> None:
    """Have the stage stand in a pipeline while there are rules."""
    stage, standing = Rules(book), ExitStack()
    stands = False

    def switch(on: bool) -> None:  # noqa: FBT001 - the one argument of a switch
        nonlocal stands
        if on and not stands:
            standing.enter_context(pipeline.installed(stage))
        elif not on:
            standing.close()
        stands = on

    book.attach(switch)

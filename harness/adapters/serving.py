"""An adapter in Python: a class of a few methods, and the loop by which a runner speaks to it.

    class Mine(PythonAdapter):
        name = "mine"
        features = frozenset({Feature.COMMAND_EVENTS})

        def create_client(self, spec, tell):
            return Client(spec.uri, on_event=lambda event: tell("commandStartedEvent", {...}))

        def call(self, handle, kind, operation, arguments): ...

    serve(Mine())

`--adapter "cmd:python mine.py"` runs the program. docs/WRITING-ADAPTERS.md tells of the lines, with which a
class has nothing to do: its handles are whatever its methods return.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import json_util

from harness.adapters.base import (
    LOG_MESSAGE,
    SPAN,
    ClientSpec,
    EntityKind,
    ErrorReport,
    Feature,
    Handle,
    OperationFailed,
    SessionState,
    TopologyReport,
    UnsupportedOperation,
)
from harness.adapters.lines import PROTOCOL, error_document

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TextIO

Tell: TypeAlias = Callable[[str, Mapping[str, Any]], None]
"""Tells of an event by its name in the specifications, and its fields."""

CREATING: Final = frozenset(
    {"createChangeStream", "createCollection", "createCommandCursor", "createFindCursor"}
)
"""The operations whose result is an entity."""

_READ: Final[json_util.JSONOptions] = json_util.JSONOptions(tz_aware=False, tzinfo=None)


class PythonAdapter:
    """One driver. What a subclass does not define is unsupported.

    Each request has a thread of its own, so methods may block. An error of the driver may leave any of them:
    `report` says what it means.
    """

    name: str = ""
    features: frozenset[Feature] = frozenset()
    edition: str = ""

    def create_client(self, spec: ClientSpec, tell: Tell) -> Handle:
        """Return a new client, which tells what it observes by `tell(kind, fields)`, from any thread.

        Of what it tells, only the kinds that `spec` asks for reach the runner.
        """
        del spec, tell
        raise UnsupportedOperation("no clients")

    def create(self, kind: EntityKind, parent: Handle, spec: Mapping[str, Any]) -> Handle:
        """Return a new entity below `parent`; `spec` is its document in the scenario."""
        del parent, spec
        raise UnsupportedOperation(f"no entity {kind.value}")

    def call(self, handle: Handle, kind: EntityKind, operation: str, arguments: dict[str, Any]) -> Any:
        """Return an operation's result in the form of `expectResult`, or the entity that it creates.

        `session` among the arguments is a session's handle. `callback` is a function of no arguments, which
        raises what the driver itself raised inside.
        """
        del handle, arguments
        raise UnsupportedOperation(f"no {operation} on a {kind.value}")

    def report(self, error: Exception) -> ErrorReport | None:
        """Return what an error of the driver says, or None for one that is this program's own mistake."""
        del error
        return None

    def session_state(self, session: Handle) -> SessionState:
        """Return what the driver says of a session."""
        del session
        raise UnsupportedOperation("no states of sessions")

    def advance_cluster_time(self, session: Handle, cluster_time: Mapping[str, Any]) -> None:
        """Advance a session's cluster time."""
        del session, cluster_time
        raise UnsupportedOperation("no cluster times")

    def topology(self, client: Handle) -> TopologyReport:
        """Return what a client knows of its deployment."""
        del client
        raise UnsupportedOperation("no view of the topology")

    def close_client(self, client: Handle) -> None:
        """Close a client; closing twice is no error."""


def snake(name: str) -> str:
    """Return a name of the format (`maxTimeMS`) as Python drivers spell it (`max_time_ms`)."""
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name.replace("MS", "Ms"))


def camel(name: str) -> str:
    """Return a name of Python (`upserted_id`) in the format's spelling (`upsertedId`)."""
    return re.sub("_([a-z])", lambda letter: letter[1].upper(), name)


class CallbackFailed(Exception):  # noqa: N818 - what became of the callback
    """The callback of a transaction failed by itself, without an error of the driver."""


def serve(adapter: PythonAdapter, requests: Iterable[str] | None = None) -> None:
    """Answer requests, a line each, until they end; by default those of standard input.

    Answers go to standard output, and what the driver prints to standard error. A mistake of the adapter's
    own ends the process with a traceback, which the runner shows.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server = _Server(adapter, answers)
    for line in sys.stdin if requests is None else requests:
        request = json_util.loads(line, json_options=_READ)
        threading.Thread(target=server.serve, args=(request,), daemon=True).start()


class _Server:
    """The entities of one process, by the requests that created them."""

    def __init__(self, adapter: PythonAdapter, answers: TextIO) -> None:
        self._adapter = adapter
        self._answers = answers
        self._writing = threading.Lock()
        self._entities: dict[int, Handle] = {}
        self._clients: dict[int, Handle] = {}
        self._errors: dict[int, Exception] = {}
        self._returns: dict[int, Future[Mapping[str, Any]]] = {}

    def tell(self, document: Mapping[str, Any]) -> None:
        line = json_util.dumps(document, json_options=json_util.CANONICAL_JSON_OPTIONS)
        with self._writing:
            self._answers.write(line + "\n")
            self._answers.flush()

    def serve(self, request: Mapping[str, Any]) -> None:
        """Answer one request."""
        number = request["id"]
        method = _METHODS.get(request["method"], _Server.unknown)
        try:
            answer = method(self, number, request.get("on", 0), request.get("params", {}))
        except UnsupportedOperation as reason:
            answer = {"unsupported": str(reason)}
        except Exception as error:  # noqa: BLE001 - the driver's, or the end
            answer = {"error": error_document(self._reported(error))}
            self._errors[number] = error
        self.tell({"id": number, **answer})

    def _reported(self, error: Exception) -> ErrorReport:
        if isinstance(error, CallbackFailed):
            return ErrorReport(str(error), is_client_error=True)
        report = error.report if isinstance(error, OperationFailed) else self._adapter.report(error)
        if report is None:
            traceback.print_exception(error)
            sys.stderr.flush()
            os._exit(1)  # this thread is not the one that can end the program
        return report

    def unknown(self, _number: int, _on: int, _params: Any) -> dict[str, Any]:
        """Refuse a method that has joined the protocol since."""
        raise UnsupportedOperation("no such method")

    def hello(self, _number: int, _on: int, _params: Any) -> dict[str, Any]:
        features = sorted(feature.name for feature in self._adapter.features)
        said = {"protocol": PROTOCOL, "name": self._adapter.name, "features": features}
        return {"result": said | ({"edition": self._adapter.edition} if self._adapter.edition else {})}

    def client(self, number: int, _on: int, params: Any) -> dict[str, Any]:
        spec = ClientSpec(
            params["uri"],
            params["options"],
            frozenset(params["observeEvents"]),
            frozenset(params["observeLogs"]),
            params["observeSpans"],
            params["serverApi"],
        )

        wanted = {*spec.observe_events, LOG_MESSAGE, SPAN}

        def tell(kind: str, fields: Mapping[str, Any]) -> None:
            if kind in wanted:
                self.tell({"event": {"client": number, "kind": kind, "fields": fields}})

        self._clients[number] = self._adapter.create_client(spec, tell)
        return self._keep(number, self._clients[number])

    def create(self, number: int, on: int, params: Any) -> dict[str, Any]:
        kind = EntityKind(params["kind"])
        return self._keep(number, self._adapter.create(kind, self._entities[on], params["spec"]))

    def call(self, number: int, on: int, params: Any) -> dict[str, Any]:
        given, operation = params["arguments"], params["operation"]
        if "session" in given:
            given["session"] = self._entities[given["session"]]
        if "callback" in given:
            given["callback"] = lambda: self._call_back(number)
        result = self._adapter.call(self._entities[on], EntityKind(params["kind"]), operation, given)
        return self._keep(number, result) if operation in CREATING else {"result": result}

    def _keep(self, number: int, entity: Handle) -> dict[str, Any]:
        self._entities[number] = entity
        return {"entity": True}

    def _call_back(self, call: int) -> None:
        """Let the runner run a callback, and wait here until it has."""
        returned = self._returns[call] = Future()
        self.tell({"callback": call})
        outcome = returned.result()
        if "error" in outcome:
            raise self._errors.get(outcome["error"], CallbackFailed("the scenario failed"))

    def returned(self, _number: int, on: int, params: Any) -> dict[str, Any]:
        self._returns.pop(on).set_result(params)
        return {"result": None}

    def session(self, _number: int, on: int, _params: Any) -> dict[str, Any]:
        state = self._adapter.session_state(self._entities[on])
        names = ("lsid", "dirty", "pinned", "transaction")
        return {"result": {name: getattr(state, name) for name in names}}

    def advance_cluster_time(self, _number: int, on: int, params: Any) -> dict[str, Any]:
        self._adapter.advance_cluster_time(self._entities[on], params["clusterTime"])
        return {"result": None}

    def topology(self, _number: int, on: int, _params: Any) -> dict[str, Any]:
        report = self._adapter.topology(self._entities[on])
        return {"result": {"type": report.type, "primary": report.primary}}

    def close_client(self, _number: int, on: int, _params: Any) -> dict[str, Any]:
        self._adapter.close_client(self._entities[on])
        return {"result": None}

    def close(self, _number: int, _on: int, _params: Any) -> dict[str, Any]:
        for client in self._clients.values():
            self._adapter.close_client(client)
        for kept in (self._clients, self._entities, self._errors, self._returns):
            kept.clear()
        return {"result": None}


_METHODS: Final[Mapping[str, Callable[[_Server, int, int, Any], dict[str, Any]]]] = {
    "hello": _Server.hello,
    "client": _Server.client,
    "create": _Server.create,
    "call": _Server.call,
    "return": _Server.returned,
    "session": _Server.session,
    "advanceClusterTime": _Server.advance_cluster_time,
    "topology": _Server.topology,
    "closeClient": _Server.close_client,
    "close": _Server.close,
}

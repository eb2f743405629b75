"""An adapter in Python: a class of a few methods, and the loop by which a runner speaks to it.

    class Mine(PythonAdapter):
        name = "mine"
        features = frozenset({Feature.COMMAND_EVENTS})

        def create_client(self, spec, publish):
            return Client(spec.uri, on_event=lambda event: publish("commandStartedEvent", {...}))

        def call(self, invocation): ...

    serve(Mine())

`--adapter "cmd:python mine.py"` runs the program. docs/WRITING-ADAPTERS.md tells of the lines, with which a
class has nothing to do: its handles are whatever its methods return.

Each request has a thread, because a scenario may have several operations under way, and one of them may be
waiting for the callback that the next request belongs to. Two locks keep the output whole: one for lines, one
that makes the order of events in the output that of their times.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
import traceback
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Protocol

from bson import json_util

from harness.adapters.base import (
    LOG_MESSAGE,
    SPAN,
    ClientSpec,
    EntityKind,
    ErrorReport,
    Feature,
    Handle,
    Invocation,
    OperationFailed,
    PoolSpec,
    SessionState,
    TopologyReport,
    UnsupportedOperation,
)
from harness.adapters.lines import PROTOCOL, error_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TextIO


class PublishEvent(Protocol):
    """Reports an event by its name in the specifications, and its fields, as soon as it happens."""

    def __call__(self, kind: str, fields: Mapping[str, Any], *, at: float | None = None) -> None:
        """Report an event; one that is reported later gives `at`, by `time.monotonic`."""


CREATING: Final = frozenset(
    {"checkOut", "createChangeStream", "createCollection", "createCommandCursor", "createFindCursor"}
)
"""The operations whose result is an entity."""

_READ: Final[json_util.JSONOptions] = json_util.JSONOptions(tz_aware=False, tzinfo=None)


class PythonAdapter:
    """One driver. What a subclass does not define is unsupported.

    Each request has a thread of its own, so methods may block. An error of the driver may leave any of them:
    `report` says what it means.
    """

    name: str = ""
    driver: tuple[str, str] | None = None
    """The name and the version that the driver gives to servers."""
    features: frozenset[Feature] = frozenset()
    edition: str = ""

    def create_client(self, spec: ClientSpec, publish: PublishEvent) -> Handle:
        """Return a new client, which reports what it observes by `publish(kind, fields)`, from any thread.

        Of these, only the kinds that `spec` asks for reach the runner.
        """
        raise UnsupportedOperation("no clients")

    def create_pool(self, spec: PoolSpec, publish: PublishEvent) -> Handle:
        """Return a new connection pool, which reports all its events by `publish(kind, fields)`.

        `call` runs its operations: `ready`, `clear`, `close`, `checkOut`, which returns a connection, and
        `checkIn`, whose argument `connection` is one.
        """
        raise UnsupportedOperation("no pools")

    def create(self, kind: EntityKind, parent: Handle, spec: Mapping[str, Any]) -> Handle:
        """Return a new entity below `parent`; `spec` is its document in the scenario."""
        raise UnsupportedOperation(f"no entity {kind.value}")

    def call(self, invocation: Invocation[Handle]) -> Any:
        """Return an operation's result in the form of `expectResult`, or the entity that it creates.

        `session` among the arguments is a session's handle. `callback` is a function of no arguments, which
        raises what the driver itself raised inside.
        """
        raise UnsupportedOperation(f"no {invocation.operation} on a {invocation.kind.value}")

    def report(self, error: Exception) -> ErrorReport | None:
        """Return what an error of the driver says, or None for one that is this program's own mistake."""
        return None

    def session_state(self, session: Handle) -> SessionState:
        """Return what the driver says of a session."""
        raise UnsupportedOperation("no states of sessions")

    def advance_cluster_time(self, session: Handle, cluster_time: Mapping[str, Any]) -> None:
        """Advance a session's cluster time."""
        raise UnsupportedOperation("no cluster times")

    def topology(self, client: Handle) -> TopologyReport:
        """Return what a client knows of its deployment."""
        raise UnsupportedOperation("no view of the topology")

    def retry_tokens(self, client: Handle) -> float | None:
        """Return the tokens in a client's retry token bucket, None where it has no bucket."""
        raise UnsupportedOperation("no retry tokens")

    def close_client(self, client: Handle) -> None:
        """Close a client; closing twice is no error."""

    def close_pool(self, pool: Handle) -> None:
        """Close a pool for good, with the connections that are checked out."""


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
    # Descriptors and not `sys.stdout`: a driver's extension in C prints to descriptor 1 without asking
    # Python.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server = _EntityServer(adapter, answers)
    for line in sys.stdin if requests is None else requests:
        request = json_util.loads(line, json_options=_READ)
        threading.Thread(target=server.serve, args=(request,), daemon=True).start()


class _EntityServer:
    """The entities of one process, by the requests that created them."""

    def __init__(self, adapter: PythonAdapter, answers: TextIO) -> None:
        self._adapter = adapter
        self._answers = answers
        self._writing = threading.Lock()
        self._publishing = threading.Lock()
        self._entities: dict[int, Handle] = {}
        self._clients: dict[int, Handle] = {}
        self._pools: list[Handle] = []
        self._errors: dict[int, Exception] = {}
        self._returns: dict[int, Future[Mapping[str, Any]]] = {}

    def publish(self, client: int, kind: str, fields: Mapping[str, Any], at: float | None) -> None:
        """Send an event with its time, by default that of now; events of several threads stay in order."""
        with self._publishing:
            at = time.monotonic() if at is None else at
            self.send({"event": {"client": client, "kind": kind, "at": at, "fields": fields}})

    def send(self, document: Mapping[str, Any]) -> None:
        line = json_util.dumps(document, json_options=json_util.CANONICAL_JSON_OPTIONS)
        with self._writing:
            self._answers.write(line + "\n")
            self._answers.flush()

    def serve(self, request: Mapping[str, Any]) -> None:
        """Answer one request."""
        number = request["id"]
        method = _METHODS.get(request["method"], _EntityServer.unknown)
        try:
            answer = method(self, number, request.get("on", 0), request.get("params", {}))
        except UnsupportedOperation as reason:
            answer = {"unsupported": str(reason)}
        except Exception as error:  # noqa: BLE001 - the driver's, or the end
            answer = {"error": error_document(self._reported(error))}
            self._errors[number] = error
        self.send({"id": number, "clock": time.monotonic(), **answer})

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
        if self._adapter.driver is not None:
            said["driver"] = dict(zip(("name", "version"), self._adapter.driver, strict=True))
        if self._adapter.edition:
            said["edition"] = self._adapter.edition
        return {"result": said}

    def client(self, number: int, _on: int, params: Any) -> dict[str, Any]:
        spec = ClientSpec(
            params["uri"],
            params["options"],
            frozenset(params["observeEvents"]),
            frozenset(params["observeLogs"]),
            params["observeSpans"],
            params["serverApi"],
            jitter=params.get("jitter"),
            jitter_seed=params.get("jitterSeed"),
        )

        # Log messages and spans have one kind each, and are asked for by other fields of `spec`.
        wanted = {*spec.observe_events, LOG_MESSAGE, SPAN}

        def publish(kind: str, fields: Mapping[str, Any], *, at: float | None = None) -> None:
            if kind in wanted:
                self.publish(number, kind, fields, at)

        self._clients[number] = self._adapter.create_client(spec, publish)
        return self._keep(number, self._clients[number])

    def pool(self, number: int, _on: int, params: Any) -> dict[str, Any]:
        interval = params["backgroundThreadIntervalMS"]
        spec = PoolSpec(params["uri"], params["options"], None if interval is None else interval / 1000)

        def publish(kind: str, fields: Mapping[str, Any], *, at: float | None = None) -> None:
            self.publish(number, kind, fields, at)

        pool = self._adapter.create_pool(spec, publish)
        self._pools.append(pool)
        return self._keep(number, pool)

    def create(self, number: int, on: int, params: Any) -> dict[str, Any]:
        kind = _kind(params["kind"])
        return self._keep(number, self._adapter.create(kind, self._entities[on], params["spec"]))

    def call(self, number: int, on: int, params: Any) -> dict[str, Any]:
        arguments, operation = params["arguments"], params["operation"]
        # These two arguments are entities, which the line names by the requests that created them.
        for name in ("session", "connection"):
            if name in arguments:
                arguments[name] = self._entities[arguments[name]]
        if "callback" in arguments:
            arguments["callback"] = lambda: self._call_back(number)
        kind = _kind(params["kind"])
        result = self._adapter.call(Invocation(self._entities[on], kind, operation, arguments))
        return self._keep(number, result) if operation in CREATING else {"result": result}

    def _keep(self, number: int, entity: Handle) -> dict[str, Any]:
        self._entities[number] = entity
        return {"entity": True}

    def _call_back(self, call: int) -> None:
        """Let the runner run a callback, and wait here until it has."""
        returned = self._returns[call] = Future()
        self.send({"callback": call})
        outcome = returned.result()
        if "error" in outcome:
            raise self._errors.get(outcome["error"], CallbackFailed("the scenario failed"))

    def returned(self, _number: int, on: int, params: Any) -> dict[str, Any]:
        # Wakes the thread in `_call_back`; the answer to `return` need not wait for the driver's next step.
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

    def retry_tokens(self, _number: int, on: int, _params: Any) -> dict[str, Any]:
        return {"result": self._adapter.retry_tokens(self._entities[on])}

    def close_client(self, _number: int, on: int, _params: Any) -> dict[str, Any]:
        self._adapter.close_client(self._entities[on])
        return {"result": None}

    def close(self, _number: int, _on: int, _params: Any) -> dict[str, Any]:
        for client in self._clients.values():
            self._adapter.close_client(client)
        for pool in self._pools:
            self._adapter.close_pool(pool)
        # The process goes on with the next case: whatever stays here would stay for the rest of the run.
        for kept in (self._clients, self._pools, self._entities, self._errors, self._returns):
            kept.clear()
        return {"result": None}


def _kind(name: str) -> EntityKind:
    """Return a kind of entity. Raises `UnsupportedOperation` for one that has joined the protocol since."""
    try:
        return EntityKind(name)
    except ValueError:
        raise UnsupportedOperation(f"no entity {name}") from None


_METHODS: Final[Mapping[str, Callable[[_EntityServer, int, int, Any], dict[str, Any]]]] = {
    "hello": _EntityServer.hello,
    "client": _EntityServer.client,
    "pool": _EntityServer.pool,
    "create": _EntityServer.create,
    "call": _EntityServer.call,
    "return": _EntityServer.returned,
    "session": _EntityServer.session,
    "advanceClusterTime": _EntityServer.advance_cluster_time,
    "topology": _EntityServer.topology,
    "retryTokens": _EntityServer.retry_tokens,
    "closeClient": _EntityServer.close_client,
    "close": _EntityServer.close,
}

"""An adapter's process for tests: one of our own adapters (by name), spoken to in lines.

With a second argument, the process is one that fails: see `MISHAPS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TextIO

from bson import json_util

from harness.adapters import make_adapter
from harness.adapters.base import (
    ClientSpec,
    EntityKind,
    ErrorReport,
    Feature,
    OperationFailed,
    UnsupportedOperation,
)
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIONS = json_util.JSONOptions(tz_aware=False, tzinfo=None)


class Server:
    """Answers requests through an adapter. What a client has observed is told before the next answer."""

    def __init__(self, adapter: Any, out: TextIO) -> None:
        self.adapter = adapter
        self.out = out
        self.entities: dict[int, Any] = {}
        self.told: dict[int, int] = {}
        self.errors: dict[int, OperationFailed] = {}
        self.callbacks: dict[int, asyncio.Future[dict[str, Any]]] = {}

    def tell(self, document: dict[str, Any]) -> None:
        self.out.write(json_util.dumps(document, json_options=json_util.CANONICAL_JSON_OPTIONS) + "\n")
        self.out.flush()

    async def serve(self, request: dict[str, Any]) -> None:
        number = request["id"]
        answer: dict[str, Any]
        try:
            method = getattr(self, request["method"])
            answer = await method(number, request.get("on"), request.get("params", {}))
        except OperationFailed as failed:
            self.errors[number] = failed
            answer = {"error": spoken(failed)}
        except UnsupportedOperation as reason:
            answer = {"unsupported": str(reason)}
        self.tell_events()
        self.tell({"id": number, **answer})

    def tell_events(self) -> None:
        for client in self.told:
            events = self.adapter.events(self.entities[client])
            for event in events[self.told[client] :]:
                self.tell({"event": {"client": client, "kind": event.kind, "fields": event.fields}})
            self.told[client] = len(events)

    def keep(self, number: int, entity: Any) -> dict[str, Any]:
        self.entities[number] = entity
        return {"entity": True}

    async def hello(self, _number: int, _on: Any, _params: Any) -> dict[str, Any]:
        features = sorted(
            feature.name for feature in self.adapter.features if feature is not Feature.VIRTUAL_TIME
        )
        return {"result": {"protocol": 1, "name": "child", "features": features}}

    async def client(self, number: int, _on: Any, params: Any) -> dict[str, Any]:
        observed, logs = frozenset(params["observeEvents"]), frozenset(params["observeLogs"])
        spec = ClientSpec(params["uri"], params["options"], observed, logs, params["serverApi"])
        self.keep(number, await self.adapter.create_client(spec))
        self.told[number] = 0
        return {"entity": True}

    async def create(self, number: int, on: int, params: Any) -> dict[str, Any]:
        kind = EntityKind(params["kind"])
        return self.keep(number, await self.adapter.create(kind, self.entities[on], params["spec"]))

    async def call(self, number: int, on: int, params: Any) -> dict[str, Any]:
        given = params["arguments"]
        if "session" in given:
            given["session"] = self.entities[given["session"]]
        if "callback" in given:
            given["callback"] = lambda: self.called_back(number)
        kind, operation = EntityKind(params["kind"]), params["operation"]
        result = await self.adapter.call(self.entities[on], kind, operation, given)
        if operation.startswith("create") and operation not in ("createIndex", "createIndexes"):
            return self.keep(number, result)
        return {"result": result}

    async def called_back(self, number: int) -> None:
        self.callbacks[number] = asyncio.get_running_loop().create_future()
        self.tell({"callback": number})
        outcome = await self.callbacks[number]
        if "error" in outcome:
            ours = OperationFailed(ErrorReport("the scenario failed", is_client_error=True))
            raise self.errors.get(outcome["error"], ours)

    async def returned(self, _number: int, on: int, params: Any) -> dict[str, Any]:
        self.callbacks[on].set_result(params)
        return {"result": None}

    async def session(self, _number: int, on: int, _params: Any) -> dict[str, Any]:
        state = await self.adapter.session_state(self.entities[on])
        names = ("lsid", "dirty", "pinned", "transaction")
        return {"result": {name: getattr(state, name) for name in names}}

    async def advanceClusterTime(self, _number: int, on: int, params: Any) -> dict[str, Any]:  # noqa: N802 - the protocol's name
        await self.adapter.advance_cluster_time(self.entities[on], params["clusterTime"])
        return {"result": None}

    async def topology(self, _number: int, on: int, _params: Any) -> dict[str, Any]:
        report = await self.adapter.topology(self.entities[on])
        return {"result": {"type": report.type, "primary": report.primary}}

    async def closeClient(self, _number: int, on: int, _params: Any) -> dict[str, Any]:  # noqa: N802 - the protocol's name
        await self.adapter.close_client(self.entities[on])
        return {"result": None}

    async def close(self, _number: int, _on: Any, _params: Any) -> dict[str, Any]:
        await self.adapter.aclose()
        self.tell_events()
        self.told.clear()
        self.entities.clear()
        return {"result": None}


setattr(Server, "return", Server.returned)


def spoken(failed: OperationFailed) -> dict[str, Any]:
    report = failed.report
    return {
        "message": report.message,
        "isClientError": report.is_client_error,
        "isTimeoutError": report.is_timeout_error,
        "code": report.code,
        "codeName": report.code_name,
        "labels": sorted(report.labels),
        "response": report.response,
        "result": report.result,
        "writeErrors": {str(index): one for index, one in (report.write_errors or {}).items()},
        "writeConcernErrors": report.write_concern_errors,
    }


def _write(line: str, out: TextIO) -> None:
    out.write(line + "\n")
    out.flush()


def _hang(_out: TextIO) -> None:
    threading.Event().wait()


def _hang_and_say_so(_out: TextIO) -> None:
    with open(f"{sys.argv[3]}.hung", "w") as hung:  # noqa: PTH123 - it may be a pipe
        hung.write("hung")
    threading.Event().wait()


def _die(_out: TextIO) -> None:
    print("the last words", file=sys.stderr, flush=True)  # noqa: T201 - that is the mishap
    os.kill(os.getpid(), signal.SIGKILL)


def _leave(_out: TextIO) -> None:
    sys.exit(3)


def _close_output(out: TextIO) -> None:
    out.flush()
    os.close(1)
    threading.Event().wait()


MISHAPS: dict[str, Callable[[TextIO], None]] = {
    "babbles": partial(_write, "Segmentation fault (core dumped)"),
    "hangs": _hang,
    "hangs and says so": _hang_and_say_so,
    "dies": _die,
    "leaves": _leave,
    "closes its output": _close_output,
    "answers what nobody asked": partial(_write, '{"id": 999, "result": null}'),
    "omits a part": partial(_write, '{"event": {"kind": "commandStartedEvent"}}'),
    "writes without end": lambda out: _write("x" * (65 << 20), out),
}
"""What befalls a process when it is asked for `insertOne` the first time that any process is."""


def mishap_due(request: dict[str, Any], once: str) -> bool:
    """Return whether the mishap's time has come; the file `once` remembers that it was there."""
    if request.get("params", {}).get("operation") != "insertOne":
        return False
    try:
        with open(once, "x"):  # noqa: PTH123 - mode x is what is wanted
            return True
    except FileExistsError:
        return False


async def main(name: str, mishap: str = "", once: str = "") -> None:
    """Serve until the input ends."""
    deployment: Any = SimpleNamespace(clock=SystemClock(), network=None)
    server = Server(make_adapter(name, deployment), sys.stdout)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with asyncio.TaskGroup() as tasks:
        async for line in reader:
            if mishap and mishap_due(json.loads(line), once):
                MISHAPS[mishap](sys.stdout)
            tasks.create_task(server.serve(json_util.loads(line, json_options=OPTIONS)))
    await server.adapter.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

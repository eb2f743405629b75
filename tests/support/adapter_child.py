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
from collections import Counter
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TextIO

from harness.adapters import make_adapter
from harness.adapters.base import ClientSpec, EntityKind, Feature, Handle, SessionState, TopologyReport
from harness.adapters.serving import PythonAdapter, Tell, serve
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping


class Bridge(PythonAdapter):
    """One of our own adapters, on a loop of its own. What a client observed is told after each request."""

    name = "child"

    def __init__(self, name: str) -> None:
        deployment: Any = SimpleNamespace(clock=SystemClock(), network=None)
        self.adapter = make_adapter(name, deployment)
        self.features = self.adapter.features - {Feature.VIRTUAL_TIME}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.tellers: dict[int, tuple[Handle, Tell]] = {}
        self.told: Counter[int] = Counter()

    def create_client(self, spec: ClientSpec, tell: Tell) -> Handle:
        client = self.run(self.adapter.create_client(spec))
        self.tellers[id(client)] = client, tell
        return client

    def create(self, kind: EntityKind, parent: Handle, spec: Mapping[str, Any]) -> Handle:
        return self.run(self.adapter.create(kind, parent, spec))

    def call(self, handle: Handle, kind: EntityKind, operation: str, arguments: dict[str, Any]) -> Any:
        if "callback" in arguments:
            arguments["callback"] = partial(asyncio.to_thread, arguments["callback"])
        return self.run(self.adapter.call(handle, kind, operation, arguments))

    def session_state(self, session: Handle) -> SessionState:
        state: SessionState = self.run(self.adapter.session_state(session))
        return state

    def advance_cluster_time(self, session: Handle, cluster_time: Mapping[str, Any]) -> None:
        self.run(self.adapter.advance_cluster_time(session, cluster_time))

    def topology(self, client: Handle) -> TopologyReport:
        report: TopologyReport = self.run(self.adapter.topology(client))
        return report

    def close_client(self, client: Handle) -> None:
        self.run(self.adapter.close_client(client))
        self.tellers.pop(id(client), None)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return asyncio.run_coroutine_threadsafe(work, self.loop).result()
        finally:
            asyncio.run_coroutine_threadsafe(self.tell_events(), self.loop).result()

    async def tell_events(self) -> None:
        for number, (client, tell) in self.tellers.items():
            events = self.adapter.events(client)
            for event in events[self.told[number] :]:
                tell(event.kind, event.fields)
            self.told[number] = len(events)


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
    os.closerange(3, 64)  # whatever may hold it
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


def befalling(lines: Iterable[str], mishap: str, once: str, out: TextIO) -> Iterator[str]:
    """Pass on lines, until the mishap is due."""
    for line in lines:
        if mishap_due(json.loads(line), once):
            MISHAPS[mishap](out)
        yield line


def main(name: str, mishap: str = "", once: str = "") -> None:
    """Serve until the input ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    serve(Bridge(name), befalling(sys.stdin, mishap, once, out) if mishap else None)


if __name__ == "__main__":
    main(*sys.argv[1:])

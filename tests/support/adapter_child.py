"""An adapter's process for tests: one of our own adapters (by name), spoken to in lines.

With a second argument, the process is one that fails: see `MISHAPS`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO

from harness.adapters import make_adapter
from harness.adapters.base import (
    ClientSpec,
    EntityKind,
    Feature,
    Handle,
    Invocation,
    PoolSpec,
    SessionState,
    TopologyReport,
)
from harness.adapters.serving import PublishEvent, PythonAdapter, serve
from mongowire.system import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping


class Bridge(PythonAdapter):
    """One of our own adapters, on a loop of its own. What a client observed is told after each request."""

    name = "child"

    def __init__(self, name: str) -> None:
        deployment: Any = SimpleNamespace(clock=SystemClock(), network=None, server_version=())
        self.adapter = make_adapter(name, deployment)
        self.features = self.adapter.features - {Feature.VIRTUAL_TIME}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.tellers: dict[int, tuple[Handle, PublishEvent]] = {}
        self.told: Counter[int] = Counter()

    def create_client(self, spec: ClientSpec, publish: PublishEvent) -> Handle:
        client = self.run(self.adapter.create_client(spec))
        self.tellers[id(client)] = client, publish
        return client

    def create_pool(self, spec: PoolSpec, publish: PublishEvent) -> Handle:
        pool = self.run(self.adapter.create_pool(spec))
        self.tellers[id(pool)] = pool, publish
        return pool

    def create(self, kind: EntityKind, parent: Handle, spec: Mapping[str, Any]) -> Handle:
        return self.run(self.adapter.create(kind, parent, spec))

    def call(self, invocation: Invocation[Handle]) -> Any:
        arguments = dict(invocation.arguments)
        if "callback" in arguments:
            arguments["callback"] = partial(asyncio.to_thread, arguments["callback"])
        return self.run(self.adapter.call(replace(invocation, arguments=arguments)))

    def session_state(self, session: Handle) -> SessionState:
        state: SessionState = self.run(self.adapter.session_state(session))
        return state

    def advance_cluster_time(self, session: Handle, cluster_time: Mapping[str, Any]) -> None:
        self.run(self.adapter.advance_cluster_time(session, cluster_time))

    def topology(self, client: Handle) -> TopologyReport:
        report: TopologyReport = self.run(self.adapter.topology(client))
        return report

    def retry_tokens(self, client: Handle) -> float | None:
        tokens: float | None = self.run(self.adapter.retry_tokens(client))
        return tokens

    def close_client(self, client: Handle) -> None:
        self.run(self.adapter.close_client(client))
        self.tellers.pop(id(client), None)

    def close_pool(self, pool: Handle) -> None:
        del self.tellers[id(pool)]
        if not self.tellers:  # the adapter closes all pools at once
            self.run(self.adapter.aclose())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return asyncio.run_coroutine_threadsafe(work, self.loop).result()
        finally:
            asyncio.run_coroutine_threadsafe(self.tell_events(), self.loop).result()

    async def tell_events(self) -> None:
        for number, (client, publish) in self.tellers.items():
            events = self.adapter.events(client)
            for event in events[self.told[number] :]:
                publish(event.kind, event.fields, at=event.at)
            self.told[number] = len(events)


def _wait() -> None:
    threading.Event().wait()


def _say(line: str | bytes, out: BinaryIO) -> None:
    out.write(line.encode() + b"\n" if isinstance(line, str) else line)
    out.flush()


def _hang(_out: BinaryIO) -> None:
    _wait()


def _hang_and_say_so(_out: BinaryIO) -> None:
    with open(f"{sys.argv[3]}.hung", "w") as hung:  # noqa: PTH123 - it may be a pipe
        hung.write("hung")
    _wait()


def _hang_with_a_child(out: BinaryIO) -> None:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[3]])
    _hang(out)


def _leave_a_child_with_the_output(out: BinaryIO) -> None:
    """The child has left the group of its parent, and keeps the output open until the input ends."""
    reader = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    subprocess.Popen(reader, pass_fds=[out.fileno()], start_new_session=True)
    os._exit(5)


def _complain_without_end(_out: BinaryIO) -> None:
    while True:
        os.write(2, b"!" * 65536)


def _die(_out: BinaryIO) -> None:
    print("the last words", file=sys.stderr, flush=True)  # noqa: T201 - that is the mishap
    os.kill(os.getpid(), signal.SIGKILL)


def _leave(_out: BinaryIO) -> None:
    sys.exit(3)


def _leave_within_a_line(out: BinaryIO) -> None:
    _say(b'{"id": 5, "resu', out)
    os._exit(0)


def _close_output(out: BinaryIO) -> None:
    out.flush()
    os.closerange(3, 64)  # whatever may hold it
    _wait()


MISHAPS: dict[str, Callable[[BinaryIO], None]] = {
    "babbles": partial(_say, "Segmentation fault (core dumped)"),
    "writes no text": partial(_say, b"\xff\xfe\x00\n"),
    "writes an impossible date": partial(_say, '{"id": 1, "result": {"$date": {"$numberLong": "1e99"}}}'),
    "leaves within a line": _leave_within_a_line,
    "hangs": _hang,
    "hangs and says so": _hang_and_say_so,
    "hangs with a child": _hang_with_a_child,
    "complains without end": _complain_without_end,
    "dies": _die,
    "leaves": _leave,
    "closes its output": _close_output,
    "leaves a child with its output": _leave_a_child_with_the_output,
    "answers what nobody asked": partial(_say, '{"id": 999, "result": null}'),
    "answers twice": partial(_say, '{"id": 2, "result": null}'),
    "omits a part": partial(_say, '{"event": {"kind": "commandStartedEvent"}}'),
    "calls a truth a text": partial(_say, '{"id": 5, "error": {"message": "no", "isClientError": "yes"}}'),
    "writes without end": lambda out: _say("x" * (65 << 20), out),
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


def befalling(lines: Iterable[str], mishap: str, once: str, out: BinaryIO) -> Iterator[str]:
    """Pass on lines, until the mishap is due."""
    for line in lines:
        if mishap_due(json.loads(line), once):
            MISHAPS[mishap](out)
        yield line


def main(name: str, mishap: str = "", once: str = "") -> None:
    """Serve until the input ends."""
    out = os.fdopen(os.dup(1), "wb")
    serve(Bridge(name), befalling(sys.stdin, mishap, once, out) if mishap else None)


if __name__ == "__main__":
    main(*sys.argv[1:])

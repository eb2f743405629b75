"""An adapter's process for tests: one of our own adapters (by name), spoken to in lines."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

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
    from collections.abc import Coroutine, Mapping


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


if __name__ == "__main__":
    serve(Bridge(sys.argv[1]))

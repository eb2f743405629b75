"""A fake server in a thread of its own, for clients that block."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import fakeserver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.deployment.cluster import Cluster

_PATIENCE = 10.0


class ThreadedServer:
    """Where the server is, and what its event loop had to report."""

    def __init__(self, spec: fakeserver.ClusterSpec) -> None:
        self._spec = spec
        self._ready = threading.Event()
        self._stop: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
        self.cluster: Cluster
        """Its own thread's: read it when nothing happens there any more."""
        self.address = ("127.0.0.1", 0)
        self.reports: list[dict[str, Any]] = []

    def connect(self) -> socket.socket:
        """Return a new connection that gives up after some seconds."""
        sock = socket.create_connection(self.address, _PATIENCE)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(lambda _, context: self.reports.append(context))
        async with fakeserver.start(self._spec) as cluster:
            self.cluster = cluster
            self.address = ("127.0.0.1", int(cluster.nodes[0].address.rpartition(":")[2]))
            self._ready.set()
            await self._stop.wait()

    def await_ready(self) -> None:
        assert self._ready.wait(_PATIENCE), "the server does not start"

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)


@contextmanager
def serving(spec: fakeserver.ClusterSpec) -> Iterator[ThreadedServer]:
    server = ThreadedServer(spec)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    server.await_ready()
    try:
        yield server
    finally:
        server.stop()
        thread.join(_PATIENCE)
        assert not thread.is_alive(), "the server does not stop"

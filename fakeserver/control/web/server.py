"""The HTTP server of a deployment, on the deployment's own loop.

Verbs must act at once, whatever the deployment does with the requests of its clients. So the listener is
uvicorn's, beside the servers' own: none of their stages sees a request of it. Uvicorn's main loop is not
used: it would install signal handlers, and wake ten times a second.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from typing import TYPE_CHECKING, Final

import uvicorn

from fakeserver.control.web.application import application
from fakeserver.control.web.guard import Guard
from fakeserver.control.web.journal import Follower
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from fakeserver.deployment.cluster import Cluster

HOST: Final = "127.0.0.1"
_TOKEN_BYTES: Final = 24
_PATIENCE_SECONDS: Final = 1


class WebServer:
    """A door that listens (`fakeserver.deployment.served.Served`)."""

    def __init__(self, address: str, token: str, task: asyncio.Task[None]) -> None:
        self.url = f"http://{address}"
        self.token = token
        self._task = task

    def __repr__(self) -> str:
        return f"<Server {self.url}>"

    @property
    def page(self) -> str:
        """The address of the page with the token, in the fragment: no log holds it."""
        return f"{self.url}/#token={self.token}"

    async def aclose(self) -> None:
        """Stop listening, and return when every connection has ended."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def start(cluster: Cluster, port: int, token: str | None) -> WebServer:
    """Listen, and return the server. Raises `OSError`, and `ControlError` for one in virtual time."""
    if not cluster.clock.is_real:
        raise ControlError("a deployment in virtual time has no sockets that a browser could reach")
    token = token or secrets.token_urlsafe(_TOKEN_BYTES)
    listening = socket.create_server((HOST, port))
    address = f"{HOST}:{listening.getsockname()[1]}"
    follower = Follower(cluster.journal, cluster.clock)
    app = Guard(application(cluster, follower), token, int(address.rpartition(":")[2]))
    server = _uvicorn(app)
    await server.startup([listening])

    async def run() -> None:
        try:
            await follower.run()
        finally:
            follower.end()
            await server.shutdown([listening])

    task = asyncio.get_running_loop().create_task(run())
    cluster.own(task)
    return WebServer(address, token, task)


def _uvicorn(app: Guard) -> uvicorn.Server:
    """Return uvicorn's server, configured, for callers that run it themselves."""
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        loop="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_PATIENCE_SECONDS,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    return server

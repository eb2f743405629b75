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
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from fakeserver.control.web.assets import ASSETS
from fakeserver.control.web.description import description
from fakeserver.control.web.door import HttpDoor, answer
from fakeserver.control.web.guard import Guard, TooLarge, refusal, too_large
from fakeserver.control.web.journal import Follower, Records
from fakeserver.control.web.metrics import EXPOSITION, exposition
from fakeserver.control.web.orchestration import Orchestration
from fakeserver.control.web.state import Watch
from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from starlette.requests import Request

    from fakeserver.deployment.cluster import Cluster


def application(cluster: Cluster, follower: Follower) -> Starlette:
    """Return the application of a deployment. It checks no token; `Guard` does."""
    door, records, tally = HttpDoor(cluster), Records(follower), follower.tally
    watch = Watch(cluster, tally)

    async def state(_request: Request) -> Response:
        return answer(watch.state())

    async def metrics(_request: Request) -> Response:
        tally.catch_up()
        return Response(exposition(cluster, tally), media_type=EXPOSITION)

    async def openapi(_request: Request) -> Response:
        return answer(description())

    return Starlette(
        routes=[
            *(Route(path, _asset, methods=["GET"]) for path in ASSETS),
            Route("/control", door.table, methods=["GET"]),
            Route("/control/{verb}", door.perform, methods=["POST"]),
            Route("/openapi.json", openapi, methods=["GET"]),
            Route("/journal", records.some, methods=["GET"]),
            Route("/journal/stream", records.stream, methods=["GET"]),
            Route("/state", state, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
            *Orchestration(cluster).routes(),
        ],
        exception_handlers={404: _unknown, 405: _other_method, TooLarge: _too_large, Exception: _bug},
    )


async def _asset(request: Request) -> Response:
    kind, data = ASSETS[request.url.path]
    return Response(data, headers={"Content-Type": kind})


async def _unknown(request: Request, _error: Exception) -> Response:
    return refusal(404, f"there is no {request.url.path!r}; GET /openapi.json lists what there is")


async def _other_method(request: Request, _error: Exception) -> Response:
    return refusal(405, f"{request.url.path!r} does not take {request.method}")


async def _too_large(_request: Request, _error: Exception) -> Response:
    return too_large()


async def _bug(_request: Request, error: Exception) -> Response:
    return refusal(500, repr(error))


HOST: Final = "127.0.0.1"
_TOKEN_BYTES: Final = 24
_PATIENCE_SECONDS: Final = 1


class WebServer:
    """A door that listens (`fakeserver.deployment.doors.Served`)."""

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

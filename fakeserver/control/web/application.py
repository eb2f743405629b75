"""The routes of the HTTP door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from fakeserver.control.web.assets import ASSETS
from fakeserver.control.web.description import description
from fakeserver.control.web.door import HttpDoor, answer
from fakeserver.control.web.guard import TooLarge, refusal, too_large
from fakeserver.control.web.journal import Records
from fakeserver.control.web.metrics import EXPOSITION, exposition
from fakeserver.control.web.orchestration import Orchestration
from fakeserver.control.web.state import Watch

if TYPE_CHECKING:
    from starlette.requests import Request

    from fakeserver.control.web.journal import Follower
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

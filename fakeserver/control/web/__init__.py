"""The verbs over HTTP, and the live page (extra `ui`).

    server         the ASGI server on the deployment's own loop: past admission, fail points, rules, quiesce
    guard          the check of every request: address, origin, token, size
    application    the routes
    door           `POST /control/{verb}`, and the table of verbs
    description    `GET /openapi.json`, made of the table
    journal        records of the journal, all of them or as they are entered
    state          the deployment as it is now
    metrics        the same for Prometheus
    orchestration  the routes of mongo-orchestration
    page/          the page: files that a browser loads as they are

Nothing but `served` is imported before somebody asks for a page: the stack is an extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mongowire.documents.errors import ControlError

if TYPE_CHECKING:
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.served import Served

MISSING: Final = "the HTTP door needs packages that are not installed: pip install 'pushbackd[ui]'"


async def serve(cluster: Cluster, port: int = 0, token: str | None = None) -> Served:
    """Serve the verbs and the page of a deployment on loopback, until its end or `aclose`.

    `port` 0 is any free one; without a `token` one is drawn. Raises `ControlError` if the extra `ui` is not
    installed or the deployment runs in virtual time, `OSError` if the port is taken.
    """
    try:
        from fakeserver.control.web.server import start  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name not in {"starlette", "uvicorn"}:
            raise
        raise ControlError(MISSING) from None
    return await start(cluster, port, token)

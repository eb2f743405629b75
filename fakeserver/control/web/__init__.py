"""The verbs over HTTP, and the live page.

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

Nothing of the stack is imported before somebody asks for a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.doors import Served


async def serve(cluster: Cluster, port: int = 0, token: str | None = None) -> Served:
    """Serve the verbs and the page of a deployment on loopback, until its end or `aclose`.

    `port` 0 is any free one; without a `token` one is drawn. Raises `ControlError` for a deployment in
    virtual time, `OSError` if the port is taken.
    """
    from fakeserver.control.web.server import start  # noqa: PLC0415 - most deployments have no page

    return await start(cluster, port, token)

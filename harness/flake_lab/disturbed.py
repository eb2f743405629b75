"""One item on a deployment that its schedule disturbs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.deployments.embedded import EmbeddedDeployment, servers
from harness.flake_lab.network import DisturbedNetwork
from harness.flake_lab.schedule import parse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from harness.running.plan import Item
    from harness.running.result import Result
    from harness.unified.deployment import Deployment


async def run_disturbed(
    run: Callable[[Deployment, Item], Awaitable[Result]], deployment: Deployment, item: Item
) -> Result:
    """Run an item under its schedule, if it has one; then the deployment is fake, on a `DisturbedNetwork`.

    The harness's own connections are made before that, so that they are neither late nor counted.
    """
    if item.schedule is None:
        return await run(deployment, item)
    assert isinstance(deployment, EmbeddedDeployment), "only fake servers can be disturbed"
    assert isinstance(deployment.ports, DisturbedNetwork), "the network is made for the item"
    for address in deployment.addresses:
        await deployment.admin("admin", {"ping": 1}, address=address)
    schedule = parse(item.schedule)
    ports = (int(door.rpartition(":")[2]) for door in deployment.doors)
    names = dict(zip(ports, servers(deployment.topology), strict=True))
    with deployment.ports.disturbed(schedule, names) as disturbance:
        result = await run(deployment.with_seeds(schedule.seeds), item)
    return replace(result, disturbed=tuple(disturbance.effects()))

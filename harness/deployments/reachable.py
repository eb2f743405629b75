"""The servers behind a connection string that a run can reach one by one.

On these, fail points are turned off and sessions are killed: every server that a driver may have connected
to, and no other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.pymongo.channel import ChannelError
from harness.deployments.survey import DeploymentError
from harness.unified.deployment import Topology
from harness.unified.uri import ConnectionString

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.deployments.survey import DeploymentSurvey
    from harness.unified.deployment import Deployment

_PING_MAX_AGE: Final = 60.0
"""Age in seconds up to which the ping of a mongos in `config.mongos` counts; each pings twice a minute."""


async def servers_of(
    deployment: Deployment, surveyed: DeploymentSurvey
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the addresses of the servers, and sentences on those that are out of reach.

    They are the data-bearing members that a replica set shows to clients, under their own names; each mongos
    of the connection string; behind load balancers each mongos, or the balancers where none can be reached
    directly. Raises `DeploymentError` when a mongos of the connection string does not answer.
    """
    if surveyed.topology is Topology.LOAD_BALANCED:
        return await _behind_balancers(deployment)
    if surveyed.topology is Topology.SHARDED:
        return await _routers(deployment)
    one = ConnectionString.of(deployment.uri)
    if surveyed.topology is Topology.SINGLE or one.is_on("directConnection"):
        return one.hosts, ()
    return await _members(deployment, surveyed)


async def _members(
    deployment: Deployment, surveyed: DeploymentSurvey
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the members that answer as such: a name may resolve to another server from here."""
    replies = await _ask(deployment, surveyed.members, "admin", {"hello": 1})
    there = tuple(address for address, hello in replies.items() if hello.get("setName") == surveyed.set_name)
    notes = tuple(
        f"{address} is a member of {surveyed.set_name} and cannot be reached under that name from here"
        for address in surveyed.members
        if address not in there
    )
    return there, notes


async def _routers(deployment: Deployment) -> tuple[tuple[str, ...], tuple[str, ...]]:
    string = ConnectionString.of(deployment.uri_multi)
    replies = await _ask(deployment, string.hosts, "admin", {"hello": 1})
    for address in string.hosts:
        if replies.get(address, {}).get("msg") != "isdbgrid":
            raise DeploymentError(
                f"{address} does not answer as a mongos: remove it from the connection string"
            )
    alone = ("there is one mongos only, so cases that need two are skipped",)
    return string.hosts, () if len(string.hosts) > 1 else alone


async def _behind_balancers(deployment: Deployment) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return each mongos that is alive and, under its name, is of this cluster from here too."""
    doors = [ConnectionString.of(uri).hosts[0] for uri in (deployment.uri, deployment.uri_multi)]
    for door in doors:
        await deployment.admin("admin", {"hello": 1}, address=door)
    cluster = _cluster_id(await deployment.admin("config", {"find": "version"}))
    registered = await deployment.admin("config", {"find": "mongos"})
    pings = {router["_id"]: router["ping"] for router in _documents(registered) if "ping" in router}
    newest = max(pings.values(), default=None)
    alive = [address for address, ping in pings.items() if (newest - ping).total_seconds() < _PING_MAX_AGE]
    replies = await _ask(deployment, alive, "config", {"find": "version"})
    there = tuple(address for address, reply in replies.items() if cluster and _cluster_id(reply) == cluster)
    alone = "load balancers hide every mongos, so a fail point on one of several may stay on after a failure"
    return (there, ()) if there else (tuple(dict.fromkeys(doors)), (alone,))


def _cluster_id(reply: Mapping[str, Any]) -> Any:
    return next((document.get("clusterId") for document in _documents(reply)), None)


def _documents(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    documents: list[dict[str, Any]] = reply.get("cursor", {}).get("firstBatch", [])
    return documents


async def _ask(
    deployment: Deployment, addresses: Iterable[str], database: str, command: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """Return the replies of the servers that answer, which are asked at the same time."""

    async def one(address: str) -> Mapping[str, Any]:
        try:
            return await deployment.admin(database, command, address=address)
        except ChannelError:
            return {}

    asked = tuple(dict.fromkeys(addresses))
    return dict(zip(asked, await asyncio.gather(*map(one, asked)), strict=True))

"""Which servers of a deployment that is not ours a run can reach one by one.

That is where fail points are turned off and sessions are killed: on every server that a driver may have
spoken to, and on no other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.pymongo_channel import ChannelError
from harness.survey import DeploymentError
from harness.unified.deployment import Topology
from harness.unified.uri import ConnectionString

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from harness.survey import Survey
    from harness.unified.deployment import Deployment

_HEARD_OF_LATELY: Final = 60.0
"""Seconds since when a mongos has told its cluster that it lives; each does so twice a minute."""


async def servers_of(deployment: Deployment, said: Survey) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the addresses of the servers, and sentences on those that are out of reach.

    They are the data-bearing members that a replica set shows to clients, under their own names; each mongos
    of the connection string; behind load balancers each mongos, or the balancers where none can be reached
    directly. Raises `DeploymentError` when a mongos of the connection string does not answer.
    """
    if said.topology is Topology.LOAD_BALANCED:
        return await _behind_balancers(deployment)
    if said.topology is Topology.SHARDED:
        return await _routers(deployment)
    one = ConnectionString.of(deployment.uri)
    if said.topology is Topology.SINGLE or one.is_on("directConnection"):
        return one.hosts, ()
    return await _members(deployment, said)


async def _members(deployment: Deployment, said: Survey) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the members that answer as such: a name may lead somewhere else from here."""
    replies = await _ask(deployment, said.members, "admin", {"hello": 1})
    there = tuple(address for address, hello in replies.items() if hello.get("setName") == said.set_name)
    notes = tuple(
        f"{address} is a member of {said.set_name} and cannot be reached under that name from here"
        for address in said.members
        if address not in there
    )
    return there, notes


async def _routers(deployment: Deployment) -> tuple[tuple[str, ...], tuple[str, ...]]:
    string = ConnectionString.of(deployment.uri_multi)
    replies = await _ask(deployment, string.hosts, "admin", {"hello": 1})
    for address in string.hosts:
        if replies.get(address, {}).get("msg") != "isdbgrid":
            raise DeploymentError(f"{address} is no mongos that answers: take it out of the list")
    alone = ("there is one mongos only, so cases that need two are skipped",)
    return string.hosts, () if len(string.hosts) > 1 else alone


async def _behind_balancers(deployment: Deployment) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return each mongos that the cluster has heard of lately and that is the cluster's from here too."""
    doors = [ConnectionString.of(uri).hosts[0] for uri in (deployment.uri, deployment.uri_multi)]
    for door in doors:
        await deployment.admin("admin", {"hello": 1}, address=door)
    cluster = await _cluster_id(deployment)
    replies = await _ask(deployment, await _heard_of(deployment), "config", {"find": "version"})
    there = tuple(address for address, reply in replies.items() if cluster and _first(reply) == cluster)
    alone = "load balancers hide every mongos, so a fail point on one of several may stay on after a failure"
    return (there, ()) if there else (tuple(dict.fromkeys(doors)), (alone,))


async def _cluster_id(deployment: Deployment) -> Any:
    return _first(await deployment.admin("config", {"find": "version"}))


async def _heard_of(deployment: Deployment) -> list[str]:
    reply = await deployment.admin("config", {"find": "mongos"})
    known = {router["_id"]: router["ping"] for router in _documents(reply) if "ping" in router}
    newest = max(known.values(), default=None)
    return [address for address, ping in known.items() if (newest - ping).total_seconds() < _HEARD_OF_LATELY]


def _first(reply: Mapping[str, Any]) -> Any:
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

"""The survey of servers by URI: topology, version, access control and parameters, as far as they reply.

Unified Test Format: Initializing the Test Runner, runOnRequirement.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from harness.unified.deployment import Topology
from harness.unified.requirements import version_of

Ask: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Sends a command to a database, and returns the reply whatever its `ok` is."""

_UNAUTHORIZED: Final = 13


class DeploymentError(Exception):
    """No run is possible on a deployment; the message says why, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSurvey:
    """The replies of a deployment, and notes on those that it refused.

    `members` are the names under which clients find the data-bearing members of a replica set: arbiters and
    hidden members are not among them.
    """

    topology: Topology
    server_version: tuple[int, ...]
    auth: bool
    parameters: Mapping[str, Any]
    set_name: str = ""
    members: tuple[str, ...] = ()
    primary: str | None = None
    notes: tuple[str, ...] = ()


async def survey(ask: Ask, *, load_balanced: bool) -> DeploymentSurvey:
    """Survey a deployment. Raises `DeploymentError` for one on which nothing can be run.

    Since 3.6 every shard is a replica set, so that a sharded cluster is not asked for its shards.
    """
    hello = await required(ask, {"hello": 1})
    topology = _topology(hello, load_balanced=load_balanced)
    build_info = await required(ask, {"buildInfo": 1})
    auth = await _auth(ask)
    parameters = await ask("admin", {"getParameter": "*"})
    notes: tuple[str, ...] = ()
    if not parameters.get("ok"):
        note = "the server's parameters cannot be read, so cases that ask for some are skipped"
        parameters, notes = {}, (f"{note}: {parameters.get('errmsg')}",)
    return DeploymentSurvey(
        topology=topology,
        server_version=tuple((build_info.get("versionArray") or version_of(build_info["version"]))[:3]),
        auth=auth,
        parameters=dict(parameters),
        set_name=hello.get("setName", ""),
        members=(*hello.get("hosts", ()), *hello.get("passives", ())),
        primary=hello.get("primary"),
        notes=notes,
    )


async def required(ask: Ask, command: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the reply to a command. Raises `DeploymentError` when it is an error."""
    reply = await ask("admin", command)
    if not reply.get("ok"):
        raise DeploymentError(f"the server refuses {next(iter(command))}: {reply.get('errmsg')}")
    return reply


def _topology(hello: Mapping[str, Any], *, load_balanced: bool) -> Topology:
    if load_balanced:
        return Topology.LOAD_BALANCED
    if hello.get("msg") == "isdbgrid":
        return Topology.SHARDED
    if hello.get("isreplicaset"):
        raise DeploymentError("the replica set of the server is not initiated yet (replSetInitiate)")
    if not hello.get("isWritablePrimary"):
        raise DeploymentError(
            f"{hello.get('me', 'the server')} takes no writes, its primary is {hello.get('primary')}:"
            " name that one, or leave out directConnection"
        )
    return Topology.REPLICA_SET if "setName" in hello else Topology.SINGLE


async def _auth(ask: Ask) -> bool:
    """Return whether clients authenticate. Raises `DeploymentError` when they must and cannot."""
    status = await ask("admin", {"connectionStatus": 1})
    if status.get("authInfo", {}).get("authenticatedUsers"):
        return True
    reply = await ask("admin", {"listDatabases": 1, "nameOnly": True})
    if reply.get("code") == _UNAUTHORIZED:
        raise DeploymentError("the server requires authentication: name a user in the connection string")
    return False

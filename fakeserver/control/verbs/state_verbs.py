"""The verb `state`: the deployment as it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypedDict

from fakeserver.control.verbs.form import Verb
from fakeserver.settings.declaration import INT32_MAX

if TYPE_CHECKING:
    from fakeserver.control.subject import Subject
    from fakeserver.deployment.node import Node

Document = dict[str, Any]

LIMITS: Final = {
    "requests": ("ingressRequestRateLimiterEnabled", "ingressRequestAdmissionRatePerSec"),
    "connections": (
        "ingressConnectionEstablishmentRateLimiterEnabled",
        "ingressConnectionEstablishmentRatePerSec",
    ),
}
"""The switches of the rate limiters, and their rates a second."""


class ServerState(TypedDict):
    """One server, as `state` shows it; every field is always there."""

    name: str
    address: str
    role: str
    process: str
    """`running`, `paused` or `stopped`."""
    connections: int
    set: str | None
    """The name of its replica set, None outside of one."""
    slow: float
    """The seconds that every request takes longer."""
    lag: float
    """The seconds that it is behind."""
    frozen: float
    """The seconds for which it will not be elected."""
    island: int
    """The number of its part of a partition, 0 where there is none."""
    cutOff: bool
    """Whether no client reaches it."""
    limits: dict[str, float]
    """The rates of `requests` and `connections` a second, where they are limited."""
    serviceTime: dict[str, int]
    """The commands `atWork`, and their `peak`; both 0 without a service time."""
    failPoints: list[str]
    """The names of those that are on."""


class DeploymentState(TypedDict):
    """A deployment, as `state` shows it; every field is always there, and empty where nothing is held."""

    topology: str
    uri: str
    servers: list[ServerState]
    rules: list[Document]
    faults: list[Document]
    shedding: Document
    """The `share` of requests that is refused, of how many `seen`, and those `refused` by code."""
    certificates: dict[str, str]
    """The certificates that are not the valid one, by server."""
    snapshots: list[str]
    timeline: list[Document]
    """The steps of a scenario, and how far each has come."""


def _state(subject: Subject) -> DeploymentState:
    cluster = subject.cluster
    now = cluster.clock.now()
    held = {name: part.describe() for name, part in subject.parts.items()}
    return {
        "topology": str(cluster.spec.topology),
        "uri": cluster.uri,
        "servers": [_server(node) for node in cluster.servers],
        "rules": cluster.rules.listed(now),
        "faults": cluster.faults.registry.documents(now),
        "shedding": held.get("shedding") or {},
        "certificates": held.get("certificates") or {},
        "snapshots": held.get("snapshots") or [],
        "timeline": held.get("timeline") or [],
    }


def _server(node: Node) -> ServerState:
    member, now = node.member, node.clock.now()
    return {
        "name": node.name,
        "address": node.address,
        "role": "MONGOS" if node.is_mongos else node.role.name,
        "process": _process(node),
        "connections": len(node.connections),
        "set": None if node.shard is None or node not in node.shard.nodes else node.shard.name,
        "slow": node.slowness.delay,
        "lag": node.position.delay,
        "frozen": max(0.0, member.frozen_until - now),
        "island": member.island,
        "cutOff": node.outages.is_cut_off,
        "limits": _limits(node),
        "serviceTime": _service_time(node),
        "failPoints": list(node.fail_points.active),
    }


def _process(node: Node) -> str:
    if node.stopped:
        return "stopped"
    return "paused" if node.outages.is_paused else "running"


def _limits(node: Node) -> Document:
    own = node.parameters
    on = {name: own[rate] for name, (switch, rate) in LIMITS.items() if own[switch]}
    return {name: rate for name, rate in on.items() if rate < INT32_MAX}


def _service_time(node: Node) -> dict[str, int]:
    """Return the commands that take a service time now, and the most at a time so far."""
    service = node.admission.service
    return {"atWork": service.concurrency, "peak": service.peak}


VERBS: Final = (
    Verb(
        "state",
        "state",
        (),
        _state,
        "Show the deployment: servers, roles, addresses, connections, limits, rules, faults.",
        reads=True,
        example="state",
    ),
)

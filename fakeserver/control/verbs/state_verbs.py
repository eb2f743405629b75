"""The verb `state`: the deployment as it is now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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


def _state(subject: Subject) -> Document:
    cluster = subject.cluster
    shown: Document = {"topology": str(cluster.spec.topology), "uri": cluster.uri}
    shown["servers"] = [_server(node) for node in cluster.servers]
    now = cluster.clock.now()
    faults = {"rules": cluster.rules.listed(now), "faults": cluster.faults.registry.documents(now)}
    shown |= {name: listed for name, listed in faults.items() if listed}
    for name, part in subject.parts.items():
        held = part.describe()
        if held:
            shown[name] = held
    return shown


def _server(node: Node) -> Document:
    shown: Document = {
        "name": node.name,
        "address": node.address,
        "role": "MONGOS" if node.is_mongos else node.role.name,
        "process": _process(node),
        "connections": len(node.connections),
    }
    member, now = node.member, node.clock.now()
    facts = {
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
    return shown | {name: value for name, value in facts.items() if value}


def _process(node: Node) -> str:
    if node.stopped:
        return "stopped"
    return "paused" if node.outages.is_paused else "running"


def _limits(node: Node) -> Document:
    own = node.parameters
    on = {name: own[rate] for name, (switch, rate) in LIMITS.items() if own[switch]}
    return {name: rate for name, rate in on.items() if rate < INT32_MAX}


def _service_time(node: Node) -> Document:
    """Return the commands that take a service time now, and the most at a time so far; none without them."""
    service = node.admission.service
    return {"atWork": service.concurrency, "peak": service.peak} if service.peak else {}


VERBS: Final = (
    Verb(
        "state",
        "state",
        (),
        _state,
        "Show the deployment: servers, roles, addresses, connections, limits, rules, faults.",
        reads=True,
    ),
)

"""The deployment as it is now, as a document: `GET /state`, and what the page draws.

Everything is read from the objects that serve requests; nothing is kept, but for the count of requests.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.control import Control
from fakeserver.control.scenario.player import Player

if TYPE_CHECKING:
    from fakeserver.admission.rate_limiter import RateLimiter
    from fakeserver.control.web.tally import RequestTally
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.node import Node

_CLIENTS: Final = 40
"""The connections of a server that are listed, at most: the newest."""
_OWN: Final = ("topology", "uri", "servers")
"""What this module shows in more detail than the verb `state`, whose other entries are parts."""


_LISTS: Final = {"rules": "listRules", "faults": "listFaults"}
"""The lists of the document, and the verbs that answer with them."""


class Watch:
    """Looks at one deployment."""

    def __init__(self, cluster: Cluster, tally: RequestTally) -> None:
        self._cluster = cluster
        self._tally = tally

    def state(self) -> dict[str, Any]:
        """Return the state of the deployment; rules, faults and the like by the names of the verb `state`."""
        cluster, now = self._cluster, self._cluster.clock.now()
        self._tally.catch_up()
        parts = cluster.control.perform("state")
        lists = {name: cluster.control.perform(verb)[name] for name, verb in _LISTS.items()}
        return {
            "topology": str(cluster.spec.topology),
            "release": cluster.profile.version,
            "uri": cluster.uri,
            "seed": cluster.spec.seed,
            "now": now,
            "partitioned": len({node.member.island for node in cluster.servers}) > 1,
            "sets": [
                {
                    "name": shard.name,
                    "term": shard.replica_set.term,
                    "primary": None if shard.primary is None else shard.primary.name,
                    "members": [node.name for node in shard.nodes],
                }
                for shard in cluster.shards
            ],
            "balancers": [balancer.address for balancer in cluster.balancers],
            "servers": [server(node, now) for node in cluster.servers],
            "verdicts": self._tally.verdicts(),
            "latency": self._tally.history.latency(now),
            "history": self._tally.history.rows(now),
            "journal": {"lastSeq": cluster.journal.last_seq, "dropped": cluster.journal.dropped},
            **{name: held for name, held in parts.items() if held and name not in _OWN},
            **lists,
            **self._scenario(),
        }

    def _scenario(self) -> dict[str, Any]:
        """Return what plays, where a scenario does; its steps are the part `timeline`."""
        control = self._cluster.control
        player = control.subject.parts.get(Player.name) if isinstance(control, Control) else None
        if not isinstance(player, Player) or player.scenario is None:
            return {}
        return {"scenario": {"description": player.scenario.description, "elapsed": player.elapsed}}


def server(node: Node, now: float) -> dict[str, Any]:
    """Return the state of one server."""
    member, spec = node.member, node.member.spec
    if node.stopped:
        process = "stopped"
    elif node.outages.is_paused:
        process = "paused"
    else:
        process = "unreachable" if node.outages.is_cut_off else "running"
    return {
        "name": node.name,
        "address": node.address,
        "kind": "mongos" if node.is_mongos else "mongod",
        "set": node.shard.name if node.shard is not None else None,
        "role": "MONGOS" if node.is_mongos else "STANDALONE" if node.shard is None else member.role.name,
        "process": process,
        "island": member.island,
        "priority": spec.rank,
        "votes": spec.votes,
        "tags": dict(spec.tags),
        "frozenSeconds": max(0.0, member.frozen_until - now) if math.isfinite(member.frozen_until) else 0.0,
        "lagSeconds": node.position.delay,
        "isBehind": node.position.applied is not None,
        "slowSeconds": node.slowness.delay,
        "connections": len(node.connections),
        "clients": _clients(node, now),
        "requests": node.counters.requests,
        "bytesIn": node.counters.bytes_in,
        "bytesOut": node.counters.bytes_out,
        "limits": _limits(node, now),
        "tickets": _tickets(node),
        "fixedTickets": not node.is_mongos and node.admission.execution.is_fixed,
        "failPoints": [
            {"name": point.name, "mode": point.setting, "entered": point.times_entered}
            for point in node.fail_points.active.values()
        ],
    }


def _clients(node: Node, now: float) -> list[dict[str, Any]]:
    """Return the newest connections of a server."""
    listed = []
    for each in list(node.connections.values())[-_CLIENTS:]:
        state = each.state
        driver = (state.metadata or {}).get("driver", {})
        listed.append(
            {
                "id": state.id,
                "peer": state.peer,
                "appName": state.app_name,
                "driver": " ".join(str(driver[part]) for part in ("name", "version") if part in driver),
                "seconds": now - state.accepted,
            }
        )
    return listed


def _limits(node: Node, now: float) -> dict[str, Any]:
    own, control = node.parameters, node.admission
    requests = {
        "on": control.limits_requests,
        "rate": control.fractional_rate or own["ingressRequestAdmissionRatePerSec"],
        "burstSeconds": own["ingressRequestAdmissionBurstCapacitySecs"],
    }
    connections = {
        "on": control.limits_connections,
        "rate": own["ingressConnectionEstablishmentRatePerSec"],
        "burstSeconds": own["ingressConnectionEstablishmentBurstCapacitySecs"],
    }
    return {
        "requests": requests | _limiter(control.requests, now),
        "connections": connections | _limiter(control.establishment, now),
    }


def _limiter(limiter: RateLimiter, now: float) -> dict[str, Any]:
    """Return what a limiter holds and has decided; `tokens` is null where there is no bound."""
    return {
        "tokens": None if limiter.is_unbounded else limiter.available(now),
        "queued": limiter.queued,
        "maxQueueDepth": limiter.max_queue_depth,
        "admitted": limiter.successful,
        "rejected": limiter.rejected,
        "exempted": limiter.exempted,
    }


def _tickets(node: Node) -> dict[str, Any]:
    """Return the tickets of a mongod's storage engine, and those of its entrance where it has them."""
    control = node.admission
    pools = {} if node.is_mongos else {"read": control.execution.read, "write": control.execution.write}
    if control.limits_ingress:
        pools["ingress"] = control.ingress
    return {
        name: {"out": pool.out, "total": pool.size, "queued": pool.queued} for name, pool in pools.items()
    }

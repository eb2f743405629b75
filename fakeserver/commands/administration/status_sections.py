"""The sections of serverStatus that monitoring tools read.

Counters are those of the server since its start; sections of disk and cache are left out, because there is
neither. In virtual time the process's own numbers are fixed, so that two runs of one seed have the same
replies.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.admission.invocations import pool_of
from fakeserver.profile import WIRE_50, WIRE_80
from mongowire.messages import EXHAUST_ALLOWED

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.node import Node

if sys.platform != "win32":
    import resource

_PAGE_FAULT_UNIT: Final = 1024
_MIB: Final = 1024 * 1024


def connections(node: Node) -> dict[str, Any]:
    """Return how many clients there are, and what they do; the one that asks is active."""
    waiting = [request for _, request in node.waiting()]
    greeting = [request for request in waiting if request.spec.handshake]
    streams = [request for request in greeting if request.flags & EXHAUST_ALLOWED]
    established = len(node.connections) - node.admission.establishment.queued
    gate = node.gate.stats()
    states = [connection.state for connection in node.connections.values()]
    exempt = {"limitExempt": sum(state.limit_exempt for state in states)} if node.gate.may_exempt else {}
    newer = (
        {"priority": sum(state.has_priority for state in states)} if node.profile.has_priority_port else {}
    )
    return {
        "current": established,
        # Below zero where connections are open to which the limit does not apply.
        "available": node.parameters["maxIncomingConnections"] - len(node.connections),
        "totalCreated": node.counters.connections,
        "rejected": gate.pop("rejected"),
        "active": len(waiting) - len(greeting) + 1,
        **gate,
        "threaded": established,
        **exempt,
        "exhaustIsMaster": Int64(sum(request.name != "hello" for request in streams)),
        "exhaustHello": Int64(sum(request.name == "hello" for request in streams)),
        "awaitingTopologyChanges": Int64(len(greeting)),
        "loadBalanced": sum(state.balanced for state in states),
        **newer,
    }


def process(node: Node) -> dict[str, Any]:
    """Return what the process takes of the machine: `mem` in MiB, `extra_info`.

    A server in virtual time is no process of the machine's: its numbers are the same in every run.
    """
    if not node.clock.is_real:
        return {"pid": Int64(1), "mem": {"bits": 64, "supported": False}}
    if sys.platform == "win32":
        return {"pid": Int64(os.getpid()), "mem": {"bits": 64, "supported": False}}
    used = resource.getrusage(resource.RUSAGE_SELF)
    unit = 1 if sys.platform == "darwin" else _PAGE_FAULT_UNIT
    resident = used.ru_maxrss * unit // _MIB
    return {
        "pid": Int64(os.getpid()),
        "mem": {"bits": 64, "resident": resident, "virtual": resident, "supported": True},
        "extra_info": {
            "note": "fields vary by platform",
            "user_time_us": Int64(used.ru_utime * 1_000_000),
            "system_time_us": Int64(used.ru_stime * 1_000_000),
            "page_faults": Int64(used.ru_majflt),
        },
    }


def locks(ctx: CommandContext) -> dict[str, Any]:
    """Return `globalLock`, which a mongod has: whoever waits for a lock waits for a transaction."""
    if ctx.node.is_mongos:
        return {}
    # A hello that waits for a change of the topology holds no lock.
    waiting = [request for _, request in ctx.node.waiting() if not request.spec.handshake]
    writers = sum(
        pool_of(request.spec.kind, request.spec.name, request.command or {}) == "write" for request in waiting
    )
    readers = len(waiting) - writers
    queued = writers if ctx.node.write_lock.count else 0
    return {
        "globalLock": {
            "totalTime": Int64((ctx.now - ctx.node.started_at) * 1_000_000),
            "currentQueue": {"total": queued, "readers": 0, "writers": queued},
            "activeClients": {"total": readers + writers, "readers": readers, "writers": writers},
        }
    }


def metrics(ctx: CommandContext) -> dict[str, Any]:
    """Return `metrics`: commands, documents, cursors."""
    counters, cursors = ctx.node.counters, list(ctx.cursors)
    return {
        "commands": counters.by_command(),
        "cursor": {
            "timedOut": Int64(ctx.cursors.timed_out),
            "totalOpened": Int64(ctx.cursors.opened),
            "open": {
                "noTimeout": Int64(sum(each.no_timeout for each in cursors)),
                "pinned": Int64(0),
                "total": Int64(len(cursors)),
            },
        },
        "document": counters.by_document(),
        "network": counters.by_handshake(),
        **({} if ctx.node.is_mongos else {"ttl": ctx.node.cluster.ttl.status(ctx.node)}),
    }


def network(ctx: CommandContext) -> dict[str, Any]:
    """Return `network`: what travelled, and how many requests the rate limiter let in."""
    node = ctx.node
    shown = node.counters.network()
    if node.profile.max_wire_version >= WIRE_50:
        # Every client has a thread of its own, which works or waits for its next request.
        threads = len(node.connections) - node.admission.establishment.queued
        clients = dict.fromkeys(("threadsRunning", "clientsInTotal", "clientsRunning"), threads)
        shown["serviceExecutors"] = {"passthrough": {**clients, "clientsWaitingForData": 0}}
    if node.profile.knows_overload:
        shown |= node.admission.request_stats(ctx.now)
    return shown


def admission(ctx: CommandContext) -> dict[str, Any]:
    """Return `queues` and `flowControl`; before 8.0 the tickets stood with the storage engine."""
    node = ctx.node
    control = node.admission
    control.catch_up(ctx.now)
    shown: dict[str, Any] = {} if node.is_mongos else {"flowControl": control.flow_stats(ctx.now)}
    if node.profile.max_wire_version >= WIRE_80:
        return shown | {"queues": control.queues(ctx.now, mongos=node.is_mongos)}
    if not node.is_mongos:
        pools = {"read": control.execution.read.stats(), "write": control.execution.write.stats()}
        tickets = {
            name: {field: stats[field] for field in ("out", "available", "totalTickets")}
            for name, stats in pools.items()
        }
        shown["wiredTiger"] = {"concurrentTransactions": tickets}
    return shown


def sessions(ctx: CommandContext) -> dict[str, Any]:
    """Return `logicalSessionRecordCache`."""
    return {"activeSessionsCount": len(ctx.node.sessions), "sessionCatalogSize": len(ctx.node.sessions.ids())}


def security(ctx: CommandContext) -> dict[str, Any]:
    """Return `security`: how often clients have authenticated, by mechanism."""
    mechanisms = ctx.node.parameters["authenticationMechanisms"]
    counted = ctx.node.counters.authentications
    found = {
        name: {
            "authenticate": {
                "received": Int64(counted[name, True] + counted[name, False]),
                "successful": Int64(counted[name, True]),
            }
        }
        for name in mechanisms
    }
    return {"security": {"authentication": {"mechanisms": found}}}

"""The commands for diagnosis: what a server says of itself to clients and people.

Behaviour: `ping`, `buildInfo`, `connectionStatus` and `whatsmyuri` need no authentication. `serverStatus`
leaves out each section that the command names with 0 or false. Its counters are the server's own since its
start: operations, commands and their failures, documents, cursors, connections, bytes, authentications,
queues and limiters. `getLog` returns the newest lines of the log that the server also writes; `listCommands`
the commands of this release and kind of server.

Versions: `queues` since 8.0; before, `wiredTiger.concurrentTransactions` shows the tickets.
`network.ingressRequestRateLimiter` and, on a mongos, `shardingStatistics` since 8.2; 9.0 adds fields to both
and to the queues (docs/ADMISSION.md).

Not modelled: Sections of serverStatus about disk, cache, locks, indexes and replication's buffers.
`connPoolStats` shows no connections, because members share their data in memory. `getCmdLineOpts` shows the
flags that would start such a server. `hostInfo` tells of the machine that runs the fake, with 8 cores.
`startupWarnings` has no lines.
"""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_URL, uuid5

from bson import Binary, Int64

from fakeserver.admission.controls import CORES
from fakeserver.admission.invocations import pool_of
from fakeserver.commands.administration.api_version import VERSION_1
from fakeserver.deployment.replication.hello import MAX_BSON_OBJECT_SIZE
from fakeserver.deployment.replication.state import Role
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, truth
from fakeserver.profile import WIRE_50, WIRE_70, WIRE_80
from fakeserver.storage.store.catalog import BUILT_IN
from fakeserver.waiting.first_use import at_first_use
from mongowire.codes import ErrorCode, code_name
from mongowire.messages import EXHAUST_ALLOWED

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.node import Node

if sys.platform != "win32":
    import resource

table = CommandTable()

_javascript = at_first_use("fakeserver.storage.scripts.javascript")

_LOGS: Final = ("global", "startupWarnings")
_ALL_LOGS: Final = "*"
_LAST_ERROR: Final = Fields.of(
    *(Field(name) for name in ("getLastError", "getlasterror", "w", "j", "fsync", "wtimeout"))
)


@table.command("ping", kind="internal", requires_auth=False, fields=Fields.of(Field("ping")))
def ping(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Do nothing, to show that the server answers."""
    return {}


@table.command(
    "buildInfo",
    kind="internal",
    requires_auth=False,
    aliases=("buildinfo",),
    fields=Fields.of(Field("buildInfo"), Field("buildinfo")),
)
def build_info(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return the release."""
    profile = ctx.node.profile
    return {
        "version": profile.version,
        "gitVersion": "0" * 40,
        "modules": [],
        "allocator": "system",
        "javascriptEngine": "mozjs" if ctx.node.javascript and _javascript.available() else "none",
        "sysInfo": "deprecated",
        "openssl": {"running": "disabled", "compiled": "disabled"},
        "versionArray": profile.version_array,
        "bits": 64,
        "debug": False,
        "maxBsonObjectSize": MAX_BSON_OBJECT_SIZE,
        "storageEngines": [ctx.catalog.engine.name],
    }


@table.command("getCmdLineOpts", kind="internal", admin_only=True, fields=Fields.of(Field("getCmdLineOpts")))
def get_cmd_line_opts(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return the options that the server was started with, on the command line and parsed."""
    node, spec = ctx.node, ctx.node.cluster.spec
    port = int(node.address.rpartition(":")[2])
    bind_ip = spec.bind_ip or spec.host
    argv = ["mongos" if node.is_mongos else "mongod", "--port", str(port), "--bind_ip", bind_ip]
    parsed: dict[str, Any] = {"net": {"bindIp": bind_ip, "port": port}}
    if node.is_mongos:
        argv += ["--configdb", _config_db(node)]
        parsed["sharding"] = {"configDB": _config_db(node)}
    elif node.shard is not None:
        argv += ["--replSet", node.shard.name]
        parsed["replication"] = {"replSet": node.shard.name}
    if spec.is_sharded and not node.is_mongos:
        argv.append("--shardsvr")
        parsed["sharding"] = {"clusterRole": "shardsvr"}
    if spec.auth:
        argv.append("--auth")
        parsed["security"] = {"authorization": "enabled"}
    if spec.tls is not None:
        mode, key_file = str(spec.tls.mode), spec.tls.certificate_key_file
        argv += ["--tlsMode", mode]
        parsed["net"]["tls"] = {"mode": mode, "certificateKeyFile": key_file}
    parameters = {"enableTestCommands": node.parameters["enableTestCommands"], **spec.parameters}
    texts = {
        name: str(int(value)) if isinstance(value, bool) else str(value) for name, value in parameters.items()
    }
    for name, value in texts.items():
        argv += ["--setParameter", f"{name}={value}"]
    parsed["setParameter"] = texts
    return {"argv": argv, "parsed": parsed}


def _config_db(node: Node) -> str:
    """Return the connection string of the config servers: the first shard's, as of a config shard."""
    return node.cluster.shards[0].connection_string


@table.command("serverStatus", kind="internal")
def server_status(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return counters and state; a section that the command names with 0 is left out."""
    node, counters = ctx.node, ctx.node.counters
    uptime = ctx.now - node.started_at
    reply: Reply = {
        "host": node.address,
        "version": node.profile.version,
        "process": "mongos" if node.is_mongos else "mongod",
        "uptime": uptime,
        "uptimeMillis": Int64(uptime * 1000),
        "uptimeEstimate": Int64(uptime),
        "localTime": datetime.fromtimestamp(node.clock.utc(), UTC),
        "asserts": counters.asserts(),
        "connections": connections(node),
        **process(ctx.node),
        **locks(ctx),
        "logicalSessionRecordCache": sessions(ctx),
        "network": network(ctx),
        "opcounters": counters.opcounters(),
        **security(ctx),
        "metrics": metrics(ctx),
        **admission(ctx),
        **(_of_mongos(node) if node.is_mongos else _of_mongod(node)),
    }
    unwanted = {name for name, value in command.items() if name in reply and not truth(value)}
    if truth(command.get("mirroredReads", False)) and not node.is_mongos:
        reply["mirroredReads"] = {"seen": Int64(0), "sent": Int64(0), "erroredDuringSend": Int64(0)}
    return {name: value for name, value in reply.items() if name not in unwanted}


def _of_mongos(node: Node) -> Reply:
    shown: Reply = {
        "sharding": {"configsvrConnectionString": _config_db(node)},
        "transactions": {name: Int64(number) for name, number in node.transactions.status().items()},
    }
    if node.profile.knows_overload and node.shards is not None:
        shown["shardingStatistics"] = {"shards": node.shards.stats()}
    return shown


def _of_mongod(node: Node) -> Reply:
    listed = list(node.catalog)
    reply: Reply = {
        "catalogStats": {
            "collections": sum(each.kind == "collection" for each in listed),
            "capped": sum(each.is_capped for each in listed),
            "clustered": sum("clusteredIndex" in each.options for each in listed),
            "timeseries": sum(each.kind == "timeseries" for each in listed),
            "views": sum(each.is_view for each in listed),
            "internalCollections": sum(each.ns.db in BUILT_IN for each in listed),
            "internalViews": 0,
        },
        "locks": {},
        "storageEngine": {
            "name": node.catalog.engine.name,
            "supportsCommittedReads": True,
            "persistent": False,
        },
    }
    counted = node.transactions.status() | dict.fromkeys(_PREPARED, 0)
    none = dict.fromkeys(("insert", "query", "update", "delete", "getmore", "command"), 0)
    reply |= {
        "opcountersRepl": {name: Int64(number) for name, number in none.items()},
        "transactions": {name: Int64(number) for name, number in counted.items()},
    }
    facts = node.member_facts()
    if facts is None:
        return reply
    return reply | {
        "repl": {
            "hosts": list(facts.hosts),
            "setName": facts.set_name,
            "setVersion": facts.set_version,
            "isWritablePrimary": facts.role is Role.PRIMARY,
            "secondary": facts.role is Role.SECONDARY,
            "primary": facts.primary or "",
            "me": facts.me,
        },
    }


_PREPARED: Final = (
    "totalPrepared", "totalPreparedThenCommitted", "totalPreparedThenAborted", "currentPrepared",
)  # fmt: skip
"""The counters of transactions that nothing here adds to: all shards share one store."""


@table.command(
    "connectionStatus",
    kind="internal",
    requires_auth=False,
    fields=Fields.of(Field("connectionStatus"), Field("showPrivileges", "bool")),
)
def connection_status(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the users that the client is authenticated as, and their roles."""
    store = ctx.node.users
    users = ctx.connection.identity.users(store)
    roles = store.inherited(role for user in users for role in user.roles)
    status: dict[str, Any] = {
        "authenticatedUsers": [{"user": user.name, "db": user.db} for user in users],
        "authenticatedUserRoles": [role.document() for role in roles],
    }
    if command.get("showPrivileges"):
        privileges = store.privileges(roles)
        status["authenticatedUserPrivileges"] = [each.document() for each in privileges]
    name = f"{ctx.node.address}/{ctx.connection.id}"
    reply: Reply = {"authInfo": status}
    if ctx.node.profile.max_wire_version >= WIRE_70:
        reply["uuid"] = Binary.from_uuid(uuid5(NAMESPACE_URL, name))
    return reply


@table.command("getLastError", aliases=("getlasterror",), kind="internal", until=WIRE_50, fields=_LAST_ERROR)
def get_last_error(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return what became of the last write of the connection, as drivers asked before there were replies."""
    last = ctx.connection.last_error
    reply: Reply = {"connectionId": ctx.connection.id}
    failed = (last.get("writeErrors") or [None])[0]
    if failed is not None:
        reply |= {"err": failed["errmsg"], "code": failed["code"], "codeName": code_name(failed["code"])}
        return {**reply, "n": 0}
    reply["err"] = None
    if "nModified" in last:
        upserted = last.get("upserted", ())
        reply["updatedExisting"] = last["n"] > len(upserted)
        if upserted:
            reply["upserted"] = upserted[0]["_id"]
        return {**reply, "n": last["n"]}
    return {**reply, "n": last["n"] if last.get("command") == "delete" else 0}


@table.command("whatsmyuri", kind="internal", requires_auth=False)
def whatsmyuri(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return the address of the client."""
    return {"you": ctx.connection.peer}


@table.command("hostInfo", kind="internal", fields=Fields.of(Field("hostInfo")))
def host_info(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return facts about the machine."""
    return {
        "system": {
            "currentTime": datetime.fromtimestamp(ctx.node.clock.utc(), UTC),
            "hostname": ctx.node.address,
            "cpuAddrSize": 64,
            "memSizeMB": Int64(_memory_mib()),
            "memLimitMB": Int64(_memory_mib()),
            "numCores": CORES,
            "numCoresAvailableToProcess": CORES,
            "numPhysicalCores": CORES,
            "numCpuSockets": 1,
            "cpuArch": platform.machine(),
            "numaEnabled": False,
            "numNumaNodes": 1,
        },
        "os": {"type": platform.system(), "name": platform.system(), "version": platform.release()},
        "extra": {
            "versionString": platform.version(),
            "libcVersion": "".join(platform.libc_ver()) or "unknown",
            "kernelVersion": platform.release(),
            "pageSize": Int64(_PAGE_BYTES),
            "maxOpenFiles": _MAX_OPEN_FILES,
            "numPages": _memory_mib() * _MIB // _PAGE_BYTES,
        },
    }


def _memory_mib() -> int:
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", {}):
        return 0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1024 * 1024)


@table.command("listCommands", kind="internal")
def list_commands(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return the commands of this server."""
    return {
        "commands": {
            name: {
                "help": spec.help,
                "requiresAuth": spec.requires_auth,
                "secondaryOk": spec.kind != "write",
                "adminOnly": spec.admin_only,
                "apiVersions": ["1"] if name in VERSION_1 else [],
                "deprecatedApiVersions": [],
            }
            for name, spec in sorted(ctx.node.commands.items())
            if name == spec.name
        }
    }


@table.command("getLog", kind="internal", admin_only=True, fields=Fields.of(Field("getLog", "string")))
def get_log(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the newest lines of a log, or the logs' names for `*`."""
    name = command["getLog"]
    if name == _ALL_LOGS:
        return {"names": list(_LOGS)}
    if name not in _LOGS:
        raise CommandError(ErrorCode.OPERATION_FAILED, f"no RamLog named: {name}")
    log = ctx.node.log
    lines = list(log.lines) if name == "global" else []
    return {"totalLinesWritten": log.total if lines else 0, "log": lines}


@table.command("connPoolStats", kind="internal")
def conn_pool_stats(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return the connections to other members: none, because members share their data in memory."""
    return {
        "numClientConnections": 0,
        "numAScopedConnections": 0,
        "totalInUse": 0,
        "totalAvailable": 0,
        "totalLeased": 0,
        "totalCreated": 0,
        "totalRefreshing": 0,
        "pools": {},
        "hosts": {},
        "replicaSets": {},
    }


# The sections of serverStatus that monitoring tools read.
#
# Counters are those of the server since its start; sections of disk and cache are left out, because there is
# neither. In virtual time the process's own numbers are fixed, so that two runs of one seed have the same
# replies.


_PAGE_FAULT_UNIT: Final = 1024
_MIB: Final = 1024 * 1024
_PAGE_BYTES: Final = 4096
_MAX_OPEN_FILES: Final = 64_000


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

"""The one place that knows all parts of a deployment and puts them together.

Everything else knows what it uses: a part of a server knows `deployment.server.Server`, a stage the request,
a command its context. Which pipeline a server walks, what a process is made of, what stands between a socket
and a connection is decided here and nowhere else.

    assemble -> Cluster -> node     -> Node     -> new_process -> Process
                        -> balancer -> LoadBalancer  -> protocols   -> Connection, behind TLS or not
                        -> config   -> ConfigServer
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from fakeserver.admission.controls import CORES, AdmissionControl
from fakeserver.commands.default_table import commands_of
from fakeserver.control import web
from fakeserver.control.control import Control
from fakeserver.deployment.cluster import Cluster, Shared
from fakeserver.deployment.config_server import ConfigServer
from fakeserver.deployment.doors import Door
from fakeserver.deployment.establishment import Gate
from fakeserver.deployment.logs.server_log import ServerLog
from fakeserver.deployment.monitors import FlowMonitor, ProbingClock
from fakeserver.deployment.node import Node
from fakeserver.deployment.parts import Parts, Process
from fakeserver.deployment.records.journal import Journal, JournalFile
from fakeserver.deployment.records.record import Origin
from fakeserver.deployment.replication.history import History
from fakeserver.deployment.shard_clients import Shards
from fakeserver.network.balancer import LoadBalancer
from fakeserver.network.connection import Connection
from fakeserver.network.fault_injector import FaultInjector
from fakeserver.network.fault_registry import FaultRegistry
from fakeserver.network.proxy_layer import ProxyLayer
from fakeserver.network.tls import behind_tls
from fakeserver.profile import Profile
from fakeserver.request.pipeline import MONGOD, MONGOS, Pipeline
from fakeserver.rules.book import RuleBook
from fakeserver.sessions.cursors import CursorStore
from fakeserver.sessions.session import SessionCatalog
from fakeserver.sessions.transactions import TransactionRouter, Transactions
from fakeserver.settings.failpoints import FailPointRegistry
from fakeserver.settings.server_parameters import ServerParameters
from fakeserver.stages import mongod_stages, mongos_stages
from fakeserver.stages.profiler import Profiler
from fakeserver.stages.rules import stand_in
from fakeserver.stages.temporary import Slowness, WriteLock
from fakeserver.storage.port.oplog import Oplog
from fakeserver.storage.store.catalog import Catalog
from fakeserver.storage.store.memory_engine import MemoryEngine
from fakeserver.waiting.turns import Turns
from mongowire.ids import uuid
from mongowire.system import SeededRng, SystemClock, TcpNetwork

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from fakeserver.deployment.doors import Served
    from fakeserver.deployment.shard import Shard
    from fakeserver.deployment.spec import ClusterSpec
    from fakeserver.request.context import RequestContext
    from fakeserver.storage.port.engine import StorageEngine
    from mongowire.ports import Clock, Network, Rng


_LOGGER: Final = logging.getLogger(__name__)


def assemble(
    spec: ClusterSpec,
    *,
    network: Network | None = None,
    clock: Clock | None = None,
    rng: Rng | None = None,
    log_sink: Callable[[str], None] | None = None,
) -> Cluster:
    """Return the deployment of `spec`, which does not listen yet; `log_sink` gets each line of its logs.

    The ports default to TCP, the system clock, and an `rng` with the seed of the spec.
    Raises `CommandError` for a start-up parameter that a server would refuse, `OSError` for a file of the
    journal that cannot be written.
    """
    network, clock = network or TcpNetwork(), clock or SystemClock()
    rng = rng or SeededRng(spec.seed)
    oplog = Oplog(clock.utc)
    draws = rng.spawn("catalog")
    catalog = Catalog(_engine(spec, draws), lambda: uuid(draws))
    journal = Journal(
        capacity=spec.journal_records,
        capacity_bytes=spec.journal_bytes,
        origin=Origin(clock.now(), clock.utc()),
    )
    if spec.journal_file is not None:
        journal.sink = JournalFile(spec.journal_file)
    shared = Shared(
        network=network,
        clock=clock,
        rng=rng,
        profile=Profile.named(spec.profile),
        turns=Turns(clock),
        journal=journal,
        history=History(
            catalog, oplog, SessionCatalog(), Transactions(catalog, oplog, in_shard=spec.is_sharded)
        ),
        rules=RuleBook(rng.spawn("rules"), clock.now()),
        faults=FaultInjector(FaultRegistry(rng.spawn("faults"))),
    )
    cluster = Cluster(spec, shared, _Makers(log_sink))
    cluster.control = control = Control(cluster)
    cluster.started = control.begin
    return cluster


def _engine(spec: ClusterSpec, draws: Rng) -> StorageEngine:
    if spec.storage == "mongomock":
        from fakeserver.storage.store.mongomock_engine import (  # noqa: PLC0415 -- it imports a driver
            MongomockEngine,
        )

        return MongomockEngine()
    return MemoryEngine(rng=draws)


class _Makers:
    """The makers of one deployment's parts (`deployment.cluster.Makers`)."""

    def __init__(self, log_sink: Callable[[str], None] | None) -> None:
        self._log_sink = log_sink

    def node(self, cluster: Cluster, name: str, *, is_mongos: bool = False) -> Node:
        """Return a server that does not listen yet. Raises `CommandError` for a bad start-up parameter."""
        rng = cluster.rng
        cursors = CursorStore(rng.spawn(f"{name}/cursors"))
        own = rng.spawn(name)
        auth = cluster.spec.auth
        if is_mongos:
            pipeline = Pipeline(mongos_stages(auth=auth), MONGOS, on_bug=log_bug)
        else:
            pipeline = Pipeline(mongod_stages(auth=auth), MONGOD, on_bug=log_bug)
        stand_in(pipeline, cluster.rules)
        parts = Parts(
            commands=commands_of(cluster.profile.max_wire_version, is_mongos=is_mongos),
            cursors=cursors,
            pipeline=pipeline,
            write_lock=WriteLock(pipeline),
            profiler=Profiler(pipeline, own.spawn(f"{name}/profiler").random),
            slowness=Slowness(pipeline),
            new_process=new_process,
            protocols=protocols,
        )
        log = ServerLog(cluster.clock.utc, self._log_sink, node=name)
        return Node(cluster, name, parts, rng=own, log=log, is_mongos=is_mongos)

    def balancer(self, cluster: Cluster, routers: Sequence[Node]) -> LoadBalancer:
        """Return a load balancer in front of mongos, which does not listen yet."""
        return LoadBalancer(cluster.spec, cluster.network, routers)

    def config(self, cluster: Cluster) -> ConfigServer[Shard]:
        """Return the metadata of a sharded cluster."""
        return ConfigServer(cluster)

    async def ui(self, cluster: Cluster, port: int, token: str | None) -> Served:
        """Serve the verbs over HTTP, and the live page."""
        return await web.serve(cluster, port, token)


def new_process(node: Node) -> Process:
    """Return the parts of a new process. Raises `CommandError` for a bad start-up parameter."""
    is_mongos, profile = node.is_mongos, node.profile
    parameters = ServerParameters(profile, node.cluster.spec.parameters, is_mongos=is_mongos)
    admission = AdmissionControl(parameters, profile, cores=CORES, now=node.started_at)
    flow_monitor = FlowMonitor(node)
    admission.replenish_flow = flow_monitor.catch_up
    admission.on_queued = ProbingClock(node).wake
    return Process(
        parameters=parameters,
        fail_points=FailPointRegistry(
            node.rng.spawn(f"{node.name}/failpoints"), node.name, node.cluster.fail_point_uses
        ),
        admission=admission,
        gate=Gate(node),
        flow_monitor=flow_monitor,
        transaction_router=TransactionRouter() if is_mongos else None,
        shards=Shards(node) if is_mongos else None,
    )


def protocols(node: Node, door: Door) -> Callable[[], asyncio.Protocol]:
    """Return the maker of the protocol of a connection that comes by `door`.

    Raises `OSError` for files of TLS that cannot be used.
    """
    faults, tls = node.cluster.faults, node.cluster.spec.tls
    if tls is None or tls.mode == "disabled":
        make = faults.guarded(lambda: Connection(node, door))
    else:
        context = tls.context()
        node.tls_contexts.append(context)
        make = faults.guarded(lambda: Connection(node, door), behind_tls(tls, context))
    if door is not Door.PROXY:
        return make

    def refused(peer: str, reason: str) -> None:
        node.gate.refuse_header(peer, reason)  # each process has a gate of its own

    return lambda: ProxyLayer(make(), refused)


def log_bug(request: RequestContext, bug: Exception) -> None:
    """Log an exception that no stage should have let out; the client gets an InternalError."""
    node, context = request.node, request.connection.thread_name
    attr = {"error": repr(bug), "command": request.name}
    node.log.write("COMMAND", 4622103, "Unexpected error", severity="E", context=context, attr=attr)
    _LOGGER.error("%s failed on %s", request.name or "a request", node.name, exc_info=bug)


# The start of a deployment: what `fakeserver.start` returns.
#
# What a server is made of is imported when one starts: who imports `fakeserver` may want a spec and no more.

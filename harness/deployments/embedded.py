"""The embedded deployment: our fake servers, started for a run, on whichever clock and network it has."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import driver
import fakeserver
from driver.errors import NetworkError, ServerError
from fakeserver import ClusterSpec, UserSpec
from fakeserver.commands.administration.parameters import values
from fakeserver.network.wire_tap import WireTap
from fakeserver.profile import DEFAULT_PROFILE
from harness.adapters.base import next_seq
from harness.adapters.deployment import Topology
from harness.world.disturbed import DisturbedNetwork

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from driver import AsyncClient
    from fakeserver.deployment.cluster import Cluster
    from fakeserver.deployment.records.journal import Journal
    from fakeserver.network.wire_record import WireRecord
    from mongowire.ports import Clock, Network, Rng

SERVED: Final = (Topology.SINGLE, Topology.REPLICA_SET, Topology.SHARDED, Topology.LOAD_BALANCED)
"""The topologies that the fake server can play."""


@dataclass(kw_only=True)
class EmbeddedDeployment:
    """A running fake deployment, as the runner sees it (`harness.adapters.deployment.Deployment`)."""

    cluster: Cluster
    topology: Topology
    clock: Clock
    rng: Rng
    ports: Network
    virtual: bool
    wire_record: WireRecord
    auth: bool = False
    seeds: tuple[int, ...] = ()
    """The order in which connection strings name the servers, by their numbers; empty for the usual one."""
    clients: dict[str, AsyncClient] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """The connection string of the whole deployment, of one mongos where there are several."""
        return in_order(self.cluster.uri_single, self.seeds)

    @property
    def uri_multi(self) -> str:
        """The connection string of every mongos, or of the load balancer of all."""
        return in_order(self.cluster.uri, self.seeds)

    @property
    def server_version(self) -> tuple[int, ...]:
        """The answer of `buildInfo`, without a message: one would count among those of the case."""
        return tuple(self.cluster.nodes[0].profile.version_array[:3])

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """The answer of `getParameter`, likewise."""
        return {name: value for name, value, *_ in values(self.cluster.nodes[0])}

    @property
    def addresses(self) -> tuple[str, ...]:
        """`host:port` of every server that clients speak to."""
        return tuple(node.address for node in self.cluster.nodes)

    @property
    def doors(self) -> tuple[str, ...]:
        """`host:port` of everything that clients connect to, in the order of `servers`."""
        return tuple(door.address for door in self.cluster.balancers or self.cluster.nodes)

    @property
    def ends_with_case(self) -> bool:
        """Whether each case has servers of its own, as in virtual time."""
        return self.virtual

    @property
    def is_marked(self) -> bool:
        """Whether a case has left rules for requests, another primary, or commands that run.

        A case that is skipped in its middle leaves its rules. Others speak of node0 as the primary that every
        deployment begins with. A server goes on with a command whose client has given up: what is blocked now
        would write into the next case.
        """
        if self.cluster.rules.entries or any(
            each.primary is not each.nodes[0] for each in self.cluster.shards
        ):
            return True
        waiting = (request for node in self.cluster.nodes for _, request in node.waiting())
        return any(each.spec.kind != "internal" for each in waiting)

    @property
    def network(self) -> Network | None:
        """The network in memory; None in real time, where clients come over TCP."""
        return self.ports if self.virtual else None

    @property
    def journal(self) -> Journal:
        """The journal of the servers."""
        return self.cluster.journal

    async def admin(
        self, database: str, command: Mapping[str, Any], *, address: str | None = None
    ) -> Mapping[str, Any]:
        """Run a command on one member; return its reply, whatever its `ok` is.

        Without `address` it is the primary, and while there is none, the first member.
        """
        nodes = self.cluster.nodes
        primary = next((node.address for node in nodes if node.is_primary), nodes[0].address)
        server = address or primary
        if server not in self.clients:
            user = "{}:{}@".format(*_ADMINISTRATOR) if self.auth else ""
            self.clients[server] = driver.AsyncClient(
                f"mongodb://{user}{server}/?directConnection=true&appName=harness&serverMonitoringMode=poll",
                network=self.ports,
                clock=self.clock,
                rng=self.rng.spawn(f"admin/{server}"),
            )
        client = self.clients[server]
        try:
            try:
                return await client.command(database, command)
            except NetworkError:
                # A case may have restarted the server, which closed the connection that lay in the pool.
                return await client.command(database, command)
        except ServerError as error:
            return error.response

    def with_rng(self, rng: Rng) -> EmbeddedDeployment:
        """Return the same servers with another random number generator, so that session ids are new."""
        return replace(self, rng=rng)

    async def recover(self) -> bool:
        """Return False: other servers are cheaper to start than these are to clean, and safer."""
        return False

    def with_seeds(self, order: tuple[int, ...]) -> EmbeddedDeployment:
        """Return the same servers, which connection strings name in another order."""
        return replace(self, seeds=order)

    async def aclose(self) -> None:
        """Close our own clients; the servers belong to `embedded`."""
        for client in self.clients.values():
            await client.aclose()
        self.clients.clear()


def in_order(uri: str, order: tuple[int, ...]) -> str:
    """Return a connection string with its hosts in another order; unchanged if their number differs."""
    before, at, after = uri.partition("://")[2].rpartition("@")
    hosts, slash, options = after.partition("/")
    named = hosts.split(",")
    if len(named) != len(order):
        return uri
    return f"mongodb://{before}{at}{','.join(named[number] for number in order)}{slash}{options}"


def servers(topology: Topology) -> tuple[str, ...]:
    """Return the names of everything that clients of an embedded deployment connect to."""
    spec = _spec(topology, auth=False)
    if spec.balancers:
        return tuple(f"balancer{number}" for number in range(spec.balancers))
    if spec.mongos:
        return tuple(f"mongos{number}" for number in range(spec.mongos))
    return tuple(f"node{number}" for number in range(len(spec.member_specs)))


@asynccontextmanager
async def embedded(
    topology: Topology,
    *,
    clock: Clock,
    network: Network,
    rng: Rng,
    virtual: bool,
    auth: bool = False,
    profile: str = DEFAULT_PROFILE,
    wire: bool = False,
    scenario: str = "",
) -> AsyncIterator[EmbeddedDeployment]:
    """Run a fake deployment of a topology that is `SERVED`, of a release, while the block runs.

    With `auth` it has one user with all privileges, whom its connection strings name. With `wire` its journal
    has every message. `scenario` is the file or the name of a scenario for servers; its rules and faults are
    in force, and its timeline begins, when the servers are prepared. Raises `ScenarioFileError`.
    """
    from fakeserver.network.wire_record import WireRecord  # noqa: PLC0415 - a help text needs no server

    tap = WireTap(network, clock)
    record = WireRecord(
        tap if wire else network,
        clock,
        next_seq,
        round_trip=getattr(network, "round_trip", None),
        is_disturbed=isinstance(network, DisturbedNetwork),
    )

    spec = _spec(topology, auth=auth, profile=profile)
    script = fakeserver.load_scenario(scenario, spec=spec) if scenario else None
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(
            fakeserver.start(
                spec if script is None else script.spec,
                network=record,
                clock=clock,
                rng=rng.spawn("cluster"),
            )
        )
        names = {node.address: node.name for node in cluster.servers}
        names |= {balancer.address: f"balancer{number}" for number, balancer in enumerate(cluster.balancers)}
        tap.names = {int(address.rpartition(":")[2]): name for address, name in names.items()}
        tap.journal = cluster.journal
        deployment = EmbeddedDeployment(
            cluster=cluster,
            topology=topology,
            clock=clock,
            rng=rng,
            ports=network,
            virtual=virtual,
            wire_record=record,
            auth=auth,
        )
        stack.push_async_callback(deployment.aclose)
        if script is not None:
            await script.begin(cluster)
        yield deployment


def check_scenario(scenario: str, topology: Topology, *, auth: bool, profile: str) -> None:
    """Check a scenario for servers on a deployment. Raises `ControlError`, `ScenarioFileError` as one."""
    fakeserver.load_scenario(scenario, spec=_spec(topology, auth=auth, profile=profile))


def _spec(topology: Topology, *, auth: bool, profile: str = DEFAULT_PROFILE) -> ClusterSpec:
    facts: dict[str, Any] = {
        "parameters": _PARAMETERS,
        "auth": auth,
        "users": (UserSpec(*_ADMINISTRATOR),) if auth else (),
        "profile": profile,
    }
    if topology is Topology.SINGLE:
        return ClusterSpec.standalone(**facts)
    if topology is Topology.SHARDED:
        return ClusterSpec.sharded(mongos=2, **facts)
    if topology is Topology.LOAD_BALANCED:
        return ClusterSpec.load_balanced(mongos=2, **facts)
    return ClusterSpec.replica_set(3, **facts)


_ADMINISTRATOR: Final = ("bob", "pwd123")
"""The user and the password of the drivers' evergreen tools, which suites have as their default."""

_PARAMETERS: Final = {"enableTestCommands": True}

"""Servers behind a connection string, usually real ones, which the harness has not started.

Unified Test Format: Initializing the Test Runner. All that is known of the servers is their replies, and
nothing that a case leaves on them goes away by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from harness.adapters.deployment import Topology
from harness.adapters.pymongo import ChannelError
from harness.deployments.targets import name_of
from harness.unified.errors import ScenarioError
from harness.unified.requirements import version_of
from harness.unified.state import kill_all_sessions
from harness.unified.uri import ConnectionString
from harness.world import cancelling
from mongowire.system import SystemClock, fresh_rng

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from harness.adapters.deployment import Deployment
    from harness.adapters.pymongo.channel import Channel
    from mongowire.ports import Clock, Rng


# The survey of servers by URI: topology, version, access control and parameters, as far as they reply.
#
# Unified Test Format: Initializing the Test Runner, runOnRequirement.


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
    if load_balanced:
        topology = Topology.LOAD_BALANCED
    elif hello.get("msg") == "isdbgrid":
        topology = Topology.SHARDED
    elif hello.get("isreplicaset"):
        raise DeploymentError("the replica set of the server is not initiated yet (replSetInitiate)")
    elif not hello.get("isWritablePrimary"):
        raise DeploymentError(
            f"{hello.get('me', 'the server')} takes no writes, its primary is {hello.get('primary')}:"
            " name that one, or leave out directConnection"
        )
    else:
        topology = Topology.REPLICA_SET if "setName" in hello else Topology.SINGLE
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


async def _auth(ask: Ask) -> bool:
    """Return whether clients authenticate. Raises `DeploymentError` when they must and cannot."""
    status = await ask("admin", {"connectionStatus": 1})
    if status.get("authInfo", {}).get("authenticatedUsers"):
        return True
    reply = await ask("admin", {"listDatabases": 1, "nameOnly": True})
    if reply.get("code") == _UNAUTHORIZED:
        raise DeploymentError("the server requires authentication: name a user in the connection string")
    return False


FAIL_POINTS: Final = ("failCommand", "failGetMoreAfterCursorCheckout", "onPrimaryTransactionalWrite")
"""The fail points of scenarios, which an earlier run that was cut off may have left on."""

_COMMAND_NOT_FOUND: Final = 59


@dataclass(kw_only=True)
class ExternalDeployment:
    """Servers by connection string, as the runner sees them (`harness.adapters.deployment.Deployment`)."""

    channel: Channel
    uri: str
    uri_multi: str
    topology: Topology
    clock: Clock
    rng: Rng
    server_version: tuple[int, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    auth: bool = False
    addresses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ends_with_case: Final = False
    is_marked: Final = False
    network: None = None
    journal: None = None
    wire_record: None = None
    fail_points: dict[str, None] = field(default_factory=lambda: dict.fromkeys(FAIL_POINTS))
    """The fail points that may be on, in the order of their commands."""

    async def admin(
        self, database: str, command: Mapping[str, Any], *, address: str | None = None
    ) -> Mapping[str, Any]:
        """Run a command on the primary, the first mongos or the server at `address`; `ok` may be anything.

        Raises `ChannelError` when there is no reply.
        """
        if "configureFailPoint" in command:
            self.fail_points[command["configureFailPoint"]] = None
        return await self.channel.command(self._uri_of(address), database, command)

    def with_rng(self, _rng: Rng) -> ExternalDeployment:
        """Return the same servers with a generator that is seeded by the operating system.

        A generator of the run's seed would give the session ids of an earlier run, and the servers would take
        new writes for retries of the old ones.
        """
        return replace(self, rng=fresh_rng("drivers"))

    async def recover(self) -> bool:
        """Turn fail points off and kill all sessions; return whether every server answered."""
        # Fail points first: one that is still on could make killAllSessions fail.
        all_answered = True
        for address in self.addresses:  # also after one that does not answer: its neighbours are used again
            try:
                for name in self.fail_points:
                    await self.admin("admin", {"configureFailPoint": name, "mode": "off"}, address=address)
            except ChannelError:
                all_answered = False
        if not all_answered:
            return False
        try:
            await kill_all_sessions(self)
        except ChannelError:
            return False
        except ScenarioError as error:
            self.notes = tuple(dict.fromkeys((*self.notes, error.message)))
        return True

    def _uri_of(self, address: str | None) -> str:
        """Return the connection string of one server, or of the deployment for None."""
        if address is None:
            return self.uri
        string = ConnectionString.of(self.uri)
        doors = {door.hosts[0]: door for door in (string, ConnectionString.of(self.uri_multi))}
        if self.topology is Topology.LOAD_BALANCED and address in doors:
            return str(doors[address])
        # Credentials and TLS options stay: they are the same for all servers. IPv6 needs brackets in a URI.
        host, _, port = address.rpartition(":")
        bracketed = f"[{host}]:{port}" if ":" in host and not host.startswith("[") else address
        one = string.without("replicaSet", "loadBalanced").at(bracketed)
        return str(one.having([("directConnection", "true")]))


@asynccontextmanager
async def external(
    uri: str, uri_multi: str = "", *, clock: Clock, rng: Rng
) -> AsyncIterator[ExternalDeployment]:
    """Yield the deployment behind connection strings; when the block ends, its fail points are off.

    `uri_multi` names several mongos, or the load balancer in front of several; where it is empty, `uri` names
    all of them. Raises `DeploymentError` within seconds when nobody answers.
    """
    from harness.adapters.pymongo.channel import Channel, resolved  # noqa: PLC0415 - PyMongo is slow to import

    channel = Channel()
    try:
        one, several = await resolved(uri), (await resolved(uri_multi) if uri_multi else "")
        deployment = await _introduced(channel, one, several, clock=clock, rng=rng)
    except (ChannelError, DeploymentError) as error:
        await channel.aclose()
        raise DeploymentError(f"{ConnectionString.of(uri).redacted()}: {error}") from error
    except BaseException:
        await channel.aclose()
        raise
    try:
        yield deployment
    finally:
        await deployment.recover()
        await channel.aclose()


async def _introduced(
    channel: Channel, uri: str, uri_multi: str, *, clock: Clock, rng: Rng
) -> ExternalDeployment:
    """Return a deployment that has been surveyed and cleaned."""
    one, multi = ConnectionString.of(uri), ConnectionString.of(uri_multi or uri)
    surveyed = await survey(partial(channel.command, str(one)), load_balanced=one.is_on("loadBalanced"))
    if uri_multi and not surveyed.topology.has_mongos:
        raise DeploymentError(
            f"a connection string of several mongos has no use: the topology is {surveyed.topology}"
        )
    deployment = ExternalDeployment(
        channel=channel,
        uri=str(_one_door(one, surveyed)),
        uri_multi=str(multi if surveyed.topology.has_mongos else _one_door(one, surveyed)),
        topology=surveyed.topology,
        clock=clock,
        rng=rng,
        server_version=surveyed.server_version,
        parameters=surveyed.parameters,
        auth=surveyed.auth,
        notes=surveyed.notes,
    )
    deployment.addresses, notes = await servers_of(deployment, surveyed)
    deployment.notes += notes
    await _try_fail_points(deployment)
    if not await deployment.recover():
        raise DeploymentError("a server has stopped answering")
    return deployment


def _one_door(string: ConnectionString, surveyed: DeploymentSurvey) -> ConnectionString:
    """Return the string with its first mongos alone, or with the primary, if it is known, before all others.

    A client with `directConnection` connects to the first host.
    """
    if surveyed.topology is Topology.SHARDED:
        return string.at(string.hosts[0])
    if surveyed.primary is None or string.is_on("directConnection"):
        return string
    return string.at(*dict.fromkeys((surveyed.primary, *string.hosts)))


async def _try_fail_points(deployment: ExternalDeployment) -> None:
    """Find out whether fail points can be set at all, by turning one off."""
    off = {"configureFailPoint": "failCommand", "mode": "off"}
    for address in deployment.addresses:
        reply = await deployment.admin("admin", off, address=address)
        if not reply.get("ok"):
            deployment.parameters = {**deployment.parameters, "enableTestCommands": False}
            why = (
                "start it with --setParameter enableTestCommands=1"
                if reply.get("code") == _COMMAND_NOT_FOUND
                else reply.get("errmsg")
            )
            note = f"{address} takes no fail points, so cases that set one are skipped: {why}"
            deployment.notes += (note,)
            return


# The servers behind a connection string that a run can reach one by one.
#
# On these, fail points are turned off and sessions are killed: every server that a driver may have connected
# to, and no other.

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


# Connection strings of servers to run on, from the command line or the environment.
#
# A run drops collections. The environment alone therefore never chooses servers: the user has to write `env`.


ENVIRONMENT: Final = "env"
"""The word that stands for the connection strings of the environment."""

VARIABLE: Final = "MONGODB_URI"
_BALANCERS: Final = ("SINGLE_MONGOS_LB_URI", "MULTI_MONGOS_LB_URI")
_CHOOSES_BALANCERS: Final = "LOAD_BALANCER"


@dataclass(frozen=True, slots=True)
class ExternalUris:
    """Connection strings: of one mongos or a whole deployment, and of all mongos where the two differ."""

    uri: str
    uri_multi: str = ""

    @classmethod
    def of(
        cls, uri: str | None, uri_multi: str | None, environment: Mapping[str, str]
    ) -> ExternalUris | None:
        """Return the connection strings that the user named, None without any.

        `environment` is read when `uri` is `env`. Raises `ValueError` for a contradiction.
        """
        if (
            uri == "" or uri_multi == ""
        ):  # a variable that is not set, as a rule: no reason to start fake servers
            raise ValueError("a connection string is empty")
        if uri is None:
            if uri_multi is not None:
                raise ValueError("the connection string of several mongos needs that of one")
            return None
        if uri != ENVIRONMENT:
            return cls(uri, uri_multi or "")
        if uri_multi:
            raise ValueError(f"'{ENVIRONMENT}' names all connection strings: give no other one")
        # The variables of the drivers' own suites. Both kinds may be set; LOAD_BALANCER says which counts.
        single, multi = (environment.get(name, "") for name in _BALANCERS)
        balanced = bool(single or multi)
        if environment.get(VARIABLE) and not (balanced and environment.get(_CHOOSES_BALANCERS) == "true"):
            return cls(environment[VARIABLE])
        if not balanced:
            raise ValueError(f"none of {VARIABLE}, {' and '.join(_BALANCERS)} is set in the environment")
        return cls(single or multi, multi or single)


@dataclass(frozen=True, slots=True)
class Introduction:
    """A deployment's name in results, and lines that announce it to the user."""

    target: str
    lines: tuple[str, ...]


def introduce(uris: ExternalUris) -> Introduction:
    """Ask a deployment for topology and version, outside of any event loop. Raises `DeploymentError`."""

    async def ask() -> Introduction:
        clock, rng = SystemClock(), fresh_rng("introduction")
        async with external(uris.uri, uris.uri_multi, clock=clock, rng=rng) as deployment:
            version = ".".join(map(str, deployment.server_version))
            where = ConnectionString.of(deployment.uri_multi).redacted()
            lines = (
                f"on {name_of(deployment)}, MongoDB {version}, at {where}",
                "  the collections that scenarios name are dropped there",
                *(f"  {note}" for note in deployment.notes),
            )
            return Introduction(name_of(deployment), lines)

    return cancelling.run(ask())

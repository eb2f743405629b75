"""A deployment that somebody else runs: servers behind a connection string, real ones for instance.

Unified Test Format: Initializing the Test Runner. Nothing is known of the servers but what they say, and
nothing that a case leaves on them goes away by itself.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from harness.survey import DeploymentError, survey
from harness.unified.deployment import Topology
from harness.unified.errors import ScenarioError
from harness.unified.state import kill_all_sessions
from harness.unified.uri import ConnectionString
from mongowire.system import fresh_rng

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from harness.adapters.pymongo_channel import Channel
    from harness.survey import Survey
    from mongowire.ports import Clock, Rng

FAIL_POINTS: Final = ("failCommand", "failGetMoreAfterCursorCheckout", "onPrimaryTransactionalWrite")
"""Those that scenarios use, and that a run which was cut off may have left on."""

_COMMAND_NOT_FOUND: Final = 59


@dataclass(kw_only=True)
class ExternalDeployment:
    """Servers by connection string, as the runner sees them (`harness.unified.deployment.Deployment`)."""

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
    network: None = None
    journal: None = None
    fail_points: dict[str, None] = field(default_factory=lambda: dict.fromkeys(FAIL_POINTS))
    """What may be on, in the order in which it was heard of."""

    async def admin(
        self, database: str, command: Mapping[str, Any], *, address: str | None = None
    ) -> Mapping[str, Any]:
        """Run a command on the primary, the first mongos or the server at `address`; `ok` may be anything.

        Raises `ChannelError` when there is no reply.
        """
        if "configureFailPoint" in command:
            self.fail_points[command["configureFailPoint"]] = None
        return await self.channel.command(self._way_to(address), database, command)

    def with_dice(self, rng: Rng) -> ExternalDeployment:
        """Return the same servers with dice that nobody has had.

        A seed's would give the session ids of an earlier run, whose writes the servers remember.
        """
        del rng
        return replace(self, rng=fresh_rng("drivers"))

    async def recover(self) -> bool:
        """Turn fail points off and kill all sessions; return whether every server answered."""
        answered = [await self._turn_fail_points_off(address) for address in self.addresses]
        return all(answered) and await self._kill_sessions()

    async def _turn_fail_points_off(self, address: str) -> bool:
        from harness.adapters.pymongo_channel import ChannelError  # noqa: PLC0415 - see `external`

        try:
            for name in self.fail_points:
                await self.admin("admin", {"configureFailPoint": name, "mode": "off"}, address=address)
        except ChannelError:
            return False
        return True

    async def _kill_sessions(self) -> bool:
        from harness.adapters.pymongo_channel import ChannelError  # noqa: PLC0415 - see `external`

        try:
            await kill_all_sessions(self)
        except ChannelError:
            return False
        except ScenarioError as error:
            self.notes = tuple(dict.fromkeys((*self.notes, error.message)))
        return True

    def _way_to(self, address: str | None) -> str:
        if address is None:
            return self.uri
        string = ConnectionString.of(self.uri)
        doors = {door.hosts[0]: door for door in (string, ConnectionString.of(self.uri_multi))}
        if self.topology is Topology.LOAD_BALANCED and address in doors:
            return str(doors[address])
        return str(_straight_to(string, address))


def _straight_to(string: ConnectionString, address: str) -> ConnectionString:
    """Return the connection string of one server: what it takes to get in is the same for all."""
    plain = string.without("replicaSet", "loadBalanced").at(_bracketed(address))
    return plain.having([("directConnection", "true")])


def _bracketed(address: str) -> str:
    """Return an address as connection strings have it; drivers say `::1:27017` too."""
    host, _, port = address.rpartition(":")
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else address


@asynccontextmanager
async def external(
    uri: str, uri_multi: str = "", *, clock: Clock, rng: Rng
) -> AsyncIterator[ExternalDeployment]:
    """Yield the deployment behind connection strings; when the block ends, its fail points are off.

    `uri_multi` is of several mongos, or of the load balancer of several; where it is not given, `uri` is of
    all of them. Raises `DeploymentError` when they lead nowhere, in seconds.
    """
    from harness.adapters.pymongo_channel import Channel, ChannelError  # noqa: PLC0415 - most runs have none

    channel = Channel()
    try:
        deployment = await _introduced(channel, uri, uri_multi, clock=clock, rng=rng)
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
    """Return a deployment that has been asked about itself, and cleaned."""
    from harness.adapters.pymongo_channel import resolved  # noqa: PLC0415 - see `external`
    from harness.servers import servers_of  # noqa: PLC0415 - see `external`

    one, multi = (
        ConnectionString.of(await resolved(uri)),
        ConnectionString.of(await resolved(uri_multi or uri)),
    )
    said = await survey(partial(channel.command, str(one)), load_balanced=one.is_on("loadBalanced"))
    if uri_multi and not said.topology.has_mongos:
        raise DeploymentError(
            f"a connection string of several mongos is of no use: this is a {said.topology}"
        )
    deployment = ExternalDeployment(
        channel=channel,
        uri=str(_one_door(one, said)),
        uri_multi=str(multi if said.topology.has_mongos else _one_door(one, said)),
        topology=said.topology,
        clock=clock,
        rng=rng,
        server_version=said.server_version,
        parameters=said.parameters,
        auth=said.auth,
        notes=said.notes,
    )
    deployment.addresses, notes = await servers_of(deployment, said)
    deployment.notes += notes
    await _try_fail_points(deployment)
    if not await deployment.recover():
        raise DeploymentError("a server has stopped to answer")
    return deployment


def _one_door(string: ConnectionString, said: Survey) -> ConnectionString:
    """Return the string with its first mongos alone, or with the primary, if it is known, before all others.

    A client with `directConnection` takes the first host.
    """
    if said.topology is Topology.SHARDED:
        return string.at(string.hosts[0])
    if said.primary is None or string.is_on("directConnection"):
        return string
    return string.at(*dict.fromkeys((said.primary, *string.hosts)))


async def _try_fail_points(deployment: ExternalDeployment) -> None:
    """Find out whether fail points can be set at all, by turning off what should not be on."""
    off = {"configureFailPoint": "failCommand", "mode": "off"}
    for address in deployment.addresses:
        reply = await deployment.admin("admin", off, address=address)
        if not reply.get("ok"):
            deployment.parameters = {**deployment.parameters, "enableTestCommands": False}
            deployment.notes += (_without_fail_points(address, reply),)
            return


def _without_fail_points(address: str, reply: Mapping[str, Any]) -> str:
    why = (
        "start it with --setParameter enableTestCommands=1"
        if reply.get("code") == _COMMAND_NOT_FOUND
        else reply.get("errmsg")
    )
    return f"{address} takes no fail points, so cases that set one are skipped: {why}"

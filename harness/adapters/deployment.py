"""The port of deployments: the requests of the runner to the servers under test.

Adapters take from it how to reach the servers: `uri`, or clock, network and random numbers in virtual time.
The runner takes the facts that decide whether a case applies, and `admin`, by which it prepares data and fail
points without the driver under test. `harness.deployments` has the two that there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mongowire.ports import Clock, Network, Rng


class Topology(StrEnum):
    """The topologies of `runOnRequirement`, under the format's names."""

    SINGLE = "single"
    REPLICA_SET = "replicaset"
    SHARDED = "sharded"
    SHARDED_REPLICA_SET = "sharded-replicaset"
    LOAD_BALANCED = "load-balanced"

    @property
    def has_mongos(self) -> bool:
        """Return whether clients talk to mongos."""
        return self in _BEHIND_MONGOS


_BEHIND_MONGOS = (Topology.SHARDED, Topology.SHARDED_REPLICA_SET, Topology.LOAD_BALANCED)


class Deployment(Protocol):
    """Running servers, with a way to command them that is not the driver under test.

    Unified Test Format: Initializing the Test Runner. An embedded fake deployment and a connection string
    given by the user are both one of these.
    """

    @property
    def uri(self) -> str:
        """The connection string: of a single mongos (or load balancer) where there is a choice."""
        ...

    @property
    def uri_multi(self) -> str:
        """The connection string of every mongos; equal to `uri` where there is no choice."""
        ...

    @property
    def topology(self) -> Topology:
        """The kind of deployment. A sharded one over replica sets is `SHARDED_REPLICA_SET`."""
        ...

    @property
    def server_version(self) -> tuple[int, ...]:
        """The three numbers of `buildInfo.versionArray`."""
        ...

    @property
    def auth(self) -> bool:
        """Whether clients must authenticate."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The reply to `getParameter: "*"`."""
        ...

    @property
    def addresses(self) -> Sequence[str]:
        """`host:port` of every server that a client may reach: data-bearing members, or each mongos."""
        ...

    @property
    def ends_with_case(self) -> bool:
        """Whether the servers serve one case and end with it: nobody will meet what it leaves behind."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock of everything that waits: the wall's, or a virtual one."""
        ...

    @property
    def network(self) -> Network | None:
        """The network of a deployment in virtual time; None when clients come over TCP."""
        ...

    @property
    def rng(self) -> Rng:
        """The random numbers of the run."""
        ...

    @property
    def journal(self) -> Any:
        """The server's journal, or None when the servers are not ours."""
        ...

    @property
    def wire_record(self) -> Any:
        """The servers' record of what clients did (`WireRecord`), or None when the servers are not ours."""
        ...

    async def admin(
        self, database: str, command: Mapping[str, Any], *, address: str | None = None
    ) -> Mapping[str, Any]:
        """Run a command on the server at `address`, by default on the primary or the first mongos.

        The reply is returned whatever its `ok` is, so that callers can tolerate what they expect.
        """
        ...


# Facts about servers that run no more: enough to say that a case is skipped on others like them.


# `requirements` asks whether there is a network or a record, never what is in it.
_THERE: Final = object()


@dataclass(frozen=True, slots=True)
class KnownServers:
    """The facts of a deployment that decide whether a case applies (`harness.unified.requirements`).

    They hold for every deployment of the same topology, release and parameters. The servers themselves are
    not kept: in the place of their network and their record stands whether they have one.
    """

    topology: Topology
    server_version: tuple[int, ...]
    auth: bool
    parameters: Mapping[str, Any]
    network: object | None
    wire_record: object | None

    @classmethod
    def of(cls, deployment: Deployment) -> Self:
        """Return the facts of running servers."""
        return cls(
            topology=deployment.topology,
            server_version=deployment.server_version,
            auth=deployment.auth,
            parameters=deployment.parameters,
            network=None if deployment.network is None else _THERE,
            wire_record=None if deployment.wire_record is None else _THERE,
        )

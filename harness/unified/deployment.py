"""The port of deployments: the requests of the runner to the servers under test."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

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

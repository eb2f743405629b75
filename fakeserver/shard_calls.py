"""What a mongos has of its shards: a client of each, and the connections that shards see it by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.admission.invocations import RELEASING
from fakeserver.admission.shard_retries import RetryParameters, ShardClient
from fakeserver.connection_state import ConnectionState

if TYPE_CHECKING:
    from fakeserver.admission.rate_limiter import Reserved
    from fakeserver.admission.shard_retries import ShardOperation
    from fakeserver.failpoints import CommandFault
    from fakeserver.node import Node
    from fakeserver.parameters import ServerParameters
    from fakeserver.shard import Shard

PARAMETERS: Final = frozenset(
    {
        *("defaultClientMaxRetryAttempts", "defaultClientBaseBackoffMillis"),
        *("defaultClientMaxBackoffMillis", "shardRetryTokenBucketCapacity", "shardRetryTokenReturnRate"),
    }
)
"""The parameters that `Shards.reconfigure` reads."""
_POOL: Final = "NetworkInterfaceTL-TaskExecutorPool-0"
"""The application that a mongos sends its clients' commands as."""
_FIXED: Final = "NetworkInterfaceTL-Sharding-Fixed"
"""The application that it ends transactions as."""


def retry_parameters(own: ServerParameters) -> RetryParameters:
    """Read what a mongos is set to."""
    return RetryParameters(
        max_attempts=own["defaultClientMaxRetryAttempts"],
        base_backoff=own["defaultClientBaseBackoffMillis"] / 1000,
        max_backoff=own["defaultClientMaxBackoffMillis"] / 1000,
        capacity=own["shardRetryTokenBucketCapacity"],
        return_rate=own["shardRetryTokenReturnRate"],
    )


class Shards:
    """The shards as one mongos knows them."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._clients: dict[str, ShardClient] = {}
        self._connections: dict[tuple[Node, str], ConnectionState] = {}

    def client(self, shard: Shard) -> ShardClient:
        """Return the client of a shard."""
        client = self._clients.get(shard.name)
        if client is None:
            client = self._clients[shard.name] = ShardClient(retry_parameters(self._node.parameters))
        return client

    def reconfigure(self) -> None:
        """Take changed parameters into account."""
        for client in self._clients.values():
            client.reconfigure(retry_parameters(self._node.parameters))

    def connection(self, target: Node, command: str) -> ConnectionState:
        """Return what a member of a shard knows of the connection that a command comes by."""
        name = _FIXED if command in RELEASING else _POOL
        known = self._connections.get((target, name))
        if known is None:
            host, _, port = self._node.address.rpartition(":")
            peer = f"{'127.0.0.1' if host == 'localhost' else host}:{port}"
            known = ConnectionState(0, peer, self._node.clock.now())
            known.metadata = {"application": {"name": name}, "driver": {"name": name, "version": ""}}
            self._connections[target, name] = known
        return known

    def stats(self) -> dict[str, Any]:
        """Return `shardingStatistics.shards`."""
        return {shard.name: self.client(shard).stats() for shard in self._node.cluster.shards}


class ShardCall:
    """A command on its way to a shard: where it is, and what it waits for there."""

    def __init__(self, client: ShardClient) -> None:
        self.client = client
        self.operation: ShardOperation = client.begin()
        self.target: Node | None = None
        """The server that has it, None while it is with the mongos."""
        self.refused_by: Node | None = None
        """The server that refused the last attempt."""
        self.retry_at: float | None = None
        self.fault: CommandFault | None = None
        self.blocked_until = 0.0
        self.reservation: Reserved | None = None
        """Its token on credit, at that server."""
        self.queued = False
        """Whether it waits for that token."""

    def withdraw(self) -> None:
        """Give back the token that was not used."""
        if self.reservation is not None and self.target is not None:
            limiter = self.target.admission.requests
            (limiter.interrupt if self.queued else limiter.drop)()
        self.reservation, self.queued, self.target, self.fault = None, False, None, None

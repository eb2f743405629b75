"""The shards as a mongos knows them: a client of each, and the connections by which their members know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.access.session import ConnectionState
from fakeserver.admission.invocations import RELEASING
from fakeserver.admission.shard_retries import RetryParameters, ShardClient

if TYPE_CHECKING:
    from fakeserver.deployment.server import Named, Server

PARAMETERS: Final = frozenset(
    {
        *("defaultClientMaxRetryAttempts", "defaultClientBaseBackoffMillis"),
        *("defaultClientMaxBackoffMillis", "shardRetryTokenBucketCapacity", "shardRetryTokenReturnRate"),
    }
)
"""The parameters that `Shards.reconfigure` reads."""
_POOL: Final = "NetworkInterfaceTL-TaskExecutorPool-0"
"""The application name with which a mongos sends its clients' commands."""
_FIXED: Final = "NetworkInterfaceTL-Sharding-Fixed"
"""The application name with which it ends transactions."""


def retry_parameters(node: Server) -> RetryParameters:
    """Return the retry parameters of a mongos."""
    own = node.parameters
    return RetryParameters(
        max_attempts=own["defaultClientMaxRetryAttempts"],
        base_backoff=own["defaultClientBaseBackoffMillis"] / 1000,
        max_backoff=own["defaultClientMaxBackoffMillis"] / 1000,
        capacity=own["shardRetryTokenBucketCapacity"],
        return_rate=own["shardRetryTokenReturnRate"],
        counts_when_sent=node.profile.hints_backoff,
    )


class Shards:
    """The shards as one mongos knows them."""

    def __init__(self, node: Server) -> None:
        self._node = node
        self._clients: dict[str, ShardClient] = {}
        self._connections: dict[tuple[Named, str], ConnectionState] = {}

    def client(self, shard: Named) -> ShardClient:
        """Return the client of a shard."""
        client = self._clients.get(shard.name)
        if client is None:
            client = self._clients[shard.name] = ShardClient(retry_parameters(self._node))
        return client

    def forget(self) -> None:
        """Forget what was learnt of the shards: each has all its tokens for retries again."""
        self._clients.clear()

    def reconfigure(self) -> None:
        """Take changed parameters into account."""
        for client in self._clients.values():
            client.reconfigure(retry_parameters(self._node))

    def connection(self, target: Named, command: str) -> ConnectionState:
        """Return the state of the mongos's connection for a command, as a member of a shard has it."""
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

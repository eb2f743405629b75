"""A fake MongoDB deployment over the real wire protocol.

async with fakeserver.start(ClusterSpec.replica_set(3)) as cluster:
    client = AsyncMongoClient(cluster.uri)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fakeserver.spec import ClusterSpec, MemberSpec, Topology, UserSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

    from fakeserver.cluster import Cluster
    from fakeserver.tls import TlsSpec
    from mongowire.ports import Clock, Network, Rng

__all__ = ["ClusterSpec", "MemberSpec", "Starting", "TlsSpec", "Topology", "UserSpec", "start"]


def start(
    spec: ClusterSpec,
    *,
    network: Network | None = None,
    clock: Clock | None = None,
    rng: Rng | None = None,
    log_sink: Callable[[str], None] | None = None,
) -> Starting:
    """Start what `spec` describes, in an `async with`, or awaited for the running cluster.

    The ports default to TCP, the system's clock and dice seeded with the spec's seed; `log_sink` gets each
    line of the servers' logs. Awaiting raises `OSError` when a port is taken, and `CommandError` for a server
    parameter that a server would refuse; who awaits must `await cluster.stop()`.
    """
    return Starting(spec, network=network, clock=clock, rng=rng, log_sink=log_sink)


def __getattr__(name: str) -> Any:
    if name == "TlsSpec":  # it brings asyncio and ssl with it
        from fakeserver.tls import TlsSpec  # noqa: PLC0415

        return TlsSpec
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Starting:
    """A deployment that is about to start."""

    def __init__(self, spec: ClusterSpec, **ports: Any) -> None:
        self._spec = spec
        self._ports = ports
        self._cluster: Cluster | None = None

    async def _start(self) -> Cluster:
        # Here, because an importer of this package may not want a server yet, nor what it takes to run one.
        from fakeserver.cluster import Cluster  # noqa: PLC0415
        from mongowire.system import SeededRng, SystemClock, TcpNetwork  # noqa: PLC0415

        ports = self._ports
        self._cluster = Cluster(
            self._spec,
            network=ports["network"] or TcpNetwork(),
            clock=ports["clock"] or SystemClock(),
            rng=ports["rng"] or SeededRng(self._spec.seed),
            log_sink=ports["log_sink"],
        )
        return await self._cluster.start()

    def __await__(self) -> Generator[Any, None, Cluster]:
        return self._start().__await__()

    async def __aenter__(self) -> Cluster:
        return await self._start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cluster is not None:
            await self._cluster.stop()

"""The start of a deployment: what `fakeserver.start` returns.

What a server is made of is imported when one starts: who imports `fakeserver` may want a spec and no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from fakeserver.deployment.spec import ClusterSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType

    from fakeserver.control.scenario.model import Scenario
    from fakeserver.deployment.cluster import Cluster
    from mongowire.ports import Clock, Network, Rng


def start(
    spec: ClusterSpec | Scenario,
    *,
    network: Network | None = None,
    clock: Clock | None = None,
    rng: Rng | None = None,
    log_sink: Callable[[str], None] | None = None,
) -> Starting:
    """Start what `spec` describes, in an `async with`, or awaited for the running cluster.

    Of a scenario its data, rules and faults are in force, and its timeline begins, before anybody can connect
    by the URI. What the deployment refuses of it raises `ScenarioFileError`.

    The ports default to TCP, the system clock, and an `rng` with the seed of the spec; `log_sink` gets each
    line of the servers' logs. Awaiting raises `OSError` when a port is taken, and `CommandError` for a server
    parameter that a server would refuse; who awaits must `await cluster.stop()`.
    """
    return Starting(spec, network=network, clock=clock, rng=rng, log_sink=log_sink)


def spec_of(described: ClusterSpec | Scenario) -> ClusterSpec:
    """Return the description of a deployment. Raises `TypeError` for what is none."""
    spec = described if isinstance(described, ClusterSpec) else getattr(described, "spec", None)
    if not isinstance(spec, ClusterSpec):
        raise TypeError(
            f"a deployment is described by a ClusterSpec or a scenario, not by {described!r}:"
            " ClusterSpec.replica_set(3), or load_scenario(…)"
        )
    return spec


class Starting:
    """A deployment that is about to start."""

    def __init__(self, spec: ClusterSpec | Scenario, **ports: Any) -> None:
        self._scenario = None if isinstance(spec, ClusterSpec) else spec
        self._spec = spec_of(spec)
        self._ports = ports
        self._cluster: Cluster | None = None

    async def _start(self) -> Cluster:
        from fakeserver.assembly.assembling import assemble  # noqa: PLC0415 - it imports the whole server

        self._cluster = assemble(self._spec, **self._ports)
        cluster = await self._cluster.start()
        if self._scenario is not None:
            try:
                await self._scenario.begin(cluster)
            except BaseException:
                await cluster.stop()
                raise
        return cluster

    def __await__(self) -> Generator[Any, None, Cluster]:
        return self._start().__await__()

    def __enter__(self) -> NoReturn:
        raise TypeError(
            "fakeserver.start is for `async with`; without an event loop, use"
            " `with fakeserver.BackgroundCluster(spec) as server`"
        )

    def __exit__(self, *_: object) -> None:
        """Be found by `with`, which looks for it before it enters."""

    async def __aenter__(self) -> Cluster:
        return await self._start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._cluster is not None:
            await self._cluster.stop()

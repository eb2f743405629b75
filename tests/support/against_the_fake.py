"""The reference driver against the fake deployment in virtual time, with fail points and loaded dice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import fakeserver
from driver import EDITION_2026_02_20, AsyncClient
from harness.sim import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from driver import Edition
    from driver.collection import Collection
    from driver.events import DriverEvent, Listener
    from fakeserver import ClusterSpec
    from fakeserver.deployment.cluster import Cluster
    from harness.sim import World
    from mongowire.ports import Rng


@dataclass
class Scene:
    """A deployment, a client, and what the client published. `hooks` hear events too, at once."""

    world: World
    cluster: Cluster
    client: AsyncClient
    events: list[DriverEvent]
    hooks: list[Listener] = field(default_factory=list)

    @property
    def collection(self) -> Collection:
        return self.client.database("prose").collection("things")

    def fail(self, command: str, mode: Any, *labels: str, on: int | None = None, **data: Any) -> None:
        """Let a command fail on every server, or on the one with the given place."""
        nodes = self.cluster.nodes if on is None else [self.cluster.nodes[on]]
        given = {"failCommands": [command], "errorLabels": list(labels), **data}
        for node in nodes:
            node.configure_fail_point("failCommand", mode=mode, data=given)

    def of_kind(self, kind: str, command: str = "") -> list[Any]:
        """Return the events of a kind, of one command if it is named."""
        return [
            event
            for event in self.events
            if event.kind == kind and (not command or getattr(event, "command_name", "") == command)
        ]

    def kinds(self, *prefixes: str) -> list[str]:
        return [event.kind for event in self.events if event.kind.startswith(prefixes)]


class Loaded:
    """Dice whose retry jitter is always the same number; everything else is as it was."""

    def __init__(self, rng: Rng, jitter: float) -> None:
        self._rng = rng
        self._jitter = jitter

    def spawn(self, actor: str) -> Rng:
        return Constant(self._rng, self._jitter) if actor == "jitter" else self._rng.spawn(actor)

    def random(self) -> float:
        return self._rng.random()

    def randbytes(self, n: int) -> bytes:
        return self._rng.randbytes(n)


class Constant(Loaded):
    """A die that always shows the same."""

    def random(self) -> float:
        return self._jitter


def act(
    spec: ClusterSpec,
    scenario: Callable[[Scene], Coroutine[Any, Any, Any]],
    options: str = "",
    *,
    edition: Edition = EDITION_2026_02_20,
    jitter: float | None = None,
    seed: int = 0,
    uri: Callable[[Cluster], str] = lambda cluster: cluster.uri,
) -> Any:
    """Run a scenario and return its result."""

    async def main(world: World) -> Any:
        ports: dict[str, Any] = {"network": world.network, "clock": world.clock}
        rng: Rng = world.rng.spawn("client")
        events: list[DriverEvent] = []

        def hear(event: DriverEvent) -> None:
            events.append(event)
            for hook in scene.hooks:
                hook(event)

        async with fakeserver.start(spec, rng=world.rng.spawn("server"), **ports) as cluster:
            client = AsyncClient(
                _with(uri(cluster), options),
                rng=rng if jitter is None else Loaded(rng, jitter),
                edition=edition,
                listeners=[hear],
                **ports,
            )
            scene = Scene(world, cluster, client, events)
            async with client:
                return await scenario(scene)

    return run_virtual(main, seed=seed)


def _with(uri: str, options: str) -> str:
    if not options:
        return uri
    return f"{uri}&{options}" if "?" in uri else f"{uri.rstrip('/')}/?{options}"


async def elapsed(scene: Scene, work: Coroutine[Any, Any, Any]) -> tuple[float, Any]:
    """Return how long work took, and what it returned or raised."""
    began = scene.world.clock.now()
    try:
        result = await work
    except Exception as error:  # noqa: BLE001 - whatever came of it is the caller's to judge
        result = error
    return scene.world.clock.now() - began, result

"""A scenario file played in virtual time, with a client of the reference driver beside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import fakeserver
from driver import AsyncClient
from fakeserver.control.scenario.player import Player
from harness.sim import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from driver.collection import Collection
    from fakeserver.control.control import Control
    from fakeserver.control.scenario.model import Scenario
    from fakeserver.deployment.cluster import Cluster
    from harness.world.virtual import World


@dataclass
class Play:
    """A running scenario: its servers, a client, and the application's errors."""

    world: World
    cluster: Cluster
    client: AsyncClient
    log: list[str]
    errors: list[tuple[float, Exception]] = field(default_factory=list)
    final: list[dict[str, Any]] = field(default_factory=list)
    """The steps of the timeline, as they were at the end."""

    @property
    def now(self) -> float:
        return self.world.clock.now()

    @property
    def player(self) -> Player:
        return cast("Control", self.cluster.control).subject.part(Player)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.player.rows()

    def collection(self, name: str = "shop.orders") -> Collection:
        db, _, own = name.partition(".")
        return self.client.database(db).collection(own)

    def outcomes(self, *commands: str) -> list[tuple[float, str | int]]:
        """Return instant and outcome of each finished request of some commands."""
        records = self.cluster.journal.of_kind("commandFinished")
        return [(each.at, each.event.outcome) for each in records if each.event.name in commands]  # type: ignore[union-attr]  # of that kind

    async def until(self, instant: float) -> None:
        await self.world.clock.sleep_until(instant)

    async def tried(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Await an operation; keep the error that it raises, with the instant."""
        try:
            return await work
        except Exception as error:  # noqa: BLE001 - whatever an application sees
            self.errors.append((self.now, error))
            return None

    async def insert_every(self, seconds: float, until: float) -> int:
        """Insert a document again and again; return how many were."""
        number, at = 0, self.now
        while at < until:
            await self.tried(self.collection().insert_one({"number": number}))
            number, at = number + 1, at + seconds
            await self.until(at)
        return number


def play(
    scenario: Scenario | str,
    main: Callable[[Play], Coroutine[Any, Any, None]],
    options: str = "",
    *,
    seed: int = 0,
) -> Play:
    """Play a scenario while `main` runs; return what is left of it."""
    loaded = fakeserver.load_scenario(scenario) if isinstance(scenario, str) else scenario
    log: list[str] = []

    async def run(world: World) -> Play:
        ports: dict[str, Any] = {"network": world.network, "clock": world.clock}
        async with fakeserver.start(
            loaded, rng=world.rng.spawn("cluster"), log_sink=log.append, **ports
        ) as cluster:
            uri = cluster.uri + ("&" if "?" in cluster.uri else "?") + options
            async with AsyncClient(uri, rng=world.rng.spawn("client"), **ports) as client:
                stage = Play(world, cluster, client, log)
                await main(stage)
                stage.final = stage.rows
            return stage

    return run_virtual(run, seed=seed)

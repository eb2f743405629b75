"""A client of the reference driver against scripted members, in virtual time."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from scripted_mongod import ScriptedMongod, replica_set

from driver import AsyncClient
from driver.editions import EDITION_2026_02_20
from harness.sim import run_virtual

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from driver.collection import Collection
    from driver.editions import Edition
    from driver.events import DriverEvent, Listener
    from harness.world.virtual import World

AN_HOUR = 3600.0
"""Seconds of virtual time."""


@dataclass
class Stage:
    """The members, the client, and what it published."""

    world: World
    members: list[ScriptedMongod]
    client: AsyncClient
    events: list[DriverEvent] = field(default_factory=list)
    ended: float = 0.0

    @property
    def primary(self) -> ScriptedMongod:
        return self.members[0]

    @property
    def collection(self) -> Collection:
        return self.client.database("db").collection("things")

    def kinds(self, family: str = "command") -> list[str]:
        return [event.kind.removesuffix("Event") for event in self.events if event.kind.startswith(family)]

    def of_kind(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.kind == kind]


@asynccontextmanager
async def staged(
    world: World,
    members: Sequence[ScriptedMongod],
    options: str = "",
    *,
    edition: Edition = EDITION_2026_02_20,
    seed: str = "client",
    credentials: str = "",
    more_listeners: Sequence[Listener] = (),
    heard: bool = True,
    **given: Any,
) -> AsyncIterator[Stage]:
    """Start the members and connect a client that names them all; what else is given is the client's.

    `more_listeners` hear each event before the stage does, which hears none unless the client is `heard`.
    """
    for member in members:
        await member.start(world.network)
    hosts = ",".join(member.address for member in members)
    events: list[DriverEvent] = []
    client = AsyncClient(
        f"mongodb://{credentials}{hosts}/?{options}",
        network=world.network,
        clock=world.clock,
        rng=world.rng.spawn(seed),
        edition=edition,
        listeners=[*more_listeners, events.append] if heard else more_listeners,
        **given,
    )
    try:
        async with client:
            yield Stage(world, list(members), client, events)
    finally:
        for member in members:
            await member.stop()


async def discovered(stage: Stage) -> None:
    """Let the monitors find every member; no connection is made for operations."""
    stage.client.open()
    await stage.world.clock.sleep_until(stage.world.clock.now() + 0.1)


def play(
    scenario: Callable[[Stage], Coroutine[Any, Any, None]],
    options: str = "",
    *,
    members: Sequence[ScriptedMongod] | None = None,
    edition: Edition = EDITION_2026_02_20,
    **given: Any,
) -> Stage:
    """Run a scenario against a replica set of two, or against the members given.

    Raises TimeoutError for one that has not ended within `AN_HOUR`: its monitors would go on for ever.
    """
    chosen = replica_set([1, 2]) if members is None else members

    async def main(world: World) -> Stage:
        async with staged(world, chosen, options, edition=edition, **given) as stage:
            async with asyncio.timeout(AN_HOUR):
                await scenario(stage)
            stage.ended = world.clock.now()
        return stage

    return run_virtual(main)

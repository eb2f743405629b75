"""A GridFS bucket of the reference driver on a fake deployment, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import fakeserver
from driver import AsyncClient, GridFSBucket
from fakeserver import ClusterSpec
from harness.sim import run_virtual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from driver.collection import Collection
    from harness.world.virtual import World


@dataclass
class Scene:
    """A bucket with chunks of four bytes, its two collections, and what its client published."""

    client: AsyncClient
    bucket: GridFSBucket
    events: list[Any]

    @property
    def files(self) -> Collection:
        return self.client.database("db").collection("fs.files")

    @property
    def chunks(self) -> Collection:
        return self.client.database("db").collection("fs.chunks")

    def sent(self) -> list[tuple[str, str]]:
        """Return each command, with its collection, as it was sent."""
        started = [event for event in self.events if event.kind == "commandStartedEvent"]
        return [(event.command_name, event.command[event.command_name]) for event in started]

    async def fail(self, command: str, mode: Any, **data: Any) -> None:
        await self.client.command(
            "admin",
            {
                "configureFailPoint": "failCommand",
                "mode": mode,
                "data": {"failCommands": [command], **data},
            },
        )
        self.events.clear()

    async def download(self, file_id: Any) -> bytes:
        async with await self.bucket.open_download_stream(file_id) as stream:
            return await stream.read()


def play(scenario: Callable[[Scene], Coroutine[Any, Any, None]], options: str = "") -> None:
    """Run a scenario against a replica set of one."""

    async def main(world: World) -> None:
        ports: dict[str, Any] = {"network": world.network, "clock": world.clock}
        events: list[Any] = []
        async with fakeserver.start(
            ClusterSpec.replica_set(1), rng=world.rng.spawn("server"), **ports
        ) as cluster:
            client = AsyncClient(
                cluster.uri + options, rng=world.rng.spawn("client"), listeners=[events.append], **ports
            )
            async with client:
                bucket = GridFSBucket(client.database("db"), chunk_size_bytes=4)
                await scenario(Scene(client, bucket, events))

    run_virtual(main)

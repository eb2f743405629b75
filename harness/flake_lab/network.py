"""Carries a schedule out: a link in front of each server, and an event loop that starts some tasks late."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from harness.flake_lab.disturbance import Disturbance
from harness.flake_lab.link import Link

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from harness.flake_lab.schedule import FlakeSchedule
    from mongowire.ports import Clock, Listener, Network, Stream


class DisturbedNetwork:
    """A `Network` whose servers can be disturbed: for every client, also one in another process."""

    def __init__(self, network: Network, clock: Clock) -> None:
        self._network = network
        self._clock = clock
        self._disturbance: Disturbance | None = None

    async def connect(self, host: str, port: int, *, deadline: float) -> Stream:
        """Open a connection. The server's end of it is disturbed, so this one is not."""
        return await self._network.connect(host, port, deadline=deadline)

    async def listen(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        refused: Callable[[], None] | None = None,
    ) -> Listener:
        """Accept connections, with a `Link` in front of each while a schedule is carried out."""
        listener: Listener | None = None

        def accept() -> asyncio.Protocol:
            disturbance = self._disturbance
            if disturbance is None or listener is None:
                return factory()
            connection = disturbance.accept(listener.address[1])
            return factory() if connection is None else Link(factory(), disturbance, connection)

        listener = await self._network.listen(host, port, accept, refused=refused)
        return listener

    @contextmanager
    def disturbed(self, schedule: FlakeSchedule, names: Mapping[int, str]) -> Iterator[Disturbance]:
        """Carry a schedule out while the block runs; `names` are the servers by their ports."""
        loop = asyncio.get_running_loop()
        before = loop.get_task_factory()
        self._disturbance = disturbance = Disturbance(schedule, names)

        async def start_late(coroutine: Coroutine[Any, Any, Any], seconds: float) -> Any:
            await self._clock.sleep_until(self._clock.now() + seconds)
            return await coroutine

        def make_task(
            loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
        ) -> asyncio.Task[Any]:
            late = disturbance.task(coroutine)
            if late is None:
                return asyncio.Task(coroutine, loop=loop, **options)
            task = asyncio.Task(start_late(coroutine, late), loop=loop, **options)
            # A task that is cancelled before its first step never awaits the coroutine, which would warn.
            task.add_done_callback(lambda _: coroutine.close())
            return task

        loop.set_task_factory(make_task)  # type: ignore[arg-type]  # the protocol is generic in the result
        try:
            yield disturbance
        finally:
            loop.set_task_factory(before)
            disturbance.end()
            self._disturbance = None

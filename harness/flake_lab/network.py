"""Where a schedule is carried out: on the servers' ports, and where the event loop starts tasks."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from harness.flake_lab.disturbance import Disturbance
from harness.flake_lab.line import Line

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from harness.flake_lab.schedule import Schedule
    from mongowire.ports import Clock, Listener, Network, Stream


class DisturbedNetwork:
    """A `Network` whose servers can be disturbed, whoever connects to them and from which process."""

    def __init__(self, network: Network, clock: Clock) -> None:
        self._network = network
        self._clock = clock
        self._disturbance: Disturbance | None = None

    async def connect(self, host: str, port: int, *, deadline: float) -> Stream:
        """Open a connection; the other end is late, if anything is."""
        return await self._network.connect(host, port, deadline=deadline)

    async def listen(
        self,
        host: str,
        port: int,
        factory: Callable[[], asyncio.Protocol],
        *,
        refused: Callable[[], None] | None = None,
    ) -> Listener:
        """Accept connections, which have a line in front of them while a schedule is carried out."""
        listener: Listener | None = None

        def accept() -> asyncio.Protocol:
            disturbance = self._disturbance
            if disturbance is None or listener is None:
                return factory()
            connection = disturbance.accept(listener.address[1])
            return factory() if connection is None else Line(factory(), disturbance, connection)

        listener = await self._network.listen(host, port, accept, refused=refused)
        return listener

    @contextmanager
    def disturbed(self, schedule: Schedule, names: Mapping[int, str]) -> Iterator[Disturbance]:
        """Carry a schedule out while the block runs; `names` are the servers by their ports."""
        loop = asyncio.get_running_loop()
        before = loop.get_task_factory()
        self._disturbance = disturbance = Disturbance(schedule, names)
        loop.set_task_factory(self._task_factory(disturbance))
        try:
            yield disturbance
        finally:
            loop.set_task_factory(before)
            disturbance.end()
            self._disturbance = None

    def _task_factory(self, disturbance: Disturbance) -> Any:
        def make(
            loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
        ) -> asyncio.Task[Any]:
            late = disturbance.task(coroutine)
            if late is None:
                return asyncio.Task(coroutine, loop=loop, **options)
            task = asyncio.Task(self._start_late(coroutine, late), loop=loop, **options)
            # A task that is cancelled before its first step never gets to what it was made for.
            task.add_done_callback(lambda _: coroutine.close())
            return task

        return make

    async def _start_late(self, coroutine: Coroutine[Any, Any, Any], seconds: float) -> Any:
        await self._clock.sleep_until(self._clock.now() + seconds)
        return await coroutine

"""A case of the format on the pool itself, over a network: threads are tasks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from driver.cmap.handshake import Handshake
from driver.cmap.metadata import Metadata
from driver.cmap.pool import Pool, PoolPorts
from driver.editions import DEFAULT
from driver.errors import DriverError
from driver.request_ids import RequestIds
from driver.sdam.description import ServerDescription
from driver.sdam.error_handling import reaction
from harness.cmap_format.model import CmapCase, name_of
from harness.formats.check import MismatchError
from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.cmap.connection import Connection
    from driver.events import DriverEvent
    from mongowire.ports import Clock, Network

PATIENCE: Final = 60.0
"""Seconds after which an event that does not come is given up."""


async def run_on_pool(case: CmapCase, address: str, *, network: Network, clock: Clock) -> list[DriverEvent]:
    """Run a case against the server at `address` and return the events. Raises MismatchError, ScenarioError.

    The fail point of the case is the caller's business.
    """
    runner = _Runner(case, address, network, clock)
    error: DriverError | None = None
    try:
        await runner.play()
    except DriverError as raised:
        error = raised
    finally:
        published = tuple(runner.published)  # what closing says does not count
        await runner.aclose()
    case.judge(published, error)
    return list(published)


@dataclass(slots=True)
class _Thread:
    """A thread: a task that takes operations from a queue, in order."""

    task: asyncio.Task[None]
    todo: asyncio.Queue[Mapping[str, Any] | None] = field(default_factory=asyncio.Queue)


class _Runner:
    def __init__(self, case: CmapCase, address: str, network: Network, clock: Clock) -> None:
        self.published: list[DriverEvent] = []
        self._case = case
        self._clock = clock
        handshake = Handshake(network, clock, DEFAULT, RequestIds(), Metadata(case.app_name))
        self._changed = asyncio.Event()
        ports = PoolPorts(clock, handshake, self._publish, self._on_error)
        self._pool = Pool(address, case.options, ports)
        self._connections: dict[str, Connection] = {}
        self._threads: dict[str, _Thread] = {}

    async def play(self) -> None:
        """Perform the operations, each in its thread. Raises the DriverError of the main thread."""
        for operation in self._case.operations:
            if "thread" in operation:
                self._threads[operation["thread"]].todo.put_nowait(operation)
                await self._turn()
            else:
                await self._operate(operation)

    async def aclose(self) -> None:
        """End the threads and close the pool."""
        for thread in self._threads.values():
            thread.task.cancel()
        await asyncio.gather(*(thread.task for thread in self._threads.values()), return_exceptions=True)
        await self._pool.aclose()

    async def _operate(self, operation: Mapping[str, Any]) -> None:
        match operation["name"]:
            case "start":
                self._start(operation["target"])
            case "wait":
                await self._clock.sleep_until(self._clock.now() + operation["ms"] / 1000)
            case "waitForThread":
                await self._join(operation["target"])
            case "waitForEvent":
                await self._wait_for_event(operation)
            case "checkOut":
                await self._check_out(operation.get("label"))
            case "checkIn":
                self._pool.check_in(self._connections[operation["connection"]])
            case "clear":
                self._pool.clear(interrupt_in_use=bool(operation.get("interruptInUseConnections")))
            case "close":
                await self._pool.aclose()
            case "ready":
                self._pool.ready()
            case name:
                raise ScenarioError(f"{self._case.name}: the operation {name} is unknown")

    # --- threads ---

    async def _turn(self) -> None:
        """Let the threads go on: they begin their operations in the order of the case."""
        await self._clock.sleep_until(self._clock.now())

    def _start(self, name: str) -> None:
        todo: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
        self._threads[name] = _Thread(asyncio.ensure_future(self._serve(todo)), todo)

    async def _serve(self, todo: asyncio.Queue[Mapping[str, Any] | None]) -> None:
        while (operation := await todo.get()) is not None:
            await self._operate(operation)

    async def _join(self, name: str) -> None:
        thread = self._threads[name]
        thread.todo.put_nowait(None)
        await thread.task

    # --- the pool ---

    async def _check_out(self, label: str | None) -> None:
        connection = await self._pool.check_out()
        if label is not None:
            self._connections[label] = connection

    async def _wait_for_event(self, operation: Mapping[str, Any]) -> None:
        name, count = operation["event"], operation["count"]
        patience = operation.get("timeout", PATIENCE * 1000) / 1000
        try:
            async with asyncio.timeout_at(self._clock.now() + patience):
                while sum(name_of(event) == name for event in self.published) < count:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise MismatchError(f"waited {patience} s for {count} of {name}") from None

    def _publish(self, event: DriverEvent) -> None:
        self.published.append(event)
        self._changed.set()

    def _on_error(self, address: str, error: DriverError, _generation: int) -> None:
        """Do to the pool what discovery does after a failed handshake (`SDAM: Error Handling`)."""
        if reaction(error, ServerDescription(address)).clear_pool:
            self._pool.clear(error)

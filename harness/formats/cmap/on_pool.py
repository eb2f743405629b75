"""A case of the format on the pool of any driver: a thread is a task that calls the adapter.

The pool works in the deployment's time, and threads really wait for each other. What the driver does in
between (background runs, handshakes) is its own. Durations therefore have no upper bound unless time is
virtual, and an event is waited for by looking at the adapter's list.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import EntityKind, Feature, Invocation, OperationFailed, PoolSpec
from harness.adapters.deployment import Topology
from harness.formats.case import DRIVER, failure
from harness.formats.cmap.model import name_of, operation_of
from harness.unified.errors import ScenarioError
from harness.unified.outcome import CaseFailedError, CaseSkippedError
from harness.unified.requirements import unmet_reason
from harness.unified.uri import ConnectionString, with_options

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from harness.adapters.base import DriverAdapter, ErrorReport, Handle
    from harness.adapters.deployment import Deployment
    from harness.formats.case import Notes
    from harness.formats.cmap.model import CmapCase
    from mongowire.documents.marks import Marked

PATIENCE: Final = 60.0
"""Seconds after which an event that does not come is given up."""

_LOOK_SECONDS: Final = 0.005
"""How often events are looked at while one is waited for."""

_OFF: Final = {"mode": "off"}


async def run_on_deployment(
    case: CmapCase, deployment: Deployment, adapter: DriverAdapter, notes: Notes
) -> None:
    """Run a case with a driver's pool of the deployment's first server.

    Raises CaseFailedError, and CaseSkippedError where the case does not apply or the adapter has no pools.
    """
    unmet = unmet_reason(case.requirements, deployment)
    if unmet is not None:
        raise CaseSkippedError(unmet)
    # A clear there names a service, which the operations of this format cannot.
    if deployment.topology is Topology.LOAD_BALANCED:
        raise CaseSkippedError("a pool behind a load balancer counts generations by service")
    if Feature.POOLS not in adapter.features:
        needed = Feature.POOLS
        raise CaseSkippedError(f"a case of a pool needs a driver with {needed.name}: {needed.value}")
    address = deployment.addresses[0]
    async with _fail_point(case.fail_point, deployment, address):
        # The way into the deployment, to one server, with the pool's options.
        here = ConnectionString.of(deployment.uri).at(address).without("replicaSet")
        options = case.options
        pool = await adapter.create_pool(
            PoolSpec(
                with_options(str(here), {"directConnection": True, **options}),
                options,
                case.background_seconds,
            )
        )
        notes.account.clients[DRIVER] = lambda: adapter.events(pool)
        runner = _Runner(case, deployment, adapter, pool, notes)
        error: ErrorReport | None = None
        try:
            await runner.play()
        except OperationFailed as raised:
            error = raised.report
        finally:
            notes.account.end(deployment.clock.now())  # events of closing are not part of the case
            await runner.aclose()
    if runner.failed is not None:
        raise runner.failed
    case.judge(notes, error, exactly=deployment.network is not None)


@asynccontextmanager
async def _fail_point(
    command: Mapping[str, Any] | None, deployment: Deployment, address: str
) -> AsyncIterator[None]:
    if command is None:
        yield
        return
    await _configure(command, deployment, address)
    try:
        yield
    finally:
        name = command["configureFailPoint"]
        await _configure({"configureFailPoint": name, **_OFF}, deployment, address)


async def _configure(command: Mapping[str, Any], deployment: Deployment, address: str) -> None:
    reply = await deployment.admin("admin", command, address=address)
    if reply.get("ok") != 1:
        raise ScenarioError(f"the server refuses the fail point: {reply.get('errmsg')}")


@dataclass(slots=True)
class _Thread:
    """A thread: a task that takes operations from a queue, in order."""

    task: asyncio.Task[None]
    todo: asyncio.Queue[Marked | None] = field(default_factory=asyncio.Queue)


class _Runner:
    def __init__(
        self, case: CmapCase, deployment: Deployment, adapter: DriverAdapter, pool: Handle, notes: Notes
    ) -> None:
        self.failed: CaseFailedError | None = None
        self._case = case
        self._notes = notes
        self._clock = deployment.clock
        self._adapter = adapter
        self._pool = pool
        self._connections: dict[str, Handle] = {}
        self._threads: dict[str, _Thread] = {}

    async def play(self) -> None:
        """Perform the operations, each in its thread. Raises the OperationFailed of the main thread."""
        for operation in self._case.operations:
            if "thread" in operation.value:
                self._threads[operation.value["thread"]].todo.put_nowait(operation)
                # The threads go on: they begin their operations in the order of the case.
                await self._clock.sleep_until(self._clock.now())
            else:
                await self._operate(operation)

    async def aclose(self) -> None:
        """End the threads; what failed in a thread that nobody waited for is `failed`."""
        tasks = [thread.task for thread in self._threads.values()]
        for thread in self._threads.values():
            thread.todo.put_nowait(None)  # a driver may end an operation as if nobody had cancelled it
            thread.task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        self.failed = next((each for each in ended if isinstance(each, CaseFailedError)), None)

    async def _operate(self, operation: Marked) -> None:
        with self._notes.account.step(operation_of(operation), self._clock.now):
            await self._perform(operation)

    async def _perform(self, operation: Marked) -> None:
        value = operation.value
        match value["name"]:
            case "start":
                todo: asyncio.Queue[Marked | None] = asyncio.Queue()
                self._threads[value["target"]] = _Thread(asyncio.ensure_future(self._serve(todo)), todo)
            case "wait":
                await self._clock.sleep_until(self._clock.now() + value["ms"] / 1000)
            case "waitForThread":
                thread = self._threads[value["target"]]
                thread.todo.put_nowait(None)
                # None ends the thread behind what it still has to do; an error of its own is raised here, in
                # the main thread.
                await thread.task
            case "waitForEvent":
                await self._wait_for_event(operation)
            case "checkOut":
                connection = await self._call("checkOut")
                if "label" in value:
                    self._connections[value["label"]] = connection
            case "checkIn":
                if value["connection"] not in self._connections:
                    raise failure(operation["connection"], "the connection was not checked out")
                await self._call("checkIn", connection=self._connections[value["connection"]])
            case "clear" if "interruptInUseConnections" in value:
                await self._call("clear", interruptInUseConnections=value["interruptInUseConnections"])
            case name:
                await self._call(name)

    async def _call(self, operation: str, **arguments: Any) -> Any:
        return await self._adapter.call(Invocation(self._pool, EntityKind.POOL, operation, arguments))

    async def _serve(self, todo: asyncio.Queue[Marked | None]) -> None:
        while (operation := await todo.get()) is not None:
            await self._operate(operation)

    async def _wait_for_event(self, operation: Marked) -> None:
        name, count = operation.value["event"], operation.value["count"]
        patience = operation.value.get("timeout", PATIENCE * 1000) / 1000
        end = self._clock.now() + patience
        while sum(name_of(event) == name for event in self._adapter.events(self._pool)) < count:
            if self._clock.now() >= end:
                raise failure(operation, f"waited {patience:g} s for {count} of {name}")
            await self._clock.sleep_until(min(end, self._clock.now() + _LOOK_SECONDS))

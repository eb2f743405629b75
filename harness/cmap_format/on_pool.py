"""A case of the format on the pool itself, over a network: threads are tasks."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from driver.auth.authenticator import Authenticator
from driver.cmap.handshake import Handshake
from driver.cmap.metadata import Metadata
from driver.cmap.pool import Pool, PoolPorts
from driver.editions import EDITIONS
from driver.errors import DriverError
from driver.options import ClientOptions
from driver.request_ids import RequestIds
from driver.sdam.description import ServerDescription
from driver.sdam.error_handling import reaction
from harness.adapters.reference_results import event_of
from harness.cmap_format.model import name_of, operation_of
from harness.formats.case import failure
from harness.unified.deployment import Topology
from harness.unified.errors import ScenarioError
from harness.unified.outcome import CaseFailedError, CaseSkippedError
from harness.unified.requirements import unmet_reason
from mongowire.system import TcpNetwork
from mongowire.tls import TlsNetwork

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from driver.cmap.connection import Connection
    from driver.events import DriverEvent
    from harness.cmap_format.model import CmapCase
    from harness.formats.case import Notes
    from harness.unified.deployment import Deployment
    from harness.unified.marks import Marked

PATIENCE: Final = 60.0
"""Seconds after which an event that does not come is given up."""

_OFF: Final = {"mode": "off"}


async def run_on_deployment(case: CmapCase, deployment: Deployment, edition: str, notes: Notes) -> None:
    """Run a case with a pool of the deployment's first server.

    Raises CaseFailedError, and CaseSkippedError where the case does not apply.
    """
    unmet = unmet_reason(case.requirements, deployment)
    if unmet is not None:
        raise CaseSkippedError(unmet)
    if deployment.topology is Topology.LOAD_BALANCED:
        raise CaseSkippedError("a pool behind a load balancer counts generations by service")
    address = deployment.addresses[0]
    async with _fail_point(case.fail_point, deployment, address):
        await _run(case, address, _handshake(case, deployment, edition), notes)


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


def _handshake(case: CmapCase, deployment: Deployment, edition: str) -> Handshake:
    """Return what connections to a deployment need, without a client around them."""
    options, _ = ClientOptions.of_uri(deployment.uri)
    network = deployment.network or TcpNetwork()
    credential = options.credential
    return Handshake(
        network if options.tls is None else TlsNetwork(network, options.tls.context()),
        deployment.clock,
        EDITIONS[edition],
        RequestIds(),
        Metadata(case.app_name),
        authenticator=None if credential is None else Authenticator(credential, deployment.rng),
    )


async def _run(case: CmapCase, address: str, handshake: Handshake, notes: Notes) -> None:
    runner = _Runner(case, address, handshake, notes)
    error: DriverError | None = None
    try:
        await runner.play()
    except DriverError as raised:
        error = raised
    finally:
        notes.account.end(handshake.clock.now())  # what closing says does not count
        await runner.aclose()
    if runner.failed is not None:
        raise runner.failed
    case.judge(notes, error)


@dataclass(slots=True)
class _Thread:
    """A thread: a task that takes operations from a queue, in order."""

    task: asyncio.Task[None]
    todo: asyncio.Queue[Marked | None] = field(default_factory=asyncio.Queue)


class _Runner:
    def __init__(self, case: CmapCase, address: str, handshake: Handshake, notes: Notes) -> None:
        self.failed: CaseFailedError | None = None
        self._case = case
        self._notes = notes
        self._clock = handshake.clock
        self._changed = asyncio.Event()
        ports = PoolPorts(handshake.clock, handshake, self._publish, self._on_error)
        self._pool = Pool(address, case.options, ports)
        self._connections: dict[str, Connection] = {}
        self._threads: dict[str, _Thread] = {}

    async def play(self) -> None:
        """Perform the operations, each in its thread. Raises the DriverError of the main thread."""
        for operation in self._case.operations:
            if "thread" in operation.value:
                self._threads[operation.value["thread"]].todo.put_nowait(operation)
                await self._turn()
            else:
                await self._operate(operation)

    async def aclose(self) -> None:
        """End the threads and close the pool; what failed in a thread that nobody waited for is `failed`."""
        tasks = [thread.task for thread in self._threads.values()]
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        self.failed = next((each for each in ended if isinstance(each, CaseFailedError)), None)
        await self._pool.aclose()

    async def _operate(self, operation: Marked) -> None:
        with self._notes.account.step(operation_of(operation), self._clock.now):
            await self._perform(operation)

    async def _perform(self, operation: Marked) -> None:
        value = operation.value
        match value["name"]:
            case "start":
                self._start(value["target"])
            case "wait":
                await self._clock.sleep_until(self._clock.now() + value["ms"] / 1000)
            case "waitForThread":
                await self._join(value["target"])
            case "waitForEvent":
                await self._wait_for_event(operation)
            case "checkOut":
                await self._check_out(value.get("label"))
            case "checkIn":
                self._check_in(operation["connection"])
            case "clear":
                self._pool.clear(interrupt_in_use=bool(value.get("interruptInUseConnections")))
            case "close":
                self._pool.close()
            case "ready":
                self._pool.ready()

    # --- threads ---

    async def _turn(self) -> None:
        """Let the threads go on: they begin their operations in the order of the case."""
        await self._clock.sleep_until(self._clock.now())

    def _start(self, name: str) -> None:
        todo: asyncio.Queue[Marked | None] = asyncio.Queue()
        self._threads[name] = _Thread(asyncio.ensure_future(self._serve(todo)), todo)

    async def _serve(self, todo: asyncio.Queue[Marked | None]) -> None:
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

    def _check_in(self, label: Marked) -> None:
        if label.value not in self._connections:
            raise failure(label, "the connection was not checked out")
        self._pool.check_in(self._connections[label.value])

    async def _wait_for_event(self, operation: Marked) -> None:
        name, count = operation.value["event"], operation.value["count"]
        patience = operation.value.get("timeout", PATIENCE * 1000) / 1000
        try:
            async with asyncio.timeout_at(self._clock.now() + patience):
                while sum(name_of(event) == name for event in self._notes.heard) < count:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise failure(operation, f"waited {patience:g} s for {count} of {name}") from None

    def _publish(self, event: DriverEvent) -> None:
        self._notes.heard.append(event_of(event, self._clock.now()))
        self._changed.set()

    def _on_error(self, address: str, error: DriverError, _generation: int) -> None:
        """Do to the pool what discovery does after a failed handshake (`SDAM: Error Handling`)."""
        if reaction(error, ServerDescription(address)).clear_pool:
            self._pool.clear(error)

"""The shell of discovery: it owns monitors and pools, applies transitions, and finds servers."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isinf
from typing import TYPE_CHECKING, TypeAlias

from driver import events
from driver.errors import (
    ClientClosedError,
    DriverError,
    ServerSelectionError,
    ServerSelectionTimeoutError,
)
from driver.sdam import transitions
from driver.sdam.description import (
    ServerDescription,
    ServerType,
    TopologyDescription,
    TopologyType,
)
from driver.sdam.error_handling import is_stale, reaction
from driver.sdam.monitor import Monitor, is_timeout
from driver.sdam.selection import least_loaded, suitable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from bson import ObjectId

    from driver.cmap.pool import Pool
    from driver.cmap.state import PoolOptions
    from driver.events import Listener
    from driver.log.message import SelectionLog
    from driver.sdam.selection import Selector, Window
    from mongowire.ports import Clock, Rng

    Choose: TypeAlias = Callable[[TopologyDescription], Selector]

NO_TOPOLOGY = TopologyDescription(TopologyType.UNKNOWN, {})


@dataclass(slots=True)
class Server:
    """A server that is monitored, its pool, and what it is doing for this client."""

    address: str
    pool: Pool
    monitor: Monitor | None
    operations: int = 0


@dataclass(frozen=True, slots=True)
class TopologyPorts:
    """What a topology needs of its client."""

    clock: Clock
    rng: Rng
    publish: Listener
    window: Window
    make_pool: Callable[[str, PoolOptions], Pool]
    make_monitor: Callable[[str], Monitor]
    pool_options: PoolOptions


class Topology:
    """SDAM: Topology. It opens when the first operation needs it and is closed with its client."""

    def __init__(self, initial: TopologyDescription, ports: TopologyPorts, topology_id: ObjectId) -> None:
        self.id = topology_id
        self.description = initial
        self._ports = ports
        self._servers: dict[str, Server] = {}
        """What is monitored: the servers of the description, once it is open."""
        self._change: asyncio.Future[None] | None = None
        """Done at the next change, for selections that wait; None while none does."""
        self._answer: tuple[TopologyDescription, Selector | None, Sequence[ServerDescription]] = (
            NO_TOPOLOGY,
            None,
            (),
        )
        """What was last asked of which description, and the suitable servers."""
        self._opened = False
        self._closed = False
        self._closing: set[asyncio.Task[None]] = set()
        """What stops the monitors of servers that have left."""
        self._left: list[Pool] = []
        """Pools of servers that are no members any more: operations may still be under way on them."""
        self._process = os.getpid()
        """The process that made it."""

    @property
    def _publish(self) -> Listener:
        return self._ports.publish

    def server(self, address: str) -> Server | None:
        """Return a server that is monitored, if it is one."""
        return self._servers.get(address)

    # --- life ---

    def open(self) -> None:
        """Publish the opening events and start monitoring.

        Raises ClientClosedError after `aclose`, and in a child process, for what the parent has opened.
        """
        if self._closed:
            raise ClientClosedError("the client was closed")
        if self.inherited:
            raise ClientClosedError("what the parent process has opened cannot be used in its child")
        if self._opened:
            return
        self._opened = True
        self._publish(events.TopologyOpeningEvent(self.id))
        self._publish(events.TopologyDescriptionChangedEvent(self.id, NO_TOPOLOGY, self.description))
        self._add_new_servers()
        # A load balancer is believed in without a check: nobody monitors it, and it is selectable at once.
        if self.description.type is TopologyType.LOAD_BALANCED:
            for address in self.description.servers:
                self.apply(ServerDescription(address, ServerType.LOAD_BALANCER))

    @property
    def inherited(self) -> bool:
        """Whether this process got it by a fork: its connections and tasks are the parent's."""
        return os.getpid() != self._process

    def abandon(self) -> None:
        """CMAP: Forking: let go of every connection in a child process; the parent's go on."""
        for pool in (*self._left, *(server.pool for server in self._servers.values())):
            pool.abandon()
        for server in self._servers.values():
            if server.monitor is not None:
                server.monitor.abandon()

    async def aclose(self) -> None:
        """Stop monitors and pools, and publish the closing events. Closing twice is allowed."""
        if self._closed:
            return
        self._closed = True
        self._notify()
        for server in list(self._servers.values()):
            self._publish(events.ServerClosedEvent(self.id, server.address))
            if server.monitor is not None:
                await server.monitor.aclose()
            await server.pool.aclose()
        while self._closing:
            await asyncio.wait(self._closing)
        for pool in self._left:
            await pool.aclose()
        if self._opened:
            nothing = replace(NO_TOPOLOGY)
            self._publish(events.TopologyDescriptionChangedEvent(self.id, self.description, nothing))
            self._publish(events.TopologyClosedEvent(self.id))
            self.description = nothing

    # --- knowledge ---

    def apply(self, described: ServerDescription) -> None:
        """SDAM: Updating the TopologyDescription, with its events and its pools."""
        previous = self.description
        known = previous.servers.get(described.address)
        following = transitions.updated(previous, described)
        if known is None or following is previous or self._closed:
            return
        # Ready before operations can see the server: who selects it must not meet a paused pool.
        self._make_pool_ready(following.servers.get(described.address))
        self.description = following
        shown = following.servers.get(described.address, described)
        if not known.same_as(shown):
            self._publish(events.ServerDescriptionChangedEvent(self.id, described.address, known, shown))
        self._add_new_servers()
        self._remove_old_servers()
        if not previous.same_as(following):
            self._publish(events.TopologyDescriptionChangedEvent(self.id, previous, following))
        self._notify()

    def on_check(self, described: ServerDescription) -> None:
        """Take a monitor's report. A failed check clears the pool after the server was marked Unknown."""
        self.apply(described)
        server = self._servers.get(described.address)
        if described.error is not None and server is not None:
            # After a timeout, whatever waits on the same network may wait for as long as the system allows.
            server.pool.clear(described.error, interrupt_in_use=is_timeout(described.error))

    def on_error(
        self, address: str, error: DriverError, generation: int, *, service_id: ObjectId | None = None
    ) -> None:
        """SDAM: Error Handling, for what an operation or a handshake met on a connection of `generation`."""
        server = self._servers.get(address)
        known = self.description.servers.get(address)
        if server is None or known is None:
            return
        current = server.pool.state.generations.of(service_id)
        if is_stale(error, known, generation=generation, current=current):
            return
        asked = reaction(error, known, load_balanced=self._balanced)
        if asked.mark_unknown and not self._balanced:
            self.apply(known.unknown(error, now=self._ports.clock.now()))
        if asked.clear_pool:
            server.pool.clear(error, service_id=service_id)
        if server.monitor is not None and asked.cancel_check:
            server.monitor.cancel_check()
        elif server.monitor is not None and asked.request_check:
            server.monitor.request_check()

    @property
    def _balanced(self) -> bool:
        return self.description.type is TopologyType.LOAD_BALANCED

    def _make_pool_ready(self, described: ServerDescription | None) -> None:
        """SDAM: Connection Pool Management: ready before the description is seen by waiting operations."""
        if described is None or not described.is_known:
            return
        server = self._servers.get(described.address)
        if server is not None and (described.is_data_bearing or self.description.type is TopologyType.SINGLE):
            server.pool.ready()

    def _add_new_servers(self) -> None:
        for address in self.description.servers:
            if address in self._servers:
                continue
            self._publish(events.ServerOpeningEvent(self.id, address))
            pool = self._ports.make_pool(address, self._ports.pool_options)
            monitor = None if self._balanced else self._ports.make_monitor(address)
            self._servers[address] = Server(address, pool, monitor)
            if monitor is not None:
                monitor.open()

    def _remove_old_servers(self) -> None:
        for address in [address for address in self._servers if address not in self.description.servers]:
            server = self._servers.pop(address)
            self._publish(events.ServerClosedEvent(self.id, address))
            self._leave(server)

    def _leave(self, server: Server) -> None:
        """Close a server that is no member any more, without waiting. What runs on it ends as it would."""
        self._left = [pool for pool in self._left if not pool.is_drained]
        self._left.append(server.pool)
        task = asyncio.get_running_loop().create_task(_leave(server))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    # --- selection ---

    async def select(
        self,
        choose: Choose,
        *,
        deadline: float,
        deprioritized: Collection[str] = (),
        log: SelectionLog | None = None,
    ) -> Server:
        """Return a suitable server (Server Selection). Raises ServerSelectionError after the deadline.

        What is asked for may depend on what is known by then.
        """
        if log is None:
            return await self._select(choose, deadline, deprioritized, None)
        log.started(choose(self.description), self.description)
        try:
            server = await self._select(choose, deadline, deprioritized, log)
        except DriverError as error:
            log.failed(choose(self.description), self.description, error)
            raise
        log.succeeded(choose(self.description), self.description, server.address)
        return server

    async def _select(
        self, choose: Choose, deadline: float, deprioritized: Collection[str], log: SelectionLog | None
    ) -> Server:
        while (server := self.find(choose, deprioritized)) is None:
            now = self._ports.clock.now()
            if now >= deadline:
                raise ServerSelectionTimeoutError(
                    f"no server found for {choose(self.description)} in time; {self.description}"
                )
            if log is not None:
                log.waits(choose(self.description), self.description, deadline - now)
            self.request_checks()
            await self._changed(deadline)
        return server

    def find(self, choose: Choose, deprioritized: Collection[str] = ()) -> Server | None:
        """Return a suitable server if one is known now: `select`, for whom nothing is logged, but the wait.

        Raises ServerSelectionError for a deployment that this driver cannot speak with.
        """
        self.open()
        # Not when it is found out but here: until then nobody is there to raise it to, and the next check
        # may find the server upgraded.
        reason = self.description.compatibility_error
        if reason is not None:
            raise ServerSelectionError(reason)
        found = self._suitable(choose(self.description), deprioritized)
        if len(found) <= 1:
            return self._servers[found[0].address] if found else None
        operations = {address: server.operations for address, server in self._servers.items()}
        chosen = least_loaded(list(found), operations, self._ports.rng.random)
        return self._servers[chosen.address]

    def _suitable(self, selector: Selector, deprioritized: Collection[str]) -> Sequence[ServerDescription]:
        """Return what `suitable` does; the last answer is kept, since most operations ask the same."""
        if deprioritized:
            return suitable(self.description, selector, self._ports.window, deprioritized)
        described, asked, found = self._answer
        if described is not self.description or (asked is not selector and asked != selector):
            found = suitable(self.description, selector, self._ports.window)
            self._answer = (self.description, selector, found)
        return found

    def request_checks(self) -> None:
        """Ask every monitor for an immediate check."""
        for server in self._servers.values():
            if server.monitor is not None:
                server.monitor.request_check()

    async def _changed(self, deadline: float) -> None:
        """Wait until something is learnt, at most until the deadline."""
        if self._change is None:
            self._change = asyncio.get_running_loop().create_future()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(None if isinf(deadline) else deadline):
                await asyncio.shield(self._change)  # it is everybody's: who gives up must not cancel it

    def _notify(self) -> None:
        if self._change is not None:
            self._change.set_result(None)
            self._change = None


async def _leave(server: Server) -> None:
    if server.monitor is not None:
        await server.monitor.aclose()
    server.pool.close()

"""Carries a schedule out: a link in front of each server, and an event loop that starts some tasks late."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from harness.world.schedule import Disturbance, Way
from mongowire.connection import Envelope, WireConnection
from mongowire.errors import ProtocolError
from mongowire.messages import OpMsg, OpQuery

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from harness.world.schedule import FlakeSchedule
    from mongowire.ports import Clock, Listener, Network, Stream


_HIGH_WATER: Final = 256 * 1024
"""How many bytes may be on their way to the server before the client has to wait, as it has to on TCP."""


class _Direction:
    """One direction: packets leave in the order in which they came, none before its time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[float, Callable[[], object]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._held = False

    def put(self, seconds: float, deliver: Callable[[], object]) -> None:
        """Call `deliver` so many seconds from now, at once if nothing waits before it."""
        self._waiting.append((self._loop.time() + seconds, deliver))
        self._deliver_due()

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        self._held = False
        self._loop.call_soon(self._deliver_due)

    def clear(self) -> None:
        self._waiting.clear()

    def _deliver_due(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting and not self._held and self._waiting[0][0] <= self._loop.time():
            self._waiting.popleft()[1]()
        if self._waiting and not self._held and self._timer is None:
            self._timer = self._loop.call_at(self._waiting[0][0], self._deliver_due)


class Link(asyncio.Protocol):
    """Passes packets on in both directions, each as late as the disturbance decides.

    A packet is the bytes that the network or the server hands over in one call: a message, as a rule.
    """

    def __init__(
        self, server: asyncio.Protocol, disturbance: Disturbance, connection: tuple[str, int]
    ) -> None:
        self._server = server
        self._disturbance = disturbance
        self._connection = connection
        self._numbers = dict.fromkeys(Way, 0)
        self._asked = ""
        self._lost = False
        self._queued = 0
        self._wanted = self._reading = True
        self.transport: asyncio.Transport
        self.is_closing = False

    # Called by the network.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        loop = asyncio.get_running_loop()
        self.transport = transport
        self._to, self._from = _Direction(loop), _Direction(loop)
        self._server.connection_made(_LinkTransport(self))

    def data_received(self, data: bytes) -> None:
        asked = command_name(data)
        self._queued += len(data)
        self._to.put(self._late(Way.TO, asked), lambda: self._pass(data, asked))
        self._pause_or_resume_reading()

    def _pass(self, data: bytes, asked: str) -> None:
        self._queued -= len(data)
        self._asked = f"reply to {asked}" if asked else ""
        self._server.data_received(data)
        self._pause_or_resume_reading()

    def eof_received(self) -> bool:
        self._to.put(0, self._pass_eof)
        return True  # keep the transport open: the server answers when the end of file reaches it

    def _pass_eof(self) -> None:
        if not self._server.eof_received():
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._from.clear()
        self._to.put(0, lambda: self._server.connection_lost(exc))
        self._to.release()  # a lost connection is never resumed

    def pause_writing(self) -> None:
        self._server.pause_writing()

    def resume_writing(self) -> None:
        self._server.resume_writing()

    # Called by the server, through its transport.

    def write(self, data: bytes) -> None:
        """Send a packet."""
        self._from.put(self._late(Way.FROM, self._asked), lambda: self.transport.write(data))

    def close(self) -> None:
        """Close behind all packets that were written; what still arrives is dropped."""
        self.is_closing = True
        if not self._lost:
            self._to.clear()
            self._from.put(0, self.transport.close)

    def abort(self) -> None:
        """Close at once; packets on their way are lost."""
        self.is_closing = True
        if not self._lost:
            self._to.clear()
            self._from.clear()
            self.transport.abort()

    def pause_reading(self) -> None:
        """Stop handing packets to the server."""
        self._wanted = False
        self._to.hold()
        self._pause_or_resume_reading()

    def resume_reading(self) -> None:
        """Hand over the packets that came meanwhile, and go on."""
        self._wanted = True
        self._to.release()
        self._pause_or_resume_reading()

    def _pause_or_resume_reading(self) -> None:
        wanted = self._wanted and self._queued <= _HIGH_WATER
        if wanted is not self._reading:
            self._reading = wanted
            if wanted:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def _late(self, way: Way, content: str) -> float:
        self._numbers[way] += 1
        return self._disturbance.packet(way, self._connection, self._numbers[way], content)


class _LinkTransport(asyncio.Transport):
    """The server's end of a link."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._link = link

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._link.write(bytes(data))

    def close(self) -> None:
        self._link.close()

    def abort(self) -> None:
        self._link.abort()

    def is_closing(self) -> bool:
        return self._link.is_closing or self._link.transport.is_closing()

    def pause_reading(self) -> None:
        self._link.pause_reading()

    def resume_reading(self) -> None:
        self._link.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._link.transport.get_extra_info(name, default)


def command_name(packet: bytes) -> str:
    """Return the name of the command that a packet begins with; empty where that cannot be read."""
    wire = WireConnection()
    wire.receive_data(packet)
    try:
        first = wire.next_message()
        message = first.parse() if isinstance(first, Envelope) else None
    except ProtocolError:
        return ""
    return message.command_name if isinstance(message, OpMsg | OpQuery) else ""


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

"""The layers that perform faults of bytes, between a connection and its network: what they share.

    socket -- FirstLayer -- [TLS] -- MessageLayer -- Connection

The first layer stands in front of connections that are accepted while there are faults; it knows bytes alone,
and the phases accept and tlsHello. The message layer knows requests and replies, in plain text, and is put in
front of an open connection when the first fault is added, and taken away when it has nothing more to do. A
connection without faults has none of them, and pays nothing.

Requests are passed on when they are whole; what is sent goes through a queue of steps as soon as one of them
has to wait.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from fakeserver.deployment.records.events import FaultHit
from fakeserver.deployment.server import Server
from fakeserver.network.fault_effects import ConnectionEnd, edited
from fakeserver.network.fault_registry import FaultPlace
from fakeserver.network.faults import FaultPhase
from fakeserver.network.transport import ProtocolAbove, TransportAbove
from fakeserver.waiting.pause import Await, Pause
from mongowire.tls import TELLING_BYTES, is_client_hello

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fakeserver.access.session import ConnectionState
    from fakeserver.deployment.records.events import Event
    from fakeserver.network.fault_effects import FaultEffects
    from fakeserver.network.fault_registry import FaultRegistry, Hit


# The way of a reply under faults: the steps in which its bytes are sent.
#
# Everything here is decided without waiting; the layers perform the steps, one after the other.


@dataclass(frozen=True, slots=True)
class Send:
    """Send bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait so many seconds behind the step before."""

    seconds: float


Step: TypeAlias = Send | Wait | ConnectionEnd

_GAP: Final = 0.0001
"""The seconds between two pieces, without which a client would read them as one."""
_SLICES_PER_SECOND: Final = 50
"""The pieces that a bandwidth sends in a second, as far as there are so many bytes."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The pieces in which bytes are sent (`split`), and the bytes of a second (`bandwidth`)."""

    piece: int | None = None
    bandwidth: int | None = None

    def with_effects(self, effects: FaultEffects) -> Pace:
        """Return the pace with those of a fault; of two, the slower one and the smaller pieces."""
        return Pace(_least(self.piece, effects.split), _least(self.bandwidth, effects.bandwidth))

    def steps(self, data: bytes) -> Iterator[Step]:
        """Return the steps that send `data`."""
        if self.piece is None and self.bandwidth is None:
            if data:
                yield Send(data)
            return
        size = self.piece or len(data)
        if self.bandwidth is not None:
            size = min(size, max(1, self.bandwidth // _SLICES_PER_SECOND))
        for start in range(0, len(data), size or 1):
            piece = data[start : start + size]
            if self.bandwidth is not None:
                yield Wait(len(piece) / self.bandwidth)
            elif start:
                yield Wait(_GAP)
            yield Send(piece)


def _least(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def wait_of(effects: FaultEffects, registry: FaultRegistry) -> float:
    """Return the seconds that a fault delays."""
    return effects.delay + (effects.jitter * registry.random() if effects.jitter else 0.0)


def reply_steps(
    reply: bytes, hits: Sequence[Hit], registry: FaultRegistry, *, pace: Pace | None = None
) -> Iterator[Step]:
    """Return the steps that send a reply on which these faults fire."""
    data = edited(reply, [hit.effects for hit in hits])
    return _walk(data, sorted(_marks(data, hits), key=lambda mark: mark.offset), registry, pace or Pace())


@dataclass(frozen=True, slots=True)
class _Mark:
    """Something that happens when `offset` bytes have been sent."""

    offset: int
    hit: Hit | None = None
    end: ConnectionEnd | None = None


def _marks(data: bytes, hits: Sequence[Hit]) -> Iterator[_Mark]:
    for hit in hits:
        effects = hit.effects
        yield _Mark(hit.offset, hit=hit)
        if effects.end is not None:
            yield _Mark(min(len(data), hit.offset + effects.cut), end=effects.end)


def _walk(data: bytes, marks: Sequence[_Mark], registry: FaultRegistry, pace: Pace) -> Iterator[Step]:
    sent = 0
    for mark in marks:
        yield from pace.steps(data[sent : mark.offset])
        sent = max(sent, mark.offset)
        if mark.end is not None:
            yield mark.end
            return
        assert mark.hit is not None
        effects, phase = mark.hit.effects, mark.hit.fault.phase
        # Faults of earlier phases have delayed the request already.
        if phase in {FaultPhase.BEFORE_REPLY, FaultPhase.REPLY}:
            seconds = wait_of(effects, registry)
            if seconds:
                yield Wait(seconds)
        if effects.garbage is not None:
            yield from pace.steps(registry.random_bytes(effects.garbage))
            if phase is FaultPhase.REPLY:
                data = data[:sent]  # the garbage stands in place of the rest
        pace = pace.with_effects(effects)
    yield from pace.steps(data[sent:])


_NO_PACE: Final = Pace()
_AT_ONCE: Final = struct.pack("ii", 1, 0)
_MOST_WAITING: Final = 64
_CUT: Final = "a fault closes the connection"
_RESET: Final = "a fault resets the connection"


class RecordingServer(Server, Protocol):
    """A server that keeps a journal."""

    def record(self, event: Event) -> None:
        """Enter an event in the journal."""


class Connected(Protocol):
    """A connection behind a layer."""

    state: ConnectionState
    transport: asyncio.Transport

    @property
    def node(self) -> RecordingServer:
        """The server."""

    def close(self, reason: str) -> None:
        """Close the connection when what was written has been sent."""

    def abort(self, reason: str) -> None:
        """Close the connection at once."""


class Layer(ProtocolAbove):
    """What both layers do: hold bytes back, send in steps, end a connection."""

    def __init__(self, behind: asyncio.Protocol, connection: Connected, registry: FaultRegistry) -> None:
        super().__init__(behind)
        self.connection = connection
        self._registry = registry
        self._below: asyncio.Transport
        self._steps: deque[Iterator[Step]] = deque()
        """What is still to be sent."""
        self._full = False
        """So many replies wait to be sent that no request is begun."""
        self._sending: Pause | None = None
        """The wait of a step."""
        self._due = 0.0
        """The instant of the last step; those behind it are counted from there."""
        self._holding: Pause | None = None
        """The wait in which nothing of the client is passed on."""
        self._eof = False
        """The client has shut down its side while its bytes were held."""
        self._silent = False
        """Nothing is sent any more, and nothing is passed on."""
        self._ended = False
        self._pace = _NO_PACE
        """That of everything that is sent."""
        self._left: int | None = None
        """The bytes that are sent before the connection is closed."""

    @property
    def _node(self) -> RecordingServer:
        return self.connection.node

    def mend(self) -> None:
        """Forget what faults have left for the rest of the connection; one that is silent is reset."""
        self._pace, self._left = _NO_PACE, None
        if self._silent:
            self.end(ConnectionEnd.RESET)

    # What goes to the client.

    def send(self, data: bytes) -> None:
        """Send what the connection has written."""
        if self._silent or self._ended:
            return
        if self._steps or self._left is not None or self._pace != _NO_PACE:
            self._enqueue(self._pace.steps(data))
        else:
            self._below.write(data)

    def _enqueue(self, steps: Iterable[Step]) -> None:
        self._steps.append(iter(steps))
        if len(self._steps) > _MOST_WAITING and not self._full:
            self._full = True
            self.behind.pause_writing()
        if self._sending is None:
            self._due = self._node.clock.now()
            self._go_on()

    def _go_on(self) -> None:
        """Perform the steps, until one has to wait."""
        self._sending = None
        while self._steps and self._sending is None and not self._ended:
            step = next(self._steps[0], None)
            if step is None:
                self._steps.popleft()
            elif isinstance(step, Send):
                self._write(step.data)
            elif isinstance(step, Wait):
                self._due += step.seconds
                self._sending = Pause(self._node, self._go_on, Await(until=self._due))
            else:
                self.end(step)
        if not self._steps:
            self._has_sent()

    def _write(self, data: bytes) -> None:
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        if data and not self._below.is_closing():
            self._below.write(data)
        if self._left == 0:
            self.end(ConnectionEnd.CLOSE)

    def _has_sent(self) -> None:
        """All steps have been performed."""
        if self._full:
            self._full = False
            self.behind.resume_writing()

    def close(self) -> None:
        """Close, once everything has been sent."""
        if self._silent and not self._ended:
            return
        if self._steps and not self._ended:
            self._enqueue([ConnectionEnd.CLOSE])
        else:
            self._below.close()

    def abort(self) -> None:
        """Close at once."""
        self._stop()
        self._below.abort()

    def end(self, end: ConnectionEnd) -> None:
        """End the connection in one of the ways of faults."""
        if end is ConnectionEnd.SILENCE:
            self._silent = True
            self._steps.clear()
            return
        self._stop()
        if end is ConnectionEnd.RESET:
            # Have TCP reset a connection: a socket that is closed says an orderly end otherwise.
            sock = self._below.get_extra_info("socket")
            if sock is not None and not self._below.is_closing():
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self.connection.abort(_RESET)
            self._below.abort()
        else:
            self.connection.close(_CUT)
            self._below.close()

    def _stop(self) -> None:
        self._ended = True
        self._steps.clear()
        for pause in (self._sending, self._holding):
            if pause is not None:
                pause.cancel()

    # What comes from the client.

    def data_received(self, data: bytes) -> None:
        if self._silent or self._ended:
            return
        self._receive(data)
        if self._holding is None:
            self._advance()

    def _is_held(self) -> bool:
        return self._holding is not None

    def _is_stopped(self) -> bool:
        """Whether nothing of the client may be passed on now, or ever again."""
        return self._is_held() or self._silent or self._ended

    def _receive(self, data: bytes) -> None:
        raise NotImplementedError

    def _advance(self) -> None:
        raise NotImplementedError

    def _hold(self, seconds: float, then: Callable[[], None]) -> None:
        """Pass nothing on for some seconds."""

        def release() -> None:
            self._holding = None
            then()
            if not self._is_stopped():
                self._advance()
            if self._eof and not self._is_held() and not self.behind.eof_received():
                self._below.close()

        until = self._node.clock.now() + seconds
        self._holding = Pause(self._node, release, Await(until=until))

    def eof_received(self) -> bool | None:
        if self._holding is not None:
            self._eof = True
            return True
        return self.behind.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    # Faults.

    def _fires(self, phase: FaultPhase, **seen: Any) -> list[Hit]:
        """Return the faults that fire at a phase, and enter them in the journal."""
        registry = self._registry
        if phase not in registry.phases:
            return []
        state, node = self.connection.state, self._node
        hits = registry.fires(phase, FaultPlace(node, state.id, state.app_name, **seen), node.clock.now())
        for hit in hits:
            node.record(FaultHit(hit.fault.id, state.id, phase.value, hit.fault.effect))
        return hits

    def _act(self, hits: Sequence[Hit]) -> None:
        """Delay what comes from the client, then end the connection if a fault says so."""
        seconds = sum(wait_of(hit.effects, self._registry) for hit in hits)
        ends = [hit.effects.end for hit in hits if hit.effects.end and not hit.effects.cut]

        def then() -> None:
            if ends:
                self.end(ends[0])

        if seconds:
            self._hold(seconds, then)
        else:
            then()


class FaultTransport(TransportAbove):
    """The transport of a connection, or of TLS, behind a layer."""

    def __init__(self, below: asyncio.Transport, layer: Layer) -> None:
        super().__init__(below, layer)
        self.layer = layer

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send data, as the layer's faults have it."""
        self.layer.send(bytes(data))

    def close(self) -> None:
        """Close, as the layer's faults have it."""
        self.layer.close()

    def abort(self) -> None:
        """Close at once."""
        self.layer.abort()


_OWN_PHASES: Final = frozenset({FaultPhase.ACCEPT, FaultPhase.TLS_HELLO})


class FirstLayer(Layer):
    """The layer of a connection that was accepted while there are faults: bytes alone, accept and tlsHello.

    Effects of these phases on what is sent last as long as the connection. Without a fault of these phases
    it steps aside as soon as the connection is made.
    """

    def __init__(
        self,
        behind: asyncio.Protocol,
        connection: Connected,
        registry: FaultRegistry,
        made: Callable[[Any], object],
        *,
        secure: bool,
    ) -> None:
        """`made` is called with the connection once it is there; `secure`: it may begin with TLS."""
        super().__init__(behind, connection, registry)
        self._made = made
        self._arrived = b""
        self._hello_awaited = secure

    def connection_made(self, transport: Any) -> None:
        if not self._registry.phases & _OWN_PHASES:
            transport.set_protocol(self.behind)
            self.behind.connection_made(transport)
            self._made(self.connection)
            return
        self._below = transport
        super().connection_made(FaultTransport(transport, self))
        self._made(self.connection)
        self._meet(self._fires(FaultPhase.ACCEPT))

    def _meet(self, hits: Sequence[Hit]) -> None:
        for hit in hits:
            effects = hit.effects
            self._pace = self._pace.with_effects(effects)
            if effects.cut:
                self._left = effects.cut
            if effects.garbage is not None:
                self._enqueue(self._pace.steps(self._registry.random_bytes(effects.garbage)))
        self._act(hits)

    def _receive(self, data: bytes) -> None:
        self._arrived += data

    def _advance(self) -> None:
        if self._hello_awaited and self._arrived:
            if len(self._arrived) < TELLING_BYTES:
                return
            self._hello_awaited = False
            if is_client_hello(self._arrived):
                self._meet(self._fires(FaultPhase.TLS_HELLO))
                if self._is_stopped():
                    return
        data, self._arrived = self._arrived, b""
        if data:
            self.behind.data_received(data)

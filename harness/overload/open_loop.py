"""Clients in an open loop: they ask when a plan says so, whatever became of those who asked before.

They speak the wire protocol and nothing more: no handshake, no retries. As a driver does, a client closes
the connection of a request that it has given up.

The loop is open because users are: a closed loop, in which each client waits for its answer before it asks
again, slows down with the server and hides the overload. A driver would retry, wait for its pool and probe
the server, and so change the offered load; what is measured here is the server alone.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from mongowire.connection import Envelope, WireConnection
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mongowire.ports import Clock, Network, Stream

_MANY_BYTES: Final = 1 << 16


class RequestOutcome(Enum):
    """The outcome of a request."""

    SERVED = "served"
    REJECTED = "rejected"
    LATE = "late"
    """There was no answer within the client's patience."""
    FAILED = "failed"
    """The connection was refused or closed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A request, when it was due, and when its outcome was known; seconds from the start."""

    due: float
    known: float
    outcome: RequestOutcome


class OpenLoop:
    """Sends one command again and again to `address`, over as many connections as it takes."""

    def __init__(
        self,
        address: tuple[str, int],
        command: Mapping[str, Any],
        *,
        patience: float,
        network: Network,
        clock: Clock,
    ) -> None:
        self._address = address
        # Built once, with one id for all: a connection has one request at a time, so replies cannot be mixed
        # up.
        self._message = WireConnection().send(OpMsg.of(command), request_id=1)
        self._patience = patience
        self._network = network
        self._clock = clock
        self._idle: list[Stream] = []
        self._answers: list[Answer] = []
        self._began = 0.0

    async def run(self, arrivals: Iterable[float]) -> list[Answer]:
        """Ask at each of these instants from now, and return what became of it, in the order of answers."""
        self._began = self._clock.now()
        async with asyncio.TaskGroup() as asking:
            for due in arrivals:
                await self._clock.sleep_until(self._began + due)
                asking.create_task(self._ask(due))
        return self._answers

    async def aclose(self) -> None:
        """Close the connections."""
        while self._idle:
            await self._idle.pop().aclose()

    async def _ask(self, due: float) -> None:
        # The patience counts from when the request was due: a client that is late itself is no excuse.
        deadline = self._began + due + self._patience
        try:
            outcome = await self._exchange(deadline)
        except TimeoutError:
            outcome = RequestOutcome.LATE
        except OSError:
            outcome = RequestOutcome.FAILED
        self._answers.append(Answer(due, self._clock.now() - self._began, outcome))

    async def _exchange(self, deadline: float) -> RequestOutcome:
        """Ask on an idle connection or on a new one. Raises `OSError`, `TimeoutError` among them."""
        if self._idle:
            stream = self._idle.pop()
        else:
            stream = await self._network.connect(*self._address, deadline=deadline)
        try:
            async with asyncio.timeout_at(deadline):
                reply = await exchange(stream, self._message)
        except BaseException:
            # The reply may still come; on this connection it would be taken for that of the next request.
            await stream.aclose(abort=True)
            raise
        self._idle.append(stream)
        return RequestOutcome.SERVED if reply.get("ok") == 1 else RequestOutcome.REJECTED


async def exchange(stream: Stream, message: bytes) -> dict[str, Any]:
    """Send a message and return the reply to it. Raises `OSError`."""
    await stream.write(message)
    wire = WireConnection()
    while True:
        data = await stream.read(_MANY_BYTES)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        wire.receive_data(data)
        envelope = wire.next_message()
        if isinstance(envelope, Envelope):
            return envelope.parse().decode()

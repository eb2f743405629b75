"""The layer of faults in front of a connection that knows requests and replies, in plain text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.network.fault_effects import ConnectionEnd
from fakeserver.network.fault_layer import FaultTransport, Layer
from fakeserver.network.fault_requests import Reached, Requests
from fakeserver.network.fault_steps import Send, Wait, reply_steps, wait_of
from fakeserver.network.faults import FaultPhase
from mongowire.header import HEADER, HEADER_SIZE, OpCode
from mongowire.messages import MORE_TO_COME

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from fakeserver.network.fault_layer import Connected
    from fakeserver.network.fault_registry import FaultRegistry, Hit
    from fakeserver.network.fault_steps import Step

_HTTP: Final = b"HTTP/"


class MessageLayer(Layer):
    """The layer in front of a connection that knows requests and replies."""

    def __init__(
        self, behind: asyncio.Protocol, connection: Connected, registry: FaultRegistry, *, passed: bytes
    ) -> None:
        """Make the layer; `passed` are bytes that the connection has already."""
        super().__init__(behind, connection, registry)
        self._requests = Requests(greeted=connection.state.greeted, passed=passed)
        self._commands: dict[int, str | None] = {}
        """The commands of the requests that await a reply, by request id."""
        self._owed: dict[int, list[Hit]] = {}
        """The faults that fired on a request and act on its reply."""
        self._scripts: dict[int, Callable[[bytes], Iterator[Step]]] = {}
        """The ways of replies that clients asked for themselves."""

    def attach(self) -> None:
        """Stand in front of the connection."""
        self._below = self.connection.transport
        self._below.set_protocol(self)
        self.connection.transport = FaultTransport(self._below, self)

    def script(self, request_id: int, way: Callable[[bytes], Iterator[Step]]) -> None:
        """Send the reply to a request in the steps that `way` makes of it."""
        self._scripts[request_id] = way

    # Requests.

    def _receive(self, data: bytes) -> None:
        self._requests.receive(data)

    def _advance(self) -> None:
        while not self._is_stopped():
            progress = self._requests.progress()
            if progress is None:
                self._leave_if_idle()
                return
            if isinstance(progress, Reached):
                self._reach(progress)
                continue
            if progress.expects_reply:
                self._commands[progress.request_id] = progress.command
            else:
                self._owed.pop(progress.request_id, None)
            self.behind.data_received(progress.data)

    def _reach(self, reached: Reached) -> None:
        seen = {"bytes_seen": reached.bytes_seen, "named_at": reached.named_at}
        hits = self._fires(reached.phase, command=reached.command, **seen)
        if hits:
            self._owed.setdefault(reached.request_id, []).extend(hits)
            self._act(hits)

    # Replies.

    def send(self, data: bytes) -> None:
        if self._silent or self._ended:
            return
        if data.startswith(_HTTP):
            # It answers no request.
            self._enqueue([Send(data)])
            return
        request_id, answers, flags = _head(data)
        command = self._commands.pop(answers, None)
        if flags & MORE_TO_COME:
            self._commands[request_id] = command  # the next reply of an exhaust stream answers this one
        hits = self._owed.pop(answers, [])
        hits += self._fires(FaultPhase.BEFORE_REPLY, command=command)
        hits += self._fires(FaultPhase.REPLY, command=command, bytes_seen=(-1, len(data)))
        script = self._scripts.pop(answers, None)
        if script is not None:
            self._enqueue(script(data))
        elif hits or self._steps:
            self._enqueue(reply_steps(data, hits, self._registry))
        else:
            self._below.write(data)
            self._leave_if_idle()

    def _has_sent(self) -> None:
        super()._has_sent()
        self._leave_if_idle()

    def close(self) -> None:
        if self._ended or self._silent:
            super().close()
            return
        hits = self._fires(FaultPhase.CLOSE)
        seconds = sum(wait_of(hit.effects, self._registry) for hit in hits)
        garbage = sum(hit.effects.garbage or 0 for hit in hits)
        steps: list[Step] = [Wait(seconds)] if seconds else []
        steps += [Send(self._registry.random_bytes(garbage))] if garbage else []
        steps.append(next((hit.effects.end for hit in hits if hit.effects.end), ConnectionEnd.CLOSE))
        self._enqueue(steps)

    def _leave_if_idle(self) -> None:
        """Go away when no fault is left, and nothing is under way."""
        under_way = self._steps or self._owed or self._scripts or self._holding or not self._requests.idle
        if self._registry.active or under_way or self._silent or self._ended or self._eof:
            return
        self._below.set_protocol(self.behind)
        self.connection.transport = self._below


def _head(reply: bytes) -> tuple[int, int, int]:
    """Return the ids of a reply and of its request, and its flags where it has some."""
    _, request_id, response_to, op_code = HEADER.unpack_from(reply)
    flags = reply[HEADER_SIZE] if op_code == OpCode.MSG else 0
    return request_id, response_to, flags

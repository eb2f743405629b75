"""One client's connection: bytes in, requests through the pipeline, bytes out.

The hot path is synchronous: a request that need not wait is answered inside `data_received`. While one
waits, those behind it queue in the receive buffer, as on a server's thread per connection.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Final

from bson.errors import BSONError

from fakeserver.admission.rate_limiter import ADMITTED, REJECTED
from fakeserver.errors import CommandError
from fakeserver.events import ConnectionAccepted, ConnectionClosed
from fakeserver.failpoints import DELAY_OR_FAIL_SEND, DO_NOT_SET_MORE_TO_COME, FROM_LOAD_BALANCER_PORT
from fakeserver.interrupts import Worker
from fakeserver.pausing import Pause
from fakeserver.pipeline import RESPOND, Await, Delay, Disconnect, Silence
from fakeserver.replies import LEGACY, continuation, encode, unsendable
from fakeserver.request import RequestContext
from mongowire.codes import Category, ErrorCode, is_in
from mongowire.connection import Signal, WireConnection
from mongowire.errors import LocalProtocolError, RemoteProtocolError
from mongowire.messages import CHECKSUM_PRESENT, EXHAUST_ALLOWED, OpCode, OpMsg

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.admission.rate_limiter import Reserved
    from fakeserver.connection_state import ConnectionState
    from fakeserver.node import Node
    from fakeserver.pipeline import Action
    from mongowire.connection import Envelope

_REQUESTS: Final = frozenset(
    {
        *(OpCode.MSG, OpCode.QUERY, OpCode.GET_MORE, OpCode.INSERT, OpCode.UPDATE, OpCode.DELETE),
        OpCode.KILL_CURSORS,
    }
)
_LEFT: Final = "peer"
_WAITS: Final = (Await, Delay)
_READ_AHEAD_BYTES: Final = 1 << 20


class Connection(asyncio.Protocol):
    """The protocol of one accepted connection."""

    def __init__(self, node: Node, *, balanced: bool = False) -> None:
        self.node = node
        self._balanced = balanced
        self._wire = WireConnection(patient=True)
        self._transport: asyncio.Transport
        self.state: ConnectionState
        self._busy = False
        """A request waits, or an exhaust stream is between two replies: what arrives must queue."""
        self._now = 0.0
        self._turns = node.cluster.turns
        self._waiting: RequestContext | None = None
        self._worker: Worker | None = None
        """Where the request that waits gave way to others, if that is what it did."""
        self._deferred = False
        """It has had its turn, and more requests have arrived."""
        self._leaving = False
        """The client sends nothing more, and waits for nothing: what it sent is dealt with nevertheless."""
        self._pause: Pause | None = None
        self._next: RequestContext | None = None
        self._writable = True
        self._reading = True
        self._unread = 0
        self._closed = False
        self._reservation: Reserved | None = None
        """Its own token on credit, while it is not established."""
        self._late: RequestContext | None = None
        """What has run, and is answered later."""
        self._due = False
        """The request that waits may go on, when the node answers again."""
        self.held: Callable[[], None] | None = None
        """What a door in front of it has yet to do, when the node answers again."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.state = self.node.admit(self, f"{peer[0]}:{peer[1]}" if peer else "anonymous")
        self.state.balanced = self._balanced or self._seems_balanced()
        self.node.record(ConnectionAccepted(self.state.id, self.state.peer))
        if self.node.refuses:
            # It was accepted before the listener closed, and told of afterwards.
            self.abort("the server stops")
        elif not self.node.gate.has_room(self.state.peer):
            self.close("there are too many open connections")
        else:
            self._establish()

    def _seems_balanced(self) -> bool:
        return self.node.fail_points.is_on(FROM_LOAD_BALANCER_PORT)

    def _establish(self) -> None:
        """Be let in, wait for that, or be turned away without a word."""
        node = self.node
        verdict = node.gate.ask(self.state.peer, node.clock.now())
        if verdict is REJECTED:
            self.close("too many connections are being established")
        elif verdict is not ADMITTED:
            self._reservation = verdict
            self._wait_to_enter(verdict)

    def _wait_to_enter(self, reservation: Reserved) -> None:
        node = self.node
        self._pause = Pause(node, self._enter, Await(node.admission.changed, reservation.ready_at))

    def _enter(self) -> None:
        reservation = self._reservation
        if reservation is None:
            return
        if self.node.gate.waits(reservation, self.node.clock.now()):
            self._wait_to_enter(reservation)
            return
        self._reservation = self._pause = None
        self.go_on()

    @property
    def listens(self) -> bool:
        """Whether what the client sends is looked at: the node answers, and the connection is established."""
        return self.node.ready and self._reservation is None

    def secured(self, certificate_subject: str | None) -> None:
        """Hear that TLS is in place, and whom the client's certificate was made out to."""
        self.state.secure = True
        self.node.counters.completed("TLSHandshake", self.node.clock.now() - self.state.accepted)
        self.state.certificate_subject = certificate_subject

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        self.node.counters.bytes_in += len(data)
        self._wire.receive_data(data)
        self.serve()
        if self._busy or not self.listens:
            # Reading goes on for a while: it is how the client's leaving is noticed.
            self._unread += len(data)
            if self._unread > _READ_AHEAD_BYTES:
                self._set_reading(on=False)

    def eof_received(self) -> bool | None:
        # Those who want no reply may leave once they have said all: it is done, although they are gone.
        self._leaving = self._deferred or (
            self._waiting is not None and self._worker is not None and self._waiting.silent
        )
        return self._leaving

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._abandon(_LEFT)
        self.node.forget(self)

    def pause_writing(self) -> None:
        self._writable = False
        self._set_reading(on=False)

    def resume_writing(self) -> None:
        self._writable = True
        self._set_reading(on=True)
        self.serve()

    # The loop over requests.

    def serve(self) -> None:
        """Deal with the requests that have arrived, until one waits or the client must read first."""
        until = math.inf
        while not self._busy and self._writable and not self._closed and self.listens:
            if self._next is not None:
                request, self._next = self._next, None
                self._run(request)
                continue
            if self._wire.idle:
                return
            if self._now >= until:
                # Many small requests are as long as a large one: others must have their turn.
                self._busy = self._deferred = True
                self._turns.enqueue(self._take_turn)
                return
            if self.node.auth:
                self._wire.max_message_size = self.state.identity.largest_message(self.node.parameters)
            try:
                envelope = self._wire.next_message()
            except RemoteProtocolError as error:
                self.node.log_protocol_error(self.state, str(error))
                self.close(str(error))
                return
            if isinstance(envelope, Signal):
                return
            self._start(envelope)
            until = min(until, self._now + self.node.parameters.yield_period)

    def _take_turn(self) -> None:
        self._busy = self._deferred = False
        self._catch_up()

    def _start(self, envelope: Envelope) -> None:
        node = self.node
        node.counters.requests += 1
        if envelope.op_code not in _REQUESTS:
            node.log_protocol_error(self.state, f"unknown operation code {envelope.op_code}")
            return
        self._run(RequestContext(node, self.state, envelope, node.clock.now()))

    def _run(self, request: RequestContext) -> None:
        self._now = request.arrived
        self._follow(request, self._turns.run(self.node.pipeline.run, request, request.arrived))

    def _follow(self, request: RequestContext, action: Action | Worker) -> None:
        if isinstance(action, _WAITS):
            self._busy = True
            self._waiting = request
            self._pause = Pause(self.node, self.resume, action)
            return
        if isinstance(action, Worker):
            self._busy = True
            self._waiting, self._worker = request, action
            self._turns.enqueue(self.resume)
            return
        # It refers to the request: a cycle that would have to wait for the garbage collector.
        request.context = None
        if action is RESPOND:
            if self.node.fail_points.active:
                self._send(request)
            else:
                self._finish(request)
        elif isinstance(action, Disconnect):
            self._record(request, "disconnect")
            self.close(action.reason)
        elif isinstance(action, Silence):
            self._record(request, "silence")

    def resume(self) -> None:
        """Go on with the request that waited; then with those behind it."""
        request = self._waiting
        if request is None:
            return
        if not self.node.ready:
            self._due = True
            return
        worker, self._worker = self._worker, None
        self._waiting = self._pause = None
        self._busy = False
        now = self._now = self.node.clock.now()
        if worker is not None:
            self._follow(request, self._turns.resume(worker, now))
        else:
            self._follow(request, self._turns.run(self.node.pipeline.resume, request, now))
        self._catch_up()

    def go_on(self) -> None:
        """Deal with what came while the node did not answer."""
        if self.held is not None:
            held, self.held = self.held, None
            held()
        if self._due:
            self._due = False
            self.resume()
        else:
            self._catch_up()

    @property
    def waiting(self) -> RequestContext | None:
        """The request that waits, if one does."""
        return self._waiting

    def interrupt(self, request: RequestContext, error: CommandError) -> None:
        """End a request with an error; one that waits no more is left alone."""
        if request is not self._waiting:
            return
        if self._worker is not None:
            request.interruption = error
            return
        if self._pause is not None:
            self._pause.cancel()
        self._waiting = self._pause = None
        self._busy = False
        self._now = self.node.clock.now()
        context = request.context
        if context is not None and context.transaction is not None and request.has_autocommit:
            self.node.transactions.abort(context.transaction)
        self._follow(request, self.node.pipeline.interrupt(request, error))
        self._catch_up()

    def _catch_up(self) -> None:
        if not self._busy:
            self._unread = 0
            self._set_reading(on=self._writable)
            self.serve()
            if self._leaving and not self._busy:
                self.close(_LEFT)

    # Replies.

    def _send(self, request: RequestContext) -> None:
        """Answer, unless a fail point has the reply wait or get lost."""
        fail_points = self.node.fail_points
        fault = fail_points.send_fault(self.state.app_name)
        if fault is None:
            self._finish(request)
            return
        self.node.record_hit(DELAY_OR_FAIL_SEND, request, "close" if fault.fails else "block")
        if fault.fails:
            self._record(request, "disconnect")
            self.close(f"{DELAY_OR_FAIL_SEND} loses a reply")
            return
        self._busy = True
        self._late = request
        self._pause = Pause(self.node, self._send_late, Await(until=self._now + fault.delay))

    def _send_late(self) -> None:
        if not self.node.ready:
            self.held = self._send_late
            return
        request, self._late, self._pause = self._late, None, None
        if request is None:
            return
        self._busy = False
        self._now = self.node.clock.now()
        self._finish(request)
        self._catch_up()

    def _finish(self, request: RequestContext) -> None:
        if request.encoded is not None:
            self._turn_away(request, request.encoded)
            return
        failure = request.failure
        code = None if failure is None else int(failure.code)
        self._record(request, "ok" if code is None else code)
        if code is not None and is_in(code, Category.CLOSE_CONNECTION):
            self.close(f"error {code} closes the connection")
        elif not request.silent:
            self._reply(request)
        elif code is not None and is_in(code, Category.NOT_PRIMARY):
            self.close("not primary, and the client waits for no reply")

    def _turn_away(self, request: RequestContext, reply: bytes) -> None:
        """Send a reply that was built beforehand: to refuse costs as little as it can."""
        failure, envelope = request.failure, request.envelope
        self._record(request, "ok" if failure is None else int(failure.code))
        if request.silent:
            return
        if envelope.op_code in LEGACY or envelope.compressor is not None or request.flags & CHECKSUM_PRESENT:
            self._reply(request)
            return
        request_id = self.node.next_request_id()
        data = self._wire.send(OpMsg(reply), request_id=request_id, response_to=request.response_to)
        self._transport.write(data)
        self.node.counters.bytes_out += len(data)

    def _reply(self, request: RequestContext) -> None:
        following = continuation(request) if request.flags & EXHAUST_ALLOWED else None
        request_id = self.node.next_request_id()
        more_to_come = following is not None and not self._hides_more()
        try:
            data = encode(request, self._wire, request_id, more_to_come=more_to_come)
        except (BSONError, CommandError, LocalProtocolError, OverflowError, TypeError, ValueError) as error:
            following = None
            request.failure = unsendable(error)
            data = encode(request, self._wire, request_id, more_to_come=False)
        self._transport.write(data)
        self.node.counters.bytes_out += len(data)
        if following is not None:
            self._stream(request, following)

    def _hides_more(self) -> bool:
        return self.node.fail_points.is_on(DO_NOT_SET_MORE_TO_COME)

    def _stream(self, request: RequestContext, following: dict[str, Any]) -> None:
        """Run an exhaust stream's next request, not at once: others must have their turn."""
        self._busy = True
        response_to = self.node.last_request_id

        def go_on() -> None:
            self._busy = False
            if not self._closed:
                now = self.node.clock.now()
                self._next = request.next_iteration(following, response_to=response_to, now=now)
                self._catch_up()

        asyncio.get_running_loop().call_soon(go_on)

    def _record(self, request: RequestContext, outcome: str | int) -> None:
        self.node.journal.command_finished(
            self._now,
            self.node.name,
            request.name,
            request.db,
            request.envelope.request_id,
            self.state.id,
            request.session_id,
            request.txn_number,
            outcome,
        )

    # The end.

    def close(self, reason: str) -> None:
        """Close, once what was written has been sent."""
        if not self._closed:
            self._abandon(reason)
            self._transport.close()

    def abort(self, reason: str) -> None:
        """Close at once, unsent replies and all."""
        self._abandon(reason)
        self._transport.abort()

    def _abandon(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        if self._reservation is not None:
            self._reservation = None
            self.node.gate.leave(client_left=reason == _LEFT)
        if self._pause is not None:
            self._pause.cancel()
        if self._worker is not None:
            worker, self._worker = self._worker, None
            self._turns.end(worker, _disconnected())
        if self._waiting is not None and self._waiting.paused is not None:
            self.node.pipeline.abandon(self._waiting)
        self._waiting = self._pause = self._next = self._late = None
        self.node.record(ConnectionClosed(self.state.id, reason))

    def _set_reading(self, *, on: bool) -> None:
        if on is self._reading or self._closed:
            return
        self._reading = on
        if on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()


def _disconnected() -> CommandError:
    return CommandError(
        ErrorCode.CLIENT_DISCONNECT, "operation was interrupted because a client disconnected"
    )

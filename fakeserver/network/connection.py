"""One client's connection: bytes in, requests through the pipeline, bytes out.

A server reads each connection on a thread of its own, one request after the other. Here one event loop serves
all of them, so what would be a thread's position in its loop is kept as state:

    idle    the receive buffer holds no whole message
    busy    the buffer is left alone, because a request of this connection
              - is paused in the pipeline, for an instant or a bell (`waiting`, `_pause`),
              - gave way to others in the middle of its run (`waiting`, `_worker`),
              - has run, and a fail point holds its reply back (`_pause`),
              - is the next one of an exhaust stream, whose last reply has just been sent,
            or because the connection has had its turn, and more requests have arrived (`_deferred`)
    closed  for good

The hot path is synchronous: a request that need not wait is answered inside `data_received`, without a task.
Requests behind a busy one stay in the buffer. The connection is read on up to a bound all the same, since it
is the only way to notice that the client has left: from there TCP's own flow control holds the client back.

An exhaust stream is one message of the client and many requests: each successful reply carries moreToCome and
is followed by a request that nobody sent, which passes all stages anew, limiter and fail points included. It
answers the reply before it (`OP_MSG: exhaustAllowed`).

`close` sends what was written first, `abort` does not. Both give up the request that is under way: one that
is paused leaves its stages and returns its tickets and tokens, one that gave way ends with ClientDisconnect
where it stands. A client that shut down its sending side after unacknowledged writes is the exception: what
it sent is executed before the connection ends.

A request whose client goes meanwhile goes on, and the connection counts, until that is noticed (`LossWatch`).
"""

from __future__ import annotations

import asyncio
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, cast

from fakeserver.admission.invocations import writes
from fakeserver.admission.parameters import AT_ONCE, RequestPlace, ends_with_client, noticed_at
from fakeserver.admission.rate_limiter import ADMITTED, REJECTED
from fakeserver.deployment.doors import Door
from fakeserver.deployment.establishment import Establishment
from fakeserver.deployment.records.events import ConnectionAccepted, ConnectionClosed
from fakeserver.errors import CommandError
from fakeserver.network.first_bytes import Greeting, Refusal
from fakeserver.network.transport import TransportAbove, is_reset
from fakeserver.request.context import REQUESTS, RequestContext
from fakeserver.request.pipeline import RESPOND, Disconnect, Step
from fakeserver.request.response import ANSWERED_OTHERWISE, end, reject
from fakeserver.settings.failpoints import DELAY_OR_FAIL_SEND, FROM_LOAD_BALANCER_PORT
from fakeserver.waiting.interrupts import Worker
from fakeserver.waiting.pause import Await, Delay, Pause
from fakeserver.waiting.turns import is_short
from mongowire.codes import ErrorCode
from mongowire.connection import Envelope, Signal, WireConnection
from mongowire.errors import RemoteProtocolError
from mongowire.framing import HEADER_SIZE
from mongowire.messages import OpCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from fakeserver.access.session import ConnectionState
    from fakeserver.deployment.node import Node
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.pipeline import Action


_MSG: Final = int(OpCode.MSG)
_new: Final = tuple.__new__


class Connection(asyncio.Protocol):
    """The protocol of one accepted connection."""

    def __init__(self, node: Node, door: Door = Door.MAIN) -> None:
        self.node = node
        self._door = door
        self.wire = WireConnection(patient=True)
        self.transport: asyncio.Transport
        self.state: ConnectionState
        self._greeting: Greeting
        self._busy = False
        """Requests that arrive stay in the receive buffer."""
        self._time: Callable[[], float]
        self._now = 0.0
        """The instant of the request's arrival, or of its last continuation."""
        self._turns = node.cluster.turns
        self.waiting: RequestContext | None = None
        """The request that is paused or has given way."""
        self._worker: Worker | None = None
        """The stack on which that request gave way, None for one that is paused."""
        self._deferred = False
        """The connection has had its turn, and stands in the queue for the next one."""
        self._leaving = False
        """The client has shut down its side and expects no reply; what it sent is still executed."""
        self._pause: Pause | None = None
        """The wait of the paused request, or of the reply that a fail point delays."""
        self._next: RequestContext | None = None
        """The request that an exhaust stream runs next."""
        self._writable = True
        """The transport takes more bytes; while it does not, no request is begun."""
        self._inflow = Inflow()
        self._outflow = Outflow()
        self._closed = False
        self._watch = LossWatch(self)
        self._establishment = Establishment(node, node.gate, self.go_on)
        self._due: Callable[[], None] | None = None
        """The continuation whose time came while the node was silent."""
        self.held: Callable[[], None] | None = None
        """The work of a TLS layer in front of this, put off while the node is silent."""

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are no subclass of asyncio's
        clock = self.node.clock
        self._time = asyncio.get_running_loop().time if clock.is_real else clock.now  # the same, and quicker
        peer = transport.get_extra_info("peername")
        self.state = self.node.admit(self, f"{peer[0]}:{peer[1]}" if peer else "anonymous", self._door)
        self._greeting = Greeting(self.wire, self.node, self.state)
        self.state.balanced |= self.node.fail_points.is_on(FROM_LOAD_BALANCER_PORT)
        self.node.record(ConnectionAccepted(self.state.id, self.state.peer))
        if self.node.refuses:
            # The socket was accepted before the listener closed; asyncio reports it only now.
            self.abort("the server stops")
            return
        if (refusal := self._establishment.begin(self.state)) is not None:
            self.close(refusal)

    @property
    def listens(self) -> bool:
        """Whether what the client sends is looked at: the node answers, and the connection is established."""
        return self.node.ready and not self._establishment.waits

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        node = self.node
        node.counters.bytes_in += len(data)
        # Most data is one message, to which nothing is in the way.
        free = not self._busy and node.ready and self._writable and self._next is None
        head = self.wire.sole(data) if free and not node.auth and self._greeting.over else None
        if head is not None:
            self._take(head, data)
        else:
            self.wire.receive_data(data)
            self.serve()
        if self._busy or (head is None and not self.listens):
            self._inflow.read_ahead(self.transport, len(data))

    def eof_received(self) -> bool | None:
        # A client that wants no replies may leave once it has sent its writes; a server executes them. One
        # that waits for a reply has given up, and its request is interrupted (`ClientDisconnect`).
        self._leaving = self._deferred or (
            self.waiting is not None and self._worker is not None and self.waiting.response.silent
        )
        return self._leaving

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._watch.begin():
            self._writable = True
        else:
            self._abandon(LEFT)
            self.node.forget(self)

    def pause_writing(self) -> None:
        self._writable = False
        self._inflow.stop(self.transport)

    def resume_writing(self) -> None:
        self._writable = True
        self._inflow.go_on(self.transport)
        self.serve()

    # The loop over requests.

    def serve(self) -> None:
        """Run the requests that have arrived, until one must wait or the client must read first."""
        with self._outflow.joining(self.transport):
            until = math.inf
            while not self._busy and self._writable and not self._closed and self.listens:
                if self._next is not None:
                    request, self._next = self._next, None
                    self._run(request)
                    continue
                if self.wire.idle or self._watch.has_missed_reply or self._outflow.is_in_vain:
                    return
                if self._now >= until:
                    # Many small requests take as long as a large one, and others must have their turn.
                    self._busy = self._deferred = True
                    self._turns.enqueue(self._take_turn)
                    return
                if self.node.auth:
                    # Strangers may send small messages only, and each command may authenticate the client.
                    self.wire.max_message_size = self.state.identity.largest_message(self.node.parameters)
                if not self._greeting.over and (refusal := self._greeting.refusal()) is not None:
                    self.refuse(refusal)
                    return
                try:
                    envelope = self.wire.next_message()
                except RemoteProtocolError as error:
                    self.refuse(Refusal(str(error)))
                    return
                if isinstance(envelope, Signal):
                    return
                self._start(envelope)
                until = min(until, self._now + self.node.parameters.yield_period)

    def _take_turn(self) -> None:
        self._busy = self._deferred = False
        self._catch_up()

    def _take(self, head: tuple[int, int, int, int, int], data: bytes) -> None:
        """Begin the request that is one whole message, as most `data` is."""
        size, request_id, response_to, op_code, flags = head
        node = self.node
        if op_code != _MSG or flags & ANSWERED_OTHERWISE:
            self._start(Envelope(request_id, response_to, op_code, data[HEADER_SIZE:], None, size))
            return
        node.counters.requests += 1
        now = self._now = self._time()
        pipeline, reservation = node.pipeline, None
        walk, door = pipeline.run, pipeline.door(node)
        if door is not None:
            walk, verdict = pipeline.run_screened, door(self.state, now)
            if verdict is REJECTED:
                self._write(reject(node, self.state, data, request_id, now))
                return
            reservation = None if verdict is ADMITTED else verdict
        # What the named tuple's own constructor does, at half its cost.
        envelope = _new(Envelope, (request_id, response_to, op_code, data[HEADER_SIZE:], None, size, None))
        request = RequestContext(node, self.state, envelope, now, flags)
        if reservation is not None:
            request.admission.reservation = reservation
        self._follow(request, self._turns.run(walk, request, now, short=is_short(data)))

    def _start(self, envelope: Envelope) -> None:
        node = self.node
        node.counters.requests += 1
        if envelope.op_code not in REQUESTS:
            # A server drops such a message without a reply, and the connection lives on.
            Refusal(f"unknown operation code {envelope.op_code}").log(node, self.state)
            return
        self._run(RequestContext(node, self.state, envelope, self._time()))

    def _run(self, request: RequestContext) -> None:
        self._now = request.arrived
        self._follow(request, self._turns.run(self.node.pipeline.run, request, request.arrived))

    def _follow(self, request: RequestContext, action: Action | Worker) -> None:
        if action is RESPOND and not self.node.fail_points.active:
            # The context refers to the request: a cycle that would be left to the garbage collector.
            request.execution.context = None
            self._finish(request)
            return
        if isinstance(action, Await | Delay | Worker):
            self._busy, self.waiting = True, request
            if isinstance(action, Worker):
                self._worker = action
                self._turns.enqueue(self.resume)
            else:
                request.record_wait()
                self._pause = Pause(self.node, self.resume, action)
            if self._watch.lost:
                self._watch.look()
            return
        request.execution.context = None
        if action is RESPOND:
            self._send(request)
        else:
            request.record_end(self._now, "disconnect" if isinstance(action, Disconnect) else "silence")
            if isinstance(action, Disconnect):
                self.close(action.reason)

    def resume(self) -> None:
        """Go on with the request that waited; then with those behind it."""
        request = self.waiting
        if request is None:
            return
        if not self.node.ready:
            # A stopped process runs nothing, whatever time it is.
            self._due = self.resume
            return
        worker, self._worker = self._worker, None
        self.waiting = self._pause = None
        self._busy = False
        now = self._now = self.node.clock.now()
        if worker is not None:
            self._follow(request, self._turns.resume(worker, now))
        else:
            self._follow(request, self._turns.run(self.node.pipeline.resume, request, now))
        self._catch_up()

    def go_on(self) -> None:
        """Deal with what came while the node was silent, or the connection not yet established."""
        held, self.held = self.held, None
        if held is not None:
            held()
        due, self._due = self._due, None
        if due is not None:
            due()
        self._catch_up()

    @property
    def outlives_client(self) -> bool:
        """Whether there is anything to do for a client that has gone: a request waits, or is yet unread."""
        if self._closed or self._establishment.waits:
            return False
        # A process that is stopped has yet to read what it was sent.
        unread = not self.wire.idle or self.held is not None
        return self.waiting is not None or (unread and not self.node.ready)

    def notice_loss(self) -> None:
        """Learn that the client has gone."""
        if self.node.ready:
            self.close(LEFT)
        else:
            # A stopped process notices nothing; when it goes on, this is the first thing that is due.
            self._due = self.notice_loss

    def interrupt(self, request: RequestContext, error: CommandError) -> None:
        """End a request with an error; one that waits no more is left alone."""
        if request is not self.waiting:
            return
        if self._worker is not None:
            # It stands in the middle of its run, and ends when it is its turn again.
            request.interrupt(error)
            return
        if self._pause is not None:
            self._pause.cancel()
        self.waiting = self._pause = None
        self._busy = False
        self._now = self.node.clock.now()
        # The handler that waits is not entered again, so nobody else would abort its transaction.
        context = request.execution.context
        if context is not None and context.transaction is not None and request.has_autocommit:
            self.node.transactions.abort(context.transaction)
        self._follow(request, self.node.pipeline.interrupt(request, error))
        self._catch_up()

    def _catch_up(self) -> None:
        if self._busy:
            return
        self._inflow.caught_up()
        if self._writable:
            self._inflow.go_on(self.transport)
        self.serve()
        if (self._leaving or self._watch.lost) and self.node.ready and not self._busy:
            self.close(LEFT)

    # Replies.

    def _send(self, request: RequestContext) -> None:
        """Answer, unless a fail point delays the reply or loses it."""
        fail_points = self.node.fail_points
        fault = fail_points.send_fault(self.state.app_name)
        if fault is None:
            self._finish(request)
            return
        request.record_hit(DELAY_OR_FAIL_SEND, "close" if fault.fails else "block")
        if fault.fails:
            request.record_end(self._now, "disconnect")
            self.close(f"{DELAY_OR_FAIL_SEND} loses a reply")
            return
        self._busy = True
        late = Await(until=self._now + fault.delay)
        self._pause = Pause(self.node, partial(self._send_late, request), late)

    def _send_late(self, request: RequestContext) -> None:
        if self._closed:
            return
        if not self.node.ready:
            self._due = partial(self._send_late, request)
            return
        self._pause = None
        self._busy = False
        self._now = self.node.clock.now()
        self._finish(request)
        self._catch_up()

    def _finish(self, request: RequestContext) -> None:
        data, reason, following = end(request, self.wire, self._now)
        if data:
            self._write(data)
        if reason:
            self.close(reason)
        elif following is not None and not self._watch.lost:
            self._stream(request, following)

    def _write(self, data: bytes) -> None:
        if not (self._watch.lost and self._watch.misses_reply()):
            if self._outflow.transport is None:
                self.transport.write(data)
            else:
                self._outflow.write(data, self.transport)
            self.node.counters.bytes_out += len(data)

    def _stream(self, request: RequestContext, following: dict[str, Any]) -> None:
        """Run an exhaust stream's next request, not at once: other connections must have their turn."""
        self._busy = True
        response_to = self.node.last_request_id

        def go_on() -> None:
            self._busy = False
            if not self._closed:
                now = self.node.clock.now()
                self._next = request.next_iteration(following, response_to=response_to, now=now)
                self._catch_up()

        asyncio.get_running_loop().call_soon(go_on)

    # The end.

    def refuse(self, refusal: Refusal) -> None:
        """Close because of what the client sent."""
        refusal.log(self.node, self.state)
        if refusal.answer:
            self._write(refusal.answer)
        self.close(refusal.message)

    def close(self, reason: str) -> None:
        """Close, once what was written has been sent."""
        if not self._closed:
            self._abandon(reason)
            self.transport.close()

    def abort(self, reason: str) -> None:
        """Close at once, unsent replies and all."""
        self._abandon(reason)
        self.transport.abort()

    def _abandon(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        self._outflow.flush()
        self._establishment.give_up(client_left=reason == LEFT)
        if self._pause is not None:
            self._pause.cancel()
        self._watch.end()
        if self._worker is not None:
            worker, self._worker = self._worker, None
            message = "operation was interrupted because a client disconnected"
            self._turns.end(worker, CommandError(ErrorCode.CLIENT_DISCONNECT, message))
        if self.waiting is not None and self.waiting.paused is not None:
            self.node.pipeline.abandon(self.waiting)
            self.waiting.record_abandonment()
        self.waiting = self._pause = self._next = self._due = None
        self.node.record(ConnectionClosed(self.state.id, reason))
        if self._watch.lost:
            self.node.forget(self)


# The bytes that leave a connection: replies to requests that came together go together.


_MOST_BYTES: Final = 1 << 16
"""The bytes that are kept back at most, before the transport says whether it takes more."""


class Outflow:
    """The replies that are kept back, to leave in one piece."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        """The transport for which replies are kept; None where each is to leave at once."""
        self._kept: list[bytes] = []
        self._size = 0

    def joining(self, transport: asyncio.Transport) -> Self:
        """Keep what is written inside.

        What stands in front of a socket looks at each message, so for that nothing is kept.
        """
        self.transport = None if isinstance(transport, TransportAbove) else transport
        return self

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(self, *_: object) -> None:
        """Send what was kept."""
        self.flush()
        self.transport = None

    def write(self, data: bytes, transport: asyncio.Transport) -> None:
        """Keep a reply, unless something has come to stand in front of the socket meanwhile."""
        if transport is not self.transport:
            self.flush()
            transport.write(data)
            return
        self._kept.append(data)
        self._size += len(data)
        if self._size > _MOST_BYTES:
            self.flush()

    @property
    def is_in_vain(self) -> bool:
        """Whether a reply is kept for nobody: the client has reset the connection.

        A server learns this when it writes that reply, and reads no request more.
        """
        return bool(self._kept) and self.transport is not None and is_reset(self.transport)

    def flush(self) -> None:
        """Send what was kept."""
        if self._kept and self.transport is not None:
            kept, self._kept, self._size = self._kept, [], 0
            self.transport.write(b"".join(kept))


# The bytes that are read from a connection while a request of it is under way.

_READ_AHEAD_BYTES: Final = 1 << 20
"""The bytes that are read behind a request that is under way, before reading stops."""


class Inflow:
    """The bytes that a transport delivers: up to a bound beyond what the connection can take now."""

    def __init__(self) -> None:
        self._reading = True
        """The transport delivers bytes."""
        self._unread = 0
        """The bytes that arrived while the connection was busy."""

    def read_ahead(self, transport: asyncio.Transport, count: int) -> None:
        """Take note of bytes that wait behind a request."""
        # Not stopped at once: only while it reads does the transport notice that the client has left.
        self._unread += count
        if self._unread > _READ_AHEAD_BYTES:
            self.stop(transport)

    def caught_up(self) -> None:
        """Take note that nothing waits any more."""
        self._unread = 0

    def stop(self, transport: asyncio.Transport) -> None:
        """Have the transport deliver nothing."""
        if self._reading:
            self._reading = False
            transport.pause_reading()

    def go_on(self, transport: asyncio.Transport) -> None:
        """Have the transport deliver again."""
        if not self._reading:
            self._reading = True
            transport.resume_reading()


# The wait for the instant at which a server notices that the client of a connection has gone.


_PLACES: Final = {
    Step.RULES: RequestPlace.HELD,
    Step.EXECUTION_CONTROL: RequestPlace.QUEUED,
    Step.EXECUTE: RequestPlace.QUEUED,
    Step.WRITE_CONCERN: RequestPlace.BEHIND,
}


def loss_noticed_at(request: RequestContext, now: float) -> float:
    """Return when the server notices that a request's client has gone (`abandonedRequests`).

    That is `now` for at once and inf for never, for as long as the request waits where it does.
    """
    # Unknown as long as the message is unread.
    spec: CommandSpec | None = getattr(request, "spec", None)
    marked = spec is not None and ends_with_client(
        spec.name,
        writes=writes(spec.name, request.command or {}),
        exhaust=request.is_continuation,
    )
    served_since = request.admission.served_since
    # What gave way has worked since it came, or nearly so.
    since = request.arrived if served_since is None else served_since
    when = request.node.parameters["abandonedRequests"]
    if request.paused is None or served_since is not None:
        place = RequestPlace.WORKING
    else:
        place = _PLACES.get(request.paused.step, RequestPlace.AHEAD)
    return noticed_at(when, place, marked=marked, since=since, now=now)


LEFT: Final = "peer"
"""The reason of a connection that ends because its client has gone."""


class LossWatch:
    """What a connection knows of the loss of its client: that it has gone, and when that is noticed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.lost = False
        """The client has gone, and what it sent goes on: replies are sent nowhere."""
        self.has_missed_reply = False
        """It did not get a reply: a server that cannot send one reads no further request."""
        self._check: Pause | None = None
        self._due = math.inf
        """The instant of that check."""

    def begin(self) -> bool:
        """Take note that the client has gone; return whether anything goes on without it."""
        node = self._connection.node
        if not self._connection.outlives_client or node.parameters["abandonedRequests"] == AT_ONCE:
            return False
        request = self._connection.waiting
        if request is not None and node.ready:
            now = node.clock.now()
            if loss_noticed_at(request, now) <= now:
                return False
        self.lost = True
        self.look()
        return True

    def misses_reply(self) -> bool:
        """Take note that a reply has nowhere to go; return whether that is so."""
        self.has_missed_reply = self.has_missed_reply or self.lost
        return self.lost

    def look(self) -> None:
        """Have a loss noticed in time, now that the connection's request waits for something else."""
        due = self._due
        self.end()
        node, request = self._connection.node, self._connection.waiting
        if request is None:
            return
        now = node.clock.now()
        # A check that came due during a turn of the request is made behind it.
        self._due = now if due <= now else loss_noticed_at(request, now)
        if self._due <= now:
            self._connection.notice_loss()
        elif self._due < math.inf:
            self._check = Pause(node, self._connection.notice_loss, Await(until=self._due))

    def end(self) -> None:
        """Watch no more."""
        self._due = math.inf
        if self._check is not None:
            self._check.cancel()
            self._check = None

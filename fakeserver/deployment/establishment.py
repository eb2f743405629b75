"""The establishment of connections: the limits that a new one meets before a byte is read from it.

A server refuses in two ways. Above `maxIncomingConnections` the socket is closed as soon as it is accepted.
Below it the rate limiter decides, which can also have a connection wait for its token. Neither refusal has a
message: at this point no request has come that could be answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import Int64

from fakeserver.admission.prioritization import AddressRanges
from fakeserver.admission.progress import CONNECTION_RATE
from fakeserver.admission.rate_limiter import ADMITTED, REJECTED
from fakeserver.deployment.doors import Door
from fakeserver.deployment.records.events import ConnectionQueued
from fakeserver.settings.failpoints import REJECT_CONNECTIONS
from fakeserver.waiting.pause import Await, Pause

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fakeserver.access.session import ConnectionState
    from fakeserver.admission.rate_limiter import RateLimiter, Reserved, Verdict
    from fakeserver.deployment.server import Server


class Gate:
    """The limit of one server on open connections, and on new ones per second.

    The second is the `Session Establishment Rate Limiter`.
    """

    def __init__(self, node: Server) -> None:
        self._node = node
        self._refused = 0
        """The number of connections that there was no room for."""
        self._refused_at_connection = -1
        """The number of connections accepted before the last one that found no free file descriptor."""
        self._left = 0
        """The number of clients that closed their connection while it waited."""

    def __repr__(self) -> str:
        return f"<Gate {self._limiter!r}>"

    @property
    def _limiter(self) -> RateLimiter:
        return self._node.admission.establishment

    def has_room(self, connection: ConnectionState) -> bool:
        """Say whether one more connection may be open.

        Those from the override's addresses always may, and those that come by the port for priority.
        """
        peer, fail_points = connection.peer, self._node.fail_points
        if connection.has_priority:
            connection.limit_exempt = True
            return True
        exempt = self._overrides
        connection.limit_exempt = bool(exempt) and peer in AddressRanges.of(exempt)
        if fail_points.active and fail_points.is_on(REJECT_CONNECTIONS):
            return self._refuse(peer)
        # The new connection is in the table already, so the limit itself is still within the limit.
        limit = self._node.parameters["maxIncomingConnections"]
        if len(self._node.connections) <= limit or connection.limit_exempt:
            return True
        return self._refuse(peer)

    @property
    def _overrides(self) -> Sequence[str]:
        ranges: Sequence[str] = self._node.parameters["maxIncomingConnectionsOverride"]["ranges"]
        return ranges

    def refuse_header(self, peer: str, reason: str) -> None:
        """Take note of a connection that did not say, on the port for proxies, whose it is."""
        self._node.log.write(
            "NETWORK",
            6067900,
            "Error while parsing proxy protocol header",
            context="listener",
            severity="W",
            attr={"remote": peer, "error": reason},
        )

    def _refuse(self, peer: str) -> bool:
        self._refused += 1
        self._node.log.write(
            "NETWORK",
            22942,
            "Connection refused because there are too many open connections",
            context="listener",
            attr={"remote": peer, "connectionCount": len(self._node.connections)},
        )
        return False

    def refuse_for_want_of_files(self) -> None:
        """Take note of a connection that was closed for want of a file descriptor.

        Only the first in a row is logged: the listener meets the same error again until a file is closed.
        """
        self._refused += 1
        if self._refused_at_connection == self._node.counters.connections:
            return
        self._refused_at_connection = self._node.counters.connections
        self._node.log.write(
            "NETWORK",
            22942,
            "Connection refused because there are too many open files",
            context="listener",
            attr={"connectionCount": len(self._node.connections)},
        )

    def ask(self, connection: ConnectionState, now: float) -> Verdict:
        """Admit a connection, at once or later, or reject it."""
        admission = self._node.admission
        if not admission.limits_connections:
            return ADMITTED
        if connection.has_priority or admission.bypasses_establishment(connection.peer):
            admission.establishment.exempt()
            return ADMITTED
        return admission.establishment.acquire(now)

    def waits(self, reservation: Reserved, now: float) -> bool:
        """Return whether a connection still has to wait; if not, its reservation is settled."""
        admission = self._node.admission
        if now >= reservation.ready_at:
            admission.establishment.mature(reservation)
        elif admission.limits_connections:
            return True
        else:
            # The limiter was switched off meanwhile: those that queue are released, and counted as exempt.
            admission.establishment.release()
        return False

    def record_wait(self, connection: int) -> None:
        """Enter in the journal that a connection waits."""
        self._node.record(ConnectionQueued(connection, CONNECTION_RATE))

    def leave(self, *, client_left: bool) -> None:
        """End the wait of a connection that was closed."""
        self._limiter.interrupt()
        self._left += client_left

    @property
    def may_exempt(self) -> bool:
        """Whether some connections need no room, now or from the start."""
        return bool(self._overrides) or Door.PRIORITY in self._node.doors.sides

    def stats(self) -> dict[str, Any]:
        """Return the counters of `serverStatus.connections` about queued and rejected connections."""
        limiter = self._limiter
        return {
            "rejected": self._refused + limiter.rejected,
            "queuedForEstablishment": Int64(limiter.queued),
            "establishmentRateLimit": {
                "rejected": Int64(limiter.rejected),
                "exempted": Int64(limiter.exempted),
                "interruptedDueToClientDisconnect": Int64(self._left),
            },
        }


class Establishment:
    """The establishment of one connection: at once, after a wait for its token, or never.

    `on_established` is called at the end of a wait.
    """

    def __init__(self, node: Server, gate: Gate, on_established: Callable[[], None]) -> None:
        self.waits = False
        """The connection waits for its token; what the client sends stays unread."""
        self._node = node
        self._gate = gate
        self._on_established = on_established
        self._pause: Pause | None = None
        self._thread = ""
        """Whose wait it is, for the log."""

    def begin(self, connection: ConnectionState) -> str | None:
        """Establish the connection, or begin to wait; return the reason for which it is to be closed."""
        # The limit on open connections comes first: a connection above it takes no token.
        if not self._gate.has_room(connection):
            return "there are too many open connections"
        verdict = self._gate.ask(connection, self._node.clock.now())
        if verdict is REJECTED:
            return "too many connections are being established"
        if verdict is not ADMITTED:
            self.waits, self._thread = True, connection.thread_name
            self._gate.record_wait(connection.id)
            self._wait(verdict)
        return None

    def give_up(self, *, client_left: bool) -> None:
        """End the wait, if there is one, because the connection was closed."""
        if self.waits and self._pause is not None:
            self.waits = False
            self._pause.cancel()
            self._gate.leave(client_left=client_left)
            if client_left:
                message = "Interrupted operation as its client disconnected"
                self._node.log.write("-", 20883, message, context=self._thread)

    def _wait(self, reservation: Reserved) -> None:
        def ask_again() -> None:
            # A changed parameter rings the bell too, and may have moved or lifted the limit.
            if self._gate.waits(reservation, self._node.clock.now()):
                self._wait(reservation)
            else:
                self.waits = False
                self._on_established()

        until = Await(self._node.admission.changed, reservation.ready_at)
        self._pause = Pause(self._node, ask_again, until)

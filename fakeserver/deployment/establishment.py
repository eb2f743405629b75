"""The establishment of connections: the limits that a new one meets before a byte is read from it.

A server refuses in two ways. Above `maxIncomingConnections` the socket is closed as soon as it is accepted.
Below it the rate limiter decides, which can also have a connection wait for its token. Neither refusal has a
message: at this point no request has come that could be answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import Int64

from fakeserver.admission.exemptions import AddressRanges
from fakeserver.admission.progress import CONNECTION_RATE
from fakeserver.admission.rate_limiter import ADMITTED, REJECTED
from fakeserver.deployment.events import ConnectionQueued
from fakeserver.settings.failpoints import REJECT_CONNECTIONS
from fakeserver.waiting.pause import Await, Pause

if TYPE_CHECKING:
    from collections.abc import Callable

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

    def has_room(self, peer: str) -> bool:
        """Say whether one more connection may be open; those from the override's addresses always may."""
        parameters, fail_points = self._node.parameters, self._node.fail_points
        if fail_points.active and fail_points.is_on(REJECT_CONNECTIONS):
            return self._refuse(peer)
        # The new connection is in the table already, so the limit itself is still within the limit.
        if len(self._node.connections) <= parameters["maxIncomingConnections"]:
            return True
        if peer in AddressRanges.of(parameters["maxIncomingConnectionsOverride"]["ranges"]):
            return True
        return self._refuse(peer)

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

    def ask(self, peer: str, now: float) -> Verdict:
        """Admit a connection, at once or later, or reject it."""
        admission = self._node.admission
        if not admission.limits_connections:
            return ADMITTED
        if admission.bypasses_establishment(peer):
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

    def begin(self, peer: str, connection: int) -> str | None:
        """Establish the connection, or begin to wait; return the reason for which it is to be closed."""
        # The limit on open connections comes first: a connection above it takes no token.
        if not self._gate.has_room(peer):
            return "there are too many open connections"
        verdict = self._gate.ask(peer, self._node.clock.now())
        if verdict is REJECTED:
            return "too many connections are being established"
        if verdict is not ADMITTED:
            self.waits = True
            self._gate.record_wait(connection)
            self._wait(verdict)
        return None

    def give_up(self, *, client_left: bool) -> None:
        """End the wait, if there is one, because the connection was closed."""
        if self.waits and self._pause is not None:
            self.waits = False
            self._pause.cancel()
            self._gate.leave(client_left=client_left)

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

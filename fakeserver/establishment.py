"""Whether a connection may be established: asked before a byte is read from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import Int64

from fakeserver.admission.exemptions import AddressRanges
from fakeserver.admission.rate_limiter import ADMITTED
from fakeserver.failpoints import REJECT_CONNECTIONS

if TYPE_CHECKING:
    from fakeserver.admission.rate_limiter import RateLimiter, Reserved, Verdict
    from fakeserver.node import Node


class Gate:
    """The limit of connections at a time, and that of new ones a second, of one server.

    `Session Establishment Rate Limiter`. Nobody is told why he is turned away: the connection is closed.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._refused = 0
        """How many there was no room for."""
        self._refused_at_connection = -1
        """How many connections there had been when one was last refused because of the limit of files."""
        self._left = 0
        """How many clients left while they waited."""

    def __repr__(self) -> str:
        return f"<Gate {self._limiter!r}>"

    @property
    def _limiter(self) -> RateLimiter:
        return self._node.admission.establishment

    def has_room(self, peer: str) -> bool:
        """Say whether a connection more may be open; one from certain addresses always may."""
        parameters, fail_points = self._node.parameters, self._node.fail_points
        if fail_points.active and fail_points.is_on(REJECT_CONNECTIONS):
            return self._refuse(peer)
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
        """Take note of a connection that was closed at once; the first of them in a row is logged."""
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
        """Let a connection in, at once or later, or turn it away."""
        admission = self._node.admission
        if not admission.limits_connections:
            return ADMITTED
        if admission.bypasses_establishment(peer):
            admission.establishment.exempt()
            return ADMITTED
        return admission.establishment.acquire(now)

    def waits(self, reservation: Reserved, now: float) -> bool:
        """Say whether a connection still has to wait; if not, its reservation is settled."""
        admission = self._node.admission
        if now >= reservation.ready_at:
            admission.establishment.mature(reservation)
        elif admission.limits_connections:
            return True
        else:
            admission.establishment.release()
        return False

    def leave(self, *, client_left: bool) -> None:
        """End the wait of a connection that is no more."""
        self._limiter.interrupt()
        self._left += client_left

    def stats(self) -> dict[str, Any]:
        """Return what `serverStatus.connections` tells of those who wait or were turned away."""
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

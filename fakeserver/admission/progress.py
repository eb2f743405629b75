"""The progress of one request through admission control: its tickets, its waits, and how long they took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fakeserver.admission.controls import AdmissionControl
    from fakeserver.admission.execution_control import Priority, Ticket
    from fakeserver.admission.invocations import TicketPool
    from fakeserver.admission.rate_limiter import Reserved


ADMITTED: Final = "admitted"
QUEUED: Final = "queued"
REJECTED: Final = "rejected"

REQUEST_RATE: Final = "requestRateLimiter"
CONNECTION_RATE: Final = "connectionRateLimiter"
INGRESS_TICKETS: Final = "ingressTickets"
WRITE_RATE: Final = "writeThrottler"
FLOW_CONTROL: Final = "flowControl"
EXECUTION_TICKETS: Final = "executionTickets"


class Progress:
    """How far one request has come. Class attributes hold until a stage sets another value.

    Instants are seconds of the node's clock, sums of waiting are seconds.
    """

    control: AdmissionControl | None = None
    """The control of the shard's primary, for what a mongos passes on; None for the node's own."""
    priority: Priority | None = None
    """The urgency of the request, once somebody has decided it; a rule may decide it."""

    egress: Reserved | None = None
    """The token on credit for the reply that refuses it."""

    reservation: Reserved | None = None
    """The token on credit, from the rate limiter until it has matured."""
    queued_since: float | None = None
    """The beginning of the wait for that token."""
    rate_admissions: int = 0
    """Whether there was such a wait."""
    rate_queued: float = 0.0

    ingress_since: float | None = None
    """The instant of the ingress ticket, where there was no wait for it."""
    ingress_ticket: Ticket | None = None
    ingress_admissions: int = 0
    ingress_queued: float = 0.0

    write_reservation: Reserved | None = None
    """The tokens on credit of the write throttler."""
    write_cost: int = 0
    """The tokens that it has taken of it."""
    write_admissions: int = 0
    write_queued: float = 0.0

    flow_reservation: Reserved | None = None
    """The token on credit of flow control, where that is a rate."""
    throttled_since: float | None = None
    """The instant from which flow control holds the request back."""
    flow_acquired: int = 0
    flow_waits: int = 0
    flow_queued: float = 0.0

    pool: TicketPool = "read"
    """The pool that `execution_ticket` is of."""
    execution_ticket: Ticket | None = None
    execution_admissions: int = 0
    execution_queued: float = 0.0
    low_priority: bool = False
    """The ticket is one of low priority, as all that follow."""
    turn_ends: float | None = None
    """The instant at which it yields, and asks for another ticket; None for never."""
    served_since: float | None = None
    """The instant at which the service-time model began with the command."""
    done_at: float | None = None
    """The instant at which the service-time model has the command done, or looks at it again."""

    @property
    def waits_for(self) -> str:
        """The mechanism that it waits for, "" for none."""
        if self.queued_since is not None:
            return REQUEST_RATE
        if self.write_reservation is not None:
            return WRITE_RATE
        for name, ticket in (
            (INGRESS_TICKETS, self.ingress_ticket),
            (EXECUTION_TICKETS, self.execution_ticket),
        ):
            if ticket is not None and ticket.started is None:
                return name
        return FLOW_CONTROL if self.throttled_since is not None else ""

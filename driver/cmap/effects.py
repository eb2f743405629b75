"""Effects: the requests of a pool's state machine to its shell, in the order of their performance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from driver import events


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish an event."""

    event: events.PoolEvent


@dataclass(frozen=True, slots=True)
class Establish:
    """Connect and shake hands, until the `deadline` of whom it is for, then report `established` or `failed`.

    Without a deadline the client's own time-outs hold. One that `populates` the pool is for nobody yet.
    """

    connection_id: int
    generation: int
    deadline: float | None = None
    populates: bool = False


@dataclass(frozen=True, slots=True)
class Grant:
    """Give the connection to the waiter."""

    waiter: int
    connection_id: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """Raise the error in the waiter."""

    waiter: int
    error: Exception


@dataclass(frozen=True, slots=True)
class Close:
    """Close the socket; a connection that is being established is abandoned."""

    connection_id: int


@dataclass(frozen=True, slots=True)
class Interrupt:
    """Cancel what the connection is doing for its operation, which fails with a PoolClearedError."""

    connection_id: int


Effect: TypeAlias = Publish | Establish | Grant | Refuse | Close | Interrupt

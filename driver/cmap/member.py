"""What a pool knows of one connection, and of one caller that waits for one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from driver.cmap.lease import Use

if TYPE_CHECKING:
    from bson import ObjectId


class Phase(Enum):
    """CMAP: Connection, `state`. A connection that was closed has none: the pool has forgotten it."""

    PENDING = "pending"
    AVAILABLE = "available"
    IN_USE = "in use"


@dataclass(slots=True)
class Member:
    """What the pool knows of one connection.

    `waiter` is whom a pending connection is established for; a clear has `interrupted` one that is in use.
    """

    id: int
    generation: int
    created: float
    phase: Phase = Phase.PENDING
    available_since: float = 0.0
    service_id: ObjectId | None = None
    waiter: int | None = None
    use: Use = Use.OPERATION
    interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Waiter:
    """A request for a connection: when it came, and when it gives up.

    `connect_by` is when a connection that is made for it must be established, None for the client's options.
    """

    id: int
    started: float
    deadline: float
    connect_by: float | None = None

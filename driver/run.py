"""One operation on its way, and the reply that it comes to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from driver.errors import DriverError, InvalidReplyError
from driver.policy.deadline import NEVER, UNSET
from driver.sdam.selection import Selector

if TYPE_CHECKING:
    from bson import Int64

    from driver.cmap.connection import Connection
    from driver.cmap.pool import Lease
    from driver.operations.base import Command, Operation
    from driver.policy.deadline import Deadline
    from driver.policy.retry import RetryState
    from driver.sdam.description import ServerDescription, TopologyDescription
    from driver.session import ClientSession
    from driver.transaction import Transaction


class RetryImpossibleError(DriverError):
    """The server selected for a retry cannot take it: the previous error stands."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply with `ok: 1`, and the server that sent it, with its wire version.

    `lease` holds the connection of a cursor that lives on one, for whoever asked for the cursor. `deadline`
    is that of the operation, which what follows from it may have to meet too.
    """

    document: dict[str, Any]
    address: str
    wire_version: int = 0
    lease: Lease | None = None
    deadline: Deadline = UNSET

    def __getitem__(self, name: str) -> Any:
        """Return a field that the command must bring. Raises InvalidReplyError."""
        if name not in self.document:
            raise InvalidReplyError(f"the reply holds no {name}", address=self.address)
        return self.document[name]


@dataclass(slots=True)
class Run:
    """One operation on its way: what stays the same over its attempts, and what they have come to."""

    operation: Operation
    session: ClientSession | None
    operation_id: int
    """What the events of all its attempts share."""
    deadline: Deadline
    state: RetryState
    command: Command | None = None
    """What is sent, from the selection of the first server on."""
    server: ServerDescription | None = None
    """The server of the attempt under way; None until one is selected."""
    connection: Connection | None = None
    """The connection of the last attempt; None until one is checked out."""
    retries_writes: bool = False
    """Whether it is a retryable write: decided when the first server is selected, and for good."""
    transaction_number: Int64 | None = None
    """The `txnNumber` of all attempts: the transaction's, or one that a retryable write has drawn."""
    error: DriverError | None = None
    """Of the errors of its attempts, the one that its caller would get."""
    transaction: Transaction | None = None
    """The transaction that it is part of, or ends."""
    starts_transaction: bool | None = None
    """Whether it is the first command of its transaction, None until it is made."""
    lease: Lease | None = None
    """The connection that its cursor is pinned to."""
    opens_cursor: bool = False
    """Whether its caller wants the lease of the cursor that it opens."""
    select_by: float = NEVER
    """When the attempt under way must have a server and, with timeoutMS, a connection."""

    @property
    def within(self) -> bool:
        """Whether it is part of a transaction, and not its end."""
        return self.transaction is not None and not self.operation.ends_transaction

    @property
    def pinned_to(self) -> Lease | None:
        """The connection that its cursor or its transaction is pinned to."""
        return self.lease or (self.transaction.lease if self.transaction is not None else None)

    def choose(self, topology: TopologyDescription) -> Selector:
        """Return what to ask server selection for: the server that the transaction is pinned to, if any."""
        if self.transaction is not None and self.transaction.pinned is not None:
            return Selector(address=self.transaction.pinned)
        return self.operation.selector(topology)

    def leaves_cursor(self, document: dict[str, Any]) -> bool:
        """Return whether a cursor stays open that the caller has asked for."""
        cursor = document.get("cursor") if self.opens_cursor else None
        return isinstance(cursor, dict) and bool(cursor.get("id"))

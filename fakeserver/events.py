"""What a deployment reports of itself; `kind` names the event in a journal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, get_args

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class ConnectionAccepted(NamedTuple):
    """A client connected; `connection` is the id that its hello replies carry."""

    connection: int
    peer: str

    @property
    def kind(self) -> str:
        return "connectionAccepted"


class ConnectionClosed(NamedTuple):
    """A connection ended, by either side; `reason` is ours, or `peer` when the client left."""

    connection: int
    reason: str

    @property
    def kind(self) -> str:
        return "connectionClosed"


class CommandFinished(NamedTuple):
    """A request was dealt with.

    `outcome` is `ok`, `disconnect`, `silence`, or the number of the error's code; `lsid` the session's UUID.
    """

    name: str
    db: str
    request_id: int
    connection: int
    lsid: bytes | None
    txn_number: int | None
    outcome: str | int

    @property
    def kind(self) -> str:
        return "commandFinished"


class FailPointHit(NamedTuple):
    """A fail point fired on a request."""

    name: str
    command: str
    connection: int
    effect: str

    @property
    def kind(self) -> str:
        return "failPointHit"


class PrimaryElected(NamedTuple):
    """A member became the primary of a term."""

    member: str
    term: int

    @property
    def kind(self) -> str:
        return "primaryElected"


class PrimarySteppedDown(NamedTuple):
    """The primary of a term became a secondary."""

    member: str
    term: int

    @property
    def kind(self) -> str:
        return "primarySteppedDown"


class MessageReceived(NamedTuple):
    """A message came from a client, where the wire is tapped; `size` is in bytes, `text` the document."""

    peer: str
    request_id: int
    response_to: int
    op_code: str
    size: int
    text: str

    @property
    def kind(self) -> str:
        return "messageReceived"


class MessageSent(NamedTuple):
    """A message went to a client, where the wire is tapped; `size` is in bytes, `text` the document."""

    peer: str
    request_id: int
    response_to: int
    op_code: str
    size: int
    text: str

    @property
    def kind(self) -> str:
        return "messageSent"


Event: TypeAlias = (
    ConnectionAccepted
    | ConnectionClosed
    | CommandFinished
    | FailPointHit
    | PrimaryElected
    | PrimarySteppedDown
    | MessageReceived
    | MessageSent
)

BY_NAME: Final[Mapping[str, Callable[..., Event]]] = {event.__name__: event for event in get_args(Event)}
"""The kinds of event by the names of their classes."""


def to_document(event: Event) -> dict[str, Any]:
    """Return the event as a document: `kind` and its fields, those that are None left out."""
    fields = {name: _plain(value) for name, value in event._asdict().items() if value is not None}
    return {"kind": event.kind, **fields}


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value

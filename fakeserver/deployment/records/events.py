"""The events of a deployment; `kind` is an event's name in the journal."""

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


class ConnectionQueued(NamedTuple):
    """A connection began to wait to be established; `queue` is the mechanism that it waits for."""

    connection: int
    queue: str

    @property
    def kind(self) -> str:
        return "connectionQueued"


class CommandFinished(NamedTuple):
    """A request was dealt with.

    `outcome` is `ok`, `disconnect`, `silence`, or the number of the error's code; `lsid` the session's UUID.
    A reply may say `ok` and hold errors all the same: `write_error` is the code of its first write error,
    `write_concern_error` that of its write concern error, each None where it has none.
    """

    name: str
    db: str
    request_id: int
    connection: int
    lsid: bytes | None
    txn_number: int | None
    outcome: str | int
    write_error: int | None = None
    write_concern_error: int | None = None

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


class RuleHit(NamedTuple):
    """A request met a rule; `effect` names what the rule does, `expected` where it only expects."""

    name: str
    command: str
    connection: int
    effect: str

    @property
    def kind(self) -> str:
        return "ruleHit"


class FaultHit(NamedTuple):
    """A fault of bytes fired at a phase of a connection; `effect` names what it does, `reset` or others."""

    fault: str
    connection: int
    phase: str
    effect: str

    @property
    def kind(self) -> str:
        return "faultHit"


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


class RequestQueued(NamedTuple):
    """A request began to wait for its admission; `queue` is the mechanism that it waits for."""

    name: str
    db: str
    request_id: int
    connection: int
    queue: str

    @property
    def kind(self) -> str:
        return "requestQueued"


class RequestAbandoned(NamedTuple):
    """A request that waited was given up with its connection; `waited` is in seconds."""

    name: str
    db: str
    request_id: int
    connection: int
    waited: float

    @property
    def kind(self) -> str:
        return "requestAbandoned"


class FailPointSet(NamedTuple):
    """A fail point was configured, or switched off; `mode` and `data` are those of the command."""

    name: str
    mode: Any
    data: Any

    @property
    def kind(self) -> str:
        return "failPointSet"


class ParameterSet(NamedTuple):
    """A server parameter has another value."""

    name: str
    old: Any
    new: Any

    @property
    def kind(self) -> str:
        return "parameterSet"


class ServerChanged(NamedTuple):
    """The process or the network of a server changed; `change` is `killed`, `paused`, `cut off` and so on."""

    change: str
    detail: str = ""

    @property
    def kind(self) -> str:
        return "serverChanged"


class VerbPerformed(NamedTuple):
    """A verb of the control began; `arguments` are those that the caller gave."""

    verb: str
    arguments: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return "verbPerformed"


Event: TypeAlias = (
    ConnectionAccepted
    | ConnectionClosed
    | CommandFinished
    | FailPointHit
    | RuleHit
    | FaultHit
    | PrimaryElected
    | PrimarySteppedDown
    | MessageReceived
    | MessageSent
    | ConnectionQueued
    | RequestQueued
    | RequestAbandoned
    | FailPointSet
    | ParameterSet
    | ServerChanged
    | VerbPerformed
)

BY_NAME: Final[Mapping[str, Callable[..., Event]]] = {event.__name__: event for event in get_args(Event)}
"""The kinds of event by the names of their classes."""

KIND_OF: Final[Mapping[str, str]] = {name: name[0].lower() + name[1:] for name in BY_NAME}
"""The names of the kinds in the journal, by the names of their classes."""

KINDS: Final = tuple(KIND_OF.values())
"""The names of the kinds in the journal."""


def to_document(event: Event) -> dict[str, Any]:
    """Return the event as a document: `kind` and its fields, those that are None left out."""
    fields = {
        name: value.hex() if isinstance(value, bytes) else value
        for name, value in event._asdict().items()
        if value is not None
    }
    return {"kind": event.kind, **fields}

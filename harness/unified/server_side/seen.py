"""The record of the wire as connections and requests: pure values, made of the record's entries.

The record is read once, when the operations have ended, or several times while `connection_judge` waits. Left
out are the harness's own clients, by their application name, and whatever was accepted before the record
began. The record keeps bytes; here they are decoded, and a body that is no BSON leaves an empty document: a
request that a driver garbled is still a request that was sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from bson.errors import BSONError

from fakeserver.network.wire_entries import Accepted, Closed, Received, Sent
from mongowire.errors import InvalidMessage, RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fakeserver.network.wire_entries import Entry
    from mongowire.connection import Envelope

OWN_APP_NAME: Final = "harness"
"""The application name of the harness's own clients, which no expectation is about."""

End: TypeAlias = Literal["reply", "server", "client", "open"]
"""How a request ended: with a reply, closed by the server or by the client, or not at all."""


class Reply(NamedTuple):
    """A reply of a server, after which another one may come (`more_to_come`)."""

    seq: int
    at: float
    document: Mapping[str, Any]
    more_to_come: bool


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """One message of a client with its reply; instants are in seconds of the deployment's clock.

    `seq` orders it among all events of the process. `at` is its arrival; `ended` the instant of its reply, or
    of the connection's end, infinite for neither. `size` is in bytes. A document that is no BSON is empty.
    """

    seq: int
    at: float
    connection: int
    server: str
    role: str
    request_id: int
    size: int
    command: Mapping[str, Any]
    reply: Mapping[str, Any] | None = None
    end: End = "open"
    ended: float = inf
    ended_seq: float = inf
    app_name: str | None = None
    accepted: float = -inf
    """The instant when its connection was accepted."""
    compressor: str | None = None
    """The compressor of an OP_COMPRESSED, None for a message as it is."""
    exhaust_allowed: bool = False
    """Whether the client takes further replies to it (`exhaustAllowed`)."""
    latest: Reply | None = None
    """The last of its replies: several come where the client allows it."""

    @property
    def name(self) -> str:
        """The command's name."""
        return next(iter(self.command), "")

    @property
    def is_streaming(self) -> bool:
        """Whether another reply to it was to come when its connection ended."""
        return self.latest is not None and self.latest.more_to_come


@dataclass(frozen=True, slots=True)
class SeenConnection:
    """One connection of a client; what has not happened is infinitely late."""

    number: int
    server: str
    peer: str
    accepted: float
    accepted_seq: float
    closed: float = inf
    closed_seq: float = inf
    closed_by: Literal["client", "server"] | None = None
    requests: tuple[SeenRequest, ...] = ()
    app_name: str | None = None


@dataclass(frozen=True, slots=True)
class StatusSnapshot:
    """The replies to serverStatus at one time, by the names of the servers."""

    primary: str
    replies: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Ending:
    """The state of data and tokens when the operations had ended.

    `stored` holds the documents of each collection of `initialData`, by database and collection; `tokens` the
    number of tokens in the retry token bucket of each client that has one and can tell.
    """

    stored: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
    tokens: Mapping[str, float]


@dataclass(slots=True)
class Seen:
    """The servers' view of a case: the connections of its clients, once its operations have ended.

    `before` and `after` hold what they had counted, `ending` what there was at the end, where the case
    expects something of that.
    """

    connections: Sequence[SeenConnection] = ()
    before: StatusSnapshot | None = None
    after: StatusSnapshot | None = None
    ending: Ending | None = None


@dataclass(slots=True)
class _ConnectionLine:
    """A connection while its entries are read."""

    accepted: Accepted
    requests: dict[int, SeenRequest] = field(default_factory=dict)
    streamed: dict[int, int] = field(default_factory=dict)
    """The request that each reply answers which another one follows, by the reply's id."""
    closed: Closed | None = None


def connections_of(entries: Iterable[Entry]) -> tuple[SeenConnection, ...]:
    """Return the connections of all clients but the harness's own, in the order of their acceptance."""
    lines: dict[int, _ConnectionLine] = {}
    for entry in entries:
        if isinstance(entry, Accepted):
            lines[entry.connection] = _ConnectionLine(entry)
        elif entry.connection in lines:
            _take(lines[entry.connection], entry)
    seen = (_connection(line) for line in lines.values())
    return tuple(each for each in seen if each.app_name != OWN_APP_NAME)


def requests_of(connections: Iterable[SeenConnection]) -> tuple[SeenRequest, ...]:
    """Return the requests of all connections in the order of their arrival."""
    requests = (request for connection in connections for request in connection.requests)
    return tuple(sorted(requests, key=lambda request: request.seq))


def _take(line: _ConnectionLine, entry: Received | Sent | Closed) -> None:
    if isinstance(entry, Closed):
        line.closed = line.closed or entry
    elif isinstance(entry, Received):
        compressor = None if entry.envelope.compressor is None else entry.envelope.compressor.compressor_name
        line.requests[entry.envelope.request_id] = SeenRequest(
            seq=entry.seq,
            at=entry.at,
            connection=entry.connection,
            server=line.accepted.server,
            role=entry.role,
            request_id=entry.envelope.request_id,
            size=entry.envelope.wire_size,
            command=document_of(entry.envelope),
            accepted=line.accepted.at,
            compressor=compressor,
            exhaust_allowed=entry.envelope.exhaust_allowed,
        )
    else:
        # The next reply of an exhaust stream answers the one before it.
        answered = entry.envelope.response_to
        request = line.requests.get(line.streamed.get(answered, answered))
        if request is None:
            return
        if entry.envelope.more_to_come:
            line.streamed[entry.envelope.request_id] = request.request_id
        document = document_of(entry.envelope)
        latest = Reply(entry.seq, entry.at, document, entry.envelope.more_to_come)
        if request.reply is not None:  # of an exhaust stream
            line.requests[request.request_id] = replace(request, latest=latest)
            return
        line.requests[request.request_id] = replace(
            request, reply=document, end="reply", ended=entry.at, ended_seq=entry.seq, latest=latest
        )


def _connection(line: _ConnectionLine) -> SeenConnection:
    accepted, closed = line.accepted, line.closed
    requests = tuple(line.requests.values())
    # From the handshake, and then given to every request: only the first one carries it.
    app_name = _app_name(requests)
    if closed is not None:
        requests = tuple(
            replace(each, end=closed.by, ended=closed.at, ended_seq=closed.seq)
            if each.end == "open"
            else each
            for each in requests
        )
    return SeenConnection(
        number=accepted.connection,
        server=accepted.server,
        peer=accepted.peer,
        accepted=accepted.at,
        accepted_seq=accepted.seq,
        closed=inf if closed is None else closed.at,
        closed_seq=inf if closed is None else closed.seq,
        closed_by=None if closed is None else closed.by,
        requests=tuple(replace(each, app_name=app_name) for each in requests),
        app_name=app_name,
    )


def _app_name(requests: Sequence[SeenRequest]) -> str | None:
    """Return the application's name of a handshake (MongoDB Handshake: client.application.name)."""
    if not requests:
        return None
    client: Any = requests[0].command.get("client") or {}
    name = (client.get("application") or {}).get("name")
    return name if isinstance(name, str) else None


def document_of(envelope: Envelope) -> Mapping[str, Any]:
    """Return the document of a message, an empty one for what is no BSON.

    All of these are the sender's mistakes; none may end the judging of the case.
    """
    try:
        return envelope.parse().decode()
    except (InvalidMessage, RemoteProtocolError, BSONError, TypeError, ValueError):
        return {}

"""The records of the journal: an event, and for a request what it was, how it was admitted and what it got.

Requests and replies are kept as the bytes that travelled, and decoded when somebody reads them.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson.errors import BSONError

from fakeserver.admission.progress import ADMITTED
from fakeserver.deployment.records.events import (
    CommandFinished,
    Event,
    FailPointHit,
    RequestAbandoned,
    RequestQueued,
    RuleHit,
    VerbPerformed,
)
from fakeserver.deployment.records.record_text import line_of
from fakeserver.idl.fields import SECRETS
from mongowire.codes import code_name
from mongowire.connection import Envelope, WireConnection
from mongowire.errors import InvalidMessage, RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES: Final = {
    "db": "db",
    "request_id": "requestId",
    "txn_number": "txnNumber",
    "write_error": "writeError",
    "write_concern_error": "writeConcernError",
    "response_to": "responseTo",
    "op_code": "opCode",
}
"""The fields of events whose names in a document are others."""


class Origin(NamedTuple):
    """The beginning of a journal: an instant of its clock, and the same in seconds since the Unix epoch."""

    at: float = 0.0
    utc: float = 0.0


class Details(NamedTuple):
    """The facts of a request beside its `CommandFinished`.

    `arrived` is an instant, `app_name` the client's, `verdict` that of admission control, `queue` the
    mechanism that queued or rejected it. `target` is the collection, "" for none, None for a request unread.
    """

    arrived: float
    app_name: str = ""
    verdict: str = ADMITTED
    queue: str = ""
    target: str | None = None


class Exchange(NamedTuple):
    """A request and its reply, as bytes: `payload` is what followed the header, `reply` the whole message.

    A request without a reply has an empty one.
    """

    op_code: int
    payload: bytes
    reply: bytes = b""

    @property
    def request(self) -> dict[str, Any] | None:
        """The command; None for what is no command, or cannot be read."""
        return _decoded(Envelope(0, 0, self.op_code, self.payload, None, 0))

    @property
    def answer(self) -> dict[str, Any] | None:
        """The document of the reply; None where there was none."""
        if not self.reply:
            return None
        wire = WireConnection()
        wire.receive_data(self.reply)
        try:
            envelope = wire.next_message()
        except RemoteProtocolError:
            return None
        return _decoded(envelope) if isinstance(envelope, Envelope) else None


class Record(NamedTuple):
    """One event: `at` is the clock's instant in seconds, `seq` counts from 1, `source` names the actor.

    The record of a request has its `details`, and its `exchange` as long as the journal keeps it.
    """

    at: float
    seq: int
    source: str
    event: Event
    details: Details | None = None
    exchange: Exchange | None = None
    origin: Origin = Origin()

    def to_document(self, *, documents: bool = False) -> dict[str, Any]:
        """Return the record for people and programs; with `documents` a request's own, and its reply's.

        `at` and `duration` are seconds, `at` since the deployment started. What is unknown is left out.
        """
        since = self.at - self.origin.at
        date = dt.datetime.fromtimestamp(self.origin.utc + since, dt.UTC)
        found = {
            "seq": self.seq,
            "at": round(since, 6),
            "date": date.replace(microsecond=date.microsecond // 1000 * 1000),
            "node": self.source,
            "kind": self.event.kind,
        }
        if isinstance(self.event, CommandFinished):
            found |= self._of_request(self.event, documents=documents)
        else:
            found |= _of_event(self.event)
        return {name: value for name, value in found.items() if value is not None}

    def to_line(self) -> str:
        """Return the record as a line for a reader."""
        return line_of(self.to_document())

    def _of_request(self, event: CommandFinished, *, documents: bool) -> dict[str, Any]:
        details = self.details or Details(self.at)
        needed = documents or details.target is None or not event.name
        command = self.exchange.request if self.exchange is not None and needed else None
        name = event.name or next(iter(command or {}), "")
        outcome = event.outcome
        found: dict[str, Any] = {
            "command": name or None,
            "db": event.db or (command or {}).get("$db"),
            "namespace": _namespace(name, event.db or (command or {}).get("$db"), details.target, command),
            "connection": event.connection,
            "requestId": event.request_id,
            "appName": details.app_name or None,
            "lsid": (event.lsid or _lsid_of(command) or b"").hex() or None,
            "txnNumber": event.txn_number,
            "verdict": details.verdict,
            "queue": details.queue or None,
            "outcome": outcome,
            "codeName": code_name(outcome) if isinstance(outcome, int) else None,
            "writeError": event.write_error,
            "writeConcernError": event.write_concern_error,
            "duration": round(self.at - details.arrived, 6),
        }
        if documents and self.exchange is not None:
            found |= {"request": _shown(command), "reply": _shown(self.exchange.answer)}
        return found


def _of_event(event: Event) -> dict[str, Any]:
    fields = event._asdict()
    if isinstance(event, RequestQueued | RequestAbandoned):
        fields["command"] = fields.pop("name")
    elif isinstance(event, FailPointHit):
        fields["failPoint"] = fields.pop("name")
    elif isinstance(event, VerbPerformed):
        fields["arguments"] = dict(event.arguments)
    elif isinstance(event, RuleHit):
        fields["rule"] = fields.pop("name")
    return {_NAMES.get(name, name): value for name, value in fields.items()}


def _decoded(envelope: Envelope) -> dict[str, Any] | None:
    try:
        message = envelope.parse()
        return message.decode()
    except (InvalidMessage, RemoteProtocolError, BSONError, TypeError, ValueError):
        return None


def _lsid_of(command: Mapping[str, Any] | None) -> bytes | None:
    lsid = (command or {}).get("lsid")
    found = lsid.get("id") if isinstance(lsid, dict) else None
    return bytes(found) if isinstance(found, bytes) else None


def _namespace(
    name: str, db: str | None, target: str | None, command: Mapping[str, Any] | None
) -> str | None:
    if command is not None and target is None:
        target = command.get("collection") if name == "getMore" else command.get(name)
    return f"{db}.{target}" if db and target and isinstance(target, str) else None


def _shown(document: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a document without its secrets."""
    return None if document is None else {name: document[name] for name in document if name not in SECRETS}

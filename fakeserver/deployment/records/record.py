"""The records of the journal: an event, and for a request what it was, how it was admitted and what it got.

Requests and replies are kept as the bytes that travelled, and decoded when somebody reads them.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import json_util
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
from fakeserver.idl.fields import SECRETS
from mongowire.codes import code_name
from mongowire.connection import Envelope, WireConnection
from mongowire.errors import InvalidMessage, RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


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
            event = self.event
            fields = event._asdict()
            if isinstance(event, RequestQueued | RequestAbandoned):
                fields["command"] = fields.pop("name")
            elif isinstance(event, FailPointHit):
                fields["failPoint"] = fields.pop("name")
            elif isinstance(event, VerbPerformed):
                fields["arguments"] = dict(event.arguments)
            elif isinstance(event, RuleHit):
                fields["rule"] = fields.pop("name")
            found |= {_NAMES.get(name, name): value for name, value in fields.items()}
        return {name: value for name, value in found.items() if value is not None}

    def to_line(self) -> str:
        """Return the record as a line for a reader."""
        return line_of(self.to_document())

    def _of_request(self, event: CommandFinished, *, documents: bool) -> dict[str, Any]:
        details = self.details or Details(self.at)
        needed = documents or details.target is None or not event.name
        command = self.exchange.request if self.exchange is not None and needed else None
        name = event.name or next(iter(command or {}), "")
        db, target, outcome = event.db or (command or {}).get("$db"), details.target, event.outcome
        if command is not None and target is None:
            target = command.get("collection") if name == "getMore" else command.get(name)
        found: dict[str, Any] = {
            "command": name or None,
            "db": db,
            "namespace": f"{db}.{target}" if db and target and isinstance(target, str) else None,
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


def _shown(document: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a document without its secrets."""
    return None if document is None else {name: document[name] for name in document if name not in SECRETS}


# A line of text for a record of the journal, made of its document.
#
# A terminal shows such lines, and so does a test that fails.


_SOURCE: Final = 12
_LONGEST: Final = 400
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def line_of(document: Mapping[str, Any]) -> str:
    """Return one line: seconds since the start, number, server, and what happened.

    `document` is a record's, also one that came as JSON. What a client sent stays on the line: control
    characters are escaped, and a long text is cut.
    """
    words = words_of(document)
    line = f"{document['at']:10.3f} {'#' + str(document['seq']):>7}  {document['node']:{_SOURCE}}  {words}"
    return _on_one_line(line)


def words_of(document: Mapping[str, Any]) -> str:
    """Return what happened, without when and where."""
    return _on_one_line(_WORDS.get(document["kind"], _other)(document))


def _on_one_line(text: str) -> str:
    line = _CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def lines_of_operation(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of an operation with its attempts, each after the seconds since the one before."""
    attempts = document["attempts"]
    times = "1 attempt" if len(attempts) == 1 else f"{len(attempts)} attempts"
    yield _on_one_line(f"{_command(document)} -> {document['outcome']} in {times}")
    for each in attempts:
        gap = "" if each.get("gap") is None else f"  {_duration(each['gap'])} later"
        words = f"{each['node']:{_SOURCE}}  {each['outcome']}{gap}  [conn{each['connection']}]"
        yield _on_one_line(f"{each['at']:10.3f} {'#' + str(each['seq']):>7}  {words}")


def _request(document: Mapping[str, Any]) -> str:
    outcome = document["outcome"]
    got = f"{outcome} {document['codeName']}" if "codeName" in document else str(outcome)
    for field, label in (("writeError", "write error"), ("writeConcernError", "write concern error")):
        got += f", {label} {document[field]}" if field in document else ""
    notes = [] if document["verdict"] == "admitted" else [f"{document['verdict']} by {document['queue']}"]
    notes += [f"after {_duration(document['duration'])}"] if document["duration"] else []
    return f"{_command(document)} -> {got}" + (f" ({', '.join(notes)})" if notes else "") + _client(document)


def _command(document: Mapping[str, Any]) -> str:
    about = document.get("namespace") or document.get("db") or ""
    return f"{document.get('command') or 'an unread request'} {about}".rstrip()


def _client(document: Mapping[str, Any]) -> str:
    app_name = document.get("appName")
    return f"  [conn{document['connection']}" + (f", {app_name}]" if app_name else "]")


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def _queued(document: Mapping[str, Any]) -> str:
    return f"{_command(document)} waits for {document['queue']}{_client(document)}"


def _abandoned(document: Mapping[str, Any]) -> str:
    return f"{_command(document)} given up after {_duration(document['waited'])}{_client(document)}"


def _closed(document: Mapping[str, Any]) -> str:
    reason = "by the client" if document["reason"] == "peer" else f"({document['reason']})"
    return f"conn{document['connection']} closed {reason}"


def _fail_point_hit(document: Mapping[str, Any]) -> str:
    effect = document["effect"] or "labels"
    return f"fail point {document['failPoint']} on {document['command']}: {effect}{_client(document)}"


def _rule_hit(document: Mapping[str, Any]) -> str:
    return f"rule {document['rule']} on {document['command']}: {document['effect']}{_client(document)}"


def _fault_hit(document: Mapping[str, Any]) -> str:
    return f"fault {document['fault']} at {document['phase']}: {document['effect']}{_client(document)}"


def _fail_point_set(document: Mapping[str, Any]) -> str:
    data = f" {_json(document['data'])}" if document.get("data") else ""
    return f"fail point {document['name']} set to {_json(document.get('mode'))}{data}"


def _parameter_set(document: Mapping[str, Any]) -> str:
    return f"parameter {document['name']}: {_json(document.get('old'))} -> {_json(document.get('new'))}"


def _elected(document: Mapping[str, Any]) -> str:
    return f"{document['member']} elected primary in term {document['term']}"


def _stepped_down(document: Mapping[str, Any]) -> str:
    return f"{document['member']} stepped down in term {document['term']}"


def _other(document: Mapping[str, Any]) -> str:
    common = {"seq", "at", "date", "node", "kind"}
    return f"{document['kind']} {_json({name: document[name] for name in document if name not in common})}"


def _json(value: Any) -> str:
    return json.dumps(value, default=_stand_in, ensure_ascii=False)


def _stand_in(value: Any) -> Any:
    try:
        return json_util.default(value, json_util.RELAXED_JSON_OPTIONS)
    except TypeError:
        return repr(value)


_WORDS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "commandFinished": _request,
    "requestQueued": _queued,
    "requestAbandoned": _abandoned,
    "connectionAccepted": lambda document: f"conn{document['connection']} from {document['peer']}",
    "connectionClosed": _closed,
    "failPointHit": _fail_point_hit,
    "ruleHit": _rule_hit,
    "faultHit": _fault_hit,
    "failPointSet": _fail_point_set,
    "parameterSet": _parameter_set,
    "serverChanged": lambda document: f"{document['change']} {document['detail']}".rstrip(),
    "verbPerformed": lambda document: f"{document['verb']} {_json(document['arguments'])}",
    "primaryElected": _elected,
    "primarySteppedDown": _stepped_down,
}

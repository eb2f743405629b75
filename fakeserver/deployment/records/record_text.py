"""A line of text for a record of the journal, made of its document.

A terminal shows such lines, and so does a test that fails.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from bson import json_util

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_SOURCE: Final = 12
_LONGEST: Final = 400
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def line_of(document: Mapping[str, Any]) -> str:
    """Return one line: seconds since the start, number, server, and what happened.

    `document` is a record's, also one that came as JSON. What a client sent stays on the line: control
    characters are escaped, and a long text is cut.
    """
    words = _WORDS.get(document["kind"], _other)(document)
    line = f"{document['at']:10.3f} {'#' + str(document['seq']):>7}  {document['node']:{_SOURCE}}  {words}"
    return _on_one_line(line)


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


def _accepted(document: Mapping[str, Any]) -> str:
    return f"conn{document['connection']} from {document['peer']}"


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


def _server_changed(document: Mapping[str, Any]) -> str:
    return f"{document['change']} {document['detail']}".rstrip()


def _verb(document: Mapping[str, Any]) -> str:
    return f"{document['verb']} {_json(document['arguments'])}"


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
    "connectionAccepted": _accepted,
    "connectionClosed": _closed,
    "failPointHit": _fail_point_hit,
    "ruleHit": _rule_hit,
    "faultHit": _fault_hit,
    "failPointSet": _fail_point_set,
    "parameterSet": _parameter_set,
    "serverChanged": _server_changed,
    "verbPerformed": _verb,
    "primaryElected": _elected,
    "primarySteppedDown": _stepped_down,
}

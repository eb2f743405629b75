"""Values of scenarios and of drivers, as one line of text each."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bson import json_util

from harness.unified.schema.events import COMMAND_EVENTS, POOL_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RELAXED = json_util.RELAXED_JSON_OPTIONS
_WIDTH = 240
_BODIES = ("command", "reply", "failure")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_GOSSIP = frozenset({"$clusterTime", "operationTime", "topologyVersion", "lsid"})


def one_line(value: Any) -> str:
    """Return Extended JSON, or Python's own form of what JSON cannot hold.

    A driver's object may raise when it is asked for its form, which is no reason to end a run.
    """
    try:
        return json_util.dumps(value, json_options=RELAXED)
    except Exception:  # noqa: BLE001 - the message of its error asks for the form, too
        return _python_form(value)


def _python_form(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - whatever a foreign __repr__ raises
        return f"<{type(value).__name__}: its repr raises {type(error).__name__}>"


def shortened(text: str, width: int = _WIDTH) -> str:
    """Return at most `width` characters, with an ellipsis for what is left out."""
    return text if len(text) <= width else text[: width - 1] + "…"


def told(kind: str, fields: Mapping[str, Any]) -> str:
    """Return what a reader wants to know of an event, in one line."""
    tell = _TELLERS.get(kind)
    return tell(fields) if tell else one_line(without_gossip(dict(fields)))


def _of_command(fields: Mapping[str, Any]) -> str:
    """Tell of a command of the client: its name and the document that the event has."""
    body: Any = next((fields[key] for key in _BODIES if key in fields), {})
    body = as_document(body) or body
    return f"{fields.get('commandName', '')} {one_line(without_gossip(body))}"


def _of_pool(fields: Mapping[str, Any]) -> str:
    words = [str(fields.get("address", ""))]
    words += [f"connection {fields['connectionId']}"] if "connectionId" in fields else []
    words += [f"({fields['reason']})"] if fields.get("reason") else []
    return " ".join(words)


def _of_operation(fields: Mapping[str, Any]) -> str:
    return f"{fields['name']} {one_line(fields['arguments'])}"


def _of_end(fields: Mapping[str, Any]) -> str:
    if "failed" in fields:
        labels = f" [{', '.join(fields['labels'])}]" if fields["labels"] else ""
        return f"{fields['name']} failed: {fields['failed']}{labels}"
    return (
        f"{fields['name']} returned {one_line(fields['returned'])}"
        if "returned" in fields
        else (f"{fields['name']} done")
    )


def _of_service(fields: Mapping[str, Any]) -> str:
    """Tell of a request that a server dealt with."""
    number = f" txnNumber {fields['txn_number']}" if "txn_number" in fields else ""
    outcome = fields["outcome"]
    said = f"error {outcome}" if isinstance(outcome, int) else outcome
    name = f"{fields['name']} on {fields['db']}" if fields["name"] else "a request, unread"
    return f"{name}{number} → {said} (connection {fields['connection']})"


def _of_hit(fields: Mapping[str, Any]) -> str:
    command = fields["command"] or "an unread request"
    return f"{fields['name']} on {command}: {fields['effect']} (connection {fields['connection']})"


def _of_message(fields: Mapping[str, Any]) -> str:
    answers = f" to request {fields['response_to']}" if fields["response_to"] else ""
    head = f"{fields['op_code']} {fields['request_id']}{answers}, {fields['size']} bytes, {fields['peer']}"
    return f"{head}  {fields['text']}"


_TELLERS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    **dict.fromkeys(COMMAND_EVENTS, _of_command),
    **dict.fromkeys(POOL_EVENTS, _of_pool),
    "operation": _of_operation,
    "operationEnded": _of_end,
    "commandFinished": _of_service,
    "failPointHit": _of_hit,
    "messageReceived": _of_message,
    "messageSent": _of_message,
}


def as_document(value: Any) -> Mapping[str, Any]:
    """Return what the server said: of a reply, or of an error that a driver made of one; else nothing."""
    found = value if isinstance(value, dict) else getattr(value, "response", None)
    return found if isinstance(found, dict) else {}


def without_gossip(value: Any) -> Any:
    """Return a document without what every message carries and no reader looks for."""
    if isinstance(value, dict):
        return {key: without_gossip(inner) for key, inner in value.items() if key not in _GOSSIP}
    return value


def shown(path: str) -> str:
    """Return a path as a reader here would name it: relative when it lies below the working directory."""
    return path.removeprefix(f"{Path.cwd()}{os.sep}")


def for_xml(text: str) -> str:
    """Return the text without the characters that XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)

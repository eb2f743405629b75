"""Values of scenarios and of drivers, as one line of text each.

Terminal, pages, JUnit and journals write the same event in the same words by `describe` and `outcome_of`. A
kind of event without a formatter is shown as its fields. `folded` stands here as well, because pictures and
lines fold alike.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import json_util

from harness.unified.schema.events import COMMAND_EVENTS, POOL_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from harness.planning.result import Moment


RELAXED = json_util.RELAXED_JSON_OPTIONS
_WIDTH = 240
_BODIES = ("command", "reply", "failure")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# They differ in every message, and would hide the field by which two messages differ.
_GOSSIP = frozenset({"$clusterTime", "operationTime", "topologyVersion", "lsid"})


def times(count: int) -> str:
    """Return a count of times in words."""
    return "once" if count == 1 else f"{count} times"


def one_line(value: Any) -> str:
    """Return Extended JSON, or Python's own form of what JSON cannot hold.

    The `repr` of a driver's object may raise, which is no reason to end a run.
    """
    try:
        return json_util.dumps(value, json_options=RELAXED)
    except Exception:  # noqa: BLE001 - the message of its error asks for the form, too
        try:
            return repr(value)
        except Exception as error:  # noqa: BLE001 - whatever a foreign __repr__ raises
            return f"<{type(value).__name__}: its repr raises {type(error).__name__}>"


def shortened(text: str, width: int = _WIDTH) -> str:
    """Return at most `width` characters, with an ellipsis for what is left out."""
    return text if len(text) <= width else text[: width - 1] + "…"


def describe(kind: str, fields: Mapping[str, Any]) -> str:
    """Return the fields of an event as one line for readers."""
    formatter = _FORMATTERS.get(kind)
    return formatter(fields) if formatter else one_line(without_gossip(dict(fields)))


def outcome_of(kind: str, fields: Mapping[str, Any]) -> str:
    """Return how a command ended in a few words, for an event about its end; otherwise nothing.

    A reply that has write errors or a write concern error is not `ok`, whatever it says.
    """
    if kind == "commandFinished":
        ended, within = fields["outcome"], (fields.get("write_error"), fields.get("write_concern_error"))
        ended = f"error {ended}" if isinstance(ended, int) else ended
    elif kind in ("commandSucceededEvent", "commandFailedEvent"):
        reply = as_document(fields.get("reply") if kind == "commandSucceededEvent" else fields.get("failure"))
        within = codes_within(reply)
        ended = f"error {reply['code']}" if "code" in reply else "failed"
        ended = "ok" if kind == "commandSucceededEvent" else ended
    else:
        return ""
    parts = [] if ended == "ok" else [ended]
    parts += [f"write error {within[0]}"] if within[0] is not None else []
    parts += [f"write concern error {within[1]}"] if within[1] is not None else []
    return ", ".join(parts) or "ok"


def codes_within(reply: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the codes of a reply's first write error and of its write concern error; None for none."""
    errors = reply.get("writeErrors")
    if reply.get("nErrors"):  # of a bulkWrite, whose cursor has a document for each write
        results = as_document(reply.get("cursor")).get("firstBatch", ())
        errors = [each for each in results if "code" in as_document(each)]
    concern = as_document(reply.get("writeConcernError"))
    first = as_document(errors[0]).get("code", 0) if isinstance(errors, list) and errors else None
    return first, (concern.get("code", 0) if concern else None)


def _of_command(fields: Mapping[str, Any]) -> str:
    """Format an event about a command of a client: its name and the document that the event carries."""
    body: Any = next((fields[key] for key in _BODIES if key in fields), {})
    body = as_document(body) or body
    return f"{fields.get('commandName', '')} {one_line(without_gossip(body))}"


def _of_pool(fields: Mapping[str, Any]) -> str:
    words = [str(fields.get("address", ""))]
    words += [f"connection {fields['connectionId']}"] if "connectionId" in fields else []
    words += [f"({fields['reason']})"] if fields.get("reason") else []
    return " ".join(words)


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
    """Format the end of a request in a server."""
    number = f" txnNumber {fields['txn_number']}" if "txn_number" in fields else ""
    ended = outcome_of("commandFinished", fields)
    name = f"{fields['name']} on {fields['db']}" if fields["name"] else "a request, unread"
    return f"{name}{number} → {ended} (connection {fields['connection']})"


def _of_hit(fields: Mapping[str, Any]) -> str:
    command = fields["command"] or "an unread request"
    return f"{fields['name']} on {command}: {fields['effect']} (connection {fields['connection']})"


def _of_message(fields: Mapping[str, Any]) -> str:
    answers = f" to request {fields['response_to']}" if fields["response_to"] else ""
    head = f"{fields['op_code']} {fields['request_id']}{answers}, {fields['size']} bytes, {fields['peer']}"
    return f"{head}  {fields['text']}"


_FORMATTERS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    **dict.fromkeys(COMMAND_EVENTS, _of_command),
    **dict.fromkeys(POOL_EVENTS, _of_pool),
    "operation": lambda fields: f"{fields['name']} {one_line(fields['arguments'])}",
    "operationEnded": _of_end,
    "commandFinished": _of_service,
    "failPointHit": _of_hit,
    "messageReceived": _of_message,
    "messageSent": _of_message,
}


def as_document(value: Any) -> Mapping[str, Any]:
    """Return the server's document: a reply, or the response in a driver's error; otherwise an empty one."""
    found = value if isinstance(value, dict) else getattr(value, "response", None)
    return found if isinstance(found, dict) else {}


def without_gossip(value: Any) -> Any:
    """Return a document without cluster times and session ids, which every message carries."""
    if isinstance(value, dict):
        return {key: without_gossip(inner) for key, inner in value.items() if key not in _GOSSIP}
    return value


def shown(path: str) -> str:
    """Return a path as a reader here would name it: relative when it lies below the working directory."""
    return path.removeprefix(f"{Path.cwd()}{os.sep}")


def for_xml(text: str) -> str:
    """Return the text without the characters that XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)


# The events before a case's first operation as one line: clients connect, in many pool events.


FOLDED: Final = "connected"
"""The kind of the moment that stands for those that are folded."""

_CONNECTING: Final = frozenset({*POOL_EVENTS, "connectionAccepted", "connectionClosed"})
_WORTH_IT: Final = 2


class Fold(NamedTuple):
    """A timeline without its early pool and connection events, which `line` stands for if there are any."""

    moments: tuple[Moment, ...]
    folded: tuple[Moment, ...] = ()
    line: Moment | None = None


def folded(timeline: Iterable[Moment]) -> Fold:
    """Fold the pool and connection events before the first operation; a single one stays."""
    moments = tuple(timeline)
    first = next((index for index, moment in enumerate(moments) if moment.kind == "operation"), 0)
    early = tuple(moment for moment in moments[:first] if moment.kind in _CONNECTING)
    if len(early) < _WORTH_IT:
        return Fold(moments)
    sources = ", ".join(dict.fromkeys(moment.source for moment in early))
    line = early[0]._replace(
        kind=FOLDED,
        link=None,
        text=f"{len(early)} pool and connection events of {sources} before the first operation",
    )
    left = (moment for moment in moments[:first] if moment.kind not in _CONNECTING)
    before = (*left, line)
    return Fold((*sorted(before, key=lambda moment: moment.at), *moments[first:]), early, line)

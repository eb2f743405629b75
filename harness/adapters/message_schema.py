"""The messages of an adapter as JSON Schema, and the one error of a message that is none of them.

It is checked before extended JSON is read, so a number may be 5 or {"$numberInt": "5"}. `pushbackd schema
--adapter` prints it; docs/WRITING-ADAPTERS.md says what the parts mean.

The schema of an event is kept in two parts, its frame and the fields of each kind. A message is checked
against the part that it claims to be, so the first error is about that part; one schema with all alternatives
would only say that none of them fits. `schema` joins the parts for printing, and checks nothing here.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs
from bson import json_util

from harness.adapters.base import LOG_MESSAGE, SPAN, Feature
from harness.unified.schema.events import COMMAND_EVENTS, POOL_EVENTS, SDAM_EVENTS
from mongowire.documents.errors import did_you_mean, dotted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KINDS: Final = (*COMMAND_EVENTS, *POOL_EVENTS, *SDAM_EVENTS, "serverOpeningEvent", "serverClosedEvent")
"""The kinds of events, beside log messages and spans."""
# A process of its own lives in real time, whatever the deployment's clock is.
FEATURES: Final = tuple(name for name in Feature.__members__ if name != Feature.VIRTUAL_TIME.name)
ANSWERS: Final = ("result", "entity", "error", "unsupported")
"""An answer has exactly one of these."""

_SHOWN: Final = 120


def _object(
    properties: Mapping[str, Any], *required: str, others: bool = True, **more: Any
) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        **({"required": list(required)} if required else {}),
        **({} if others else {"additionalProperties": False}),
        **more,
    }


def _wrapped(*names: str) -> dict[str, Any]:
    """Return a number in canonical extended JSON."""
    one = {"additionalProperties": False, "minProperties": 1, "maxProperties": 1}
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}, **one}


_WHOLE: Final = {
    "title": "a whole number",
    "anyOf": [{"type": "integer"}, _wrapped("$numberInt", "$numberLong")],
}
_NUMBER: Final = {
    "title": "a number",
    "anyOf": [{"type": "number"}, _wrapped("$numberInt", "$numberLong", "$numberDouble")],
}
# `NaN` and the infinities are numbers to extended JSON, and no instants.
_FINITE: Final = {"type": "string", "pattern": "^[-+]?[0-9.]"}
_SECONDS: Final = {
    "title": "a number of seconds",
    "anyOf": [
        {"type": "number"},
        _wrapped("$numberInt", "$numberLong"),
        {"type": "object", "properties": {"$numberDouble": _FINITE}, "required": ["$numberDouble"]},
    ],
}
_TEXT: Final = {"title": "a text", "type": "string"}
_FLAG: Final = {"title": "true or false", "type": "boolean"}
_DOCUMENT: Final = {"title": "a document", "type": "object"}
_DESCRIPTION: Final = _object({"type": _TEXT}, "type")


def _or_null(schema: Mapping[str, Any]) -> dict[str, Any]:
    title = schema.get("title", "as it has to be")
    return {"title": f"{title} or null", "anyOf": [schema, {"type": "null"}]}


_COMMAND: Final = {
    "commandName": _TEXT,
    "databaseName": _TEXT,
    "requestId": _WHOLE,
    "connectionId": _TEXT,
    "serverConnectionId": _or_null(_WHOLE),
    "durationMS": _NUMBER,
    "command": _DOCUMENT,
    "reply": _DOCUMENT,
    "failure": {"title": "a text or a document", "anyOf": [_TEXT, _DOCUMENT]},
}
_POOL: Final = {
    "address": _TEXT,
    "connectionId": _WHOLE,
    "reason": _TEXT,
    "durationMS": _NUMBER,
    "interruptInUseConnections": _FLAG,
}
_SDAM: Final = {
    "address": _TEXT,
    "awaited": _FLAG,
    "durationMS": _NUMBER,
    "previousDescription": _DESCRIPTION,
    "newDescription": _DESCRIPTION,
}
_LOG: Final = {"level": _TEXT, "component": _TEXT, "data": _object({"message": _TEXT})}
_SPAN_FIELDS: Final = {"name": _TEXT, "attributes": _DOCUMENT, "order": _NUMBER}
_FIELDS: Final[Mapping[str, Mapping[str, Any]]] = {
    **dict.fromkeys(COMMAND_EVENTS, _object(_COMMAND, "commandName")),
    **dict.fromkeys(POOL_EVENTS, _object(_POOL)),
    **dict.fromkeys((*SDAM_EVENTS, "serverOpeningEvent", "serverClosedEvent"), _object(_SDAM)),
    LOG_MESSAGE: _object(_LOG, "level", "component", "data"),
    SPAN: _object(_SPAN_FIELDS, "id", "name", "attributes"),
}

_ERROR: Final = _object(
    {
        "message": _TEXT,
        "isClientError": _or_null(_FLAG),
        "isTimeoutError": _or_null(_FLAG),
        "code": _or_null(_WHOLE),
        "codeName": _or_null(_TEXT),
        "labels": _or_null({"title": "a list of texts", "type": "array", "items": _TEXT}),
        "response": _or_null(_DOCUMENT),
        "result": {},
        "writeErrors": _or_null(
            {
                "title": "a document of errors by index",
                "type": "object",
                "patternProperties": {"^[0-9]+$": _DOCUMENT},
                "additionalProperties": False,
            }
        ),
        "writeConcernErrors": _or_null({"title": "a list of documents", "type": "array", "items": _DOCUMENT}),
        "address": _or_null(_TEXT),
        "type": _or_null(_TEXT),
    },
    "message",
    others=False,
)
_SCHEMAS: Final[Mapping[str, Mapping[str, Any]]] = {
    "answer": _object(
        {"id": _WHOLE, "clock": _SECONDS, "entity": {"const": True}, "error": _ERROR, "unsupported": _TEXT},
        "id",
        oneOf=[{"required": [part]} for part in ANSWERS],
    ),
    "event": _object(
        {
            "event": _object(
                {"client": _WHOLE, "kind": {"enum": [*_FIELDS]}, "at": _SECONDS}, "client", "kind", "fields"
            )
        },
        "event",
    ),
    "callback": _object({"callback": _WHOLE}, "callback"),
    "hello": _object(
        {
            "protocol": _WHOLE,
            "name": {"type": "string", "minLength": 1},
            "driver": _object({"name": _TEXT, "version": _TEXT}, "name", "version"),
            "features": {"type": "array", "items": {"enum": [*FEATURES]}},
            "edition": _TEXT,
        },
        "protocol",
        "name",
        "features",
    ),
    "session": _object(
        {
            "lsid": _DOCUMENT,
            "dirty": _FLAG,
            "transaction": {"enum": ["none", "starting", "in_progress", "committed", "aborted"]},
        },
        "lsid",
    ),
    "topology": _object({"type": _TEXT, "primary": _or_null(_TEXT)}, "type"),
    "retryTokens": _or_null(_NUMBER),
}
"""Messages by their part, and the results of some requests by their method."""
_RESULTS: Final = ("hello", "session", "topology", "retryTokens")


def schema() -> dict[str, Any]:
    """Return the schema of every line that an adapter writes."""
    # A copy: validators of single events are made from `_SCHEMAS`, and must not get the alternatives.
    event = json.loads(json.dumps(_SCHEMAS["event"]))
    event["properties"]["event"]["allOf"] = [
        {"if": {"properties": {"kind": {"const": kind}}}, "then": {"properties": {"fields": fields}}}
        for kind, fields in _FIELDS.items()
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A line that an adapter of pushbackd writes",
        "oneOf": [_SCHEMAS["answer"], event, _SCHEMAS["callback"]],
        "$defs": {f"result of {name}": _SCHEMAS[name] for name in _RESULTS},
    }


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(dict(_FIELDS[name] if name in _FIELDS else _SCHEMAS[name]))


def flaw_of(document: Mapping[str, Any]) -> str:
    """Return what is wrong with a message, with its path; empty when it is one."""
    if "event" in document:
        return _of_event(document)
    if "callback" in document:
        return _named("callback", _first("callback", document))
    given = [part for part in ANSWERS if part in document]
    number = document.get("id")
    number = next(iter(number.values()), number) if isinstance(number, dict) else number
    about = f"answer to request {number}" if "id" in document else "answer"
    if len(given) == 1:
        return _named(about, _first("answer", document))
    if "id" not in document:
        return "no answer, event or callback: it has neither id nor event nor callback"
    if not given:
        return f"{about}: it has none of {', '.join(ANSWERS)}"
    return f"{about}: it has {' and '.join(given)}, where one is due"


def flaw_of_result(method: str, result: Any) -> str:
    """Return what is wrong with the result of a request, which has been read; empty when nothing is."""
    return _first(method, json.loads(json_util.dumps(result)))


def _of_event(document: Mapping[str, Any]) -> str:
    event = document["event"]
    if not isinstance(event, dict):
        return _first("event", document)
    kind = event.get("kind")
    if isinstance(kind, str) and kind not in _FIELDS:
        return f"event.kind: there is no event {kind!r}; {_meant(kind, _FIELDS)}"
    about = f"event {kind}" if isinstance(kind, str) else "event"
    flaw = _first("event", document, within=("event",))
    return _named(about, flaw or _first(event["kind"], event["fields"], path=("fields",)))


def _named(about: str, flaw: str) -> str:
    return f"{about}: {flaw}" if flaw else ""


def _first(
    name: str, instance: Any, *, path: tuple[str | int, ...] = (), within: tuple[str | int, ...] = ()
) -> str:
    """Return the first error of an instance, with its path: below `path`, and from `within` on."""
    for error in _validator(name).iter_errors(instance):
        steps, value = tuple(error.instance_path), instance
        for step in steps:
            value = value[step]
        # The title of the part is the sentence for the reader ("a whole number or null"); the path of the
        # error in the schema leads to it, its last step is the keyword that failed.
        part: Any = _FIELDS[name] if name in _FIELDS else _SCHEMAS[name]
        for step in error.schema_path[:-1]:
            part = part[step]
        said = _said(error, value, part if isinstance(part, dict) else {})
        place = dotted((*path, *steps[len(within) :]))
        return f"{place}: {said}" if place else said
    return ""


def _said(error: jsonschema_rs.ValidationError, value: Any, part: Mapping[str, Any]) -> str:
    """Return an error in words: what is missing or unknown, or what a value has to be."""
    keyword = error.schema_path[-1]
    if found := re.fullmatch(r'"(.+)" is a required property', error.message):
        return f"lacks {found[1]}"
    if keyword == "additionalProperties":
        known = part.get("properties", {})
        name = next(each for each in value if each not in known)
        return f"has no part {name!r}; {_meant(name, known)}"
    if keyword == "enum":
        known = part["enum"]
        return f"{_value(value)} is unknown; {_meant(value, known)}"
    return f"{_value(value)} is not {part['title']}" if "title" in part else error.message


def _meant(word: object, known: Iterable[str]) -> str:
    names = list(known)
    return did_you_mean(word, names, f"known are {', '.join(names)}")


def _value(value: Any) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"


def flaw_of_values(document: Any, path: tuple[str | int, ...] = ()) -> str:
    """Return where extended JSON is not as it has to be; empty where all of it is."""
    members: Iterable[tuple[str | int, Any]] = ()
    if isinstance(document, dict):
        members = document.items()
    elif isinstance(document, list):
        members = enumerate(document)
    # Inner values first, so that the path names the smallest part that is wrong.
    for step, value in members:
        if flaw := flaw_of_values(value, (*path, step)):
            return flaw
    if isinstance(document, dict) and any(name.startswith("$") for name in document):
        try:
            json_util.loads(json.dumps(document))
        except Exception as error:  # noqa: BLE001 - extended JSON can be wrong in many ways
            return f"{dotted(path)}: {_value(document)} is no extended JSON: {error}"
    return ""

"""The OpenAPI description of the HTTP door, made of the table of verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.verbs.table import VERBS
from fakeserver.control.web.door import UNITS
from mongowire.documents.arguments import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.control.verbs.form import Verb
    from mongowire.documents.arguments import Argument

Document = dict[str, Any]

_VERSION: Final = "1.0"
_TEXT: Final = {"type": "string", "minLength": 1}
_OBJECT: Final = {"type": "object"}

_SCHEMAS: Final[Mapping[Kind, Document]] = {
    Kind.SERVER: _TEXT,
    Kind.SERVERS: {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
    Kind.GROUPS: {"anyOf": [_TEXT, {"type": "array"}]},
    Kind.CODES: {"anyOf": [_TEXT, {"type": "integer"}, {"type": "array"}]},
    Kind.MODE: {"anyOf": [_TEXT, {"type": "integer", "minimum": 0}, _OBJECT]},
    Kind.DURATION: {"anyOf": [{"const": 0}, _TEXT]},
    Kind.SECONDS: {"anyOf": [{"type": "number", "minimum": 0}, _TEXT]},
    Kind.RATE: _TEXT,
    Kind.COUNT: {"type": "integer", "minimum": 0},
    Kind.NUMBER: {"type": "number", "minimum": 0},
    Kind.SHARE: {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, _TEXT]},
    Kind.SIZE: {"anyOf": [{"type": "integer", "minimum": 0}, _TEXT]},
    Kind.FLAG: {"type": "boolean"},
    Kind.TEXT: _TEXT,
    Kind.NAMES: {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
    Kind.DOCUMENT: _OBJECT,
    Kind.DOCUMENTS: {"anyOf": [_OBJECT, {"type": "array", "items": _OBJECT}]},
}
"""The JSON Schema of each kind of argument; a kind that is missing here is any value."""


def description() -> Document:
    """Return the description (OpenAPI 3.1)."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "pushbackd control",
            "version": _VERSION,
            "description": "Verbs of a running fake MongoDB deployment. Bodies are relaxed Extended JSON.",
        },
        "security": [{"token": []}],
        "paths": {
            **{f"/control/{verb.name}": {"post": _operation(verb)} for verb in VERBS},
            **{path: {"get": operation} for path, operation in _readings().items()},
        },
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error", "path"],
                    "properties": {
                        "error": {"type": "string", "description": "what is wrong, and what would be right"},
                        "path": {
                            "type": "array",
                            "items": {"type": ["string", "integer"]},
                            "description": "the path of the field that is wrong, outermost first",
                        },
                    },
                }
            },
        },
    }


def _operation(verb: Verb) -> Document:
    undone = f" `{verb.undone_by}` undoes it." if verb.undone_by else ""
    schema: Document = {
        "type": "object",
        "additionalProperties": False,
        "properties": {each.name: _schema(each) for each in verb.arguments},
    }
    required = [each.name for each in verb.arguments if each.is_required]
    if required:
        schema["required"] = required
    return {
        "operationId": verb.name,
        "summary": verb.help,
        "description": f"For {verb.applies.value}.{undone}",
        "requestBody": {"required": bool(required), "content": {"application/json": {"schema": schema}}},
        "responses": {"200": _json("the document of the verb, when it is over", _OBJECT), **_errors(400)},
    }


def _schema(argument: Argument) -> Document:
    unit = UNITS.get(argument.kind)
    schema = {
        **_SCHEMAS.get(argument.kind, {}),
        "description": argument.help + (f" ({unit})" if unit else ""),
    }
    if argument.known:
        schema["enum"] = list(argument.known)
    if not argument.is_required and argument.default is not None:
        schema["default"] = argument.default
    return schema


def _readings() -> dict[str, Document]:
    """Return the operations that only read."""
    since = _query("since", "the number of the record to begin after", {"type": "integer", "minimum": 0})
    kind = _query("kind", "kinds of events, parted by commas", _TEXT)
    limit = _query("limit", "records at most", {"type": "integer", "minimum": 0, "default": 1000})
    documents = _query("documents", "with the documents of requests and replies", {"type": "boolean"})
    text = {"text/plain": {"schema": {"type": "string"}}}
    events = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "/control": _reading("table", "The table of verbs."),
        "/state": _reading("deployment", "The deployment as it is now."),
        "/journal": _reading("records", "Records of the journal.", [since, limit, kind, documents]),
        "/journal/stream": _reading(
            "followRecords",
            "Records as they are entered, as server-sent events; `Last-Event-ID` resumes.",
            [since, kind],
            events,
        ),
        "/metrics": _reading("metrics", "The deployment's metrics, for Prometheus.", content=text),
        "/openapi.json": _reading("description", "This description."),
    }


def _reading(
    name: str, summary: str, parameters: list[Document] | None = None, content: Document | None = None
) -> Document:
    answer = {"description": "the answer", "content": content} if content else _json("the answer", _OBJECT)
    return {
        "operationId": name,
        "summary": summary,
        **({"parameters": parameters} if parameters else {}),
        "responses": {"200": answer, **_errors(*([400] if parameters else []))},
    }


def _query(name: str, explanation: str, schema: Document) -> Document:
    return {"name": name, "in": "query", "description": explanation, "schema": schema}


def _json(explanation: str, schema: Document) -> Document:
    return {"description": explanation, "content": {"application/json": {"schema": schema}}}


def _errors(*codes: int) -> Document:
    why = {400: "an argument is wrong, or does not fit", 401: "no token", 403: "another origin"}
    error = {"$ref": "#/components/schemas/Error"}
    return {str(code): _json(why[code], error) for code in (*codes, 401, 403)}

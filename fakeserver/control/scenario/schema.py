"""The JSON Schema of scenario files, for editors: made of the lists of fields and of the table of verbs.

An editor offers names with it and shows what each means. What it cannot say (that a server exists, that a
verb fits the topology) the loader says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.control.scenario import building
from fakeserver.control.scenario.building import is_a_step
from fakeserver.control.verbs.table import VERBS
from fakeserver.network import fault_effects, faults
from fakeserver.rules import parsing as rules
from fakeserver.rules.parsing import CONDITIONS, EFFECTS
from mongowire.documents.arguments import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from mongowire.documents.arguments import Argument

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": ["number", "string"]}
_TEXTS: Final[Schema] = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_DOCUMENT: Final[Schema] = {"type": "object"}
_DURATION: Final[Schema] = {
    "anyOf": [{"const": 0}, {"type": "string", "examples": ["200ms", "5s", "1m30s"], "pattern": "[a-z] *$"}]
}
_KINDS: Final[Mapping[Kind, Schema]] = {
    Kind.SERVER: {"type": "string", "examples": ["primary", "secondary", "node0"]},
    Kind.SERVERS: _TEXTS,
    Kind.GROUPS: {"type": "array", "items": {"type": "array", "items": _TEXT}},
    Kind.DURATION: _DURATION,
    Kind.SECONDS: {"anyOf": [{"type": "number", "minimum": 0}, *_DURATION["anyOf"][1:]]},
    Kind.RATE: {"type": "string", "examples": ["20/s", "100/min"], "pattern": "/ *[a-z]+ *$"},
    Kind.COUNT: {"type": "integer", "minimum": 0},
    Kind.NUMBER: {"type": "number", "minimum": 0},
    Kind.SHARE: {
        "anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "pattern": "%$"}]
    },
    Kind.SIZE: _NUMBER,
    Kind.FLAG: {"type": "boolean"},
    Kind.TEXT: _TEXT,
    Kind.NAMES: _TEXTS,
    Kind.CODES: {"anyOf": [_NUMBER, {"type": "array", "items": _NUMBER}]},
    Kind.OUTCOME: _NUMBER,
    Kind.MODE: {"anyOf": [{"enum": ["alwaysOn", "off"]}, {"type": "integer"}, _DOCUMENT]},
    Kind.DOCUMENT: _DOCUMENT,
    Kind.DOCUMENTS: {"type": "array", "items": _DOCUMENT},
}
_REQUESTS: Final = r"^\s*\d+(\s+\w+)?\s+requests?\s*$"
_PERIOD: Final[Schema] = {
    "anyOf": [*_DURATION["anyOf"], {"type": "string", "pattern": _REQUESTS, "examples": ["100 requests"]}]
}
_TRIGGERS: Final[Mapping[str, Schema]] = {
    "at": _DURATION,
    "after": {"type": "string", "pattern": _REQUESTS, "examples": ["100 requests", "3 insert requests"]},
    "when": {"type": "string", "examples": ["connections > 50", "requests/s >= 200", "primary == node1"]},
    "every": _PERIOD,
    "for": _PERIOD,
    "until": {"type": ["number", "string"], "examples": ["30s", "500 requests", "connections < 10"]},
    "times": {"type": "integer", "minimum": 0},
    "jitter": _DURATION,
}


def schema() -> Schema:
    """Return the schema."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Scenario for servers, version {building.VERSION}",
        **_closed(
            {name: _described(_PARTS[name](), help_text) for name, help_text in building.FIELDS.items()},
            required=("pushbackd",),
        ),
    }


def _deployment() -> Schema:
    return _form(
        building.DEPLOYMENT,
        **{
            building.MEMBERS: _described(
                {
                    "anyOf": [
                        {"type": "integer", "minimum": 1},
                        {"type": "array", "items": _form(building.MEMBER)},
                    ]
                },
                building.MEMBERS_HELP,
            ),
            building.TLS: _described(_form(building.TLS_FIELDS), building.TLS_HELP),
        },
    )


def _rule() -> Schema:
    effects = {"type": "array", "items": _open(EFFECTS)}
    whole = {"when": _open(CONDITIONS), "then": effects, "sequence": {"type": "array", "items": effects}}
    return _open(rules.FIELDS, **whole)


def _fault() -> Schema:
    phases = {"enum": [phase.value for phase in faults.FaultPhase]}
    return {**_open(faults.FIELDS, at=phases, do=_open(fault_effects.EFFECTS)), "required": ["at", "do"]}


def _open(names: Iterable[str], **known: Schema) -> Schema:
    """Return the schema of a mapping with these fields, whose values the loader checks."""
    return _closed({name: known.get(name, {}) for name in names})


def _timeline() -> Schema:
    verbs = [verb for verb in VERBS if is_a_step(verb)]
    parts = {name: _described(_TRIGGERS[name], help_text) for name, help_text in building.ENTRY.items()}
    for verb in verbs:
        undone = f" {verb.undone_by} undoes it." if verb.undone_by else ""
        form = parts[verb.name] = _described(_form(verb.arguments), verb.help + undone)
        if not form["required"]:
            form["type"] = ["object", "null"]
    step = _closed(parts)
    step["oneOf"] = [{"required": [verb.name]} for verb in verbs]
    return {"type": "array", "items": step}


def _form(arguments: Iterable[Argument], **others: Schema) -> Schema:
    properties, required = {}, []
    for argument in arguments:
        own = {"enum": list(argument.known)} if argument.known else _KINDS[argument.kind]
        described = properties[argument.name] = _described(own, argument.help)
        if argument.is_required:
            required.append(argument.name)
        elif argument.default is not None:
            described["default"] = argument.default
    return _closed({**properties, **others}, required=required)


def _closed(properties: Mapping[str, Schema], *, required: Iterable[str] = ()) -> Schema:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _described(part: Schema, sentence: str) -> Schema:
    return {**part, "description": f"{sentence[:1].upper()}{sentence[1:]}"}


_PARTS: Final[Mapping[str, Callable[[], Schema]]] = {
    "pushbackd": lambda: {"enum": [building.VERSION, float(building.VERSION)]},
    "description": lambda: _TEXT,
    "seed": lambda: {"type": "integer"},
    "deployment": _deployment,
    "users": lambda: {"type": "array", "items": _form(building.USER)},
    "data": lambda: {"type": "object", "additionalProperties": _KINDS[Kind.DOCUMENTS]},
    "parameters": lambda: _DOCUMENT,
    "rules": lambda: {"type": "array", "items": _rule()},
    "faults": lambda: {"type": "array", "items": _fault()},
    "timeline": _timeline,
}

"""The JSON Schema for editors: the format's own, with what editors offer and show beside it.

It has a description for every field, the names of all operations with their arguments and types, the contents
of fail points, and the codes, labels and commands by their names. A run checks files by the format's schema;
what is here besides, `pushbackd lint` knows.

The words come from `harness.unified.schema` (descriptions, arguments, fail points), from the table of
operations and from the enumerations of codes and labels, so that a new operation or label is offered without
a change here. Where a name may also be one that we do not know, such as a label or a command, it is an
example or one branch of `anyOf`, and never the only choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from driver.options import OPTIONS
from harness.lint.commands import all_commands
from harness.unified.operations import OPERATIONS
from harness.unified.schema.arguments import argument_of
from harness.unified.schema.descriptions import description_of
from harness.unified.schema.fail_points import DATA, FIELDS, MODE_FIELDS, MODES, NAMES
from harness.unified.schema.grammar import MINOR_MAX, file_schema, part_schema
from mongowire.codes import ErrorCode, Label

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.unified.schema.arguments import Argument

_OPERATION: Final = "#/properties/tests/items/properties/operations/items"
_NESTED: Final[Mapping[str, Any]] = {
    "callback": {"type": "array", "items": {"$ref": _OPERATION}},
    "entities": {"type": "array", "items": {"$ref": "#/definitions/createdEntity"}},
    "failPoint": {"$ref": "#/definitions/failPoint"},
    "operation": {"$ref": _OPERATION},
    "operations": {"type": "array", "items": {"$ref": _OPERATION}},
}
"""Arguments that are parts of a scenario themselves."""


def editor_schema(minor: int = MINOR_MAX) -> dict[str, Any]:
    """Return the schema of version 1.`minor` for editors."""
    # A copy, because what follows writes into it and `file_schema` may be that of every run.
    schema = _described(file_schema(minor), ())
    codes = [
        {"const": int(code), "description": code.code_name}
        for code in sorted(ErrorCode)
        if code is not ErrorCode.OK
    ]
    schema["definitions"] |= {
        "commandName": {"anyOf": [{"enum": sorted(all_commands())}, {"type": "string"}]},
        "createdEntity": _described(part_schema("entity"), ("createEntities",)),
        "errorCode": {"anyOf": [*codes, {"type": ["integer", "object"]}]},
        "failPoint": _fail_point(),
        "label": {"type": "string", "examples": [label.value for label in Label]},
    }
    operation = schema["properties"]["tests"]["items"]["properties"]["operations"]["items"]
    operation["properties"]["name"] |= {"enum": sorted({name for _, name in OPERATIONS})}
    operation["allOf"] = [*operation.get("allOf", ()), *_arguments()]
    error = operation["properties"]["expectError"]["properties"]
    error["errorCode"] |= _CODE
    error["errorCodeName"] |= {"examples": [code.code_name for code in sorted(ErrorCode)]}
    for field in ("errorLabelsContain", "errorLabelsOmit"):
        error[field] |= _LABELS
    client = schema["properties"]["createEntities"]["items"]["properties"]["client"]["properties"]
    client["uriOptions"]["properties"] = {
        name: {"description": f"Option {name} of connection strings (URI Options)."} for name in OPTIONS
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Unified test format, version 1.{minor}",
        **schema,
    }


def _described(part: Any, path: tuple[str, ...]) -> Any:
    """Return a copy of a part of the schema in which each property has its description."""
    if isinstance(part, list):
        return [_described(each, path) for each in part]
    if not isinstance(part, dict):
        return part
    copy: dict[str, Any] = {}
    for name, value in part.items():
        if name in ("properties", "patternProperties"):
            copy[name] = {field: _field(inner, (*path, field)) for field, inner in value.items()}
        else:
            # Conditions name fields that are described where they are declared.
            copy[name] = value if name in ("if", "dependentSchemas") else _described(value, path)
    return copy


def _field(schema: Any, path: tuple[str, ...]) -> Any:
    """Return a property with its sentence: its own, that of its path, or else that of its bare name.

    A forbidden field, whose schema is False, stays so: a description would allow it.
    """
    if schema is False:
        return False
    own = schema.get("description", "") if isinstance(schema, dict) else ""
    sentence = own or description_of(path) or description_of((path[-1].strip("^").partition(":")[0],))
    return {**({} if schema is True else _described(schema, path)), "description": sentence}


def _arguments() -> Iterator[dict[str, Any]]:
    """Yield a condition for each operation: with this name, these are the arguments.

    Operations of one name on several kinds of entity have the arguments of all.
    """
    for operation in sorted({name for _, name in OPERATIONS}):
        specs = [spec.arguments for (_, name), spec in OPERATIONS.items() if name == operation]
        names = list(dict.fromkeys(name for arguments in specs for name in arguments))
        # The condition sees a name and no entity, so only what every kind of entity needs can be required.
        required = [name for name in names if all(arguments.get(name) for arguments in specs)]
        arguments = {
            "type": "object",
            "properties": {name: _argument(operation, name) for name in names},
            "additionalProperties": False,
            "required": required,
        }
        yield {
            "if": {"properties": {"name": {"const": operation}}, "required": ["name"]},
            "then": {
                "properties": {"arguments": {**arguments, "description": f"Arguments of {operation}."}},
                "required": ["arguments"] if required else [],
            },
        }


def _argument(operation: str, name: str) -> dict[str, Any]:
    argument = argument_of(operation, name)
    return {**_NESTED.get(name, argument.type.schema), "description": argument.sentence}


def _fail_point() -> dict[str, Any]:
    """Return the schema of a `configureFailPoint` command: its data depend on its name."""
    mode = {
        "anyOf": [
            {"type": "string", "enum": list(MODES)},
            {
                "type": "object",
                "properties": _fields(MODE_FIELDS),
                "additionalProperties": False,
                "minProperties": 1,
                "maxProperties": 1,
            },
        ],
        "description": FIELDS["mode"].sentence,
    }
    name = {"type": "string", "examples": list(NAMES), "description": FIELDS["configureFailPoint"].sentence}
    return {
        "type": "object",
        "properties": {
            "configureFailPoint": name,
            "mode": mode,
            "data": {"type": "object", "description": FIELDS["data"].sentence},
        },
        "required": ["configureFailPoint", "mode"],
        "allOf": [_data_of(point) for point in NAMES],
    }


def _data_of(point: str) -> dict[str, Any]:
    data = {
        "type": "object",
        "properties": _fields(DATA.get(point, {})),
        "additionalProperties": False,
        "description": f"Data of {point}.",
    }
    return {
        "if": {"properties": {"configureFailPoint": {"const": point}}},
        "then": {"properties": {"data": data}},
    }


def _fields(fields: Mapping[str, Argument]) -> dict[str, Any]:
    return {
        # With the names that it may hold.
        name: {**(_NAMED.get(name) or argument.type.schema), "description": argument.sentence}
        for name, argument in fields.items()
    }


_CODE: Final[Mapping[str, Any]] = {"$ref": "#/definitions/errorCode"}
_COMMANDS: Final[Mapping[str, Any]] = {"type": "array", "items": {"$ref": "#/definitions/commandName"}}
_LABELS: Final[Mapping[str, Any]] = {"type": "array", "items": {"$ref": "#/definitions/label"}}
_NAMED: Final = {
    "errorCode": _CODE,
    "failBeforeCommitExceptionCode": _CODE,
    "failCommands": _COMMANDS,
    "failCommandsExcept": _COMMANDS,
    "errorLabels": _LABELS,
}

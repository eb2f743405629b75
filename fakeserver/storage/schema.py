"""`$jsonSchema` in its basics: what validators use, with the details that a rejected document is told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.storage.arithmetic import to_decimal
from fakeserver.storage.match_operators import type_aliases
from fakeserver.storage.values import equal, exact, identity, is_number, is_object, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Details: TypeAlias = list[dict[str, Any]]
    Check: TypeAlias = Callable[[Any], Details]

_JSON_TYPES: Final = {
    "object": ("object",), "array": ("array",), "number": ("int", "long", "double", "decimal"),
    "boolean": ("bool",), "string": ("string",), "null": ("null",),
}  # fmt: skip
_ANNOTATIONS: Final = frozenset({"title", "description"})


def compile_schema(schema: Any) -> Check:
    """Return a function from a document to its violations. Raises `CommandError` for a bad schema."""
    if not isinstance(schema, dict):
        raise CommandError(ErrorCode.TYPE_MISMATCH, "$jsonSchema must be an object")
    checks = []
    for keyword, argument in schema.items():
        if keyword in _ANNOTATIONS or keyword in {"additionalProperties", "patternProperties"}:
            continue
        make = _KEYWORDS.get(keyword)
        if make is None:
            raise CommandError(ErrorCode.FAILED_TO_PARSE, f"Unknown $jsonSchema keyword: {keyword}")
        checks.append(make(argument))
    if "additionalProperties" in schema:
        checks.append(_additional(schema))
    return lambda value: [violation for check in checks for violation in check(value)]


def _violation(name: str, argument: Any, value: Any, reason: str) -> Details:
    shown = {"specifiedAs": {name: argument}, "reason": reason, "consideredValue": value}
    return [{"operatorName": name, **shown}]


def _typed(name: str, aliases_of: Callable[[Any], tuple[str, ...]]) -> Callable[[Any], Check]:
    def make(argument: Any) -> Check:
        aliases = argument if isinstance(argument, list) else [argument]
        wanted = frozenset(alias for each in aliases for alias in aliases_of(each))

        def check(value: Any) -> Details:
            kind = type_name(value)
            if kind in wanted:
                return []
            violation = _violation(name, argument, value, "type did not match")
            return [{**violation[0], "consideredType": kind}]

        return check

    return make


def _json_type(alias: Any) -> tuple[str, ...]:
    if alias not in _JSON_TYPES:
        raise CommandError(ErrorCode.BAD_VALUE, f"Unknown type name alias: {alias}")
    return _JSON_TYPES[alias]


def _required(argument: Any) -> Check:
    def check(value: Any) -> Details:
        missing = [name for name in argument if name not in value] if is_object(value) else []
        if not missing:
            return []
        shown = {"specifiedAs": {"required": argument}, "missingProperties": missing}
        return [{"operatorName": "required", **shown}]

    return check


def _properties(argument: Mapping[str, Any]) -> Check:
    checks = {name: compile_schema(schema) for name, schema in argument.items()}

    def check(value: Any) -> Details:
        if not is_object(value):
            return []
        failed = []
        for name, inner in checks.items():
            details = inner(value[name]) if name in value else []
            if details:
                failed.append({"propertyName": name, **_described(argument[name]), "details": details})
        return [{"operatorName": "properties", "propertiesNotSatisfied": failed}] if failed else []

    return check


def _described(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: schema[name] for name in ("title", "description") if name in schema}


def _additional(schema: Mapping[str, Any]) -> Check:
    allowed, known = schema["additionalProperties"], frozenset(schema.get("properties", {}))
    patterns = [re.compile(pattern) for pattern in schema.get("patternProperties", {})]
    inner = compile_schema(allowed) if isinstance(allowed, dict) else None

    def check(value: Any) -> Details:
        if allowed is True or not is_object(value):
            return []
        extra = [
            name for name in value if name not in known and not any(each.search(name) for each in patterns)
        ]
        wrong = [name for name in extra if inner is None or inner(value[name])]
        if not wrong:
            return []
        shown = {"specifiedAs": {"additionalProperties": allowed}, "additionalProperties": wrong}
        return [{"operatorName": "additionalProperties", **shown}]

    return check


def _items(argument: Any) -> Check:
    inner = compile_schema(argument)

    def check(value: Any) -> Details:
        if not isinstance(value, list):
            return []
        for index, item in enumerate(value):
            details = inner(item)
            if details:
                shown = {"reason": "At least one item did not match the sub-schema", "itemIndex": index}
                return [{"operatorName": "items", **shown, "details": details}]
        return []

    return check


def _enum(argument: Any) -> Check:
    def check(value: Any) -> Details:
        if any(equal(value, item) for item in argument):
            return []
        return _violation("enum", argument, value, "value was not found in enum")

    return check


def _unique_items(argument: Any) -> Check:
    def check(value: Any) -> Details:
        if (
            not argument
            or not isinstance(value, list)
            or len({identity(item) for item in value}) == len(value)
        ):
            return []
        return _violation("uniqueItems", argument, value, "found a duplicate item")

    return check


def _bound(
    name: str, applies: Callable[[Any], bool], holds: Callable[[Any, Any], bool]
) -> Callable[[Any], Check]:
    def make(argument: Any) -> Check:
        def check(value: Any) -> Details:
            if not applies(value) or holds(value, argument):
                return []
            return _violation(name, argument, value, "comparison failed")

        return check

    return make


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _combined(name: str, holds: Callable[[int, int], bool]) -> Callable[[Any], Check]:
    def make(argument: Any) -> Check:
        branches = [compile_schema(schema) for schema in argument]

        def check(value: Any) -> Details:
            satisfied = sum(not branch(value) for branch in branches)
            if holds(satisfied, len(branches)):
                return []
            return [{"operatorName": name, "schemasNotSatisfied": len(branches) - satisfied}]

        return check

    return make


def _negated(argument: Any) -> Check:
    inner = compile_schema(argument)
    return lambda value: (
        [] if inner(value) else [{"operatorName": "not", "reason": "child expression matched"}]
    )


_KEYWORDS: Final[dict[str, Callable[[Any], Check]]] = {
    "bsonType": _typed("bsonType", type_aliases),
    "type": _typed("type", _json_type),
    "required": _required,
    "properties": _properties,
    "items": _items,
    "enum": _enum,
    "uniqueItems": _unique_items,
    "minimum": _bound("minimum", is_number, lambda value, limit: exact(value) >= exact(limit)),
    "maximum": _bound("maximum", is_number, lambda value, limit: exact(value) <= exact(limit)),
    "multipleOf": _bound(
        "multipleOf", is_number, lambda value, step: to_decimal(value) % to_decimal(step) == 0
    ),
    "minLength": _bound("minLength", _is_text, lambda value, limit: len(value) >= limit),
    "maxLength": _bound("maxLength", _is_text, lambda value, limit: len(value) <= limit),
    "pattern": _bound("pattern", _is_text, lambda value, pattern: re.search(pattern, value) is not None),
    "minItems": _bound("minItems", _is_list, lambda value, limit: len(value) >= limit),
    "maxItems": _bound("maxItems", _is_list, lambda value, limit: len(value) <= limit),
    "minProperties": _bound("minProperties", is_object, lambda value, limit: len(value) >= limit),
    "maxProperties": _bound("maxProperties", is_object, lambda value, limit: len(value) <= limit),
    "allOf": _combined("allOf", lambda satisfied, total: satisfied == total),
    "anyOf": _combined("anyOf", lambda satisfied, _total: satisfied > 0),
    "oneOf": _combined("oneOf", lambda satisfied, _total: satisfied == 1),
    "not": _negated,
}

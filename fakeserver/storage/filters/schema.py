"""`$jsonSchema`: the keywords of a server, with the details of a violation for the client."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.regex import compile_regex
from fakeserver.storage.filters.match_operators import type_aliases
from fakeserver.storage.filters.schema_values import (
    count,
    json_type,
    limit,
    matching_pattern,
    multiple_of,
    must_be,
    nothing,
    one_of,
    typed,
    unique_items,
    unparsable,
)
from fakeserver.storage.values.types import is_object, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.storage.filters.schema_values import Check, Details

_UNSUPPORTED: Final = frozenset({"$ref", "$schema", "default", "definitions", "format", "id"})
_KEYWORDS: Final = frozenset({
    "additionalItems", "additionalProperties", "allOf", "anyOf", "bsonType", "dependencies", "description",
    "enum", "exclusiveMaximum", "exclusiveMinimum", "items", "maxItems", "maxLength", "maxProperties",
    "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern",
    "patternProperties", "properties", "required", "title", "type", "uniqueItems",
})  # fmt: skip


def compile_schema(schema: Any) -> Check:
    """Return a function from a document to its violations, in the order in which a server reports them.

    Raises `CommandError` for a bad schema.
    """
    if not is_object(schema):
        raise CommandError(ErrorCode.TYPE_MISMATCH, "$jsonSchema must be an object")
    for keyword in schema:
        if keyword in _UNSUPPORTED:
            raise unparsable(f"$jsonSchema keyword '{keyword}' is not currently supported")
        if keyword not in _KEYWORDS:
            raise unparsable(f"Unknown $jsonSchema keyword: {keyword}")
    if "bsonType" in schema and "type" in schema:
        raise unparsable("Cannot specify both $jsonSchema keywords 'type' and 'bsonType'")
    checks = [make(schema) for make in _MAKERS]
    return lambda value: [violation for check in checks for violation in check(value)]


def _names(keyword: str, argument: Any) -> list[str]:
    """Return a keyword's array of names. Raises `CommandError` for what is none, is empty or repeats one."""
    if not isinstance(argument, list):
        raise must_be(keyword, "an array", argument)
    for name in argument:
        if type(name) is not str:
            raise must_be(keyword, "an array of strings", name)
    if not argument:
        raise unparsable(f"$jsonSchema keyword '{keyword}' cannot be an empty array")
    if len(set(argument)) < len(argument):
        raise unparsable(f"$jsonSchema keyword '{keyword}' array cannot contain duplicate values")
    return argument


def _schemas(keyword: str, argument: Any) -> dict[str, Check]:
    if not is_object(argument):
        raise must_be(keyword, "an object", argument)
    for name, schema in argument.items():
        if not is_object(schema):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH,
                f"Nested schema for $jsonSchema property '{name}' must be an object, but found an element of "
                f"type {type_name(schema)}",
            )
    return {name: compile_schema(schema) for name, schema in argument.items()}


def _required(argument: Any) -> Check:
    _names("required", argument)

    def check(value: Any) -> Details:
        missing = [name for name in argument if name not in value] if is_object(value) else []
        if not missing:
            return []
        shown = {"specifiedAs": {"required": argument}, "missingProperties": missing}
        return [{"operatorName": "required", **shown}]

    return check


def _properties(argument: Mapping[str, Any]) -> Check:
    checks = _schemas("properties", argument)

    def check(value: Any) -> Details:
        if not is_object(value):
            return []
        failed = []
        for name, inner in checks.items():
            details = inner(value[name]) if name in value else []
            if details:
                schema = argument[name]
                described = {key: schema[key] for key in ("title", "description") if key in schema}
                failed.append({"propertyName": name, **described, "details": details})
        return [{"operatorName": "properties", "propertiesNotSatisfied": failed}] if failed else []

    return check


def _pattern_properties(schema: Mapping[str, Any]) -> Check:
    if "patternProperties" not in schema:
        return nothing
    checks = {
        pattern: (compile_regex(pattern), inner)
        for pattern, inner in _schemas("patternProperties", schema["patternProperties"]).items()
    }

    def check(value: Any) -> Details:
        failed = [
            {"propertyName": name, "regexMatched": pattern, "details": details}
            for name, item in (value.items() if is_object(value) else ())
            for pattern, (regex, inner) in checks.items()
            if regex.matches(name) and (details := inner(item))
        ]
        return [{"operatorName": "patternProperties", "details": failed}] if failed else []

    return check


def _additional_properties(schema: Mapping[str, Any]) -> Check:
    allowed, known = schema.get("additionalProperties", True), frozenset(schema.get("properties", {}))
    patterns = [compile_regex(pattern) for pattern in schema.get("patternProperties", {})]
    inner = _bool_or_schema("additionalProperties", allowed)

    def check(value: Any) -> Details:
        if allowed is True or not is_object(value):
            return []
        extra = [
            name for name in value if name not in known and not any(each.matches(name) for each in patterns)
        ]
        wrong = [name for name in extra if inner is None or inner(value[name])]
        if not wrong:
            return []
        shown = {"specifiedAs": {"additionalProperties": allowed}, "additionalProperties": wrong}
        return [{"operatorName": "additionalProperties", **shown}]

    return check


def _bool_or_schema(keyword: str, argument: Any) -> Check | None:
    if isinstance(argument, bool):
        return None
    if not is_object(argument):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"$jsonSchema keyword '{keyword}' must be either an object or a boolean, but got type "
            f"{type_name(argument)}",
        )
    return compile_schema(argument)


def _items(argument: Any) -> Check:
    if isinstance(argument, list):
        return _items_in_turn([compile_schema(schema) for schema in argument])
    if not is_object(argument):
        raise must_be("items", "an array or an object", argument)
    inner = compile_schema(argument)
    return _first_bad_item("items", "At least one item did not match the sub-schema", 0, inner)


def _items_in_turn(checks: list[Check]) -> Check:
    def check(value: Any) -> Details:
        pairs = zip(checks, value if isinstance(value, list) else (), strict=False)
        failed = [
            {"itemIndex": index, "details": details}
            for index, (inner, item) in enumerate(pairs)
            if (details := inner(item))
        ]
        return [{"operatorName": "items", "details": failed}] if failed else []

    return check


def _first_bad_item(name: str, reason: str, start: int, inner: Check) -> Check:
    def check(value: Any) -> Details:
        for index, item in enumerate(value if isinstance(value, list) else ()):
            details = inner(item) if index >= start else []
            if details:
                return [{"operatorName": name, "reason": reason, "itemIndex": index, "details": details}]
        return []

    return check


def _additional_items(schema: Mapping[str, Any]) -> Check:
    """Return the check of the elements beyond those that an array of schemas names one by one."""
    allowed, items = schema.get("additionalItems", True), schema.get("items")
    inner = _bool_or_schema("additionalItems", allowed)
    if not isinstance(items, list) or allowed is True:
        return nothing
    start = len(items)
    if inner is not None:
        reason = "At least one additional item did not match the sub-schema"
        return _first_bad_item("additionalItems", reason, start, inner)

    def check(value: Any) -> Details:
        if not isinstance(value, list) or len(value) <= start:
            return []
        shown = {"specifiedAs": {"additionalItems": False}, "additionalItems": value[start:]}
        return [{"operatorName": "additionalItems", **shown}]

    return check


def _dependencies(argument: Any) -> Check:
    if not is_object(argument):
        raise must_be("dependencies", "an object", argument)
    checks = {name: _dependency(name, needed) for name, needed in argument.items()}

    def check(value: Any) -> Details:
        present = [name for name in checks if name in value] if is_object(value) else []
        failed = [
            {"conditionalProperty": name, **failure} for name in present if (failure := checks[name](value))
        ]
        return [{"operatorName": "dependencies", "failingDependencies": failed}] if failed else []

    return check


def _dependency(name: str, needed: Any) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return a function from a document that has a field to what it lacks for that."""
    if is_object(needed):
        inner = compile_schema(needed)
        return lambda value: {"details": details} if (details := inner(value)) else {}
    if not isinstance(needed, list):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"Dependency '{name}' in $jsonSchema keyword 'dependencies' must be either an object or an "
            f"array, but found an element of type {type_name(needed)}",
        )
    _names("dependencies", needed)

    def missing(value: Mapping[str, Any]) -> dict[str, Any]:
        lacking = [field for field in needed if field not in value]
        return {"missingProperties": lacking} if lacking else {}

    return missing


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _combined(name: str, holds: Callable[[int, int], bool]) -> Callable[[Any], Check]:
    def make(argument: Any) -> Check:
        if not isinstance(argument, list):
            raise must_be(name, "an array", argument)
        if not argument:
            raise unparsable(f"$jsonSchema keyword '{name}' must be a non-empty array")
        branches = [compile_schema(schema) for schema in argument]

        def check(value: Any) -> Details:
            satisfied = sum(not branch(value) for branch in branches)
            if holds(satisfied, len(branches)):
                return []
            return [{"operatorName": name, "schemasNotSatisfied": len(branches) - satisfied}]

        return check

    return make


def _negated(argument: Any) -> Check:
    if not is_object(argument):
        raise must_be("not", "an object", argument)
    inner = compile_schema(argument)
    return lambda value: (
        [] if inner(value) else [{"operatorName": "not", "reason": "child expression matched"}]
    )


def _own(keyword: str, make: Callable[[Any], Check]) -> Callable[[Mapping[str, Any]], Check]:
    """Return the maker of a keyword's check from the whole schema."""
    return lambda schema: make(schema[keyword]) if keyword in schema else nothing


_MAKERS: Final[tuple[Callable[[Mapping[str, Any]], Check], ...]] = (
    _own("pattern", matching_pattern),
    _own("maxLength", count("maxLength", _is_text, operator.le)),
    _own("minLength", count("minLength", _is_text, operator.ge)),
    _own("multipleOf", multiple_of),
    limit("maximum", operator.gt),
    limit("minimum", operator.lt),
    _own("minItems", count("minItems", _is_list, operator.ge)),
    _own("maxItems", count("maxItems", _is_list, operator.le)),
    _own("uniqueItems", unique_items),
    _own("items", _items),
    _additional_items,
    _own("properties", _properties),
    _pattern_properties,
    _additional_properties,
    _own("required", _required),
    _own("minProperties", count("minProperties", is_object, operator.ge)),
    _own("maxProperties", count("maxProperties", is_object, operator.le)),
    _own("dependencies", _dependencies),
    _own("allOf", _combined("allOf", lambda satisfied, total: satisfied == total)),
    _own("anyOf", _combined("anyOf", lambda satisfied, _total: satisfied > 0)),
    _own("oneOf", _combined("oneOf", lambda satisfied, _total: satisfied == 1)),
    _own("not", _negated),
    _own("enum", one_of),
    _own("bsonType", typed("bsonType", type_aliases)),
    _own("type", typed("type", json_type)),
)
"""Makers of checks, in the order in which a server parses keywords and reports their violations."""

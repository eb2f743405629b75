"""`$jsonSchema`: the keywords of a server, with the details of a violation for the client.

A check returns the details for a rejected document, none for an accepted one. Makers of checks raise
`CommandError` for an argument that a server refuses.

The keywords are those of draft 4 of JSON Schema, with `bsonType` beside `type`, less those that a server
leaves out (`_UNSUPPORTED`). A keyword is about one kind of value and holds for all others: `maxLength`
accepts numbers, and `properties` what is no object. Only `type`, `bsonType` and `enum` look at the kind
itself.

The order of `_MAKERS` is the one in which a server parses and reports, whatever the order in the schema: of
two mistakes it decides which one a client sees. Nested schemas are compiled with their parent, so a mistake
deep within is refused at once. Collations do not matter here. Codes: 9 for what is written wrong, 14 for an
argument of another type, 2 for unknown names of types.
"""

from __future__ import annotations

import decimal
import operator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.regex import compile_regex
from fakeserver.storage.filters.match_operators import type_aliases
from fakeserver.storage.values.arithmetic import to_decimal
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.printing import show
from fakeserver.storage.values.types import (
    equal,
    exact,
    identity,
    is_finite,
    is_nan,
    is_number,
    is_object,
    type_name,
    whole,
)
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Details: TypeAlias = list[dict[str, Any]]
    Check: TypeAlias = Callable[[Any], Details]


_EXACT: Final = 12_400
"""Digits that are enough for the largest decimal in units of the smallest one."""

_JSON_TYPES: Final = {
    "object": ("object",), "array": ("array",), "number": ("int", "long", "double", "decimal"),
    "boolean": ("bool",), "string": ("string",), "null": ("null",),
}  # fmt: skip


def unparsable(message: str) -> CommandError:
    """Return the error 9 for a schema that is written wrong."""
    return CommandError(ErrorCode.FAILED_TO_PARSE, message)


def must_be(keyword: str, what: str, value: Any) -> CommandError:
    """Return the error 14 for a keyword whose argument is of another type."""
    return CommandError(
        ErrorCode.TYPE_MISMATCH,
        f"$jsonSchema keyword '{keyword}' must be {what}, but found an element of type {type_name(value)}",
    )


def violation(name: str, argument: Any, value: Any, reason: str) -> Details:
    """Return the details about one keyword for a rejected document.

    The names and texts are a server's: clients parse `errInfo`, and tests compare it.
    """
    shown = {"specifiedAs": {name: argument}, "reason": reason, "consideredValue": value}
    return [{"operatorName": name, **shown}]


def typed(name: str, aliases_of: Callable[[Any], tuple[str, ...]]) -> Callable[[Any], Check]:
    """Return the maker of a check of a value's type, whose names `aliases_of` explains.

    The type that was found stands beside the value, as `consideredType`.
    """

    def make(argument: Any) -> Check:
        aliases = argument if isinstance(argument, list) else [argument]
        wanted = frozenset(alias for each in aliases for alias in aliases_of(each))

        def check(value: Any) -> Details:
            kind = type_name(value)
            if kind in wanted:
                return []
            details = violation(name, argument, value, "type did not match")
            return [{**details[0], "consideredType": kind}]

        return check

    return make


def json_type(alias: Any) -> tuple[str, ...]:
    """Return the BSON types that a type of JSON Schema names."""
    if alias == "integer":
        raise unparsable("$jsonSchema type 'integer' is not currently supported.")
    if type(alias) is not str:
        raise must_be("type", "either a string or an array of strings", alias)
    if alias not in _JSON_TYPES:
        raise CommandError(ErrorCode.BAD_VALUE, f"Unknown type name alias: {alias}")
    return _JSON_TYPES[alias]


def bson_type(alias: Any) -> tuple[str, ...]:
    """Return the types that `bsonType` names: aliases, no numbers."""
    if type(alias) is not str:
        raise must_be("bsonType", "either a string or an array of strings", alias)
    if alias == "integer":
        raise unparsable("$jsonSchema type 'integer' is not currently supported.")
    return type_aliases(alias)


def one_of(argument: Any) -> Check:
    """Return the check that a value is one of a list.

    Equal as to a query: numbers by value, strings by their bytes, documents by the order of fields.
    """
    if not isinstance(argument, list):
        raise must_be("enum", "an array", argument)
    if not argument:
        raise unparsable("$jsonSchema keyword 'enum' cannot be an empty array")

    def check(value: Any) -> Details:
        if any(equal(value, item) for item in argument):
            return []
        return violation("enum", argument, value, "value was not found in enum")

    return check


def unique_items(argument: Any) -> Check:
    """Return the check that no element of an array is there twice."""
    if not isinstance(argument, bool):
        raise CommandError(ErrorCode.TYPE_MISMATCH, "$jsonSchema keyword 'uniqueItems' must be a boolean")

    def check(value: Any) -> Details:
        if (
            not argument
            or not isinstance(value, list)
            # By hash, so that long arrays are not compared pair by pair.
            or len({identity(item) for item in paced(value)}) == len(value)
        ):
            return []
        return violation("uniqueItems", argument, value, "found a duplicate item")

    return check


def _is_within(value: Any, limit: Any, beyond: Callable[[Any, Any], bool], *, strictly: bool) -> bool:
    """Return whether a number is not beyond a limit. What is no number is within a limit that is none."""
    if is_nan(value) or is_nan(limit):
        return is_nan(value) and is_nan(limit) and not strictly
    number, bound = exact(value), exact(limit)
    return not beyond(number, bound) and not (strictly and number == bound)


def limit(name: str, opposite: Callable[[Any, Any], bool]) -> Callable[[Mapping[str, Any]], Check]:
    """Return the maker of a check of a number; `exclusiveMinimum` and its like make the limit one too far.

    Draft 4 has a number in `maximum` and a bool in `exclusiveMaximum`, which is nothing without the number
    (9).
    """
    exclusive = f"exclusive{name.capitalize()}"

    def make(schema: Mapping[str, Any]) -> Check:
        strictly = schema.get(exclusive, False)
        if not isinstance(strictly, bool):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH, f"$jsonSchema keyword '{exclusive}' must be a boolean"
            )
        if name not in schema:
            if exclusive in schema:
                raise unparsable(f"$jsonSchema keyword '{name}' must be a present if {exclusive} is present")
            return nothing
        limit = schema[name]
        if not is_number(limit):
            raise must_be(name, "a number", limit)

        def check(value: Any) -> Details:
            if not is_number(value) or _is_within(value, limit, opposite, strictly=strictly):
                return []
            details = violation(name, limit, value, "comparison failed")
            details[0]["specifiedAs"] |= {exclusive: True} if strictly else {}
            return details

        return check

    return make


def count(
    name: str, applies: Callable[[Any], bool], holds: Callable[[int, int], bool]
) -> Callable[[Any], Check]:
    """Return the maker of a check of how much a text, an array or a document holds."""

    def make(argument: Any) -> Check:
        # 2.0 is a whole number here, as it is to a server.
        limit = whole(argument)
        if limit is None or limit < 0:
            what = (
                "a number"
                if not is_number(argument)
                else "an integer"
                if limit is None
                else "a positive number"
            )
            raise unparsable(f"Expected {what} in: {name}: {show(argument)}")

        def check(value: Any) -> Details:
            # The length of a text is counted in characters, and not in bytes.
            if not applies(value) or holds(len(value), limit):
                return []
            return violation(name, argument, value, "comparison failed")

        return check

    return make


def matching_pattern(argument: Any) -> Check:
    """Return the check that a text matches a regular expression."""
    if type(argument) is not str:
        raise must_be("pattern", "a string", argument)
    regex = compile_regex(argument)

    def check(value: Any) -> Details:
        if type(value) is not str or regex.matches(value):
            return []
        return violation("pattern", argument, value, "regular expression did not match")

    return check


def _divides(divisor: Any, value: Any) -> bool:
    """Return whether a number is a multiple of another; what is infinite or no number is none.

    Of infinity zero alone is one: what is left of a division by it is the number itself.
    """
    if not is_finite(value) or is_nan(divisor):
        return False
    if not is_finite(divisor):
        return bool(exact(value) == 0)
    # In decimals and with all digits: 0.3 is a multiple of 0.1, but dividing the doubles leaves a
    # remainder.
    with decimal.localcontext(prec=_EXACT):
        return bool(to_decimal(value) % to_decimal(divisor) == 0)


def multiple_of(argument: Any) -> Check:
    """Return the check that a number is a multiple of another."""
    if not is_number(argument):
        raise must_be("multipleOf", "a number", argument)
    if not is_nan(argument) and exact(argument) <= 0:
        raise unparsable("$jsonSchema keyword 'multipleOf' must have a positive value")

    def check(value: Any) -> Details:
        if not is_number(value) or _divides(argument, value):
            return []
        return violation(
            "multipleOf", argument, value, "considered value is not a multiple of the specified value"
        )

    return check


def nothing(_value: Any) -> Details:
    """Check nothing."""
    return []


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
    # They say nothing about documents, and are repeated in the details of a violation.
    for keyword in ("title", "description"):
        if keyword in schema and type(schema[keyword]) is not str:
            raise must_be(keyword, "a string", schema[keyword])
    if "bsonType" in schema and "type" in schema:
        raise unparsable("Cannot specify both $jsonSchema keywords 'type' and 'bsonType'")
    # All makers run, as some keywords mean something only beside others; those without an argument check
    # nothing.
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
    """Compile an object of schemas by name. An error for one that is no object (14) has its name."""
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
    """Return the check that fields are there; a null one is."""
    _names("required", argument)

    def check(value: Any) -> Details:
        missing = [name for name in argument if name not in value] if is_object(value) else []
        if not missing:
            return []
        shown = {"specifiedAs": {"required": argument}, "missingProperties": missing}
        return [{"operatorName": "required", **shown}]

    return check


def _properties(argument: Mapping[str, Any]) -> Check:
    """Return the checks of named fields. A missing one fails nothing: that is for `required`."""
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
        pattern: (compile_regex(pattern, invalid=ErrorCode.BAD_VALUE), inner)
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
    """Return the check of fields that neither `properties` nor a pattern names.

    With `false` none may be there, `_id` included; with a schema they have to match it.
    """
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
    """Return the check of a keyword's schema, None for a bool, which has none."""
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
    """Return the check of elements by a schema for each place; `additionalItems` has the rest."""

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
    """Return the maker for `allOf`, `anyOf` or `oneOf`.

    `holds` gets how many branches a value satisfies, and how many there are.
    """

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
    """Return the check for `not`; what was satisfied has no details, so there are none to show."""
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
    _own("bsonType", typed("bsonType", bson_type)),
    _own("type", typed("type", json_type)),
)
"""Makers of checks, in the order in which a server parses keywords and reports their violations."""

"""The types of values inside arguments and fail points: what is accepted, in words and as JSON Schema.

Values are as a loaded scenario holds them, with Extended JSON decoded. In a file any of them may also be
written in Extended JSON, which is a mapping: schemas for editors allow one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bson.decimal128 import Decimal128

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.unified.schema.notation import Schema


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type: the noun for a message, the test of a decoded value, and the schema of a written one."""

    noun: str
    accepts: Callable[[Any], bool]
    schema: Schema


def _is_integer(value: Any) -> bool:
    return not isinstance(value, bool) and (
        isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    )


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float, Decimal128))


def _of(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


def list_of(inner: ValueType, noun: str) -> ValueType:
    """Return the type of a list whose elements have a type."""
    return ValueType(
        noun,
        lambda value: isinstance(value, list) and all(map(inner.accepts, value)),
        {"type": "array", "items": inner.schema},
    )


def one_of(*words: str, any_case: bool = False) -> ValueType:
    """Return the type of a string that is one of some words."""
    known = {word.lower() for word in words} if any_case else set(words)
    return ValueType(
        f"one of {', '.join(words)}",
        lambda value: isinstance(value, str) and (value.lower() if any_case else value) in known,
        {"type": "string"} if any_case else {"type": "string", "enum": list(words)},
    )


ANY: Final = ValueType("any value", lambda _: True, {})
BOOLEAN: Final = ValueType("true or false", _of(bool), {"type": "boolean"})
DOCUMENT: Final = ValueType("a document", _of(dict), {"type": "object"})
INTEGER: Final = ValueType("an integer", _is_integer, {"type": ["integer", "object"]})
NUMBER: Final = ValueType("a number", _is_number, {"type": ["number", "object"]})
NUMBER_OR_NULL: Final = ValueType(
    "a number or null",
    lambda value: value is None or _is_number(value),
    {"type": ["number", "object", "null"]},
)
STRING: Final = ValueType("a string", _of(str), {"type": ["string", "object"]})
WORD: Final = ValueType("a string", _of(str), {"type": "string"})
"""A string that no Extended JSON can stand for: a name."""

LIST: Final = ValueType("a list", _of(list), {"type": "array"})
DOCUMENTS: Final = list_of(DOCUMENT, "a list of documents")
WORDS: Final = list_of(WORD, "a list of strings")
DOCUMENT_OR_DOCUMENTS: Final = ValueType(
    "a document or a list of documents",
    lambda value: isinstance(value, dict) or DOCUMENTS.accepts(value),
    {"type": ["object", "array"]},
)
DOCUMENT_OR_STRING: Final = ValueType(
    "a document or a string", _of(dict, str), {"type": ["object", "string"]}
)
STRING_OR_INTEGER: Final = ValueType(
    "a string or an integer",
    lambda value: isinstance(value, str) or _is_integer(value),
    {"type": ["string", "integer"]},
)


def kind_of(value: Any) -> str:
    """Return the kind of a decoded value in a reader's words."""
    if value is None:
        return "null"
    for kind in (BOOLEAN, DOCUMENT, LIST, INTEGER, NUMBER, STRING):
        if kind.accepts(value):
            return kind.noun if kind is not BOOLEAN else "a boolean"
    return type(value).__name__

"""Comparison of an actual value with an expected one: a pure function, and a table of special operators.

Unified Test Format: Evaluating Matches. Theory of operation:

1. Expected and actual value are walked together. The answer is the first mismatch with its path in the
   actual value, or None. Nothing is asserted, changed or looked up besides entities, so that events, errors,
   results, spans and log messages are all compared by the same function, and lint can ask it too.
2. An expected document whose only key begins with `$$` is no document but a special operator. It is asked
   before anything else, also when the actual key is missing: `$$exists` and `$$unsetOrMatches` ask just that.
3. Documents are compared by keys, in any order. Whether the actual one may have more keys depends on where it
   stands: a root document may (a server's reply has fields that no test cares about), one inside it may not.
   The caller says what is a root; below it, `root` is False for good, but for `$$matchAsRoot`.
4. Arrays have the same length and order. What a cursor returned is an array of root documents (`match_each`);
   any other array is an ordinary value, and the documents in it are not roots.
5. Numbers compare by value whatever their type: a test file in JSON cannot tell an int from a long, and
   drivers decode into what their language has. All other values have one BSON type and compare within it.
6. Data that were stored (`outcome`) are compared by `match_exactly`: no operators, no extra keys, because the
   test wrote every byte of them itself.

A wrong use of an operator is the scenario's mistake, not the driver's: it raises `ScenarioError`.
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Protocol

from bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
    json_util,
)

from harness.unified.errors import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Entities", "hex_bytes", "match", "match_each", "match_exactly", "missing"]


class Entities(Protocol):
    """The part of an entity map that the operators need. Both raise `EntityError`."""

    def document(self, name: str) -> Any:
        """Return a saved result."""
        ...

    def session(self, name: str) -> Any:
        """Return a session, which has an `lsid`."""
        ...


@dataclass(frozen=True, slots=True)
class _Scope:
    """The place of an operator: the case's entities, and whether it stands for a root document."""

    entities: Entities
    root: bool


class _MissingValue:
    """The actual value of a key that is not there; null is a value."""

    def __repr__(self) -> str:
        return "<missing>"


missing: Final = _MissingValue()


def match(expected: Any, actual: Any, *, entities: Entities, root: bool = True) -> Mismatch | None:
    """Return where `actual` first differs from `expected`, or None.

    `root` allows the actual document to have more keys; documents inside it may not. An expected array of
    root documents is for `match_each`. Raises `ScenarioError` for an operator that is unknown or misused.
    """
    operator = _operator_of(expected)
    if operator == "$$placeholder":
        raise ScenarioError("$$placeholder stands where a value is compared", fix="only options may have it")
    if operator is not None and operator not in OPERATORS:
        raise ScenarioError(f"unknown special operator {operator}", fix=f"one of {', '.join(OPERATORS)}")
    if operator is not None:
        return OPERATORS[operator](expected[operator], actual, _Scope(entities, root))
    if isinstance(actual, _MissingValue):
        return Mismatch("", expected, actual, "is missing")
    if isinstance(expected, dict):
        return _match_document(expected, actual, entities, root=root)
    if isinstance(expected, list):
        return _match_array(expected, actual, entities, root=False)
    return _match_scalar(expected, actual)


def match_each(expected: Any, actual: Any, *, entities: Entities) -> Mismatch | None:
    """Return where the results of a cursor first differ: each document is a root document.

    So it stays inside the operators that do not influence what a root document is.
    """
    if isinstance(expected, list):
        return _match_array(expected, actual, entities, root=True)
    operator = _operator_of(expected)
    # These two pass on what a root document is; all other operators make a value of the array and of what is
    # in it.
    if operator == "$$unsetOrMatches" and actual is not None:
        return match_each(expected[operator], actual, entities=entities)
    if operator == "$$matchesEntity":
        return match_each(entities.document(expected[operator]), actual, entities=entities)
    return match(expected, actual, entities=entities)


def match_exactly(expected: Any, actual: Any) -> Mismatch | None:
    """Return where stored data differ: nothing extra, no operators; only the order of keys is free."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        # Keys of either side in one pass, expected ones first, so that the message is about the test's own
        # key where it can be.
        for key in {**expected, **actual}:
            if key not in expected or key not in actual:
                why = "is missing" if key in expected else "is not expected here"
                return Mismatch(key, expected.get(key, missing), actual.get(key, missing), why)
            found = match_exactly(expected[key], actual[key])
            if found is not None:
                return found.below(key)
        return None
    if isinstance(expected, list) and isinstance(actual, list):
        for index, (want, got) in enumerate(zip(expected, actual, strict=False)):
            found = match_exactly(want, got)
            if found is not None:
                return found.below(f"[{index}]")
        if len(expected) != len(actual):
            return Mismatch("", expected, actual, f"expected {len(expected)} elements, got {len(actual)}")
        return None
    return _match_scalar(expected, actual)


def _operator_of(expected: Any) -> str | None:
    """Return the special operator that an expected value is, None for an ordinary one.

    A document with a second key is an ordinary one, in which a key with two dollars is a key.
    """
    if not isinstance(expected, dict) or len(expected) != 1:
        return None
    (name,) = expected
    return name if isinstance(name, str) and name.startswith("$$") else None


def _match_document(
    expected: Mapping[str, Any], actual: Any, entities: Entities, *, root: bool
) -> Mismatch | None:
    """Compare documents by their keys, whatever their order.

    Keys that the test names come first, in its order; one that it does not name is told only where all of
    these match.
    """
    if not isinstance(actual, dict):
        return Mismatch("", expected, actual, f"expected a document, got {type_name(actual)}")
    for key, value in expected.items():
        found = match(value, actual.get(key, missing), entities=entities, root=False)
        if found is not None:
            return found.below(key)
    # Allowing Extra Fields in Root-level Documents. Looked at last, because a mistake in a key that the test
    # names says more than a key that it does not.
    extra = [key for key in actual if key not in expected]
    if extra and not root:
        return Mismatch(extra[0], missing, actual[extra[0]], "is not expected here")
    return None


def _match_array(expected: Sequence[Any], actual: Any, entities: Entities, *, root: bool) -> Mismatch | None:
    if not isinstance(actual, list):
        return Mismatch("", expected, actual, f"expected an array, got {type_name(actual)}")
    # Elements before the length: the first element that differs says more than "4 instead of 5".
    for index, (want, got) in enumerate(zip(expected, actual, strict=False)):
        found = match(want, got, entities=entities, root=root)
        if found is not None:
            return found.below(f"[{index}]")
    if len(expected) != len(actual):
        return Mismatch("", expected, actual, f"expected {len(expected)} elements, got {len(actual)}")
    return None


def _match_scalar(expected: Any, actual: Any) -> Mismatch | None:
    want, got = type_name(expected), type_name(actual)
    if want in _NUMBERS and got in _NUMBERS:  # Flexible Numeric Comparisons: decimal128 is not among them
        same = expected == actual or (_is_nan(expected) and _is_nan(actual))
    elif want != got:
        return Mismatch("", expected, actual, f"expected {expected!r} ({want}), got {actual!r} ({got})")
    elif isinstance(expected, Code) and isinstance(actual, Code):
        same = str(expected) == str(actual) and expected.scope == actual.scope
    elif isinstance(expected, (bytes, uuid.UUID)):
        same = _bytes(expected) == _bytes(actual)
    elif isinstance(expected, dt.datetime) and isinstance(actual, dt.datetime):
        same = _utc(expected) == _utc(actual)
    elif isinstance(expected, Decimal128) and isinstance(actual, Decimal128):
        same = bool(expected.bid == actual.bid)  # 1.0 and 1.00 are two values to a server, and to a test
    else:
        same = bool(expected == actual)
    return None if same else Mismatch("", expected, actual, f"expected {expected!r}, got {actual!r}")


def _bytes(value: Any) -> tuple[int, bytes]:
    """Return a binary value as its subtype and its bytes.

    Subtypes count: two binaries of equal bytes and other subtypes are two values to a server.
    """
    if isinstance(value, uuid.UUID):
        return 4, value.bytes  # a client that decodes UUIDs gives the type, not the binary of subtype 4
    return getattr(value, "subtype", 0), bytes(value)


def _utc(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)


def _is_nan(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value.is_nan()
    return isinstance(value, float) and value != value  # noqa: PLR0124  # the definition of NaN


_NUMBERS: Final = frozenset({"int", "long", "double"})
_INT32: Final = range(-(2**31), 2**31)

# Code stands before str, whose subclass it is. An int has no row: `type_name` goes by its size, as a server
# does, unless it is an Int64.
_TYPES: Final[Sequence[tuple[type | tuple[type, ...], str]]] = (
    (Int64, "long"),
    (bool, "bool"),
    (float, "double"),
    (dict, "object"),
    (list, "array"),
    (Code, "javascript"),
    (str, "string"),
    (type(None), "null"),
    ((dt.datetime, DatetimeMS), "date"),
    ((Binary, bytes, uuid.UUID), "binData"),
    (ObjectId, "objectId"),
    ((Regex, re.Pattern), "regex"),
    (Timestamp, "timestamp"),
    (Decimal128, "decimal"),
    (DBRef, "dbPointer"),
    (MinKey, "minKey"),
    (MaxKey, "maxKey"),
)


def type_name(value: Any) -> str:
    """Return the name of a value's BSON type, as the query operator `$type` spells it."""
    if isinstance(value, _MissingValue):
        return "missing"
    if isinstance(value, Code) and value.scope is not None:
        return "javascriptWithScope"
    if isinstance(value, int) and not isinstance(value, (bool, Int64)):
        return "int" if value in _INT32 else "long"
    return next((name for kinds, name in _TYPES if isinstance(value, kinds)), type(value).__name__)


_KNOWN_TYPES: Final = frozenset(
    {name for _, name in _TYPES} | {"int", "undefined", "symbol", "javascriptWithScope"}
)
_ALIASES: Final[Mapping[str, frozenset[str]]] = {"number": frozenset({"int", "long", "double", "decimal"})}


def _exists(argument: Any, actual: Any, _scope: _Scope) -> Mismatch | None:
    if not isinstance(argument, bool):
        raise ScenarioError(f"$$exists takes true or false, not {argument!r}")
    there = not isinstance(actual, _MissingValue)
    if there == argument:
        return None
    why = "is there, but must not be" if there else "is missing"
    return Mismatch("", {"$$exists": argument}, actual, why)


def _type(argument: Any, actual: Any, _scope: _Scope) -> Mismatch | None:
    names = argument if isinstance(argument, list) else [argument]
    allowed: set[str] = set()
    for name in names:
        if name not in _KNOWN_TYPES and name not in _ALIASES:
            raise ScenarioError(
                f"$$type does not know {name!r}", fix="use the names of the query operator $type"
            )
        # An alias stands for its types, any other name for itself.
        allowed |= _ALIASES.get(name, frozenset({name}))
    got = type_name(actual)
    if got in allowed:
        return None
    why = "is missing" if got == "missing" else f"expected type {' or '.join(names)}, got {got}"
    return Mismatch("", {"$$type": argument}, actual, why)


def _matches_entity(argument: Any, actual: Any, scope: _Scope) -> Mismatch | None:
    return match(scope.entities.document(argument), actual, entities=scope.entities, root=scope.root)


def _matches_hex_bytes(argument: Any, actual: Any, _scope: _Scope) -> Mismatch | None:
    wanted = hex_bytes(argument, "$$matchesHexBytes")
    if not isinstance(actual, (bytes, bytearray)):
        return Mismatch(
            "", {"$$matchesHexBytes": argument}, actual, f"expected bytes, got {type_name(actual)}"
        )
    if bytes(actual) == wanted:
        return None
    return Mismatch(
        "", {"$$matchesHexBytes": argument}, actual, f"expected bytes {argument}, got {actual.hex()}"
    )


def hex_bytes(text: Any, operator: str) -> bytes:
    """Return the bytes that an operator spells in hexadecimal. Raises `ScenarioError`."""
    if not isinstance(text, str) or not re.fullmatch(r"([0-9a-fA-F]{2})*", text):
        raise ScenarioError(f"{operator} needs an even number of hexadecimal digits, not {text!r}")
    return bytes.fromhex(text)


def _unset_or_matches(argument: Any, actual: Any, scope: _Scope) -> Mismatch | None:
    # Inside a document null is a value like any other. As a whole result it is what adapters return for
    # nothing, and drivers may return nothing for a write.
    if isinstance(actual, _MissingValue) or (scope.root and actual is None):
        return None
    return match(argument, actual, entities=scope.entities, root=scope.root)


def _session_lsid(argument: Any, actual: Any, scope: _Scope) -> Mismatch | None:
    lsid = dict(scope.entities.session(argument).lsid)
    return match(lsid, actual, entities=scope.entities, root=scope.root)


def _lte(argument: Any, actual: Any, _scope: _Scope) -> Mismatch | None:
    limit = _number(argument)
    if limit is None:
        raise ScenarioError(f"$$lte needs a number, not {argument!r}")
    value = _number(actual)
    if value is None:
        return Mismatch("", {"$$lte": argument}, actual, f"expected a number, got {type_name(actual)}")
    # Decimals are compared as Python's decimals, which order exactly against ints and floats; NaN is none of
    # them, and Python refuses to order the NaN of a decimal.
    if not (_is_nan(value) or _is_nan(limit)) and value <= limit:
        return None
    return Mismatch("", {"$$lte": argument}, actual, f"expected at most {argument!r}, got {actual!r}")


def _number(value: Any) -> Decimal | float | None:
    if isinstance(value, Decimal128):
        return value.to_decimal()
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _match_as_document(argument: Any, actual: Any, scope: _Scope) -> Mismatch | None:
    if not isinstance(actual, str):
        return Mismatch("", argument, actual, f"expected Extended JSON text, got {type_name(actual)}")
    try:
        document = json_util.loads(actual)
    except (ValueError, TypeError) as error:
        return Mismatch("", argument, actual, f"is not Extended JSON: {error}")
    if not isinstance(document, dict):
        return Mismatch(
            "", argument, actual, f"is the Extended JSON of {type_name(document)}, not of a document"
        )
    # Text of Extended JSON is data like a document within another; `$$matchAsRoot` inside allows more keys.
    return match(argument, document, entities=scope.entities, root=False)


def _match_as_root(argument: Any, actual: Any, scope: _Scope) -> Mismatch | None:
    return match(argument, actual, entities=scope.entities, root=True)


OPERATORS: Final[Mapping[str, Callable[[Any, Any, _Scope], Mismatch | None]]] = {
    "$$exists": _exists,
    "$$type": _type,
    "$$matchesEntity": _matches_entity,
    "$$matchesHexBytes": _matches_hex_bytes,
    "$$unsetOrMatches": _unset_or_matches,
    "$$sessionLsid": _session_lsid,
    "$$lte": _lte,
    "$$matchAsDocument": _match_as_document,
    "$$matchAsRoot": _match_as_root,
}


# A mismatch: the place where an actual value is not the expected one.


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first place where an actual value is not what was expected.

    `path` is the way to it in the actual value (`updates[0].q`), empty at the root; `why` a sentence.
    """

    path: str
    expected: Any
    actual: Any
    why: str

    def below(self, prefix: str) -> Mismatch:
        """Return the same mismatch, seen from a value that holds this one at `prefix`."""
        # An index joins without a dot: `updates[0].q`.
        glue = "." if self.path and not self.path.startswith("[") else ""
        return Mismatch(f"{prefix}{glue}{self.path}", self.expected, self.actual, self.why)

    def __str__(self) -> str:
        return f"{self.path}: {self.why}" if self.path else self.why

"""Refusals of fields in the words of releases that parsed some commands by hand (until 4.4, some until 4.2).

Later ones have every command's parser from its declaration, and `fakeserver.idl.fields` has those words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fakeserver.errors import CommandError
from fakeserver.idl.fields import NUMBERS, UNKNOWN, FieldError, type_name
from fakeserver.profile import WIRE_42, WIRE_44
from fakeserver.storage.values.printing import show, show_document
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fakeserver.idl.fields import Words

_UNKNOWN_TO_FIND_AND_MODIFY: Final = 51177
_AGGREGATE_TYPES: Final[Mapping[str, str]] = {
    "allowDiskUse": "a boolean",
    "collation": "an object",
    "comment": "a string",
    "explain": "a boolean",
}
_INDEX_FIELD: Final = 2
"""The parts of the path of a field within collMod's `index`, after the command's name."""


def _find(error: FieldError, command: Mapping[str, Any]) -> CommandError:
    *_, name = error.names
    if name == "hint" and error.value is not UNKNOWN:
        return _failed_to_parse("hint must be either a string or nested object")
    if error.value is UNKNOWN:
        return _failed_to_parse(f"Failed to parse: {show_document(command)}. Unrecognized field '{name}'.")
    if set(NUMBERS) <= set(error.expected) and "bool" not in error.expected:
        return _failed_to_parse(f"Failed to parse: {show_document(command)}. '{name}' field must be numeric.")
    return _failed_to_parse(
        f"Failed to parse: {name}: {show(error.value)}. '{name}' field must be of BSON type "
        f"{error.expected[0]}."
    )


def _get_more(error: FieldError, command: Mapping[str, Any]) -> CommandError:
    if error.value is not UNKNOWN:
        return error
    return _failed_to_parse(
        f"Failed to parse: {show_document(command)}. Unrecognized field '{error.names[-1]}'."
    )


def _aggregate(error: FieldError, _command: Mapping[str, Any]) -> CommandError:
    *above, name = error.names
    if above:
        return error
    if error.value is UNKNOWN:
        return _failed_to_parse(f"unrecognized field '{name}'")
    if name == "hint":
        return _failed_to_parse(
            "hint must be specified as a string representing an index name, or an object representing an "
            "index's key pattern"
        )
    if name not in _AGGREGATE_TYPES:
        return error
    return CommandError(
        ErrorCode.TYPE_MISMATCH,
        f"{name} must be {_AGGREGATE_TYPES[name]}, not a {type_name(error.value)}",
    )


def _find_and_modify(error: FieldError, _command: Mapping[str, Any]) -> CommandError:
    if error.value is not UNKNOWN:
        return error
    return CommandError(_UNKNOWN_TO_FIND_AND_MODIFY, f"BSON field '{error.names[-1]}' is an unknown field.")


def _create_indexes(error: FieldError, _command: Mapping[str, Any]) -> CommandError:
    if error.value is not UNKNOWN:
        return error
    return CommandError(
        ErrorCode.BAD_VALUE, f"Invalid field specified for createIndexes command: {error.names[-1]}"
    )


def _coll_mod(error: FieldError, _command: Mapping[str, Any]) -> CommandError:
    if error.value is not UNKNOWN:
        return error
    name = error.names[-1]
    if len(error.names) == _INDEX_FIELD:
        return CommandError(ErrorCode.INVALID_OPTIONS, f"Unrecognized field '{name}' in 'index' option")
    return CommandError(ErrorCode.INVALID_OPTIONS, f"unknown option to collMod: {name}")


def _create(error: FieldError, command: Mapping[str, Any]) -> CommandError:
    if error.value is not UNKNOWN:
        return error
    options = dict(list(command.items())[1:])
    return CommandError(
        ErrorCode.INVALID_OPTIONS,
        f"The field '{error.names[-1]}' is not a valid collection option. Options: {show_document(options)}",
    )


def _failed_to_parse(message: str) -> CommandError:
    return CommandError(ErrorCode.FAILED_TO_PARSE, message)


_BY_HAND: Final[Mapping[str, tuple[int, Words]]] = {
    "find": (WIRE_44, _find),
    "getMore": (WIRE_44, _get_more),
    "aggregate": (WIRE_44, _aggregate),
    "findAndModify": (WIRE_44, _find_and_modify),
    "createIndexes": (WIRE_44, _create_indexes),
    "collMod": (WIRE_44, _coll_mod),
    "create": (WIRE_42, _create),
}
"""The last release that parsed a command by hand, and its words."""


def words_of(name: str, wire_version: int) -> Words | None:
    """Return how a release refuses the fields of a command, None for the words of all others."""
    until, words = _BY_HAND.get(name, (0, None))
    return words if wire_version <= until else None

"""Names of fields that servers before 5.0 do not store: those that begin with a dollar sign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from fakeserver.errors import WriteError
from fakeserver.storage.values.types import MISSING, order, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def check_insert(document: Mapping[str, Any]) -> None:
    """Refuse to insert a document with such a name; values may hold any. Raises `WriteError`."""
    for name in document:
        if name.startswith("$"):
            raise WriteError(ErrorCode.BAD_VALUE, f"Document can't have $ prefixed field names: {name}")


def check_update(after: Any, before: Any, path: str = "") -> None:
    """Refuse what an update puts into a document; what it leaves alone is not looked at. Raises `WriteError`.

    The fields of a DBRef may have such names: `$ref`, `$id` and perhaps `$db`, in this order.
    """
    if isinstance(after, list):
        for index, value in enumerate(after):
            known = isinstance(before, list) and index < len(before)
            _check_value(value, before[index] if known else MISSING, f"{path}.{index}")
        return
    names = list(after)
    for index, name in enumerate(names):
        full = f"{path}.{name}" if path else name
        known = isinstance(before, dict) and name in before
        earlier = before[name] if known else MISSING
        if name.startswith("$") and not (known and _same(after[name], earlier)):
            _check_name(after, names, index, full)
        _check_value(after[name], earlier, full)


def _check_value(after: Any, before: Any, path: str) -> None:
    if isinstance(after, dict | list) and not _same(after, before):
        check_update(after, before, path)


def _same(after: Any, before: Any) -> bool:
    return before is not MISSING and order(after) == order(before)


def _check_name(document: Mapping[str, Any], names: Sequence[str], index: int, path: str) -> None:
    """Refuse a name with a dollar sign, unless it has its place in a DBRef."""
    name, left = names[index], names[index - 1] if index else ""
    right = names[index + 1] if index + 1 < len(names) else ""
    if name == "$db":
        _check_text(document, name)
        if left != "$id":
            _refuse_reference("Found $db field without a $id before it, which is invalid.")
    elif name == "$id":
        if left != "$ref":
            _refuse_reference("Found $id field without a $ref before it, which is invalid.")
    elif name == "$ref":
        _check_text(document, name)
        if right != "$id":
            _refuse_reference("The DBRef $ref field must be following by a $id field")
    else:
        raise WriteError(
            ErrorCode.DOLLAR_PREFIXED_FIELD_NAME,
            f"The dollar ($) prefixed field '{name}' in '{path}' is not valid for storage.",
        )


def _check_text(document: Mapping[str, Any], name: str) -> None:
    if type(document[name]) is not str:
        _refuse_reference(f"The DBRef {name} field must be a String, not a {type_name(document[name])}")


def _refuse_reference(message: str) -> NoReturn:
    raise WriteError(ErrorCode.INVALID_DB_REF, message)

"""Dotted paths into documents: reading as queries do (through arrays), and writing as updates do.

Numbers in a path index arrays. A document that changes is the caller's own: what writes and removes works in
place.

The same path `a.b` means different things to different readers, as on a server; take the one that fits:

* `read`: a filter. `{a: [{b: 1}, {b: 2}]}` yields 1 and 2, and `a.0.b` yields 1. One match is enough.
* `gather`: an expression. `$a.b` is the array `[1, 2]`; numbers are names, and index nothing.
* `nested`: a stage or a sort of elements. An array on the way ends the path.
* `exactly`: an update. Numbers index arrays, and names stop at them.

`rows.rows` is a fifth one, for keys: it reads several paths in step. All but the writers treat a `DBRef`,
which the library makes of `{$ref, $id}`, as the document that it was.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from bson import DBRef

from fakeserver.errors import CommandError, WriteError
from fakeserver.storage.values.printing import show_field
from fakeserver.storage.values.types import MISSING, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    Document: TypeAlias = dict[str, Any]


@lru_cache(maxsize=4096)
def split(path: str) -> tuple[str, ...]:
    """Return the parts of a dotted path."""
    return tuple(path.split("."))


_DBREF_FIELDS: Final = frozenset({"$id", "$ref", "$db"})
_MAX_DEPTH: Final = 200
_TOO_DEEP: Final = 5984700


@lru_cache(maxsize=4096)
def field_path(path: str) -> tuple[str, ...]:
    """Return the parts of a path of fields. Raises `CommandError` for one that is none."""
    if not path:
        raise CommandError(40352, "FieldPath cannot be constructed with empty string")
    if path.endswith("."):
        raise CommandError(40353, "FieldPath must not end with a '.'.")
    parts = split(path)
    # `BSONDepth::getMaxAllowableDepth`: no stored document is nested deeper.
    if len(parts) > _MAX_DEPTH:
        raise CommandError(_TOO_DEEP, "FieldPath is too long")
    for part in parts:
        if not part:
            raise CommandError(15998, "FieldPath field names may not be empty strings.")
        # The fields of a reference are the only names with a dollar sign that older servers stored.
        if part.startswith("$") and part not in _DBREF_FIELDS:
            raise CommandError(
                16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField."
            )
        if "\0" in part:
            raise CommandError(16411, "FieldPath field names may not contain '\\0'.")
    return parts


def field_name(name: str) -> str:
    """Return the name of one field. Raises `CommandError` for one that is none, 16412 for a path."""
    if not name:
        raise CommandError(15998, "FieldPath field names may not be empty strings.")
    if "." in name:
        raise CommandError(16412, f"FieldPath field names may not contain '.'. Field: {name}")
    field_path(name)
    return name


@lru_cache(maxsize=4096)
def stage_path(path: str) -> tuple[str, ...]:
    """Return the parts of a path that a stage is told. Raises `CommandError` for one that is none.

    Differs from `field_path` in the error for too many parts alone: 15 (Overflow) instead of 5984700.
    """
    try:
        return field_path(path)
    except CommandError as error:
        if error.code == _TOO_DEEP:
            raise CommandError(ErrorCode.OVERFLOW, error.message) from None
        raise


def set_nested(document: Document, parts: tuple[str, ...], value: Any) -> None:
    """Set a field of a new document; what is on the way is copied, and replaced where it is no document."""
    for part in parts[:-1]:
        child = document.get(part)
        document[part] = dict(child) if type(child) is dict else {}
        document = document[part]
    document[parts[-1]] = value


def prefixes(path: str) -> list[str]:
    """Return a dotted path, and the paths that lead to it: `a`, `a.b` and `a.b.c` for `a.b.c`."""
    parts = split(path)
    return [".".join(parts[: number + 1]) for number in range(len(parts))]


@lru_cache(maxsize=4096)
def array_index(part: str) -> int | None:
    """Return the index that a part of a path is in an array, None for a name: `01` and `²` are names."""
    if not (part.isascii() and part.isdigit()) or (part[0] == "0" and part != "0"):
        return None
    return int(part)


def read(value: Any, parts: tuple[str, ...]) -> Iterator[Any]:
    """Yield what a query sees at a path: each array on the way is entered, by index and element by element.

    A document that lacks the field yields `MISSING`; an array without documents yields nothing.
    """
    if not parts:
        yield value
        return
    if isinstance(value, DBRef):
        value = value.as_doc()
    if isinstance(value, dict):
        if parts[0] in value:
            yield from read(value[parts[0]], parts[1:])
        else:
            yield MISSING
    elif isinstance(value, list):
        yield from _read_array(value, parts)
    else:
        yield MISSING


def _read_array(array: list[Any], parts: tuple[str, ...]) -> Iterator[Any]:
    index = array_index(parts[0])
    # Both readings of a number count: the element at the position, and a field of that name in each element.
    if index is not None and index < len(array):
        yield from read(array[index], parts[1:])
    for item in array:
        if isinstance(item, dict | DBRef):
            yield from read(item, parts)


def gather(value: Any, parts: tuple[str, ...]) -> Any:
    """Return what an expression sees at a path: arrays on the way are entered, those within them not."""
    for index, part in enumerate(parts):
        if isinstance(value, DBRef):
            value = value.as_doc()
        if isinstance(value, dict):
            value = value.get(part, MISSING)
        elif isinstance(value, list):
            # Elements that are arrays themselves are passed over: `$a.b` sees nothing of `{a: [[{b: 1}]]}`.
            found = [gather(item, parts[index:]) for item in value if isinstance(item, dict | DBRef)]
            return [item for item in found if item is not MISSING]
        else:
            return MISSING
    return value


def nested(value: Any, parts: tuple[str, ...]) -> Any:
    """Return what stands at a path through documents alone: an array on the way ends it."""
    for part in parts:
        if isinstance(value, DBRef):
            value = value.as_doc()
        if not isinstance(value, dict):
            return MISSING
        value = value.get(part, MISSING)
    return value


def exactly(value: Any, parts: tuple[str, ...]) -> Any:
    """Return what stands at a path where numbers index arrays and nothing is entered otherwise."""
    for part in parts:
        if isinstance(value, DBRef):
            value = value.as_doc()
        if isinstance(value, dict):
            value = value.get(part, MISSING)
        elif isinstance(value, list):
            index = array_index(part)
            value = value[index] if index is not None and index < len(value) else MISSING
        else:
            return MISSING
    return value


def assign(document: dict[str, Any], parts: tuple[str, ...], value: Any) -> None:
    """Set a field of nested documents, replacing what is not a document on the way."""
    for part in parts[:-1]:
        child = document.get(part)
        if not isinstance(child, dict):
            child = document[part] = {}
        document = child
    document[parts[-1]] = value


def remove(value: Any, parts: tuple[str, ...]) -> None:
    """Delete a field of nested documents, in each element of an array on the way."""
    if isinstance(value, list):
        for item in value:
            remove(item, parts)
    elif isinstance(value, dict):
        if len(parts) == 1:
            value.pop(parts[0], None)
        elif parts[0] in value:
            remove(value[parts[0]], parts[1:])


_MAX_ARRAY_PADDING: Final = 1_500_000
"""The nulls that a write may put before a new element (`kMaxPaddingAllowed` in a server's source)."""


def refuse_dead_end(document: Document, parts: tuple[str, ...]) -> None:
    """Refuse a path that leads on from a value which holds nothing. Raises `WriteError` 28."""
    container: Any = document
    for index, part in enumerate(parts):
        if isinstance(container, dict) or (isinstance(container, list) and array_index(part) is not None):
            container = exactly(container, (part,))
        else:
            raise WriteError(
                ErrorCode.PATH_NOT_VIABLE,
                f"Cannot use the part ({part}) of ({'.'.join(parts)}) to traverse the element "
                f"({show_field(parts[index - 1], container)})",
            )
        if container is MISSING:
            return


def refuse_array_on(document: Document, parts: tuple[str, ...], which: str) -> None:
    """Refuse a path of `$rename` (`which`: source or destination) that leads through an array."""
    for length in range(1, len(parts)):
        if isinstance(exactly(document, parts[:length]), list):
            shown = show_field("_id", document["_id"])[1:-1] if "_id" in document else "no id"
            raise WriteError(
                ErrorCode.BAD_VALUE,
                f"The {which} field cannot be an array element, '{'.'.join(parts)}' in doc with {shown} has "
                f"an array field called '{parts[length - 1]}'",
            )


def write_new(document: Document, parts: tuple[str, ...], value: Any, *, inserting: bool) -> None:
    """Write a field; at the top of a document that is there, its name may not begin with a dollar sign."""
    # A field that was there under such a name may be changed within: only who makes it is refused. An upsert
    # may make any (`inserting`), as an insert may.
    topmost = len(parts) == 1 or parts[0] not in document
    write(document, parts, value)
    if topmost and not inserting:
        refuse_dollar(parts[0], document)


def refuse_dollar(name: str, document: Document) -> None:
    """Refuse a field of the topmost level for its name; a DBRef's are allowed in their order.

    The document has the field already. Raises `WriteError` 52 for a name, 55 for a broken reference.
    """
    if not name.startswith("$"):
        return
    names = list(document)
    before = names[names.index(name) - 1] if names.index(name) else ""
    if name == "$db" and type(document[name]) is not str:
        raise _bad_reference(f"The DBRef $db field must be a String, not a {type_name(document[name])}")
    if name == "$db" and before != "$id":
        raise _bad_reference("Found $db field without a $id before it, which is invalid.")
    if name == "$id" and before != "$ref":
        raise _bad_reference("Found $id field without a $ref before it, which is invalid.")
    if name == "$ref" and type(document[name]) is not str:
        raise _bad_reference(f"The DBRef $ref field must be a String, not a {type_name(document[name])}")
    if name == "$ref" and names[names.index(name) + 1 :][:1] != ["$id"]:
        raise _bad_reference("The DBRef $ref field must be followed by a $id field")
    if name not in {"$ref", "$id", "$db"}:
        raise WriteError(
            ErrorCode.DOLLAR_PREFIXED_FIELD_NAME,
            f"The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an "
            "update's replacement document. Consider using an aggregation pipeline with $replaceWith.",
        )


def _bad_reference(message: str) -> WriteError:
    return WriteError(ErrorCode.INVALID_DB_REF, message)


def write(document: Document, parts: tuple[str, ...], value: Any) -> None:
    """Set a field, making the documents that lead to it and padding arrays. Raises `WriteError` 28."""
    container: Any = document
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if isinstance(container, dict):
            if last:
                container[part] = value
            else:
                container = container.setdefault(part, {})
        elif isinstance(container, list) and (position := array_index(part)) is not None:
            if position - len(container) > _MAX_ARRAY_PADDING:
                raise WriteError(
                    ErrorCode.CANNOT_BACKFILL_ARRAY,
                    f"can't backfill more than {_MAX_ARRAY_PADDING} elements",
                )
            made = position >= len(container)
            container.extend([None] * (position + 1 - len(container)))
            if last:
                container[position] = value
            else:
                # An element that is made here becomes a document. A null that was there cannot hold a field.
                if made:
                    container[position] = {}
                container = container[position]
        else:
            holder = parts[index - 1]
            raise WriteError(
                ErrorCode.PATH_NOT_VIABLE,
                f"Cannot create field '{part}' in element {show_field(holder, container)}",
            )


def erase(document: Document, parts: tuple[str, ...]) -> None:
    """Remove a field; an element of an array becomes null.

    So the others keep their positions, as `$unset` leaves them on a server.
    """
    container = exactly(document, parts[:-1])
    if isinstance(container, dict):
        container.pop(parts[-1], None)
    elif isinstance(container, list):
        index = array_index(parts[-1])
        if index is not None and index < len(container):
            container[index] = None

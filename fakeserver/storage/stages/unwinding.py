"""`$unwind`: a document for each element of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from bson import Int64

from fakeserver.errors import CommandError
from fakeserver.storage.stages.flow import Flowing
from fakeserver.storage.stages.projecting import set_computed
from fakeserver.storage.values.paths import exactly, remove, split
from fakeserver.storage.values.types import MISSING, copy_value, type_name
from fakeserver.waiting.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fakeserver.storage.port.scope import Scope

    Document: TypeAlias = dict[str, Any]


def compile_unwind(argument: Any, _scope: Scope) -> Flowing:
    """Return an `$unwind` stage. Raises `CommandError` for a malformed one."""
    options = argument if isinstance(argument, dict) else {"path": argument}
    path = options.get("path")
    if not isinstance(path, str):
        raise CommandError(28808, f"expected a string as the path for $unwind stage, got {type_name(path)}")
    if not path.startswith("$"):
        raise CommandError(28818, f"path option to $unwind stage should be prefixed with a '$': {path}")
    parts, keep = split(path[1:]), bool(options.get("preserveNullAndEmptyArrays", False))
    index_name = options.get("includeArrayIndex")
    if index_name is not None and (type(index_name) is not str or not index_name):
        raise CommandError(
            28810,
            "expected a non-empty string for the includeArrayIndex option to $unwind stage, got"
            f" {type_name(index_name)}",
        )

    def unwound(document: Document) -> Iterator[Document]:
        value = exactly(document, parts)
        if isinstance(value, list) and value:
            rest = _without_array(document, parts)
            for index, item in enumerate(interruptible(value)):
                yield _with(rest, item, index)
        elif not isinstance(value, list) and value is not MISSING and value is not None:
            yield _with(document, value, None)
        elif keep:
            yield _with(document, MISSING if value == [] else value, None)

    def _with(document: Document, item: Any, index: int | None) -> Document:
        changed = copy_value(document)
        if item is MISSING:
            remove(changed, parts)
        set_computed(changed, parts, item)
        if index_name is not None:
            set_computed(changed, split(index_name), None if index is None else Int64(index))
        return dict(changed)

    return Flowing(lambda documents: (each for document in documents for each in unwound(document)))


def _without_array(document: Document, parts: tuple[str, ...]) -> Document:
    """Return a document with null for the array at a path, which is not to be copied for each element."""
    if len(parts) > 1:
        return document
    return {**document, parts[0]: None}

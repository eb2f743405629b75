"""The differences that an update made: fields and elements set, removed and truncated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import bson

from fakeserver.storage.values.types import MISSING, identical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fakeserver.storage.port.engine import Changed, Document

Path: TypeAlias = "tuple[str | int, ...]"
"""The names of fields, and the indexes of elements as numbers."""

_ENTRY_BYTES: Final = 15
"""The bytes of an entry about a difference, beside the difference."""


@dataclass(slots=True)
class Delta:
    """The differences between two states of a document, each under the path where it begins."""

    updated: list[tuple[Path, Any]] = field(default_factory=list)
    removed: list[Path] = field(default_factory=list)
    truncated: list[tuple[Path, int]] = field(default_factory=list)

    def describe(self, *, expanded: bool) -> Document:
        """Return the `updateDescription` of an event; expanded ones resolve ambiguous paths."""
        description: Document = {
            "updatedFields": {_joined(path): value for path, value in self.updated},
            "removedFields": [_joined(path) for path in self.removed],
            "truncatedArrays": [{"field": _joined(path), "newSize": size} for path, size in self.truncated],
        }
        if expanded:
            paths = (
                *(path for path, _ in self.updated),
                *self.removed,
                *(path for path, _ in self.truncated),
            )
            description["disambiguatedPaths"] = {
                _joined(path): list(path)
                for path in paths
                if any(isinstance(part, str) and (part.isdigit() or "." in part) for part in path)
            }
        return description

    def size(self) -> int:
        """Return about how many bytes the differences take."""
        changed = {_joined(path): value for path, value in self.updated}
        gone = {_joined(path): 0 for path in self.removed}
        cut = {_joined(path): size for path, size in self.truncated}
        return len(bson.encode({"u": changed, "d": gone, "l": cut}))


def _joined(path: Path) -> str:
    return ".".join(map(str, path))


def delta_of(change: Changed) -> Delta | None:
    """Return what an update changed, None if only the whole new document shows it.

    Operators record the paths where they worked; of a pipeline the states are compared, and a difference
    that is larger than the document is left out.
    """
    before, after = change.before, change.after
    assert before is not None and after is not None, "an update has both states"  # noqa: PT018 -- one fact
    if change.replacement:
        return None
    if change.touched is not None:
        return _of_operators(change.touched, before, after)
    delta = Delta()
    _compare_documents(before, after, (), delta)
    return delta if delta.size() + _ENTRY_BYTES <= len(bson.encode(after)) else None


def _of_operators(touched: Sequence[tuple[str, tuple[str, ...]]], before: Document, after: Document) -> Delta:
    delta = Delta()
    seen: set[Path] = set()
    for operator, parts in touched:
        path, old, new = _first_difference(parts, before, after)
        if path in seen or (old is MISSING and new is MISSING):
            continue
        seen.add(path)
        if new is MISSING:
            delta.removed.append(path)
        elif operator == "$push" and _was_extended(old, new):
            delta.updated += [((*path, index), new[index]) for index in range(len(old), len(new))]
        elif old is MISSING or not _same(old, new):
            delta.updated.append((path, new))
    return delta


def _first_difference(parts: tuple[str, ...], before: Any, after: Any) -> tuple[Path, Any, Any]:
    """Return the shortest part of a path at which something is new or gone, else the whole path."""
    path: Path = ()
    for part in parts:
        name: str | int = int(part) if isinstance(after, list) and part.isdigit() else part
        path = (*path, name)
        before, after = _child(before, name), _child(after, name)
        if before is MISSING or after is MISSING:
            break
    return path, before, after


def _child(value: Any, name: str | int) -> Any:
    if isinstance(value, dict) and isinstance(name, str):
        return value.get(name, MISSING)
    if isinstance(value, list) and isinstance(name, int) and name < len(value):
        return value[name]
    return MISSING


def _same(one: Any, other: Any) -> bool:
    return identical({"": one}, {"": other})


def _was_extended(old: Any, new: Any) -> bool:
    if not isinstance(old, list) or not isinstance(new, list) or len(new) <= len(old):
        return False
    return all(_same(one, other) for one, other in zip(old, new, strict=False))


def _compare_documents(before: Document, after: Document, path: Path, delta: Delta) -> None:
    delta.removed += [(*path, name) for name in before if name not in after]
    for name, value in after.items():
        _compare(before.get(name, MISSING), value, (*path, name), delta)


def _compare(old: Any, new: Any, path: Path, delta: Delta) -> None:
    if old is not MISSING and _same(old, new):
        return
    inner = Delta()
    if isinstance(old, dict) and isinstance(new, dict):
        _compare_documents(old, new, path, inner)
    elif isinstance(old, list) and isinstance(new, list):
        for index, value in enumerate(new):
            _compare(old[index] if index < len(old) else MISSING, value, (*path, index), inner)
        if len(new) < len(old):
            inner.truncated.append((path, len(new)))
    # A difference that takes more bytes than the new value is replaced by that.
    cost = sum(len(bson.encode({"v": each})) for _path, each in inner.updated)
    changed = inner.updated or inner.removed or inner.truncated
    if not changed or cost > len(bson.encode({"v": new})):
        delta.updated.append((path, new))
        return
    delta.updated += inner.updated
    delta.removed += inner.removed
    delta.truncated += inner.truncated

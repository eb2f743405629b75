"""Projections, of `find` and of `$project`: the fields of a document that are shown or computed.

A projected document is new at each level that differs from the one it was made of and shares the rest: no
function here changes its arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.errors import CommandError
from fakeserver.storage.filters.positional import matched_index
from fakeserver.storage.stages.projection_parsing import parse_projection
from fakeserver.storage.values.types import MISSING, as_mapping, is_object

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from fakeserver.storage.port.scope import Scope
    from fakeserver.storage.stages.projection_parsing import Bounds, Projection

    Document: TypeAlias = dict[str, Any]
    Project: TypeAlias = Callable[[Document], Document]

_POSITIONAL_NO_MATCH: Final = 51246


def compile_projection(
    spec: Mapping[str, Any], scope: Scope, *, query: Mapping[str, Any] | None = None
) -> Project:
    """Return a projection as a function that makes a new document. Raises `CommandError` for a bad one.

    `query` is the filter of a find, whose positional projection `a.$` names the element that it matched.
    """
    projection = parse_projection(spec, scope, query)
    tree = projection.tree()

    def project(document: Document) -> Document:
        seen = include(document, tree) if projection.including else exclude(document, tree)
        _compute(document, seen, projection, scope)
        if projection.positional is not None:
            seen = _keep_matched(document, seen, projection.positional, query or {})
        for parts, bounds in projection.slices:
            seen = _sliced(seen, parts, bounds)
        return seen

    return project


def _compute(document: Document, seen: Document, projection: Projection, scope: Scope) -> None:
    if not projection.computed:
        return
    frame = scope.frame(document)
    for parts, evaluate in projection.computed:
        value = evaluate(frame)
        if value is MISSING and len(parts) == 1:
            seen.pop(parts[0], None)
        set_computed(seen, parts, value)


def _keep_matched(
    document: Document, seen: Document, parts: tuple[str, ...], query: Mapping[str, Any]
) -> Document:
    """Return what is seen with the first array on a path cut to the element that made the query match."""
    value: Any = seen
    for length in range(1, len(parts) + 1):
        value = value.get(parts[length - 1], MISSING) if isinstance(value, dict) else MISSING
        if isinstance(value, list):
            index = _index_of_match(document, query, parts[:length])
            return _replaced(seen, parts[:length], value[index : index + 1])
    return seen


def _index_of_match(document: Document, query: Mapping[str, Any], path: tuple[str, ...]) -> int:
    try:
        return matched_index(document, query, path)
    except CommandError:
        raise CommandError(
            _POSITIONAL_NO_MATCH,
            "Executor error during find command :: caused by :: positional operator '.$' couldn't find a "
            "matching element in the array",
        ) from None


def _replaced(document: Document, parts: tuple[str, ...], value: Any) -> Document:
    """Return a document with another value at a path that leads through documents."""
    name, rest = parts[0], parts[1:]
    return {**document, name: _replaced(document[name], rest, value) if rest else value}


def _sliced(value: Any, parts: tuple[str, ...], bounds: Bounds) -> Any:
    """Return a document whose array at a path is cut; an array on the way is entered, one level deep."""
    name, rest = parts[0], parts[1:]
    if not is_object(value) or name not in as_mapping(value):
        return value
    item = as_mapping(value)[name]
    if isinstance(item, list):
        item = [_sliced(each, rest, bounds) for each in item] if rest else cut(item, bounds)
    elif rest:
        item = _sliced(item, rest, bounds)
    return {**as_mapping(value), name: item}


def cut(items: list[Any], bounds: Bounds) -> list[Any]:
    """Return a part of an array: `limit` elements from `skip`, or the first, or (negative) the last ones."""
    skip, limit = bounds
    if skip is None:
        return items[:limit] if limit >= 0 else items[limit:]
    start = max(skip + len(items), 0) if skip < 0 else skip
    return items[start : start + limit]


def include(value: Mapping[str, Any], tree: Mapping[str, Any]) -> Document:
    """Return the fields that a tree names, in the order of the document; documents in arrays alike."""
    seen: Document = {}
    for name, item in value.items():
        wanted = tree.get(name)
        if wanted is True:
            seen[name] = item
        elif wanted is not None:
            part = _include_below(item, wanted)
            if part is not MISSING:
                seen[name] = part
    return seen


def _include_below(item: Any, tree: Mapping[str, Any]) -> Any:
    if is_object(item):
        return include(as_mapping(item), tree)
    if isinstance(item, list):
        parts = [_include_below(each, tree) for each in item]
        return [part for part in parts if part is not MISSING]
    return MISSING


def exclude(value: Mapping[str, Any], tree: Mapping[str, Any]) -> Document:
    """Return all fields but those that a tree names; documents in arrays alike."""
    return {
        name: _exclude_below(item, tree[name]) if name in tree else item
        for name, item in value.items()
        if tree.get(name) is not True
    }


def _exclude_below(item: Any, tree: Mapping[str, Any]) -> Any:
    if is_object(item):
        return exclude(as_mapping(item), tree)
    if isinstance(item, list):
        return [_exclude_below(each, tree) for each in item]
    return item


def set_computed(document: Document, parts: tuple[str, ...], value: Any) -> None:
    """Set a computed field of a new document; in each element where an array is on the way.

    What is on the way is copied, not changed. A missing value sets nothing.
    """
    if value is MISSING:
        return
    name = parts[0]
    if len(parts) == 1:
        document[name] = value
        return
    child = document.get(name)
    if isinstance(child, list):
        document[name] = [_computed_in(item, parts[1:], value) for item in child]
    else:
        document[name] = _computed_in(child, parts[1:], value)


def _computed_in(child: Any, parts: tuple[str, ...], value: Any) -> Document:
    inner = dict(as_mapping(child)) if is_object(child) else {}
    set_computed(inner, parts, value)
    return inner


def check_project(spec: Any) -> None:
    """Refuse what `$project` cannot be."""
    if not isinstance(spec, dict):
        raise CommandError(15969, "$project specification must be an object")
    if not spec:
        raise CommandError(
            51272, "Invalid $project :: caused by :: projection specification must have at least one field"
        )

"""Projections, of `find` and of `$project`: which fields of a document are seen, and what is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from fakeserver.errors import CommandError
from fakeserver.storage.expression_arrays import slice_of
from fakeserver.storage.expressions import compile_expression
from fakeserver.storage.matching import compile_element
from fakeserver.storage.paths import assign, exactly, split
from fakeserver.storage.positional import matched_index
from fakeserver.storage.values import MISSING, is_number, is_object, truthy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeAlias

    from fakeserver.storage.scope import Evaluate, Scope

    Document: TypeAlias = dict[str, Any]
    Project: TypeAlias = Callable[[Document], Document]

_INCLUDE_IN_EXCLUSION: Final = 31253
_EXCLUDE_IN_INCLUSION: Final = 31254
_COLLISION: Final = 31250
_COLLISION_BELOW: Final = 31249
_EMPTY_OBJECT: Final = 51270
_POSITIONAL_NO_MATCH: Final = 51246

Mode = Literal["include", "exclude"]


def compile_projection(
    spec: Mapping[str, Any], scope: Scope, *, query: Mapping[str, Any] | None = None
) -> Project:
    """Return a projection as a function that makes a new document. Raises `CommandError` for a bad one.

    `query` is the filter of a find, whose positional projection `a.$` names the element that it matched.
    """
    return _Projection(spec, scope, query).apply


class _Projection:
    def __init__(self, spec: Mapping[str, Any], scope: Scope, query: Mapping[str, Any] | None) -> None:
        self.finding = query is not None
        self.query = query or {}
        self.scope = scope
        self.tree: dict[str, Any] = {}
        self.computed: list[tuple[tuple[str, ...], Evaluate]] = []
        self.slices: list[tuple[tuple[str, ...], list[int]]] = []
        self.matches: list[tuple[str, Callable[[Any], bool]]] = []
        self.positional: tuple[str, ...] | None = None
        self.mode: Mode | None = None
        self.id: bool | None = None
        self.paths: set[str] = set()
        for path, value in _flatten(spec):
            self._enter(path, value)
        self.including = self._includes()

    def _includes(self) -> bool:
        return self.mode == "include" or (self.mode is None and self.id is True)

    def _enter(self, path: str, value: Any) -> None:
        self._refuse_collision(path)
        if is_number(value) or isinstance(value, bool):
            self._enter_plain(path, include=truthy(value))
        elif self.finding and is_object(value) and next(iter(value)) in {"$slice", "$elemMatch", "$meta"}:
            self._enter_operator(path, value)
        else:
            self._set_mode(path, "include")
            self.computed.append((split(path), compile_expression(value, self.scope)))

    def _enter_plain(self, path: str, *, include: bool) -> None:
        if path == "_id":
            self.id = include
            return
        if path.endswith(".$"):
            self._set_mode(path, "include")
            path = path[:-2]
            self.positional = split(path)
        else:
            self._set_mode(path, "include" if include else "exclude")
        assign(self.tree, split(path), value=True)

    def _enter_operator(self, path: str, value: Mapping[str, Any]) -> None:
        name, argument = next(iter(value.items()))
        if name == "$slice":
            bounds = argument if isinstance(argument, list) else [argument]
            self.slices.append((split(path), [int(bound) for bound in bounds]))
        elif name == "$elemMatch":
            self._set_mode(path, "include")
            self.matches.append((path, compile_element(argument, self.scope)))
        else:
            raise CommandError(40218, f"query requires {argument} metadata, but it is not available")

    def _set_mode(self, path: str, mode: Mode) -> None:
        if self.mode is None:
            self.mode = mode
        elif self.mode != mode and mode == "include":
            raise CommandError(
                _INCLUDE_IN_EXCLUSION, f"Cannot do inclusion on field {path} in exclusion projection"
            )
        elif self.mode != mode:
            raise CommandError(
                _EXCLUDE_IN_INCLUSION, f"Cannot do exclusion on field {path} in inclusion projection"
            )

    def _refuse_collision(self, path: str) -> None:
        parts = split(path)
        for length in range(1, len(parts)):
            if ".".join(parts[:length]) in self.paths:
                rest = ".".join(parts[length:])
                raise CommandError(_COLLISION_BELOW, f"Path collision at {path} remaining portion {rest}")
        if any(other == path or other.startswith(f"{path}.") for other in self.paths):
            raise CommandError(_COLLISION, f"Path collision at {path}")
        self.paths.add(path)

    def apply(self, document: Document) -> Document:
        """Return what is seen of a document."""
        if not self.including:
            projected = exclude(document, self.tree)
            if self.id is False:
                projected.pop("_id", None)
        else:
            projected = self._include(document)
        for parts, bounds in self.slices:
            array = exactly(document, parts)
            if isinstance(array, list):
                assign(projected, parts, slice_of(array, bounds))
        return projected

    def _include(self, document: Document) -> Document:
        tree = self.tree if self.id is False else {"_id": True, **self.tree}
        projected = include(document, tree)
        if self.positional is not None:
            self._keep_matched(document, projected, self.positional)
        for path, test in self.matches:
            array = document.get(path)
            found = [item for item in array if test(item)][:1] if isinstance(array, list) else []
            if found:
                projected[path] = found
        frame = self.scope.frame(document)
        for parts, evaluate in self.computed:
            set_computed(projected, parts, evaluate(frame))
        return projected

    def _keep_matched(self, document: Document, projected: Document, parts: tuple[str, ...]) -> None:
        array = exactly(document, parts)
        if not isinstance(array, list):
            return
        try:
            index = matched_index(document, self.query, parts)
        except CommandError:
            raise CommandError(
                _POSITIONAL_NO_MATCH,
                "Executor error during find command :: caused by :: positional operator '.$' couldn't find a "
                "matching element in the array",
            ) from None
        assign(projected, parts, array[index : index + 1])


def _flatten(spec: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in spec.items():
        path = f"{prefix}{name}"
        if not name:
            raise CommandError(40352, "FieldPath cannot be constructed with empty string")
        if is_object(value) and not value:
            raise CommandError(
                _EMPTY_OBJECT, "An empty sub-projection is not a valid value. Found empty object at path"
            )
        if name.startswith("$"):
            raise CommandError(
                16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField."
            )
        if is_object(value) and not next(iter(value)).startswith("$"):
            yield from _flatten(value, f"{path}.")
        else:
            yield path, value


def include(value: Document, tree: Mapping[str, Any]) -> Document:
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
    if isinstance(item, dict):
        return include(item, tree)
    if isinstance(item, list):
        parts = [_include_below(each, tree) for each in item]
        return [part for part in parts if part is not MISSING]
    return MISSING


def exclude(value: Document, tree: Mapping[str, Any]) -> Document:
    """Return all fields but those that a tree names; documents in arrays alike."""
    return {
        name: _exclude_below(item, tree[name]) if name in tree else item
        for name, item in value.items()
        if tree.get(name) is not True
    }


def _exclude_below(item: Any, tree: Mapping[str, Any]) -> Any:
    if isinstance(item, dict):
        return exclude(item, tree)
    if isinstance(item, list):
        return [_exclude_below(each, tree) for each in item]
    return item


def set_computed(document: Document, parts: tuple[str, ...], value: Any) -> None:
    """Set a computed field; in each element where an array is on the way; a missing value sets nothing."""
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
    inner = dict(child) if isinstance(child, dict) else {}
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

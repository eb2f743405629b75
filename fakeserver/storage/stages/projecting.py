"""Projections, of `find` and of `$project`: the fields of a document that are shown or computed.

A projected document is new at each level that differs from the one it was made of and shares the rest: no
function here changes its arguments.

A projection is either inclusive (`{a: 1}`: nothing but what is named, and `_id`) or exclusive (`{a: 0}`:
all but what is named). The first field that decides sets the mode, and a later one of the other mode is
refused; `_id` is in neither, and may be left out of an inclusion. An expression, a literal or `a.$` makes a
projection inclusive. What decides nothing (`$slice`, `$elemMatch`, `$meta`) leaves the mode open, and
`Projection.including` settles it at the end.

`_Parser` turns a specification into a `Projection`, `tree` turns that into nested documents, and
`compile_projection` makes the function that runs, in an order that shows: fields are chosen first, then
computed from the whole document, then the positional operator and `$slice` cut what is left. So a computed
field may read a field that is not shown, and `$slice` cuts an array of the result.

`find` alone has `$slice` with its own syntax, `$elemMatch` and `a.$`. They need the filter, which therefore
tells both apart: `query` is None in a pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from fakeserver.errors import CommandError
from fakeserver.storage.expressions.compiler import compile_expression, is_expression_name
from fakeserver.storage.filters.matching import SPECIAL, compile_element, refuse_operators
from fakeserver.storage.filters.positional import matched_index
from fakeserver.storage.stages.flow import Flowing
from fakeserver.storage.values.pacing import paced
from fakeserver.storage.values.paths import assign, stage_path
from fakeserver.storage.values.printing import show, show_document, show_field
from fakeserver.storage.values.types import (
    INT32_MAX,
    INT32_MIN,
    MISSING,
    as_mapping,
    exact,
    is_nan,
    is_number,
    is_object,
    truthy,
    type_name,
)
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.storage.port.engine import Evaluate, Frame, Scope

    Document: TypeAlias = dict[str, Any]
    Project: TypeAlias = Callable[[Document], Document]


Mode = Literal["include", "exclude"]

Bounds: TypeAlias = "tuple[int | None, int]"
"""The part of an array that `$slice` keeps: elements to skip (None: none), and elements to keep."""

# A DBRef is stored as a document of these fields, whose names begin with a dollar sign without being
# operators.
_DBREF_FIELDS: Final = frozenset({"$ref", "$id", "$db"})
_INCLUDE_IN_EXCLUSION: Final = 31253
_EXCLUDE_IN_INCLUSION: Final = 31254
# Two fields of one projection collide where one's path is the other's, or begins it. The codes differ by
# which of both stands first: 31249 where the longer path comes after the shorter one, 31250 where it came
# before, or where both are the same.
_COLLISION: Final = 31250
_COLLISION_BELOW: Final = 31249
_EMPTY_OBJECT: Final = 51270


@dataclass(slots=True)
class Projection:
    """A parsed projection. Paths are tuples of names; `computed` are expressions on the whole document.

    `paths` are those with 1 or 0, in their order, the value saying which. `mode` is None until a field
    decides it. `id` is None where `_id` was not named, which an inclusion takes for True. `meta` and
    `elem_match` are noted because they alone decide the mode of a projection that has nothing else, and do
    so differently in `find` and in a pipeline.
    """

    finding: bool
    paths: dict[tuple[str, ...], bool] = field(default_factory=dict)
    computed: list[tuple[tuple[str, ...], Evaluate]] = field(default_factory=list)
    slices: list[tuple[tuple[str, ...], Bounds]] = field(default_factory=list)
    positional: tuple[str, ...] | None = None
    mode: Mode | None = None
    id: bool | None = None
    elem_match: bool = False
    meta: bool = False

    @property
    def including(self) -> bool:
        """Whether the fields that are not named are left out."""
        if self.mode is not None:
            return self.mode == "include"
        # By itself a `$slice` shows all fields, one of them cut; with `_id: 1` beside it, it shows both
        # alone.
        if self.slices:
            return self.id is True
        # `{a: {$elemMatch: …}}` shows what it found and `_id`, as an inclusion does. A `$meta` alone adds
        # its field to the whole document in a find, and stands alone in a pipeline.
        if self.elem_match or (self.meta and not self.finding):
            return True
        return self.id is True

    def tree(self) -> dict[str, Any]:
        """Return the paths to see, or to leave out, as nested documents whose leaves are True."""
        including, tree = self.including, dict[str, Any]()
        named = (*self.paths, *(path for path, _evaluate in self.computed))
        # The `_id` is shown unless it is excluded. Part of it, such as `_id.a`, may be named instead, which
        # would be lost if the whole were in the tree.
        if including and self.id is not False and not any(path[0] == "_id" for path in named):
            tree["_id"] = True
        for path, there in self.paths.items():
            if there == including:
                assign(tree, path, value=True)
        # The computed fields of an exclusion, which can be no more than `$meta` and `$elemMatch`, are set
        # in what is left and need no place in the tree.
        if not including:
            return tree
        for path, _evaluate in self.computed:
            _fill(tree, path)
        for parts in (*(path for path, _bounds in self.slices), self.positional):
            if parts is not None:
                assign(tree, parts, value=True)
        return tree


class _Filled(dict[str, Any]):
    """A node below which something is computed: an element of an array is there, whatever it was.

    `{"a.b": <expression>}` on `{a: [1, {c: 2}]}` gives `{a: [{b: …}, {b: …}]}`: a server replaces elements
    that are no documents by documents that have the field. Below a plain inclusion they are left out.
    """


def _fill(tree: dict[str, Any], path: tuple[str, ...]) -> None:
    """Enter what leads to a computed field into a tree of what is seen."""
    for name in path[:-1]:
        below = tree.get(name, {})
        if below is True:
            return
        if not isinstance(below, _Filled):
            below = tree[name] = _Filled(below)
        tree = below


def parse_projection(spec: Mapping[str, Any], scope: Scope, query: Mapping[str, Any] | None) -> Projection:
    """Return what a projection says. `query` is the filter of a find, None in a pipeline.

    Raises `CommandError` for a projection that a server refuses.
    """
    return _Parser(scope, query).parse(spec)


class _Parser:
    """Reads the fields of a projection in order, and refuses the first that does not fit those before.

    A server reports the first mistake, so the order of the checks within a field is part of the contract.
    `taken` and `begun` find collisions in the time of one path's length: without `begun`, `{"a.b": 1, a:
    1}` would have to be compared with each path that was taken.
    """

    def __init__(self, scope: Scope, query: Mapping[str, Any] | None) -> None:
        self.scope = scope
        self.query = query
        self.found = Projection(finding=query is not None)
        self.taken: set[tuple[str, ...]] = set()
        self.begun: set[tuple[str, ...]] = set()
        """The paths on which those lie that are taken."""

    def parse(self, spec: Mapping[str, Any]) -> Projection:
        """Return the whole projection."""
        for name, value in paced(spec.items()):
            self._field(name, value, ())
        return self.found

    def _field(self, name: str, value: Any, parent: tuple[str, ...]) -> None:
        positional = _positional_part(name)
        # `a.$` names the element by which the filter matched; a pipeline has no filter that it could mean.
        if positional is not None and self.query is None:
            raise CommandError(31324, "Cannot use positional projection in aggregation projection")
        if is_object(value):
            if positional is not None:
                raise CommandError(
                    31271, "positional projection cannot be used with an expression or sub object"
                )
            self._object(name, as_mapping(value), parent)
        elif is_number(value) or isinstance(value, bool):
            if not truthy(value):
                self._exclude(name, parent)
            elif positional is None:
                self._include(name, parent)
            else:
                self._include_matched(name, positional, parent)
        else:
            if positional is not None:
                raise CommandError(31308, "positional projection cannot be used with a literal")
            path = (*parent, *stage_path(name))
            # A text or another literal is an expression since 4.4, and not an inclusion: `{a: "x"}` shows
            # the text, and `{a: "$b"}` another field.
            evaluate = compile_expression(value, self.scope)
            self._take(path)
            if self.found.mode == "exclude":
                raise CommandError(
                    31310,
                    f"Cannot use an expression {show_field(name, value)[1:-1]} in an exclusion projection",
                )
            self.found.mode = "include"
            self.found.computed.append((path, evaluate))

    def _object(self, name: str, value: Mapping[str, Any], parent: tuple[str, ...]) -> None:
        if not value:
            raise CommandError(
                _EMPTY_OBJECT, "An empty sub-projection is not a valid value. Found empty object at path"
            )
        path = (*parent, *stage_path(name))
        operator = next(iter(value))
        if len(value) == 1 and operator.startswith("$"):
            if self._operator(path, operator, value):
                return
            if operator not in _DBREF_FIELDS:
                raise CommandError(31325, f"Unknown expression {operator}")
        for inner, item in value.items():
            self._field(inner, item, path)

    def _operator(self, path: tuple[str, ...], name: str, value: Mapping[str, Any]) -> bool:
        """Enter an operator or an expression; return whether it was one."""
        if name == "$slice" and self.query is not None:
            self._slice(path, value)
        elif name == "$elemMatch":
            self._elem_match(path, value[name])
        elif is_expression_name(name):
            self._expression(path, value)
        else:
            return False
        return True

    def _slice(self, path: tuple[str, ...], value: Mapping[str, Any]) -> None:
        """Take a `$slice`: that of a find, or else the expression of that name.

        Both have arrays as arguments, `[skip, limit]` and `[<array>, n]`, so a server tries the one and
        then the other, and quotes both errors where neither fits. A find's is tried first: `{$slice: [1,
        2]}` is its skip and limit, not an expression on the number 1.
        """
        try:
            bounds = _bounds(value["$slice"])
            self._take(path)
        except CommandError as error:
            try:
                self._expression(path, value)
            except CommandError as other:
                raise CommandError(
                    other.code,
                    f"Invalid $slice syntax. The given syntax {show_document(value)} did not match the "
                    f"find() syntax because :: {error.code_name}: {error.message} :: The given syntax did "
                    f"not match the expression $slice syntax. :: caused by :: {other.message}",
                ) from None
            return
        self.found.slices.append((path, bounds))

    def _elem_match(self, path: tuple[str, ...], argument: Any) -> None:
        """Take an `$elemMatch`, which shows the first element of an array that meets a condition.

        It is no expression: the condition is that of a filter. Only a field of the top level can have it
        (31275), and not beside `a.$` (31255), as both would choose an element.
        """
        if self.query is None:
            raise CommandError(ErrorCode.INVALID_PIPELINE_OPERATOR, "Cannot use $elemMatch in this context")
        if not is_object(argument):
            raise CommandError(
                31274, f"elemMatch: Invalid argument, object required, but got {type_name(argument)}"
            )
        if self.found.positional is not None:
            raise CommandError(31255, "Cannot specify positional operator and $elemMatch.")
        if len(path) > 1:
            raise CommandError(31275, "Cannot use $elemMatch projection on a nested field.")
        test, (name,) = compile_element(argument, self.scope), path
        refuse_operators(as_mapping(argument), SPECIAL)

        def first_match(frame: Frame) -> Any:
            array = frame["ROOT"].get(name)
            if not isinstance(array, list):
                return MISSING
            return next(([item] for item in array if test(item)), MISSING)

        self._take(path)
        self.found.elem_match = True
        self.found.computed.append((path, first_match))

    def _expression(self, path: tuple[str, ...], value: Mapping[str, Any]) -> None:
        """Take a computed field: only `$meta` keeps the mode, others fail in an exclusion (31252)."""
        meta = "$meta" in value
        if not meta and self.found.mode == "exclude":
            raise CommandError(31252, "Cannot use expression other than $meta in exclusion projection")
        evaluate = compile_expression(dict(value), self.scope)
        if not meta:
            self.found.mode = "include"
        self._take(path)
        self.found.meta = self.found.meta or meta
        self.found.computed.append((path, evaluate))

    def _include(self, name: str, parent: tuple[str, ...]) -> None:
        path = (*parent, *stage_path(name))
        self._take(path)
        if path == ("_id",):
            self.found.id = True
        else:
            self._set_inclusion(name)
        self.found.paths[path] = True

    def _include_matched(self, name: str, span: tuple[int, int], parent: tuple[str, ...]) -> None:
        """Take `a.$`, which may stand once, at the end of a path, and in no other place of the projection.

        The query is refused what is not about elements of arrays (searches, `$expr`, `$jsonSchema`): nobody
        could say by which element a document matched.
        """
        if self.found.positional is not None:
            raise CommandError(31276, "Cannot specify more than one positional projection per query.")
        if self.found.elem_match:
            raise CommandError(31256, "Cannot specify positional operator and $elemMatch.")
        if name.endswith(".$."):
            raise CommandError(31270, "Path cannot end with '.$.'")
        begin, end = span
        if _positional_part(name[end:]) is not None or name[end:] == "$":
            raise CommandError(31287, f"Cannot use positional operator twice: {name}")
        if end < len(name):
            raise CommandError(
                31394,
                "As of 4.4, it's illegal to specify positional operator in the middle of a path. Positional "
                "projection may only be used at the end, for example: a.b.$. If the query previously used a "
                "form like a.b.$.d, remove the parts following the '$' and the results will be equivalent.",
            )
        refuse_operators(self.query or {}, SPECIAL)
        path = (*parent, *stage_path(name[:begin]))
        self._take(path)
        self.found.positional = path
        self._set_inclusion(name)

    def _set_inclusion(self, name: str) -> None:
        if self.found.mode == "exclude":
            raise CommandError(
                _INCLUDE_IN_EXCLUSION, f"Cannot do inclusion on field {name} in exclusion projection"
            )
        self.found.mode = "include"

    def _exclude(self, name: str, parent: tuple[str, ...]) -> None:
        path = (*parent, *stage_path(name))
        self._take(path)
        if path == ("_id",):
            self.found.id = False
        else:
            if self.found.mode == "include":
                raise CommandError(
                    _EXCLUDE_IN_INCLUSION, f"Cannot do exclusion on field {name} in inclusion projection"
                )
            self.found.mode = "exclude"
        self.found.paths[path] = False

    def _take(self, path: tuple[str, ...]) -> None:
        """Claim a path. Raises `CommandError` where one that was claimed before leads to it or beyond."""
        shown = ".".join(path)
        if any(path[:length] in self.taken for length in range(1, len(path))):
            rest = ".".join(path[1:])
            raise CommandError(_COLLISION_BELOW, f"Path collision at {shown} remaining portion {rest}")
        if path in self.begun or path in self.taken:
            raise CommandError(_COLLISION, f"Path collision at {shown}")
        self.taken.add(path)
        self.begun.update(path[:length] for length in range(1, len(path)))


def _positional_part(name: str) -> tuple[int, int] | None:
    """Return where the first `$` part of a path begins, its dots included, and ends; None without one."""
    first = name.find(".$.")
    if first >= 0:
        return first, first + 3
    return (len(name) - 2, len(name)) if name.endswith(".$") else None


def _bounds(argument: Any) -> Bounds:
    """Return the argument of a find's `$slice`. Raises `CommandError` for what is none."""
    if is_number(argument):
        return None, _clamped(argument)
    if not isinstance(argument, list):
        raise CommandError(31273, "$slice only supports numbers and [skip, limit] arrays")
    if len(argument) != 2:  # noqa: PLR2004 -- skip and limit
        raise CommandError(31272, "$slice array argument should be of form [skip, limit]")
    skip, limit = argument
    if not is_number(skip):
        raise CommandError(31257, f"$slice expects the skip argument to be a number, got {type_name(skip)}")
    if not is_number(limit):
        raise CommandError(31258, f"$slice expects the limit argument to be a number, got {type_name(limit)}")
    if _clamped(limit) <= 0:
        raise CommandError(31259, f"$slice limit must be positive, got {_clamped(limit)}")
    return _clamped(skip), _clamped(limit)


def _clamped(number: Any) -> int:
    """Return a number as an int of 32 bits, the nearest one where it is none; 0 for NaN.

    A server reads `$slice` numbers as its `int`: 2.7 is 2, and infinity the largest one rather than an
    error.
    """
    return 0 if is_nan(number) else int(max(INT32_MIN, min(INT32_MAX, exact(number))))


# Where `a.$` finds no element although the filter let the document through.
_POSITIONAL_NO_MATCH: Final = 51246
_POSITIONAL_BEYOND: Final = 51247


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
        # Computed from `document`, not from `seen`: an expression sees fields that are not shown, and no
        # field that another expression of this projection computes.
        if projection.computed:
            frame = scope.frame(document)
            for parts, evaluate in projection.computed:
                set_computed(seen, parts, evaluate(frame), removing=True)
        if projection.positional is not None:
            seen = _keep_matched(document, seen, projection.positional, query or {}, scope)
        for parts, bounds in projection.slices:
            seen = _sliced(seen, parts, bounds)
        return seen

    return project


def _keep_matched(
    document: Document, seen: Document, parts: tuple[str, ...], query: Mapping[str, Any], scope: Scope
) -> Document:
    """Return what is seen with the first array on a path cut to the element that made the query match.

    An array further on along the path is left whole. A document without an array there is returned as it
    is: the filter may have matched a single value.
    """
    value: Any = seen
    for length in range(1, len(parts) + 1):
        value = value.get(parts[length - 1], MISSING) if isinstance(value, dict) else MISSING
        if isinstance(value, list):
            index = _index_of_match(document, query, len(value), scope)
            return _replaced(seen, parts[:length], value[index : index + 1])
    return seen


def _index_of_match(document: Document, query: Mapping[str, Any], length: int, scope: Scope) -> int:
    """Return the index by which a document matched, in an array of some length. Raises `CommandError`.

    51246 is for a query that matched by no element of an array, such as one without the field; 51247 for an
    array that is shorter than the one by which the query matched, which may be another field's.
    """
    index = matched_index(document, query, scope)
    operator = "positional operator '.$'"
    if index is None:
        raise CommandError(_POSITIONAL_NO_MATCH, f"{operator} couldn't find a matching element in the array")
    if index >= length:
        raise CommandError(_POSITIONAL_BEYOND, f"{operator} element mismatch")
    return index


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
    """Return the fields that a tree names, in the order of the document; documents in arrays alike.

    The order of the specification does not count. Computed fields of the top level come after all of these.
    """
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
    """Return what an inclusion leaves of a value: `MISSING` for a scalar, whose path leads on from it.

    `{"a.b": 1}` on `{a: 5}` shows no `a`. In an array, elements of this kind are dropped, except below a
    computed field.
    """
    if is_object(item):
        return include(as_mapping(item), tree)
    if isinstance(item, list):
        parts = [_include_below(each, tree) for each in item]
        if isinstance(tree, _Filled):
            return [{} if part is MISSING else part for part in parts]
        return [part for part in parts if part is not MISSING]
    return MISSING


def exclude(value: Mapping[str, Any], tree: Mapping[str, Any]) -> Document:
    """Return all fields but those that a tree names; documents in arrays alike.

    Values that no path leads into are shared with the stored document, not copied.
    """
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


def set_computed(document: Document, parts: tuple[str, ...], value: Any, *, removing: bool = False) -> None:
    """Set a computed field of a new document; in each element where an array is on the way.

    What is on the way is copied, not changed. A missing value sets nothing, unless it is `removing` the
    field: then what leads to the field is there, as for any other value.
    """
    if value is MISSING and not removing:
        return
    name = parts[0]
    if len(parts) == 1:
        if value is MISSING:
            document.pop(name, None)
        else:
            document[name] = value
        return
    child = document.get(name)
    document[name] = _computed_in(child, parts[1:], value)


def _computed_in(child: Any, parts: tuple[str, ...], value: Any) -> Any:
    """Return a value with a computed field inside.

    A document is copied, an array entered element by element, and a scalar replaced by a new document.
    """
    if isinstance(child, list):
        return [_computed_in(item, parts, value) for item in child]
    inner = dict(as_mapping(child)) if is_object(child) else {}
    set_computed(inner, parts, value, removing=True)
    return inner


def check_project(spec: Any) -> None:
    """Refuse what `$project` cannot be."""
    if not isinstance(spec, dict):
        raise CommandError(15969, "$project specification must be an object")
    if not spec:
        raise CommandError(
            51272, "Invalid $project :: caused by :: projection specification must have at least one field"
        )


# $redact.


# `$redact` asks its expression about a document and, on `$$DESCEND`, about each document within it, also in
# arrays. What is pruned is left out; scalars are always kept. `$$CURRENT` is the level that is asked about,
# and `$$ROOT` the document as a whole.
_NO_DECISION: Final = 17053
_DECISIONS: Final = {"DESCEND": "descend", "PRUNE": "prune", "KEEP": "keep"}


def compile_redact(argument: Any, scope: Scope) -> Callable[[list[dict[str, Any]]], list[dict[str, Any]]]:
    """Return the stage. Raises `CommandError` 17053 where an expression does not decide."""
    evaluate = compile_expression(argument, scope, scope.names() | _DECISIONS.keys())

    def decide(level: dict[str, Any], root: dict[str, Any]) -> Any:
        """Return what is left of a document at one level, `MISSING` for nothing."""
        decision = evaluate({**scope.frame(level), **_DECISIONS, "ROOT": root})
        if decision == "keep":
            return level
        if decision == "prune":
            return MISSING
        if decision != "descend":
            raise CommandError(
                _NO_DECISION,
                "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND,"
                f" and $$PRUNE, but returned {show(decision)}",
            )
        return {name: left for name, value in level.items() if (left := below(value, root)) is not MISSING}

    def below(value: Any, root: dict[str, Any]) -> Any:
        if is_object(value):
            return decide(value, root)
        if isinstance(value, list):
            return [left for item in paced(value) if (left := below(item, root)) is not MISSING]
        return value

    return Flowing(
        lambda documents: (
            left for document in documents if (left := decide(document, document)) is not MISSING
        )
    )

"""Updates, compiled to functions from a document to its successor: operators, replacement, or pipeline.

Three invariants hold for each form. The `_id` of a document does not change (66): a form that says the same
one may say it, and it comes first in what is stored. The document that `apply` is given stays as it is,
because it is what cursors, snapshots and the oplog still hold. And a statement that is wrong fails before a
document is looked at, when it is compiled, even if none matches.

`inserting` marks the one `apply` of an upsert: `$setOnInsert` works then, `_id` may be set, and names with
a dollar sign are allowed at the top. `touched` tells change streams which operators worked where, from
which they report `updatedFields`. It is None for the other two forms: a replacement is reported as a whole,
and of a pipeline the documents before and after are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from fakeserver.errors import WriteError
from fakeserver.storage.filters.positional import (
    compile_array_filters,
    concrete,
    is_filtered,
    missing_filter,
    unused_filter,
    used_identifiers,
)
from fakeserver.storage.stages.pipeline_stages import (
    adds_fields,
    check_stage_name,
    compile_pipeline,
    stage_name,
)
from fakeserver.storage.updates.update_operators import CHECKS, KEEP, OPERATORS, UpdateContext
from fakeserver.storage.values.pacing import copied_at_leisure, paced, sorted_at_leisure
from fakeserver.storage.values.paths import (
    array_index,
    erase,
    exactly,
    prefixes,
    refuse_array_on,
    refuse_dead_end,
    refuse_dollar,
    split,
    write,
    write_new,
)
from fakeserver.storage.values.printing import show_field
from fakeserver.storage.values.types import MISSING, copy_value, is_object, order, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from fakeserver.storage.port.engine import Scope

    Document: TypeAlias = dict[str, Any]

# Stages that make one document of one: others could lose it, multiply it, or read other collections.
_PIPELINE_STAGES: Final = frozenset(
    {"$addFields", "$project", "$replaceRoot", "$replaceWith", "$set", "$unset"}
)
_NULL_BYTE: Final = 9867600
_LOOKING: Final = frozenset({"$pull", "$push"})
_CULLING: Final = frozenset({"$pop", "$pull", "$pullAll"})
"""The operators that take from an array which is there, and make no path that is not."""

Touched: TypeAlias = "tuple[tuple[str, tuple[str, ...]], ...]"
"""The operators that worked, and where."""


class Updater(Protocol):
    """One update statement's change, validated. `touched` is what operators did in the last `apply`.

    `may_change_nothing` says whether a document that it leaves as it was counts as not modified.
    """

    touched: Touched | None
    may_change_nothing: bool

    def apply(self, document: Document, *, inserting: bool = False) -> Document:
        """Return the document that this one becomes; it is left alone. Raises `WriteError`."""
        ...


def compile_update(
    change: Any,
    scope: Scope,
    *,
    query: Mapping[str, Any],
    array_filters: Sequence[Mapping[str, Any]] = (),
    multi: bool = False,
    now: dt.datetime | None = None,
) -> Updater:
    """Return the updater for a change. Raises `WriteError` for one that a server refuses.

    The first name decides whether a document is operators or a replacement: a mixture is refused by
    whichever it began as. A replacement is of one document, so that `multi` is refused with it, as are
    array filters with all but operators (9).
    """
    if isinstance(change, list | tuple):
        if array_filters:
            raise WriteError(
                ErrorCode.FAILED_TO_PARSE, "arrayFilters may not be specified for pipeline-style updates"
            )
        return PipelineUpdate(change, scope)
    if next(iter(change), "").startswith("$"):
        return OperatorUpdate(change, scope, query=query, now=now, array_filters=array_filters)
    if multi:
        raise WriteError(
            ErrorCode.FAILED_TO_PARSE, "multi update is not supported for replacement-style update"
        )
    if array_filters:
        raise WriteError(
            ErrorCode.FAILED_TO_PARSE, "arrayFilters may not be specified for replacement-style updates"
        )
    return Replacement(change)


_OF_ONE_FIELD: Final = frozenset({"$set", "$unset", "$inc", "$mul", "$setOnInsert"})


def looks_at_nothing_else(change: Any) -> bool:
    """Return whether a change needs no surroundings (`Scope`, time): its operators see their field alone.

    The update command spares such a statement the reading of options that it does not have.
    """
    return type(change) is dict and bool(change) and _OF_ONE_FIELD.issuperset(change)


class Replacement:
    """A whole new document under the old `_id`."""

    touched: Touched | None = None

    def __init__(self, change: Mapping[str, Any]) -> None:
        self.change = change
        # To a server a replacement without an `_id` always modifies the document, though it may equal what
        # is there.
        self.may_change_nothing = "_id" in change

    def apply(self, document: Document, *, inserting: bool = False) -> Document:
        """Return the replacement with the document's `_id` first."""
        replaced = copy_value(self.change)
        if not inserting:
            for name in replaced:
                refuse_dollar(name, replaced)
        if "_id" in document:
            _check_id(document["_id"], replaced.get("_id", document["_id"]))
            return {
                "_id": document["_id"],
                **{name: value for name, value in replaced.items() if name != "_id"},
            }
        if inserting and "_id" in replaced:
            return {"_id": replaced.pop("_id"), **replaced}
        return dict(replaced)


class PipelineUpdate:
    """The stages that may change a document: `$set`, `$unset`, `$project`, `$replaceRoot`."""

    touched: Touched | None = None
    may_change_nothing = True

    def __init__(self, change: Sequence[Mapping[str, Any]], scope: Scope) -> None:
        for stage in change:
            name = stage_name(stage)
            if name not in _PIPELINE_STAGES and not adds_fields(stage):
                check_stage_name(stage)
                raise WriteError(
                    ErrorCode.INVALID_OPTIONS, f"{name} is not allowed to be used within an update"
                )
        # A server runs these stages as they stand: no constant fails but for a document.
        self.run = compile_pipeline(change, scope._replace(failures=None))

    def apply(self, document: Document, *, inserting: bool = False) -> Document:  # noqa: ARG002 -- see `Updater`
        """Return the document that the pipeline makes of this one."""
        # The stages share what they do not change with their input, and an expression may put one value
        # into two fields. Copies on both sides keep the stored document apart from its successor.
        (changed,) = self.run([copied_at_leisure(document)])
        changed = copied_at_leisure(changed)
        if "_id" in document:
            _check_id(document["_id"], changed.get("_id", document["_id"]))
            return {"_id": document["_id"], **changed}
        return dict(changed)


def _check_id(before: Any, after: Any) -> None:
    """Refuse another `_id` than before. Raises `WriteError` 66.

    Numbers of equal value are the same `_id`, whatever their types.
    """
    if order(before) != order(after):
        raise WriteError(
            ErrorCode.IMMUTABLE_FIELD,
            "After applying the update, the (immutable) field '_id' was found to have been altered to "
            f"{show_field('_id', after)[1:-1]}",
        )


class OperatorUpdate:
    """`$set` and its kin, applied field by field in the order of the fields' names, as a server does.

    Operators of one statement do not see each other's results by way of paths: two paths of which one leads
    to the other are refused (40). So the order shows only in the order of new fields, for which a server
    sorts all paths, whichever operators they stand below.

    `steps` are operator, path and argument of each field. A path with `$`, `$[]` or `$[x]` stands for
    several places, which depend on the document and are found in it before anything is changed.
    """

    may_change_nothing = True

    def __init__(
        self,
        change: Any,
        scope: Scope,
        *,
        query: Mapping[str, Any],
        now: dt.datetime | None,
        array_filters: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.scope = scope
        self.query = query
        self.now = now
        self.filters = compile_array_filters(array_filters, scope)
        self.touched: Touched | None = ()
        self.steps = list(_steps(change))
        # One field conflicts with nothing and needs no order: the usual case is spared both.
        if len(self.steps) > 1:
            # A `$rename` changes two paths: its argument is the old one.
            _refuse_conflicts(
                [
                    each
                    for name, path, argument in self.steps
                    for each in ((argument, path) if name == "$rename" else (path,))
                ]
            )
            places = []
            for _name, path, _argument in paced(self.steps):
                # Positions in an array come by their number, and before names.
                parts = ((part, array_index(part)) for part in split(path))
                places.append([(1, 0, part) if at is None else (0, at, "") for part, at in parts])
            by_place = sorted_at_leisure(list(range(len(places))), key=places.__getitem__)
            self.steps = [self.steps[number] for number in paced(by_place)]
        self._refuse_other_filters(change)
        self._only_sets = all(
            name == "$set" and "." not in path and "$" not in path for name, path, _argument in self.steps
        )
        """Whether whole fields are set and nothing else, as in most updates."""

    def _refuse_other_filters(self, change: Any) -> None:
        """Refuse an update whose paths and array filters name different identifiers."""
        used = {
            name: path
            for _operator, path, _argument in paced(self.steps)
            if "$" in path
            for name in used_identifiers(path)
        }
        for name, path in used.items():
            if name not in self.filters:
                raise missing_filter(name, path)
        for name in self.filters:
            if name not in used:
                raise unused_filter(name, change)

    def apply(self, document: Document, *, inserting: bool = False) -> Document:
        """Return the document with each operator applied."""
        # Whole fields need no paths and no deep copy: values that are not set are shared with the stored
        # document, which is never changed.
        if self._only_sets and "_id" in document:
            changed = dict(document)
            for _name, path, argument in paced(self.steps):
                changed[path] = copied_at_leisure(argument)
            self.touched = tuple([("$set", (path,)) for _name, path, _argument in self.steps])
            return self._with_same_id(document, changed)
        changed = copied_at_leisure(document)
        touched: list[tuple[str, tuple[str, ...]]] = []
        for name, path, argument in paced(self.steps):
            if name == "$setOnInsert" and not inserting:
                continue
            if name == "$rename":
                # The old path first: a change stream tells it as removed, the new one as set.
                touched += [(name, split(argument)), (name, split(path))]
                self._rename(changed, path, argument, inserting=inserting)
                continue
            # Places are looked for in the document as it was: `$` means the element that the query matched,
            # whatever earlier operators did to the array.
            found = concrete(document, path, query=self.query, filters=self.filters, scope=self.scope)
            for parts in paced(found):
                touched.append((name, parts))
                self._apply_one(changed, name, parts, argument, inserting=inserting)
        self.touched = tuple(touched)
        return _id_first(changed) if "_id" not in document else self._with_same_id(document, changed)

    def _apply_one(
        self, document: Document, name: str, parts: tuple[str, ...], argument: Any, *, inserting: bool
    ) -> None:
        """Apply an operator at one place of the copy. Raises `WriteError`, 28 for a path that leads nowhere.

        `$pop` and its kin make no path, so that they must refuse one through a scalar by themselves; others
        are refused it when they write.
        """
        if name in _CULLING:
            refuse_dead_end(document, parts)
        context = UpdateContext(".".join(parts), document, self.scope, self.now)
        value = OPERATORS[name](exactly(document, parts), argument, context)
        if value is KEEP:
            return
        if value is MISSING:
            erase(document, parts)
        else:
            write_new(document, parts, value, inserting=inserting)

    @staticmethod
    def _rename(document: Document, target: str, source: str, *, inserting: bool) -> None:
        """Move a field; `$rename` stands at its target, where a server has it in the order of operators."""
        old, new = split(source), split(target)
        refuse_dead_end(document, old)
        value = exactly(document, old)
        if value is MISSING:
            return
        # A place in an array has no name to give another one: `$rename` is for fields of documents.
        refuse_array_on(document, old, "source")
        refuse_array_on(document, new, "destination")
        if new[0] == "_id" and not inserting:
            raise _immutable_id()
        write_new(document, new, value, inserting=inserting)
        erase(document, old)

    @staticmethod
    def _with_same_id(before: Document, after: Document) -> Document:
        """Return the new document. Raises `WriteError` 66 where its `_id` is another one, or is gone."""
        old, new = before["_id"], after.get("_id", MISSING)
        if new is not old and (new is MISSING or order(new) != order(old)):
            raise _immutable_id()
        return after


def _immutable_id() -> WriteError:
    return WriteError(
        ErrorCode.IMMUTABLE_FIELD,
        "Performing an update on the path '_id' would modify the immutable field '_id'",
    )


def _steps(change: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield operator, path and argument of each field, as they stand, checked one by one.

    Of `$rename` the path is the new one and the argument the old one: a server orders it by where it
    writes.
    """
    for name, fields in change.items():
        if name not in OPERATORS and name != "$rename":
            raise WriteError(
                ErrorCode.FAILED_TO_PARSE,
                f"Unknown modifier: {name}. Expected a valid update modifier or pipeline-style update "
                "specified as an array",
            )
        if not is_object(fields):
            raise WriteError(
                ErrorCode.FAILED_TO_PARSE,
                f"Modifiers operate on fields but we found type {type_name(fields)} instead. For example: "
                f"{{$mod: {{<field>: ...}}}} not {show_field(name, fields)}",
            )
        for path, argument in paced(fields.items()):
            _check_path(path)
            if name == "$rename":
                _check_rename(path, argument)
                yield name, argument, path
                continue
            if name in CHECKS:
                CHECKS[name](path, argument)
            yield name, path, argument


def _check_path(path: str) -> None:
    """Refuse a path that is none. Raises `WriteError` 56 for an empty part, 2 for a misplaced `$`."""
    if not path:
        raise WriteError(ErrorCode.EMPTY_FIELD_NAME, "An empty update path is not valid.")
    parts = split(path)
    if "" in parts:
        raise WriteError(
            ErrorCode.EMPTY_FIELD_NAME,
            f"The update path '{path}' contains an empty field name, which is not allowed.",
        )
    if "$" in path:
        _check_positions(path, parts)


def _check_positions(path: str, parts: tuple[str, ...]) -> None:
    """Refuse a `$` that stands twice, or at the beginning, where no array can be. Raises `WriteError` 2."""
    if parts.count("$") > 1:
        raise WriteError(
            ErrorCode.BAD_VALUE, f"Too many positional (i.e. '$') elements found in path '{path}'"
        )
    if parts[0] == "$":
        raise WriteError(
            ErrorCode.BAD_VALUE,
            f"Cannot have positional (i.e. '$') element in the first position in path '{path}'",
        )
    if is_filtered(parts[0]):
        raise WriteError(
            ErrorCode.BAD_VALUE,
            "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in path "
            f"'{path}'",
        )


def _check_rename(path: str, target: Any) -> None:
    """Refuse a target that is no path or has to do with the source. Raises `WriteError` 2 or those of a path.

    Neither may lie on the other's path, as moving a field into itself would lose it, and neither may be
    positional.
    """
    if type(target) is not str:
        raise WriteError(
            ErrorCode.BAD_VALUE,
            f"The 'to' field for $rename must be a string: {show_field(path, target)[1:-1]}",
        )
    if "\0" in target:
        raise WriteError(_NULL_BYTE, "Field paths cannot contain null bytes")
    _check_path(target)
    shown = show_field(path, target)[1:-1]
    old, new = split(path), split(target)
    if old == new:
        raise WriteError(ErrorCode.BAD_VALUE, f"The source and target field for $rename must differ: {shown}")
    shared = min(len(old), len(new))
    if old[:shared] == new[:shared]:
        raise WriteError(
            ErrorCode.BAD_VALUE,
            f"The source and target field for $rename must not be on the same path: {shown}",
        )
    for what, dotted, parts in (("source", path, old), ("destination", target, new)):
        if any(part == "$" or is_filtered(part) for part in parts):
            raise WriteError(
                ErrorCode.BAD_VALUE, f"The {what} field for $rename may not be dynamic: {dotted}"
            )


def _refuse_conflicts(paths: list[str]) -> None:
    """Refuse two paths of which one is the other, or leads to it. Raises `WriteError` 40.

    Without this, the result would depend on the order of `{$set: {a: 1, "a.b": 2}}`. Beginnings are kept in
    a set, so that thousands of paths cost no comparison of pairs.
    """
    seen: set[tuple[str, ...]] = set()
    begun: set[tuple[str, ...]] = set()
    for path in paced(paths):
        parts = split(path)
        for length in range(1, len(parts) + 1):
            if parts[:length] in seen:
                raise _conflict(path, parts[:length])
        if parts in begun:
            raise _conflict(path, parts)
        seen.add(parts)
        begun.update(parts[:length] for length in range(1, len(parts)))


def _conflict(path: str, at: tuple[str, ...]) -> WriteError:
    return WriteError(
        ErrorCode.CONFLICTING_UPDATE_OPERATORS,
        f"Updating the path '{path}' would create a conflict at '{'.'.join(at)}'",
    )


def _id_first(document: Document) -> Document:
    if "_id" not in document or next(iter(document)) == "_id":
        return document
    return {"_id": document["_id"], **document}


def seed(pairs: Sequence[tuple[str, Any]]) -> Document:
    """Return the document that an upsert begins with: what its filter pins, `_id` first.

    Equalities of the filter alone pin a value: `{x: 1, y: {$gt: 2}}` gives `{x: 1}`. Paths of which one
    lies within the other, or that are equal, leave open which value is meant: `WriteError` 54.
    """
    document: Document = {}
    pinned = {path for path, _value in pairs}
    for path, value in pairs:
        parts = split(path)
        above = next((each for each in prefixes(path)[:-1] if each in pinned), None)
        if above is not None:
            raise WriteError(
                ErrorCode.NOT_SINGLE_VALUE_FIELD,
                f"cannot infer query fields to set, both paths '{path}' and '{above}' are matched",
            )
        if exactly(document, parts) is not MISSING:
            raise WriteError(
                ErrorCode.NOT_SINGLE_VALUE_FIELD,
                f"cannot infer query fields to set, path '{path}' is matched twice",
            )
        write(document, parts, copy_value(value))
    return _id_first(document)


def with_id(document: Document, make_id: Callable[[], Any] | None) -> Document:
    """Return a document that has an `_id`, as its first field."""
    if "_id" in document:
        return _id_first(document)
    assert make_id is not None, "an upsert needs a maker of ids"
    return {"_id": make_id(), **document}

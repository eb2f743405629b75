"""The stages that end a pipeline by writing: `$out` and `$merge`.

Both write past the target's validator, unless the command bypasses it, and into the oplog. `$out` fills a
collection on the side and renames it, so that readers see all of the results or none; `$merge` writes result
by result, so that an error leaves all others. Not modelled: `targetCollectionVersion`, and the shard key as
the default of `on`.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import bson

from fakeserver.commands.queries.reading import query_of
from fakeserver.commands.writes.writing import check_limits
from fakeserver.errors import CommandError
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.forms import check_variable
from fakeserver.storage.plans.indexes import duplicate_key
from fakeserver.storage.port.engine import Changed, Namespace, Query, Scope, Update
from fakeserver.storage.port.oplog import Written
from fakeserver.storage.store import time_series
from fakeserver.storage.store.catalog import BUILT_IN, not_on_view, storage_of
from fakeserver.storage.updates.updating import compile_update
from fakeserver.storage.values.collation import complete
from fakeserver.storage.values.limits import TOO_LARGE_TO_UPSERT, check_updated
from fakeserver.storage.values.paths import exactly, set_nested, split, stage_path
from fakeserver.storage.values.types import MISSING, copy_value, exact, is_finite, type_name
from fakeserver.waiting.interrupts import in_one_turn, interruptible
from mongowire.codes import ErrorCode
from mongowire.ids import uuid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson import Binary

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.store.catalog import Collection

NAMES: Final = frozenset({"$out", "$merge"})

_NOT_UNIQUE: Final = 51183
_WHEN_MATCHED: Final = ("replace", "keepExisting", "merge", "fail")
_WHEN_NOT_MATCHED: Final = ("insert", "discard", "fail")


_MOST_SECONDS: Final = 31_536_000
_SERIES: Final = Fields.of(
    Field("timeField", "string", required=True),
    Field("metaField", "string"),
    Field("granularity", "string", choices=("seconds", "minutes", "hours")),
    *(Field(name, "number") for name in ("bucketRoundingSeconds", "bucketMaxSpanSeconds")),
)
_OUT: Final = Fields.of(
    Field("coll", "string", required=True),
    Field("db", "string", required=True),
    Field("timeseries", "object", of=_SERIES),
)
_MERGE: Final = Fields.of(
    *(Field(name) for name in ("into", "on", "whenMatched")),
    Field("let", "object"),
    Field("whenNotMatched", "string"),
    Field("targetCollectionVersion", "object"),
    Field("allowMergeOnNullishValues", "bool"),
)
_NOT_IN_NAMES: Final = frozenset('/\\. "$\0')


class Output(Protocol):
    """The destination of a pipeline's results."""

    @property
    def target(self) -> Namespace:
        """The collection that they go to."""
        ...

    def write(self, documents: list[Document]) -> None:
        """Write them. Raises `CommandError`."""
        ...


def parse(ctx: CommandContext, ns: Namespace, request: Mapping[str, Any], stage: Mapping[str, Any]) -> Output:
    """Return what a writing stage does. Raises `CommandError` for a malformed one."""
    name, spec = next(iter(stage.items()))
    level = (request.get("readConcern") or {}).get("level")
    if level == "linearizable":
        raise CommandError(
            ErrorCode.INVALID_OPTIONS, f"{name} cannot be used with a 'linearizable' read concern level"
        )
    checked = not request.get("bypassDocumentValidation", False)
    if name == "$out":
        target, series = _out_target(ns, spec)
        existing = ctx.catalog.get(target)
        if series is None and existing is not None and existing.is_view:
            raise not_on_view(target)
        return Out(ctx, target, checked, series)
    return _parse_merge(ctx, ns, request, spec, checked=checked)


def _out_target(ns: Namespace, spec: Any) -> tuple[Namespace, Document | None]:
    """Return where an `$out` writes, and the options of a time series that it asks for."""
    series: Document | None = None
    if type(spec) is str:
        target = Namespace(ns.db, spec)
    elif isinstance(spec, dict):
        options = copy_value(spec)
        _OUT.check(options, "$out")
        target, series = Namespace(options["db"], options["coll"]), options.get("timeseries")
    else:
        found = type_name(spec)
        raise CommandError(16990, f"$out only supports a string or object argument, but found {found}")
    _check_db(target, 31321, "$out")
    if target.collection.startswith("system."):
        raise CommandError(17385, f"Can't $out to special collection: {target.collection}")
    if "$" in target.collection[:1] or len(str(target).encode()) > _LONGEST_NAME:
        raise CommandError(ErrorCode.ILLEGAL_OPERATION, f"error with target namespace: {target}")
    return target, None if series is None else _series(series)


_LONGEST_NAME: Final = 255


def _check_db(target: Namespace, reserved: int, stage: str) -> None:
    """Refuse what is no database, and the ones of the server itself. Raises `CommandError` 73."""
    if not target.db or not _NOT_IN_NAMES.isdisjoint(target.db):
        raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid namespace specified '{target}'")
    if target.db in BUILT_IN:
        raise CommandError(reserved, f"{stage} cannot write to the internal database: {target.db}")


def _series(series: Document) -> Document:
    """Return the options of a time series in which results are put. Raises `CommandError` 2 or 72."""
    for name in ("bucketRoundingSeconds", "bucketMaxSpanSeconds"):
        if name in series:
            value = series[name]
            number = exact(value) if is_finite(value) else 0
            if isinstance(number, decimal.Decimal):
                number = number.to_integral_value(rounding=decimal.ROUND_HALF_EVEN)
            if not 1 <= number < _MOST_SECONDS + 1:
                message = f"BSON field '{name}' value must be between 1 and {_MOST_SECONDS}, actual {value}"
                raise CommandError(ErrorCode.BAD_VALUE, message)
            series[name] = int(number)
    span, rounding = series.get("bucketMaxSpanSeconds"), series.get("bucketRoundingSeconds")
    if "granularity" in series and (span is not None or rounding is not None):
        message = "Timeseries 'granularity' cannot be set alongside 'bucketMaxSpanSeconds'"
        raise CommandError(ErrorCode.INVALID_OPTIONS, message)
    if span != rounding:
        message = "Timeseries 'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' must be equal"
        raise CommandError(ErrorCode.INVALID_OPTIONS, message)
    return time_series.completed(series)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes to one collection, past its validator and into the oplog."""

    ctx: CommandContext
    target: Namespace
    checked: bool

    def _accept(self, change: Changed) -> None:
        collection, _made = self.ctx.ensure(self.target)
        if change.after is not None:
            collection.validate(
                change.after, change.before, bypassing=not self.checked, builtins=self.ctx.builtins
            )
        self.ctx.applied(self.target, change)


@dataclass(frozen=True, slots=True)
class Out(_Writer):
    """`$out`: the results take the place of a collection's documents; its options and indexes stay."""

    series: Document | None = None
    """The options of the time series that it asks for."""

    def write(self, documents: list[Document]) -> None:
        """Replace the target's documents: fill a collection on the side, and give it the name."""
        ctx = self.ctx
        existing = ctx.catalog.get(self.target)
        if self.series is not None:
            self._check_series(existing)
        collection = existing or ctx.catalog.create(
            self.target, {} if self.series is None else {"timeseries": self.series}
        )
        if collection.is_capped:
            raise CommandError(17152, f"namespace '{self.target}' is capped so it can't be used for $out")
        engine, made = ctx.catalog.engine, uuid(ctx.node.rng)
        aside = Namespace(self.target.db, f"tmp.agg_out.{made.as_uuid()}")
        try:
            engine.create(aside, **storage_of(collection))
            for index in collection.indexes.values():
                if index.name != "_id_":
                    engine.create_index(aside, index)
            # Enter in the oplog that there is a collection on the side.
            detail: Document = {"nsType": "collection", "idIndex": None}
            created = {"create": aside.collection, "temp": True}
            self.ctx.command_applied(aside.db, created, uuid=made, detail=detail)
            for document in interruptible(documents):
                change = self._store(collection, aside, document)
                ctx.node.oplog.append((Written(aside, change, made),))
        except CommandError as error:
            engine.drop(aside)
            if existing is None:
                ctx.catalog.drop(self.target)
            ctx.command_applied(aside.db, {"drop": aside.collection}, uuid=made)
            raise _executing(error) from None
        # At once, without a yield point between: a reader sees all the old documents or all the new ones.
        engine.drop(self.target)
        engine.rename(aside, self.target)
        self._end(aside, made, existing)

    def _check_series(self, existing: Collection | None) -> None:
        """Refuse a target that is no time series, or another one. Raises `CommandError`."""
        if existing is None:
            return
        if existing.kind != "timeseries":
            message = "Cannot create a time-series collection from a non time-series collection"
            raise CommandError(7268700, message)
        if existing.options["timeseries"] != self.series:
            raise CommandError(7406103, "Time-series options of $out and of the target must match")

    def _store(self, collection: Collection, aside: Namespace, document: Document) -> Changed:
        if "_id" not in document:
            document = {"_id": self.ctx.object_id(), **document}
        check_limits(document)
        collection.validate(document, bypassing=not self.checked, builtins=self.ctx.builtins)
        return Changed(None, self.ctx.catalog.engine.insert(aside, document))

    def _end(self, aside: Namespace, made: Binary, replaced: Collection | None) -> None:
        """Enter in the oplog that it has its name now."""
        entry: Document = {"renameCollection": str(aside), "to": str(self.target), "stayTemp": False}
        if replaced is not None:
            entry["dropTarget"] = replaced.uuid
        self.ctx.command_applied(aside.db, entry, uuid=made)


@dataclass(frozen=True, slots=True)
class Merge(_Writer):
    """`$merge`: each result finds its match by the fields `on` and changes it, or is inserted."""

    on: tuple[str, ...]
    when_matched: Any
    when_not_matched: str
    let: Mapping[str, Any]
    options: Query
    nullish: bool = True
    """Whether null, and what is missing, match: an index that is not sparse has one document with them."""

    def write(self, documents: list[Document]) -> None:
        """Merge the results into the target; one that fails stops no other, and is told in the end."""
        failed: CommandError | None = None
        if documents and isinstance(self.when_matched, list):
            # Whether there is a match is known only when the results are.
            query = self.options
            variables = dict.fromkeys((*(query.let or {}), *self.let, "new"))
            scope = Scope(
                variables={**variables, **query.builtins()}, make_id=query.make_id, scripts=query.scripts
            )
            try:
                compile_update(self.when_matched, scope, query={})
            except CommandError as error:
                raise _executing(error) from None
        for document in interruptible(documents):
            try:
                with in_one_turn():  # what matched is what is changed
                    self._merge(document)
            except CommandError as error:
                failed = failed or error
        if failed is not None:
            raise _executing(failed) from None

    def _merge(self, document: Document) -> None:
        key = {name: exactly(document, split(name)) for name in self.on}
        if key.get("_id") is MISSING:
            document = {"_id": self.ctx.object_id(), **document}
            key["_id"] = document["_id"]
        # Such a value would match many documents, and `on` promises one.
        if any(isinstance(value, list) for value in key.values()):
            raise CommandError(51185, "$merge write error: 'on' field cannot be an array")
        nullish = any(value is MISSING or value is None for value in key.values())
        if nullish and not self.nullish:
            raise CommandError(51132, "$merge write error: 'on' field cannot be missing, null or undefined")
        wanted = {name: {"$eq": None if value is MISSING else value} for name, value in key.items()}
        by = self.options.collation
        found = self.ctx.catalog.engine.find(self.target, Query(wanted, limit=1, collation=by))
        if not found:
            self._not_matched(document, key)
        else:
            existing = found[0]
            if self.when_matched == "keepExisting":
                return
            if self.when_matched == "fail":
                index = "_id_" if self.on == ("_id",) else "_".join(f"{name}_1" for name in self.on)
                raise duplicate_key(self.target, index, dict.fromkeys(self.on, 1), key.values())
            query = self.options._replace(
                filter={"_id": {"$eq": existing["_id"]}}, let=self._variables(document)
            )
            update = Update(query, self._change(document, existing))
            self.ctx.catalog.engine.update(self.target, update, accept=self._accept)

    def _not_matched(self, document: Document, key: Mapping[str, Any]) -> None:
        if self.when_not_matched == "insert":
            # It is upserted, but for where a match would fail.
            if self.when_matched == "fail":
                check_limits(document)
            else:
                check_updated(len(bson.encode(document)), TOO_LARGE_TO_UPSERT, "Document to upsert")
            if self.when_matched in ("merge", "keepExisting"):
                document = _by_name(document)
                # An update sets what its query equals: null, where the document says nothing.
                for name, value in key.items():
                    parts = split(name)
                    above = exactly(document, parts[:-1])
                    if value is MISSING and (above is MISSING or isinstance(above, dict)):
                        set_nested(document, parts, None)
            if "_id" not in document:
                document = {"_id": self.ctx.object_id(), **document}
            self.ctx.catalog.engine.insert(self.target, document, accept=self._accept)
        elif self.when_not_matched == "fail":
            raise CommandError(
                ErrorCode.MERGE_STAGE_NO_MATCHING_DOCUMENT,
                "$merge could not find a matching document in the target collection for at least "
                "one document in "
                "the source collection",
            )

    def _change(self, document: Document, existing: Document) -> Any:
        if self.when_matched == "replace":
            return {**document, "_id": document.get("_id", existing["_id"])}
        if self.when_matched == "merge":
            return [{"$replaceWith": {"$literal": {**existing, **_by_name(document)}}}]
        return self.when_matched

    def _variables(self, document: Document) -> dict[str, Any]:
        options = self.options
        scope = Scope(
            variables={**(options.let or {}), **options.builtins()},
            make_id=options.make_id,
            scripts=options.scripts,
        )
        frame = scope.frame(document)
        values = {name: compile_expression(value, scope)(frame) for name, value in self.let.items()}
        there = {name: value for name, value in values.items() if value is not MISSING}
        return {**(options.let or {}), "new": document, **there}


def _by_name(document: Document) -> Document:
    """Return a document as operators of an update set its fields: in the order of their names."""
    first = {"_id": document["_id"]} if "_id" in document else {}
    return {**first, **{name: document[name] for name in sorted(document)}}


def _parse_merge(
    ctx: CommandContext, ns: Namespace, request: Mapping[str, Any], spec: Any, *, checked: bool
) -> Merge:
    if type(spec) is not str and not isinstance(spec, dict):
        message = f"$merge requires a string or object argument, but found {type_name(spec)}"
        raise CommandError(ErrorCode.TYPE_MISMATCH, message)
    options: dict[str, Any] = copy_value(spec) if isinstance(spec, dict) else {"into": spec}
    _MERGE.check(options, "$merge")
    if "into" not in options:
        raise CommandError(
            ErrorCode.IDL_FAILED_TO_PARSE, "BSON field '$merge.into' is missing but a required field"
        )
    target = _merge_target(ns, options["into"], named_alone=spec == "")
    existing = ctx.catalog.get(target)
    if existing is not None and (existing.is_view or existing.kind == "timeseries"):
        raise not_on_view(target)
    on = _merge_on(options.get("on", "_id"))
    matched, not_matched = options.get("whenMatched", "merge"), options.get("whenNotMatched", "insert")
    if type(matched) is not str and not isinstance(matched, list):
        message = (
            f"$merge 'whenMatched' field  must be either a string or an array, but found {type_name(matched)}"
        )
        raise CommandError(51191, message)
    _check_mode("whenMatched", matched, _WHEN_MATCHED)
    for each in matched if isinstance(matched, list) else ():
        if not isinstance(each, dict):
            raise CommandError(
                ErrorCode.TYPE_MISMATCH, "Each element of the 'pipeline' array must be an object"
            )
    _check_mode("whenNotMatched", not_matched, _WHEN_NOT_MATCHED)
    if matched in ("keepExisting", "fail") and not_matched != "insert":
        message = f"Combination of $merge modes 'whenMatched: {matched}' and 'whenNotMatched: {not_matched}'"
        raise CommandError(51181, f"{message} is not supported")
    let = _merge_let(options, matched)
    query = query_of(ctx, request, ctx.catalog.get(target))
    nullish = _check_unique(ctx, target, on, query)
    return Merge(ctx, target, checked, on, matched, not_matched, let, query, nullish)


def _merge_target(ns: Namespace, into: Any, *, named_alone: bool) -> Namespace:
    if type(into) is str:
        target = Namespace(ns.db, into)
        if named_alone:
            raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid namespace specified '{target}'")
        if not into:
            raise CommandError(5786800, "$merge 'into' field cannot be an empty string")
    elif isinstance(into, dict):
        _INTO.check(into, "into")
        target = Namespace(into.get("db") or ns.db, into.get("coll", ""))
        if not target.collection:
            raise CommandError(5786801, "$merge 'into' field must specify a 'coll' that is not empty")
    else:
        message = f"$merge 'into' field  must be either a string or an object, but found {type_name(into)}"
        raise CommandError(51178, message)
    _check_db(target, 31320, "$merge")
    if target.collection.startswith("system."):
        raise CommandError(31319, f"$merge cannot write to the special collection: {target.collection}")
    return target


_INTO: Final = Fields.of(Field("db", "string"), Field("coll", "string"))


def _merge_on(named: Any) -> tuple[str, ...]:
    """Return the fields by which results find their matches. Raises `CommandError`."""
    if type(named) is not str and not isinstance(named, list):
        message = (
            f"$merge 'on' field  must be either a string or an array of strings, but found {type_name(named)}"
        )
        raise CommandError(51186, message)
    if named == []:
        raise CommandError(51187, "If explicitly specifying $merge 'on', must include at least one field")
    fields: tuple[str, ...] = (named,) if type(named) is str else tuple(named)
    for index, name in enumerate(fields):
        if type(name) is not str:
            raise CommandError(
                51134, f"$merge 'on' array elements must be strings, but found {type_name(name)}"
            )
        stage_path(name)
        if name in fields[:index]:
            raise CommandError(31465, f"Found a duplicate field '{name}'")
    return fields


def _merge_let(options: Mapping[str, Any], matched: Any) -> Mapping[str, Any]:
    """Return the variables of a pipeline that changes matches. Raises `CommandError`."""
    let: Mapping[str, Any] = options.get("let", {})
    if "let" in options and not isinstance(matched, list):
        raise CommandError(51199, f"Cannot use 'let' variables with 'whenMatched: {matched}' mode")
    for name in let:
        if name == "new" and let[name] != "$$ROOT":
            raise CommandError(
                51273, "'let' may not define a value for the reserved 'new' variable other than '$$ROOT'"
            )
        check_variable(name)
    return let


_SHOWN: Final = {"whenMatched": "whenMatched", "whenNotMatched": "$merge.whenNotMatched"}
"""Fields as their parsers name them."""


def _check_mode(name: str, mode: Any, known: tuple[str, ...]) -> None:
    if isinstance(mode, list) and name == "whenMatched":
        return
    if mode not in known:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"Enumeration value '{mode}' for field '{_SHOWN[name]}' is not a valid value.",
        )


def _check_unique(ctx: CommandContext, target: Namespace, on: tuple[str, ...], query: Query) -> bool:
    """Refuse fields that no index says to be unique; return whether they may be null, or missing."""
    if on == ("_id",):  # always unique
        return True
    collection = ctx.catalog.get(target)
    indexes = collection.indexes.values() if collection is not None else ()
    wanted = complete(query.collation)
    found = [
        index
        for index in indexes
        if index.unique and set(index.key) == set(on) and complete(index.document.get("collation")) == wanted
    ]
    if not found:
        raise CommandError(_NOT_UNIQUE, "Cannot find index to verify that join fields will be unique")
    return any(not index.document.get("sparse") for index in found)


def _executing(error: CommandError) -> CommandError:
    """Return an error as one that a plan ran into, with what $merge says of changed keys."""
    if error.code == ErrorCode.IMMUTABLE_FIELD:
        error = type(error)(error.code, f"{_CHANGED_KEY} :: caused by :: {error.message}", extra=error.extra)
    error.executing = True
    return error


_CHANGED_KEY: Final = (
    "$merge failed to update the matching document, did you attempt to modify the _id or the shard key?"
)

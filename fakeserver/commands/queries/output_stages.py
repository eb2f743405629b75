"""The stages that end a pipeline by writing: `$out` and `$merge`.

Both write past the target's validator, unless the command bypasses it, and into the oplog. `$out` fills a
collection on the side and renames it, so that readers see all of the results or none; `$merge` writes result
by result, so that an error leaves those before it. Not modelled: `$out` into a time series,
`targetCollectionVersion`, and the shard key as the default of `on`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import bson

from fakeserver.commands.queries.reading import query_of
from fakeserver.commands.writes.writing import check_limits
from fakeserver.errors import CommandError, WriteError
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.plans.indexes import duplicate_key
from fakeserver.storage.port.engine import Changed, Namespace, Query, Scope, Update
from fakeserver.storage.port.oplog import Written
from fakeserver.storage.updates.updating import compile_update
from fakeserver.storage.values.limits import TOO_LARGE_TO_UPSERT, check_updated
from fakeserver.storage.values.paths import exactly, split
from fakeserver.storage.values.types import MISSING, type_name
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
_PREFIX: Final = "PlanExecutor error during aggregation :: caused by :: "


_COLLECTION: Final = Fields.of(Field("db", "string"), Field("coll", "string", required=True))
_MERGE: Final = Fields.of(
    Field("into", "string|object", required=True, of=_COLLECTION),
    Field("on", "string|array", of="string"),
    Field("let", "object"),
    Field("whenMatched", "string|array", of="object"),
    Field("whenNotMatched", "string"),
    Field("targetCollectionVersion", "object"),
    Field("allowMergeOnNullishValues", "bool"),
)


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
        return Out(ctx, _out_target(ns, spec), checked)
    return _parse_merge(ctx, ns, request, spec, checked=checked)


def _out_target(ns: Namespace, spec: Any) -> Namespace:
    if type(spec) is str:
        return Namespace(ns.db, spec)
    if isinstance(spec, dict) and type(spec.get("db")) is str and type(spec.get("coll")) is str:
        return Namespace(spec["db"], spec["coll"])
    raise CommandError(16990, f"$out only supports a string or object argument, but found {type_name(spec)}")


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

    def _insert(self, document: Document) -> None:
        if "_id" not in document:
            document = {"_id": self.ctx.object_id(), **document}
        self.ctx.catalog.engine.insert(self.target, document, accept=self._accept)


@dataclass(frozen=True, slots=True)
class Out(_Writer):
    """`$out`: the results take the place of a collection's documents; its options and indexes stay."""

    def write(self, documents: list[Document]) -> None:
        """Replace the target's documents: fill a collection on the side, and give it the name."""
        ctx = self.ctx
        existing = ctx.catalog.get(self.target)
        collection, _made = ctx.catalog.ensure(self.target)
        if collection.is_capped:
            raise CommandError(17152, f"namespace '{self.target}' is capped so it can't be used for $out")
        engine, made = ctx.catalog.engine, uuid(ctx.node.rng)
        aside = Namespace(self.target.db, f"tmp.agg_out.{made.as_uuid()}")
        try:
            engine.create(aside)
            for index in collection.indexes.values():
                if index.name != "_id_":
                    engine.create_index(aside, index)
            self._begin(aside, made)
            for document in interruptible(documents):
                change = self._store(collection, aside, document)
                ctx.node.oplog.append((Written(aside, change, made),))
        except CommandError as error:
            engine.drop(aside)
            ctx.command_applied(aside.db, {"drop": aside.collection}, uuid=made)
            raise _explained(error) from None
        # At once, without a yield point between: a reader sees all the old documents or all the new ones.
        engine.drop(self.target)
        engine.rename(aside, self.target)
        self._end(aside, made, existing)

    def _store(self, collection: Collection, aside: Namespace, document: Document) -> Changed:
        if "_id" not in document:
            document = {"_id": self.ctx.object_id(), **document}
        check_limits(document)
        collection.validate(document, bypassing=not self.checked, builtins=self.ctx.builtins)
        return Changed(None, self.ctx.catalog.engine.insert(aside, document))

    def _begin(self, aside: Namespace, made: Binary) -> None:
        """Enter in the oplog that there is a collection on the side."""
        detail: Document = {"nsType": "collection", "idIndex": None}
        created = {"create": aside.collection, "temp": True}
        self.ctx.command_applied(aside.db, created, uuid=made, detail=detail)

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

    def write(self, documents: list[Document]) -> None:
        """Merge the results into the target."""
        self.ctx.ensure(self.target)
        for document in interruptible(documents):
            try:
                with in_one_turn():  # what matched is what is changed
                    self._merge(document)
            except CommandError as error:
                raise _explained(error) from None

    def _merge(self, document: Document) -> None:
        key = {name: exactly(document, split(name)) for name in self.on}
        if key.get("_id") is MISSING:
            document = {"_id": self.ctx.object_id(), **document}
            key["_id"] = document["_id"]
        # Such a value would match many documents, or none, and `on` promises one.
        if any(value is MISSING or value is None or isinstance(value, list) for value in key.values()):
            raise CommandError(
                51132, "$merge write error: 'on' field cannot be missing, null, undefined or an array"
            )
        wanted = {name: {"$eq": value} for name, value in key.items()}
        found = self.ctx.catalog.engine.find(self.target, Query(wanted, limit=1))
        if not found:
            self._not_matched(document)
        else:
            self._matched(document, found[0], key)

    def _not_matched(self, document: Document) -> None:
        if self.when_not_matched == "insert":
            self._check_size(document)
            self._insert(document)
        elif self.when_not_matched == "fail":
            raise CommandError(
                ErrorCode.MERGE_STAGE_NO_MATCHING_DOCUMENT,
                "$merge could not find a matching document in the target collection for at least "
                "one document in "
                "the source collection",
            )

    def _check_size(self, document: Document) -> None:
        """Refuse what is too large: it is upserted, but where a match would fail. Raises `WriteError`."""
        if self.when_matched == "fail":
            check_limits(document)
        else:
            check_updated(len(bson.encode(document)), TOO_LARGE_TO_UPSERT, "Document to upsert")

    def _matched(self, document: Document, existing: Document, key: Mapping[str, Any]) -> None:
        if self.when_matched == "keepExisting":
            return
        if self.when_matched == "fail":
            index = "_id_" if self.on == ("_id",) else "_".join(f"{name}_1" for name in self.on)
            raise duplicate_key(self.target, index, dict.fromkeys(self.on, 1), key.values())
        query = self.options._replace(filter={"_id": {"$eq": existing["_id"]}}, let=self._variables(document))
        update = Update(query, self._change(document, existing))
        self.ctx.catalog.engine.update(self.target, update, accept=self._accept)

    def _change(self, document: Document, existing: Document) -> Any:
        if self.when_matched == "replace":
            return {**document, "_id": document.get("_id", existing["_id"])}
        if self.when_matched == "merge":
            return [{"$replaceWith": {"$literal": {**existing, **document}}}]
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
        return {**(options.let or {}), "new": document, **values}


def _parse_merge(
    ctx: CommandContext, ns: Namespace, request: Mapping[str, Any], spec: Any, *, checked: bool
) -> Merge:
    if type(spec) is not str and not isinstance(spec, dict):
        raise CommandError(51182, f"$merge requires a string or object argument, but found {type_name(spec)}")
    options: dict[str, Any] = dict(spec) if isinstance(spec, dict) else {"into": spec}
    _MERGE.check(options, "$merge")
    let: Mapping[str, Any] = options.get("let", {})
    into = options["into"]
    target = Namespace(ns.db, into) if type(into) is str else Namespace(into.get("db", ns.db), into["coll"])
    named = options.get("on", "_id")
    on: tuple[str, ...] = (named,) if type(named) is str else tuple(named)
    matched, not_matched = options.get("whenMatched", "merge"), options.get("whenNotMatched", "insert")
    _check_mode("whenMatched", matched, _WHEN_MATCHED)
    _check_mode("whenNotMatched", not_matched, _WHEN_NOT_MATCHED)
    _check_unique(ctx, target, on)
    query = query_of(ctx, request, ctx.catalog.get(target))
    if isinstance(matched, list):
        _check_pipeline(matched, query, let)
    return Merge(ctx, target, checked, on, matched, not_matched, let, query)


def _check_pipeline(stages: list[Any], query: Query, let: Mapping[str, Any]) -> None:
    """Refuse what changes no match: whether there is one is known only when the results are. Raises 72."""
    variables = dict.fromkeys((*(query.let or {}), *let, "new"))
    scope = Scope(variables={**variables, **query.builtins()}, make_id=query.make_id, scripts=query.scripts)
    compile_update(stages, scope, query={})


def _check_mode(name: str, mode: Any, known: tuple[str, ...]) -> None:
    if isinstance(mode, list) and name == "whenMatched":
        return
    if mode not in known:
        raise CommandError(
            ErrorCode.BAD_VALUE, f"Enumeration value '{mode}' for field '$merge.{name}' is not a valid value."
        )


def _check_unique(ctx: CommandContext, target: Namespace, on: tuple[str, ...]) -> None:
    if on == ("_id",):  # always unique
        return
    collection = ctx.catalog.get(target)
    indexes = collection.indexes.values() if collection is not None else ()
    if not any(index.unique and set(index.key) == set(on) for index in indexes):
        raise CommandError(_NOT_UNIQUE, "Cannot find index to verify that join fields will be unique")


def _explained(error: CommandError) -> CommandError:
    kind = WriteError if isinstance(error, WriteError) else CommandError
    return kind(error.code, f"{_PREFIX}{error.message}", extra=error.extra)

"""The commands of the plan cache and of query settings: what holds for all queries of a shape.

Behaviour: A shape is a filter without its values, a sort, a projection and a collation. `planCacheSetFilter`
sets the indexes of a shape, by their keys or names, and replaces those of before; `planCacheListFilters`
shows them, `planCacheClearFilters` forgets those of a shape, or all. Queries of the shape then use none but
these, whatever their hint says, and read the collection where none of them serves. A shape that cannot be
read is refused with 2, a view and a time series with 166; on a collection that is not there,
planCacheSetFilter is refused with 2 and the others have nothing to do. Fields that are not theirs are left
alone. `setQuerySettings` keeps settings for the shape of a find, a distinct or an aggregate, named by an
example or by its hash, and merges them with those of before; `$querySettings` shows them,
`removeQuerySettings` forgets them. Queries whose shape is set to `reject` are refused (411), which explain
does not do. A standalone has none (20), and none are for internal databases (8584900), collections of the
system (8584901) and a lookup by `_id` (7746606). A query that several indexes could serve leaves its plan in
the cache: `$planCacheStats` shows it, at first inactive, and planCacheClear forgets the plans of a shape, or
all, as does a change of indexes.

Versions: The same in every release; query settings are there since 8.0.

Not modelled: No query is planned from the cache: each chooses its plan anew, which is the same for the same
data. The figures of a cached plan are those of now. Index filters belong to the deployment, not to the member
that was asked. They decide the plans of find, count, distinct and of all that explain shows; other commands
give the same results by whatever index. The index hints and the framework of query settings are kept and
shown, and choose no plan.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from bson import Int64, Regex

from fakeserver.commands.context import namespace
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument, type_name
from fakeserver.profile import WIRE_80
from fakeserver.storage.filters.match_operators import is_operators
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.port.engine import Namespace, Scope, Update
from fakeserver.storage.port.engine import Query as StoredQuery
from fakeserver.storage.store.catalog import BUILT_IN, IndexFilter, not_on_view
from fakeserver.storage.values.collation import complete
from fakeserver.storage.values.limits import weight
from fakeserver.storage.values.printing import show_document
from fakeserver.storage.values.sorting import check_sort
from fakeserver.storage.values.types import is_number
from fakeserver.waiting.first_use import at_first_use
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.store.catalog import Collection

table = CommandTable()

_FIELDS: Final = Fields.of(
    *(Field(name) for name in ("query", "sort", "projection", "collation")), strict=False, target="collection"
)
_NESTED: Final = ("$and", "$or", "$nor")


@table.command("planCacheClear", kind="read", on_secondaries=True, fields=_FIELDS)
def plan_cache_clear(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Forget the plans of a shape, or all of a collection."""
    collection = _collection(ctx, command)
    if collection is None:
        return {}
    asked = _asked(command, collection)
    plans = ctx.catalog.engine.plan_cache(collection.ns)
    for name, each in interruptible(list(plans.items())):
        query = each.query
        if asked in (None, key_of(query.filter, query.sort, query.projection, query.collation)):
            plans.pop(name, None)
    return {}


@table.command(
    "planCacheSetFilter",
    kind="read",
    on_secondaries=True,
    fields=_FIELDS.plus(Field("indexes", nullable=False)),
)
def plan_cache_set_filter(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Leave certain indexes to queries of a shape."""
    collection = _collection(ctx, command)
    if collection is None:
        raise _bad("no such collection")
    if "indexes" not in command:
        raise _bad("required field indexes missing")
    indexes = command["indexes"]
    if not isinstance(indexes, list):
        raise _bad("required field indexes must be an array")
    if not indexes:
        raise _bad("required field indexes must contain at least one index")
    for each in indexes:
        if type(each) is not str and not isinstance(each, dict):
            raise _bad("each item in indexes must be an object or string")
        if not each:
            raise _bad("index name cannot be empty" if each == "" else "index specification cannot be empty")
    if "query" not in command:
        raise _bad("required field query missing")
    key, shown = _shape(command, collection)
    distinct = [each for number, each in enumerate(indexes) if each not in indexes[:number]]
    collection.index_filters[key] = IndexFilter(shown, distinct)
    return {}


@table.command("planCacheListFilters", kind="read", on_secondaries=True, fields=_FIELDS)
def plan_cache_list_filters(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the index filters of a collection."""
    collection = _collection(ctx, command)
    filters = () if collection is None else collection.index_filters.values()
    return {"filters": [{**each.shown, "indexes": list(each.indexes)} for each in filters]}


@table.command("planCacheClearFilters", kind="read", on_secondaries=True, fields=_FIELDS)
def plan_cache_clear_filters(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Forget the index filter of a shape, or all of a collection."""
    collection = _collection(ctx, command)
    if collection is None:
        return {}
    key = _asked(command, collection)
    if key is None:
        collection.index_filters.clear()
    else:
        collection.index_filters.pop(key, None)
    return {}


def _bad(message: str) -> CommandError:
    return CommandError(ErrorCode.BAD_VALUE, message)


def _collection(ctx: CommandContext, command: Mapping[str, Any]) -> Collection | None:
    ns = namespace(ctx, command)
    collection = ctx.catalog.get(ns)
    if collection is not None and collection.kind != "collection":
        raise not_on_view(ns)
    return collection


def _asked(command: Mapping[str, Any], collection: Collection) -> Any:
    """Return the shape that a command names, None where it means all. Raises `CommandError` 2."""
    if "query" in command:
        return _shape(command, collection)[0]
    if any(name in command for name in ("sort", "projection", "collation")):
        raise _bad("sort, projection or collation provided without query")
    return None


def _shape(command: Mapping[str, Any], collection: Collection) -> tuple[Any, dict[str, Any]]:
    """Return the shape of a command's query as a key and as it is shown. Raises `CommandError` 2."""
    if not isinstance(command["query"], dict | list):
        raise _bad("required field query must be an object")
    parts: dict[str, Any] = {}
    for name in ("query", "sort", "projection", "collation"):
        value = command.get(name, {})
        if not isinstance(value, dict) and not (isinstance(value, list) and name != "collation"):
            raise _bad(f"optional field {name} must be an object")
        # An array is an object whose fields are numbers.
        parts[name] = (
            {str(number): each for number, each in enumerate(value)} if isinstance(value, list) else value
        )
    if "collation" in command and not parts["collation"]:
        raise _bad("optional field collation cannot be an empty object")
    if "collation" in command and "locale" not in parts["collation"]:
        raise CommandError(
            ErrorCode.IDL_FAILED_TO_PARSE,
            "BSON field 'collation.locale' is missing but a required field",
        )
    compile_filter(parts["query"])
    if parts["sort"]:
        check_sort(parts["sort"], natural=True)
    collation = complete(parts.pop("collation")) if "collation" in command else None
    parts.pop("collation", None)
    key = key_of(parts["query"], parts["sort"], parts["projection"], collation or collection.collation)
    return key, parts if collation is None else {**parts, "collation": collation}


def key_of(
    wanted: Mapping[str, Any],
    sort: Mapping[str, Any] | None,
    projection: Mapping[str, Any] | None,
    collation: Mapping[str, Any] | None,
) -> Any:
    """Return the shape of a query as a value that is equal for queries of the same shape."""
    fold = None if not collation else show_document(complete(collation) or {})
    return shape_of(wanted), show_document(sort or {}), show_document(projection or {}), fold


# The shapes of queries, which plans are cached by and which explain hashes.


def shape_of(wanted: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a filter without its values; the order of its conditions does not count."""
    return tuple(sorted(_conditions(wanted), key=repr))


def _conditions(wanted: Mapping[str, Any]) -> Iterator[Any]:
    for name, value in wanted.items():
        if name == "$and" and isinstance(value, list):
            for each in value:
                yield from _conditions(each)
        elif name in _NESTED and isinstance(value, list):
            yield name, tuple(sorted(map(shape_of, value), key=repr))
        elif name.startswith("$"):
            # An expression is opaque to plans; what a schema says is not.
            yield name, repr(value) if name == "$jsonSchema" else ()
        elif isinstance(value, dict) and is_operators(value):
            for operator, inner in value.items():
                yield from ((name, each) for each in _operators(operator, inner))
        else:
            yield name, ("$regex",) if isinstance(value, Regex) else ("$eq",)


def _operators(name: str, value: Any) -> list[tuple[Any, ...]]:
    """Return an operator without its value, as the conditions that it stands for."""
    if name in {"$not", "$elemMatch"} and isinstance(value, dict):
        return [(name, shape_of({"": value} if is_operators(value) else value))]
    if name == "$all" and isinstance(value, list):
        return [("$eq",)] * len(value)
    if name == "$in" and isinstance(value, list) and len(value) == 1:
        return [("$eq",)]
    # Whether a field is there is part of the shape, and so is the null that makes a sparse index useless.
    return [(name, repr(value)) if name == "$exists" or value is None else (name,)]


_SEEN: Final = frozenset(
    {
        *("$group", "$bucket", "$bucketAuto", "$count", "$sortByCount", "$lookup", "$replaceRoot"),
        *("$replaceWith", "$project", "$densify", "$setWindowFields", "$sort"),
    }
)
"""The stages that leave a mark in the plan of the query before them: what they need, or its order."""


def plan_hash(
    wanted: Mapping[str, Any],
    sort: Mapping[str, Any] | None,
    projection: Mapping[str, Any] | None,
    collation: Mapping[str, Any] | None,
    stages: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the hash of the shape by which plans are cached: 8 hexadecimal digits.

    The order of conditions and of a projection's fields does not count, nor do most stages that follow.
    """
    shown = dict(sorted((projection or {}).items()))
    seen = [show_document(stage) for stage in stages[:1] if next(iter(stage), "") in _SEEN]
    return _digest((key_of(wanted, sort, shown, collation), seen))[:8]


def query_hash(command: Mapping[str, Any], name: str, db: str) -> str:
    """Return the hash of a command's shape: all that it asks for in its order, with types for its values."""
    parts: list[tuple[str, Any]] = [(name, (db, first_argument(command)))]
    for field, value in command.items():
        if field in {"filter", "query"} and isinstance(value, dict):
            parts.append((field, _ordered(value)))
        elif field == "pipeline":
            stages = [
                [(part, _ordered(each) if part == "$match" else _typed(each)) for part, each in stage.items()]
                for stage in value
            ]
            parts.append((field, stages))
        elif field in {"sort", "projection", "collation", "key", "hint"}:
            parts.append((field, show_document({"": value})))
    return _digest(parts)


# The plans that collections remember, as documents.


_explaining = at_first_use("fakeserver.commands.queries.explain")

_PLAN_BYTES: Final = 2048
_MOST_BYTES: Final = 1 << 20


def cached_plans(ctx: CommandContext, ns: Namespace) -> list[Document]:
    """Return the remembered plans of a collection as documents."""
    engine, release = ctx.catalog.engine, ctx.node.profile.max_wire_version
    names = ("queryHash", "planCacheShapeHash") if release >= WIRE_80 else ("queryHash",)
    found: list[Document] = []
    for cached in interruptible(list(engine.plan_cache(ns).values())):
        query, works = cached.query, cached.works
        # The plan is kept, its run is not: of that only the number of reads is known.
        explanation = engine.explain(ns, query, run=False)
        explanation = replace(explanation, keys=works, documents=works, returned=works)
        command = _explaining.ExplainedCommand("find", query)
        candidates = (explanation, *explanation.others)
        shape = plan_hash(query.filter, query.sort, query.projection, query.collation)
        asked: Document = {
            "query": dict(query.filter),
            "sort": dict(query.sort or {}),
            "projection": dict(query.projection or {}),
        }
        if query.collation:
            asked["collation"] = dict(query.collation)
        stats = [_explaining.tried(command, each, place) for place, each in enumerate(candidates)]
        found.append(
            {
                "version": "1",
                **dict.fromkeys(names, shape),
                "planCacheKey": shape,
                "isActive": cached.is_active,
                "works": Int64(works + 1),
                **({"worksType": "works"} if release >= WIRE_80 else {}),
                "timeOfCreation": query.now,
                "createdFromQuery": asked,
                "cachedPlan": _explaining.tree(command, explanation),
                "creationExecStats": stats,
                "candidatePlanScores": [each["score"] for each in stats],
                "indexFilterSet": query.allowed is not None,
                "estimatedSizeBytes": Int64(_PLAN_BYTES + weight(asked, _MOST_BYTES)),
                "host": ctx.node.address,
            }
        )
    return found


# The settings of shapes, which are a parameter of the deployment.


_OF_SHAPES: Final = Namespace("config", "clusterParameters")
_NAME: Final = "querySettings"
_KEPT: Final = "settingsArray"
_HASH_DIGITS: Final = 64
_NO_SHAPE: Final = 7746402
_DEFAULT_SETTINGS: Final = 7746604
_BY_ID: Final = 7746606
_INTERNAL: Final = 8584900
_OF_SYSTEM: Final = 8584901
_REJECTS_SOURCE: Final = 8705200
_NO_DB: Final = 8727500
_NO_COLLECTION: Final = 8727501
_NO_SETTINGS: Final = 8727502
_SHAPED: Final = ("find", "distinct", "aggregate")
_HINT: Final = Fields.of(
    Field("ns", "object", required=True, of=Fields.of(Field("db", "string"), Field("coll", "string"))),
    Field("allowedIndexes", "array", required=True),
)
_SETTINGS: Final = Fields.of(
    Field("indexHints", "array|object", of=_HINT),
    Field("queryFramework", "string", choices=("classic", "sbe")),
    Field("reject", "strictBool", nullable=False),
    Field("comment"),
)


@table.command(
    "setQuerySettings",
    kind="write",
    admin_only=True,
    since=WIRE_80,
    fields=Fields.of(Field("setQuerySettings"), Field("settings", "object", required=True, of=_SETTINGS)),
)
def set_query_settings(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Keep settings for queries of a shape."""
    given = command["settings"]
    _check_hints(given)
    query = _shaped(ctx, command)
    if not given:
        raise CommandError(_NO_SETTINGS, "settings field in setQuerySettings command cannot be empty")
    digest = command["setQuerySettings"].upper() if query is None else _hash_of(query)
    if query is not None:
        _check_query(query, rejects=bool(given.get("reject")))
    kept = settings_of_shapes(ctx)
    was = kept.get(digest, {"queryShapeHash": digest, "settings": {}})
    settings = {**was["settings"], **given}
    hints = settings.get("indexHints")
    if hints is not None:
        every = hints if isinstance(hints, list) else [hints]
        settings["indexHints"] = [each for each in every if each["allowedIndexes"]]
    settings = {
        name: value for name, value in settings.items() if value or name not in {"indexHints", "reject"}
    }
    if not settings.keys() - {"comment"}:
        raise CommandError(
            _DEFAULT_SETTINGS, "the resulting settings cannot be empty or contain only default values"
        )
    # The fields of a shape's entry stand in the order of a server's.
    entry: Document = {"queryShapeHash": digest, "settings": settings}
    example = query or was.get("representativeQuery")
    if example is not None:
        entry["representativeQuery"] = example
    _keep(ctx, {**kept, digest: entry})
    return entry


@table.command(
    "removeQuerySettings",
    kind="write",
    admin_only=True,
    since=WIRE_80,
    fields=Fields.of(Field("removeQuerySettings")),
)
def remove_query_settings(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Forget the settings for queries of a shape."""
    query = _shaped(ctx, command)
    digest = command["removeQuerySettings"].upper() if query is None else _hash_of(query)
    kept = settings_of_shapes(ctx)
    if digest in kept:
        _keep(ctx, {name: entry for name, entry in kept.items() if name != digest})
    return {}


def settings_of_shapes(ctx: CommandContext) -> dict[str, Document]:
    """Return the settings of all shapes by their hashes."""
    if ctx.catalog.get(_OF_SHAPES) is None:
        return {}
    found = ctx.catalog.engine.equal(_OF_SHAPES, "_id", _NAME)
    return {entry["queryShapeHash"]: entry for each in found or () for entry in each[_KEPT]}


def check_not_rejected(ctx: CommandContext, request: Mapping[str, Any], name: str) -> None:
    """Refuse a query whose shape is set to be rejected. Raises `CommandError` 411."""
    if ctx.catalog.get(_OF_SHAPES) is None:
        return
    kept = settings_of_shapes(ctx)
    if kept and kept.get(query_hash(request, name, ctx.db), {}).get("settings", {}).get("reject"):
        raise CommandError(ErrorCode.QUERY_REJECTED_BY_SETTINGS, "Query rejected by admin query settings")


def debug_shape(query: Mapping[str, Any]) -> Document:
    """Return the shape of a representative query as `$querySettings` shows it, with types for its values."""
    name = next(iter(query))
    shape: Document = {"cmdNs": {"db": query["$db"], "coll": query[name]}, "command": name}
    for field, value in query.items():
        if field in {"filter", "query"}:
            shape[field] = _shown(value)
        elif field == "pipeline":
            shape[field] = [_shown(each) for each in value]
        elif field not in {name, "$db"}:
            shape[field] = (
                value if field in {"sort", "projection", "collation", "key", "hint"} else _shown(value)
            )
    return shape


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: {"$eq": _shown(each)}
            if not name.startswith("$") and not isinstance(each, dict)
            else _shown(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_shown(each) for each in value]
    typed = _typed(value)
    return typed if typed == value else f"?{typed}"


def _check_hints(settings: Mapping[str, Any]) -> None:
    """Refuse hints that are none, or of no collection. Raises `CommandError` 9, 8727500 or 8727501."""
    hints = settings.get("indexHints", ())
    for hint in hints if isinstance(hints, list | tuple) else [hints]:
        for each in hint["allowedIndexes"]:
            if type(each) is not str and not isinstance(each, dict):
                raise CommandError(ErrorCode.FAILED_TO_PARSE, "Hint must be a string or an object")
        for field, code in (("db", _NO_DB), ("coll", _NO_COLLECTION)):
            if field not in hint["ns"]:
                raise CommandError(code, f"invalid index hint: 'ns.{field}' field is missing")


def _shaped(ctx: CommandContext, command: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the query that a command names as an example of its shape, None where it names a hash.

    Raises `CommandError`: 14 for another type, 2 and 16 for a text that is no hash, 20 on a standalone,
    7746402 for a command without a shape, 40414 without a database, 73 for one without a name.
    """
    named, asked = next(iter(command.items()))
    if type(asked) is not str and not isinstance(asked, dict):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"BSON field '{named}.{named}' is the wrong type '{type_name(asked)}', expected types"
            " '[string, object]'",
        )
    if isinstance(asked, str):
        _check_hash(asked)
    if not ctx.node.is_replicated:
        raise CommandError(
            ErrorCode.ILLEGAL_OPERATION, f"{named} can only run on replica sets or sharded clusters"
        )
    if isinstance(asked, str):
        return None
    name = next(iter(asked), "")
    if name not in _SHAPED:
        raise CommandError(_NO_SHAPE, f"QueryShape can not be computed for command: {show_document(asked)}")
    db = asked.get("$db")
    if db is None:
        raise CommandError(
            ErrorCode.IDL_FAILED_TO_PARSE, f"BSON field '{name}.$db' is missing but a required field"
        )
    if not isinstance(db, str):
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"BSON field '{name}.$db' is the wrong type '{type_name(db)}', expected type 'string'",
        )
    if db == "":
        raise CommandError(ErrorCode.INVALID_NAMESPACE, "Invalid database name: ''")
    fields = ctx.node.commands[name].fields
    if fields is not None:
        fields.check_command(dict(asked))
    named_values = {**dict.fromkeys(asked.get("let") or ()), **ctx.builtins()}
    compile_filter(asked.get("filter") or asked.get("query") or {}, Scope(variables=named_values))
    return {**asked}


def _check_hash(text: str) -> None:
    """Refuse what is no hash of a shape. Raises `CommandError` 2 or 16."""
    if text.strip("0123456789abcdefABCDEF"):
        raise _bad("Hash only accepts strings of hexadecimal digits")
    if len(text) != _HASH_DIGITS:
        raise CommandError(
            ErrorCode.INVALID_LENGTH, f"Hash has the wrong length: {len(text)} digits, not {_HASH_DIGITS}"
        )


def _check_query(query: Mapping[str, Any], *, rejects: bool) -> None:
    """Refuse a query that can have no settings. Raises `CommandError` 8584900 or another code of these."""
    name, collection = next(iter(query.items()))
    if query["$db"] in BUILT_IN:
        raise CommandError(_INTERNAL, "setQuerySettings command cannot be used on internal databases")
    if str(collection).startswith("system."):
        raise CommandError(_OF_SYSTEM, "setQuerySettings command cannot be used on system collections")
    wanted = query.get("filter") or {}
    plain = not any(query.get(part) for part in ("sort", "projection", "hint", "min", "max", "skip", "limit"))
    if (
        name == "find"
        and plain
        and list(wanted) == ["_id"]
        and not isinstance(wanted["_id"], dict | list | Regex)
    ):
        raise CommandError(
            _BY_ID, "setQuerySettings command cannot be used on find queries eligible for IDHACK"
        )
    first = next((stage for stages in query.get("pipeline", ())[:1] for stage in stages), "")
    if rejects and first in _SOURCES:
        raise CommandError(
            _REJECTS_SOURCE, f"Setting {{reject:true}} is forbidden for query containing stage: {first}"
        )


_SOURCES: Final = frozenset(
    {"$querySettings", "$planCacheStats", "$collStats", "$indexStats", "$listSessions", "$currentOp"}
    | {"$queryStats", "$listLocalSessions", "$listSearchIndexes", "$listCatalog", "$operationMetrics"}
)
"""Stages by which an administrator looks for what is wrong: they are never rejected."""


def _hash_of(query: Mapping[str, Any]) -> str:
    return query_hash(query, next(iter(query)), query["$db"])


def _keep(ctx: CommandContext, settings: Mapping[str, Document]) -> None:
    document = {
        "_id": _NAME,
        "clusterParameterTime": ctx.timestamp(),
        _KEPT: list(settings.values()),
    }
    ctx.ensure(_OF_SHAPES)
    ctx.catalog.engine.update(
        _OF_SHAPES,
        Update(StoredQuery({"_id": _NAME}), document, upsert=True),
        accept=lambda change: ctx.applied(_OF_SHAPES, change),
    )


def _digest(shape: Any) -> str:
    return hashlib.sha256(repr(shape).encode()).hexdigest().upper()


def _ordered(wanted: Mapping[str, Any]) -> list[Any]:
    """Return a filter with types for its values, in its order, all conditions in one list."""
    found: list[Any] = []
    for name, value in wanted.items():
        if name == "$and" and isinstance(value, list):
            found += [condition for each in value for condition in _ordered(each)]
        elif name in _NESTED and isinstance(value, list):
            found.append((name, [_ordered(each) for each in value]))
        elif name == "$jsonSchema":
            found.append((name, repr(value)))
        elif name.startswith("$"):
            found.append((name, _typed(value)))
        elif isinstance(value, dict) and is_operators(value):
            found += [(name, operator, _operand(operator, inner)) for operator, inner in value.items()]
        else:
            found.append((name, "$regex" if isinstance(value, Regex) else "$eq", _typed(value)))
    return found


def _operand(name: str, value: Any) -> Any:
    if name == "$type":
        return repr(value if isinstance(value, list) else [value])
    if name == "$exists":
        return repr(value)
    if name in {"$in", "$nin"} and isinstance(value, list):
        return sorted({repr(_typed(each)) for each in value})
    if name in {"$not", "$elemMatch"} and isinstance(value, dict):
        return _ordered({"": value} if is_operators(value) else value)
    return _typed(value)


def _typed(value: Any) -> Any:
    """Return a value with types for its literals; fields, operators and paths are kept."""
    if isinstance(value, dict):
        return [(name, _typed(each)) for name, each in value.items()]
    if isinstance(value, list):
        return [_typed(each) for each in value]
    if type(value) is str and value.startswith("$"):
        return value
    return "number" if is_number(value) else type_name(value)

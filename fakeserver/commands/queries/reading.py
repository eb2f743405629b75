"""Functions that the commands which select documents share.

Namespaces, UUIDs, hints, collations, variables, views and the time of a snapshot: each rule stands here once,
so that find, count, distinct, aggregate and the writes agree on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.queries.plan_cache import key_of
from fakeserver.errors import CommandError
from fakeserver.profile import WIRE_70, WIRE_80, WIRE_82
from fakeserver.storage.expressions.compiler import compile_expression
from fakeserver.storage.expressions.forms import check_variable
from fakeserver.storage.expressions.functions import is_constant
from fakeserver.storage.plans.index_keys import holds_path, is_wildcard
from fakeserver.storage.port.engine import Namespace, Query, Scope
from fakeserver.storage.store.catalog import involved
from fakeserver.storage.values.collation import complete
from fakeserver.storage.values.printing import show_document
from fakeserver.storage.values.types import exact, is_number, order
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bson import Timestamp

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document, IndexSpec
    from fakeserver.storage.store.catalog import Collection

NATURAL: Final = "$natural"


def check_hint(
    collection: Collection | None, hint: Any, ns: Namespace, query: Mapping[str, Any] | None
) -> Any:
    """Return a hint as an index's name or `$natural`.

    Raises `CommandError` 2 for no such index, and for one that is hidden; 291 for a wildcard index that holds
    no path of the query. `query` is None where it is not known.
    """
    # A missing collection has no index to miss: the command finds nothing, whatever the hint.
    if hint is None or hint == {} or collection is None:
        return hint or None
    if isinstance(hint, dict) and next(iter(hint)) == NATURAL:
        direction = hint[NATURAL]
        if len(hint) != 1 or not is_number(direction) or exact(direction) not in (1, -1):
            raise CommandError(ErrorCode.BAD_VALUE, "$natural hint must be set to 1 or -1, and stand alone")
        return {NATURAL: int(exact(direction))}
    for index in collection.indexes.values():
        # A hidden index does not exist for queries, a hint included; writes keep it up.
        if index.document.get("hidden"):
            continue
        if hint == index.name or (isinstance(hint, dict) and same_key(hint, index.key)):
            if query is not None and is_wildcard(index.key) and not _reaches(index, query):
                raise CommandError(
                    ErrorCode.NO_QUERY_EXECUTION_PLANS,
                    f"error processing query: ns={ns}Tree: {show_document(query)}\nSort: {{}}\nProj: {{}}\n"
                    " No query solutions",
                )
            return index.name
    raise CommandError(
        ErrorCode.BAD_VALUE,
        f"error processing query: ns={ns}Tree: {show_document(query or {})}\nSort: {{}}\nProj: {{}}\n "
        "planner returned "
        "error :: caused by :: hint provided does not correspond to an existing index",
    )


def _reaches(index: IndexSpec, query: Mapping[str, Any]) -> bool:
    """Return whether a query has a condition on a path that a wildcard index holds."""
    projected = index.document.get("wildcardProjection")
    for path, condition in query.items():
        if path == "$and" and isinstance(condition, list):
            if any(_reaches(index, branch) for branch in condition):
                return True
        elif path == "$or" and isinstance(condition, list):
            if all(_reaches(index, branch) for branch in condition):
                return True
        elif not path.startswith("$") and (path in index.key or holds_path(index.key, projected, path)):
            return True
    return False


def same_key(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two keys have the same fields in the same order, and numbers that compare equal."""
    return order(dict(one)) == order(dict(other))


def query_of(
    ctx: CommandContext,
    statement: Mapping[str, Any],
    collection: Collection | None,
    *,
    view: Collection | None = None,
    **parts: Any,
) -> Query:
    """Return the query of a command or a statement: collation (or the collection's), `let`, time.

    `view` is what the command names where that is no collection: its collation counts, not that of what it
    stands on.
    """
    collation = collation_of(statement, view or collection)
    # Since 8.2 a pipeline's variables are computed before the command has a time.
    timeless = "pipeline" in statement and ctx.node.profile.max_wire_version >= WIRE_82
    if collection is not None and collection.index_filters:
        parts |= _restricted(collection, collation, parts)
    return Query(
        collation=collation,
        let=variables(ctx, statement.get("let"), timeless=timeless),
        now=ctx.present(),
        cluster_time=ctx.cluster_time(),
        make_id=ctx.object_id,
        scripts=ctx.scripts,
        indexes=indexes_of(collection),
        allow_disk_use=statement.get("allowDiskUse", True),
        release=ctx.node.profile.max_wire_version,
        **parts,
    )


def _restricted(
    collection: Collection, collation: Mapping[str, Any] | None, parts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the parts of a query that an index filter for its shape decides: its indexes, and no hint."""
    key = key_of(parts.get("filter") or {}, parts.get("sort"), parts.get("projection"), collation)
    found = collection.index_filters.get(key)
    if found is None:
        return {}
    allowed = frozenset(index.name for index in collection.indexes.values() if found.allows(index))
    # Bounds are those of the hinted index: without it they would bound nothing.
    bounded = parts.get("minimum") or parts.get("maximum")
    return {"allowed": allowed} if bounded else {"allowed": allowed, "hint": None}


def indexes_of(collection: Collection | None) -> tuple[IndexSpec, ...]:
    """Return a collection's indexes."""
    return () if collection is None else tuple(collection.indexes.values())


def collation_of(statement: Mapping[str, Any], collection: Collection | None) -> Mapping[str, Any] | None:
    """Return the collation that a command or a statement gives, else that of the collection."""
    return statement.get("collation") or (collection.collation if collection is not None else None)


def view_of(
    ctx: CommandContext,
    ns: Namespace,
    statement: Mapping[str, Any],
    pipeline: Sequence[Mapping[str, Any]] = (),
) -> Collection | None:
    """Return the view that a command reads, None where it reads a collection.

    Raises `CommandError` 167 where the view, or one that a stage of the pipeline names, has another collation
    than the command.
    """
    named = ctx.catalog.get(ns)
    view = named if named is not None and named.is_view else None
    own = statement.get("collation")
    if view is not None and own and complete(own) != view.collation:
        raise CommandError(
            ErrorCode.OPTION_NOT_SUPPORTED_ON_VIEW, "Cannot override a view's default collation"
        )
    for other in involved(ns.db, pipeline):
        found = ctx.catalog.get(other)
        if found is None or not found.is_view:
            continue
        if found.collation != complete(collation_of(statement, named)):
            raise CommandError(
                ErrorCode.OPTION_NOT_SUPPORTED_ON_VIEW, f"Cannot override default collation of view {other}"
            )
    return view


_LET_READS_FIELD: Final = 4890500
_SYSTEM_VARIABLE: Final = 4738901
_OF_SYSTEM: Final = frozenset({"NOW", "CLUSTER_TIME"})


def variables(
    ctx: CommandContext, let: Mapping[str, Any] | None, *, timeless: bool = False
) -> dict[str, Any] | None:
    """Return the values of `let`, whose expressions see no document but the variables before them.

    `timeless` leaves out `$$NOW` and `$$CLUSTER_TIME`. Raises `CommandError`: 4890500 for a field, 4738901
    for a system variable's name, 9 for one that is no name of a variable, and what an expression fails with.
    """
    if not let:
        return None
    # Evaluated once for the command, so that $rand or $$NOW is the same for every document.
    release = ctx.node.profile.max_wire_version
    builtins = {} if timeless else ctx.builtins()
    scope = Scope(variables=builtins, rng=ctx.node.rng, release=release)
    values = {}
    for name, value in let.items():
        evaluate = compile_expression(value, scope)
        if not is_constant(value, changing=()):
            raise CommandError(
                _LET_READS_FIELD,
                "Command let Expression tried to access a field, but this is not allowed because Command let"
                " expressions run before the query examines any documents.",
            )
        if name in _OF_SYSTEM:
            raise CommandError(_SYSTEM_VARIABLE, f"Cannot set the system variable '{name}'")
        if name != "CURRENT":
            check_variable(name)
        values[name] = evaluate(scope.frame({}))
        scope = scope.binding({name: values[name]})
    return values


def while_finding(ctx: CommandContext, ns: Namespace) -> str:
    """Return what a release says ahead of an error that a plan of find ran into."""
    named = f": {ns}" if ctx.node.profile.max_wire_version >= WIRE_70 else ""
    return f"Executor error during find command{named}"


def while_aggregating(ctx: CommandContext, ns: Namespace) -> str:
    """Return what a release says ahead of an error that a pipeline ran into."""
    if ctx.node.profile.max_wire_version >= WIRE_80:
        return f"Executor error during aggregate command on namespace: {ns}"
    return "PlanExecutor error during aggregation"


def reader(ctx: CommandContext, db: str) -> Callable[[Any], list[Document]]:
    """Return the function by which a stage reads another collection, or a view, of the same database."""

    def read(name: Any) -> list[Document]:
        target = Namespace(name["db"], name["coll"]) if isinstance(name, dict) else Namespace(db, name)
        ns, pipeline, collection = ctx.catalog.resolve(target)
        # What a view of another database names is of that database.
        inner = read if target.db == db else reader(ctx, target.db)
        options = query_of(
            ctx,
            {},
            collection,
            view=view_of(ctx, target, {}),
            read=inner,
            indexes_of=reader_of_indexes(ctx, target.db),
        )
        return ctx.catalog.engine.aggregate(ns, pipeline, options=options)

    return read


def reader_of_indexes(ctx: CommandContext, db: str) -> Callable[[Any], Sequence[IndexSpec]]:
    """Return the function by which a stage sees the indexes of another collection."""

    def indexes(name: Any) -> Sequence[IndexSpec]:
        target = Namespace(name["db"], name["coll"]) if isinstance(name, dict) else Namespace(db, name)
        return indexes_of(ctx.catalog.resolve(target)[2])

    return indexes


def indexed_reader(ctx: CommandContext, db: str) -> Callable[[Any, str, Any], list[Document] | None]:
    """Return the function by which a stage asks an index of another collection."""

    def look_up(name: Any, path: str, value: Any) -> list[Document] | None:
        target = Namespace(name["db"], name["coll"]) if isinstance(name, dict) else Namespace(db, str(name))
        collection = ctx.catalog.get(target)
        if collection is None or collection.is_view:
            return None
        return ctx.catalog.engine.equal(target, path, value)

    return look_up


def snapshot_time(ctx: CommandContext, request: Mapping[str, Any]) -> Timestamp | None:
    """Return the time of a snapshot read outside transactions, None for other reads."""
    concern = request.get("readConcern") or {}
    # A transaction has one snapshot for all its statements, and its replies do not tell the time of it.
    if concern.get("level") != "snapshot" or "autocommit" in request:
        return None
    time: Timestamp | None = concern.get("atClusterTime")
    return time if time is not None else ctx.node.committed().optime.timestamp

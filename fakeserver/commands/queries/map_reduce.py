"""The mapReduce command: documents mapped to values by key, and each key's values reduced to one.

Behaviour: The functions are checked (2), then `out` (2), then the command waits while an open transaction
uses the target. Documents are selected as by a pipeline of `$match`, `$sort` and `$limit`, mapped one by one,
and grouped by equal keys; a key with one value is not reduced. Results come in the order of their keys and
are returned, replace the target as `$out` does, or are merged into it as `$merge` does; `reduce` reduces them
with what the target holds. It runs on a primary unless its output is `inline`. Scripts that sleep have the
command wait before it writes anything.

Versions: The same in every release; servers deprecate the command since 5.0.

Not modelled: `jsMode`, `verbose`, `sharded` and `nonAtomic` are accepted and have no effect. Without the
extra `javascript` only the functions that the public driver tests send are known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.context import namespace
from fakeserver.commands.queries.output_stages import Merge, Out
from fakeserver.commands.queries.reading import query_of, reader
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from fakeserver.storage.expressions.scripted import is_code
from fakeserver.storage.port.engine import Namespace, Query
from fakeserver.storage.values.pacing import sorted_at_leisure
from fakeserver.storage.values.types import order, type_name
from fakeserver.waiting.first_use import at_first_use
from fakeserver.waiting.interrupts import interruptible
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.port.engine import Document


table = CommandTable()

_javascript = at_first_use("fakeserver.storage.scripts.javascript")

_WAYS: Final = ("replace", "merge", "reduce")
_OUT_OPTIONS: Final = frozenset({*_WAYS, "inline", "db", "sharded", "nonAtomic"})


@table.command(
    "mapReduce",
    kind="read",
    aliases=("mapreduce",),
    fields=Fields.of(
        Field("map", required=True),
        Field("reduce", required=True),
        Field("out", "object|string", required=True),
        Field("query", "object"),
        Field("sort", "object"),
        Field("collation", "object"),
        Field("limit", "long", minimum=0),
        Field("finalize"),
        Field("scope", "object"),
        Field("verbose", "bool"),
        Field("bypassDocumentValidation", "bool"),
        Field("jsMode", "bool"),
        target="collection",
    ),
    write_concern=True,
)
def map_reduce(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Map documents to values by key, and reduce those of each key to one; inline or into a collection."""
    functions = {name: _code(request, name) for name in ("map", "reduce", "finalize")}
    way, target = _output(ctx, request["out"])
    if target is not None and ctx.node.transactions.blocks([str(target)]):
        raise ctx.node.transactions.wait(ctx.now, ctx.request.deadline)
    results = _results(ctx, request, functions, existing=target if way == "reduce" else None)
    ctx.scripts.settle()  # scripts that slept have the command wait before it writes
    if target is None:
        return {"results": results}
    checked = not request.get("bypassDocumentValidation", False)
    if way == "replace":
        Out(ctx, target, checked).write(results)
    else:
        options = query_of(ctx, request, None)
        Merge(ctx, target, checked, ("_id",), "replace", "insert", {}, options).write(results)
    if isinstance(request["out"], dict) and "db" in request["out"]:
        return {"result": {"db": target.db, "collection": target.collection}}
    return {"result": target.collection}


def _code(request: Mapping[str, Any], name: str) -> str | None:
    value = request.get(name)
    if value is None and name == "finalize":
        return None
    if not is_code(value):
        raise CommandError(
            ErrorCode.BAD_VALUE, f"'{name}' must be of string or code type, not {type_name(value)}"
        )
    return str(value)


def _output(ctx: CommandContext, out: Any) -> tuple[str, Namespace | None]:
    """Return how and where the results go: nowhere if inline. Raises `CommandError`."""
    if type(out) is str:
        out = {"replace": out}
    unknown = next((name for name in out if name not in _OUT_OPTIONS), None)
    if unknown is not None:
        raise CommandError(ErrorCode.BAD_VALUE, f"invalid specification for mapReduce 'out': {unknown}")
    ways = [name for name in ("inline", *_WAYS) if name in out]
    if len(ways) != 1:
        raise CommandError(
            ErrorCode.BAD_VALUE, "'out' requires one of 'inline', 'replace', 'merge', 'reduce'"
        )
    if ways == ["inline"]:
        if "db" in out:
            raise CommandError(ErrorCode.BAD_VALUE, "'db' is not supported when output mode is 'inline'")
        return "inline", None
    name, db = out[ways[0]], out.get("db", ctx.db)
    if type(name) is not str or type(db) is not str:
        raise CommandError(ErrorCode.BAD_VALUE, f"'{ways[0]}' and 'db' must be strings")
    return ways[0], Namespace(db, name)


def _results(
    ctx: CommandContext,
    request: Mapping[str, Any],
    functions: Mapping[str, str | None],
    *,
    existing: Namespace | None,
) -> list[Document]:
    mapped, reduced, finalized = (functions[name] for name in ("map", "reduce", "finalize"))
    assert mapped is not None
    assert reduced is not None
    if not _javascript.available() and ctx.node.javascript and finalized is None and existing is None:
        shortcut = known_functions(mapped, reduced)
        if shortcut is not None:
            return shortcut(_documents(ctx, request))
    for name, value in (request.get("scope") or {}).items():
        ctx.scripts.define(name, value)
    map_one, reduce = ctx.scripts.function(mapped), ctx.scripts.function(reduced)
    finalize = ctx.scripts.function(finalized) if finalized is not None else None
    groups: dict[Any, tuple[Any, list[Any]]] = {}
    for document in interruptible(_documents(ctx, request)):
        for key, value in map_one(document, []).emitted:
            groups.setdefault(order(key), (key, []))[1].append(value)
    results = []
    # In the order of keys, and a single value is not reduced: what a server's sort and group do.
    for order_key in interruptible(sorted_at_leisure(list(groups))):
        key, values = groups[order_key]
        if existing is not None:  # the value that it holds for the key is reduced as well
            found = ctx.catalog.engine.find(existing, Query({"_id": {"$eq": key}}, limit=1))
            values = [*(document.get("value") for document in found), *values]
        value = values[0] if len(values) == 1 else reduce({}, [key, values]).value
        results.append({"_id": key, "value": value if finalize is None else finalize({}, [key, value]).value})
    return results


def _documents(ctx: CommandContext, request: Mapping[str, Any]) -> list[Document]:
    source, view, collection = ctx.catalog.resolve(namespace(ctx, request))
    options = query_of(ctx, request, collection, read=reader(ctx, ctx.db))
    stages: list[Mapping[str, Any]] = [*view, {"$match": request.get("query") or {}}]
    if request.get("sort"):
        stages.append({"$sort": request["sort"]})
    if request.get("limit"):
        stages.append({"$limit": request["limit"]})
    return ctx.catalog.engine.aggregate(source, stages, options=options)


# The mapReduce that the public driver tests send, run without JavaScript: it adds 1 and sums up.
#
# It is used only where no JavaScript engine is installed, so that those tests run on a plain installation.
# The functions are recognised by their text, spaces aside; results are doubles, as JavaScript's numbers are.

_MAP: Final = re.compile(r"function\s*\w*\(\)\{return emit\(0,this\.(\w+)\+1\);?\}")
_REDUCE: Final = re.compile(
    r"function\s*\w*\((\w+),(\w+)\)\{return \2\.reduce\(\((\w+),(\w+)\)=>\3\+\4\);?\}"
)
_SPACES: Final = re.compile(r"\s*([(){}+,;=>])\s*")


def known_functions(mapped: str, reduced: str) -> Callable[[Sequence[Document]], list[Document]] | None:
    """Return what a pair of functions makes of documents, None for functions that are not known."""
    field, summed = _fit(mapped, _MAP), _fit(reduced, _REDUCE)
    if field is None or summed is None:
        return None
    name = field.group(1)

    def results(documents: Sequence[Document]) -> list[Document]:
        found = (document.get(name) for document in documents)
        # What is no number is NaN, as in JavaScript, where true is 1.
        values = [each + 1 if isinstance(each, int | float) else float("nan") for each in found]
        return [{"_id": 0.0, "value": float(sum(values))}] if values else []

    return results


def _fit(function: str, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """Return how a function's text, spaces aside, fits a pattern."""
    return pattern.fullmatch(_SPACES.sub(r"\1", function.strip()))

"""The mapReduce command, as far as a server without JavaScript can go.

The functions that specification tests send are known by their text: they add 1 to a field and sum up. Any
other function is refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.reading import namespace, query_of, reader
from fakeserver.commands.table import CommandTable, Reply
from fakeserver.errors import CommandError
from fakeserver.idl import Field, Fields
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fakeserver.commands.context import CommandContext
    from fakeserver.storage.engine import Document

table = CommandTable()

_MAP: Final = re.compile(r"function\s*\w*\(\)\{return emit\(0,this\.(\w+)\+1\);?\}")
_REDUCE: Final = re.compile(
    r"function\s*\w*\((\w+),(\w+)\)\{return \2\.reduce\(\((\w+),(\w+)\)=>\3\+\4\);?\}"
)
_SPACES: Final = re.compile(r"\s*([(){}+,;=>])\s*")


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
        Field("verbose", "bool"),
        Field("bypassDocumentValidation", "bool"),
        Field("jsMode", "bool"),
        target="collection",
    ),
    write_concern=True,
)
def map_reduce(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Sum up what a known function makes of each document, inline."""
    if not isinstance(request["out"], dict) or request["out"].get("inline") != 1:
        raise _refused("writes no results to collections: give out: {inline: 1}")
    mapped, reduced = _known(request["map"], _MAP), _known(request["reduce"], _REDUCE)
    if mapped is None or reduced is None:
        raise _refused("runs no JavaScript but the functions of the specification tests")
    source, view, collection = ctx.catalog.resolve(namespace(ctx, request))
    options = query_of(ctx, request, collection, read=reader(ctx, ctx.db))
    documents = ctx.catalog.engine.aggregate(source, [*view, *_selected(request)], options=options)
    values = [_incremented(document, mapped.group(1)) for document in documents]
    return {"results": [{"_id": 0.0, "value": float(sum(values))}] if values else []}


def _selected(request: dict[str, Any]) -> Iterable[Document]:
    yield {"$match": request.get("query") or {}}
    if request.get("sort"):
        yield {"$sort": request["sort"]}
    if request.get("limit"):
        yield {"$limit": request["limit"]}


def _known(function: Any, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """Return how a function's text, spaces aside, fits a pattern."""
    return pattern.fullmatch(_SPACES.sub(r"\1", str(function).strip()))


def _incremented(document: Document, field: str) -> float:
    value = document.get(field)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _refused(f"adds 1 to numbers only: {field} is not one in every document")
    return value + 1


def _refused(why: str) -> CommandError:
    return CommandError(ErrorCode.NOT_IMPLEMENTED, f"mapReduce: this fake server {why}")

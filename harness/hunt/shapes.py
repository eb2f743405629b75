"""The shape of a statement: keys and operators in order, values left out.

Two requests of one line of a program have one shape, whatever they ask for. Keys that hold an id or a number
(`stock.42`) are values that stand in a key's place, and become a star.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_DEPTH: Final = 3
"""Documents that are nested deeper are shown as `{…}`."""
_KEYS: Final = 8
"""So many keys of a document are shown."""
_STAGES: Final = 6
_VARIABLE: Final = re.compile(r"(?<![^.])(?:\d+|[0-9a-f]{24}|[0-9a-f]{8}-[0-9a-f-]{27})(?![^.])")
"""The parts of a key that are values."""
_ROUTE: Final = re.compile(r"((?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS) )(/[\w./~%{}<>*:-]*)(?:\?.*)?")
"""A comment that says which handler of a service asks."""


def shape_of(command: Mapping[str, Any]) -> str:
    """Return the shape of a command's statement, "" for a command without one."""
    name = next(iter(command), "")
    make = _SHAPES.get(name)
    return "" if make is None else make(command)


def document_shape(value: Any, depth: int = _DEPTH) -> str:
    """Return the shape of a document: its keys, with the shapes of documents below them."""
    if not hasattr(value, "items"):
        return ""
    if not value:
        return "{}"
    if not depth:
        return "{…}"
    shown = [_entry(_VARIABLE.sub("*", key), each, depth) for key, each in value.items() if key != "_id"]
    if "_id" in value and hasattr(value["_id"], "items"):
        shown.insert(0, _entry("_id", value["_id"], depth))
    elif "_id" in value:
        shown.insert(0, "_id")
    more = ["…"] if len(shown) > _KEYS else []
    return "{" + ", ".join([*shown[:_KEYS], *more]) + "}"


def namespace_of(command: Mapping[str, Any]) -> str:
    """Return the collection that a command is about, `db.collection`, or its database."""
    name = next(iter(command), "")
    db = command.get("$db", "")
    if name == "bulkWrite":
        return ", ".join(dict.fromkeys(str(each.get("ns", "")) for each in command.get("nsInfo", ())))
    target = command.get("collection") if name == "getMore" else command[name] if command else None
    return f"{db}.{target}" if isinstance(target, str) else str(db)


def handler_of(command: Mapping[str, Any]) -> str:
    """Return the route whose handler sends a command, as its comment says: `POST /orders/*`, or "".

    A part of the path with a digit is taken for a value.
    """
    found = _ROUTE.fullmatch(str(command.get("comment", "")))
    if found is None:
        return ""
    parts = found[2].rstrip(":").split("/")
    return found[1] + "/".join("*" if any(map(str.isdigit, part)) else part for part in parts)


def ids_of(command: Mapping[str, Any]) -> list[Any]:
    """Return the values of `_id` by which a command names documents: those that it inserts, and asks for."""
    named = [*command.get("documents", ()), command.get("filter"), command.get("query")]
    named += [each.get("q") for name in ("updates", "deletes") for each in command.get(name, ())]
    return [each["_id"] for each in named if hasattr(each, "items") and "_id" in each]


def _entry(key: str, value: Any, depth: int) -> str:
    # Where a key has a dollar, those below are part of a statement, and not of the data that it carries.
    is_document = hasattr(value, "items")
    is_telling = is_document and (key.startswith("$") or any(str(each).startswith("$") for each in value))
    inner = document_shape(value, depth - 1) if is_telling else ""
    return f"{key}: {inner}" if inner else key


def _pipeline(stages: Any) -> str:
    if not isinstance(stages, list):
        return document_shape(stages)
    shown = [document_shape(each, _DEPTH) for each in stages[:_STAGES]]
    return "[" + ", ".join([*shown, *(["…"] if len(stages) > _STAGES else [])]) + "]"


def _distinct(shapes: Iterable[str]) -> str:
    """Return the shapes of several statements, each once."""
    return " ".join(dict.fromkeys(shapes))


def _find(command: Mapping[str, Any]) -> str:
    order = document_shape(command.get("sort"))
    return document_shape(command.get("filter", {})) + (f" sort {order}" if order else "")


def _updates(command: Mapping[str, Any]) -> str:
    return _distinct(
        f"{document_shape(each.get('q', {}))} → {_pipeline(each.get('u', {}))}"
        for each in command.get("updates", ())
    )


def _modify(command: Mapping[str, Any]) -> str:
    change = "remove" if command.get("remove") else _pipeline(command.get("update", {}))
    return f"{document_shape(command.get('query', {}))} → {change}"


def _bulk(command: Mapping[str, Any]) -> str:
    return _distinct(next(iter(each), "") for each in command.get("ops", ()))


_SHAPES: Final = {
    "insert": lambda command: _distinct(document_shape(each, 1) for each in command.get("documents", ())),
    "update": _updates,
    "delete": lambda command: _distinct(
        document_shape(each.get("q", {})) for each in command.get("deletes", ())
    ),
    "find": _find,
    "aggregate": lambda command: _pipeline(command.get("pipeline", [])),
    "count": lambda command: document_shape(command.get("query", {})),
    "distinct": lambda command: f"{command.get('key')} {document_shape(command.get('query', {}))}",
    "findAndModify": _modify,
    "findandmodify": _modify,
    "bulkWrite": _bulk,
}

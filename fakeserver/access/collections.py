"""Privileges of the commands that write documents, and that make, change and rename collections and views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Decimal128

from fakeserver.access.ask import is_set
from fakeserver.access.pipelines import pipeline_needs, with_bypass
from fakeserver.access.privileges import Resource
from fakeserver.errors import CommandError
from fakeserver.idl.fields import whole
from fakeserver.storage.port.engine import Namespace
from fakeserver.storage.values.printing import show_document
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fakeserver.access.ask import Ask, Need, Rule

_OUTPUTS: Final[Mapping[str, tuple[str, ...]]] = {
    "replace": ("insert", "remove"),
    "merge": ("insert", "update"),
    "reduce": ("insert", "update"),
}
"""The ways of `mapReduce` to write its results."""


_BULK: Final[Mapping[str, tuple[str, ...]]] = {
    "insert": ("insert",),
    "update": ("update",),
    "delete": ("remove",),
}
_NUMBERS: Final = (int, float, Decimal128)


def writing(*actions: str) -> Rule:
    """Return the rule of a command that writes documents of its collection."""
    return lambda ask: ask.may(ask.collection, *with_bypass(ask.command, *actions))


def may_update(ask: Ask) -> bool:
    """Permit updates; those that may insert need that too."""
    upserts = any(is_set(each, "upsert") for each in ask.command["updates"])
    actions = ("update", "insert") if upserts else ("update",)
    return ask.may(ask.collection, *with_bypass(ask.command, *actions))


def may_find_and_modify(ask: Ask) -> bool:
    """Permit to read and to change, as the command does."""
    command = ask.command
    actions = ["find", "remove" if is_set(command, "remove") else "update"]
    if is_set(command, "upsert"):
        actions.append("insert")
    return ask.may(ask.collection, *with_bypass(command, *actions))


def may_map_reduce(ask: Ask) -> bool:
    """Permit to read, and to write to the collection that the results go to."""
    return ask.may_all(_map_reduce(ask))


def _map_reduce(ask: Ask) -> Iterator[Need]:
    yield ask.collection, ("find",)
    out = ask.command["out"]
    target = out if isinstance(out, dict) else {"replace": out}
    for way in _OUTPUTS:
        if way in target:
            resource = Resource(str(target.get("db", ask.db)), str(target[way]))
            yield resource, with_bypass(ask.command, *_OUTPUTS[way])


def may_bulk_write(ask: Ask) -> bool:
    """Permit each operation on its collection. Raises `CommandError` 2 for one that names none."""
    namespaces = [Namespace.parse(each["ns"]) for each in ask.command["nsInfo"]]
    needed: dict[Need, None] = {}
    for operation in ask.command["ops"]:
        kind = next(iter(operation), "")
        if kind not in _BULK:
            continue  # refused as a whole, before anything is written
        # An index may be any BSON number: it is read as the command does.
        index = whole(operation[kind]) if isinstance(operation[kind], _NUMBERS) else -1
        if not 0 <= index < len(namespaces):
            raise CommandError(
                ErrorCode.BAD_VALUE,
                f"BulkWrite ops entry {show_document(operation)} has an invalid nsInfo index.",
            )
        upsert = kind == "update" and is_set(operation, "upsert")
        actions = (*_BULK[kind], "insert") if upsert else _BULK[kind]
        actions = actions if kind == "delete" else with_bypass(ask.command, *actions)
        needed[Resource(*namespaces[index]), actions] = None
    return ask.may_all(iter(needed))


def may_create(ask: Ask) -> bool:
    """Permit to make a collection, also to those who may insert into it; a view needs more."""
    command, made = ask.command, ask.collection
    if is_set(command, "capped") and not ask.may(made, "convertToCapped"):
        return False
    if "viewOn" in command:
        return ask.may(made, "createCollection") and _may_read_through(ask)
    return ask.may(made, "createCollection") or ask.may(made, "insert")


def may_modify(ask: Ask) -> bool:
    """Permit to change a collection; a view needs more. Raises `CommandError` 72 for half of a view."""
    if not ask.may(ask.collection, "collMod"):
        return False
    parts = {"viewOn", "pipeline"} & ask.command.keys()
    if len(parts) == 1:
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            "Must specify both 'viewOn' and 'pipeline' when modifying a view and auth is enabled",
        )
    return not parts or _may_read_through(ask)


def _may_read_through(ask: Ask) -> bool:
    """Return whether a client may have this view: one that it can read shows nothing that it may not see."""
    if not ask.may(ask.collection, "find"):
        return True
    pipeline: Sequence[Any] = ask.command.get("pipeline", ())
    source = Resource(ask.db, ask.command["viewOn"])
    return ask.may_all(pipeline_needs(ask, source, list(pipeline)))


def may_rename(ask: Ask) -> bool:
    """Permit it within a database by one action, else as reading, dropping and inserting.

    Nobody may turn a collection that it cannot read into one that it can.
    """
    source, target = (Resource(*Namespace.parse(name)) for name in (ask.target, ask.command["to"]))
    replaces = bool(ask.command.get("dropTarget"))
    ordinary = not any(each.collection.startswith("system.") for each in (source, target))
    if source.db == target.db and ordinary:
        renames = ask.may(Resource(source.db), "renameCollectionSameDB")
        drops = not replaces or ask.may(target, "dropCollection")
        if renames and drops and (ask.may(source, "find") or not ask.may(target, "find")):
            return True
    made = ("insert", "createIndex", "dropCollection") if replaces else ("insert", "createIndex")
    return ask.may(source, "find", "dropCollection") and ask.may(target, *made)

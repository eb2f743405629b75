"""Commands about databases, collections and indexes, and commands of the user's own making."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from driver.concerns import PRIMARY_PREFERRED, Concerns, ReadPreference
from driver.operations.base import Kind, Operation, Target, first_name, fixed
from driver.operations.options import checked
from driver.operations.reads import read
from driver.operations.writes import write

if TYPE_CHECKING:
    from collections.abc import Mapping

    Document = Mapping[str, Any]


def run_command(database: str, command: Document, read_preference: ReadPreference | None) -> Operation:
    """Return the user's runCommand as it is: not inspected, no concerns, no transaction id.

    The read preference is not inherited: without one the command goes to a writable server.

    Obeys RW-34.
    """
    return Operation(
        database,
        Kind.GENERIC,
        fixed(command),
        read_preference=read_preference or ReadPreference(),
        raises_write_concern_error=False,
        name=first_name(command),
    )


def list_databases(options: Document) -> Operation:
    """Return a `listDatabases`."""
    return _listing("admin", {"listDatabases": 1, **checked("listDatabases", options)})


def list_collections(database: str, options: Document, *, name_only: bool) -> Operation:
    """Return a `listCollections`; names only cost the server no locks."""
    given = checked("listCollections", options)
    names = {"nameOnly": True} if name_only else {}
    return _listing(database, {"listCollections": 1, **_cursor_field(given), **names, **given})


def list_indexes(target: Target, options: Document) -> Operation:
    """Return a `listIndexes`."""
    given = checked("listIndexes", options)
    return _listing(target.database, {"listIndexes": target.collection, **_cursor_field(given), **given})


def _cursor_field(given: dict[str, Any]) -> dict[str, Any]:
    batch_size = given.pop("batchSize", None)
    return {"cursor": {} if batch_size is None else {"batchSize": batch_size}}


def _listing(database: str, command: Document) -> Operation:
    """Return a list's command: it goes to the primary, and is a retryable read."""
    return read(Target(database, 1, Concerns()), command, takes_read_concern=False)


def create_index(target: Target, keys: Document, index: Document, options: Document) -> tuple[Operation, str]:
    """Return a `createIndexes` of one index, and the name that it gets."""
    name = index.get("name") or "_".join(f"{field}_{direction}" for field, direction in keys.items())
    specification = {"key": dict(keys), **index, "name": name}
    given = checked("createIndexes", options)
    command = {"createIndexes": target.collection, "indexes": [specification], **given}
    return write(target, command, retryable=False), str(name)


def drop_indexes(target: Target, index: str | Document, options: Document) -> Operation:
    """Return a `dropIndexes`; `*` drops all but the one on `_id`."""
    command = {"dropIndexes": target.collection, "index": index, **checked("dropIndexes", options)}
    return write(target, command, retryable=False)


def create_collection(target: Target, options: Document) -> Operation:
    """Return a `create`."""
    command = {"create": target.collection, **checked("createCollection", options)}
    return write(target, command, retryable=False)


def modify_collection(target: Target, options: Document) -> Operation:
    """Return a `collMod`."""
    command = {"collMod": target.collection, **checked("modifyCollection", options)}
    return write(target, command, retryable=False)


def drop_collection(target: Target) -> Operation:
    """Return a `drop`."""
    return write(target, {"drop": target.collection}, retryable=False)


def drop_database(target: Target) -> Operation:
    """Return a `dropDatabase`."""
    return write(target, {"dropDatabase": 1}, retryable=False)


def rename(target: Target, new_name: str, options: Document) -> Operation:
    """Return a `renameCollection`, which names both in full."""
    command = {
        "renameCollection": f"{target.database}.{target.collection}",
        "to": f"{target.database}.{new_name}",
        **checked("rename", options),
    }
    return write(replace(target, database="admin"), command, retryable=False)


def end_sessions(sessions: list[dict[str, Any]]) -> Operation:
    """Return an `endSessions`, to any server that answers."""
    return Operation(
        "admin",
        Kind.GENERIC,
        fixed({"endSessions": sessions}),
        read_preference=PRIMARY_PREFERRED,
        name="endSessions",
    )

"""Commands about databases, collections and indexes, and commands of the user's own making."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from driver.concerns import PRIMARY, PRIMARY_PREFERRED, Concerns
from driver.operations.base import Kind, Operation, Target, collection_of, first_name, fixed
from driver.operations.options import checked, opening, refuse_commit_quorum, timeout_of
from driver.operations.reads import read
from driver.operations.writes import write

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from driver.concerns import ReadPreference
    from driver.policy.deadline import Timeout

    Document = Mapping[str, Any]


def run_command(
    database: str, command: Document, read_preference: ReadPreference | None, timeout: Timeout
) -> Operation:
    """Return the user's runCommand as it is (Run Command): not inspected, no concerns, no transaction id.

    The read preference is not inherited: without one the command goes to a writable server. Where timeoutMS
    has a limit, the maxTimeMS made of it replaces one in the command.
    """
    return Operation(
        database,
        Kind.GENERIC,
        fixed(command),
        read_preference=read_preference or PRIMARY,
        raises_write_concern_error=False,
        name=first_name(command),
        timeout=timeout,
    )


def list_databases(target: Target, options: Document) -> Operation:
    """Return a `listDatabases`."""
    return _listing(target, {"listDatabases": 1, **checked("listDatabases", options)})


def list_collections(target: Target, options: Document, *, name_only: bool) -> Operation:
    """Return a `listCollections`; names only cost the server no locks."""
    fields = checked("listCollections", options)
    names, mode = {"nameOnly": True} if name_only else {}, fields.pop("timeoutMode", None)
    command = {"listCollections": 1, **_cursor_field(fields), **names, **fields}
    return opening(_listing(target, command), mode=mode)


def list_indexes(target: Target, options: Document) -> Operation:
    """Return a `listIndexes`."""
    fields = checked("listIndexes", options)
    mode = fields.pop("timeoutMode", None)
    command = {"listIndexes": target.collection, **_cursor_field(fields), **fields}
    return opening(_listing(target, command), mode=mode)


def _cursor_field(fields: dict[str, Any]) -> dict[str, Any]:
    batch_size = fields.pop("batchSize", None)
    return {"cursor": {} if batch_size is None else {"batchSize": batch_size}}


def _listing(target: Target, command: Document) -> Operation:
    """Return a list's command: it goes to the primary, and is a retryable read."""
    concerns = Concerns(timeout=target.concerns.timeout)
    return read(Target(target.database, 1, concerns), command, takes_read_concern=False)


def create_index(target: Target, keys: Document, index: Document, options: Document) -> tuple[Operation, str]:
    """Return a `createIndexes` of one index, and the name that it gets."""
    name = index.get("name") or "_".join(f"{field}_{direction}" for field, direction in keys.items())
    specification = {"key": dict(keys), **index, "name": name}
    fields = checked("createIndexes", options)
    command = {"createIndexes": target.collection, "indexes": [specification], **fields}
    operation = write(target, command, retryable=False)
    refuse = refuse_commit_quorum if "commitQuorum" in fields else None
    return replace(operation, refuse=refuse), str(name)


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


def drop_collection(target: Target, options: Document) -> Operation:
    """Return a `drop`."""
    return write(target, {"drop": target.collection, **checked("drop", options)}, retryable=False)


def drop_database(target: Target, options: Document) -> Operation:
    """Return a `dropDatabase`."""
    return write(target, {"dropDatabase": 1, **checked("dropDatabase", options)}, retryable=False)


def rename(target: Target, new_name: str, options: Document) -> Operation:
    """Return a `renameCollection`, which names both in full."""
    command = {
        "renameCollection": f"{target.database}.{target.collection}",
        "to": f"{target.database}.{new_name}",
        **checked("rename", options),
    }
    return write(replace(target, database="admin"), command, retryable=False)


def end_sessions(sessions: list[dict[str, Any]], timeout: Timeout) -> Operation:
    """Return an `endSessions`, to any server that answers: it spares the server work, or is not worth it."""
    return Operation(
        "admin",
        Kind.GENERIC,
        fixed({"endSessions": sessions}),
        read_preference=PRIMARY_PREFERRED,
        name="endSessions",
        timeout=timeout,
        once=True,
    )


# Commands about search indexes (Index Management: Search Indexes).
#
# They take no concerns: a search index is built outside of the server, and what a read or write concern
# promises does not reach it.


def create(target: Target, models: Sequence[Document]) -> Operation:
    """Return a `createSearchIndexes`. A model has a `definition`, and may have a `name` and a `type`."""
    return _command(target, {"createSearchIndexes": target.collection, "indexes": list(models)})


def update(target: Target, name: str, definition: Document) -> Operation:
    """Return an `updateSearchIndex`, which replaces the definition."""
    return _command(target, {"updateSearchIndex": target.collection, "name": name, "definition": definition})


def drop(target: Target, name: str) -> Operation:
    """Return a `dropSearchIndex`."""
    return _command(target, {"dropSearchIndex": target.collection, "name": name})


def stage(name: str | None) -> dict[str, Any]:
    """Return the stage that lists all search indexes, or the one of this name."""
    return {"$listSearchIndexes": {} if name is None else {"name": name}}


def _command(target: Target, document: Document) -> Operation:
    return Operation(
        target.database,
        Kind.WRITE,
        fixed(document),
        name=first_name(document),
        collection=collection_of(document),
        timeout=timeout_of(None, target.concerns.timeout),
    )

"""Listing and dropping databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bson import Int64

from fakeserver.access.privileges import CLUSTER, Resource
from fakeserver.catalog import BUILT_IN, matching
from fakeserver.commands.collections import dropped_collection
from fakeserver.commands.statistics import PAGE_BYTES, storage_bytes
from fakeserver.commands.table import CommandTable, Reply
from fakeserver.errors import CommandError
from fakeserver.idl import Field, Fields
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()


@table.command(
    "listDatabases",
    kind="read",
    fields=Fields.of(
        Field("listDatabases", "number"),
        Field("filter", "object"),
        Field("nameOnly", "bool"),
        Field("authorizedDatabases", "bool"),
    ),
    admin_only=True,
)
def list_databases(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return the databases, to a client that may not see all those that it has to do with."""
    names_only = request.get("nameOnly", False)
    described: list[dict[str, Any]] = []
    for name in _visible(ctx, request.get("authorizedDatabases")):
        size = _size(ctx, name)
        described.append({"name": name, "sizeOnDisk": Int64(size), "empty": False})
    found = matching(described, request.get("filter"))
    if names_only:
        return {"databases": [{"name": each["name"]} for each in found]}
    total = sum(int(each["sizeOnDisk"]) for each in found)
    return {"databases": found, "totalSize": Int64(total), "totalSizeMb": Int64(total // 1024**2)}


def _visible(ctx: CommandContext, authorized_only: bool | None) -> list[str]:  # noqa: FBT001
    """Return the databases that are listed. Raises `CommandError` 13."""
    names, privileges = ctx.catalog.databases(), ctx.privileges
    if privileges is None:
        return names
    sees_all = privileges.permit(CLUSTER, "listDatabases")
    if authorized_only is False and not sees_all:
        raise CommandError(ErrorCode.UNAUTHORIZED, "Insufficient permissions to list all databases")
    if sees_all and not authorized_only:
        return names
    return [name for name in names if privileges.reach(Resource(name))]


def _size(ctx: CommandContext, db: str) -> int:
    held = [each for each in ctx.catalog.collections(db) if not each.is_view]
    data = sum(storage_bytes(ctx.catalog.engine.stats(each.ns).size) for each in held)
    return (data + PAGE_BYTES * sum(len(each.indexes) for each in held)) or PAGE_BYTES * 10


@table.command(
    "dropDatabase", kind="write", fields=Fields.of(Field("dropDatabase", "number")), write_concern=True
)
def drop_database(ctx: CommandContext, _request: dict[str, Any]) -> Reply:
    """Drop a database; one that is not there is no error."""
    if ctx.db in BUILT_IN:
        raise CommandError(ErrorCode.ILLEGAL_OPERATION, f"Dropping the '{ctx.db}' database is prohibited.")
    held = ctx.catalog.collections(ctx.db)
    if not held:
        return {}
    for collection in held:
        ctx.catalog.drop(collection.ns)
        dropped_collection(ctx, collection)
    ctx.command_applied(ctx.db, {"dropDatabase": 1})
    return {"dropped": ctx.db}

"""The commands for databases: list and drop them.

Behaviour: listDatabases names the databases that hold a collection, and `admin`, `config` and `local` always.
Under access control a client without the privilege `listDatabases` sees those that it has any privilege on,
and is refused (13) if it asks for all with `authorizedDatabases: false`. dropDatabase drops the collections
one after another and then itself, each an entry of the oplog; a database that is not there is no error, a
built-in one is refused (20). It waits until no open transaction uses the database.

Versions: The reply of dropDatabase names the database until 8.1.

Not modelled: Sizes are estimates, as those of collStats. dropDatabase leaves open cursors alone. A server
leaves `config` or `local` out while it is empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.access.privileges import CLUSTER, Resource
from fakeserver.commands.catalog.collections import dropped_collection
from fakeserver.commands.catalog.statistics import PAGE_BYTES, storage_bytes
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, whole
from fakeserver.profile import WIRE_82
from fakeserver.storage.store.catalog import matching
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()

_NOT_ONE: Final = 5255100
"""The code of a dropDatabase whose argument is another number than 1."""


@table.command(
    "listDatabases",
    kind="read",
    fields=Fields.of(
        Field("filter", "object"),
        Field("nameOnly", "bool"),
        Field("authorizedDatabases", "strictBool"),
    ),
    admin_only=True,
)
def list_databases(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Return the databases; under access control those that the client may see."""
    names_only = request.get("nameOnly", False)
    described: list[dict[str, Any]] = []
    for name in _visible(ctx, request.get("authorizedDatabases")):
        stored = [each for each in ctx.catalog.collections(name) if not each.is_view]
        data = sum(storage_bytes(ctx.catalog.engine.stats(each.ns).size) for each in stored)
        # A built-in database without collections is shown as a few pages, as on a fresh server.
        size = (data + PAGE_BYTES * sum(len(each.indexes) for each in stored)) or PAGE_BYTES * 10
        described.append({"name": name, "sizeOnDisk": Int64(size), "empty": False})
    if names_only:
        # The filter sees no more than the reply.
        described = [{"name": each["name"]} for each in described]
        return {"databases": matching(described, request.get("filter"))}
    found = matching(described, request.get("filter"))
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


@table.command(
    "dropDatabase", kind="write", fields=Fields.of(Field("dropDatabase", "number")), write_concern=True
)
def drop_database(ctx: CommandContext, request: dict[str, Any]) -> Reply:
    """Drop a database; one that is not there is no error."""
    if whole(request["dropDatabase"]) != 1:
        raise CommandError(_NOT_ONE, "Have to pass 1 as 'drop' parameter")
    # What a server needs is not dropped: of a standalone that is `admin` alone.
    if ctx.db == "admin" or (ctx.node.is_mongos and ctx.db == "local"):
        raise CommandError(ErrorCode.ILLEGAL_OPERATION, f"Dropping the '{ctx.db}' database is prohibited.")
    if ctx.node.is_mongos and ctx.db == "config":
        raise CommandError(ErrorCode.ILLEGAL_OPERATION, "Cannot drop the config database")
    if ctx.node.is_replicated and ctx.db == "local":
        raise CommandError(
            ErrorCode.ILLEGAL_OPERATION, "Cannot drop 'local' database while replication is active"
        )
    collections = ctx.catalog.collections(ctx.db)
    if not collections:
        return {}
    for collection in collections:
        ctx.catalog.drop(collection.ns)
        dropped_collection(ctx, collection)
    ctx.command_applied(ctx.db, {"dropDatabase": 1})
    return {} if ctx.node.profile.max_wire_version >= WIRE_82 else {"dropped": ctx.db}

"""The commands of a mongos: the parts of the cluster, and how its collections are sharded.

Behaviour: A mongod does not have them (59). `shardCollection` makes the collection if need be, demands an
index that begins with the shard key unless the collection is empty (72), and enters one chunk in `config`;
the same key again is ok, another refused (23). Balancer commands set what balancerStatus shows.

Versions: `checkMetadataConsistency` since 7.0. `enableSharding` changes nothing in any release; servers need
it before 6.0.

Not modelled: The shards share one store, so no data is anywhere in particular: there is one chunk for each
collection, no split, move, zone, balancing round, resharding, `addShard`, `removeShard` or `movePrimary`. A
shard key is demanded of no write or query, and unique indexes need not begin with it. `numInitialChunks`,
`collation`, `timeseries` and `presplitHashedZones` are accepted and have no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument, type_name
from fakeserver.profile import WIRE_70
from fakeserver.storage.port.engine import IndexSpec, Namespace
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.config_server import ConfigServer
    from fakeserver.deployment.shard import Shard
    from fakeserver.storage.store.catalog import Collection

table = CommandTable()

_DIRECTIONS: Final = (1, -1, "hashed")


def _config(ctx: CommandContext) -> ConfigServer[Shard]:
    config = ctx.node.cluster.config
    assert config is not None
    return config


@table.command("isdbgrid", kind="internal", requires_auth=False, home="mongos", aliases=("isdbGrid",))
def is_db_grid(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Say that this is a mongos."""
    return {"isdbgrid": 1, "hostname": ctx.node.address.rpartition(":")[0]}


@table.command("listShards", kind="internal", admin_only=True, home="mongos")
def list_shards(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return the shards."""
    return {"shards": _config(ctx).shards()}


@table.command("getShardMap", kind="internal", admin_only=True, home="mongos")
def get_shard_map(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return the shards' connection strings, by shard and by host."""
    shards = ctx.node.cluster.shards
    hosts = {node.address: shard.name for shard in shards for node in shard.nodes}
    return {
        "map": {shard.name: shard.connection_string for shard in shards},
        "hosts": hosts,
        "connStrings": {shard.connection_string: shard.name for shard in shards},
    }


@table.command("flushRouterConfig", kind="internal", admin_only=True, home="mongos")
def flush_router_config(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Forget the cached metadata of the cluster; it is looked up anew."""
    return {"flushed": True}


@table.command("checkMetadataConsistency", kind="internal", home="mongos", since=WIRE_70)
def check_metadata_consistency(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the inconsistencies between the shards, of which there are none."""
    target = first_argument(command)
    name = target if type(target) is str else "$cmd.aggregate"
    return {"cursor": {"firstBatch": [], "id": Int64(0), "ns": f"{ctx.db}.{name}"}}


@table.command("balancerStatus", kind="internal", admin_only=True, home="mongos")
def balancer_status(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return whether chunks may be moved."""
    mode = "full" if _config(ctx).balancing else "off"
    return {"mode": mode, "inBalancerRound": False, "numBalancerRounds": Int64(0)}


@table.command("balancerStart", kind="internal", admin_only=True, home="mongos")
def balancer_start(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Allow chunks to be moved."""
    _config(ctx).balancing = True
    return {}


@table.command("balancerStop", kind="internal", admin_only=True, home="mongos")
def balancer_stop(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Keep chunks from being moved."""
    _config(ctx).balancing = False
    return {}


@table.command(
    "enableSharding",
    kind="internal",
    admin_only=True,
    home="mongos",
    fields=Fields.of(Field("primaryShard", "string"), strict=False),
    write_concern=True,
)
def enable_sharding(_ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Prepare a database for sharded collections, which no release here needs."""
    name = first_argument(command)
    if type(name) is not str or not name or "." in name:
        raise CommandError(ErrorCode.INVALID_NAMESPACE, f"invalid db name specified: {name}")
    return {}


@table.command(
    "shardCollection",
    kind="internal",
    admin_only=True,
    home="mongos",
    aliases=("shardcollection",),
    fields=Fields.of(
        Field("key", "object", required=True),
        Field("unique", "bool"),
        Field("numInitialChunks", "long"),
        Field("collation", "object"),
        Field("timeseries", "object"),
        Field("presplitHashedZones", "bool"),
        strict=False,
    ),
    write_concern=True,
)
def shard_collection(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Shard a collection by a key; one that is not there is created."""
    ns, key, config = _namespace(first_argument(command)), command["key"], _config(ctx)
    if not key or any(direction not in _DIRECTIONS for direction in key.values()):
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"Unsupported shard key pattern {key}. Pattern must either be a single hashed field, or a list of"
            " ascending fields",
        )
    unique = command.get("unique", False)
    known = config.key_of(ns)
    # Idempotent for the same key, so that a client may repeat the command after a lost reply.
    if known is not None and known != key:
        raise CommandError(
            ErrorCode.ALREADY_INITIALIZED, f"sharding already enabled for collection {ns} with other options"
        )
    if known is None:
        collection, _ = ctx.ensure(ns)
        _ensure_index(ctx, collection, key, unique=unique)
        config.shard_collection(collection, key, unique=unique)
        entry = {"shardCollection": ns.collection, "shardKey": key, "unique": unique}
        ctx.command_applied(ns.db, entry, uuid=collection.uuid)
    return {"collectionsharded": str(ns)}


def _namespace(name: Any) -> Namespace:
    if type(name) is not str:
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"BSON field 'shardCollection.shardCollection' is the wrong type '{type_name(name)}',"
            " expected type 'string'",
        )
    ns = Namespace.parse(name)
    if not ns.db or not ns.collection:
        raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid namespace specified '{name}'")
    return ns


def _ensure_index(ctx: CommandContext, collection: Collection, key: dict[str, Any], *, unique: bool) -> None:
    """Make the index that the key needs; only an empty collection may lack it."""
    fields = list(key)
    if any(list(index.key)[: len(fields)] == fields for index in collection.indexes.values()):
        return
    if ctx.catalog.engine.stats(collection.ns).count:
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            "Please create an index that starts with the proposed shard key before sharding the collection",
        )
    name = "_".join(f"{field}_{direction}" for field, direction in key.items())
    document = {"v": 2, "key": key, "name": name, **({"unique": True} if unique else {})}
    ctx.catalog.add_index(collection, IndexSpec(name, key, unique=unique, document=document))
    entry = {"createIndexes": collection.ns.collection, "indexes": [document]}
    ctx.command_applied(collection.ns.db, entry, uuid=collection.uuid)

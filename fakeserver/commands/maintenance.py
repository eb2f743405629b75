"""What keeps a real server in shape, and costs nothing here; the answers are those that scripts look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.commands.reading import namespace
from fakeserver.commands.table import CommandTable, Reply, first_argument
from fakeserver.errors import CommandError
from fakeserver.idl import Field, Fields
from fakeserver.profile import WIRE_44, WIRE_70
from fakeserver.storage.engine import Namespace
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()

_UNCONFIRMED: Final = 7369100


@table.command(
    "compact",
    kind="write",
    fields=Fields.of(
        Field("force", "bool"),
        Field("dryRun", "bool"),
        Field("freeSpaceTargetMB", "long"),
        target="collection",
    ),
)
def compact(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Give back the space that a collection does not need: none."""
    ns = namespace(ctx, command)
    collection = ctx.catalog.get(ns)
    if collection is None:
        raise CommandError(ErrorCode.NAMESPACE_NOT_FOUND, "collection does not exist")
    if collection.is_view:
        raise CommandError(ErrorCode.COMMAND_NOT_SUPPORTED_ON_VIEW, "can't compact a view")
    return {"bytesFreed": Int64(0)}


@table.command(
    "planCacheClear",
    kind="read",
    on_secondaries=True,
    fields=Fields.of(
        Field("query", "object"),
        Field("projection", "object"),
        Field("sort", "object"),
        Field("collation", "object"),
        target="collection",
    ),
)
def plan_cache_clear(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Forget the plans that were kept, which none are."""
    return {}


@table.command("dataSize", kind="read", on_secondaries=True, home="mongod")
def data_size(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return how many bytes a collection's documents take."""
    name = first_argument(command)
    ns = Namespace.parse(name) if isinstance(name, str) else Namespace("", "")
    if not ns.db or not ns.collection:
        raise CommandError(ErrorCode.INVALID_NAMESPACE, f"Invalid namespace specified '{name}'")
    stats = ctx.catalog.engine.stats(ns)
    return {
        "estimate": bool(command.get("estimate", False)),
        "size": Int64(stats.size),
        "numObjects": Int64(stats.count),
        "millis": 0,
    }


@table.command(
    "setFeatureCompatibilityVersion",
    kind="write",
    admin_only=True,
    write_concern=True,
    fields=Fields.of(
        Field("setFeatureCompatibilityVersion", "string"),
        Field("confirm", "bool"),
        Field("fromConfigServer", "bool"),
        Field("downgradeOnDiskChanges", "bool"),
    ),
)
def set_feature_compatibility_version(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Keep the features of the release, which is the only version that there is."""
    profile, wanted = ctx.node.profile, first_argument(command)
    if profile.max_wire_version >= WIRE_70 and not command.get("confirm"):
        raise CommandError(
            _UNCONFIRMED,
            "Once you have changed the FCV, it is recommended to wait before downgrading binaries. Please"
            " re-run this command with 'confirm: true' to acknowledge this and continue with the FCV change.",
        )
    if wanted != profile.feature_compatibility_version:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"Invalid feature compatibility version value '{wanted}'; expected"
            f" '{profile.feature_compatibility_version}'. See https://docs.mongodb.com/manual/release-notes/"
            f"{profile.name}-compatibility/#feature-compatibility.",
        )
    return {}


@table.command("getDefaultRWConcern", kind="internal", admin_only=True, since=WIRE_44)
def get_default_rw_concern(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Tell the concerns that hold where a client gives none."""
    if not ctx.node.is_replicated:
        raise CommandError(
            ErrorCode.ILLEGAL_OPERATION, "'getDefaultRWConcern' is not supported on standalone nodes."
        )
    return {
        "defaultReadConcern": {"level": "local"},
        "defaultWriteConcern": {"w": "majority", "wtimeout": 0},
        "defaultWriteConcernSource": "implicit",
        "defaultReadConcernSource": "implicit",
        "localUpdateWallClockTime": ctx.utc(),
    }


@table.command("logRotate", kind="internal", admin_only=True)
def log_rotate(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Begin a new log file, of which there is none."""
    return {}


@table.command("refreshLogicalSessionCacheNow", kind="internal", admin_only=True, test_only=True)
def refresh_logical_session_cache_now(_ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Have the other members hear of the sessions, which they all know."""
    return {}

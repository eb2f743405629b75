"""The commands setDefaultRWConcern and getDefaultRWConcern: concerns for clients that state none.

Behaviour: They run on a replica set or a mongos; a standalone refuses with 51300, a member of a shard with
51301. Both documents are checked before one is set: a read concern has neither the level `snapshot` or
`linearizable` nor a time (2), a write concern is neither unacknowledged (2) nor one that the set could never
satisfy (100, 79). An empty read concern unsets the default; a write concern cannot be unset (20). The
defaults are kept in `config.settings`, as a server keeps them, and hold at once on every member and mongos.
The command's own write concern is that of this document: one that can never be satisfied fails the command,
and the defaults are set.

Versions: Since 4.4. Since 5.0 a default write concern has to name a `w` (2), and the implicit one that the
reply shows is a majority, unless arbiters leave too few members with data.

Not modelled: The implicit majority is shown and not waited for: a write without a concern returns at once
until a default was set. 4.4 lets a write concern be unset; here no release does. A mongos of a real cluster
caches the defaults and learns of new ones later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.deployment.replication.default_concerns import DOCUMENT_ID, implies_majority, unmet_for_good
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields
from fakeserver.idl.generic_arguments import TIMES, WriteConcern, check_read_concern
from fakeserver.profile import WIRE_44, WIRE_50
from fakeserver.storage.port.engine import Namespace, Query, Update
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()

_NOT_ON_STANDALONE: Final = 51300
_NOT_ON_SHARD: Final = 51301
_UNSUITABLE_LEVELS: Final = frozenset({"snapshot", "linearizable"})
_SETTINGS: Final = Namespace("config", "settings")


@table.command(
    "setDefaultRWConcern",
    kind="write",
    admin_only=True,
    write_concern=True,
    since=WIRE_44,
    fields=Fields.of(
        Field("setDefaultRWConcern"),
        Field("defaultReadConcern", "object"),
        Field("defaultWriteConcern", "object"),
    ),
)
def set_default_rw_concern(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Set the default concerns, of clients that state none."""
    _check_server(ctx, "setDefaultRWConcern")
    read, write = command.get("defaultReadConcern"), command.get("defaultWriteConcern")
    if read is None and write is None:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            'At least one of the "defaultReadConcern" or "defaultWriteConcern" fields must be present',
        )
    defaults = ctx.node.cluster.default_concerns
    # Both are checked before either is set, so a command that fails has changed nothing. {} unsets a default.
    if read:
        _check_read(read)
    wanted = None if not write else _checked_write(ctx, write)
    if write == {} and defaults.write is not None:
        raise CommandError(
            ErrorCode.ILLEGAL_OPERATION, "The global default write concern cannot be unset once it is set."
        )
    if read is not None:
        defaults.read = read or None
    if write is not None:
        defaults.write = wanted
    defaults.updated_at, defaults.updated_on = ctx.node.oplog.last.timestamp, ctx.utc()
    for node in ctx.node.cluster.servers:
        node.pipeline.recompile()
    # A server keeps them in `config.settings`.
    ctx.ensure(_SETTINGS)
    ctx.catalog.engine.update(
        _SETTINGS,
        Update(Query({"_id": DOCUMENT_ID}), defaults.document, upsert=True),
        accept=lambda change: ctx.applied(_SETTINGS, change),
    )
    # The write of this document has the command's own concern, and what is wrong with it fails the command.
    if "writeConcern" in command:
        _check_attainable(ctx, WriteConcern.parse(command["writeConcern"]))
    return _described(ctx)


@table.command(
    "getDefaultRWConcern",
    kind="internal",
    admin_only=True,
    since=WIRE_44,
    fields=Fields.of(Field("getDefaultRWConcern"), Field("inMemory", "strictBool")),
)
def get_default_rw_concern(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the default concerns, of clients that state none."""
    _check_server(ctx, "getDefaultRWConcern")
    return _described(ctx) | ({"inMemory": True} if command.get("inMemory") else {})


def _check_server(ctx: CommandContext, name: str) -> None:
    if not ctx.node.is_replicated:
        raise CommandError(_NOT_ON_STANDALONE, f"'{name}' is not supported on standalone nodes.")
    if ctx.node.cluster.spec.is_sharded and not ctx.node.is_mongos:
        raise CommandError(_NOT_ON_SHARD, f"'{name}' is not supported on shard nodes.")


def _check_read(concern: dict[str, Any]) -> None:
    level = check_read_concern(concern)
    if level in _UNSUITABLE_LEVELS:
        raise CommandError(
            ErrorCode.BAD_VALUE, f"level: '{level}' is not suitable for the default read concern"
        )
    for name in ("afterOpTime", *TIMES):
        if name in concern:
            raise CommandError(ErrorCode.BAD_VALUE, f"'{name}' is not suitable for the default read concern")


def _checked_write(ctx: CommandContext, document: dict[str, Any]) -> dict[str, Any]:
    """Return a default write concern as it is shown. Raises `CommandError` for an unsuitable one."""
    if "w" not in document and ctx.node.profile.max_wire_version >= WIRE_50:
        raise CommandError(ErrorCode.BAD_VALUE, "The default write concern must specify a 'w'")
    concern = WriteConcern.parse(document)
    if concern.w == 0:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            "Unacknowledged write concern is not suitable for the default write concern",
        )
    # A default that no write could ever satisfy would fail every client that states none.
    _check_attainable(ctx, concern)
    journaled = {"j": document["j"]} if "j" in document else {}
    return {"w": concern.w, **journaled, "wtimeout": concern.timeout_ms}


def _check_attainable(ctx: CommandContext, concern: WriteConcern) -> None:
    """Refuse a write concern that the set could never satisfy. Raises `CommandError` 100 or 79."""
    shard = ctx.node.writes_to
    unmet = unmet_for_good(concern, len(shard.data_bearing)) if shard is not None else None
    if unmet is not None:
        raise unmet


def _described(ctx: CommandContext) -> Reply:
    node = ctx.node
    shard = node.writes_to
    majority = shard is not None and implies_majority(shard.replica_set, node.profile)
    shown = node.cluster.default_concerns.describe(implicit_majority=majority)
    return {**shown, "localUpdateWallClockTime": ctx.utc()}

"""The commands for replica sets: their state, and changes of the primary.

Behaviour: A standalone refuses with 76, a server that waits for its configuration with 94. `replSetStepDown`
checks its times (2), then that it is primary (10107), then waits up to `secondaryCatchUpPeriodSecs` for a
secondary that has everything and could be elected, and fails with 262 if there is none, unless forced.
Connections stay open; operations that need the primary are interrupted with 11602. `replSetStepUp` asks the
others for their votes and fails with 125 if a majority would not elect this member. `replSetFreeze` and
`replSetMaintenance` are for secondaries (95 on a primary).

Versions: The same in every release.

Not modelled: `replSetInitiate`, `replSetSyncFrom` and other commands of repair. Heartbeats: a member knows at
once who is reachable, and `replSetGetStatus` leaves out its heartbeats, elections and sync sources.
Maintenance mode is on or off; a server counts how often it was turned on.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.deployment.replication.state import ReplicaSet, Role
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument, type_name, whole
from fakeserver.waiting.pause import Park
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.node import Node
    from fakeserver.deployment.shard import Shard

table = CommandTable()

_CATCH_UP_SECONDS: Final = 10
_ELECTION_TIMEOUT_MILLIS: Final = 10_000
"""A server's default."""
_DEFAULT_STEP_DOWN_SECONDS: Final = 60
_NOT_REACHED: Final = "(not reachable/healthy)"


def _set_of(ctx: CommandContext) -> ReplicaSet:
    return shard_of(ctx).replica_set


def shard_of(ctx: CommandContext) -> Shard:
    """Return the set of the server. Raises `CommandError` 76 on a standalone, 94 before there is one."""
    if ctx.node.shard is None:
        raise CommandError(ErrorCode.NO_REPLICATION_ENABLED, "not running with --replSet")
    if ctx.node.role is Role.STARTUP:
        raise CommandError(ErrorCode.NOT_YET_INITIALIZED, "no replset config has been received")
    return ctx.node.shard


@table.command("replSetGetStatus", kind="internal", admin_only=True)
def repl_set_get_status(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return the state of the set as this member sees it."""
    if ctx.node.is_mongos:
        raise CommandError(
            ErrorCode.COMMAND_FAILED,
            "replSetGetStatus is not supported through mongos",
            extra={"info": "mongos"},
        )
    shard, node = shard_of(ctx), ctx.node
    if node.role is Role.REMOVED:
        raise CommandError(
            ErrorCode.INVALID_REPLICA_SET_CONFIG,
            "Our replica set config is invalid or we are not a member of it",
        )
    replica_set, majority = shard.replica_set, node.majority
    return {
        "set": replica_set.name,
        "date": datetime.fromtimestamp(node.clock.utc(), UTC),
        "myState": int(node.role),
        "term": Int64(node.member.term),
        "heartbeatIntervalMillis": Int64(2000),
        "majorityVoteCount": replica_set.majority,
        "writeMajorityCount": replica_set.write_majority,
        "votingMembersCount": replica_set.voters,
        "writableVotingMembersCount": sum(each.member.spec.votes for each in shard.data_bearing),
        "optimes": {
            "lastCommittedOpTime": majority.document,
            "readConcernMajorityOpTime": majority.document,
            "appliedOpTime": node.applied.document,
            "durableOpTime": node.applied.document,
        },
        "members": [_member_status(ctx, other) for other in shard.nodes],
    }


def _member_status(ctx: CommandContext, other: Node) -> dict[str, Any]:
    replica_set = _set_of(ctx)
    reached = other is ctx.node or ctx.node.member.reaches(other.member)
    status = {
        "_id": other.member.id,
        "name": other.address,
        "health": 1.0 if reached else 0.0,
        "state": int(other.role if reached else Role.DOWN),
        "stateStr": other.role.name if reached else _NOT_REACHED,
        "uptime": int(ctx.now - other.started_at) if reached else 0,
    }
    if not reached:
        return status | {"lastHeartbeatMessage": f"Error connecting to {other.address}"}
    if not other.member.spec.arbiter:
        status["optime"] = other.applied.document
        status["optimeDate"] = datetime.fromtimestamp(other.applied.seconds, UTC)
    status["configVersion"] = replica_set.version
    status["configTerm"] = ctx.node.member.term
    if other.is_primary:
        status["electionTime"] = other.applied.timestamp
    if other is ctx.node:
        status["self"] = True
    return status


@table.command("replSetGetRBID", kind="internal", admin_only=True, home="mongod")
def repl_set_get_rbid(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return a number that grows with each rollback of this member."""
    shard_of(ctx)
    return {"rbid": ctx.node.position.rolled_back + 1}


@table.command("replSetGetConfig", kind="internal", admin_only=True, home="mongod")
def repl_set_get_config(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Return the configuration of the set."""
    return {"config": configuration(ctx)}


def configuration(ctx: CommandContext) -> Reply:
    """Return the configuration of the set. Raises `CommandError` 76, or 94 before there is one."""
    replica_set, timeout = _set_of(ctx), ctx.node.cluster.spec.election_timeout
    members = [
        {
            "_id": member.id,
            "host": member.address,
            "arbiterOnly": member.spec.arbiter,
            "buildIndexes": True,
            "hidden": member.spec.hidden,
            "priority": member.spec.rank,
            "tags": dict(member.spec.tags),
            "secondaryDelaySecs": Int64(member.spec.delay),
            "votes": member.spec.votes,
        }
        for member in replica_set.members
    ]
    return {
        "_id": replica_set.name,
        "version": replica_set.version,
        "term": ctx.node.member.term,
        "members": members,
        "protocolVersion": Int64(1),
        "writeConcernMajorityJournalDefault": True,
        "settings": {
            "chainingAllowed": True,
            "heartbeatIntervalMillis": 2000,
            "electionTimeoutMillis": _ELECTION_TIMEOUT_MILLIS if timeout is None else int(timeout * 1000),
            "getLastErrorModes": {},
            "replicaSetId": replica_set.id,
        },
    }


@table.command(
    "replSetStepDown",
    kind="internal",
    admin_only=True,
    home="mongod",
    fields=Fields.of(
        Field("secondaryCatchUpPeriodSecs", "long", minimum=0), Field("force", "bool"), strict=False
    ),
)
def repl_set_step_down(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Step down as primary, for a number of seconds."""
    shard = shard_of(ctx)
    seconds = _seconds(first_argument(command), "stepdown period must be a positive integer")
    seconds = seconds or _DEFAULT_STEP_DOWN_SECONDS
    force = command.get("force", False)
    catch_up = command.get("secondaryCatchUpPeriodSecs", 0 if force else min(_CATCH_UP_SECONDS, seconds))
    if catch_up > seconds:
        raise CommandError(
            ErrorCode.BAD_VALUE, "stepdown period must be longer than secondaryCatchUpPeriodSecs"
        )
    if not ctx.node.is_primary:
        raise CommandError(ErrorCode.NOT_WRITABLE_PRIMARY, "not primary so can't step down")
    if shard.successor(ctx.now) is None and not force:
        # Counted from the arrival: each time another member has caught up the command runs again.
        if ctx.now < ctx.request.arrived + catch_up:
            raise Park(ctx.node.cluster.replication, ctx.request.arrived + catch_up)
        raise no_successor(ctx)
    shard.step_down(seconds=seconds)
    return {}


def no_successor(ctx: CommandContext) -> CommandError:
    """Return the error of a primary that may not step down, because nobody could take over."""
    date = datetime.fromtimestamp(ctx.node.clock.utc(), UTC).isoformat(timespec="milliseconds")
    return CommandError(
        ErrorCode.EXCEEDED_TIME_LIMIT,
        f"No electable secondaries caught up as of {date}. Please use the replSetStepDown command"
        " with the argument {force: true} to force node to step down.",
    )


@table.command("replSetStepUp", kind="internal", admin_only=True, home="mongod")
def repl_set_step_up(ctx: CommandContext, _command: dict[str, Any]) -> Reply:
    """Have this member elected, if a majority votes for it."""
    shard = shard_of(ctx)
    # A primary that is asked to step up has nothing to do.
    if ctx.node.is_primary:
        return {}
    try:
        shard.elect(ctx.node)
    except ValueError:
        raise CommandError(ErrorCode.COMMAND_FAILED, "Election failed.") from None
    return {}


@table.command("replSetFreeze", kind="internal", admin_only=True, home="mongod")
def repl_set_freeze(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Keep this secondary from seeking election, for a number of seconds; 0 ends that."""
    _set_of(ctx)
    seconds = _seconds(first_argument(command), "seconds must be a non-negative integer")
    if ctx.node.role is Role.PRIMARY:
        raise CommandError(
            ErrorCode.NOT_SECONDARY,
            "cannot freeze node when primary or running for election. state: Primary",
        )
    ctx.node.freeze(seconds)
    return {} if seconds else {"info": "unfreezing"}


@table.command("replSetMaintenance", kind="internal", admin_only=True, home="mongod")
def repl_set_maintenance(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Move this secondary to RECOVERING, or back."""
    replica_set, member = _set_of(ctx), ctx.node.member
    on = bool(first_argument(command))
    if member.role is Role.PRIMARY:
        raise CommandError(ErrorCode.NOT_SECONDARY, "primaries can't modify maintenance mode")
    if not on and member.role is not Role.RECOVERING:
        raise CommandError(ErrorCode.OPERATION_FAILED, "already out of maintenance mode")
    replica_set.maintain(member, on=on)
    return {}


def _seconds(value: Any, complaint: str) -> int:
    if type_name(value) not in {"int", "long", "double", "decimal", "bool"} or whole(value) < 0:
        raise CommandError(ErrorCode.BAD_VALUE, complaint)
    return whole(value)

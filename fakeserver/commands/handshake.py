"""`hello` and its older name, the first command of every connection.

Behaviour: `SDAM: hello`, `MongoDB Handshake`, awaitable and exhaust hello of `Server Monitoring`.
Versions: `topologyVersion` and waiting since 4.4.
Not modelled: horizons.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bson import ObjectId

from fakeserver import hello as hello_reply
from fakeserver.commands.authentication import speculate
from fakeserver.commands.table import CommandTable, Reply
from fakeserver.concerns import implies_majority
from fakeserver.errors import CommandError
from fakeserver.idl import Field, Fields, type_name
from fakeserver.pipeline import Park
from mongowire.codes import ErrorCode
from mongowire.compression import negotiate

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext
    from fakeserver.node import Node

table = CommandTable()

_NO_MAX_AWAIT_TIME: Final = {False: 31368, True: 51760}
"""Of a mongod, and (True) of a mongos; as the codes that follow."""
_NO_TOPOLOGY_VERSION: Final = {False: 51759, True: 51761}
_NEGATIVE_COUNTER: Final = {False: 31372, True: 51758}
_COUNTER_AHEAD_ALONE: Final = 51764
_COUNTER_AHEAD: Final = 31382
_EXHAUST_WITHOUT_WAIT: Final = {False: 51756, True: 51763}
_SPECULATION_UNKNOWN: Final = 51769

_FIELDS: Final = Fields.of(
    Field("topologyVersion", "object"),
    Field("maxAwaitTimeMS", "long", minimum=0),
    Field("compression", "array", of="string"),
    Field("speculativeAuthenticate", "object"),
    Field("saslSupportedMechs", "string|object"),
    strict=False,
)


@table.command("hello", kind="internal", fields=_FIELDS, requires_auth=False, handshake=True)
def hello(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Tell what this server is, at once or when that has changed."""
    return _answer(ctx, command, legacy=False)


@table.command(
    "isMaster", kind="internal", fields=_FIELDS, requires_auth=False, handshake=True, aliases=("ismaster",)
)
def is_master(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Tell what this server is, in the words of old clients."""
    return _answer(ctx, command, legacy=True)


def _answer(ctx: CommandContext, command: dict[str, Any], *, legacy: bool) -> Reply:
    attempt = _speculation(command)
    ctx.node.outages.check_quiesce(ctx.now)
    if ctx.node.profile.awaits_topology_changes:
        _await_change(ctx, command)
    node = ctx.node
    awaits = node.profile.awaits_topology_changes
    reply = hello_reply.reply(
        hello_reply.HelloFacts(
            profile=node.profile,
            legacy=legacy,
            hello_ok="helloOk" in command,
            connection_id=ctx.connection.id,
            local_time=datetime.fromtimestamp(node.clock.utc(), UTC),
            topology_version=node.topology_version() if awaits else None,
            compression=_negotiate(ctx, command),
            member=node.member_facts(),
            in_set=node.is_replica_set_member,
            mongos=node.is_mongos,
            service_id=_service_id(ctx, command),
            implicit_majority=_implicit_majority(node),
            default_write=node.cluster.default_concerns.write,
        )
    )
    return reply | _authentication(ctx, command, attempt)


def _implicit_majority(node: Node) -> bool | None:
    """Return what a member of a shard tells of its default write concern, None for other servers."""
    if node.shard is None or not node.cluster.spec.is_sharded:
        return None
    return implies_majority(node.shard.replica_set, node.profile)


def _authentication(ctx: CommandContext, command: dict[str, Any], attempt: dict[str, Any] | None) -> Reply:
    """Tell the mechanisms of a user, and answer an attempt to authenticate; what fails is left out."""
    told: Reply = {}
    wanted = command.get("saslSupportedMechs")
    if wanted is not None:
        db, name = _user_name(wanted)
        user = ctx.node.users.find(name, db)
        if user is not None:
            told["saslSupportedMechs"] = user.mechanisms
    answer = None if attempt is None else speculate(ctx, attempt)
    if answer is not None:
        told["speculativeAuthenticate"] = answer
    return told


def _user_name(wanted: Any) -> tuple[str, str]:
    """Return database and name of `db.user`, or of `{user, db}`. Raises `CommandError` 2."""
    if type(wanted) is str:
        db, dot, name = wanted.partition(".")
        if dot:
            return db, name
    elif type(wanted.get("user")) is str and type(wanted.get("db")) is str:
        return wanted["db"], wanted["user"]
    raise CommandError(ErrorCode.BAD_VALUE, "UserName must contain a '.' separated database.user pair")


def _service_id(ctx: CommandContext, command: dict[str, Any]) -> ObjectId | None:
    """Return the `serviceId`: for the first hello through a load balancer, if that asks for it.

    Load Balancers: Connection Pooling.
    """
    connection = ctx.connection
    first, connection.greeted = not connection.greeted, True
    if first:
        ctx.node.counters.completed("Hello", ctx.now - connection.accepted)
    if not first or not connection.balanced or command.get("loadBalanced") is not True:
        return None
    return ctx.node.service_id


def _await_change(ctx: CommandContext, command: dict[str, Any]) -> None:
    """Raise `Park` while the client knows all there is, `CommandError` for fields that do not fit."""
    told, max_await_ms = command.get("topologyVersion"), command.get("maxAwaitTimeMS")
    mongos = ctx.node.is_mongos
    if max_await_ms is None and ctx.request.envelope.exhaust_allowed:
        raise CommandError(
            _EXHAUST_WITHOUT_WAIT[mongos], "A hello request with exhaust must specify 'maxAwaitTimeMS'"
        )
    if told is None and max_await_ms is None:
        return
    if max_await_ms is None:
        raise CommandError(
            _NO_MAX_AWAIT_TIME[mongos], "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'"
        )
    if told is None:
        raise CommandError(
            _NO_TOPOLOGY_VERSION[mongos], "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'"
        )
    if not _knows_all(ctx, told):
        return
    until = ctx.wait_until(max_await_ms / 1000)
    if ctx.now < until:
        raise Park(ctx.node.topology_changed, until)


def _knows_all(ctx: CommandContext, told: dict[str, Any]) -> bool:
    process_id, counter = told.get("processId"), told.get("counter")
    if not isinstance(process_id, ObjectId) or not isinstance(counter, int):
        wrong, value, wanted = ("counter", counter, "long")
        if not isinstance(process_id, ObjectId):
            wrong, value, wanted = ("processId", process_id, "objectId")
        raise CommandError(
            ErrorCode.TYPE_MISMATCH,
            f"BSON field 'TopologyVersion.{wrong}' is the wrong type '{type_name(value)}', expected type"
            f" '{wanted}'",
        )
    if counter < 0:
        code = _NEGATIVE_COUNTER[ctx.node.is_mongos]
        raise CommandError(code, "topologyVersion must have a non-negative counter")
    member = ctx.node.member
    if process_id != member.process_id:
        return False
    if counter > member.counter:
        in_set = ctx.node.is_replica_set_member
        raise CommandError(
            _COUNTER_AHEAD if in_set else _COUNTER_AHEAD_ALONE,
            f"Received a topology version with counter: {counter} which is greater than the server topology"
            f" version counter: {member.counter}",
        )
    return counter == member.counter


def _negotiate(ctx: CommandContext, command: dict[str, Any]) -> tuple[str, ...]:
    """Agree on compressors, once per connection; the server's list decides the order."""
    offered = command.get("compression")
    if offered is None:
        return ()
    connection = ctx.connection
    if connection.compressors is None:
        connection.compressors = negotiate(offered, ctx.node.cluster.compressors)
    return connection.compressors


def _speculation(command: dict[str, Any]) -> dict[str, Any] | None:
    """Return the attempt to authenticate, if there is one. Raises `CommandError` for what is none."""
    attempt: dict[str, Any] | None = command.get("speculativeAuthenticate")
    if attempt is None:
        return None
    name = next(iter(attempt), None)
    if name is None:
        raise CommandError(ErrorCode.BAD_VALUE, "Cannot specify an empty speculativeAuthenticate argument")
    if name not in {"saslStart", "authenticate"}:
        raise CommandError(_SPECULATION_UNKNOWN, f"Unrecognized speculative authentication command: {name}")
    return attempt

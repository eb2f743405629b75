"""The commands hello and isMaster: the first words of every connection.

Behaviour: The form of `speculativeAuthenticate` is checked first (2, 51769), then quiesce mode, in which
every hello fails with 91 so that clients leave (SDAM). `topologyVersion` and `maxAwaitTimeMS` come together
or not at all; a mongod and a mongos have different codes for each rule. A client that knows the present
version is answered when it changes or when the time is over; one that knows another process or a lower
counter, at once; a counter ahead of the server's is refused. The wait begins when the command runs, after any
block of a fail point. Compressors are agreed on once per connection, in the server's order. `serviceId`
stands in the first hello through a load balancer that asks for it, and in no other.

Versions: `topologyVersion` and waiting since 4.4; 4.2 ignores both fields. `hello` answers in every release,
as the last patch releases of 4.2 and 4.4 do.

Not modelled: Split horizons, and with them error 303. `hostInfo`, `hangUpOnStepDown`, `clientUpdate` and
`backpressure` are accepted and have no effect.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bson import ObjectId

from fakeserver.commands.access.authentication import speculate
from fakeserver.deployment.replication import hello as hello_reply
from fakeserver.deployment.replication.default_concerns import implies_majority
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, type_name
from fakeserver.waiting.pause import Park
from mongowire.codes import ErrorCode
from mongowire.compression import negotiate

if TYPE_CHECKING:
    from fakeserver.commands.context import CommandContext

table = CommandTable()

_NO_MAX_AWAIT_TIME: Final = {False: 31368, True: 51760}
"""The code of a mongod (False) and of a mongos (True), here and in the constants that follow."""
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
    Field("saslSupportedMechs", "string|object", nullable=False),
    strict=False,
)


@table.command("hello", kind="internal", fields=_FIELDS, requires_auth=False, handshake=True)
def hello(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the state of this server, at once or when it has changed."""
    return _answer(ctx, command, legacy=False)


@table.command(
    "isMaster", kind="internal", fields=_FIELDS, requires_auth=False, handshake=True, aliases=("ismaster",)
)
def is_master(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Return the state of this server, in the words of old clients."""
    return _answer(ctx, command, legacy=True)


def _answer(ctx: CommandContext, command: dict[str, Any], *, legacy: bool) -> Reply:
    attempt = _speculation(command)
    # Quiesce mode comes before the wait: clients that wait are woken, and learn that the server leaves.
    ctx.node.outages.check_quiesce(ctx.now)
    node = ctx.node
    awaits = node.profile.awaits_topology_changes
    if awaits:
        _await_change(ctx, command)
    # Whether the default write concern is a majority is asked in a shard alone.
    shard = node.shard if node.cluster.spec.is_sharded else None
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
            implicit_majority=None if shard is None else implies_majority(shard.replica_set, node.profile),
            default_write=node.cluster.default_concerns.write,
        )
    )
    return reply | _authentication(ctx, command, attempt)


def _authentication(ctx: CommandContext, command: dict[str, Any], attempt: dict[str, Any] | None) -> Reply:
    """Return the mechanisms of a user and the answer to an attempt to authenticate, if it succeeds."""
    reply: Reply = {}
    wanted = command.get("saslSupportedMechs")
    if wanted is not None:
        db, name = _user_name(wanted)
        user = ctx.node.users.find(name, db)
        if user is not None:
            reply["saslSupportedMechs"] = user.mechanisms
    answer = None if attempt is None else speculate(ctx, attempt)
    if answer is not None:
        reply["speculativeAuthenticate"] = answer
    return reply


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
    # The first hello decides: a client that did not ask for load balancing in it cannot do so later.
    connection = ctx.connection
    first, connection.greeted = not connection.greeted, True
    if first:
        ctx.node.counters.completed("Hello", ctx.now - connection.accepted)
    if not first or not connection.balanced or command.get("loadBalanced") is not True:
        return None
    return ctx.node.service_id


def _await_change(ctx: CommandContext, command: dict[str, Any]) -> None:
    """Raise `Park` while the client knows the present state, `CommandError` for fields that do not fit."""
    known, max_await_ms = command.get("topologyVersion"), command.get("maxAwaitTimeMS")
    mongos = ctx.node.is_mongos
    # Without a wait an exhaust stream would send hellos as fast as the network takes them.
    if max_await_ms is None and ctx.request.envelope.exhaust_allowed:
        raise CommandError(
            _EXHAUST_WITHOUT_WAIT[mongos], "A hello request with exhaust must specify 'maxAwaitTimeMS'"
        )
    if known is None and max_await_ms is None:
        return
    if max_await_ms is None:
        raise CommandError(
            _NO_MAX_AWAIT_TIME[mongos], "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'"
        )
    if known is None:
        raise CommandError(
            _NO_TOPOLOGY_VERSION[mongos], "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'"
        )
    if not _is_current(ctx, known):
        return
    until = ctx.wait_until(max_await_ms / 1000)
    if ctx.now < until:
        raise Park(ctx.node.topology_changed, until)


def _is_current(ctx: CommandContext, known: dict[str, Any]) -> bool:
    process_id, counter = known.get("processId"), known.get("counter")
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
    # Another process: the client knew this address before a restart, so its counter says nothing.
    if process_id != member.process_id:
        return False
    # A counter from the future cannot be of this process; a server takes it for a mistake of the client.
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
    # Agreed on once: replies to earlier requests may be compressed already.
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

"""The replSetReconfig command: other members, or members of another kind, in a running replica set.

Behaviour: Only a primary takes a new configuration, unless it is forced (10107). The document must be
readable (93), then fit the old one: name and id of the set, a greater version (a forced one is made greater
by 10,000 and more, so that it wins over a rival), members with different ids and hosts, valid settings of
each, from 1 to 7 votes, somebody to elect, this member in it and, if primary, still electable, no change of
`arbiterOnly` (all 103). Without force one vote may come or go at a time, so that two successive majorities
always share a member. A host that is no server of the deployment fails with 74, as if it did not answer.

Versions: Every release has the rules of safe reconfiguration, which servers have since 4.4.

Not modelled: The wait until a majority has committed the configuration before. Settings but `replicaSetId`,
`buildIndexes`, `horizons` and `term` are ignored; new members vote at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fakeserver.commands.cluster.replication import shard_of
from fakeserver.deployment.spec import MemberSpec
from fakeserver.errors import CommandError
from fakeserver.idl.command_table import CommandTable, Reply
from fakeserver.idl.fields import Field, Fields, first_argument, whole
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.node import Node
    from fakeserver.deployment.shard import Shard

table = CommandTable()

_FORCED_STEP: Final = 10_000
_FORCED_SPREAD: Final = 100_000
_MAX_VOTERS: Final = 7


@table.command(
    "replSetReconfig",
    kind="internal",
    admin_only=True,
    home="mongod",
    fields=Fields.of(Field("force", "bool"), strict=False),
)
def repl_set_reconfig(ctx: CommandContext, command: dict[str, Any]) -> Reply:
    """Change which members the set has, and of what kind they are."""
    shard, force = shard_of(ctx), command.get("force", False)
    if not force and not ctx.node.is_primary:
        raise CommandError(
            ErrorCode.NOT_WRITABLE_PRIMARY,
            "New config is rejected :: caused by :: replSetReconfig should only be run on a writable PRIMARY."
            f" Current state {ctx.node.role.name};",
        )
    config = first_argument(command)
    if not isinstance(config, dict):
        raise CommandError(ErrorCode.BAD_VALUE, "no configuration specified")
    described = _described(config)
    version = _version(ctx, shard, config, force=force)
    members = _members(ctx, described)
    _check_self(ctx, shard, members, version)
    _check_kinds(shard, members)
    # A forced change may lose a majority on purpose: it is the way out when a majority is lost already.
    if not force:
        _check_votes(shard, members)
    for document, node in zip(described, members, strict=True):
        node.member.id = whole(document["_id"])
    shard.reconfigure(members, version=version)
    return {}


def _described(config: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the documents of the members. Raises `CommandError` 93 for what cannot be read."""
    members = config.get("members")
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        raise _unreadable("BSON field 'members' is missing or the wrong type, expected type 'array'")
    for member in members:
        for name, kind in (("_id", int | float), ("host", str)):
            if not isinstance(member.get(name), kind):
                raise _unreadable(f"BSON field 'MemberConfig.{name}' is missing but a required field")
    return members


def _version(ctx: CommandContext, shard: Shard, config: Mapping[str, Any], *, force: bool) -> int:
    """Return the version of the new configuration. Raises `CommandError` 103 for one of another set."""
    replica_set = shard.replica_set
    name, version = config.get("_id"), whole(config.get("version", 0))
    if name != replica_set.name:
        raise _incompatible(
            "New and old configurations differ in replica set name; old was"
            f" {replica_set.name}, and new is {name}"
        )
    set_id = (config.get("settings") or {}).get("replicaSetId", replica_set.id)
    if set_id != replica_set.id:
        raise _incompatible(
            f"New and old configurations differ in replica set ID; old was {replica_set.id}, and new is"
            f" {set_id}"
        )
    if force:
        # Two members that are forced at the same time choose different versions, of which the greater wins.
        spread = int(ctx.node.rng.random() * _FORCED_SPREAD)
        return max(version, replica_set.version) + _FORCED_STEP + spread
    if version <= replica_set.version:
        raise _incompatible(
            f"New replica set configuration version must be greater than old, but {version} is not greater"
            f" than {replica_set.version} for replica set {replica_set.name}"
        )
    return version


def _members(ctx: CommandContext, described: Sequence[Mapping[str, Any]]) -> dict[Node, MemberSpec]:
    """Return the servers that a configuration names. Raises `CommandError` 103, or 74 for a stranger."""
    servers = {node.address: node for node in ctx.node.cluster.servers}
    members: dict[Node, MemberSpec] = {}
    ids: dict[int, int] = {}
    for number, document in enumerate(described):
        first = ids.setdefault(whole(document["_id"]), number)
        if first != number:
            raise _incompatible(
                f"Found two member configurations with same _id field, members.{first}._id =="
                f" members.{number}._id == {whole(document['_id'])}"
            )
        node = servers.get(document["host"])
        if node is None:
            raise _no_quorum(described, servers)
        if node in members:
            raise _incompatible(
                f"Found two member configurations with same host field, members.{list(members).index(node)}"
                f".host == members.{number}.host == {document['host']}"
            )
        members[node] = _spec(document)
    _check_set(members.values())
    return members


def _spec(document: Mapping[str, Any]) -> MemberSpec:
    arbiter, hidden = bool(document.get("arbiterOnly")), bool(document.get("hidden"))
    delay = whole(document.get("secondaryDelaySecs", document.get("slaveDelay", 0)))
    votes = whole(document.get("votes", 1))
    tags: dict[str, str] = document.get("tags") or {}
    priority = 0.0 if arbiter else float(document.get("priority", 1))
    for wrong, message in (
        (votes not in {0, 1}, f"votes field value is {votes} but must be 0 or 1"),
        (arbiter and bool(tags), "Cannot set tags on arbiters."),
        (arbiter and not votes, "Arbiter must vote (cannot have 0 votes)"),
        (priority and delay, "priority must be 0 when secondaryDelaySecs is used"),
        (priority and hidden, "priority must be 0 when hidden=true"),
        (priority and not votes, "priority must be 0 when non-voting (votes:0)"),
    ):
        if wrong:
            raise _incompatible(message)
    try:
        return MemberSpec(
            arbiter=arbiter, hidden=hidden, priority=priority, votes=votes, tags=tags, delay=delay
        )
    except ValueError as error:
        raise _incompatible(str(error)) from None


def _check_set(specs: Any) -> None:
    specs = list(specs)
    voters = sum(spec.votes for spec in specs)
    if not 1 <= voters <= _MAX_VOTERS:
        raise _incompatible(
            f"Replica set configuration contains {voters} voting members, but must be at least 1 and no more"
            f" than {_MAX_VOTERS}"
        )
    if not any(spec.is_electable for spec in specs):
        raise _incompatible(
            "replica set configuration must contain at least one non-arbiter member with priority > 0"
        )


def _check_self(ctx: CommandContext, shard: Shard, members: Mapping[Node, MemberSpec], version: int) -> None:
    """Refuse a configuration without this member, or in which a primary is not electable (103)."""
    replica_set, node = shard.replica_set, ctx.node
    which = f"{{version: {version}, term: {replica_set.term}}} for replica set {replica_set.name}"
    if node not in members:
        raise _incompatible(f"No host described in new configuration with {which} maps to this node")
    if node.is_primary and not members[node].is_electable:
        raise _incompatible(
            f"This node, {node.address}, with _id {node.member.id} is not electable under the new"
            f" configuration with {which}"
        )


def _check_kinds(shard: Shard, members: Mapping[Node, MemberSpec]) -> None:
    for node in shard.nodes:
        if node in members and members[node].arbiter != node.member.spec.arbiter:
            raise _incompatible(
                "New and old configurations differ in the setting of the arbiterOnly field for member"
                f" {node.address}; to make this change, remove then re-add the member"
            )


def _check_votes(shard: Shard, members: Mapping[Node, MemberSpec]) -> None:
    before = {node for node in shard.nodes if node.member.spec.votes}
    after = {node for node, spec in members.items() if spec.votes}
    # With one vote of difference every old majority shares a member with every new one.
    if len(before ^ after) > 1:
        raise _incompatible("Non force replica set reconfig can only add or remove at most 1 voting member.")


def _unreadable(message: str) -> CommandError:
    return CommandError(ErrorCode.INVALID_REPLICA_SET_CONFIG, message)


def _incompatible(message: str) -> CommandError:
    return CommandError(ErrorCode.NEW_REPLICA_SET_CONFIGURATION_INCOMPATIBLE, message)


def _no_quorum(described: Sequence[Mapping[str, Any]], servers: Mapping[str, Node]) -> CommandError:
    hosts = [str(document["host"]) for document in described]
    there = [host for host in hosts if host in servers]
    silent = [host for host in hosts if host not in servers]
    failures = ", ".join(f"{host} failed with Error connecting to {host}" for host in silent)
    return CommandError(
        ErrorCode.NODE_NOT_FOUND,
        f"Quorum check failed because not enough voting nodes responded; required {len(hosts)} but only the"
        f" following {len(there)} voting nodes responded: {', '.join(there)}; the following nodes did not"
        f" respond affirmatively: {failures}",
    )

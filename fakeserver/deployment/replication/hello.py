"""The reply to `hello`: a pure function of a member's facts (`SDAM: hello`, `MongoDB Handshake`).

The fields have a server's order, since people compare replies and some clients print them. A mongod and a
mongos differ in it, and in a few fields: a mongos says `msg: isdbgrid` and belongs to no set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.deployment.replication.state import Role
from fakeserver.sessions.session import TIMEOUT_MINUTES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from bson import ObjectId

    from fakeserver.deployment.spec import MemberSpec
    from fakeserver.profile import Profile
    from fakeserver.storage.port.oplog import OpTime

MAX_BSON_OBJECT_SIZE: Final = 16 * 1024 * 1024
MAX_MESSAGE_SIZE_BYTES: Final = 48_000_000
MAX_WRITE_BATCH_SIZE: Final = 100_000

_NO_CONFIG: Final = "Does not have a valid replica set config"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFacts:
    """The facts of a member of a replica set about its set. Hidden and delayed members are in no list."""

    set_name: str
    set_version: int
    hosts: tuple[str, ...]
    """The addresses of the members that may be primary."""
    me: str
    """The member's own address, as the configuration has it."""
    role: Role
    primary: str | None
    """The address of the primary, if the member reaches one."""
    election_id: ObjectId | None
    """The election of a primary, None on others."""
    spec: MemberSpec
    """The member's own configuration."""
    passives: tuple[str, ...]
    """The addresses of the members of priority 0."""
    arbiters: tuple[str, ...]
    last_write: OpTime
    last_write_date: datetime
    majority: OpTime
    """The last operation that a majority has, as far as this member knows."""
    majority_date: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloFacts:
    """The facts that one reply depends on."""

    profile: Profile
    legacy: bool
    """The request is an `isMaster`."""
    hello_ok: bool
    """The request has a `helloOk` field; without one the reply has none."""
    connection_id: int
    local_time: datetime
    topology_version: dict[str, Any] | None = None
    compression: tuple[str, ...] = ()
    """The compressors that both sides know."""
    member: MemberFacts | None = None
    """The facts of a member, None for a server that is in no set."""
    in_set: bool = False
    """The server waits to become a member of a set, or has been one."""
    mongos: bool = False
    service_id: ObjectId | None = None
    """The process of a mongos, for the connection that asks from behind a load balancer."""
    implicit_majority: bool | None = None
    """Whether a shard's writes without a concern wait for a majority; None on all other servers."""
    default_write: Mapping[str, Any] | None = None
    """The default write concern that was set (`cwwc`), for mongos to compare with theirs."""


def reply(facts: HelloFacts) -> dict[str, Any]:
    """Return the answer's fields in the order of a mongod, or of a mongos, without `ok`."""
    if facts.mongos:
        return _mongos_reply(facts)
    fields: dict[str, Any] = {}
    if facts.compression:
        fields["compression"] = list(facts.compression)
    if facts.hello_ok:
        fields["helloOk"] = True
    # The old command keeps its old words, whatever the client knows: helloOk is how it learns of the new one.
    writable = "ismaster" if facts.legacy else "isWritablePrimary"
    if facts.member is None and not facts.in_set:
        # A standalone takes writes, and has a topologyVersion that never changes.
        fields[writable] = True
        _add_topology_version(fields, facts)
    elif facts.member is None:
        # Neither setName nor secondary: drivers take it for RSGhost, and ask again.
        _add_topology_version(fields, facts)
        fields |= {writable: False, "secondary": False, "info": _NO_CONFIG, "isreplicaset": True}
    else:
        _add_topology_version(fields, facts)
        _add_member(fields, facts.member, writable)
        if facts.implicit_majority is not None:
            fields["isImplicitDefaultMajorityWC"] = facts.implicit_majority
            if facts.default_write is not None:
                fields["cwwc"] = dict(facts.default_write)
    return fields | _limits(facts)


def _mongos_reply(facts: HelloFacts) -> dict[str, Any]:
    fields: dict[str, Any] = {"helloOk": True} if facts.hello_ok else {}
    fields["ismaster" if facts.legacy else "isWritablePrimary"] = True
    fields["msg"] = "isdbgrid"
    _add_topology_version(fields, facts)
    # A mongos has no storage that could be read-only, and writes maxWireVersion first.
    limits = _limits(facts)
    del limits["readOnly"]
    limits["minWireVersion"] = limits.pop("minWireVersion")
    fields |= limits
    if facts.compression:
        fields["compression"] = list(facts.compression)
    if facts.service_id is not None:
        fields["serviceId"] = facts.service_id
    return fields


def _add_topology_version(fields: dict[str, Any], facts: HelloFacts) -> None:
    if facts.topology_version is not None:
        fields["topologyVersion"] = facts.topology_version


def _add_member(fields: dict[str, Any], member: MemberFacts, writable: str) -> None:
    lists = {"hosts": member.hosts, "passives": member.passives, "arbiters": member.arbiters}
    fields |= {name: list(addresses) for name, addresses in lists.items() if addresses}
    fields["setName"] = member.set_name
    fields["setVersion"] = member.set_version
    fields[writable] = member.role is Role.PRIMARY
    fields["secondary"] = member.role is Role.SECONDARY
    if member.primary is not None:
        fields["primary"] = member.primary
    spec = member.spec
    if spec.arbiter:
        fields["arbiterOnly"] = True
    elif not spec.is_electable:
        fields["passive"] = True
    if spec.hidden:
        fields["hidden"] = True
    if spec.delay:
        fields["slaveDelay" if writable == "ismaster" else "secondaryDelaySecs"] = Int64(spec.delay)
    if spec.tags:
        fields["tags"] = dict(spec.tags)
    fields["me"] = member.me
    # With setVersion it orders primaries (`SDAM: updateRSFromPrimary`); a secondary's would say nothing.
    if member.role is Role.PRIMARY:
        fields["electionId"] = member.election_id
    fields["lastWrite"] = {
        "opTime": member.last_write.document,
        "lastWriteDate": member.last_write_date,
        "majorityOpTime": member.majority.document,
        "majorityWriteDate": member.majority_date,
    }


def _limits(facts: HelloFacts) -> dict[str, Any]:
    return {
        "maxBsonObjectSize": MAX_BSON_OBJECT_SIZE,
        "maxMessageSizeBytes": MAX_MESSAGE_SIZE_BYTES,
        "maxWriteBatchSize": MAX_WRITE_BATCH_SIZE,
        "localTime": facts.local_time,
        "logicalSessionTimeoutMinutes": TIMEOUT_MINUTES,
        "connectionId": facts.connection_id,
        "minWireVersion": 0,
        "maxWireVersion": facts.profile.max_wire_version,
        "readOnly": False,
    }


def topology_version(process_id: ObjectId, counter: int) -> dict[str, Any]:
    """Return a `topologyVersion`: the process that counts, and its count."""
    return {"processId": process_id, "counter": Int64(counter)}

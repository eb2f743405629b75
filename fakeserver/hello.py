"""The answer to `hello`: a pure function of what a member knows (`SDAM: hello`, `MongoDB Handshake`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.replication import Role
from fakeserver.sessions import TIMEOUT_MINUTES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from bson import ObjectId

    from fakeserver.oplog import OpTime
    from fakeserver.profile import Profile
    from fakeserver.spec import MemberSpec

MAX_BSON_OBJECT_SIZE: Final = 16 * 1024 * 1024
MAX_MESSAGE_SIZE_BYTES: Final = 48_000_000
MAX_WRITE_BATCH_SIZE: Final = 100_000

_NO_CONFIG: Final = "Does not have a valid replica set config"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFacts:
    """What a member of a replica set tells of its set. Dates are those of the operation times.

    `hosts`, `passives` and `arbiters` name the members that may be primary, those that may not, and those
    without data; nobody is told of hidden and delayed ones. `spec` is what the member itself is.
    """

    set_name: str
    set_version: int
    hosts: tuple[str, ...]
    me: str
    role: Role
    primary: str | None
    election_id: ObjectId | None
    spec: MemberSpec
    passives: tuple[str, ...]
    arbiters: tuple[str, ...]
    last_write: OpTime
    last_write_date: datetime
    majority: OpTime
    majority_date: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloFacts:
    """What one answer depends on. `legacy` is the old command's name for the same.

    `member` is None for a server that is in no set; `in_set` says whether it waits to be, or was.
    `implicit_majority` is None but for a member of a shard, which tells mongos its default write concern.
    """

    profile: Profile
    legacy: bool
    hello_ok: bool
    connection_id: int
    local_time: datetime
    topology_version: dict[str, Any] | None = None
    compression: tuple[str, ...] = ()
    member: MemberFacts | None = None
    in_set: bool = False
    mongos: bool = False
    service_id: ObjectId | None = None
    implicit_majority: bool | None = None
    default_write: Mapping[str, Any] | None = None


def reply(facts: HelloFacts) -> dict[str, Any]:
    """Return the answer's fields in the order of a mongod, or of a mongos, without `ok`."""
    if facts.mongos:
        return _mongos_reply(facts)
    fields: dict[str, Any] = {}
    if facts.compression:
        fields["compression"] = list(facts.compression)
    if facts.hello_ok:
        fields["helloOk"] = True
    writable = "ismaster" if facts.legacy else "isWritablePrimary"
    if facts.member is None and not facts.in_set:
        fields[writable] = True
        _add_topology_version(fields, facts)
    elif facts.member is None:
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
    for name, addresses in _addresses(member):
        if addresses:
            fields[name] = list(addresses)
    fields["setName"] = member.set_name
    fields["setVersion"] = member.set_version
    fields[writable] = member.role is Role.PRIMARY
    fields["secondary"] = member.role is Role.SECONDARY
    if member.primary is not None:
        fields["primary"] = member.primary
    _add_kind(fields, member.spec, writable)
    fields["me"] = member.me
    if member.role is Role.PRIMARY:
        fields["electionId"] = member.election_id
    fields["lastWrite"] = {
        "opTime": member.last_write.document,
        "lastWriteDate": member.last_write_date,
        "majorityOpTime": member.majority.document,
        "majorityWriteDate": member.majority_date,
    }


def _addresses(member: MemberFacts) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ("hosts", member.hosts), ("passives", member.passives), ("arbiters", member.arbiters)


def _add_kind(fields: dict[str, Any], spec: MemberSpec, writable: str) -> None:
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
    """Return a `topologyVersion`."""
    return {"processId": process_id, "counter": Int64(counter)}

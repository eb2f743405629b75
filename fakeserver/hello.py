"""The answer to `hello`: a pure function of what a member knows (`SDAM: hello`, `MongoDB Handshake`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bson import Int64

from fakeserver.replication import Role
from fakeserver.sessions import TIMEOUT_MINUTES

if TYPE_CHECKING:
    from datetime import datetime

    from bson import ObjectId

    from fakeserver.oplog import OpTime
    from fakeserver.profile import Profile

MAX_BSON_OBJECT_SIZE: Final = 16 * 1024 * 1024
MAX_MESSAGE_SIZE_BYTES: Final = 48_000_000
MAX_WRITE_BATCH_SIZE: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFacts:
    """What a member of a replica set tells of its set. Dates are those of the operation times."""

    set_name: str
    set_version: int
    hosts: tuple[str, ...]
    me: str
    role: Role
    primary: str | None
    election_id: ObjectId | None
    last_write: OpTime
    last_write_date: datetime
    majority: OpTime
    majority_date: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HelloFacts:
    """What one answer depends on. `legacy` is the old command's name for the same."""

    profile: Profile
    legacy: bool
    hello_ok: bool
    connection_id: int
    local_time: datetime
    topology_version: dict[str, Any] | None = None
    compression: tuple[str, ...] = ()
    member: MemberFacts | None = None
    mongos: bool = False
    service_id: ObjectId | None = None


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
    if facts.member is None:
        fields[writable] = True
        _add_topology_version(fields, facts)
    else:
        _add_topology_version(fields, facts)
        _add_member(fields, facts.member, writable)
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
    fields["hosts"] = list(member.hosts)
    fields["setName"] = member.set_name
    fields["setVersion"] = member.set_version
    fields[writable] = member.role is Role.PRIMARY
    fields["secondary"] = member.role is Role.SECONDARY
    if member.primary is not None:
        fields["primary"] = member.primary
    fields["me"] = member.me
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
    """Return a `topologyVersion`."""
    return {"processId": process_id, "counter": Int64(counter)}

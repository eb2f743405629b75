"""From an operation's command to a message: session, cluster time, concerns, API version, read preference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driver.concerns import PRIMARY_PREFERRED, ReadMode
from driver.operations.base import Kind, MaxTime
from driver.operations.options import refuse_snapshot
from driver.sdam.description import MEMBER_TYPES, ServerType, TopologyDescription, TopologyType
from driver.session import newer
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driver.editions import Edition
    from driver.operations.base import Operation
    from driver.run import Run
    from driver.sdam.description import ServerDescription
    from driver.session import ClientSession
    from driver.transaction import Transaction


RAW_DATA_WIRE_VERSION = 27
"""Servers from 8.2 on know rawData."""

COMMENT_WIRE_VERSION = 9
"""Servers from 4.4 on take a comment with a getMore."""


def assemble(
    run: Run,
    *,
    session: ClientSession | None,
    cluster_time: Mapping[str, Any] | None,
    topology: TopologyDescription,
    edition: Edition,
    api_fields: Mapping[str, Any],
    max_time_ms: int | None,
) -> OpMsg:
    """Return the message. It is made anew for each attempt, so that a retry gossips what was learnt.

    Raises InvalidArgumentError for a server that is too old.
    """
    operation, command, server = run.operation, run.command, run.server
    assert command is not None
    assert server is not None
    if operation.refuse is not None:
        operation.refuse(server)
    document = dict(command.document)
    if operation.kind is not Kind.GENERIC:
        _leave_out(document, operation.name, server)
    if run.deadline.is_set:
        _limit(document, operation, max_time_ms)
    if run.transaction is not None and session is not None:
        starts = bool(run.starts_transaction)
        read_concern = _in_transaction(document, operation, session, run.transaction, starts=starts)
    else:
        read_concern = _read_concern(operation, session, edition, server)
    if read_concern:
        document["readConcern"] = read_concern
    if session is not None:
        document["lsid"] = session.lsid
        cluster_time = newer(cluster_time, session.cluster_time)
    if run.transaction_number is not None:
        document["txnNumber"] = run.transaction_number
    # A standalone has no cluster time, and refuses one that the client has from another deployment's member.
    if cluster_time is not None and server.type is not ServerType.STANDALONE:
        document["$clusterTime"] = cluster_time
    # What follows wins over fields of the same names in a command of the user's.
    document.update(api_fields)
    document["$db"] = operation.database
    document.update(_read_preference(operation, server, topology))
    return OpMsg.of(document, sequences=command.sequences, more_to_come=not operation.acknowledged)


def _leave_out(document: dict[str, Any], name: str, server: ServerDescription) -> None:
    """Take options out of a command, in place, that a server is too old for and that change no result.

    CRUD: rawData is for servers from 8.2 on. Find, getMore and killCursors: the comment of a cursor goes with
    its getMore from 4.4 on.
    """
    if server.max_wire_version < RAW_DATA_WIRE_VERSION:
        document.pop("rawData", None)
    if name == "getMore" and server.max_wire_version < COMMENT_WIRE_VERSION:
        document.pop("comment", None)


def _limit(document: dict[str, Any], operation: Operation, max_time_ms: int | None) -> None:
    """Replace the older options by what timeoutMS says (Client Side Operations Timeout).

    A command of the user's own stays as it is, except that it gets a maxTimeMS.
    """
    if operation.kind is not Kind.GENERIC and operation.max_time is not MaxTime.AWAITED:
        document.pop("maxTimeMS", None)
    if operation.kind is not Kind.GENERIC and "writeConcern" in document:
        concern = {name: value for name, value in document["writeConcern"].items() if name != "wtimeout"}
        del document["writeConcern"]
        document |= {"writeConcern": concern} if concern else {}
    if max_time_ms is None or operation.max_time is MaxTime.NONE:
        return
    awaited = document.get("maxTimeMS", max_time_ms) if operation.max_time is MaxTime.AWAITED else max_time_ms
    document["maxTimeMS"] = min(awaited, max_time_ms)


def _in_transaction(
    document: dict[str, Any],
    operation: Operation,
    session: ClientSession,
    transaction: Transaction,
    *,
    starts: bool,
) -> dict[str, Any]:
    """Make a command part of a transaction, and return its read concern: only the first one has any.

    Transactions: Behavior of ClientSession changes. Concerns of collections and databases do not count.
    """
    if starts:
        document["startTransaction"] = True
    document["autocommit"] = False
    if operation.kind is not Kind.GENERIC and not operation.ends_transaction:
        document.pop("writeConcern", None)
    # The server reads all of a transaction as its first command asked, and refuses to be asked again.
    if not starts:
        return {}
    concern = transaction.options.read_concern
    return {**(concern.to_document() if concern is not None else {}), **_after(session)}


def _read_concern(
    operation: Operation, session: ClientSession | None, edition: Edition, server: ServerDescription
) -> dict[str, Any]:
    """Return the read concern, with the session's snapshot or its last operation time in it.

    Causal Consistency: Read and write commands. Without a session the operation's own concern is sent. Raises
    InvalidArgumentError for a snapshot that the server is too old for.
    """
    own = {} if operation.read_concern is None else operation.read_concern.to_document()
    if session is None or session.implicit:
        return own
    if session.options.snapshot:
        refuse_snapshot(server)
        at = {} if session.snapshot_time is None else {"atClusterTime": session.snapshot_time}
        return {"level": "snapshot", **at}
    writes = operation.kind is Kind.WRITE and edition.causally_consistent_writes
    return {**own, **_after(session)} if operation.read_concern is not None or writes else own


def _after(session: ClientSession) -> dict[str, Any]:
    if not session.options.causally_consistent or session.operation_time is None:
        return {}
    return {"afterClusterTime": session.operation_time}


def _read_preference(
    operation: Operation, server: ServerDescription, topology: TopologyDescription
) -> dict[str, Any]:
    """Server Selection: Passing read preference to mongos and load balancers, and to single members."""
    preference = operation.preference(topology)
    if preference is None or server.type is ServerType.STANDALONE:
        return {}
    if preference.mode is ReadMode.PRIMARY:
        # The user named this member, which may be a secondary: it must not refuse for want of a preference.
        if topology.type is TopologyType.SINGLE and server.type in MEMBER_TYPES:
            return {"$readPreference": PRIMARY_PREFERRED.to_document()}
        return {}
    return {"$readPreference": preference.to_document()}

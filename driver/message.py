"""From an operation's command to a message: session, cluster time, concerns, API version, read preference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from driver.concerns import PRIMARY_PREFERRED, ReadMode
from driver.operations.base import Kind, MaxTime
from driver.operations.releases import leave_out, refuse_snapshot
from driver.sdam.description import MEMBER_TYPES, ServerType, TopologyDescription, TopologyType
from driver.session import newer
from mongowire.messages import OpMsg

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson import Int64

    from driver.editions import Edition
    from driver.operations.base import Command, Operation
    from driver.sdam.description import ServerDescription
    from driver.session import ClientSession
    from driver.transaction import Transaction


def assemble(
    operation: Operation,
    command: Command,
    *,
    session: ClientSession | None,
    transaction_number: Int64 | None,
    cluster_time: Mapping[str, Any] | None,
    server: ServerDescription,
    topology: TopologyDescription,
    edition: Edition,
    api_fields: Mapping[str, Any],
    transaction: Transaction | None = None,
    starts: bool = False,
    timed: bool = False,
    max_time_ms: int | None = None,
) -> OpMsg:
    """Return the message. It is made anew for each attempt, so that a retry gossips what was learnt.

    `starts` says that the command is the first of its transaction, `timed` that timeoutMS is set, which
    leaves the server `max_time_ms`. Raises InvalidArgumentError for a server that is too old.

    Obeys RW-52.
    """
    if operation.refuse is not None:
        operation.refuse(server)
    document = dict(command.document)
    if operation.kind is not Kind.GENERIC:
        leave_out(document, operation.name, server)
    if timed:
        _limit(document, operation, max_time_ms)
    if transaction is not None and session is not None:
        read_concern = _in_transaction(document, operation, session, transaction, starts=starts)
    else:
        read_concern = _read_concern(operation, session, edition, server)
    if read_concern:
        document["readConcern"] = read_concern
    if session is not None:
        document["lsid"] = session.lsid
        cluster_time = newer(cluster_time, session.cluster_time)
    if transaction_number is not None:
        document["txnNumber"] = transaction_number
    if cluster_time is not None and server.type is not ServerType.STANDALONE:
        document["$clusterTime"] = cluster_time
    document.update(api_fields)
    document["$db"] = operation.database
    document.update(_read_preference(operation, server, topology))
    return OpMsg.of(document, sequences=command.sequences, more_to_come=not operation.acknowledged)


def _limit(document: dict[str, Any], operation: Operation, max_time_ms: int | None) -> None:
    """Put what timeoutMS says in the place of the older options (Client Side Operations Timeout).

    A command of the user's own stays as it is, except that it gets a maxTimeMS.
    """
    if operation.kind is not Kind.GENERIC:
        _drop_older_limits(document, operation)
    if max_time_ms is None or operation.max_time is MaxTime.NONE:
        return
    awaited = document.get("maxTimeMS", max_time_ms) if operation.max_time is MaxTime.AWAITED else max_time_ms
    document["maxTimeMS"] = min(awaited, max_time_ms)


def _drop_older_limits(document: dict[str, Any], operation: Operation) -> None:
    if operation.max_time is not MaxTime.AWAITED:
        document.pop("maxTimeMS", None)
    if "writeConcern" in document:
        concern = {name: value for name, value in document["writeConcern"].items() if name != "wtimeout"}
        del document["writeConcern"]
        document |= {"writeConcern": concern} if concern else {}


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
        if topology.type is TopologyType.SINGLE and server.type in MEMBER_TYPES:
            return {"$readPreference": PRIMARY_PREFERRED.to_document()}
        return {}
    return {"$readPreference": preference.to_document()}

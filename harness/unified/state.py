"""The servers' side of a case: data put in, data read back, fail points and transactions undone.

Unified Test Format: Executing a Test, Special Procedures. Everything here goes by the deployment's own
client, never by the driver under test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.unified.errors import ScenarioError
from harness.unified.matching.matcher import match_exactly
from harness.unified.model import nested
from harness.unified.outcome import CaseFailedError
from harness.unified.placeholders import refuse_placeholders

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harness.adapters.deployment import Deployment
    from harness.unified.model import Case
    from harness.unified.operations.spec import Context

_MAJORITY: Final = {"writeConcern": {"w": "majority"}}
_NAMESPACE_NOT_FOUND: Final = 26
_HARMLESS_KILL_CODES: Final = frozenset({11601, 13, 59, 8000})
"""killAllSessions: Interrupted, Unauthorized, CommandNotFound, AtlasError."""

_BATCH: Final = 100_000
"""Large enough that every collection that a scenario can write down comes in one batch."""


async def set_up(context: Context) -> None:
    """Put every collection of `initialData` into its state, and prepare a sharded cluster."""
    for data in context.case.initial_data:
        try:
            name, database = data.collection_name, data.database_name
            refuse_placeholders([data.create_options, *data.documents])
            # Dropped even where `create` follows: the collection of an earlier case may have other options.
            await _admin(context, database, {"drop": name, **_MAJORITY}, tolerated=(_NAMESPACE_NOT_FOUND,))
            # An insert creates a collection by itself; without documents nothing would.
            if data.create_options is not None or not data.documents:
                await _admin(context, database, {"create": name, **(data.create_options or {}), **_MAJORITY})
            if data.documents:
                await _admin(
                    context, database, {"insert": name, "documents": list(data.documents), **_MAJORITY}
                )
        except ScenarioError as error:
            raise error.at(data.location) from error
    if not context.deployment.topology.has_mongos or not starts_transaction(context.case):
        return
    # Sessions will be advanced to this time: a transaction that began before it would not see the data.
    reply = await _admin(context, "admin", {"ping": 1})
    context.cluster_time = reply.get("$clusterTime")
    if "distinct" not in {operation.name for operation in nested(context.case.operations)}:
        return
    # StaleDbVersion Errors on Sharded Clusters: a shard's first distinct in a transaction fails with it, so
    # each mongos runs one outside of transactions before.
    for data in context.case.initial_data:
        for address in context.deployment.addresses:
            command = {"distinct": data.collection_name, "key": "_id"}
            await context.deployment.admin(data.database_name, command, address=address)


async def _admin(
    context: Context, database: str, command: Mapping[str, Any], *, tolerated: Sequence[int] = ()
) -> Mapping[str, Any]:
    """Run a command that prepares or reads a state. Raises `ScenarioError` when the server refuses it.

    An error inside `writeErrors` counts like that of the whole command; a write concern error does not, for
    the data are there.
    """
    reply = await context.deployment.admin(database, command)
    errors = reply.get("writeErrors") or ([] if reply.get("ok") else [reply])
    if errors and errors[0].get("code") not in tolerated:
        name = next(iter(command))
        raise ScenarioError(
            f"the server refused {name} on {database}: {errors[0].get('errmsg')}",
            location=context.case.location,
        )
    return reply


async def check_outcome(context: Context) -> None:
    """Read every collection of `outcome` back. Raises `CaseFailedError` when it differs."""
    for data in context.case.outcome:
        stored = await stored_documents(context, data.database_name, data.collection_name)
        found = match_exactly(list(data.documents), stored)
        if found is not None:
            where, mismatch = f"{data.database_name}.{data.collection_name}", found.below("documents")
            why = f"collection {where} differs: {mismatch}"
            raise CaseFailedError(why, location=data.location, mismatch=mismatch)


async def stored_documents(context: Context, database: str, collection: str) -> Sequence[Mapping[str, Any]]:
    """Return what a collection holds, by `_id`.

    Unified Test Format: outcome. Read from the primary with local read concern: the driver's writes need not
    be majority committed yet, and the test is about what they did.
    """
    command = {
        "find": collection,
        "filter": {},
        "sort": {"_id": 1},
        "batchSize": _BATCH,
        "readConcern": {"level": "local"},
    }
    reply = await _admin(context, database, command)
    documents: Sequence[Mapping[str, Any]] = reply["cursor"]["firstBatch"]
    return documents


async def disable_fail_points(context: Context) -> None:
    """Turn off what the case turned on. A primary may have changed meanwhile, so on every server.

    Of servers that end with the case it is only the one from which the outcome is read.
    """
    names = list(dict.fromkeys(context.fail_points))
    # Cleared first: undoing calls this a second time, which then costs no command.
    context.fail_points.clear()
    deployment = context.deployment
    addresses = (None,) if deployment.ends_with_case else deployment.addresses
    for name in names:
        for address in addresses:
            off = {"configureFailPoint": name, "mode": "off"}
            await deployment.admin("admin", off, address=address)


async def end_transactions(context: Context) -> None:
    """Terminating Open Transactions.

    Only for servers that outlive the case; the runner asks before.
    """
    await kill_all_sessions(context.deployment)


async def kill_all_sessions(deployment: Deployment) -> None:
    """End what sessions have open, on the primary or on each mongos. Raises `ScenarioError`."""
    # Terminating Open Transactions: every mongos of a cluster is asked. Elsewhere only the primary has any.
    addresses = deployment.addresses if deployment.topology.has_mongos else (None,)
    for address in addresses:
        reply = await deployment.admin("admin", {"killAllSessions": []}, address=address)
        if not reply.get("ok") and reply.get("code") not in _HARMLESS_KILL_CODES:
            raise ScenarioError(f"killAllSessions failed: {reply.get('errmsg')}")


def starts_transaction(case: Case) -> bool:
    """Return whether a case may leave a transaction open."""
    return any(operation.name in _TRANSACTION_STARTERS for operation in nested(case.operations))


_TRANSACTION_STARTERS: Final = frozenset({"startTransaction", "withTransaction"})

"""The collections of `local` that are not stored: oplog, configuration, what was rolled back, the journal.

A member of a replica set has the first three, every server the journal. Documents are made when find or
aggregate reads them; those of the oplog end at the last operation that this member has applied. A tailable
cursor over the oplog goes on with the operations that come later.
"""

from __future__ import annotations

import uuid
from collections import deque
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bson import Binary, Timestamp

from fakeserver.commands import journal_collection
from fakeserver.commands.cluster.replication import configuration
from fakeserver.commands.cursors import first_batch
from fakeserver.commands.journal_collection import JOURNAL
from fakeserver.commands.oplog_documents import document_of
from fakeserver.commands.queries.reading import NATURAL, query_of, reader
from fakeserver.sessions.cursors import Cursor
from fakeserver.storage.port.engine import Namespace
from fakeserver.storage.values.types import copy_value
from fakeserver.waiting.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.idl.command_table import Reply
    from fakeserver.storage.port.engine import Document

OPLOG: Final = Namespace("local", "oplog.rs")
ROLLED_BACK: Final = Namespace("local", "pushbackd.rollback")
_CONFIGURATION: Final = Namespace("local", "system.replset")
_BEGINNING: Final = Timestamp(0, 0)


def documents_of(
    ctx: CommandContext, ns: Namespace, query: Mapping[str, Any] | None = None
) -> list[Document] | None:
    """Return the documents of a collection that is not stored, None for one that is.

    Those that do not match `query` may be missing. Raises `CommandError` for a bad one.
    """
    if ns == JOURNAL:
        return journal_collection.documents_of(ctx, query)
    if ns.db != "local" or not ctx.node.is_replica_set_member or ctx.node.shard is None:
        return None
    if ns == OPLOG:
        return _operations(ctx, _BEGINNING)
    if ns == ROLLED_BACK:
        return _rolled_back(ctx)
    return [configuration(ctx)] if ns == _CONFIGURATION else None


def described(ctx: CommandContext) -> list[Document]:
    """Return what `listCollections` shows of the collections of `local` that a member has unstored."""
    if not ctx.node.is_replica_set_member or ctx.node.shard is None:
        return []
    capped = {"capped": True, "size": ctx.node.oplog.capacity_bytes}
    return [
        {
            "name": ns.collection,
            "type": "collection",
            "options": options,
            "info": {"readOnly": False, "uuid": Binary.from_uuid(uuid.uuid5(uuid.NAMESPACE_DNS, str(ns)))},
            "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"},
        }
        for ns, options in ((OPLOG, capped), (_CONFIGURATION, {}))
    ]


def oplog_stats(ctx: CommandContext, ns: Namespace, unit: int) -> Document | None:
    """Return what sets the statistics of the oplog apart, None for another collection."""
    if ns != OPLOG or not ctx.node.is_replica_set_member:
        return None
    stats = ctx.node.oplog.stats
    return {
        "size": stats.size // unit,
        "count": stats.count,
        "avgObjSize": stats.size // max(stats.count, 1),
        "capped": True,
        "max": -1,
        "maxSize": ctx.node.oplog.capacity_bytes // unit,
    }


def _rolled_back(ctx: CommandContext) -> list[Document]:
    """Return the operations that this member has rolled back, the oldest first.

    `entry` is what its oplog had, `documents` what was taken away, as a server's files have it: inserted and
    updated documents as they were, deleted ones, which are there again, as None.
    """
    return [
        {
            "_id": {"rbid": rollback.number, "operation": number},
            "rolledBackAt": datetime.fromtimestamp(rollback.utc, UTC),
            "commonPoint": rollback.common.document,
            "entry": copy_value(document_of(entry)),
            "documents": [
                {"ns": str(written.ns), "document": copy_value(written.change.after)}
                for written in entry.changes
            ],
        }
        for rollback in ctx.node.position.rollbacks
        for number, entry in enumerate(rollback.entries)
    ]


def _operations(ctx: CommandContext, since: Timestamp) -> list[Document]:
    """Return the operations later than `since` that this member has, the oldest first."""
    reached = ctx.node.applied
    entries = ctx.node.oplog.after(since)
    return [copy_value(document_of(entry)) for entry in interruptible(entries) if entry.optime <= reached]


def find(ctx: CommandContext, request: Mapping[str, Any], ns: Namespace, documents: list[Document]) -> Reply:
    """Run a find command over documents that are not stored; a tailable cursor of the oplog goes on."""
    tailable = ns == OPLOG and request.get("tailable", False)
    found = [] if tailable else _selected(ctx, request, ns, documents)
    cursor = Cursor(
        ns,
        deque(found),
        request,
        counted=len(found) == request.get("limit"),
        refill=_follow(ctx, request) if tailable else None,
        await_data=bool(tailable and request.get("awaitData", False)),
        no_timeout=request.get("noCursorTimeout", False),
    )
    return first_batch(ctx, cursor, request.get("batchSize"), single=request.get("singleBatch", False))


def _selected(
    ctx: CommandContext, request: Mapping[str, Any], ns: Namespace, documents: list[Document]
) -> list[Document]:
    sort = request.get("sort") or request.get("hint") or {}
    if isinstance(sort, dict) and sort.get(NATURAL) == -1:
        documents.reverse()
    stages: list[Mapping[str, Any]] = [{"$match": request.get("filter") or {}}]
    if request.get("sort") and NATURAL not in request["sort"]:
        stages.append({"$sort": request["sort"]})
    for name, stage in (("skip", "$skip"), ("limit", "$limit"), ("projection", "$project")):
        if request.get(name):
            stages.append({stage: request[name]})
    options = query_of(ctx, request, None, read=reader(ctx, ctx.db))
    return ctx.catalog.engine.aggregate(ns, stages, options=options, documents=documents)


def _follow(ctx: CommandContext, request: Mapping[str, Any]) -> Callable[[], list[Document]]:
    """Return a function that returns the operations that came since its last call."""
    seen = _BEGINNING
    wanted = {name: value for name, value in request.items() if name not in {"skip", "limit", "sort"}}

    def refill() -> list[Document]:
        nonlocal seen
        new = _operations(ctx, seen)
        if new:
            seen = new[-1]["ts"]
        return _selected(ctx, wanted, OPLOG, new)

    return refill

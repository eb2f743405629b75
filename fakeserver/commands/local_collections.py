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

from bson import Binary, Int64, Timestamp

from fakeserver.commands.cluster.replication import configuration
from fakeserver.commands.cursors import first_batch
from fakeserver.commands.queries.reading import NATURAL, query_of, reader
from fakeserver.deployment.records.journal_search import COLLECTION
from fakeserver.sessions.cursors import Cursor
from fakeserver.sessions.session import lsid_of
from fakeserver.storage.filters.matching import compile_filter
from fakeserver.storage.port.engine import Namespace
from fakeserver.storage.values.types import copy_value, identical
from fakeserver.waiting.interrupts import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.records.record import Record
    from fakeserver.idl.command_table import Reply
    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.port.oplog import OplogEntry, Written


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
        return _records(ctx, query)
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


# Entries of the oplog as the documents of `local.oplog.rs`.


_VERSION: Final = Int64(2)
_DIFF_VERSION: Final = 2
_NO_OPTIME: Final[Mapping[str, Any]] = {"ts": Timestamp(0, 0), "t": Int64(-1)}


def document_of(entry: OplogEntry) -> Document:
    """Return an entry as a document: one change as itself, those of a transaction as an `applyOps`."""
    if entry.session_id is not None:
        operation = {
            "lsid": lsid_of(entry.session_id),
            "txnNumber": Int64(entry.txn_number or 0),
            **_together(entry),
        }
    elif not entry.changes:
        operation = {"op": "n", "ns": "", "o": {"msg": "periodic noop"}}
    else:
        operation = _of_one(entry.changes[0]) if len(entry.changes) == 1 else _together(entry)
    return {
        **operation,
        "ts": entry.optime.timestamp,
        "t": Int64(entry.optime.term),
        "v": _VERSION,
        "wall": entry.wall,
        **({"prevOpTime": dict(_NO_OPTIME)} if entry.session_id is not None else {}),
    }


def _together(entry: OplogEntry) -> Document:
    return {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [_of_one(each) for each in entry.changes]}}


def _of_one(written: Written) -> Document:
    """Return one change: an insert, an update, a delete or a command."""
    before, after = written.change.before, written.change.after
    kind: Document = {"ns": str(written.ns)}
    if written.uuid is not None:
        kind["ui"] = written.uuid
    if written.ns.collection == "$cmd":
        return {"op": "c", **kind, "o": dict(after or {})}
    if before is None:
        inserted = after or {}
        return {"op": "i", **kind, "o": inserted, "o2": {"_id": inserted.get("_id")}}
    if after is None:
        return {"op": "d", **kind, "o": {"_id": before.get("_id")}}
    change = after if written.change.replacement else {"$v": _DIFF_VERSION, "diff": difference(before, after)}
    return {"op": "u", **kind, "o": change, "o2": {"_id": before.get("_id")}}


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Document:
    """Return what turns one document into another: `d`eleted, `u`pdated, `i`nserted fields and `s<name>`."""
    deleted = {name: False for name in before if name not in after}
    updated: Document = {}
    below: Document = {}
    for name in before:
        if name not in after or identical({"": before[name]}, {"": after[name]}):
            continue
        part = _below(before[name], after[name])
        if part is None:
            updated[name] = after[name]
        else:
            below[f"s{name}"] = part
    inserted = {name: value for name, value in after.items() if name not in before}
    sections = {"d": deleted, "u": updated, "i": inserted}
    return {**{name: fields for name, fields in sections.items() if fields}, **below}


def _below(before: Any, after: Any) -> Document | None:
    """Return the difference between two documents or two arrays, None where one value replaces the other."""
    if isinstance(before, dict) and isinstance(after, dict):
        return difference(before, after)
    if isinstance(before, list) and isinstance(after, list):
        found: Document = {"a": True}
        if len(after) < len(before):
            found["l"] = len(after)
        for index, item in enumerate(after):
            if index >= len(before):
                found[f"u{index}"] = item
            elif not identical({"": before[index]}, {"": item}):
                part = _below(before[index], item)
                found[f"u{index}" if part is None else f"s{index}"] = item if part is None else part
        return found
    return None


def patched(before: Mapping[str, Any], change: Mapping[str, Any]) -> Document:
    """Return the document that a `difference` makes of another."""
    inserted = change.get("i", {})
    after = {
        name: value
        for name, value in before.items()
        if name not in change.get("d", {}) and name not in inserted
    }
    after.update(change.get("u", {}))
    after.update(inserted)
    for key, part in change.items():
        name = key[1:]
        if key.startswith("s") and name in after:
            patch = _patched_array if part.get("a") else patched
            after[name] = patch(after[name], part)
    return after


def _patched_array(before: Any, change: Mapping[str, Any]) -> list[Any]:
    after = list(before)[: change.get("l")]
    for key, part in change.items():
        if key[1:].isdecimal():
            index = int(key[1:])
            after.extend([None] * (index + 1 - len(after)))
            if key.startswith("u"):
                after[index] = part
            else:
                after[index] = (_patched_array if part.get("a") else patched)(after[index], part)
    return after


# The journal as a collection, `local.pushbackd.journal`: a document for each record, made to be read.


JOURNAL: Final = Namespace("local", COLLECTION)

_COSTLY: Final = ("request", "reply")
"""The fields for which a message must be decoded."""


def _records(ctx: CommandContext, query: Mapping[str, Any] | None = None) -> list[Document]:
    """Return the records that a filter may match, oldest first; all without one. Raises `CommandError`."""
    journal = ctx.node.cluster.journal
    # A filter that looks into messages, or may, is left to the caller.
    is_cheap = query and not any(name.startswith(("$", *_COSTLY)) for name in query)
    matches = compile_filter(query) if query and is_cheap else None
    return [
        _document(record, documents=True)
        for record in interruptible(journal.records)
        if matches is None or matches(_document(record, documents=False))
    ]


def _document(record: Record, *, documents: bool) -> Document:
    return {"_id": record.seq, **record.to_document(documents=documents)}

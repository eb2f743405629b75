"""Entries of the oplog as the documents of `local.oplog.rs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from bson import Int64, Timestamp

from fakeserver.sessions.session import lsid_of
from fakeserver.storage.values.types import identical

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fakeserver.storage.port.engine import Document
    from fakeserver.storage.port.oplog import OplogEntry, Written

_VERSION: Final = Int64(2)
_DIFF_VERSION: Final = 2
_NO_OPTIME: Final[Mapping[str, Any]] = {"ts": Timestamp(0, 0), "t": Int64(-1)}


def document_of(entry: OplogEntry) -> Document:
    """Return an entry as a document: one change as itself, those of a transaction as an `applyOps`."""
    return {
        **_operation(entry),
        "ts": entry.optime.timestamp,
        "t": Int64(entry.optime.term),
        "v": _VERSION,
        "wall": entry.wall,
        **({"prevOpTime": dict(_NO_OPTIME)} if entry.session_id is not None else {}),
    }


def _operation(entry: OplogEntry) -> Document:
    if entry.session_id is not None:
        return {
            "lsid": lsid_of(entry.session_id),
            "txnNumber": Int64(entry.txn_number or 0),
            **_together(entry),
        }
    if not entry.changes:
        return {"op": "n", "ns": "", "o": {"msg": "periodic noop"}}
    return _of_one(entry.changes[0]) if len(entry.changes) == 1 else _together(entry)


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

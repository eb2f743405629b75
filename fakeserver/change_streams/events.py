"""Events made of entries of the oplog (`Change Streams: Change Event documents`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import bson
from bson import Binary, Int64

from fakeserver.change_streams.tokens import ResumeToken, StreamPosition
from fakeserver.errors import CommandError
from fakeserver.profile import WIRE_82
from fakeserver.sessions.session import lsid_of
from fakeserver.storage.port.engine import Namespace
from fakeserver.storage.store.catalog import BUILT_IN
from fakeserver.storage.values.printing import show_document
from fakeserver.storage.values.types import MISSING, identical
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fakeserver.change_streams.stream import ChangeStreamOptions
    from fakeserver.storage.port.engine import Changed, Document
    from fakeserver.storage.port.oplog import OplogEntry, Written


Path: TypeAlias = "tuple[str | int, ...]"
"""The names of fields, and the indexes of elements as numbers."""

_ENTRY_BYTES: Final = 15
"""The bytes of an entry about a difference, beside the difference."""


@dataclass(slots=True)
class Delta:
    """The differences between two states of a document, each under the path where it begins."""

    updated: list[tuple[Path, Any]] = field(default_factory=list)
    removed: list[Path] = field(default_factory=list)
    truncated: list[tuple[Path, int]] = field(default_factory=list)

    def describe(self, *, expanded: bool) -> Document:
        """Return the `updateDescription` of an event; expanded ones resolve ambiguous paths."""
        description: Document = {
            "updatedFields": {_joined(path): value for path, value in self.updated},
            "removedFields": [_joined(path) for path in self.removed],
            "truncatedArrays": [{"field": _joined(path), "newSize": size} for path, size in self.truncated],
        }
        if expanded:
            paths = (
                *(path for path, _ in self.updated),
                *self.removed,
                *(path for path, _ in self.truncated),
            )
            description["disambiguatedPaths"] = {
                _joined(path): list(path)
                for path in paths
                if any(isinstance(part, str) and (part.isdigit() or "." in part) for part in path)
            }
        return description

    def size(self) -> int:
        """Return about how many bytes the differences take."""
        changed = {_joined(path): value for path, value in self.updated}
        gone = {_joined(path): 0 for path in self.removed}
        cut = {_joined(path): size for path, size in self.truncated}
        return len(bson.encode({"u": changed, "d": gone, "l": cut}))


def _joined(path: Path) -> str:
    return ".".join(map(str, path))


def delta_of(change: Changed) -> Delta | None:
    """Return what an update changed, None if only the whole new document shows it.

    Operators record the paths where they worked; of a pipeline the states are compared, and a difference
    that is larger than the document is left out.
    """
    before, after = change.before, change.after
    assert before is not None and after is not None, "an update has both states"  # noqa: PT018 -- one fact
    if change.replacement:
        return None
    if change.touched is not None:
        return _of_operators(change.touched, before, after)
    delta = Delta()
    _compare_documents(before, after, (), delta)
    return delta if delta.size() + _ENTRY_BYTES <= len(bson.encode(after)) else None


def _of_operators(touched: Sequence[tuple[str, tuple[str, ...]]], before: Document, after: Document) -> Delta:
    delta = Delta()
    seen: set[Path] = set()
    for operator, parts in touched:
        path, old, new = _first_difference(parts, before, after)
        if path in seen or (old is MISSING and new is MISSING):
            continue
        seen.add(path)
        if new is MISSING:
            delta.removed.append(path)
        elif operator == "$push" and _was_extended(old, new):
            delta.updated += [((*path, index), new[index]) for index in range(len(old), len(new))]
        elif old is MISSING or not _same(old, new):
            delta.updated.append((path, new))
    return delta


def _first_difference(parts: tuple[str, ...], before: Any, after: Any) -> tuple[Path, Any, Any]:
    """Return the shortest part of a path at which something is new or gone, else the whole path."""
    path: Path = ()
    for part in parts:
        name: str | int = int(part) if isinstance(after, list) and part.isdigit() else part
        path = (*path, name)
        before, after = _child(before, name), _child(after, name)
        if before is MISSING or after is MISSING:
            break
    return path, before, after


def _child(value: Any, name: str | int) -> Any:
    if isinstance(value, dict) and isinstance(name, str):
        return value.get(name, MISSING)
    if isinstance(value, list) and isinstance(name, int) and name < len(value):
        return value[name]
    return MISSING


def _same(one: Any, other: Any) -> bool:
    return identical({"": one}, {"": other})


def _was_extended(old: Any, new: Any) -> bool:
    if not isinstance(old, list) or not isinstance(new, list) or len(new) <= len(old):
        return False
    return all(_same(one, other) for one, other in zip(old, new, strict=False))


def _compare_documents(before: Document, after: Document, path: Path, delta: Delta) -> None:
    delta.removed += [(*path, name) for name in before if name not in after]
    for name, value in after.items():
        _compare(before.get(name, MISSING), value, (*path, name), delta)


def _compare(old: Any, new: Any, path: Path, delta: Delta) -> None:
    if old is not MISSING and _same(old, new):
        return
    inner = Delta()
    if isinstance(old, dict) and isinstance(new, dict):
        _compare_documents(old, new, path, inner)
    elif isinstance(old, list) and isinstance(new, list):
        for index, value in enumerate(new):
            _compare(old[index] if index < len(old) else MISSING, value, (*path, index), inner)
        if len(new) < len(old):
            inner.truncated.append((path, len(new)))
    # A difference that takes more bytes than the new value is replaced by that.
    cost = sum(len(bson.encode({"v": each})) for _path, each in inner.updated)
    changed = inner.updated or inner.removed or inner.truncated
    if not changed or cost > len(bson.encode({"v": new})):
        delta.updated.append((path, new))
        return
    delta.updated += inner.updated
    delta.removed += inner.removed
    delta.truncated += inner.truncated


_COMMANDS: Final = {
    "create": "create",
    "createIndexes": "createIndexes",
    "dropIndexes": "dropIndexes",
    "collMod": "modify",
    "shardCollection": "shardCollection",
    "drop": "drop",
    "renameCollection": "rename",
    "dropDatabase": "dropDatabase",
}
_EXPANDED: Final = frozenset({"create", "createIndexes", "dropIndexes", "modify", "shardCollection"})
_END_OF_COLLECTION: Final = frozenset({"drop", "rename", "dropDatabase"})


@dataclass(frozen=True, slots=True)
class Watched:
    """The subject of a stream: a collection, a database (no `collection`), or everything (no `db`)."""

    db: str | None = None
    collection: str | None = None

    def holds(self, ns: Namespace) -> bool:
        """Return whether changes of a collection become events."""
        if ns.collection.startswith("system."):
            return False
        if self.db is None:
            return ns.db not in BUILT_IN
        return ns.db == self.db and self.collection in {None, ns.collection}

    def ends_with(self, kind: str) -> bool:
        """Return whether an event of this kind is the last but the invalidation."""
        if self.db is None:
            return False
        return kind in _END_OF_COLLECTION if self.collection is not None else kind == "dropDatabase"


class ChangeEvent(NamedTuple):
    """An event, its position in the stream, and its token."""

    position: StreamPosition
    token: Document
    document: Document


class EventMaker:
    """Makes events of the oplog's entries, as a stream asked for them.

    `look_up` returns the current document of a namespace, a collection's UUID and an `_id`, or None.
    """

    def __init__(
        self,
        watched: Watched,
        options: ChangeStreamOptions,
        look_up: Callable[[Namespace, Binary | None, Any], Document | None],
        wire_version: int,
    ) -> None:
        self.watched = watched
        self._options = options
        self._look_up = look_up
        self._tells_kinds = wire_version >= WIRE_82

    def positions(self, entry: OplogEntry) -> Iterator[tuple[StreamPosition, Written, str]]:
        """Iterate over the events of an entry without making them: the position, the change, and the kind."""
        for index, written in enumerate(entry.changes):
            is_command = written.ns.collection == "$cmd"
            if not is_command and not self.watched.holds(written.ns):
                continue
            change = written.change
            if written.ns.collection == "$cmd":
                kind = _COMMANDS.get(next(iter(_command(written)), ""))
            elif change.before is None:
                kind = "insert"
            elif change.after is None:
                kind = "delete"
            else:
                kind = "replace" if delta_of(change) is None else "update"
            if kind is None or (is_command and not self._is_command_told(written, kind)):
                continue
            position = StreamPosition.event(entry.optime.timestamp, index)
            yield position, written, kind
            if self.watched.ends_with(kind):
                yield position._replace(invalidates=True), written, "invalidate"

    def event(self, entry: OplogEntry, position: StreamPosition, written: Written, kind: str) -> ChangeEvent:
        """Return an event. Raises `CommandError` 47 if it lacks an image that is required."""
        token = ResumeToken(position, written.uuid).document
        document: Document = {
            "_id": token,
            "operationType": kind,
            "clusterTime": entry.optime.timestamp,
            "wallTime": entry.wall,
        }
        if kind == "invalidate":
            return ChangeEvent(position, token, document)
        if self._options.expanded and written.uuid is not None:
            document["collectionUUID"] = written.uuid
        if entry.session_id is not None:
            document["lsid"] = lsid_of(entry.session_id)
            document["txnNumber"] = Int64(entry.txn_number or 0)
        if kind in _COMMANDS.values():
            document |= self._of_command(written, kind)
        else:
            document |= self._of_document(written, kind, document)
        return ChangeEvent(position, token, document)

    # The changes that become events.

    def _is_command_told(self, written: Written, kind: str) -> bool:
        if not self._options.expanded and (kind in _EXPANDED or written.detail.get("nsType") == "view"):
            return False
        if kind == "dropDatabase":
            return self.watched.collection is None and self.watched.db in {None, written.ns.db}
        if kind == "rename":
            command = _command(written)
            ends = (Namespace.parse(command["renameCollection"]), Namespace.parse(command["to"]))
            return any(self.watched.holds(ns) for ns in ends)
        return self.watched.holds(_namespace(written, kind))

    # The fields of events.

    def _of_document(self, written: Written, kind: str, head: Document) -> Document:
        change, options = written.change, self._options
        fields: Document = {}
        if kind in {"insert", "replace"}:
            fields["fullDocument"] = change.after
        fields["ns"] = _shown(written.ns)
        key = (change.after or change.before or {}).get("_id")
        fields["documentKey"] = {"_id": key}
        if kind == "update":
            delta = delta_of(change)
            assert delta is not None, "a change without a difference is a replacement"
            fields["updateDescription"] = delta.describe(expanded=options.expanded)
            if options.full_document is not None:
                fields["fullDocument"] = self._after(written, {**head, **fields})
        if kind != "insert" and options.before_change is not None:
            image = change.before if written.images else None
            if image is None and options.before_change == "required":
                raise _no_image(
                    "pre-image for all update, delete and replace", "pre-image", {**head, **fields}
                )
            fields["fullDocumentBeforeChange"] = image
        return fields

    def _after(self, written: Written, fields: Document) -> Document | None:
        mode = self._options.full_document
        if mode == "updateLookup":
            return self._look_up(written.ns, written.uuid, fields["documentKey"]["_id"])
        image = written.change.after if written.images else None
        if image is None and mode == "required":
            raise _no_image("post-image for all update", "post-image", fields)
        return image

    def _of_command(self, written: Written, kind: str) -> Document:
        command, options = _command(written), self._options
        fields: Document = {}
        description: Document | None = None
        if kind == "rename":
            source, target = Namespace.parse(command["renameCollection"]), Namespace.parse(command["to"])
            fields = {"ns": _shown(source), "to": _shown(target)}
            dropped = {name: command[name] for name in ("dropTarget",) if name in command}
            description = {"to": _shown(target), **dropped}
        elif kind == "dropDatabase":
            fields["ns"] = {"db": written.ns.db}
        else:
            fields["ns"] = _shown(_namespace(written, kind))
            rest = dict(list(command.items())[1:])
            if kind == "create":
                index = written.detail.get("idIndex")
                description = {**rest, **({"idIndex": index} if index is not None else {})}
            elif kind == "dropIndexes":
                description = {"indexes": written.detail.get("indexes", [])}
            else:
                description = None if kind == "drop" else rest
        if options.expanded and description is not None:
            fields["operationDescription"] = description
        if kind == "modify":
            fields["stateBeforeChange"] = written.detail.get("stateBeforeChange", {})
        if kind == "create" and self._tells_kinds:
            fields["nsType"] = written.detail.get("nsType", "collection")
        return fields


def _command(written: Written) -> Document:
    command = written.change.after
    assert command is not None, "a command's entry holds it"
    return command


def _namespace(written: Written, kind: str) -> Namespace:
    command = _command(written)
    name = next(iter(command.values())) if kind != "dropDatabase" else ""
    return Namespace(written.ns.db, str(name))


def _shown(ns: Namespace) -> Document:
    return {"db": ns.db, "coll": ns.collection}


def _no_image(wanted: str, missing: str, fields: Document) -> CommandError:
    return CommandError(
        ErrorCode.NO_MATCHING_DOCUMENT,
        f"Change stream was configured to require a {wanted} events, but the {missing} was not found for "
        f"event: {show_document({'_id': fields['_id'], 'operationType': fields['operationType']})}",
    )

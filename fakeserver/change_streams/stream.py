"""A change stream: its position in the oplog, and the events that it returns next.

Nothing here waits: the getMore that finds nothing is called again when the oplog has grown.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import bson
from bson import Timestamp

from fakeserver.change_streams.tokens import ResumeToken, StreamPosition
from fakeserver.errors import CommandError
from fakeserver.idl.features import IMAGES, fit_fields
from fakeserver.idl.fields import Field, Fields, type_name
from fakeserver.storage.values.limits import MAX_USER_BYTES, Room, invalid_size
from fakeserver.storage.values.printing import show_document
from fakeserver.waiting.interrupts import check_for_interrupt
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bson import Binary

    from fakeserver.change_streams.events import ChangeEvent, EventMaker
    from fakeserver.storage.port.engine import Document, Namespace
    from fakeserver.storage.port.oplog import Oplog, OplogEntry, OpTime, Written


class OplogSource(Protocol):
    """The oplog as one member sees it."""

    @property
    def oplog(self) -> Oplog:
        """The set's oplog."""
        ...

    def visible(self) -> OpTime:
        """Return the last operation that is safe from rollback and known here."""
        ...


class ChangeStream:
    """The events after a position, in the oplog's order.

    `after` is the position of the client's `token`, `at` a time to begin with; with neither it begins now.
    `transform` is the pipeline after `$changeStream`; `splits` says that it ends with
    `$changeStreamSplitLargeEvent`.
    """

    def __init__(
        self,
        source: OplogSource,
        events: EventMaker,
        *,
        after: StreamPosition | None,
        token: Document | None = None,
        at: Timestamp | None,
        transform: Callable[[list[Document]], list[Document]],
        splits: bool,
    ) -> None:
        """Take the position to begin with. Raises `CommandError` 286 if it is no longer in the oplog."""
        self._source = source
        self._events = events
        self._transform = transform
        self._splits = splits
        self._ready: deque[tuple[StreamPosition, Document, Document]] = deque()
        """Events that are made and not returned: a reply was full, or a large event was split."""
        self._closed = False
        """An invalidation was read. It is the last event, so nothing is read after it."""
        if after is None:
            start = at if at is not None else _next_time(source.visible())
            after = StreamPosition.mark(start)
        self._after = after
        """The position to begin with: events at it and before are not returned."""
        self._expected: StreamPosition | None = after.whole if after.is_event else None
        """The client's event, until it is met. A stream that never meets it began in another history."""
        self._scanned: OpTime | None = None
        """The last entry that was read, returned or not."""
        self._at = after
        """The position of `token`, which only grows."""
        self.token: Document = token or ResumeToken(after).document
        """The token of the last event returned, or a later high-water mark (`postBatchResumeToken`)."""
        forgotten = self._source.oplog.forgotten
        if forgotten is not None and (after.seconds, after.increment) <= forgotten[:2]:
            raise CommandError(
                ErrorCode.CHANGE_STREAM_HISTORY_LOST,
                "Resume of change stream was not possible, as the resume point may no longer be in the "
                "oplog.",
            )

    @property
    def closed(self) -> bool:
        """Whether the stream was invalidated, and everything before that handed out."""
        return self._closed and not self._ready

    def take(self, limit: int | None) -> list[Document]:
        """Return the next events: at most `limit`, and no more bytes than a reply can hold.

        Raises `CommandError` for an event that cannot be returned, and for a position that there never was.
        """
        batch: list[Document] = []
        room = Room()
        visible = self._source.visible()
        unread = deque(self._entries(visible) if limit != 0 and not self._closed else ())
        while limit is None or len(batch) < limit:
            if not self._ready and not self._read(unread):
                # Nothing more: the token moves on to the time that was seen, so that a client whose
                # collection is quiet can resume after the oplog has dropped its last event.
                self._advance(StreamPosition.mark(visible.timestamp))
                break
            position, token, document = self._ready[0]
            if not room.admits(document):
                break
            self._ready.popleft()
            self._at, self.token = position, token
            batch.append(document)
        return batch

    # Reading the oplog.

    def _read(self, unread: deque[OplogEntry]) -> bool:
        """Read until something is ready; return whether that is so."""
        while unread and not self._closed and not self._ready:
            check_for_interrupt()
            entry = unread.popleft()
            self._scanned = entry.optime
            for position, written, kind in self._events.positions(entry):
                if position == self._expected:
                    self._expected = None
                # Resumed within a split event: its later fragments are still to be returned.
                begun = position == self._after.whole and self._after.fragment > 0
                if self._closed or (position <= self._after and not begun):
                    continue
                if self._expected is not None and position > self._expected:
                    token = ResumeToken(position, written.uuid).document
                    raise CommandError(
                        ErrorCode.CHANGE_STREAM_FATAL_ERROR,
                        f"cannot resume stream; the resume token was not found. {show_document(token)}",
                    )
                event = self._events.event(entry, position, written, kind)
                for document in self._transform([event.document]):
                    if document.get("_id") != event.token:
                        # The client could not resume: a pipeline may change every field but this.
                        raise _changed_id(event, document)
                    self._enqueue(event, document, written)
                if not self._ready:
                    self._advance(position)
                if kind == "invalidate":
                    self._closed = True
        return bool(self._ready)

    def _entries(self, visible: OpTime) -> list[OplogEntry]:
        """Return the operations that were not read yet. Raises `CommandError` 136 if some are gone."""
        oplog, scanned = self._source.oplog, self._scanned
        needed = Timestamp(*self._after[:2]) if scanned is None else _next_time(scanned)
        if oplog.forgotten is not None and oplog.forgotten.timestamp >= needed:
            raise CommandError(
                ErrorCode.CAPPED_POSITION_LOST,
                "CollectionScan died due to position in capped collection being deleted. Last seen "
                f"record id: RecordId({needed.time}, {needed.inc})",
            )
        return [entry for entry in oplog.from_time(needed) if entry.optime <= visible]

    def _enqueue(self, event: ChangeEvent, document: Document, written: Written) -> None:
        size = len(bson.encode(document))
        if size <= MAX_USER_BYTES:
            if event.position <= self._after:
                raise CommandError(
                    ErrorCode.CHANGE_STREAM_FATAL_ERROR,
                    f"cannot resume stream; the resume token was not found. {show_document(event.token)}",
                )
            self._ready.append((event.position, event.token, document))
            return
        if not self._splits:
            raise invalid_size(size)
        for position, fragment in split_event(document, event.position, written.uuid):
            if position > self._after:
                self._ready.append((position, fragment["_id"], fragment))

    def _advance(self, position: StreamPosition) -> None:
        """Move the token on over entries without events; nothing is behind an invalidation."""
        if position > self._at and not self._closed:
            self._at, self.token = position, ResumeToken(position).document

    # Positions that are no more, or never were.


def _next_time(optime: OpTime) -> Timestamp:
    return Timestamp(optime.seconds, optime.increment + 1)


def _changed_id(event: ChangeEvent, document: Document) -> CommandError:
    found: Any = document.get("_id")
    shown = show_document({"_id": found}) if "_id" in document else "{}"
    return CommandError(
        ErrorCode.CHANGE_STREAM_FATAL_ERROR,
        "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline."
        " Modifying the _id field of an event makes it impossible to resume the stream from that point. Only"
        " transformations that retain the unmodified _id field are allowed. Expected:"
        f" {show_document({'_id': event.token})} but found: {shown}",
    )


# `$changeStreamSplitLargeEvent`: an event that no message can hold, in parts.

_ROOM_FOR_HEAD: Final = 1024


def split_event(
    event: Document, position: StreamPosition, uuid: Binary | None, *, limit: int = MAX_USER_BYTES
) -> list[tuple[StreamPosition, Document]]:
    """Return the fragments of an event larger than `limit` bytes, each with its position.

    Top-level fields go whole, in their order, each into the first fragment that has room.
    Raises `CommandError` 10334 for a field that fits into none.
    """
    parts: list[Document] = [{}]
    room = limit - _ROOM_FOR_HEAD
    for name, value in event.items():
        if name == "_id":
            continue
        size = len(bson.encode({name: value}))
        if size > limit - _ROOM_FOR_HEAD:
            raise invalid_size(size)
        if size > room:
            parts.append({})
            room = limit - _ROOM_FOR_HEAD
        parts[-1][name] = value
        room -= size
    fragments: list[tuple[StreamPosition, Document]] = []
    for number, part in enumerate(parts, 1):
        own = position._replace(fragment=number)
        head: Document = {"_id": ResumeToken(own, uuid).document}
        head["splitEvent"] = {"fragment": number, "of": len(parts)}
        fragments.append((own, {**head, **part}))
    return fragments


# The options of `$changeStream` (`Change Streams: Driver API`).


_NOT_A_DOCUMENT: Final = 6188500
_TWO_TOKENS: Final = 50865
_TOKEN_AND_TIME: Final = 40674
_NOT_HERE: Final = (
    "showMigrationEvents", "showRawUpdateDescription", "showSystemEvents", "showCommitTimestamp",
    "allowToRunOnConfigDB", "allowToRunOnSystemNS", "matchCollectionUUIDForUpdateLookup",
)  # fmt: skip
"""Switches that clusters use among themselves; they may be false."""

_FIELDS: Final = Fields.of(
    Field("fullDocument", "string", choices=("default", "updateLookup", "whenAvailable", "required")),
    Field("fullDocumentBeforeChange", "string", choices=("off", "whenAvailable", "required")),
    Field("resumeAfter", "object"),
    Field("startAfter", "object"),
    Field("startAtOperationTime", "timestamp"),
    *(
        Field(name, "strictBool", nullable=False)
        for name in ("allChangesForCluster", "showExpandedEvents", *_NOT_HERE)
    ),
)


@dataclass(frozen=True, slots=True)
class ChangeStreamOptions:
    """The options of a stream. Images that are not asked for are None.

    `after` is the position of the resume `token`, `at` the time to start with; a stream with neither starts
    now.
    """

    full_document: str | None = None
    before_change: str | None = None
    after: StreamPosition | None = None
    token: Document | None = None
    at: Timestamp | None = None
    everything: bool = False
    expanded: bool = False


def parse(spec: Any, ns: Namespace, wire_version: int) -> ChangeStreamOptions:
    """Return the options of a `$changeStream` stage, as a release knows it. Raises `CommandError`."""
    if not isinstance(spec, dict):
        raise CommandError(
            _NOT_A_DOCUMENT,
            f"the $changeStream stage specification must be an object, found {type_name(spec)}",
        )
    fields = dict(spec)
    fit_fields(_FIELDS, "$changeStream", wire_version).check(fields, "$changeStream")
    mode = fields.get("fullDocument")
    if wire_version < IMAGES and mode not in {None, "default", "updateLookup"}:
        raise CommandError(
            ErrorCode.BAD_VALUE,
            f"Enumeration value '{mode}' for field '$changeStream.fullDocument' is not a valid value.",
        )
    for name in _NOT_HERE:
        if fields.get(name, False):
            raise CommandError(
                ErrorCode.NOT_IMPLEMENTED, f"$changeStream.{name} is not supported by this fake server"
            )
    options = ChangeStreamOptions(
        full_document=_unless(fields.get("fullDocument"), "default"),
        before_change=_unless(fields.get("fullDocumentBeforeChange"), "off"),
        after=_resume_position(fields),
        token=fields.get("resumeAfter") or fields.get("startAfter"),
        at=fields.get("startAtOperationTime"),
        everything=fields.get("allChangesForCluster", False),
        expanded=fields.get("showExpandedEvents", False),
    )
    _check_namespace(ns, options)
    return options


def _unless(mode: str | None, default: str) -> str | None:
    return None if mode == default else mode


def _resume_position(fields: Mapping[str, Any]) -> StreamPosition | None:
    resume_after, start_after = fields.get("resumeAfter"), fields.get("startAfter")
    if resume_after is not None and start_after is not None:
        raise CommandError(
            _TWO_TOKENS, "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage"
        )
    token = resume_after if resume_after is not None else start_after
    if token is None:
        return None
    position = ResumeToken.parse(token)
    if fields.get("startAtOperationTime") is not None:
        raise CommandError(
            _TOKEN_AND_TIME, "Only one type of resume option is allowed, but multiple were found"
        )
    # Nothing follows an invalidation in the same stream; `startAfter` begins another one behind it.
    if resume_after is not None and position.invalidates:
        raise CommandError(
            ErrorCode.INVALID_RESUME_TOKEN,
            "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate"
            " notification",
        )
    return position


def _check_namespace(ns: Namespace, options: ChangeStreamOptions) -> None:
    whole = ns.collection == "$cmd.aggregate"
    if options.everything and (ns.db != "admin" or not whole):
        raise CommandError(
            ErrorCode.INVALID_OPTIONS,
            "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and"
            f" with no collection name; found {ns}",
        )
    if ns.db in {"local", "config"} or (ns.db == "admin" and not options.everything):
        raise CommandError(
            ErrorCode.INVALID_NAMESPACE, f"$changeStream may not be opened on the internal {ns.db} database"
        )
    if ns.collection.startswith("system."):
        raise CommandError(
            ErrorCode.INVALID_NAMESPACE, f"$changeStream may not be opened on the internal {ns} collection"
        )

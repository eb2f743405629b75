"""The options of `$changeStream` (`Change Streams: Driver API`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fakeserver.change_streams.tokens import ResumeToken
from fakeserver.errors import CommandError
from fakeserver.idl.features import IMAGES, fit_fields
from fakeserver.idl.fields import Field, Fields, type_name
from mongowire.codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bson import Timestamp

    from fakeserver.change_streams.tokens import StreamPosition
    from fakeserver.storage.port.engine import Document, Namespace

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
    Field("allChangesForCluster", "bool"),
    Field("showExpandedEvents", "bool"),
    *(Field(name, "bool") for name in _NOT_HERE),
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

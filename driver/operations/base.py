"""An operation, before a server is chosen for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from driver.policy.deadline import NO_TIMEOUT
from driver.sdam.description import ServerType
from driver.sdam.selection import WRITABLE, Selector

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from driver.concerns import Concerns, ReadConcern, ReadPreference
    from driver.policy.deadline import Timeout
    from driver.sdam.description import ServerDescription, TopologyDescription
    from mongowire.messages import DocumentSequence

SECONDARY_WRITES_WIRE_VERSION = 13
"""Servers from 5.0 on take aggregations with a write stage on secondaries."""

ABOUT_COLLECTIONS = frozenset(
    {
        *("aggregate", "count", "distinct", "find", "mapReduce"),
        *("insert", "update", "delete", "findAndModify", "killCursors"),
        *("create", "collMod", "drop", "createIndexes", "dropIndexes", "listIndexes"),
        *("createSearchIndexes", "updateSearchIndex", "dropSearchIndex"),
    }
)
"""Commands whose name has a collection for its value."""


@dataclass(frozen=True)  # without slots, for what every write asks
class Target:
    """What an operation is about: a collection, with the concerns of the view that it is seen through.

    The `collection` of a command on a whole database is 1.
    """

    database: str
    collection: str | int
    concerns: Concerns

    @cached_property
    def acknowledged(self) -> bool:
        """Whether the server replies to writes."""
        return self.concerns.write_concern.acknowledged

    @cached_property
    def write_concern_field(self) -> Mapping[str, Any]:
        """The `writeConcern` of a command, nothing for the server's default."""
        document = self.concerns.write_concern.to_document()
        return {"writeConcern": document} if document else {}


class Kind(Enum):
    """What the retry options ask: a read, a write, or a command that the driver does not look into."""

    READ = "read"
    WRITE = "write"
    GENERIC = "generic"


class MaxTime(Enum):
    """What a command's maxTimeMS is while timeoutMS is set (Client Side Operations Timeout).

    The time that remains; nothing; or how long the server shall wait for data, at most what remains.
    """

    REMAINING = "remaining"
    NONE = "none"
    AWAITED = "awaited"


@dataclass(slots=True)  # nobody changes one, but frozen it would take four times as long to make
class Command:
    """What one message says. `retryable` is true for supported writes in this very shape."""

    document: Mapping[str, Any]
    sequences: tuple[DocumentSequence, ...] = ()
    retryable: bool = False


@dataclass(slots=True)  # as above
class Operation:
    """What the executor needs to know. `prepare` makes the command once, for the first server.

    `name` is the command's, and `collection` what it is about, as log messages and spans show them before
    there is a command. `retryable_read` is true for reads that Retryable Reads supports. A `read_concern` of
    None is for commands that take none; a `read_preference` of None for those that go to a writable server.
    Those that end a transaction are retried whatever the options say; `on_retry` changes their command.
    `refuse` raises InvalidArgumentError for a server that is too old for what is asked. `timeout` is what
    timeoutMS says, `max_time` what the server learns of it. One that is sent `once` is never tried again:
    nobody waits for it.
    """

    database: str
    kind: Kind
    prepare: Callable[[ServerDescription], Command]
    read_preference: ReadPreference | None = None
    read_concern: ReadConcern | None = None
    retryable_read: bool = False
    acknowledged: bool = True
    writes_through_pipeline: bool = False
    address: str | None = None
    raises_write_concern_error: bool = True
    ends_transaction: bool = False
    on_retry: Callable[[Command], Command] | None = None
    name: str = ""
    collection: str | None = None
    timeout: Timeout = NO_TIMEOUT
    max_time: MaxTime = MaxTime.REMAINING
    refuse: Callable[[ServerDescription], None] | None = None
    once: bool = False

    def selector(self, topology: TopologyDescription) -> Selector:
        """Return what to ask server selection for."""
        if self.address is not None:
            return Selector(address=self.address)
        preference = self.preference(topology)
        if preference is None:
            return WRITABLE
        return Selector(writable=False, read_preference=preference)

    def preference(self, topology: TopologyDescription) -> ReadPreference | None:
        """Return the read preference that counts: none for a pipeline that writes where servers are old."""
        if self.writes_through_pipeline and _has_old_server(topology):
            return None
        return self.read_preference


def _has_old_server(topology: TopologyDescription) -> bool:
    """Whether a server is known to be old; what is behind a load balancer is not, and is 5.0 at the least."""
    return any(
        server.max_wire_version < SECONDARY_WRITES_WIRE_VERSION
        for server in topology.data_bearing  # one is enough: the aggregation may reach any of them
        if server.type is not ServerType.LOAD_BALANCER
    )


def fixed(document: Mapping[str, Any], *, retryable: bool = False) -> Callable[[ServerDescription], Command]:
    """Return a `prepare` for a command that does not depend on the server."""
    command = Command(document, retryable=retryable)
    return lambda _server: command


def first_name(command: Mapping[str, Any]) -> str:
    """Return the name of a command: its first field."""
    return next(iter(command))


def collection_of(command: Mapping[str, Any]) -> str | None:
    """Return the collection that a command is about, or None for one that is about something else."""
    name = first_name(command)
    if name == "getMore":
        return str(command["collection"])
    value = command[name]
    return value if name in ABOUT_COLLECTIONS and isinstance(value, str) else None


def without_none(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document without the options that are None."""
    return {name: value for name, value in document.items() if value is not None}

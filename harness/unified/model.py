"""A unified test format file, as frozen values that remember where they stood.

Unified Test Format: Test Format. Names are the format's own, in snake case. Documents stay plain mappings
with Extended JSON already decoded.

`build` makes these values and nothing changes them afterwards: cases are shared between runs and worker
processes, and a case that fails is run again from the same value. Every part has a `Location`, because a
failure is reported at the line of the expectation that does not hold, not at the line of its file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from mongowire.documents.marks import Location

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from harness.adapters.base import EntityKind
    from harness.unified.server_side.model import ServerSide


class Unset(Enum):
    """The mark of a value that a file does not give, where null is a value."""

    UNSET = "unset"

    def __repr__(self) -> str:
        return "<unset>"


UNSET: Final = Unset.UNSET


@dataclass(frozen=True, slots=True)
class Requirement:
    """One `runOnRequirement`: every field that is present must hold.

    A file and a case may list several; one that holds is enough for each list (`requirements`).
    """

    min_server_version: str | None = None
    max_server_version: str | None = None
    topologies: tuple[str, ...] = ()
    serverless: str | None = None
    server_parameters: Mapping[str, Any] = field(default_factory=dict)
    auth: bool | None = None
    auth_mechanism: str | None = None
    csfle: bool | Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class EntitySpec:
    """One element of `createEntities`: a kind, a unique name, and its document."""

    kind: EntityKind
    id: str
    body: Mapping[str, Any]
    location: Location


@dataclass(frozen=True, slots=True)
class CollectionData:
    """The contents of a collection, before (`initialData`) or after (`outcome`) a case."""

    database_name: str
    collection_name: str
    documents: tuple[Mapping[str, Any], ...]
    # None and an empty mapping differ: only with options, or without documents, is `create` sent (`state`).
    create_options: Mapping[str, Any] | None
    location: Location


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """The assertions of `expectError`; None and UNSET assert nothing."""

    location: Location
    is_client_error: bool | None = None
    is_timeout_error: bool | None = None
    contains: str | None = None
    code: int | None = None
    code_name: str | None = None
    labels_contain: tuple[str, ...] = ()
    labels_omit: tuple[str, ...] = ()
    response: Mapping[str, Any] | None = None
    write_errors: Mapping[str, Any] | None = None
    write_concern_errors: tuple[Mapping[str, Any], ...] | None = None
    # null is a value that a partial result may have; UNSET says that the file asserts none.
    result: Any = UNSET


@dataclass(frozen=True, slots=True)
class Operation:
    """One `operation`: a name, the object that it is run on, and what is expected of it."""

    name: str
    object: str
    arguments: Mapping[str, Any]
    location: Location
    ignore_result_and_error: bool = False
    expect_error: ExpectedError | None = None
    expect_result: Any = UNSET
    save_result_as_entity: str | None = None


def nested(operations: Iterable[object]) -> Iterator[Operation]:
    """Yield operations in their order, each before those that its arguments hold (`callback`, `loop` …).

    The yielded order is that of the file, so whoever looks for the first operation of some kind finds the one
    that runs first. Requirements and undoing ask this and not `Case.operations`: a fail point or a
    transaction may stand in a callback, in a loop or on a thread.
    """
    for operation in operations:
        if isinstance(operation, Operation):
            yield operation
            for value in operation.arguments.values():
                yield from nested(value if isinstance(value, tuple) else (value,))


@dataclass(frozen=True, slots=True)
class ExpectedEvent:
    """One event by its name in the format, with assertions on its fields."""

    kind: str
    body: Mapping[str, Any]
    location: Location


@dataclass(frozen=True, slots=True)
class ExpectedEvents:
    """`expectedEventsForClient`: the events of one monitor (`command`, `cmap` or `sdam`), in order."""

    client: str
    event_type: str
    events: tuple[ExpectedEvent, ...]
    ignore_extra: bool
    location: Location


@dataclass(frozen=True, slots=True)
class ExpectedLog:
    """One log message, with assertions on its data; where `failure_is_redacted` is None, either will do."""

    level: str
    component: str
    data: Mapping[str, Any]
    failure_is_redacted: bool | None
    location: Location


@dataclass(frozen=True, slots=True)
class ExpectedLogs:
    """`expectedLogMessagesForClient`: the messages of a client, in order, without those that are ignored."""

    client: str
    messages: tuple[ExpectedLog, ...]
    ignored: tuple[ExpectedLog, ...]
    ignore_extra: bool
    location: Location


@dataclass(frozen=True, slots=True)
class ExpectedSpan:
    """One span, with assertions on its attributes and the spans within it."""

    name: str
    attributes: Mapping[str, Any]
    nested: tuple[ExpectedSpan, ...]
    location: Location


@dataclass(frozen=True, slots=True)
class ExpectedSpans:
    """`expectedTracingMessagesForClient`: the spans of a client that are within no other, in order."""

    client: str
    spans: tuple[ExpectedSpan, ...]
    ignore_extra: bool
    location: Location


class Flaw(NamedTuple):
    """A mistake that makes a case unusable, with its place; `complaint` tells it to who sees no case.

    A flaw is found by lint, before the run, and is certain: an operation that does not exist, a name that
    leads nowhere. It fails its own case alone, since the format leaves such mistakes to the test that makes
    them.
    """

    message: str
    location: Location
    complaint: str


@dataclass(frozen=True, slots=True)
class Case:
    """One test of a file, with all that it inherits from the file.

    `id` is `<folder of the specification>/<file stem>::<description>` and unique within a run of a tree of
    files; an empty or repeated description is completed by the index of the case.
    """

    id: str
    description: str
    path: Path
    line: int
    index: int
    schema_version: str
    file_requirements: tuple[Requirement, ...]
    requirements: tuple[Requirement, ...]
    skip_reason: str | None
    entities: tuple[EntitySpec, ...]
    initial_data: tuple[CollectionData, ...]
    operations: tuple[Operation, ...]
    expected_events: tuple[ExpectedEvents, ...]
    expected_logs: tuple[ExpectedLogs, ...]
    expected_spans: tuple[ExpectedSpans, ...]
    outcome: tuple[CollectionData, ...]
    server_side: ServerSide | None = None
    """The key `pushbackd`: what the servers are to have seen."""
    flaw: Flaw | None = None
    """Why it can only fail, whatever the driver; the other cases of its file are not concerned."""

    @property
    def location(self) -> Location:
        """Return where the case begins."""
        return Location(self.path, self.line)


@dataclass(frozen=True, slots=True)
class TestFile:
    """A scenario file that has passed validation."""

    __test__: ClassVar[bool] = False

    path: Path
    description: str
    schema_version: str
    cases: tuple[Case, ...]

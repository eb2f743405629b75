"""The port of drivers: the requests of the runner to an adapter.

The runner never learns which driver it drives: it reads `features`, creates entities, calls operations by
the names of the unified test format, and drains events. Handles are opaque to it; documents, events and
errors are in the vocabulary of the specification, so that a driver behind a pipe is an ordinary adapter.

Three answers of an adapter have different consequences, and an adapter that mixes them up hides failures:
`OperationFailed` may be what the scenario expects, `UnsupportedOperation` skips the case, and any other
exception is a defect that fails it. `AdapterLost` fails the case too, and has the process replaced before the
next one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Handle: TypeAlias = Any
"""A driver's own object: a client, a cursor, a session. Only its adapter looks inside."""

TargetT = TypeVar("TargetT")


class Feature(Enum):
    """A capability that scenarios may need. The value is the sentence that defines it."""

    COMMAND_EVENTS = "Command monitoring events can be observed."
    POOL_EVENTS = "Connection pool (CMAP) events can be observed."
    SDAM_EVENTS = "Discovery and monitoring (SDAM) events can be observed."
    LOG_MESSAGES = "Structured log messages can be observed."
    TRACING = "OpenTelemetry spans can be observed."
    SESSIONS = "Explicit sessions can be created and passed to operations."
    TRANSACTIONS = "Sessions can run transactions."
    CHANGE_STREAMS = "Change streams can be opened."
    GRIDFS = "GridFS buckets can be created."
    FIND_CURSORS = "A find cursor can be created, iterated and closed step by step."
    COMMAND_CURSORS = "A cursor of any command can be created and iterated step by step."
    CLIENT_BULK_WRITE = "The client has a bulkWrite over several namespaces."
    TIMEOUT_MS = "Operations take timeoutMS (client-side operation timeouts)."
    SERVER_API = "Clients can declare a server API version."
    ENCRYPTION = "Client-side field level encryption is available."
    POOLS = "A connection pool can be driven by itself: made ready, cleared, closed, checked out of and into."
    VIRTUAL_TIME = "The driver runs on a given clock and network, in virtual time."
    ADAPTIVE_RETRIES = "The client has the adaptiveRetries token bucket of the 2026-02-20 edition."
    MAX_ADAPTIVE_RETRIES = "The client has the maxAdaptiveRetries option of the 2026-07-08 edition."
    JITTER = "The jitter of a client's backoffs can be set to 0 or 1, or seeded."
    RETRY_TOKENS = "The number of tokens in a client's retry token bucket can be read."


class EntityKind(Enum):
    """The kinds of entity; the value is the key in `createEntities`.

    TEST_RUNNER is the runner itself, on which a scenario calls operations as it does on entities. No scenario
    creates it, and no adapter hears of it. POOL is what a case of the format `cmap` drives.
    """

    TEST_RUNNER = "testRunner"
    POOL = "pool"

    CLIENT = "client"
    DATABASE = "database"
    COLLECTION = "collection"
    SESSION = "session"
    BUCKET = "bucket"
    CLIENT_ENCRYPTION = "clientEncryption"
    THREAD = "thread"
    FIND_CURSOR = "findCursor"
    COMMAND_CURSOR = "commandCursor"
    CHANGE_STREAM = "changeStream"
    TOPOLOGY_DESCRIPTION = "topologyDescription"
    DOCUMENT = "document"
    EVENT_LIST = "eventList"


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The error of an operation that failed, in the words of `expectError`.

    `response` is the server's raw reply, or None; `result` a partial result, in the form of `expectResult`.
    `type` is the name of a pool's error (`CMAP: Connection Pool Errors`), which cases of pools compare.
    `address` is that of the server that the error came from, None where the driver says none.
    """

    message: str
    is_client_error: bool = False
    is_timeout_error: bool = False
    code: int | None = None
    code_name: str | None = None
    labels: frozenset[str] = frozenset()
    response: Mapping[str, Any] | None = None
    result: Any = None
    write_errors: Mapping[int, Mapping[str, Any]] | None = None
    write_concern_errors: Sequence[Mapping[str, Any]] | None = None
    type: str | None = None
    address: str | None = None


# Virtual time stands still while code runs, so whole exchanges share one instant. Embedded servers number
# their wire record by the same counter, so requests find their operations by order. The servers' journal has
# numbers of its own, and is merged by cause.
next_seq: Final = count().__next__
"""Numbers what happens on the client's side of this process, for things that happen at one instant."""

LOG_MESSAGE: Final = "logMessage"
"""The kind under which an adapter reports a log message; its fields are `level`, `component` and `data`."""

SPAN: Final = "span"
"""The kind under which an adapter reports a span that has ended.

Its fields are `id`, `parent` (an id or None), `name`, `attributes`, and `order`, by which spans are sorted to
when they began. An attribute that is a document is given as one.
"""


class OperationFailed(Exception):  # noqa: N818  # an answer of the driver, which a scenario may expect
    """An operation failed inside the driver: the only error that `expectError` may expect."""

    def __init__(self, report: ErrorReport) -> None:
        super().__init__(report.message)
        self.report = report


class UnsupportedOperation(Exception):  # noqa: N818  # an answer of the adapter, which skips a case
    """The adapter has no such operation or argument: the case is skipped with this reason, or is an error."""


class AdapterLost(Exception):  # noqa: N818  # what became of the adapter
    """The adapter itself is gone: it died, hung or talked nonsense. The case fails; the message says why."""


@dataclass(frozen=True, slots=True)
class Event:
    """A driver's event under its specification's name (`commandStartedEvent`), fields in camel case.

    `at` is the instant of the adapter's clock in seconds; `fields` holds every field the driver gave. `seq`
    orders events of one instant.
    """

    kind: str
    fields: Mapping[str, Any]
    at: float = 0.0
    # Not compared: two events are equal by what they say, as tests and contract checks need them to be.
    seq: int = field(default_factory=next_seq, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """A client entity, resolved.

    `uri` is complete: the deployment's connection string with the entity's `uriOptions` merged in; `options`
    repeats those options as the file gives them. `observe_events` names the kinds of event that the adapter
    must collect; it may collect more. What the file wants ignored is left to the runner. `observe_logs` are
    the components whose log messages must be collected too, at whatever level; with `observe_spans` (the body
    of `observeTracingMessages`) so must be spans. `auto_encryption` is the body of `autoEncryptOpts`, with
    credentials in the place of placeholders.

    With `Feature.JITTER`, `jitter` (0 or 1) is the random factor of every backoff of the client, or
    `jitter_seed` seeds these factors: two clients with one seed wait equally long. Both are None otherwise.
    """

    uri: str
    options: Mapping[str, Any] = field(default_factory=dict)
    observe_events: frozenset[str] = frozenset()
    observe_logs: frozenset[str] = frozenset()
    observe_spans: Mapping[str, Any] | None = None
    server_api: Mapping[str, Any] | None = None
    auto_encryption: Mapping[str, Any] | None = None
    jitter: float | None = None
    jitter_seed: int | None = None


@dataclass(frozen=True, slots=True)
class PoolSpec:
    """A connection pool for one server, which nothing monitors.

    `uri` is complete: it names the server, with `directConnection`, credentials and the pool's options.
    `options` repeats those as the case gives them. `background_seconds` is the time between two runs of the
    pool's background thread; None is the driver's own, and a negative one means that there are none.
    The pool is new and paused; it observes all its events, which `events` returns.
    """

    uri: str
    options: Mapping[str, Any] = field(default_factory=dict)
    background_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SessionState:
    """The state of a session, as its driver tells it.

    `pinned` is the address of the mongos (or the service id) that the session is pinned to, or None.
    `transaction` is `none`, `starting`, `in_progress`, `committed` or `aborted`.
    """

    lsid: Mapping[str, Any]
    dirty: bool = False
    pinned: str | None = None
    transaction: str = "none"


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """A client's view of its deployment: SDAM's TopologyType, and the address of the primary or None."""

    type: str
    primary: str | None = None


@dataclass(frozen=True, slots=True)
class Invocation(Generic[TargetT]):
    """One call of an operation: what it is called on, its name in the format, and its arguments.

    The argument `session` holds a session's handle, `callback` (of `withTransaction`) an asynchronous
    function of no arguments whose `OperationFailed` the driver must see as the error that it raised itself.
    The time limits `timeoutMS` and `timeoutMode` are arguments like all others.
    """

    target: TargetT
    kind: EntityKind
    """The kind of the target; an operation's name may mean another thing on another kind."""
    operation: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def without(self, *names: str) -> dict[str, Any]:
        """Return the arguments but for some, which have been dealt with."""
        return {name: value for name, value in self.arguments.items() if name not in names}


class DriverAdapter(Protocol):
    """One driver. Every method may raise `UnsupportedOperation`; `call` and `create…` `OperationFailed`."""

    @property
    def name(self) -> str:
        """The adapter's name on the command line and in expectations files."""
        ...

    @property
    def features(self) -> frozenset[Feature]:
        """The features of the driver; a case that needs more is skipped."""
        ...

    async def create_client(self, spec: ClientSpec) -> Handle:
        """Create a client that observes what `spec` asks for."""
        ...

    async def create_pool(self, spec: PoolSpec) -> Handle:
        """Create a connection pool, with `Feature.POOLS`.

        `call` runs its operations `ready`, `clear` (`interruptInUseConnections`), `close`, `checkOut`, which
        returns the handle of a connection, and `checkIn`, whose argument `connection` is one. A failed
        handshake has the effect that it has on the pool of a client (`SDAM: Error Handling`).
        """
        ...

    async def create(self, kind: EntityKind, parent: Handle, spec: Mapping[str, Any]) -> Handle:
        """Create an entity below `parent`; `spec` is its document in the file."""
        ...

    async def call(self, invocation: Invocation[Handle]) -> Any:
        """Run an operation; return its result in the form that `expectResult` describes.

        A result that is a new entity (`createFindCursor`, `createChangeStream` …) is its handle. Operations
        that return nothing return None, downloads `bytes`, and operations that return a cursor the list of
        all its documents. What the arguments hold may be kept and changed.
        """
        ...

    def events(self, client: Handle) -> Sequence[Event]:
        """Return all that the client (or pool) has observed so far, oldest first."""
        ...

    async def session_state(self, session: Handle) -> SessionState:
        """Return the state of a session that has not ended."""
        ...

    async def advance_cluster_time(self, session: Handle, cluster_time: Mapping[str, Any]) -> None:
        """Advance a session's cluster time to a reply's `$clusterTime`."""
        ...

    async def topology(self, client: Handle) -> TopologyReport:
        """Return the client's current view of the deployment."""
        ...

    async def retry_tokens(self, client: Handle) -> float | None:
        """Return the tokens in a client's retry token bucket, None where it has no bucket."""
        ...

    async def close_client(self, client: Handle) -> None:
        """Close one client; closing twice is allowed."""
        ...

    async def aclose(self) -> None:
        """Close everything that is still open."""
        ...

"""One request on its way through the pipeline: what is known of it grows from step to step."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from fakeserver.admission.progress import ADMITTED, QUEUED, REJECTED, Progress
from fakeserver.deployment.records.events import FailPointHit, RequestAbandoned, RequestQueued
from fakeserver.deployment.records.journal import COMMAND_FINISHED
from fakeserver.deployment.records.journal_search import COLLECTION
from fakeserver.errors import CommandError, expired
from fakeserver.request.response import Response
from fakeserver.settings.failpoints import FailPointTarget
from mongowire.messages import OpCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fakeserver.access.session import ConnectionState
    from fakeserver.admission.rate_limiter import Reserved
    from fakeserver.admission.shard_retries import ShardClient, ShardOperation
    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.node import Node
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.idl.generic_arguments import WriteConcern
    from fakeserver.request.pipeline import Paused
    from fakeserver.rules.book import Ruling
    from fakeserver.sessions.transactions import Routed
    from fakeserver.settings.failpoints import CommandFault
    from fakeserver.storage.port.oplog import OpTime
    from mongowire.connection import Envelope
    from mongowire.messages import DocumentSequence


class ShardCall:
    """A command that a mongos passes on: the member that has it, and its wait there."""

    def __init__(self, client: ShardClient) -> None:
        self.client = client
        """The mongos's client of the shard, with its retry budget."""
        self.operation: ShardOperation = client.begin()
        """The attempts so far, and the members that refused them."""
        self.target: Node | None = None
        """The member that has it, None between two attempts."""
        self.refused_by: Node | None = None
        """The member that refused the last attempt."""
        self.retry_at: float | None = None
        """The instant of the next attempt, None while there is no backoff."""
        self.fault: CommandFault | None = None
        """The work of the member's `failCommand` on this attempt."""
        self.blocked_until = 0.0
        """The instant at which that fail point lets it go."""
        self.reservation: Reserved | None = None
        """Its token on credit at the member's rate limiter."""
        self.gave_up_by: CommandError | None = None
        """The error after which the mongos has given it up."""
        self.queued = False
        """It waits for that token, so a withdrawal is counted as an interruption."""

    def withdraw(self) -> None:
        """End an attempt, and give back the token that it has not used."""
        if self.reservation is not None and self.target is not None:
            limiter = self.target.admission.requests
            (limiter.interrupt if self.queued else limiter.drop)()
        self.reservation, self.queued, self.target, self.fault = None, False, None, None


@dataclass(slots=True)
class Acknowledgement:
    """The wait of a write for its concern."""

    concern: WriteConcern
    until: float | None = None
    """The instant of `wtimeout`, counted from the beginning of the wait; None before it."""


REQUESTS: Final = frozenset(
    {
        *(OpCode.MSG, OpCode.QUERY, OpCode.GET_MORE, OpCode.INSERT, OpCode.UPDATE, OpCode.DELETE),
        OpCode.KILL_CURSORS,
    }
)
"""The messages that a server takes as requests."""

_GET_MORE: Final = "getMore"
T = TypeVar("T")
_MSG: Final = int(OpCode.MSG)
_OWN: Final = "pushbackd"
"""The command of the control."""
_WITHOUT: Final = frozenset({"admin", "internal"})
"""The kinds of commands that name no collection."""
_FAULTY: Final = frozenset({"writeErrors", "nErrors", "writeConcernError"})
"""The fields of a successful reply that may hold errors."""


class Lazy(Generic[T]):
    """An attribute that is made when it is first read, and a plain one from then on."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        """Remember under which name the value is kept."""
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        """Make the value: only an object without it is asked here."""
        value = self._make()
        setattr(instance, self._name, value)
        return value


class Execution:
    """The run of a command, and what it wrote. Class attributes hold until a stage sets another value."""

    context: CommandContext | None = None
    before: OpTime | None = None
    """The last operation of the oplog before the run; with `after` it tells whether the command wrote."""
    after: OpTime | None = None
    acknowledgement: Acknowledgement | None = None
    """The members that are waited for."""
    waits_until: float | None = None
    """The end of the wait of a getMore that awaits data, or of a hello that awaits a change."""
    tails_change_stream: bool = False
    """A getMore whose cursor is a change stream's; set by the handler."""
    origin: Mapping[str, Any] | None = None
    """The command that opened the cursor of a getMore; set by the handler."""
    operation_id: int = 0
    """The number in `currentOp`, 0 as long as nobody asked."""
    interruption: CommandError | None = None
    """The error that ends the request at its next yield point."""


class Faults:
    """The fail points and rules that act on a request.

    Class attributes hold until a stage sets another value.
    """

    fault: CommandFault | None = None
    """The work of `failCommand`."""
    hello_waits: tuple[str, float] | None = None
    """The fail point that a hello waits for, and until when."""
    ruling: Ruling | None = None
    """The work of the rules that it meets."""
    waits_until: float = 0.0
    """The instant at which rules let it go."""
    rewrites_state_changes: bool = True
    """A mongos hides that a shard has another primary; a fail point that fires forbids it."""


class RoutingState:
    """The routing of a request by a mongos. Class attributes hold until a stage sets another value."""

    shard_call: ShardCall | None = None
    transaction: Routed | None = None


class RequestContext:
    """A request, and the response that it will get.

    Instants are seconds of the node's clock. Class attributes hold until a stage sets another value, so that
    a request costs no more than the steps it takes; each group of stages has a value of its own.
    """

    body: bytes
    """The document of its command, as it arrived."""
    sequences: tuple[DocumentSequence, ...] = ()
    """The fields that came beside the body."""
    brief: bool = False
    """It is so small that no stage up to its run gives way to others."""
    name: str = ""
    """The command's name as the client wrote it."""
    command: dict[str, Any] | None = None
    spec: CommandSpec = cast("CommandSpec", None)
    """Its command, None until it is looked up."""
    db: str = ""
    session_id: bytes | None = None
    txn_number: int | None = None
    deadline: float | None = None
    """The end of `maxTimeMS`, counted from the request's arrival."""
    paused: Paused | None = None
    """Its position in the pipeline, while it waits there."""
    verdict: str = ADMITTED
    """The decision on its admission so far: `admitted`, `queued` or `rejected`."""
    queue: str = ""
    """The mechanism that queued or rejected it."""

    def __init__(
        self,
        node: Node,
        connection: ConnectionState,
        envelope: Envelope,
        arrived: float,
        flags: int | None = None,
    ) -> None:
        """Make a request of a message, whose `flags` may be known already."""
        self.node = node
        self.connection = connection
        self.envelope = envelope
        self.flags = envelope.flag_bits if flags is None else flags
        self.arrived = arrived
        self.response_to = envelope.request_id
        self.response = Response()

    admission = Lazy(Progress)
    execution = Lazy(Execution)
    faults = Lazy(Faults)
    routing = Lazy(RoutingState)

    @property
    def is_legacy(self) -> bool:
        """Whether it came as an OP_QUERY."""
        return self.envelope.op_code != _MSG

    @property
    def has_autocommit(self) -> bool:
        """Whether it belongs to a multi-document transaction."""
        return self.txn_number is not None and self.command is not None and "autocommit" in self.command

    @property
    def is_continuation(self) -> bool:
        """Whether it goes on with an exhaust stream: the server runs it, no client sent it."""
        return self.response_to != self.envelope.request_id

    # What gives way to others (`waiting.turns.Request`).

    @property
    def yield_period(self) -> float:
        """The length of its turns, in seconds (`internalQueryExecYieldPeriodMS`)."""
        return self.node.parameters.yield_period

    def interrupt(self, error: CommandError) -> None:
        """Have it end with `error` at its next yield point."""
        self.execution.interruption = error

    @contextmanager
    def giving_way(self) -> Iterator[None]:
        """Let others have their turn inside. Raises `CommandError` for what ended the request meanwhile."""
        oplog, execution = self.node.oplog, self.execution
        left = oplog.last
        yield
        if execution.before is left:
            # What others wrote is not what it wrote (`NoWritesPerformed`).
            execution.before = oplog.last
        if execution.interruption is not None:
            raise execution.interruption
        if self.deadline is not None and self.node.clock.now() >= self.deadline:
            raise expired()
        if execution.context is not None:
            execution.context.check_for_interrupt()

    # Fail points.

    def fail_point_target(self, node: Node) -> FailPointTarget:
        """Return the facts that the filters of a server's fail points compare.

        A member of a shard sees a command of a mongos as an internal client's.
        """
        connection, spec, command = self.connection, self.spec, self.command or {}
        collection = (
            command.get("collection") if spec.name == "getMore" else next(iter(command.values()), None)
        )
        names_none = spec.kind in {"admin", "internal"} or not isinstance(collection, str)
        return FailPointTarget(
            spec.names,
            self.db if names_none else f"{self.db}.{collection}",
            connection.app_name,
            connection.thread_name,
            connection.internal_client or node is not self.node,
            connection.has_priority and node is self.node,
        )

    def record_wait(self) -> None:
        """Enter in the journal that it waits to be admitted, once for each mechanism that it waits for."""
        queue = self.admission.waits_for
        if queue and (self.verdict, self.queue) != (QUEUED, queue):
            self.verdict, self.queue = QUEUED, queue
            event = RequestQueued(self.name, self.db, self.envelope.request_id, self.connection.id, queue)
            self.node.record(event)

    def record_abandonment(self) -> None:
        """Enter that it was given up while it waited; hellos that await a change end in no other way."""
        command, spec = self.command, cast("CommandSpec | None", self.spec)
        # One that waits ahead of the table of commands, as a slow server's do, has been looked up by nobody.
        if command is None or (spec is not None and spec.handshake):
            return
        waited = round(self.node.clock.now() - self.arrived, 6)
        request_id = self.envelope.request_id
        self.node.record(RequestAbandoned(self.name, self.db, request_id, self.connection.id, waited))

    def record_end(self, now: float, outcome: str | int, reply: bytes = b"") -> None:
        """Enter that it was dealt with; `reply` is the whole message, empty where none is sent."""
        node, client, envelope, response = self.node, self.connection, self.envelope, self.response
        name, target, verdict, body = self.name, self.target, self.verdict, response.body
        if verdict is REJECTED:
            node.tally.add(self.queue)
        write_error = concern_error = None
        if response.write_concern_error is not None or (body and not _FAULTY.isdisjoint(body)):
            write_error, concern_error = response.errors_within
        # One tuple of plain values, in the order of `CommandFinished` and `Details`: this is a hot path.
        entry = (
            now, node.name, COMMAND_FINISHED, name, self.db, envelope.request_id, client.id,
            self.session_id, self.txn_number, outcome, write_error, concern_error,
            self.arrived, client.app_name, verdict, self.queue, target,
        )  # fmt: skip
        # What is inflated piece by piece is too large to be kept; what shows the journal would double it.
        left_out = envelope.rest is not None or name == _OWN or target == COLLECTION
        node.journal.enter_request(entry, envelope.op_code, None if left_out else envelope.payload, reply)

    @property
    def target(self) -> str | None:
        """The collection that it names, "" for none, None where that is not known yet."""
        command, spec = self.command, self.spec
        if command is None or spec is None:
            return None
        if spec.kind in _WITHOUT:
            return ""
        target = command.get("collection" if spec.name == _GET_MORE else self.name)
        return target if type(target) is str else ""

    def record_hit(self, name: str, effect: str, *, at: Node | None = None) -> None:
        """Enter a fail point's hit in the journal, of another server where it was hit `at` that."""
        (at or self.node).record(FailPointHit(name, self.name, self.connection.id, effect))

    # The reply.

    def continuation(self) -> dict[str, Any] | None:
        """Return the command that an exhaust stream runs after this reply (`OP_MSG: exhaustAllowed`)."""
        body, command = self.response.body, self.command
        if self.response.failure is not None or body is None or command is None:
            return None
        if self.spec.handshake:
            topology_version = body.get("topologyVersion")
            return None if topology_version is None else {**command, "topologyVersion": topology_version}
        if self.spec.name == "getMore" and body.get("cursor", {}).get("id"):
            return command
        return None

    def next_iteration(self, command: dict[str, Any], *, response_to: int, now: float) -> RequestContext:
        """Return the request that an exhaust stream runs next, as if the client had sent it."""
        following = RequestContext(self.node, self.connection, self.envelope, now)
        following.body, following.sequences = self.body, self.sequences
        following.command = command
        following.response_to = response_to
        return following

"""One request on its way through the pipeline: what is known of it grows from step to step."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import bson

from fakeserver.errors import expired
from mongowire.framing import extended
from mongowire.messages import OpQuery

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fakeserver.admission.controls import AdmissionControl
    from fakeserver.admission.invocations import Pool
    from fakeserver.admission.rate_limiter import Reserved
    from fakeserver.admission.tickets import Priority, Ticket
    from fakeserver.commands.context import CommandContext
    from fakeserver.commands.table import CommandSpec
    from fakeserver.connection_state import ConnectionState
    from fakeserver.errors import CommandError
    from fakeserver.failpoints import CommandFault
    from fakeserver.node import Node
    from fakeserver.oplog import OpTime
    from fakeserver.pipeline import Paused
    from fakeserver.shard_calls import ShardCall
    from fakeserver.stages.write_concern import WriteConcern
    from fakeserver.transaction_router import Routed
    from mongowire.connection import Envelope
    from mongowire.messages import OpMsg


class RequestContext:
    """A request, and the answer that it will get.

    Instants are seconds of the node's clock. Class attributes are what holds until a stage sets another
    value, so that a request costs no more than the steps it takes.
    """

    message: OpMsg | OpQuery
    name: str = ""
    """The command's name as the client wrote it."""
    command: dict[str, Any] | None = None
    spec: CommandSpec
    db: str = ""
    session_id: bytes | None = None
    txn_number: int | None = None
    has_autocommit: bool = False
    deadline: float | None = None
    """When `maxTimeMS` is over, counted from the request's arrival."""
    paused: Paused | None = None
    """Where it waits, while it does."""
    fault: CommandFault | None = None
    hello_waits: tuple[str, float] | None = None
    """The fail point that a hello waits for, and until when."""
    shard_call: ShardCall | None = None
    """How a command that a mongos passes on fares with the shard."""
    rewrites_state_changes: bool = True
    """Whether a mongos hides that a shard has another primary; a fail point that fires forbids it."""
    reservation: Reserved | None = None
    """Its token on credit, from the rate limiter until it has matured."""
    queued_since: float | None = None
    """When it began to wait for that token."""
    admission: AdmissionControl | None = None
    """That of the shard's primary, for what a mongos passes on; else the node's own holds."""
    priority: Priority | None = None
    """How urgent it is for admission control, where that is decided already; a rule may decide it."""
    pool: Pool = "read"
    """The tickets that `execution_ticket` is one of."""
    ingress_since: float | None = None
    """When it got its ingress ticket, where it did not have to wait for it."""
    ingress_ticket: Ticket | None = None
    throttled_since: float | None = None
    """When flow control began to hold it back."""
    execution_ticket: Ticket | None = None
    ingress_admissions: int = 0
    ingress_queued: float = 0.0
    """For how many seconds it has waited in front of the server; the other two alike."""
    execution_admissions: int = 0
    execution_queued: float = 0.0
    flow_acquired: int = 0
    flow_waits: int = 0
    flow_queued: float = 0.0
    done_at: float | None = None
    """When the service-time model has it done."""
    write_concern: WriteConcern | None = None
    write_concern_until: float | None = None
    context: CommandContext | None = None
    routed: Routed | None = None
    """What a mongos knows of the transaction that it belongs to."""
    tails_change_stream: bool = False
    """A getMore whose cursor is a change stream's; set by the handler."""
    waits_until: float | None = None
    """When a getMore that awaits data, or a hello that awaits a change, has waited long enough."""
    before: OpTime | None = None
    after: OpTime | None = None

    label_override: tuple[str, ...] | None = None
    """Labels that a fail point put in the place of the computed ones."""
    body: dict[str, Any] | None = None
    """The fields of a successful reply."""
    encoded: bytes | None = None
    """The whole reply, where it was built beforehand."""
    encoded_body: bytes | None = None
    """The reply without the times, where it was large enough to be encoded in steps."""
    failure: CommandError | None = None
    write_concern_error: Any = None
    extra: Mapping[str, Any] | None = None
    """Labels and what stands beside them."""
    gossip: bytes = b""
    """The times at the end of the reply, as BSON elements."""
    silent: bool = False
    """The client waits for no reply."""
    operation_id: int = 0
    """What `currentOp` called it, 0 as long as nobody asked."""
    interruption: CommandError | None = None
    """What ends it at its next yield point."""
    iteration: int = 0
    """How many replies of an exhaust stream went before."""

    def __init__(self, node: Node, connection: ConnectionState, envelope: Envelope, arrived: float) -> None:
        self.node = node
        self.connection = connection
        self.envelope = envelope
        self.flags = envelope.flag_bits
        self.arrived = arrived
        self.response_to = envelope.request_id

    @property
    def is_legacy(self) -> bool:
        """Whether it came as an OP_QUERY."""
        return isinstance(self.message, OpQuery)

    @contextmanager
    def giving_way(self) -> Iterator[None]:
        """Let others have their turn inside. Raises `CommandError` for what ended the request meanwhile."""
        oplog = self.node.oplog
        left = oplog.last
        yield
        if self.before is left:
            # What others wrote is not what it wrote (`NoWritesPerformed`).
            self.before = oplog.last
        if self.interruption is not None:
            raise self.interruption
        if self.deadline is not None and self.node.clock.now() >= self.deadline:
            raise expired()
        if self.context is not None:
            self.context.check_for_interrupt()

    def next_iteration(self, command: dict[str, Any], *, response_to: int, now: float) -> RequestContext:
        """Return the request that an exhaust stream runs next, as if the client had sent it."""
        following = RequestContext(self.node, self.connection, self.envelope, now)
        following.message = self.message
        following.command = command
        following.response_to = response_to
        following.iteration = self.iteration + 1
        return following

    def encode(self) -> bytes:
        """Return the whole reply. Raises what `bson.encode` does for a value that cannot be encoded."""
        if self.encoded is not None:
            return self.encoded
        if self.encoded_body is not None and self.failure is None:
            reply = self.encoded_body
        else:
            reply = bson.encode(self.render())
        return extended(reply, self.gossip) if self.gossip else reply

    def render(self) -> dict[str, Any]:
        """Return the reply, its fields in a server's order, without the times."""
        reply: dict[str, Any]
        failure = self.failure
        if failure is None:
            reply = dict(self.body or {})
            self._append_extra(reply)
            reply["ok"] = 1.0
        else:
            reply = {}
            self._append_extra(reply)
            reply["ok"] = 0.0
            reply["errmsg"] = failure.message
            reply["code"] = int(failure.code)
            reply["codeName"] = failure.code_name
            reply.update(failure.extra)
        return reply

    def _append_extra(self, reply: dict[str, Any]) -> None:
        if self.write_concern_error is not None:
            reply["writeConcernError"] = self.write_concern_error
        if self.extra is not None:
            reply.update(self.extra)

"""One request on its way through the pipeline: what is known of it grows from step to step."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import bson

from fakeserver.admission.progress import QUEUED, REJECTED, Progress
from fakeserver.deployment.events import FailPointHit, RequestAbandoned, RequestQueued
from fakeserver.deployment.journal import COMMAND_FINISHED
from fakeserver.deployment.journal_search import COLLECTION
from fakeserver.errors import CommandError, expired
from fakeserver.settings.failpoints import Target
from fakeserver.storage.sizes import MAX_INTERNAL_BYTES, invalid_size
from mongowire.codes import ErrorCode
from mongowire.errors import LocalProtocolError
from mongowire.framing import extended
from mongowire.messages import CHECKSUM_PRESENT, MORE_TO_COME, OpCode, OpMsg, OpReply

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fakeserver.access.connection_state import ConnectionState
    from fakeserver.commands.context import CommandContext
    from fakeserver.deployment.node import Node
    from fakeserver.idl.command_table import CommandSpec
    from fakeserver.request.acknowledgement import Acknowledgement
    from fakeserver.request.pipeline import Paused
    from fakeserver.request.shard_call import ShardCall
    from fakeserver.rules.book import Ruling
    from fakeserver.sessions.transaction_router import Routed
    from fakeserver.settings.failpoints import CommandFault
    from fakeserver.storage.oplog import OpTime
    from mongowire.connection import Envelope, WireConnection
    from mongowire.messages import OpQuery


LEGACY: Final = frozenset({OpCode.QUERY, OpCode.GET_MORE})
"""The messages that are answered with an OP_REPLY."""

REQUESTS: Final = frozenset(
    {
        *(OpCode.MSG, OpCode.QUERY, OpCode.GET_MORE, OpCode.INSERT, OpCode.UPDATE, OpCode.DELETE),
        OpCode.KILL_CURSORS,
    }
)
"""The messages that a server takes as requests."""

_GET_MORE: Final = "getMore"
_OWN: Final = "pushbackd"
"""The command of the control."""
_WITHOUT: Final = frozenset({"admin", "internal"})
"""The kinds of commands that name no collection."""
_QUERY_FAILURE: Final = 1 << 1


class Response:
    """The response to a request. Class attributes hold until a stage sets another value."""

    body: dict[str, Any] | None = None
    """The fields of a successful reply."""
    failure: CommandError | None = None
    write_concern_error: Any = None
    label_override: tuple[str, ...] | None = None
    """The labels of a fail point or a rule, instead of the computed ones."""
    added_labels: tuple[str, ...] = ()
    """The labels that rules add to the others."""
    extra: Mapping[str, Any] | None = None
    """Labels, and the fields beside them."""
    gossip: bytes = b""
    """The times at the end of the reply, as BSON elements."""
    encoded: bytes | None = None
    """The whole reply, where it was built beforehand."""
    encoded_body: bytes | None = None
    """The reply without the times, where it was large enough to be encoded in steps."""
    silent: bool = False
    """The client waits for no reply."""

    @property
    def errors_within(self) -> tuple[int | None, int | None]:
        """The codes of a reply's first write error and of its write concern error; None for none."""
        body, concern = self.body, self.write_concern_error
        if body is None:
            return None, _code(concern)
        errors: Any = body.get("writeErrors")
        if body.get("nErrors"):  # of a bulkWrite, whose cursor has a document for each write
            errors = [each for each in body["cursor"]["firstBatch"] if "code" in each]
        concern = concern or body.get("writeConcernError")
        return (_code(errors[0]) if errors else None), _code(concern)

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


def _code(error: Any) -> int | None:
    """Return the code of an error within a reply, 0 for an error without one."""
    if not isinstance(error, dict):
        return None
    code = error.get("code")
    return int(code) if isinstance(code, (int, float)) else 0


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


class Routing:
    """The routing of a request by a mongos. Class attributes hold until a stage sets another value."""

    shard_call: ShardCall | None = None
    transaction: Routed | None = None


class RequestContext:
    """A request, and the response that it will get.

    Instants are seconds of the node's clock. Class attributes hold until a stage sets another value, so that
    a request costs no more than the steps it takes; each group of stages has a value of its own.
    """

    message: OpMsg | OpQuery
    name: str = ""
    """The command's name as the client wrote it."""
    command: dict[str, Any] | None = None
    spec: CommandSpec
    db: str = ""
    session_id: bytes | None = None
    txn_number: int | None = None
    deadline: float | None = None
    """The end of `maxTimeMS`, counted from the request's arrival."""
    paused: Paused | None = None
    """Its position in the pipeline, while it waits there."""

    def __init__(self, node: Node, connection: ConnectionState, envelope: Envelope, arrived: float) -> None:
        self.node = node
        self.connection = connection
        self.envelope = envelope
        self.flags = envelope.flag_bits
        self.arrived = arrived
        self.response_to = envelope.request_id
        self.response = Response()
        self.admission = Progress()
        self.execution = Execution()
        self.faults = Faults()
        self.routing = Routing()

    @property
    def is_legacy(self) -> bool:
        """Whether it came as an OP_QUERY."""
        return self.envelope.op_code != OpCode.MSG

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

    def fail_point_target(self, node: Node) -> Target:
        """Return the facts that the filters of a server's fail points compare.

        A member of a shard sees a command of a mongos as an internal client's.
        """
        connection, spec, command = self.connection, self.spec, self.command or {}
        collection = (
            command.get("collection") if spec.name == "getMore" else next(iter(command.values()), None)
        )
        names_none = spec.kind in {"admin", "internal"} or not isinstance(collection, str)
        return Target(
            spec.names,
            self.db if names_none else f"{self.db}.{collection}",
            connection.app_name,
            connection.thread_name,
            connection.internal_client or node is not self.node,
        )

    def record_wait(self) -> None:
        """Enter in the journal that it waits to be admitted, once for each mechanism that it waits for."""
        progress = self.admission
        queue = progress.waits_for
        if queue and (progress.verdict, progress.queue) != (QUEUED, queue):
            progress.verdict, progress.queue = QUEUED, queue
            event = RequestQueued(self.name, self.db, self.envelope.request_id, self.connection.id, queue)
            self.node.record(event)

    def record_abandonment(self) -> None:
        """Enter that it was given up while it waited; hellos that await a change end in no other way."""
        if self.command is None or self.spec.handshake:
            return
        waited = round(self.node.clock.now() - self.arrived, 6)
        request_id = self.envelope.request_id
        self.node.record(RequestAbandoned(self.name, self.db, request_id, self.connection.id, waited))

    def record_end(self, now: float, outcome: str | int, reply: bytes = b"") -> None:
        """Enter that it was dealt with; `reply` is the whole message, empty where none is sent."""
        node, client, progress, envelope = self.node, self.connection, self.admission, self.envelope
        name, target = self.name, self.target
        verdict = progress.verdict
        if verdict is REJECTED:
            node.tally.add(progress.queue)
        write_error, write_concern_error = self.response.errors_within
        # What is inflated piece by piece is too large to be kept; what shows the journal would double it.
        left_out = envelope.rest is not None or name == _OWN or target == COLLECTION
        # One tuple of plain values, in the order of `CommandFinished` and `Details`: this is a hot path.
        entry = (
            now, node.name, COMMAND_FINISHED, name, self.db, envelope.request_id, client.id,
            self.session_id, self.txn_number, outcome, write_error, write_concern_error,
            self.arrived, client.app_name, verdict, progress.queue, target,
        )  # fmt: skip
        payload = None if left_out else envelope.payload
        node.journal.enter_request(entry, envelope.op_code, payload, reply)

    @property
    def target(self) -> str | None:
        """The collection that it names, "" for none, None where that is not known yet."""
        command, spec = self.command, getattr(self, "spec", None)
        if command is None or spec is None:
            return None
        target = command.get("collection" if spec.name == _GET_MORE else self.name)
        return target if type(target) is str and spec.kind not in _WITHOUT else ""

    def record_hit(self, name: str, effect: str, *, at: Node | None = None) -> None:
        """Enter a fail point's hit in the journal, of another server where it was hit `at` that."""
        (at or self.node).record(FailPointHit(name, self.name, self.connection.id, effect))

    # The reply.

    def reply_message(self, wire: WireConnection, request_id: int, *, more_to_come: bool) -> bytes:
        """Return the reply as a message, compressed and checked as the request was.

        Raises `CommandError` 10334 for a reply that is too large, and what `bson.encode` does.
        """
        envelope, response_to = self.envelope, self.response_to
        message: OpMsg | OpReply
        if envelope.op_code in LEGACY:
            message = self._legacy_reply()
        else:
            body = self.response.encode()
            if len(body) > MAX_INTERNAL_BYTES:
                raise invalid_size(len(body))
            # Nothing checks what TLS has checked already.
            checksum = bool(self.flags & CHECKSUM_PRESENT) and not self.connection.secure
            if envelope.compressor is None and not checksum:
                flag_bits = MORE_TO_COME if more_to_come else 0
                return wire.send_body(body, flag_bits, request_id, response_to)
            message = OpMsg(body, more_to_come=more_to_come, checksum=checksum)
        return wire.send(
            message, request_id=request_id, response_to=response_to, compressor=envelope.compressor
        )

    def _legacy_reply(self) -> OpReply:
        failure = self.response.failure
        if failure is not None and not self.name and self.response.encoded is None:
            # What could not be read names no command: it fails as a query of documents did.
            return OpReply.of(
                {"$err": failure.message, "code": int(failure.code), "ok": 0.0}, flags=_QUERY_FAILURE
            )
        return OpReply((self.response.encode(),))

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
        following.message = self.message
        following.command = command
        following.response_to = response_to
        return following


def unsendable(error: Exception) -> CommandError:
    """Return the error that is sent instead of a reply that cannot be encoded."""
    if isinstance(error, CommandError):
        return error
    too_large = isinstance(error, LocalProtocolError)
    code = ErrorCode.BSON_OBJECT_TOO_LARGE if too_large else ErrorCode.INTERNAL_ERROR
    return CommandError(code, str(error))

"""Making of traces: from a case that has run to the `Trace` that oracles judge.

Everything uncertain is decided here, once for all oracles: which client an operation was called on, which of
its requests are its own, and whether servers may have heard less than the client did. `trace_of` narrows the
requests that `grouping` found for a step: those of the operation's own client, none that a client told of
before the operation began, no end of a transaction during an operation that can end none, and no late
repetition from the operation before. What remains is cut into commands.

An operation is marked `is_disturbed` rather than left out: oracles about what was sent can still judge it,
those about what was not sent cannot.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from harness.adapters.base import EntityKind, Feature
from harness.unified.model import nested
from harness.unified.server_side.connection_judge import lives_of
from harness.unified.server_side.grouping import CONTAINERS, by_operation
from harness.unified.server_side.metrics import server_names
from harness.unified.server_side.oracles.command_events import STARTED
from harness.unified.server_side.oracles.pool_life import CHECK_OUT_FAILED
from harness.unified.server_side.oracles.trace import (
    ENDS,
    Trace,
    TracedClient,
    TracedOperation,
    commands_of,
    essence,
    overlapping,
)
from harness.unified.server_side.rules import EDITIONS, Timing
from harness.unified.server_side.seen import Ending, requests_of
from harness.unified.state import stored_documents
from harness.unified.uri import ConnectionString

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from harness.unified.account import PerformedOperation
    from harness.unified.model import EntitySpec, Operation
    from harness.unified.operations.spec import Context
    from harness.unified.server_side.connection_judge import ConnectionLife
    from harness.unified.server_side.seen import SeenRequest

_HELLOS: Final = frozenset({"hello", "ismaster", "isMaster", "saslStart", "saslContinue", "endSessions"})
"""Commands that no operation of a case sends."""

_ENDING: Final = frozenset(
    {"commitTransaction", "abortTransaction", "withTransaction", "startTransaction", "endSession", "close"}
)
"""Operations that may end a transaction: an end that comes during another one is of one before it."""

_GREETINGS: Final = frozenset({"hello", "ismaster", "isMaster"})


async def ending_of(context: Context) -> Ending:
    """Return what there is now. Raises `ScenarioError` for a collection that cannot be read.

    Read before fail points are turned off and clients are closed, like everything that is judged.
    """
    stored = {
        (data.database_name, data.collection_name): await stored_documents(
            context, data.database_name, data.collection_name
        )
        for data in context.case.initial_data
    }
    tokens: dict[str, float] = {}
    if Feature.RETRY_TOKENS in context.adapter.features:
        for client in context.entities.of(EntityKind.CLIENT):
            left = await context.adapter.retry_tokens(client.value.handle)
            if left is not None:
                tokens[client.id] = left
    return Ending(stored, tokens)


def made_clients(context: Context) -> Iterator[EntitySpec]:
    """Yield the clients of a case: those of the file, and those that its operations made."""
    created = (
        spec
        for step in context.account.steps
        if step.operation.name == "createEntities"
        for spec in step.operation.arguments.get("entities", ())
    )
    return (spec for spec in (*context.case.entities, *created) if spec.kind is EntityKind.CLIENT)


def trace_of(
    context: Context,
    options: Mapping[str, Mapping[str, Any]],
    *,
    app_name_of: Callable[[Operation], str | None],
    fits: Callable[[Operation, SeenRequest], bool],
) -> Trace:
    """Return the trace of a case whose operations have ended.

    `options` are those of the connection string of each client; the functions are those of `by_operation`.
    """
    record, deployment = context.deployment.wire_record, context.deployment
    timing = Timing(record.round_trip, record.is_disturbed)
    connections = context.seen.connections
    ending = context.seen.ending or Ending({}, {})
    heard = context.account.heard()
    clients = {
        spec.id: TracedClient(
            name=spec.id,
            app_name=options.get(spec.id, {}).get("appName"),
            options=options.get(spec.id, {}),
            events=tuple(heard.get(spec.id, ())),
            tokens=ending.tokens.get(spec.id),
            jitter=_jitter(spec.body),
            seeds=_seeds(context, spec.body),
        )
        for spec in made_clients(context)
    }
    lives = tuple(lives_of(connections))
    sent = [request for request in requests_of(connections) if request.name not in _HELLOS]
    unacknowledged = tuple(request for request in sent if _asks_for_nothing(request))
    sent = [request for request in sent if not _asks_for_nothing(request)]
    steps = [step for step in context.account.steps if step.operation.name not in CONTAINERS]
    inner = _inner(context.case.operations)
    outer = [step for step in steps if id(step.operation) not in inner]
    busy = overlapping(step for step in outer if step.operation.object != EntityKind.TEST_RUNNER.value)
    by_app = {client.app_name: client for client in clients.values() if client.app_name}
    grouped = by_operation(sent, context.account.steps, context.case.operations, app_name_of, fits)
    found = {id(step): (step, requests) for step, requests in grouped}
    fails = _greetings_fail(steps)
    unanswered = unanswered_greetings(lives)
    operations = []
    started = {client.name: _started(client) for client in clients.values()}
    sent_before: Sequence[SeenRequest] = ()
    for step in outer:
        requests: Sequence[SeenRequest] = found.get(id(step), (step, []))[1]
        client = _client_of(context, step, clients, by_app, requests)
        if client is not None:
            starts = started[client.name]
            mine = [
                request
                for request in requests
                if request.app_name == client.app_name
                and not _is_late(request, sent_before)
                # Told of before the operation began: servers heard late of a request of the one before.
                and starts.get(request.request_id, step.began_seq) >= step.began_seq
                and (request.name not in ENDS or step.operation.name in _ENDING)
            ]
            sent_before = mine or sent_before
            made = TracedOperation(step, client, commands_of(mine, timing), is_alone=id(step) not in busy)
            operations.append(_disturbed(made, lives, unanswered, unsure_from=fails))
    return Trace(
        edition=EDITIONS[context.edition],
        timing=timing,
        topology=deployment.topology,
        version=tuple(deployment.server_version),
        features=context.adapter.features,
        operations=tuple(operations),
        clients=tuple(clients.values()),
        connections=lives,
        unacknowledged=unacknowledged,
        greetings_fail=fails,
        steps=tuple(steps),
        stored=ending.stored,
        initial={
            (data.database_name, data.collection_name): data.documents for data in context.case.initial_data
        },
        addresses=dict(zip(server_names(deployment), deployment.addresses, strict=False)),
        ended=context.account.ended if context.account.ended is not None else deployment.clock.now(),
    )


def _inner(operations: Iterable[Operation]) -> frozenset[int]:
    """Return the identities of the operations that a callback holds, which belong to its withTransaction."""
    return frozenset(
        id(inner)
        for operation in nested(operations)
        if operation.name == "withTransaction"
        for inner in nested(operation.arguments.get("callback", ()))
    )


def _client_of(
    context: Context,
    step: PerformedOperation,
    clients: Mapping[str, TracedClient],
    by_app: Mapping[str, TracedClient],
    requests: Sequence[SeenRequest],
) -> TracedClient | None:
    """Return the client that a step was called on, None for one of the runner."""
    operation = step.operation
    if operation.object == EntityKind.TEST_RUNNER.value:
        return None
    try:
        entity = context.entities.find(operation.object)
    except LookupError:
        return by_app.get(requests[0].app_name or "") if requests else None
    return clients.get(entity.id if entity.kind is EntityKind.CLIENT else entity.client)


def _greetings_fail(steps: Iterable[PerformedOperation]) -> float:
    """Return when a fail point for hello was first set, infinite for never.

    A fail point for hello also hits the replies that a monitor's stream is waiting for, and those that never
    come are in no record.
    """
    set_ = (
        step.began_seq
        for step in steps
        if step.operation.name == "failPoint"
        and _GREETINGS & {*step.operation.arguments["failPoint"].get("data", {}).get("failCommands", ())}
    )
    return min(set_, default=inf)


def _disturbed(
    operation: TracedOperation,
    lives: Sequence[ConnectionLife],
    unanswered: Sequence[SeenRequest],
    *,
    unsure_from: float,
) -> TracedOperation:
    """Return an operation that knows whether a connection could not be had or established meanwhile.

    `unanswered` are the greetings that got no good answer, `unsure_from` is when monitors may begin to hear
    what no record has.
    """
    failed = any(operation.client.during(operation, CHECK_OUT_FAILED))
    began, ended = operation.began, operation.ended
    # A connection without a name may be this client's too: its handshake was lost before it said whose it is.
    lost = any(
        life.seen.app_name in (operation.client.app_name, None)
        and began < life.seen.accepted_seq < ended
        and not (life.established_seq < ended and (life.seen.requests[0].reply or {}).get("ok"))
        and not life.is_monitoring
        for life in lives
    )
    unseen = any(began < request.seq < ended or began < request.ended_seq < ended for request in unanswered)
    # A client that told of more attempts than servers saw lost some on the way, on a connection that was
    # already gone.
    unheard = any(
        sum(event.fields.get("commandName") == name for event in operation.client.during(operation, STARTED))
        > sum(len(command.attempts) for command in operation.commands if command.name == name)
        for name in {command.name for command in operation.commands}
    )
    return TracedOperation(
        operation.step,
        operation.client,
        operation.commands,
        operation.is_alone,
        failed or lost or unseen or unheard or ended > unsure_from,
    )


def _started(client: TracedClient) -> Mapping[int, float]:
    """Return when a client told of each request, in the order of all events; the last time of each id.

    Ids of requests may repeat where threads number their own.
    """
    return {
        event.fields["requestId"]: event.seq
        for event in client.of_kind(STARTED)
        if "requestId" in event.fields
    }


def _is_late(request: SeenRequest, before: Sequence[SeenRequest]) -> bool:
    """Return whether a request is of the operation before, which its deadline ended while it was sent.

    The same number, session and content as the last request of the operation before: a retryable write whose
    deadline passed while it was on its way.
    """
    if "txnNumber" not in request.command or "autocommit" in request.command:
        return False
    return any(
        (each.command.get("txnNumber"), each.command.get("lsid"), essence(each))
        == (request.command["txnNumber"], request.command.get("lsid"), essence(request))
        for each in before[-1:]
    )


def unanswered_greetings(lives: Iterable[ConnectionLife]) -> list[SeenRequest]:
    """Return the greetings that got no good answer, but for checks that a monitor cancelled by itself.

    Cancelling its own check is what a monitor does when an operation has lost a connection; counting it as
    trouble would leave out every operation after a network error.
    """
    return [
        request
        for life in lives
        for request in life.seen.requests
        if request.name in _GREETINGS
        and (request.end != "reply" or not (request.reply or {}).get("ok"))
        and not (request.end == "client" and "maxAwaitTimeMS" in request.command)
    ]


def _asks_for_nothing(request: SeenRequest) -> bool:
    return (request.command.get("writeConcern") or {}).get("w") == 0


def _jitter(body: Mapping[str, Any]) -> float | None:
    """Return the jitter that is set for a client; a seed sets none that is known."""
    jitter = body.get("pushbackd", {}).get("jitter")
    return float(jitter) if isinstance(jitter, (int, float)) else None


def _seeds(context: Context, body: Mapping[str, Any]) -> int:
    """Return how many hosts a client's connection string names."""
    multiple = body.get("useMultipleMongoses")
    return len(
        ConnectionString.of(context.deployment.uri_multi if multiple else context.deployment.uri).hosts
    )

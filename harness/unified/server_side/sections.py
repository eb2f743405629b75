"""The key `pushbackd` while a case runs: the record begins, ends, and is judged section by section.

The only file of this room that knows the running case (`Context`); it asks the pure judges and turns what
they find into `CaseFailedError` and comparisons. Sections are judged in the order attempts, connections,
metrics, rules: an attempt too many explains a counter, and what a scenario expects tells more than a rule of
all cases.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind
from harness.unified.matching.matcher import Mismatch
from harness.unified.outcome import CaseFailedError
from harness.unified.server_side.attempts import Facts, SeenOperation, is_selected, judge
from harness.unified.server_side.comparison import AttemptComparison
from harness.unified.server_side.connection_judge import check_connections, settle_connections
from harness.unified.server_side.grouping import by_operation
from harness.unified.server_side.metrics import begin_metrics, check_metrics, end_metrics
from harness.unified.server_side.oracles import breaches
from harness.unified.server_side.oracles.making import ending_of, made_clients, trace_of
from harness.unified.server_side.rules import EDITIONS, Timing
from harness.unified.server_side.seen import connections_of, requests_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.unified.entities import SessionEntity
    from harness.unified.model import Operation
    from harness.unified.operations.spec import Context
    from harness.unified.server_side.model import ExpectedAttempts, ExpectedRules, ServerSide
    from harness.unified.server_side.seen import SeenRequest


async def begin(context: Context) -> None:
    """Begin to record what clients do, which explains failures too, and count if the case asks for it."""
    expected = context.case.server_side
    if expected is not None:
        await begin_metrics(context, expected.metrics)
    if context.deployment.wire_record is not None:
        context.deployment.wire_record.begin()


async def settle(context: Context) -> None:
    """Wait for what follows the operations a little later, then count again."""
    expected = context.case.server_side
    if expected is not None:
        # Connections first: waiting for them takes time, and the second snapshot must not be taken before
        # what they do has been counted.
        await settle_connections(context, expected.connections)
        await end_metrics(context, expected.metrics)
        if expected.rules is not None:
            context.seen.ending = await ending_of(context)


def end(context: Context) -> None:
    """Take what was recorded. A second call does nothing."""
    record = context.deployment.wire_record
    if record is None or not record.on:
        return
    record.end()
    own = context.case.server_side
    # Decoding the record takes time that most cases need not spend.
    if own is not None and own.is_judged:
        context.seen.connections = connections_of(record.entries)


def check(context: Context) -> None:
    """Judge the sections. Raises `CaseFailedError` for the first that differs."""
    expected = context.case.server_side
    if expected is None:
        return
    if expected.is_judged:
        _check_attempts(context, expected)
        check_connections(context, expected.connections)
    check_metrics(context, expected.metrics)
    if expected.rules is not None:
        _check_rules(context, expected.rules)


def _check_rules(context: Context, expected: ExpectedRules) -> None:
    options = _options(context)
    trace = trace_of(
        context,
        options,
        app_name_of=lambda operation: _app_name_of(context, options, operation),
        fits=partial(_fits, {name: dict(session.lsid) for name, session in _sessions(context)}),
    )
    for oracle, sentence in breaches(trace, expected.names):
        # A known breach hides none of the others: the next sentence is looked at.
        if expected.passes_over(oracle.name, sentence):
            continue
        why = f"{oracle.name}: {sentence}"
        raise CaseFailedError(
            f"{oracle} is broken: {sentence}",
            location=expected.location,
            mismatch=Mismatch(f"expectRules.{oracle.name}", oracle.sentence, sentence, why),
        )


def _check_attempts(context: Context, server_side: ServerSide) -> None:
    facts = facts_of(context)
    for expected in server_side.attempts:
        operations = seen_operations(context, expected, facts.timing)
        found = judge(expected, operations, facts)
        if found is not None or context.account.compares:
            requests = requests_of(context.seen.connections)
            sent = sum(request.name in expected.commands for request in requests)
            context.comparisons.append(AttemptComparison(expected, tuple(operations), facts, found, sent))
        if found is not None:
            commands = " or ".join(expected.commands)
            raise CaseFailedError(
                f"servers saw other attempts of {commands}: {found}",
                location=found.location,
                mismatch=found.mismatch,
            )


def facts_of(context: Context) -> Facts:
    """Return what a judge has to know of a case."""
    record = context.deployment.wire_record
    return Facts(
        edition=EDITIONS[context.edition],
        timing=Timing(record.round_trip, record.is_disturbed),
        entities=context.entities,
        servers=frozenset(connection.server for connection in context.seen.connections),
        uri_options=lambda app_name: _uri_options(context, app_name),
    )


def seen_operations(context: Context, expected: ExpectedAttempts, timing: Timing) -> list[SeenOperation]:
    """Return the operations that sent commands which an element is about. Raises `EntityError`."""
    lsid = None if expected.session is None else context.entities.session(expected.session).lsid
    requests = [
        request for request in requests_of(context.seen.connections) if is_selected(expected, request, lsid)
    ]
    options = _options(context)
    grouped = by_operation(
        requests,
        context.account.steps,
        context.case.operations,
        lambda operation: _app_name_of(context, options, operation),
        partial(_fits, {name: dict(session.lsid) for name, session in _sessions(context)}),
    )
    return [SeenOperation.of(step.operation.name, sent, timing) for step, sent in grouped]


def _sessions(context: Context) -> Iterator[tuple[str, SessionEntity]]:
    return ((entity.id, entity.value) for entity in context.entities.of(EntityKind.SESSION))


def _fits(lsids: Mapping[str, Mapping[str, Any]], operation: Operation, request: SeenRequest) -> bool:
    """Return whether a request has the comment and the session of an operation; `lsids` are the sessions'."""
    arguments, command = operation.arguments, request.command
    # Both absent is a fit: an operation without a comment sends none.
    if arguments.get("comment") != command.get("comment"):
        return False
    if "session" in arguments:
        return lsids.get(arguments["session"]) == command.get("lsid")
    # Without an explicit session a driver uses one of its own, which is no entity's.
    return command.get("lsid") not in lsids.values()


def _app_name_of(
    context: Context, options: Mapping[str, Mapping[str, Any]], operation: Operation
) -> str | None:
    """Return the application name of an operation's client, None where it has none."""
    if operation.object == EntityKind.TEST_RUNNER.value:
        return None
    entity = context.entities.find(operation.object)
    client = entity.id if entity.kind is EntityKind.CLIENT else entity.client
    name = options.get(client, {}).get("appName")
    return name if isinstance(name, str) else None


def _uri_options(context: Context, app_name: str | None) -> Mapping[str, Any]:
    """Return the connection string options of the first client with an application name."""
    # Attempts know an application name and no client; two clients with one name have, for a judge, the
    # options of the first.
    of_name = (options for options in _options(context).values() if options.get("appName") == app_name)
    return next(of_name, {})


def _options(context: Context) -> Mapping[str, Mapping[str, Any]]:
    """Return the connection string options of each client, by the name of its entity."""
    return {spec.id: spec.body.get("uriOptions", {}) for spec in made_clients(context)}

"""Runs a case: data, entities, operations, assertions, and everything undone at the end.

Unified Test Format: Executing a Test. Theory of operation:

1. Whether a case applies is decided before anything is touched (`requirements`): a case that is skipped
   leaves no trace on the servers.
2. `initialData` is written first, with majority, by the deployment's own client (`state`). The driver under
   test must find the data on whichever member it reads from, and none of this may be among its events.
3. Entities are made in the order of the file, since each may name one above it; operations run in the order
   of the file on the one loop. Threads run beside them, and have all ended before anything is judged.
4. Then the events are frozen, and only then are fail points turned off: turning them off takes commands, and
   the drivers' monitors hear of servers that recover. What comes later belongs to no assertion.
5. Events, log messages, spans, what servers saw (`server_side`) and outcome are judged in this order, and
   the first that differs ends the case: events say why the data are wrong, seldom the other way round.
6. Undoing happens whatever came before, last first (`_undo`). A case that leaves something behind would fail
   the next one, so one whose undoing goes wrong has not passed; where it had failed already, the first
   failure is the one that is reported.

All waiting is on the deployment's clock, so a case runs in virtual time as it runs on the wall clock.
Whatever a part of a case raises becomes a `CaseOutcome` in one place (`_judged`): errors of the driver and
of the scenario are told apart there, and nothing but a cancellation leaves `run_case`.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from driver.editions import DEFAULT
from harness.adapters.base import (
    AdapterLost,
    EntityKind,
    Feature,
    Invocation,
    OperationFailed,
    UnsupportedOperation,
)
from harness.unified.account import Account
from harness.unified.arguments import check_names, check_options
from harness.unified.creation import create_entity
from harness.unified.errors import EntityError, ScenarioError
from harness.unified.loops import Loops
from harness.unified.matching.comparison import compare_events, compare_logs
from harness.unified.matching.error_matcher import match_error
from harness.unified.matching.event_matcher import has_enough, match_events, match_logs, match_spans
from harness.unified.matching.matcher import match, match_each
from harness.unified.model import UNSET
from harness.unified.observation import logged, observed, traced
from harness.unified.operations import Context, ResultComparison, look_up
from harness.unified.operations.collection import CURSORS
from harness.unified.operations.spec import TIMEOUT_ARGUMENTS, handle_of
from harness.unified.operations.testrunner import end_thread, skipped_on_thread
from harness.unified.outcome import CaseFailedError, CaseOutcome, CaseSkippedError, Status
from harness.unified.placeholders import refuse_placeholders
from harness.unified.requirements import skip_reason
from harness.unified.server_side import sections as server_side
from harness.unified.state import (
    check_outcome,
    disable_fail_points,
    end_transactions,
    set_up,
    starts_transaction,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from harness.adapters.base import DriverAdapter, ErrorReport, Event
    from harness.adapters.deployment import Deployment
    from harness.unified.entities import Entity
    from harness.unified.matching.comparison import Comparison
    from harness.unified.matching.matcher import Entities, Mismatch
    from harness.unified.model import Case, ExpectedEvents, ExpectedLogs, ExpectedSpans, Operation
    from harness.unified.operations import OperationSpec
    from mongowire.documents.marks import Location

    Witness: TypeAlias = Callable[[Context], Awaitable[None]]


T = TypeVar("T", "ExpectedEvents", "ExpectedLogs", "ExpectedSpans")

# Seconds. Log messages that have not come by then are missing; a case that expects too many waits so long.
_PATIENCE: Final = 0.25


async def run_case(
    case: Case,
    *,
    adapter: DriverAdapter,
    deployment: Deployment,
    account: Account | None = None,
    witness: Witness | None = None,
    loops: Loops | None = None,
    edition: str = DEFAULT.name,
) -> CaseOutcome:
    """Run one case against a driver and a deployment, and say how it ended.

    `account` is kept meanwhile, and `loops` bounds the case's loops. `edition` is the one that the driver
    follows. `witness` looks at what is there when
    all operations have ended, before anything is judged or undone.

    When this returns, the driver's clients that the case made are closed and its fail points are off. A case
    whose undoing goes wrong has not passed. Nothing but a cancellation is raised.
    """
    reason = skip_reason(case, deployment, adapter.features, edition)
    if reason is not None:
        return CaseOutcome(Status.SKIPPED, reason, location=case.location)
    context = Context(case, adapter, deployment, execute, account or Account(), loops or Loops(), edition)
    undone = CaseOutcome(Status.PASSED)
    try:
        outcome = await _judged(_perform(context, witness), case)
        if outcome.status is Status.FAILED and (skipped := skipped_on_thread(context)):
            # What a thread could not do explains why an event or a result did not come: the driver is not to
            # blame.
            outcome = CaseOutcome(Status.SKIPPED, str(skipped), location=case.location)
        _freeze_events(context)  # of a case that failed before it came so far: undoing adds events of its own
        # Before undoing: lists of events would grow by those of closing clients.
        values = context.entities.documents()
    finally:
        # Also for a cancellation, since explanations read account and record of interrupted cases.
        context.account.end(deployment.clock.now())
        server_side.end(context)
        undone = await _judged(_undo(context), case)
    # A failure of the case tells more than one of its undoing, which often follows from it.
    final = outcome if outcome.status is not Status.PASSED else undone
    return replace(
        final,
        events=dict(context.events),
        comparisons=tuple(context.comparisons),
        entities=values,
    )


async def _judged(work: Awaitable[None], case: Case) -> CaseOutcome:
    """Wait for a part of a case, and turn whatever it raises into an outcome."""
    try:
        await work
    except (CaseSkippedError, UnsupportedOperation) as skipped:
        return CaseOutcome(Status.SKIPPED, str(skipped), location=case.location)
    except CaseFailedError as failed:
        place = failed.location or case.location
        return CaseOutcome(Status.FAILED, failed.reason, failed.mismatch, place, failed.error)
    except OperationFailed as failed:
        return CaseOutcome(Status.FAILED, failed.report.message, location=case.location, error=failed.report)
    except AdapterLost as lost:
        return CaseOutcome(Status.ERROR, str(lost), location=case.location)
    except ScenarioError as error:
        place = error.location or case.location
        hint = f" ({error.fix})" if error.fix else ""
        return CaseOutcome(Status.ERROR, f"{error.message}{hint}", location=place)
    except Exception as error:  # noqa: BLE001  # one broken case must not end the run of the others
        return CaseOutcome(Status.ERROR, f"{type(error).__name__}: {error}", location=case.location)
    return CaseOutcome(Status.PASSED)


async def _perform(context: Context, witness: Witness | None) -> None:
    flaw = context.case.flaw
    if (
        flaw is not None
    ):  # what is wrong with this case alone must not keep the others of its file from running
        raise ScenarioError(flaw.message, location=flaw.location)
    await set_up(context)
    # After the data are in place and before any client is made: the connections of the record are the case's
    # own, and metrics count what its operations did.
    await server_side.begin(context)
    context.account.began = context.deployment.clock.now()
    for spec in context.case.entities:
        await create_entity(context, spec)
    for operation in context.case.operations:
        await execute(context, operation)
    for thread in context.entities.of(EntityKind.THREAD):
        await end_thread(context, thread.id)  # a failure on a thread counts, also when nothing waited for it
    await _settle_logs(context)
    _freeze_events(context)
    await server_side.settle(context)
    server_side.end(context)
    await disable_fail_points(context)
    if witness is not None:
        await witness(context)
    case, events, logs, spans = context.case, context.events, context.logs, context.spans
    _check(context, case.expected_events, events, match_events, "observed other events", compare_events)
    _check(context, case.expected_logs, logs, match_logs, "logged something else", compare_logs)
    _check(context, case.expected_spans, spans, match_spans, "has other spans")
    server_side.check(context)
    await check_outcome(context)


async def _settle_logs(context: Context) -> None:
    """Wait until clients have logged as many messages as are expected, for `_PATIENCE` at most.

    A driver logs what an operation waited for as an event a little later, and maybe in another process.
    """

    def logged_enough() -> bool:
        return all(
            has_enough(expected, logged(client.value), entities=context.entities)
            for expected in context.case.expected_logs
            for client in context.entities.of(EntityKind.CLIENT)
            if client.id == expected.client
        )

    await context.wait_until(logged_enough, within=_PATIENCE)


def _freeze_events(context: Context) -> None:
    """Take what every client has observed and logged so far; what comes after belongs to no assertion."""
    context.account.end(context.deployment.clock.now())
    for client in context.entities.of(EntityKind.CLIENT):
        context.events.setdefault(client.id, observed(client.value))
        context.logs.setdefault(client.id, logged(client.value))
        context.spans.setdefault(client.id, traced(client.value))


def _check(
    context: Context,
    expectations: Iterable[T],
    seen: Mapping[str, Sequence[Event]],
    match_all: Callable[..., tuple[Mismatch, Location] | None],
    said: str,
    compare: Callable[[T, Sequence[Event], Entities], Comparison] | None = None,
) -> None:
    """Judge what clients observed. Raises `CaseFailedError`, which says what the first that differs did."""
    for expected in expectations:
        context.entities.client(expected.client)  # raises where there is no such client
        found = match_all(expected, seen[expected.client], entities=context.entities)
        # The alignment costs the product of both lengths, so it is made for failures, and for readers who
        # ask.
        if compare is not None and (found is not None or context.account.compares):
            context.comparisons.append(compare(expected, seen[expected.client], context.entities))
        if found is not None:
            mismatch, location = found
            reason = f"client {expected.client!r} {said}: {mismatch}"
            raise CaseFailedError(reason, location=location, mismatch=mismatch)


async def _undo(context: Context) -> None:
    """Undo, last first; a part that fails does not keep the others from being done.

    Threads stop before what they use goes away. Fail points are off before cursors and sessions end, or they
    would hit those commands. Clients are closed last: the others need them.
    """
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_close_clients, context)
        if starts_transaction(context.case) and not context.deployment.ends_with_case:
            # Special Procedures, Terminating Open Transactions: one that is left open holds locks, and the
            # next case would wait for them in vain.
            stack.push_async_callback(end_transactions, context)
        stack.push_async_callback(_release, context)
        stack.push_async_callback(disable_fail_points, context)
        for thread in context.entities.of(EntityKind.THREAD):
            stack.push_async_callback(thread.value.cancel)


async def _release(context: Context) -> None:
    """Close cursors and end sessions, also those that the scenario did, which drivers allow."""
    cursors = [(entity.kind, entity.value, "close") for entity in context.entities.of(*CURSORS)]
    unsaved = [(kind, handle, "close") for kind, handle in context.unsaved]
    sessions = [
        (session.kind, session.value.handle, "endSession")
        for session in context.entities.of(EntityKind.SESSION)
    ]
    for kind, handle, operation in (*cursors, *unsaved, *sessions):
        with suppress(OperationFailed, UnsupportedOperation):
            await context.adapter.call(Invocation(handle, kind, operation))


async def _close_clients(context: Context) -> None:
    for client in context.entities.of(EntityKind.CLIENT):
        await context.adapter.close_client(client.value.handle)


# Runs one operation, and judges what came of it.
#
# Unified Test Format: Executing an Operation.


async def execute(context: Context, operation: Operation, *, propagate: bool = False) -> None:
    """Run an operation with its assertions.

    Raises `CaseFailedError` when the driver did something else than expected, `ScenarioError` when the
    operation makes no sense, `CaseSkippedError` when the driver lacks a feature; with `propagate`, also the
    driver's own `OperationFailed` after it was judged.
    """
    try:
        await _execute(context, operation, propagate=propagate)
    except ScenarioError as error:
        raise error.at(operation.location) from error
    except CaseFailedError as failure:
        failure.location = failure.location or operation.location
        raise


async def _execute(context: Context, operation: Operation, *, propagate: bool) -> None:
    on_runner = operation.object == EntityKind.TEST_RUNNER.value
    entity = None if on_runner else context.entities.find(operation.object)
    spec = look_up(entity.kind if entity else EntityKind.TEST_RUNNER, operation.name)
    check_names(operation.name, operation.arguments, spec.arguments)
    needed = set(spec.requires)
    if TIMEOUT_ARGUMENTS & operation.arguments.keys():
        needed.add(Feature.TIMEOUT_MS)
    # In the order of the enumeration, so that the reason of a skip does not change from run to run.
    for feature in Feature:
        if feature in needed and feature not in context.adapter.features:
            raise CaseSkippedError(f"{operation.name} needs a driver with {feature.name}: {feature.value}")
    call = _invocation(context, operation, entity)
    try:
        with context.account.step(operation, context.deployment.clock.now) as step:
            step.result = result = await spec.run(context, call)
    except OperationFailed as failed:
        _judge_error(context, operation, failed.report)
        if propagate:
            raise
    else:
        _judge_result(context, operation, spec, result)
        _keep(context, operation, spec, entity, result)


def _invocation(context: Context, operation: Operation, entity: Entity | None) -> Invocation[Any]:
    """Return the call for the driver, which may keep and change the arguments; a session is its handle.

    The runner's own operations take their arguments as they are: they look up the names themselves.
    """
    if entity is None:
        return Invocation(None, EntityKind.TEST_RUNNER, operation.name, operation.arguments)
    check_options(operation.arguments)
    refuse_placeholders(operation.arguments)
    arguments: dict[str, Any] = _fresh(dict(operation.arguments))
    if "session" in arguments:
        arguments["session"] = context.entities.session(arguments["session"]).handle
    return Invocation(handle_of(entity), entity.kind, operation.name, arguments)


def _fresh(value: Any) -> Any:
    """Return a value of which a driver may change every document and list.

    The model is shared between runs: a driver that adds `_id` to a document must not add it to the file's.
    """
    if isinstance(value, dict):
        return {name: _fresh(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_fresh(element) for element in value]
    return value


def _judge_error(context: Context, operation: Operation, report: ErrorReport) -> None:
    """Compare the error of an operation with `expectError`. Raises `CaseFailedError`.

    A client's bulk write keeps its errors by index and asserts them by `writeErrors`, so the messages of
    those inside do not count for `errorContains`.
    """
    if operation.ignore_result_and_error:
        return
    expected = operation.expect_error
    if expected is None:
        raise CaseFailedError(f"{operation.name} failed: {report.message}", error=report)
    aggregates = operation.name != "clientBulkWrite"
    found = match_error(expected, report, entities=context.entities, aggregates=aggregates)
    if found is not None:
        raise CaseFailedError(
            f"{operation.name} failed with another error: {found}",
            location=expected.location,
            mismatch=found,
            error=report,
        )


def _judge_result(context: Context, operation: Operation, spec: OperationSpec, result: Any) -> None:
    """Compare the result of an operation with `expectResult`. Raises `CaseFailedError`.

    Without `expectResult` any result will do, also one of an unexpected type.
    """
    if operation.expect_error is not None:
        raise CaseFailedError(f"{operation.name} succeeded, an error was expected")
    if operation.expect_result is UNSET:
        return
    compare = match_each if spec.result is ResultComparison.EACH else match
    found = compare(operation.expect_result, result, entities=context.entities)
    if found is not None:
        raise CaseFailedError(f"{operation.name} returned another result: {found}", mismatch=found)


def _keep(
    context: Context, operation: Operation, spec: OperationSpec, entity: Entity | None, result: Any
) -> None:
    """Save the result under the name that the scenario gives it; what holds a cursor is closed at the end."""
    name = operation.save_result_as_entity
    if name is None:
        # A cursor that nobody has a name for would otherwise stay open on the server until it times out.
        if spec.creates in CURSORS and result is not None:
            context.unsaved.append((spec.creates, result))
    elif spec.creates is not None:
        # An entity without a client of its own is the client.
        owner = (entity.client or entity.id) if entity else ""
        context.entities.add(spec.creates, name, result, client=owner)
    elif result is None:
        raise EntityError(f"{operation.name} has no result to save as {name!r}")
    else:
        context.entities.add_document(name, result)

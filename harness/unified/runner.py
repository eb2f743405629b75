"""Runs a case: data, entities, operations, assertions, and everything undone at the end.

Unified Test Format: Executing a Test. All waiting is on the deployment's clock, so a case runs in virtual
time as it runs on the wall clock.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.adapters.base import AdapterLost, EntityKind, OperationFailed, UnsupportedOperation
from harness.unified.account import Account
from harness.unified.comparison import compare_events, compare_logs
from harness.unified.creation import create_entity
from harness.unified.errors import ScenarioError
from harness.unified.event_matcher import match_events
from harness.unified.execution import execute
from harness.unified.log_matcher import match_logs
from harness.unified.loops import Loops
from harness.unified.observation import logged, observed, traced
from harness.unified.operations.cursor import CURSORS
from harness.unified.operations.spec import Context
from harness.unified.operations.testrunner import end_thread
from harness.unified.outcome import CaseFailedError, CaseSkippedError, Outcome, Status
from harness.unified.requirements import skip_reason
from harness.unified.span_matcher import match_spans
from harness.unified.state import (
    check_outcome,
    disable_fail_points,
    end_transactions,
    set_up,
    starts_transaction,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeAlias

    from harness.adapters.base import DriverAdapter, Handle
    from harness.unified.deployment import Deployment
    from harness.unified.model import Case

    Witness: TypeAlias = Callable[[Context], Awaitable[None]]


async def run_case(
    case: Case,
    *,
    adapter: DriverAdapter,
    deployment: Deployment,
    account: Account | None = None,
    witness: Witness | None = None,
    loops: Loops | None = None,
) -> Outcome:
    """Run one case against a driver and a deployment, and say how it ended.

    `account` is kept meanwhile, and `loops` bounds the case's loops. `witness` looks at what is there when
    all operations have ended, before anything is judged or undone.

    When this returns, the driver's clients that the case made are closed and its fail points are off. A case
    whose undoing goes wrong has not passed. Nothing but a cancellation is raised.
    """
    reason = skip_reason(case, deployment, adapter.features)
    if reason is not None:
        return Outcome(Status.SKIPPED, reason, location=case.location)
    context = Context(case, adapter, deployment, execute, account or Account(), loops or Loops())
    undone = Outcome(Status.PASSED)
    try:
        outcome = await _judged(_perform(context, witness), case)
        _freeze_events(context)
        values = context.entities.documents()
    finally:
        context.account.end(deployment.clock.now())
        undone = await _judged(_undo(context), case)
    final = outcome if outcome.status is not Status.PASSED else undone
    return replace(
        final,
        events=dict(context.events),
        comparisons=tuple(context.comparisons),
        entities=values,
    )


async def _judged(work: Awaitable[None], case: Case) -> Outcome:
    """Wait for a part of a case, and turn whatever it raises into an outcome."""
    try:
        await work
    except (CaseSkippedError, UnsupportedOperation) as skipped:
        return Outcome(Status.SKIPPED, str(skipped), location=case.location)
    except CaseFailedError as failed:
        place = failed.location or case.location
        return Outcome(Status.FAILED, failed.reason, failed.mismatch, place, failed.error)
    except OperationFailed as failed:
        return Outcome(Status.FAILED, failed.report.message, location=case.location, error=failed.report)
    except AdapterLost as lost:
        return Outcome(Status.FAILED, str(lost), location=case.location)
    except ScenarioError as error:
        place = error.location or case.location
        hint = f" ({error.fix})" if error.fix else ""
        return Outcome(Status.ERROR, f"{error.message}{hint}", location=place)
    except Exception as error:  # noqa: BLE001  # one broken case must not end the run of the others
        return Outcome(Status.ERROR, f"{type(error).__name__}: {error}", location=case.location)
    return Outcome(Status.PASSED)


async def _perform(context: Context, witness: Witness | None) -> None:
    flaw = context.case.flaw
    if flaw is not None:
        raise ScenarioError(flaw.message, location=flaw.location)
    await set_up(context)
    context.account.began = context.deployment.clock.now()
    for spec in context.case.entities:
        await create_entity(context, spec)
    for operation in context.case.operations:
        await execute(context, operation)
    await _check_threads(context)
    _freeze_events(context)
    await disable_fail_points(context)
    if witness is not None:
        await witness(context)
    _check_events(context)
    _check_logs(context)
    _check_spans(context)
    await check_outcome(context)


def _freeze_events(context: Context) -> None:
    """Take what every client has observed and logged so far; what comes after belongs to no assertion."""
    context.account.end(context.deployment.clock.now())
    for client in context.entities.of(EntityKind.CLIENT):
        context.events.setdefault(client.id, observed(client.value))
        context.logs.setdefault(client.id, logged(client.value))
        context.spans.setdefault(client.id, traced(client.value))


async def _check_threads(context: Context) -> None:
    """Fail the case for a failure on a thread, also when nothing waited for the thread."""
    for thread in context.entities.of(EntityKind.THREAD):
        await end_thread(context, thread.id)


def _check_events(context: Context) -> None:
    for expected in context.case.expected_events:
        context.entities.client(expected.client)
        events = context.events[expected.client]
        found = match_events(expected, events, entities=context.entities)
        if found is not None or context.account.compares:
            context.comparisons.append(compare_events(expected, events, context.entities))
        if found is not None:
            mismatch, location = found
            reason = f"client {expected.client!r} observed other events: {mismatch}"
            raise CaseFailedError(reason, location=location, mismatch=mismatch)


def _check_logs(context: Context) -> None:
    for expected in context.case.expected_logs:
        context.entities.client(expected.client)
        messages = context.logs[expected.client]
        found = match_logs(expected, messages, entities=context.entities)
        if found is not None or context.account.compares:
            context.comparisons.append(compare_logs(expected, messages, context.entities))
        if found is not None:
            mismatch, location = found
            reason = f"client {expected.client!r} logged something else: {mismatch}"
            raise CaseFailedError(reason, location=location, mismatch=mismatch)


def _check_spans(context: Context) -> None:
    for expected in context.case.expected_spans:
        context.entities.client(expected.client)
        found = match_spans(expected, context.spans[expected.client], entities=context.entities)
        if found is not None:
            mismatch, location = found
            reason = f"client {expected.client!r} has other spans: {mismatch}"
            raise CaseFailedError(reason, location=location, mismatch=mismatch)


async def _undo(context: Context) -> None:
    """Undo, last first; a part that fails does not keep the others from being done."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_close_clients, context)
        if starts_transaction(context.case):
            stack.push_async_callback(end_transactions, context)
        stack.push_async_callback(_release, context)
        stack.push_async_callback(disable_fail_points, context)
        for thread in context.entities.of(EntityKind.THREAD):
            stack.push_async_callback(thread.value.cancel)


async def _release(context: Context) -> None:
    """Close cursors and end sessions, also those that the scenario did."""
    cursors = [(entity.kind, entity.value) for entity in context.entities.of(*CURSORS)]
    for kind, handle in [*cursors, *context.unsaved]:
        await _release_one(context, kind, handle, "close")
    for session in context.entities.of(EntityKind.SESSION):
        await _release_one(context, EntityKind.SESSION, session.value.handle, "endSession")


async def _release_one(context: Context, kind: EntityKind, handle: Handle, operation: str) -> None:
    with suppress(OperationFailed, UnsupportedOperation):
        await context.adapter.call(handle, kind, operation, {})


async def _close_clients(context: Context) -> None:
    for client in context.entities.of(EntityKind.CLIENT):
        await context.adapter.close_client(client.value.handle)

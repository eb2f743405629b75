"""Runs one operation, and judges what came of it.

Unified Test Format: Executing an Operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.adapters.base import EntityKind, Feature, Invocation, OperationFailed
from harness.unified.arguments import check_names, check_options
from harness.unified.errors import EntityError, ScenarioError
from harness.unified.matching.error_matcher import match_error
from harness.unified.matching.matcher import match, match_each
from harness.unified.model import UNSET
from harness.unified.operations import ResultComparison, look_up
from harness.unified.operations.cursor import CURSORS
from harness.unified.operations.spec import TIMEOUT_ARGUMENTS, handle_of
from harness.unified.outcome import CaseFailedError, CaseSkippedError
from harness.unified.placeholders import refuse_placeholders

if TYPE_CHECKING:
    from harness.adapters.base import ErrorReport
    from harness.unified.entities import Entity
    from harness.unified.model import Operation
    from harness.unified.operations import Context, OperationSpec


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
    _require_features(context, operation, spec)
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


def _require_features(context: Context, operation: Operation, spec: OperationSpec) -> None:
    needed = set(spec.requires)
    if TIMEOUT_ARGUMENTS & operation.arguments.keys():
        needed.add(Feature.TIMEOUT_MS)
    for feature in Feature:
        if feature in needed and feature not in context.adapter.features:
            raise CaseSkippedError(f"{operation.name} needs a driver with {feature.name}: {feature.value}")


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
    if isinstance(value, dict):
        return {name: _fresh(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_fresh(element) for element in value]
    return value


def _judge_error(context: Context, operation: Operation, report: ErrorReport) -> None:
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
        if spec.creates in CURSORS and result is not None:
            context.unsaved.append((spec.creates, result))
    elif spec.creates is not None:
        owner = (entity.client or entity.id) if entity else ""
        context.entities.add(spec.creates, name, result, client=owner)
    elif result is None:
        raise EntityError(f"{operation.name} has no result to save as {name!r}")
    else:
        context.entities.add_document(name, result)

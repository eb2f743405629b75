"""Rules about operations: what exists, what it takes, and what may be expected of it.

Unified Test Format: Executing an Operation, Special Operators for Matching Assertions.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from bson.errors import BSONError

from harness.adapters.base import EntityKind
from harness.lint.findings import LintRule, Problem
from harness.unified.arguments import check_options, check_session_options
from harness.unified.build import decoded
from harness.unified.errors import ScenarioError
from harness.unified.matching.matcher import OPERATORS, match
from harness.unified.operations import OPERATIONS, look_up
from harness.unified.operations.models import check_client_models, check_models
from harness.unified.schema.arguments import argument_of, wrong_type
from mongowire.codes import Label
from mongowire.documents.errors import did_you_mean, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from harness.lint.scenario import LintedScenario, OperationUse
    from mongowire.documents.marks import Location, Marked

_TARGETS: Final = frozenset(kind for kind, _ in OPERATIONS)
_JUDGED: Final = ("$$exists", "$$type", "$$lte", "$$matchesHexBytes")
"""Operators whose arguments say by themselves whether they are wrong."""


def _unknown_operation(scenario: LintedScenario) -> Iterator[Problem]:
    """Find operations that their object does not have; of an object of unknown kind, none is wrong."""
    for step in scenario.steps:
        kind = _target(step)
        if kind in _TARGETS and (kind, step.name) not in OPERATIONS:
            try:
                look_up(kind, step.name)
            except ScenarioError as error:
                yield Problem(step.item["name"].location, error.message, error.fix)


def _wrong_arguments(scenario: LintedScenario) -> Iterator[Problem]:
    """Find arguments that are unknown, missing or of a wrong type, also within models and options.

    A missing argument is not told where an unknown one is meant for it: one slip is one finding.
    """
    for step in scenario.steps:
        spec = OPERATIONS.get((_target(step), step.name))
        if spec is None:
            continue
        strange = [name for name in step.arguments if name not in spec.arguments]
        for name in strange:
            hint = did_you_mean(name, spec.arguments, f"arguments: {', '.join(spec.arguments) or 'none'}")
            yield Problem(step.place_of_name(name), f"{step.name} has no argument {name!r}", hint)
        meant = {nearest(name, spec.arguments) for name in strange}
        for name, required in spec.arguments.items():
            if required and name not in step.arguments and name not in meant:
                yield Problem(step.place_of(), f"{step.name} needs the argument {name!r}", f"add {name}")
        yield from _wrong_types(step, spec.arguments)
        for operation, field, check_field in _MODELS:
            if step.name == operation and field in step.arguments:
                yield from _checked(check_field, step.arguments[field], step.place_of(field))
        yield from _checked(check_options, step.arguments, step.place_of())
    for entity in scenario.every_entity:
        for field, check in _OPTIONS.items():
            if entity.created and isinstance(entity.item.value.get(field), dict):
                yield from _checked(check, entity.item.value[field], entity.item.locate((field,)))


def _wrong_types(step: OperationUse, allowed: Iterable[str]) -> Iterator[Problem]:
    for name in step.arguments:
        if name in allowed:
            argument = argument_of(step.name, name)
            wrong = wrong_type(argument.type, decoded(step.item["arguments"][name]))
            if wrong:
                yield Problem(step.place_of(name), wrong, f"{name}: {argument.sentence}")


_OPTIONS: Final = {
    **dict.fromkeys(("databaseOptions", "collectionOptions", "bucketOptions"), check_options),
    "sessionOptions": check_session_options,
}


def _checked(
    check: Callable[[Mapping[str, Any]], None], value: Mapping[str, Any], place: Location
) -> Iterator[Problem]:
    try:
        check(value)
    except ScenarioError as error:
        yield Problem(place, error.message, error.fix)


_MODELS: Final = (
    ("bulkWrite", "requests", check_models),
    ("clientBulkWrite", "models", check_client_models),
)


def _unknown_operator(scenario: LintedScenario) -> Iterator[Problem]:
    """Find special operators that the matcher would take for keys, or could not use."""
    for operator in (operator for test in scenario.tests for operator in test.operators):
        if len(operator.beside) > 1:
            message = f"{operator.name} stands beside other keys, so it is a key like them"
            yield Problem(operator.place, message, "an operator is the only key of its mapping")
        elif operator.name == "$$placeholder":
            yield Problem(operator.place, "$$placeholder stands where a value is compared")
        elif operator.name not in OPERATORS:
            hint = did_you_mean(operator.name, OPERATORS, f"operators: {', '.join(OPERATORS)}")
            yield Problem(operator.place, f"unknown special operator {operator.name}", hint)
        elif operator.name in _JUDGED:
            yield from _wrong_operand(operator.name, operator.item)


def _wrong_operand(name: str, item: Marked) -> Iterator[Problem]:
    """Ask the matcher itself, with a value that does not matter: what it refuses now, it refuses in a run."""
    try:
        match({name: decoded(item)}, 0, entities=_NoEntities())
    except ScenarioError as error:
        yield Problem(item.location, error.message, error.fix)
    except (BSONError, TypeError):
        yield Problem(item.location, f"{name} cannot compare with this")


class _NoEntities:
    """Entities for operators that need none."""

    def document(self, name: str) -> Any:
        raise AssertionError(name)

    session = document


def _unknown_label(scenario: LintedScenario) -> Iterator[Problem]:
    """Find labels that an error must have and that nobody gives: no driver could meet them."""
    return _strange_labels(scenario, "errorLabelsContain")


def _vacuous_label(scenario: LintedScenario) -> Iterator[Problem]:
    """Find labels that an error must not have and none could have, so that the expectation is always met."""
    return _strange_labels(scenario, "errorLabelsOmit")


def _strange_labels(scenario: LintedScenario, field: str) -> Iterator[Problem]:
    sent = set(_labels_sent(scenario))
    for step in scenario.steps:
        expected = step.item.get("expectError")
        labels = expected.get(field) if expected else None
        for label in labels.items() if labels else ():
            known = _known_labels()
            if label.value not in known and label.value not in sent:
                hint = did_you_mean(label.value, known, f"labels: {', '.join(known)}")
                yield Problem(label.location, f"nobody gives the label {label.value!r}", hint)


def _labels_sent(scenario: LintedScenario) -> Iterator[str]:
    """Yield the labels that fail points put into replies, wherever in a command they stand."""
    for step in scenario.steps:
        for command in (step.arguments.get("failPoint"), step.arguments.get("command")):
            data = command.get("data") if isinstance(command, dict) else None
            if isinstance(data, dict):
                yield from _strings(data.get("errorLabels"))
                concern = data.get("writeConcernError")
                yield from _strings(concern.get("errorLabels") if isinstance(concern, dict) else None)


def _strings(value: object) -> Iterable[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else ()


@cache
def _known_labels() -> tuple[str, ...]:
    return tuple(label.value for label in Label)


def _target(step: OperationUse) -> EntityKind:
    """Return the kind that an operation is run on; one that nobody can know is one without operations."""
    if step.on_runner:
        return EntityKind.TEST_RUNNER
    return (step.target.kind if step.target else None) or EntityKind.DOCUMENT


RULES: Final = (
    LintRule("unknown-operation", "An entity has the operation.", _unknown_operation, refuses=True),
    LintRule(
        "wrong-argument",
        "An operation gets the arguments that it needs, of their types, and no others.",
        _wrong_arguments,
        refuses=True,
    ),
    LintRule(
        "unknown-operator",
        "A special operator exists, stands alone and has an argument that it can compare with.",
        _unknown_operator,
        refuses=True,
    ),
    LintRule(
        "unknown-label",
        "An expected error label is one that servers or drivers give, or a fail point of the file.",
        _unknown_label,
        refuses=True,
    ),
    LintRule(
        "vacuous-label", "A label that an error must not have is one that it could have.", _vacuous_label
    ),
)

"""`expectAttempts` from what servers saw in runs of a case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.lint.commands import BACKGROUND
from harness.unified.server_side.attempts import SeenOperation
from harness.unified.server_side.grouping import by_operation
from harness.unified.server_side.model import NO_GAP, OVERLOAD_BACKOFF, Range
from harness.unified.server_side.rules import Timing
from harness.unified.server_side.seen import requests_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from harness.unified.operations import Context
    from harness.unified.server_side.attempt import JudgedAttempt

_LEFT_OUT: Final = BACKGROUND | {"configureFailPoint", "killCursors"}
"""Commands that drivers send when nobody asks, and those that prepare a case."""


def attempts_by_command(context: Context) -> dict[str, tuple[list[SeenOperation], Timing]]:
    """Return the operations of a run by the commands that they sent, with how exactly gaps were seen."""
    record = context.deployment.wire_record
    timing = Timing(record.round_trip, record.is_disturbed)
    requests = [each for each in requests_of(context.seen.connections) if each.name not in _LEFT_OUT]
    found: dict[str, tuple[list[SeenOperation], Timing]] = {}
    for name in dict.fromkeys(request.name for request in requests):
        of_name = [request for request in requests if request.name == name]
        grouped = by_operation(of_name, context.account.steps, context.case.operations)
        operations = [SeenOperation.of(step.operation.name, sent, timing) for step, sent in grouped]
        if operations:
            found[name] = (operations, timing)
    return found


def expected_attempts(
    runs: Sequence[Mapping[str, tuple[Sequence[SeenOperation], Timing]]], note: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return `expectAttempts`: what all runs have in common. `note` gets a sentence on what varies."""
    elements: list[dict[str, Any]] = []
    for name in runs[0]:
        if not all(name in run for run in runs):
            note(f"{name} was sent in some runs only, so no attempts of it are expected")
            continue
        of_name = [run[name] for run in runs]
        element = _one(of_name) or _several(of_name)
        if element:
            elements.append({"command": name, **element})
        else:
            note(f"the attempts of {name} vary, so nothing is expected of them")
    return elements


def _one(runs: Sequence[tuple[Sequence[SeenOperation], Timing]]) -> dict[str, Any] | None:
    """Return the attempts of a command that one operation sent, equally often in all runs."""
    if any(len(operations) != 1 for operations, _ in runs):
        return None
    lists = [(operations[0].attempts, timing) for operations, timing in runs]
    if len({len(attempts) for attempts, _ in lists}) != 1:
        return None
    count = len(lists[0][0])
    return {"attempts": [_attempt(index, lists) for index in range(count)]}


def _several(runs: Sequence[tuple[Sequence[SeenOperation], Timing]]) -> dict[str, Any] | None:
    """Return how many operations sent a command, and how many attempts each had, where these are equal."""
    numbers = {len(operations) for operations, _ in runs}
    counts = {len(each.attempts) for operations, _ in runs for each in operations}
    found = {"operations": min(numbers)} if len(numbers) == 1 else {}
    found |= {"count": min(counts)} if len(counts) == 1 else {}
    return found or None


def _attempt(index: int, lists: Sequence[tuple[Sequence[JudgedAttempt], Timing]]) -> dict[str, Any]:
    attempts = [(attempts[index], timing) for attempts, timing in lists]
    ends = list(dict.fromkeys(attempt.ends[0] for attempt, _ in attempts))
    element: dict[str, Any] = {"meets": ends[0] if len(ends) == 1 else ends}
    if index == 0:
        return element
    before = [attempts[index - 1] for attempts, _ in lists]
    same = {
        attempt.request.server == previous.request.server
        for (attempt, _), previous in zip(attempts, before, strict=True)
    }
    if len(same) == 1:
        element["on"] = "same" if same == {True} else "another"
    if all(previous.is_overloaded for previous in before):
        element["gap"] = OVERLOAD_BACKOFF
    elif all(_is_none(attempt, timing) for attempt, timing in attempts):
        element["gap"] = NO_GAP
    return element


def _is_none(attempt: JudgedAttempt, timing: Timing) -> bool:
    return attempt.gap is not None and attempt.gap.least <= timing.tolerated(Range(0, 0)).most

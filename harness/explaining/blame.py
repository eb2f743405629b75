"""Driver or adapter: what an adapter told of a case that failed, beside what servers saw of it.

An adapter stands between a driver and the judge. Where what it told contradicts the servers' record, the
driver cannot be judged; where both agree, what the events show is the driver's doing.

Three contradictions are looked for, and the first one decides: a command without its event, a success that a
server answered with an error, an error that no server sent. The result is a hint below the failure and
changes no verdict.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from harness.unified.server_side.attempt import OK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.adapters.base import Event
    from harness.explaining.seen_case import SeenCase, SeenStep

_STARTED: Final = "commandStartedEvent"
_SUCCEEDED: Final = "commandSucceededEvent"
_MAY_FAIL_IN_SILENCE: Final = frozenset({"abortTransaction", "endSession", "close", "closeCursor"})
"""Operations whose errors specifications let a driver keep to itself."""
_NAMESPACE_NOT_FOUND: Final = 26


def blame(seen: SeenCase, heard: Mapping[str, Sequence[Event]], *, events_differ: bool) -> str:
    """Return whose fault a failure looks like, with the proof; empty where there is nothing to compare.

    `events_differ` says that events or attempts are what the case fails by, and not a result or an error.
    """
    for step in seen.steps:
        for contradiction in chain(_untold(step, heard), _turned(step, heard), _errors(step)):
            return f"looks like the adapter's fault: {contradiction}"
    told = _requests_told(heard)
    agreed = sum(attempt.request.request_id in told for step in seen.steps for attempt in step.attempts)
    # Nothing was told of which servers know, as with an adapter without command events.
    if not agreed:
        return ""
    if events_differ:
        return f"looks like the driver's fault: servers saw what its events tell ({_commands(agreed)})"
    return (
        f"may be the driver's fault or the adapter's: servers saw what its events tell"
        f" ({_commands(agreed)}), and of results and errors there is the adapter's word alone"
    )


def _commands(count: int) -> str:
    return "1 command" if count == 1 else f"{count} commands"


def _requests_told(heard: Mapping[str, Sequence[Event]], kind: str = _STARTED) -> frozenset[int]:
    """Return the numbers of the requests that clients told of."""
    events = (event for observed in heard.values() for event in observed if event.kind == kind)
    return frozenset(number for event in events if isinstance(number := event.fields.get("requestId"), int))


def _untold(step: SeenStep, heard: Mapping[str, Sequence[Event]]) -> Iterator[str]:
    """Find a command that servers saw, and that the client did not tell of though it is observed."""
    if _STARTED not in step.client.body.get("observeEvents", ()):
        return
    told = _requests_told(heard)
    started = any(event.kind == _STARTED for event in heard.get(step.client.id, ()))
    if started and not any(attempt.request.request_id in told for attempt in step.attempts):
        return  # numbers that are not those of the wire
    for attempt in step.attempts:
        request = attempt.request
        if request.request_id not in told:
            yield (
                f"{request.server} saw {request.name} (request {request.request_id}), of which there is no"
                f" {_STARTED}"
            )


def _turned(step: SeenStep, heard: Mapping[str, Sequence[Event]]) -> Iterator[str]:
    """Find a command that the client calls a success, and that a server answered with an error."""
    succeeded = _requests_told(heard, _SUCCEEDED)
    for attempt in step.attempts:
        request, reply = attempt.request, attempt.request.reply
        if reply is not None and not reply.get("ok") and request.request_id in succeeded:
            yield (
                f"{request.server} answered {request.name} (request {request.request_id}) with"
                f" {attempt.met}, of which there is a {_SUCCEEDED}"
            )


def _errors(step: SeenStep) -> Iterator[str]:
    """Find an error that no server sent, and one that was sent last and is not told of."""
    name, raised = step.step.operation.name, step.step.error
    if not step.attempts or step.step.ended is None:
        return
    last = step.attempts[-1]
    if raised is not None:
        report = raised.report
        codes = {code for attempt in step.attempts for code in _codes_in(attempt.request.reply)}
        if report.code and not report.is_client_error and report.code not in codes:
            yield f"{name} failed with code {report.code}, which no server sent"
        return
    reply = last.request.reply
    # A command without a reply lost its connection; whether its driver tries again is no contradiction.
    if reply is None or reply.get("ok") or name in _MAY_FAIL_IN_SILENCE:
        return
    # Drivers take `ns not found` for an answer: to drop what is not there is no error to them.
    if last.ends not in ((OK,), (_NAMESPACE_NOT_FOUND,)):
        yield f"{name} did not fail, though its last command, {last.request.name}, met {last.met}"


def _codes_in(document: Any) -> Iterator[int]:
    """Yield every code in a reply, however deep."""
    if isinstance(document, dict):
        if isinstance(document.get("code"), int):
            yield document["code"]
        for value in document.values():
            yield from _codes_in(value)
    elif isinstance(document, list):
        for value in document:
            yield from _codes_in(value)

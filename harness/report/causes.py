"""Why did it go wrong? The causes that failed cases usually have, each recognised by what both sides saw.

A cause is a sentence, and only given where the evidence is in the events; a reader is never sent astray for
the sake of saying something. Sections of the specifications are named where they decide.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from driver.editions import DEFAULT, EDITIONS
from driver.policy.backoff import Backoff
from harness.report.text import as_document
from harness.unified.observation import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from driver.editions import Edition
    from harness.adapters.base import Event
    from harness.report.journal import Line, Timeline
    from harness.unified.model import Case, ExpectedEvents, Operation
    from harness.unified.outcome import Outcome

_OVERLOADED: Final = "SystemOverloadedError"
_RETRYABLE: Final = "RetryableError"
_SLACK: Final = 1.25
"""How much longer than asked a wait may take before it is called wrong: machines are busy."""

_AT_ONCE: Final = 0.05
"""Seconds between two attempts that count as no wait at all."""

_FEW: Final = 3
"""How many back-offs in a row that are all but zero are beyond chance."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that causes are found in; `edition` is that of the specifications, which waits depend on."""

    case: Case
    outcome: Outcome
    heard: Mapping[str, Sequence[Event]]
    timeline: Timeline
    edition: str = DEFAULT.name


def causes_of(evidence: Evidence) -> tuple[str, ...]:
    """Return the likely causes of a failure, the likeliest first; none when nothing speaks for any."""
    return tuple(dict.fromkeys(cause for find in _FINDERS for cause in find(evidence)))


def _lost_labels(evidence: Evidence) -> Iterator[str]:
    """Tell of an error that lacks a label, or has one too many, whether the server or the driver did that."""
    mismatch, error = evidence.outcome.mismatch, evidence.outcome.error
    if mismatch is None or error is None:
        return
    label = str(mismatch.expected)
    in_reply = label in _labels_sent(evidence)
    if mismatch.path == "errorLabelsContain":
        yield (
            f"a reply of the server has the label {label}: the driver's error has lost it"
            if in_reply
            else f"no reply of the server has the label {label}: the driver has to add it, and did not"
        )
    elif mismatch.path == "errorLabelsOmit":
        whose = "the server's reply has it" if in_reply else "no reply has it: the driver added it"
        yield f"the error must not have the label {label}; {whose}"


def _labels_sent(evidence: Evidence) -> set[str]:
    return {
        label for events in evidence.heard.values() for event in events for label in _labels(_failure(event))
    }


def _labels(answer: Mapping[str, Any]) -> frozenset[str]:
    """Return the labels of a reply, or of the write concern error inside it."""
    concern = as_document(answer.get("writeConcernError"))
    return frozenset([*answer.get("errorLabels", ()), *concern.get("errorLabels", ())])


def _transaction_numbers(evidence: Evidence) -> Iterator[str]:
    mismatch = evidence.outcome.mismatch
    if mismatch is None or not mismatch.path.endswith("command.txnNumber"):
        return
    if mismatch.why == "is missing":
        yield (
            "the command has no txnNumber: the driver did not take this as a retryable write"
            " (retryWrites=false, a multi-document write, an unacknowledged write, no session, a standalone)"
        )
    elif mismatch.expected == {"$$exists": False}:
        yield "the command has a txnNumber: only retryable writes and transactions may have one"


def _attempts(evidence: Evidence) -> Iterator[str]:
    """Count how often each command was sent, and how often it should have been."""
    for expected in evidence.case.expected_events:
        if expected.event_type != "command" or not _diverges(evidence.outcome, expected.client):
            continue
        wanted = Counter(filter(None, map(_wanted_command, _started(expected))))
        seen = [
            event
            for event in (evidence.outcome.events or {}).get(expected.client, ())
            if event.kind == "commandStartedEvent"
        ]
        sent = Counter(event.fields.get("commandName", "") for event in seen)
        for name, count in wanted.items():
            if sent[name] != count and (sent[name] < count or not expected.ignore_extra):
                yield _of_attempts(name, count, sent[name], evidence.heard.get(expected.client, ()))


def _diverges(outcome: Outcome, client: str) -> bool:
    return any(comparison.client == client and comparison.diverges for comparison in outcome.comparisons)


def _started(expected: ExpectedEvents) -> Iterator[Mapping[str, Any]]:
    return (event.body for event in expected.events if event.kind == "commandStartedEvent")


def _wanted_command(body: Mapping[str, Any]) -> str:
    return str(body.get("commandName") or next(iter(body.get("command", ())), ""))


def _of_attempts(name: str, wanted: int, sent: int, heard: Sequence[Event]) -> str:
    times = f"{name} was sent {_times(sent)}, {_times(wanted)} expected"
    last = next((_answer(event) for event in reversed(heard) if _is_answer(event, name)), "")
    if sent < wanted:
        after = f"; the last one ended with {last}" if last else ""
        few = "one attempt too few" if wanted - sent == 1 else f"{wanted - sent} attempts too few"
        return f"{few}: {times}{after}, after which the driver did not try again"
    many = "one attempt too many" if sent - wanted == 1 else f"{sent - wanted} attempts too many"
    return f"{many}: {times}"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _is_answer(event: Event, name: str) -> bool:
    ends = ("commandSucceededEvent", "commandFailedEvent")
    return event.kind in ends and event.fields.get("commandName") == name


def _answer(event: Event) -> str:
    """Return how a command ended, in a few words."""
    body = _failure(event)
    labels = ", ".join(sorted(_labels(body)))
    with_labels = f" [{labels}]" if labels else ""
    if event.kind == "commandSucceededEvent":
        code = as_document(body.get("writeConcernError")).get("code")
        return f"ok and write concern error {code}{with_labels}" if code else "ok"
    if "code" in body:
        return f"error {body['code']}{with_labels}"
    return f"{event.fields.get('failure')}"


def _waits(evidence: Evidence) -> Iterator[str]:
    """Measure the waits between attempts (Client Backpressure: Overload retry policy)."""
    for events in evidence.heard.values():
        retries = list(_retries(events))
        overloaded = [retry for retry in retries if {_OVERLOADED, _RETRYABLE} <= _labels(_failure(retry[0]))]
        yield from _back_offs(overloaded, EDITIONS.get(evidence.edition, DEFAULT))
        yield from _needless(evidence, [retry for retry in retries if retry not in overloaded])


def _back_offs(retries: Sequence[tuple[Event, Event]], edition: Edition) -> Iterator[str]:
    policy = Backoff(first_exponent=edition.first_backoff_exponent)
    at_once = 0
    for retry, (failed, started) in enumerate(retries, 1):
        waited = started.at - failed.at
        longest = policy.before(retry, 1.0, base=_advice(failed) if edition.honours_base_backoff else None)
        at_once += waited < longest / 1000
        if waited > longest * _SLACK + _AT_ONCE:
            yield (
                f"retry {retry} began {_ms(waited)} after the overload error before it; the back-off is at"
                f" most {_ms(longest)} there (Client Backpressure, {edition.name})"
            )
    if at_once >= _FEW and at_once == len(retries):
        yield f"{at_once} retries after overload errors came at once: the driver does not back off"


def _needless(evidence: Evidence, retries: Sequence[tuple[Event, Event]]) -> Iterator[str]:
    for failed, started in retries:
        waited = started.at - failed.at
        if waited > 10 * _AT_ONCE and not _selects_servers(evidence, failed, started):
            yield (
                f"{started.fields.get('commandName')} was tried again {_ms(waited)} after an error that is no"
                " overload: such a retry has no back-off (Client Backpressure)"
            )


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _failure(event: Event) -> Mapping[str, Any]:
    """Return what the server answered; empty where no answer came."""
    return as_document(event.fields.get("failure") or event.fields.get("reply"))


def _advice(failed: Event) -> float | None:
    """Return the base of the back-off in seconds that the server advises (`baseBackoffMS`)."""
    advice = _failure(failed).get("baseBackoffMS")
    return advice / 1000 if isinstance(advice, (int, float)) else None


def _retries(events: Sequence[Event]) -> Iterator[tuple[Event, Event]]:
    """Yield each failed command with the next start of a command of the same name."""
    failed: Event | None = None
    for event in events:
        if event.kind == "commandStartedEvent":
            if failed is not None and failed.fields.get("commandName") == event.fields.get("commandName"):
                yield failed, event
            failed = None
        elif event.kind == "commandFailedEvent":
            failed = event


def _selects_servers(evidence: Evidence, failed: Event, started: Event) -> bool:
    """Return whether connections were made meanwhile: then the driver waited for a server."""
    return any(
        event.kind in ("connectionCreatedEvent", "connectionReadyEvent", "poolReadyEvent")
        for events in evidence.heard.values()
        for event in events
        if failed.at <= event.at <= started.at
    )


def _fail_points(evidence: Evidence) -> Iterator[str]:
    """Compare what fail points were to do with what they did."""
    hits = Counter(line.fields.get("name") for line in _server_lines(evidence) if line.kind == "failPointHit")
    if not any(line.side == "server" for line in evidence.timeline.lines):
        return
    for operation in evidence.case.operations:
        fail_point = _fail_point(operation)
        if fail_point is None or hits[fail_point["configureFailPoint"]]:
            continue
        commands = fail_point.get("data", {}).get("failCommands")
        whom = f" for {', '.join(commands)}" if isinstance(commands, list) else ""
        yield (
            f"the fail point {fail_point['configureFailPoint']}{whom} was set and never hit: no such command"
            " came to the server where it is set"
        )
    expected = evidence.outcome.mismatch is None and evidence.outcome.reason.endswith("an error was expected")
    if expected and hits.get("failCommand"):
        yield (
            f"the fail point was hit {_times(hits['failCommand'])} and then used up: the driver retried until"
            " the operation succeeded"
        )


def _server_lines(evidence: Evidence) -> Iterator[Line]:
    return (line for line in evidence.timeline.lines if line.side == "server")


def _fail_point(operation: Operation) -> Mapping[str, Any] | None:
    given = operation.arguments.get("failPoint")
    active = isinstance(given, dict) and "configureFailPoint" in given and given.get("mode") != "off"
    return given if active else None


def _unobserved(evidence: Evidence) -> Iterator[str]:
    """Tell when events are expected that the client entity does not observe at all."""
    for expected in evidence.case.expected_events:
        kinds = {event.kind for event in expected.events}
        observed = next(
            (
                frozenset(entity.body.get("observeEvents", ()))
                for entity in evidence.case.entities
                if entity.id == expected.client
            ),
            None,
        )
        if observed is None or not _diverges(evidence.outcome, expected.client):
            continue
        for kind in sorted(kinds - observed):
            if kind in KINDS[expected.event_type]:
                yield f"{kind} is expected, but {expected.client} does not observe it (observeEvents)"


_FINDERS: Final[Sequence[Callable[[Evidence], Iterator[str]]]] = (
    _unobserved,
    _lost_labels,
    _transaction_numbers,
    _attempts,
    _waits,
    _fail_points,
)

"""Likely causes of a failure, each recognised by the events of clients and servers.

A cause is a sentence that is yielded only when the events prove it: a wrong hint costs a reader more time
than no hint. It names the section of a specification where that decides.

`Evidence` is all that a finder may look at. `causes_of` runs the finders of `_FINDERS` in order, the
likeliest cause first: what servers saw proves more than what clients tell, so attempts and breaches stand at
the top. A cause has a name, and the same one found twice, by events and by the record, is told once. The
first cause gives a failure its name in reports, and its rules.

Waits are in seconds, between instants of one clock: of a driver in another process they have been mapped on
the deployment's (`harness.adapters.child`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from driver.editions import DEFAULT, EDITIONS
from driver.policy.backpressure import Backoff
from harness.explaining.attempt_causes import attempt_causes
from harness.explaining.breaches import breaches
from harness.explaining.seen_case import Cause
from harness.explaining.server_causes import server_side_causes
from harness.explaining.text import as_document, outcome_of
from harness.unified.observation import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from driver.editions import Edition
    from harness.adapters.base import Event
    from harness.explaining.journal import CaseTimeline, TimelineEvent
    from harness.explaining.seen_case import SeenCase
    from harness.unified.model import Case, Operation
    from harness.unified.outcome import CaseOutcome

_OVERLOADED: Final = "SystemOverloadedError"
_RETRYABLE: Final = "RetryableError"
_ANSWERED: Final = ("commandSucceededEvent", "commandFailedEvent")
_SLACK: Final = 1.25
"""How much longer than specified a wait may take before it is called wrong: machines are busy."""

_AT_ONCE: Final = 0.05
"""Seconds between two attempts that count as no wait at all."""

_RECORDED: Final = ("failCommand", "failGetMoreAfterCursorCheckout", "onPrimaryTransactionalWrite")
"""The fail points whose every hit is in the servers' journal."""

_FEW: Final = 3
"""How many back-offs in a row near zero cannot be chance: the jitter is uniform."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The facts in which causes are found; the length of waits depends on `edition`."""

    case: Case
    outcome: CaseOutcome
    heard: Mapping[str, Sequence[Event]]
    timeline: CaseTimeline
    edition: str = DEFAULT.name
    seen: SeenCase | None = None
    """What servers saw, None where they keep no record."""


def causes_of(evidence: Evidence) -> tuple[Cause, ...]:
    """Return the likely causes of a failure, the likeliest first; none when nothing speaks for any.

    What one finder has named, the next ones do not name again.
    """
    found: dict[Cause, None] = {}
    for find in _FINDERS:
        named = {cause.name for cause in found}
        found |= dict.fromkeys(cause for cause in find(evidence) if cause.name not in named)
    return tuple(found or _used_up(evidence))


def _lost_labels(evidence: Evidence) -> Iterator[Cause]:
    """Say of an error with a label too few or too many whether the server or the driver is at fault."""
    mismatch, error = evidence.outcome.mismatch, evidence.outcome.error
    if mismatch is None or error is None:
        return
    label = str(mismatch.expected)
    answers = (event for events in evidence.heard.values() for event in events)
    in_reply = any(label in _labels(_failure(event)) for event in answers)
    is_retryable_write = label == "RetryableWriteError"
    if mismatch.path == "errorLabelsContain" and in_reply:
        yield Cause(
            "a label lost", f"a reply of the server has the label {label}: the driver's error has lost it"
        )
    elif mismatch.path == "errorLabelsContain":
        text = f"no reply of the server has the label {label}: the driver has to add it, and did not"
        yield Cause("a label not added", text, ("RW-26",) if is_retryable_write else ())
    elif mismatch.path == "errorLabelsOmit":
        whose = "the server's reply has it" if in_reply else "no reply has it: the driver added it"
        rules = ("RW-28",) if is_retryable_write and not in_reply else ()
        yield Cause("a label too many", f"the error must not have the label {label}; {whose}", rules)


def _labels(answer: Mapping[str, Any]) -> frozenset[str]:
    """Return the labels of a reply, or of the write concern error inside it."""
    concern = as_document(answer.get("writeConcernError"))
    return frozenset([*answer.get("errorLabels", ()), *concern.get("errorLabels", ())])


def _asked_again(evidence: Evidence) -> Iterator[Cause]:
    """Find a mongos that is asked again by an operation that it failed, where another mongos was there."""
    served = [event for event in evidence.timeline.events if event.side == "server"]
    # Routers only: a set has one primary, to which a write has to go again.
    routers = sorted({event.source for event in served if event.source.startswith("mongos")})
    before: dict[tuple[Any, Any], TimelineEvent] = {}
    for event in evidence.timeline.events:
        if event.side == "test" and event.kind == "operation":
            before.clear()  # the next command is no retry of one before it
        if event.kind != "commandFinished" or event.source not in routers or not event.fields.get("lsid"):
            continue
        key = (event.fields.get("name"), str(event.fields["lsid"]))
        last = before.get(key)
        before[key] = event
        others = ", ".join(each for each in routers if each != event.source)
        if last is not None and last.fields["outcome"] != "ok" and last.source == event.source and others:
            yield Cause(
                "asks the failed server again",
                f"{event.source} was asked again, though it had failed this {key[0]} and {others} was there:"
                " the driver does not deprioritise the server (Server Selection: Deprioritized servers)",
                ("RW-46",) if event.fields.get("txn_number") else (),
            )
            return


def _transaction_numbers(evidence: Evidence) -> Iterator[Cause]:
    mismatch = evidence.outcome.mismatch
    if mismatch is None or not mismatch.path.endswith("command.txnNumber"):
        return
    if mismatch.why == "is missing":
        yield Cause(
            "no transaction number",
            "the command has no txnNumber: the driver did not take this as a retryable write"
            " (retryWrites=false, a multi-document write, an unacknowledged write, no session, a standalone)",
            ("RW-33",),
        )
    elif mismatch.expected == {"$$exists": False}:
        text = "the command has a txnNumber: only retryable writes and transactions may have one"
        yield Cause("a transaction number too many", text, ("RW-16", "RW-18", "RW-21"))
    elif mismatch.expected in _numbers_sent(evidence):
        yield Cause(
            "a new number for each attempt",
            f"the command has txnNumber {mismatch.actual}, an attempt before it had {mismatch.expected}:"
            " every attempt of a write has the number of the first (Retryable Writes: Generating"
            " Transaction IDs)",
            ("RW-51",),
        )


def _numbers_sent(evidence: Evidence) -> frozenset[Any]:
    """Return the transaction numbers that commands carried."""
    events = (event for observed in (evidence.outcome.events or {}).values() for event in observed)
    commands = (as_document(event.fields.get("command")) for event in events)
    return frozenset(command["txnNumber"] for command in commands if "txnNumber" in command)


def _surviving_error(evidence: Evidence) -> Iterator[Cause]:
    """Say which of several errors of an operation the driver raised in place of another."""
    mismatch = evidence.outcome.mismatch
    if mismatch is None or mismatch.path != "errorCode":
        return
    finished = [event for event in evidence.timeline.events if event.kind == "commandFinished"]
    met = [event.fields["outcome"] for event in finished if isinstance(event.fields.get("outcome"), int)]
    if mismatch.expected not in met or mismatch.actual not in met:
        return
    # The first places: an error that was met again later counts where it came up.
    first, last = (met.index(code) for code in (mismatch.expected, mismatch.actual))
    if first < last:
        yield Cause(
            "the newest error raised",
            f"the driver raised the newest error, {mismatch.actual}, which hides {mismatch.expected} of an"
            " attempt before it: an error with NoWritesPerformed leaves the earlier one (Retryable Writes:"
            " Executing)",
            ("RW-61",),
        )
    elif last < first:
        yield Cause(
            "an earlier error raised",
            f"the driver raised {mismatch.actual} of an earlier attempt; the newest error,"
            f" {mismatch.expected}, takes its place unless it has NoWritesPerformed (Retryable Writes:"
            " Executing)",
            ("RW-61",),
        )


def _attempts(evidence: Evidence) -> Iterator[Cause]:
    """Count how often each command was sent, and how often it should have been."""
    for expected in evidence.case.expected_events:
        if expected.event_type != "command" or not _diverges(evidence.outcome, expected.client):
            continue
        bodies = [event.body for event in expected.events if event.kind == "commandStartedEvent"]
        wanted = Counter(filter(None, map(_expected_command, bodies)))
        sent = Counter(
            event.fields.get("commandName", "")
            for event in (evidence.outcome.events or {}).get(expected.client, ())
            if event.kind == "commandStartedEvent"
        )
        for name, count in wanted.items():
            if sent[name] != count and (sent[name] < count or not expected.ignore_extra):
                yield _of_attempts(name, count, sent[name], evidence.heard.get(expected.client, ()))


def _diverges(outcome: CaseOutcome, client: str) -> bool:
    return any(comparison.client == client and comparison.diverges for comparison in outcome.comparisons)


def _expected_command(body: Mapping[str, Any]) -> str:
    return str(body.get("commandName") or next(iter(body.get("command", ())), ""))


def _of_attempts(name: str, wanted: int, sent: int, heard: Sequence[Event]) -> Cause:
    times = f"{name} was sent {_times(sent)}, {_times(wanted)} expected"
    answers = (event for event in reversed(heard) if event.kind in _ANSWERED)
    last = next((_answer(event) for event in answers if event.fields.get("commandName") == name), "")
    if sent < wanted:
        after = f"; the last one ended with {last}" if last else ""
        few = "one attempt too few" if wanted - sent == 1 else f"{wanted - sent} attempts too few"
        return Cause("too few attempts", f"{few}: {times}{after}, after which the driver did not try again")
    many = "one attempt too many" if sent - wanted == 1 else f"{sent - wanted} attempts too many"
    return Cause("too many attempts", f"{many}: {times}")


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _answer(event: Event) -> str:
    """Return the result of a command in a few words."""
    body = _failure(event)
    labels = ", ".join(sorted(_labels(body)))
    with_labels = f" [{labels}]" if labels else ""
    if event.kind == "commandSucceededEvent":
        outcome = outcome_of(event.kind, event.fields)
        return f"{outcome}{with_labels}" if outcome != "ok" else "ok"
    if "code" in body:
        return f"error {body['code']}{with_labels}"
    return f"{event.fields.get('failure')}"


def _waits(evidence: Evidence) -> Iterator[Cause]:
    """Measure the waits between attempts (Client Backpressure: Overload retry policy)."""
    for events in evidence.heard.values():
        retries = list(_retries(events))
        overloaded = [retry for retry in retries if {_OVERLOADED, _RETRYABLE} <= _labels(_failure(retry[0]))]
        yield from _back_offs(overloaded, EDITIONS.get(evidence.edition, DEFAULT))
        # Without overload none waits, but for a server, which new connections would show.
        for failed, started in (retry for retry in retries if retry not in overloaded):
            waited = started.at - failed.at
            if waited > 10 * _AT_ONCE and not _connects_between(evidence, failed.at, started.at):
                yield Cause(
                    "backoff without overload",
                    f"{started.fields.get('commandName')} was tried again {_ms(waited)} after an error that"
                    " is no overload: such a retry has no back-off (Client Backpressure)",
                    ("CB-12",),
                )


def _back_offs(retries: Sequence[tuple[Event, Event]], edition: Edition) -> Iterator[Cause]:
    policy = Backoff(first_exponent=edition.first_backoff_exponent)
    at_once = 0
    for retry, (failed, started) in enumerate(retries, 1):
        waited = started.at - failed.at
        advice = _failure(failed).get("baseBackoffMS") if edition.honours_base_backoff else None
        base = advice / 1000 if isinstance(advice, (int, float)) else None
        longest = policy.before(retry, 1.0, base=base)
        # A thousandth of the bound, which uniform jitter falls below once in a thousand retries.
        at_once += waited < longest / 1000
        if waited > longest * _SLACK + _AT_ONCE:
            yield Cause(
                "backoff too long",
                f"retry {retry} began {_ms(waited)} after the overload error before it; the back-off is at"
                f" most {_ms(longest)} there (Client Backpressure, {edition.name})",
                ("CB-2",),
            )
    if at_once >= _FEW and at_once == len(retries):
        text = f"{at_once} retries after overload errors came at once: the driver does not back off"
        yield Cause("no backoff", text, ("CB-2",))


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _failure(event: Event) -> Mapping[str, Any]:
    """Return the server's reply; empty where none came."""
    return as_document(event.fields.get("failure") or event.fields.get("reply"))


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


def _connects_between(evidence: Evidence, start: float, end: float) -> bool:
    return any(
        event.kind in ("connectionCreatedEvent", "connectionReadyEvent", "poolReadyEvent")
        for events in evidence.heard.values()
        for event in events
        if start <= event.at <= end
    )


def _fail_points(evidence: Evidence) -> Iterator[Cause]:
    """Compare the fail points that were set with their hits in the servers' journal, where there is one."""
    served = [event for event in evidence.timeline.events if event.side == "server"]
    hits = Counter(event.fields.get("name") for event in served if event.kind == "failPointHit")
    # Servers by URI keep no journal, and no hit of a fail point can be missed there.
    if not served:
        return
    refused = list(_refused_fail_points(evidence.timeline))
    for operation in evidence.case.operations:
        if operation.location == evidence.outcome.location:
            break  # the case ended here: nothing was set, by this operation or by a later one
        fail_point = _fail_point(operation)
        if fail_point is None or fail_point in refused or hits[fail_point["configureFailPoint"]]:
            continue
        if fail_point["configureFailPoint"] not in _RECORDED:
            continue
        commands = fail_point.get("data", {}).get("failCommands")
        whom = f" for {', '.join(commands)}" if isinstance(commands, list) else ""
        yield Cause(
            "fail point never hit",
            f"the fail point {fail_point['configureFailPoint']}{whom} was set and never hit: no such command"
            " came to the server where it is set",
        )


def _used_up(evidence: Evidence) -> Iterator[Cause]:
    """Say of an operation that was to fail that the driver tried until it succeeded."""
    expected = evidence.outcome.mismatch is None and evidence.outcome.reason.endswith("an error was expected")
    kinds = (
        event for event in evidence.timeline.events if event.side == "server" and event.kind == "failPointHit"
    )
    hits = sum(event.fields.get("name") == "failCommand" for event in kinds)
    if expected and hits:
        yield Cause(
            "retries until it succeeds",
            f"the fail point was hit {_times(hits)} and then used up: the driver retried until"
            " the operation succeeded",
        )


def _refused_fail_points(timeline: CaseTimeline) -> Iterator[Mapping[str, Any]]:
    """Yield the fail points that could not be set: the operation failed, and the scenario went on."""
    begun: dict[str, Mapping[str, Any]] = {}
    for event in timeline.events:
        name = str(event.fields.get("name"))
        if event.side == "test" and event.kind == "operation":
            begun[name] = event.fields.get("arguments", {})
        elif event.side == "test" and "failed" in event.fields and "failPoint" in begun.get(name, {}):
            yield begun[name]["failPoint"]


def _fail_point(operation: Operation) -> Mapping[str, Any] | None:
    fail_point = operation.arguments.get("failPoint")
    if (
        isinstance(fail_point, dict)
        and "configureFailPoint" in fail_point
        and fail_point.get("mode") != "off"
    ):
        return fail_point
    return None


def _unobserved(evidence: Evidence) -> Iterator[Cause]:
    """Find expected events that the client entity does not observe at all."""
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
                text = f"{kind} is expected, but {expected.client} does not observe it (observeEvents)"
                yield Cause("an event that is not observed", text)


def _attempts_seen(evidence: Evidence) -> Iterator[Cause]:
    """Find causes in what servers saw, where that is judged."""
    yield from attempt_causes(evidence.outcome)


def _breaches(evidence: Evidence) -> Iterator[Cause]:
    """Find the rules that what servers saw contradicts, whatever the scenario expects."""
    if evidence.seen is not None:
        yield from breaches(evidence.seen)


_FINDERS: Final[Sequence[Callable[[Evidence], Iterator[Cause]]]] = (
    _attempts_seen,
    _breaches,
    _unobserved,
    _lost_labels,
    _surviving_error,
    _asked_again,
    _transaction_numbers,
    _attempts,
    _waits,
    _fail_points,
    server_side_causes,
)

"""Oracles of waits: the time between attempts, and that of whole operations.

Client Backpressure (backoff, jitter), Client Side Operations Timeout, Convenient API for Transactions. Bounds
come from `rules`, tolerances of the clock from `Timing.tolerated`. A gap is a range (`attempt`), and a wait
is called too long only by its shorter end and too short only by its longer one.

Three things look like waits and are none: looking for a new primary after an error that changes the state of
a server (`CHANGES_STATE`), failing to get a connection (`is_disturbed`), and another operation's request in
between (`is_alone`). Jitter is random, so its oracles state how often they would refuse a driver that is
right: in at most one of a million cases.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from harness.adapters.deployment import Topology
from harness.unified.server_side.attempts import in_ms, milliseconds
from harness.unified.server_side.jitter import least_total, why_factors_are_not
from harness.unified.server_side.model import Range
from harness.unified.server_side.oracles.permits import CHANGES_STATE, is_network_error
from harness.unified.server_side.oracles.pool_life import CHECK_OUT_FAILED, CHECK_OUT_STARTED, CHECKED_IN
from harness.unified.server_side.oracles.trace import ENDS, by_client, is_committed_again
from harness.unified.server_side.rules import LATE, LATER, overload_backoff
from mongowire.codes import Label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.unified.server_side.attempt import JudgedAttempt
    from harness.unified.server_side.oracles.trace import SentCommand, Trace, TracedOperation


def backoff_within_bounds(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Overload retry policy, rule 3."""
    for operation, command, retry, before, attempt in _retries(trace):
        if not before.is_overloaded or attempt.gap is None or operation.is_disturbed:
            continue
        # After these the client looks for a primary first, for as long as an election takes.
        if (before.request.reply or {}).get("code") in CHANGES_STATE:
            continue
        most = overload_backoff(trace.edition, retry, before.request.reply or {})
        allowed = trace.timing.tolerated(Range(0, most))
        # No lower bound but 0: a jitter of next to nothing is allowed once (`some-wait` adds them up).
        if attempt.gap.least > allowed.most and operation.is_alone:
            yield (
                f"{operation} sent {command.name} again {milliseconds(attempt.gap.least)} after an overload"
                f" error; the backoff before retry {retry} is {in_ms(Range(0, most))}"
            )
        dice = operation.client.jitter
        if dice is not None and operation.is_alone:
            # A commit that withTransaction repeats counts its retries anew, and looks like a retry itself.
            first = 1 if is_committed_again(operation, command) else retry
            bounds = (
                overload_backoff(trace.edition, number, before.request.reply or {})
                for number in range(first, retry + 1)
            )
            if not any(
                _overlap(attempt.gap, trace.timing.tolerated(Range(dice * each, dice * each)))
                for each in bounds
            ):
                yield (
                    f"{operation} sent {command.name} again {milliseconds(attempt.gap.most)} after an"
                    f" overload error; with a jitter of {dice:g} the backoff before retry {retry} is"
                    f" {milliseconds(dice * most)}"
                )


def _overlap(one: Range, other: Range) -> bool:
    return one.least <= other.most and other.least <= one.most


def no_wait_without_overload(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Interaction with Other Retry Policies (a backoff after overload alone)."""
    for operation, command, _retry, before, attempt in _retries(trace):
        reply = before.request.reply
        if before.is_overloaded or attempt.gap is None or reply is None or not operation.is_alone:
            continue
        if operation.is_disturbed or reply.get("code") in CHANGES_STATE or is_network_error(before):
            continue
        if any(error.get("code") in CHANGES_STATE for error in [reply.get("writeConcernError") or {}]):
            continue
        if trace.topology is Topology.REPLICA_SET and before.request.server != attempt.request.server:
            continue  # it may have waited for the new primary
        exact = trace.timing.round_trip is not None
        if attempt.gap.least > (trace.timing.tolerated(Range(0, 0)).most if exact else _AT_ONCE):
            yield (
                f"{operation} waited {milliseconds(attempt.gap.least)}"
                f" before it sent {command.name} again after {before.met}"
            )


_AT_ONCE: Final = 0.15
"""Seconds on the wall clock in which a retry at once has come: a driver may load code for its first one."""


def jitter_is_uniform(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Overload retry policy, rule 3 (jitter is a random number between 0 and 1)."""
    if trace.timing.is_disturbed or any(client.jitter is not None for client in trace.clients):
        return
    factors: dict[int, list[float]] = {}
    for operation, command, retry, before, attempt in _retries(trace):
        gap = attempt.gap
        if is_committed_again(operation, command):
            continue
        # Exact gaps alone: a range would be counted at one of its ends, which bends the distribution.
        if before.is_overloaded and gap is not None and gap.least == gap.most and not operation.is_timed:
            bound = overload_backoff(trace.edition, retry, before.request.reply or {})
            factors.setdefault(retry, []).append(gap.least / bound)
    every = [factor for of_retry in factors.values() for factor in of_retry]
    for what, sample in (
        ("all retries", every),
        *((f"retry {number}", each) for number, each in factors.items()),
    ):
        why = why_factors_are_not(sample, errors=_ERRORS) if len(sample) >= LEAST else None
        if why is not None:
            yield f"before {what}, {why}"


LEAST: Final = 60
"""How many backoffs a sample must have: of 60 uniform ones all miss a given quarter in 3 of 10⁸ cases."""

_ERRORS: Final = 5.5
"""Standard errors by which a mean may miss the middle: uniform ones miss by more in 4 of 10⁸ cases."""


def backoffs_are_not_all_next_to_nothing(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Overload retry policy, rule 3 (a driver waits, whatever its jitter is)."""
    waits: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for operation, command, retry, before, attempt in _retries(trace):
        if not before.is_overloaded or attempt.gap is None or is_committed_again(operation, command):
            continue
        if operation.client.jitter is None and operation.is_alone and not operation.is_timed:
            bound = overload_backoff(trace.edition, retry, before.request.reply or {})
            waits[operation.client.name, f"retries of {command.name}"].append((attempt.gap.most, bound))
    for operation, wait, retry in _waits_for_connections(trace):
        waits[operation.client.name, "further connections"].append(
            (wait, overload_backoff(trace.edition, retry, {}))
        )
    for (client, what), each in waits.items():
        took, least = sum(wait for wait, _ in each), least_total([bound for _, bound in each])
        if took < least:
            yield (
                f"{client} waited {milliseconds(took)} before {len(each)} {what} together;"
                f" uniform jitter gives less than {milliseconds(least)} in one of a million cases"
            )


def _waits_for_connections(trace: Trace) -> Iterator[tuple[TracedOperation, float, int]]:
    """Yield how long operations waited after each handshake that broke, by their events, and its number.

    An operation whose check-outs may have failed for something else is left out.
    """
    for operation in trace.operations:
        client = operation.client
        if client.jitter is not None or operation.is_timed or not operation.is_alone:
            continue
        told = list(client.during(operation, CHECK_OUT_STARTED, CHECK_OUT_FAILED))
        broken = sum(
            life.seen.app_name == client.app_name
            and operation.began < life.seen.accepted_seq < operation.ended
            and [request.end for request in life.seen.requests] == ["server"]
            for life in trace.connections
        )
        # Each failed check-out must be explained by a handshake that a server broke.
        if broken != sum(event.kind == CHECK_OUT_FAILED for event in told):
            continue
        pairs = [pair for pair in pairwise(told) if pair[0].kind == CHECK_OUT_FAILED]
        yield from (
            (operation, after.at - before.at, retry) for retry, (before, after) in enumerate(pairs, 1)
        )


def no_connection_is_kept_during_a_backoff(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Overload retry policy (a wait holds no connection)."""
    returned = {client.name: [event.seq for event in client.of_kind(CHECKED_IN)] for client in trace.clients}
    for operation, command, _retry, before, attempt in _retries(trace):
        if command.in_transaction or command.name in (*ENDS, "getMore", "killCursors"):
            continue
        if (
            not before.is_overloaded
            or attempt.gap is None
            or attempt.gap.least < LATE
            or not operation.is_alone
        ):
            continue
        # A transaction of an explicit session keeps its connection behind a load balancer.
        if operation.step.operation.arguments.get("session"):
            continue
        following = returned[operation.client.name]
        # A check-in after the failed attempt and before the next one: the connection was given back in
        # between.
        following = following[bisect_right(following, before.request.seq) :]
        if not following or following[0] > attempt.request.seq:
            yield f"{operation} kept its connection while it waited {milliseconds(attempt.gap.least)}"


def deadlines_are_kept(trace: Trace) -> Iterator[str]:
    """Client Side Operations Timeout: timeoutMS; Client Backpressure: a backoff that would end too late.

    The last thing sent is judged too: a request after the deadline is a breach, whatever the operation
    returned.
    """
    for operation in trace.operations:
        step = operation.step
        limit = operation.timeout_ms
        if not limit or step.ended is None or operation.name not in _TIMED:
            continue
        took = step.ended - step.began
        # In virtual time a few round trips; on the wall clock as for gaps, with four times the constant part.
        late = 0.01 if trace.timing.round_trip is not None else LATE * 4 + limit / 1000 * (LATER - 1)
        if took > limit / 1000 + late and not trace.timing.is_disturbed:
            yield f"{operation} took {milliseconds(took)}, its timeoutMS is {limit}"
        for command in operation.commands:
            for attempt in command.attempts:
                if attempt.request.at - step.began > limit / 1000 + late:
                    yield f"{operation} sent {command.name} after its deadline"
    yield from _waits_for_nothing(trace)


def _waits_for_nothing(trace: Trace) -> Iterator[str]:
    """Yield operations that ended at their deadline, long after an overload error that nothing followed."""
    if trace.timing.round_trip is None:
        return
    for operation in trace.operations:
        step = operation.step
        if step.ended is None or operation.name not in _TIMED or not operation.commands:
            continue
        code = (operation.commands[-1].last.request.reply or {}).get("code")
        if operation.is_disturbed or not operation.is_timed or code in CHANGES_STATE:
            continue
        last = operation.commands[-1].last
        if _was_too_late_to_ask(operation, trace.timing.round_trip):
            continue
        idle = step.ended - last.request.ended - trace.timing.round_trip
        if last.is_overloaded and idle > _IDLE:
            yield (
                f"{operation} ended {milliseconds(idle)} after its"
                f" last overload error, though it sent nothing more"
            )


# Seconds that a client may take after a reply to give up: more than rounding, far less than a backoff.
_IDLE: Final = 0.005


def _was_too_late_to_ask(operation: TracedOperation, round_trip: float) -> bool:
    """Return whether a backoff ended in time, and what was left of timeoutMS was shorter than the way.

    Client Side Operations Timeout: Command Execution (a command is not sent then).
    """
    step, limit = operation.step, operation.timeout_ms
    if not limit or step.ended is None:
        return False
    return 0 < step.began + limit / 1000 - step.ended < round_trip


def what_is_given_up_ends_at_once(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Overload retry policy, rules 2 and 3 (a wait is for a retry that may be made)."""
    if trace.timing.round_trip is None or trace.timing.is_disturbed:
        return
    for operation in trace.operations:
        step = operation.step
        if step.ended is None or not operation.commands or not operation.is_alone or operation.is_disturbed:
            continue
        last = operation.commands[-1].last
        if not last.is_overloaded or CHANGES_STATE & {*last.ends}:
            continue
        if _was_too_late_to_ask(operation, trace.timing.round_trip):
            continue
        idle = step.ended - last.request.ended - trace.timing.round_trip
        limit = operation.client.options.get("serverSelectionTimeoutMS", 30_000) / 1000
        # Longer than that, it may have looked for a server until serverSelectionTimeoutMS, which is no wait
        # before a retry.
        if _IDLE < idle < limit * _ALMOST:
            yield (
                f"{operation} ended {milliseconds(idle)} after its"
                f" last overload error, though it sent nothing more"
            )


_ALMOST: Final = 0.95
"""The part of serverSelectionTimeoutMS after which an operation may have found no server for its retry."""

_TIMED: Final = frozenset(
    {
        "find",
        "findOne",
        "insertOne",
        "insertMany",
        "updateOne",
        "updateMany",
        "deleteOne",
        "deleteMany",
        "bulkWrite",
    }
    | {"findOneAndUpdate", "aggregate", "countDocuments", "distinct", "runCommand"}
)


def transactions_begin_anew_for_two_minutes(trace: Trace) -> Iterator[str]:
    """Transactions, Convenient API: Sequence of Actions."""
    for operation in trace.operations:
        step, error = operation.step, operation.step.error
        if operation.name != "withTransaction" or operation.is_timed or step.ended is None:
            continue
        transient = error is not None and Label.TRANSIENT_TRANSACTION in error.report.labels
        # The wait that would have come next is taken off: one that ends beyond the limit is not begun.
        if transient and step.ended - step.began < _TWO_MINUTES - _LONGEST_WAIT:
            yield f"{operation} gave up after {step.ended - step.began:.1f} s, though it may begin anew"
        begun = [each.first.at for each in operation.commands if each.first.command.get("startTransaction")]
        late = max(begun, default=step.began) - step.began
        if late > _TWO_MINUTES + LATE:
            yield f"{operation} began anew after {late:.1f} s"


_TWO_MINUTES: Final = 120.0
_LONGEST_WAIT: Final = 0.6
"""Seconds: a wait that would end too late is not begun."""


def waits_differ(trace: Trace) -> Iterator[str]:
    """Client Backpressure: Overload retry policy, rule 3 (each backoff has a jitter of its own)."""
    for client in by_client(trace.operations):
        factors = [
            round(attempt.gap.least / overload_backoff(trace.edition, retry, before.request.reply or {}), 6)
            for operation, _command, retry, before, attempt in _retries(trace)
            if operation.client.name == client and before.is_overloaded and attempt.gap is not None
            if operation.client.jitter is None and not operation.is_disturbed
        ]
        exact = trace.timing.round_trip is not None
        if exact and len(factors) >= _FEW and len(set(factors)) == 1 and 0 < factors[0] < 1:
            yield f"{len(factors)} backoffs are {factors[0]:.3f} of their bounds, each of them"


_FEW: Final = 4


def _retries(
    trace: Trace,
) -> Iterator[tuple[TracedOperation, SentCommand, int, JudgedAttempt, JudgedAttempt]]:
    """Yield each retry with its operation, its command, its number, and the attempt before it."""
    for operation, command in trace.commands():
        for retry, (before, attempt) in enumerate(pairwise(command.attempts), 1):
            yield operation, command, retry, before, attempt

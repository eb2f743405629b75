"""Rules that what servers saw contradicts, whatever the scenario expects: what a driver may never do.

Each is a cause that is yielded only when the record proves it; of what chance may do, only what a driver that
keeps the rule does in fewer than one of 1,000 cases.

`causes` asks these finders for each case that failed and whose servers keep a record. They stand apart from
expectations, so they also speak of what a scenario does not ask, such as the backoff in a test of
transactions. Only operations that no other one overlaps are in a `SeenCase`: with two at a time, a retry
could be the other one's request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.explaining.seen_case import Cause
from harness.explaining.server_causes import stale_connection
from harness.unified.server_side.attempt import DISCONNECT
from harness.unified.server_side.attempts import milliseconds
from harness.unified.server_side.model import CountRule
from harness.unified.server_side.rules import attempts_expected, overload_backoff
from mongowire.codes import Category, Label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from harness.explaining.seen_case import SeenCase, SeenStep
    from harness.unified.server_side.attempt import JudgedAttempt
    from harness.unified.server_side.connection_judge import ConnectionLife

_CHANCE: Final = 0.001
"""The probability below which waits that are all so short are no chance: jitter is uniform."""

_NOTICED_SECONDS: Final = 0.05
"""How long after a connection broke its driver knows of it, on a busy machine."""

_READS: Final = frozenset(
    {"find", "aggregate", "count", "distinct", "listCollections", "listDatabases", "listIndexes"}
)
_WRITES: Final = frozenset({"insert", "update", "delete", "findAndModify", "bulkWrite"})
_OF_ATTEMPT: Final = frozenset({"txnNumber", "$clusterTime", "lsid", "maxTimeMS", "recoveryToken"})
"""Fields that may differ between two attempts of one command."""


def breaches(seen: SeenCase) -> Iterator[Cause]:
    """Yield what the driver did that a rule forbids, each kind once."""
    for find in _FINDERS:
        found = next(find(seen), None)
        if found is not None:
            yield found


def _no_backoff(seen: SeenCase) -> Iterator[Cause]:
    waits = []
    for step in seen.steps:
        # The jitter that a scenario sets may take waits away.
        if step.client.body.get("pushbackd", {}).get("jitter") not in (None, 1):
            continue
        for before, after in _retries(step):
            bound = overload_backoff(seen.edition, after.retry, before.request.reply or {})
            if _is_overload(before) and after.gap is not None and bound:
                waits.append((max(after.gap.most, 0.0), bound))
    # Jitter is uniform: the chance that so many waits are all at most this part of their bounds is that part
    # to the power of their number.
    longest = max((wait / bound for wait, bound in waits), default=1.0)
    if min(longest, 1.0) ** len(waits) >= _CHANCE:
        return
    wait, bound = max(waits)
    retries = "the only retry" if len(waits) == 1 else f"all {len(waits)} retries"
    yield Cause(
        "no backoff",
        f"{retries} after overload came at once, {milliseconds(wait)} after the error at the"
        f" latest, where the wait may be up to {milliseconds(bound)}: the driver does not back off",
        ("CB-2",),
    )


def _too_many(seen: SeenCase) -> Iterator[Cause]:
    for step in seen.steps:
        allowed = _allowed(seen, step)
        for before, after in _retries(step):
            if _is_overload(before) and after.retry > allowed:
                yield Cause(
                    "too many retries after overload",
                    f"{after.request.name} was sent again after overload as retry {after.retry}; there are"
                    f" at most {allowed} in edition {seen.edition.name}",
                    ("CB-13",),
                )


def _allowed(seen: SeenCase, step: SeenStep) -> int:
    return int(attempts_expected(CountRule(), seen.edition, step.options).least)


def _not_retryable(seen: SeenCase) -> Iterator[Cause]:
    """Find retries of errors that do not allow any: overload without RetryableError, or any other code."""
    for step in seen.steps:
        for before, after in _retries(step):
            reply, name = before.request.reply, after.request.name
            if reply is None or reply.get("ok"):
                continue
            # A write concern error within an `ok` reply is not looked at: it has labels of its own.
            code = reply.get("code")
            if before.labels == {Label.SYSTEM_OVERLOADED} and code in Category.SYSTEM_OVERLOADED.value:
                yield Cause(
                    "retries overload without RetryableError",
                    f"{name} was sent again after {before.met}, which has no label RetryableError",
                    ("CB-29",),
                )
            elif not before.labels and code not in Category.RETRIABLE.value and name in _WRITES:
                yield Cause(
                    "retries what is not retryable",
                    f"{name} was sent again after {before.met}, which has no label that allows it",
                    ("RW-42",),
                )


def _switched_off(seen: SeenCase) -> Iterator[Cause]:
    for step in seen.steps:
        # Its command may look like a read or a write, and is neither to the driver: one option alone does not
        # decide about it.
        if step.step.operation.name == "runCommand":
            continue
        for before, after in _retries(step):
            name = after.request.name
            stages = after.request.command.get("pipeline") or [{}]
            writes = name in _WRITES or bool({"$out", "$merge"} & set(stages[-1]))
            option = "retryWrites" if writes else "retryReads" if name in _READS else ""
            if step.options.get(option) is False and "autocommit" not in after.request.command:
                yield Cause(
                    "retries though switched off",
                    f"{name} was sent again after {before.met}, though the client has {option}=false",
                    ("CB-32",) if _is_overload(before) else ("RW-60",) if option == "retryWrites" else (),
                )


def _new_number(seen: SeenCase) -> Iterator[Cause]:
    for step in seen.steps:
        for before, after in _retries(step):
            one, other = (each.request.command.get("txnNumber") for each in (before, after))
            if one is not None and other is not None and one != other:
                yield Cause(
                    "a new number for each attempt",
                    f"{after.request.name} was sent again with txnNumber {other} after {one}: the server"
                    " takes it for another write (Retryable Writes)",
                    ("RW-51",),
                )


def _gives_up(seen: SeenCase) -> Iterator[Cause]:
    """Find operations that failed with an error after which the driver should have tried again."""
    for step in seen.steps:
        last, options = step.attempts[-1], step.options
        # Options with which giving up at once is right.
        off = {"retryReads": False, "retryWrites": False, "adaptiveRetries": True, "maxAdaptiveRetries": 0}
        switched = any(options.get(name) == value for name, value in off.items())
        if step.step.error is None or switched or step.has_limit:
            continue
        is_sent = last.request.name in _READS | _WRITES and "autocommit" not in last.request.command
        if not is_sent or step.step.error.report.is_timeout_error:
            continue
        if _is_overload(last) and last.retry < _allowed(seen, step):
            yield Cause(
                "gives up after overload",
                f"{last.request.name} failed with {last.met} after {last.retry} retries, though its labels"
                f" allow {_allowed(seen, step)} in edition {seen.edition.name}",
                ("CB-36",),
            )
        elif last.retry == 0 and "txnNumber" in last.request.command and last.ends == (DISCONNECT,):
            yield Cause(
                "a lost write is not sent again",
                f"{last.request.name} has a transaction number, lost its connection and was not sent again",
                ("RW-24", "RW-26"),
            )


def _stale(seen: SeenCase) -> Iterator[Cause]:
    """Find a connection that an operation used, which began after another one of the pool had broken."""
    for broken in seen.connections:
        ends = [request.ended for request in broken.seen.requests[1:] if request.end == "server"]
        # A pool behind a balancer may have services, of which a broken connection says nothing.
        if not ends or broken.is_monitoring or broken.hello.get("loadBalanced"):
            continue
        known = ends[0] + _NOTICED_SECONDS
        # The connections on which operations that began later sent their first commands.
        anew = {step.attempts[0].request.connection for step in seen.steps if step.step.began > known}
        for other in seen.connections:
            is_older = _pool(other) == _pool(broken) and other.seen.accepted < ends[0]
            if other is not broken and is_older and other.seen.number in anew:
                yield stale_connection(other, broken)


def _pool(connection: ConnectionLife) -> tuple[str | None, str]:
    return connection.seen.app_name, connection.seen.server


def _retries(step: SeenStep) -> Iterator[tuple[JudgedAttempt, JudgedAttempt]]:
    """Yield each retry with the attempt before it: the same command once more, after an error."""
    for before, after in zip(step.attempts, step.attempts[1:], strict=False):
        reply = before.request.reply or {}
        has_failed = not reply.get("ok") or "writeConcernError" in reply
        if after.retry and has_failed and _body(before) == _body(after):
            yield before, after


def _is_overload(attempt: JudgedAttempt) -> bool:
    """Return whether the command, and not a write concern within its reply, failed for retryable overload."""
    return attempt.is_overloaded and not (attempt.request.reply or {}).get("ok")


def _body(attempt: JudgedAttempt) -> Mapping[str, Any]:
    return {key: value for key, value in attempt.request.command.items() if key not in _OF_ATTEMPT}


_FINDERS: Final[Sequence[Callable[[SeenCase], Iterator[Cause]]]] = (
    _new_number,
    _switched_off,
    _not_retryable,
    _too_many,
    _no_backoff,
    _gives_up,
    _stale,
)

"""Likely causes of attempts that are other than expected (`expectAttempts`), by what servers saw.

As everywhere among causes, a sentence is yielded only when the record proves it.

A finder gets the first divergence of a comparison and looks at its `path`, the part of the expectation that
differs. Several may speak of one divergence. The order of `_FINDERS` is that of their likelihood, since the
first cause stands for the failure in totals and groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.explaining.seen_case import Cause
from harness.explaining.text import times
from harness.unified.matching.matcher import missing
from harness.unified.server_side.attempts import milliseconds, value_at
from harness.unified.server_side.comparison import AttemptComparison
from harness.unified.server_side.jitter import jitter_factors
from harness.unified.server_side.model import CountRule
from harness.unified.server_side.rules import EXACT, MAX_BACKOFF, attempts_expected, overload_backoff

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.unified.outcome import CaseOutcome
    from harness.unified.server_side.attempt import JudgedAttempt
    from harness.unified.server_side.attempts import Divergence

_NONE: Final = 0.02
"""The part of a backoff's bound below which it is no wait."""

_FEW: Final = 3
"""How many backoffs in a row near nothing, or at their bound, cannot be chance: jitter is uniform."""

_FULL: Final = 0.98

_BACKOFF: Final = ("CB-2",)


def attempt_causes(outcome: CaseOutcome) -> Iterator[Cause]:
    """Yield likely causes of the attempts that differ, the likeliest first."""
    for comparison in outcome.comparisons:
        if isinstance(comparison, AttemptComparison) and comparison.divergence is not None:
            for find in _FINDERS:
                yield from find(comparison, comparison.divergence)


def _nothing_selected(comparison: AttemptComparison, divergence: Divergence) -> Iterator[Cause]:
    if divergence.mismatch.path != "operations" or comparison.operations:
        return
    if not comparison.sent:
        yield Cause("not sent", f"no client sent {comparison.commands} at all")
        return
    # Commands were sent, and none of them was chosen: one of the element's conditions does not hold for any.
    expected = comparison.expected
    chosen = {"namespace": expected.namespace, "appName": expected.app_name, "session": expected.session}
    names = ", ".join(name for name, value in chosen.items() if value is not None) or "comment"
    yield Cause(
        "sent otherwise",
        f"{comparison.commands} was sent {times(comparison.sent)}, but never as {names} of the element asks,"
        " or only outside of the operations of the scenario",
    )


def _number(comparison: AttemptComparison, divergence: Divergence) -> Iterator[Cause]:
    """Say of a wrong number of attempts after overload where the driver stopped."""
    if divergence.mismatch.path not in ("count", "attempts"):
        return
    attempts = _attempts(comparison, divergence)
    facts, last = comparison.facts, attempts[-1]
    options = facts.uri_options(last.request.app_name)
    allowed = int(attempts_expected(CountRule(), facts.edition, options).least)
    made = len(attempts) - 1
    rule = f"{allowed} in edition {facts.edition.name} (Client Backpressure: Overload retry policy)"
    if last.is_overloaded and made < allowed:
        yield Cause(
            "gives up after overload",
            f"the driver gave up after {_retries(made)}, though the last attempt met an overload error that"
            f" may be retried; it has {rule}",
            ("CB-36",),
        )
    elif made > allowed and any(attempt.is_overloaded for attempt in attempts):
        yield Cause(
            "too many retries after overload",
            f"the driver made {_retries(made)} after overload; it has {rule}",
            ("CB-13",),
        )


def _backoff(comparison: AttemptComparison, divergence: Divergence) -> Iterator[Cause]:
    """Say what is wrong with the waits, by all waits that were seen."""
    if divergence.mismatch.path not in ("gap", "jitter"):
        return
    edition = comparison.facts.edition
    pairs = [pair for each in comparison.operations for pair in jitter_factors(each.attempts, edition)]
    factors = [factor for _, factor in pairs]
    rule = f"(Client Backpressure: Overload retry policy, {edition.name})"
    if len(factors) >= _FEW and max(factors) < _NONE:
        text = f"{len(factors)} retries after overload came at once: the driver does not back off {rule}"
        yield Cause("no backoff", text, _BACKOFF)
    # A wait may be late and is never early: what is a little above the bound is measured, not chosen.
    elif len(factors) >= _FEW and min(factors) > _FULL and max(factors) < 1 / _FULL:
        text = f"all {len(factors)} backoffs are as long as they may be: the driver uses no jitter {rule}"
        yield Cause("no jitter", text, _BACKOFF)
    elif len(factors) >= _FEW and max(factors) <= 0.5:  # noqa: PLR2004 - half: one power of two
        text = f"no backoff is longer than half of its bound: the exponent is one too low {rule}"
        yield Cause("backoff too short", text, _BACKOFF)
    # Without the maximum, only waits grow too long whose bound is the maximum already.
    longer = {overload_backoff(edition, retry, {}) for retry, factor in pairs if factor > 1 / _FULL}
    if longer == {MAX_BACKOFF}:
        text = f"a backoff is longer than {MAX_BACKOFF:g} s: the driver has no maximum {rule}"
        yield Cause("backoff without a maximum", text, _BACKOFF)
    elif longer and max(factors) <= 2:  # noqa: PLR2004 - twice: one power of two
        most = f"up to {max(factors):.2f} of their bound"
        yield Cause(
            "backoff too long", f"backoffs are {most}: the exponent may be one too high {rule}", _BACKOFF
        )


def _needless(comparison: AttemptComparison, divergence: Divergence) -> Iterator[Cause]:
    """Say of a wait that the error before it was no overload."""
    if divergence.mismatch.path != "gap" or divergence.attempt is None:
        return
    attempts = _attempts(comparison, divergence)
    attempt, before = attempts[divergence.attempt], attempts[divergence.attempt - 1]
    if attempt.gap is None or attempt.gap.least <= EXACT:
        return
    if not before.is_overloaded and before.ends != ("ok",) and attempt.retry:
        yield Cause(
            "backoff without overload",
            f"the driver waited {milliseconds(attempt.gap.least)} after {before.met}, which is no overload:"
            " such a retry has no backoff (Client Backpressure), unless the driver had to find a server"
            " first",
            ("CB-12",),
        )


def _identity(comparison: AttemptComparison, divergence: Divergence) -> Iterator[Cause]:
    """Say what follows from another session or number."""
    if divergence.mismatch.path != "same" or divergence.attempt is None:
        return
    attempts = _attempts(comparison, divergence)
    first, here = attempts[0].request.command, attempts[divergence.attempt].request.command
    for path, cause in _IDENTITY.items():
        one, other = value_at(first, path), value_at(here, path)
        if one is not missing and one != other:
            yield cause


_IDENTITY: Final = {
    "txnNumber": Cause(
        "a new number for each attempt",
        "the retry has another txnNumber: to the server it is a new write, and may be applied twice"
        " (Retryable Writes: Generating Transaction IDs)",
        ("RW-51",),
    ),
    "lsid": Cause(
        "another session for the retry",
        "the retry is in another session: to the server it has nothing to do with the attempt before",
        ("RW-51",),
    ),
}


def _server(comparison: AttemptComparison, divergence: Divergence) -> Iterator[Cause]:
    if divergence.mismatch.path != "on" or divergence.attempt is None:
        return
    attempt = _attempts(comparison, divergence)[divergence.attempt]
    if attempt.request.server in attempt.overloaded:
        others = ", ".join(sorted(comparison.facts.servers - attempt.overloaded))
        if others:
            yield Cause(
                "asks the failed server again",
                f"{attempt.request.server} had told this operation of its overload, {others} had not: the"
                " driver does not deprioritise overloaded servers (Overload retry policy)",
                ("CB-3",),
            )


def _attempts(comparison: AttemptComparison, divergence: Divergence) -> Sequence[JudgedAttempt]:
    assert divergence.operation is not None
    return comparison.operations[divergence.operation].attempts


def _retries(number: int) -> str:
    return f"{number} {'retry' if number == 1 else 'retries'}"


_FINDERS: Final[Sequence[Callable[[AttemptComparison, Divergence], Iterator[Cause]]]] = (
    _nothing_selected,
    _number,
    _backoff,
    _needless,
    _identity,
    _server,
)

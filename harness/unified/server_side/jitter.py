"""Tests of a driver's jitter: whether the backoffs that servers saw are uniform, with a stated error rate.

Each backoff is divided by its bound, so that what is judged lies between 0 and 1 whatever the retry. The test
is made once for all overload backoffs of a case, and once for those before each retry that are enough. For n
independent uniform numbers, n at least 40:

- the mean is more than 4 standard errors from 0.5 with a probability below 6.4e-5;
- the least is 0.25 or more, or the greatest 0.75 or less, with one of 0.75^40, 1.1e-5 each;
- none lies between these two with one of 0.5^40, 1e-12.

So one test refuses a driver whose jitter is uniform in less than 1 of 10,000 cases. One whose backoffs are
all equal (no jitter at all, or one factor for all) is refused always, one with another mean once n shows
it.

The first waits between transactions are as short as a round trip. Therefore all of them are added up: their
sum is more than 4 standard errors from half of the sum of their bounds with a probability below 6.4e-5.
"""

from __future__ import annotations

from itertools import pairwise
from math import exp, lgamma, log, sqrt
from typing import TYPE_CHECKING, Final

from harness.unified.server_side.rules import overload_backoff, transaction_backoff

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from harness.unified.server_side.attempt import JudgedAttempt
    from harness.unified.server_side.rules import JudgedEdition


def why_not_uniform(operations: Sequence[Sequence[JudgedAttempt]], edition: JudgedEdition) -> str | None:
    """Return what speaks against a uniform jitter of the attempts of some operations, None for nothing."""
    waits = [pair for attempts in operations for pair in _transaction_waits(attempts, edition)]
    factors = [pair for attempts in operations for pair in jitter_factors(attempts, edition)]
    why = why_not_in_total(waits) if waits else None
    # An element about withTransaction alone has waits and no backoffs; one with neither is told that 40 are
    # needed.
    if why is None and (factors or not waits):
        why = why_factors_are_not([factor for _, factor in factors]) or _why_not_of_one_retry(factors)
    return why


def jitter_factors(attempts: Iterable[JudgedAttempt], edition: JudgedEdition) -> Iterator[tuple[int, float]]:
    """Yield each overload backoff of an operation: the number of the retry, and its part of the bound."""
    for before, attempt in pairwise(attempts):
        if before.is_overloaded and attempt.retry and attempt.gap is not None:
            bound = overload_backoff(edition, attempt.retry, before.request.reply or {})
            # The shorter end of the gap: what connecting took is no part of the wait.
            yield attempt.retry, attempt.gap.least / bound


def _transaction_waits(
    attempts: Iterable[JudgedAttempt], edition: JudgedEdition
) -> Iterator[tuple[float, float]]:
    """Yield the waits of withTransaction before it begins anew, each with its bound, in seconds."""
    for before, attempt in pairwise(attempts):
        if attempt.transaction > before.transaction and attempt.gap is not None:
            yield attempt.gap.least, transaction_backoff(edition, attempt.transaction)


def why_not_in_total(waits: Sequence[tuple[float, float]]) -> str | None:
    """Return what speaks against waits whose parts of their bounds are uniform, None for nothing."""
    bounds = sum(bound for _, bound in waits)
    # As many waits with one bound would have a mean that is as sure.
    enough = bounds**2 / sum(bound**2 for _, bound in waits)
    if enough < _LEAST_IN_TOTAL:
        return f"{len(waits)} waits between transactions count as {enough:.1f}, {_LEAST_IN_TOTAL} are needed"
    part = sum(wait for wait, _ in waits) / bounds
    tolerance = _STANDARD_ERRORS * _STANDARD_DEVIATION / sqrt(enough)
    if abs(part - 0.5) > tolerance:
        return f"{len(waits)} waits are {part:.3f} of their bounds, uniform jitter has 0.5 ± {tolerance:.3f}"
    return None


_LEAST_IN_TOTAL: Final = 8
"""Waits of one bound for whose sum the normal distribution is not too narrow."""


def least_total(bounds: Sequence[float]) -> float:
    """Return what the sum of uniform waits stays below in at most one of a million cases, in seconds.

    Of the box that waits from 0 to their bounds fill, those whose sum is less than x are in a corner, whose
    volume is x^n / n! at most.

    Computed by logarithms: the factorial and the powers leave the range of a float long before the result
    does.
    """
    corner = log(1e-6) + lgamma(len(bounds) + 1) + sum(map(log, bounds))
    return exp(corner / len(bounds))


def _why_not_of_one_retry(factors: Sequence[tuple[int, float]]) -> str | None:
    """Return what speaks against the jitter before one of the retries, where enough of these were seen."""
    for retry in sorted({retry for retry, _ in factors}):
        of_retry = [factor for number, factor in factors if number == retry]
        why = why_factors_are_not(of_retry) if len(of_retry) >= LEAST_BACKOFFS else None
        if why is not None:
            return f"before retry {retry}, {why}"
    return None


LEAST_BACKOFFS: Final = 40
_STANDARD_DEVIATION: Final = 1 / sqrt(12)
_STANDARD_ERRORS: Final = 4
_LOW, _HIGH = 0.25, 0.75
_EQUAL: Final = 1e-9


def why_factors_are_not(factors: Sequence[float], *, errors: float = _STANDARD_ERRORS) -> str | None:
    """Return what speaks against jitter factors that are uniform between 0 and 1, None for nothing.

    `errors` is by how many standard errors their mean may miss the middle.
    """
    if len(factors) < LEAST_BACKOFFS:
        return f"{len(factors)} overload backoffs are too few to judge jitter, {LEAST_BACKOFFS} are needed"
    least, greatest, mean = max(min(factors), 0.0), max(factors), sum(factors) / len(factors)
    # Before the quarters, which a constant misses too: it is told as what it is.
    if greatest - least < _EQUAL:
        return f"all {len(factors)} backoffs are {least:.2f} of their bound: there is no jitter"
    if least >= _LOW:
        return f"no backoff is shorter than {least:.2f} of its bound"
    if greatest <= _HIGH:
        return f"no backoff is longer than {greatest:.2f} of its bound"
    if not any(_LOW < factor < _HIGH for factor in factors):
        return f"none of {len(factors)} backoffs is between {_LOW} and {_HIGH} of its bound"
    tolerance = errors * _STANDARD_DEVIATION / sqrt(len(factors))
    if abs(mean - 0.5) > tolerance:
        return f"the mean is {mean:.3f} of the bound, uniform jitter has 0.5 ± {tolerance:.3f}"
    return None

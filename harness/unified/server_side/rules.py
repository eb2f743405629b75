"""Rules of the specifications' editions about attempts: their number, and the length of the gaps.

The numbers stand here once more, apart from the reference driver's: a judge that asked the driver for its
rules would find every driver right.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Final

from harness.unified.server_side.model import (
    FULL_OVERLOAD_BACKOFF,
    NO_GAP,
    OVERLOAD_BACKOFF,
    CountRule,
    GapRule,
    Range,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.unified.server_side.model import ExpectedCount, ExpectedGap


@dataclass(frozen=True, slots=True)
class JudgedEdition:
    """The numbers of Client Backpressure on a day, as far as servers see them.

    `first_exponent` is the power of two before the first retry, `first_transaction_exponent` the power of 1.5
    before the first retry of withTransaction. `backpressure` is the value in the handshake.
    """

    name: str
    overload_retries: int
    retries_configurable: bool
    first_exponent: int
    honours_base_backoff: bool
    first_transaction_exponent: int
    backpressure: bool | str


EDITIONS: Final = {
    edition.name: edition
    for edition in (
        # Rule 3: attempt - 1 is the exponent, so the first retry waits for the base at most.
        JudgedEdition(
            name="2026-02-20",
            overload_retries=5,
            retries_configurable=False,
            first_exponent=0,
            honours_base_backoff=False,
            first_transaction_exponent=0,
            backpressure=True,
        ),
        # Waits double before the first retry already, a server may propose the base, and clients may set the
        # number.
        JudgedEdition(
            name="2026-07-08",
            overload_retries=2,
            retries_configurable=True,
            first_exponent=1,
            honours_base_backoff=True,
            first_transaction_exponent=1,
            backpressure="2",
        ),
    )
}

BASE_BACKOFF: Final = 0.1
MAX_BACKOFF: Final = 10.0
TRANSACTION_BACKOFF_BASE: Final = 0.005
TRANSACTION_BACKOFF_MAX: Final = 0.5
TRANSACTION_BACKOFF_GROWTH: Final = 1.5
"""Seconds, and the growth from one retry of a transaction to the next."""

_MAX_EXPONENT: Final = 64
"""No backoff is still growing there, and a float holds the power."""

EXACT: Final = 1e-6
"""Seconds by which instants of a virtual clock may differ by rounding."""

LATER: Final = 1.25
"""How many times longer than the rule a gap may be on the wall clock: machines are busy."""

LATE: Final = 0.05
"""Seconds that a gap may be longer on top."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The exactness with which gaps can be judged.

    `round_trip` is the seconds that a reply and the next request travel, None on the wall clock. Where
    messages are delayed on purpose (`is_disturbed`), a gap has no upper bound.
    """

    round_trip: float | None = None
    is_disturbed: bool = False

    def tolerated(self, gap: Range) -> Range:
        """Return a range with what the clock adds to it."""
        # No wait may be shorter for that, since a delay only ever adds.
        if self.is_disturbed:
            return Range(gap.least - EXACT, inf)
        if self.round_trip is not None:
            return Range(gap.least - EXACT, gap.most + EXACT)
        # Machines are late and never early: the lower bound is exact on the wall clock too.
        return Range(gap.least - EXACT, gap.most * LATER + LATE)


def attempts_expected(count: ExpectedCount, edition: JudgedEdition, uri_options: Mapping[str, Any]) -> Range:
    """Return how many attempts there may be. Client Backpressure: Overload retry policy, rule 2.

    `uri_options` are those of the client, whose `maxAdaptiveRetries` counts where the edition has it.
    """
    if not isinstance(count, CountRule):
        return count
    retries = edition.overload_retries
    # Elsewhere the option does not exist, and a client that has it set is not to follow it.
    if edition.retries_configurable:
        retries = uri_options.get("maxAdaptiveRetries", retries)
    return Range(retries + count.more, retries + count.more)


def gap_expected(
    gap: ExpectedGap, edition: JudgedEdition, *, retry: int, transaction: int, reply: Mapping[str, Any]
) -> Range:
    """Return the seconds that may be between an attempt and the one before it.

    `retry` is its number as it was seen, the first being 1, and `transaction` that of the transaction which
    withTransaction retries; a rule with a number of its own has that. `reply` is what the attempt before met.
    Client Backpressure: Overload retry policy, rule 3; Convenient API for Transactions: Sequence of Actions.
    """
    if not isinstance(gap, GapRule):
        return gap
    if gap.name == NO_GAP:
        return Range(0, 0)
    if gap.name in (OVERLOAD_BACKOFF, FULL_OVERLOAD_BACKOFF):
        most = overload_backoff(edition, retry if gap.retry is None else gap.retry, reply)
        return Range(most if gap.name == FULL_OVERLOAD_BACKOFF else 0, most)
    number = transaction if gap.retry is None else gap.retry
    return Range(0, transaction_backoff(edition, number))


def overload_backoff(edition: JudgedEdition, retry: int, reply: Mapping[str, Any]) -> float:
    """Return the longest backoff before a retry, in seconds; `reply` may have a `baseBackoffMS`.

    An attempt that is no retry has the number 0, and nothing to wait for.
    """
    if retry == 0:
        return 0.0
    advice = reply.get("baseBackoffMS") if edition.honours_base_backoff else None
    base = advice / 1000 if isinstance(advice, (int, float)) else None
    # A proposal of 0 or less is none: a client that followed it would not wait at all.
    base = base if base is not None and base > 0 else BASE_BACKOFF
    exponent = min(retry - 1 + edition.first_exponent, _MAX_EXPONENT)
    return min(MAX_BACKOFF, base * 2.0**exponent)


def transaction_backoff(edition: JudgedEdition, retry: int) -> float:
    """Return the longest backoff before a retry of a transaction, in seconds; 0 before what is none."""
    if retry == 0:
        return 0.0
    exponent = min(retry - 1 + edition.first_transaction_exponent, _MAX_EXPONENT)
    return min(TRANSACTION_BACKOFF_MAX, TRANSACTION_BACKOFF_BASE * TRANSACTION_BACKOFF_GROWTH**exponent)

"""Whether a failed command may be sent again, where, and when.

One policy joins Retryable Reads, Retryable Writes and Client Backpressure. It decides; the shell waits.

    failure ──> retryable? ──no──> GiveUp
                   │yes
                   v
            retries left? ──no──> GiveUp        1 without timeoutMS, unlimited with it,
                   │yes                         max_adaptive_retries once an overload was seen
                   v
            overloaded? ──no──> RetryAt(now)
                   │yes
                   v
            backoff fits before the deadline? ──no──> GiveUp
                   │yes
                   v
            RetryAt(now + backoff, cost=1)      the caller pays one token of its budget
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from driver.policy.backoff import Backoff
from driver.policy.token_bucket import RETRY_TOKEN_RETURN_RATE
from mongowire.codes import Label

if TYPE_CHECKING:
    from driver.editions import Edition
    from driver.errors import DriverError


@dataclass(frozen=True, slots=True)
class Failure:
    """What the policy has to know of an error; `server` is where it came from.

    `sharded` failures always avoid the same server on the next attempt.
    """

    overloaded: bool = False
    retryable: bool = False
    server: str | None = None
    sharded: bool = False
    base_backoff: float | None = None


@dataclass(frozen=True, slots=True)
class RetryState:
    """How far an operation has come: the number of the attempt, starting with 0, and its limits."""

    attempt: int = 0
    allowed: float = 1
    overload_seen: bool = False
    deprioritized: tuple[str, ...] = ()

    @classmethod
    def initial(cls, *, timed: bool) -> RetryState:
        """Return the state before the first attempt: one retry, with timeoutMS as many as fit."""
        return cls(allowed=inf if timed else 1)


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Send again at the instant `when`, if `cost` tokens can be consumed."""

    when: float
    state: RetryState
    backoff: float = 0.0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Raise the error; `reason` is for the log. `late` says that there was no time for another attempt."""

    reason: str
    late: bool = False


Decision: TypeAlias = RetryAt | GiveUp


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The rules of one client, all values."""

    max_adaptive_retries: int = 5
    retargets_on_overload: bool = True
    honours_base_backoff: bool = False
    backoff: Backoff = field(default_factory=Backoff)

    @classmethod
    def of(cls, edition: Edition, *, retries: int | None = None, retargeting: bool = False) -> RetryPolicy:
        """Return the policy of an edition; its options count only where it has them. Obeys CB-30."""
        configured = retries if edition.retries_configurable and retries is not None else None
        return cls(
            max_adaptive_retries=edition.max_adaptive_retries if configured is None else configured,
            retargets_on_overload=edition.always_retargets or retargeting,
            honours_base_backoff=edition.honours_base_backoff,
            backoff=Backoff(first_exponent=edition.first_backoff_exponent),
        )

    def decide(
        self, state: RetryState, failure: Failure, *, now: float, deadline: float, jitter: float
    ) -> Decision:
        """Return what to do about the failure of attempt `state.attempt`. Obeys CB-12."""
        if not failure.retryable:
            return GiveUp("the error is not retryable")
        following = self._following(state, failure)
        if following.attempt > following.allowed:
            return GiveUp(f"{state.attempt} retries have been made")
        if not failure.overloaded:
            late = GiveUp("the deadline has passed", late=True)
            return RetryAt(now, following) if now < deadline else late
        return self._after_backoff(following, failure, now, deadline, jitter)

    def _following(self, state: RetryState, failure: Failure) -> RetryState:
        """Return the next attempt's state; MAX_RETRIES after an overload. Obeys CB-13, CB-28, CB-36."""
        overload_seen = state.overload_seen or failure.overloaded
        return replace(
            state,
            attempt=state.attempt + 1,
            allowed=self.max_adaptive_retries if overload_seen else state.allowed,
            overload_seen=overload_seen,
            deprioritized=self._deprioritized(state, failure),
        )

    def _deprioritized(self, state: RetryState, failure: Failure) -> tuple[str, ...]:
        avoids = failure.sharded or (failure.overloaded and self.retargets_on_overload)
        if not avoids or failure.server is None or failure.server in state.deprioritized:
            return state.deprioritized
        return (*state.deprioritized, failure.server)

    def _after_backoff(
        self, following: RetryState, failure: Failure, now: float, deadline: float, jitter: float
    ) -> Decision:
        """Wait, if there is time for it, and pay. Obeys CB-11, CB-31, CB-35, CB-39."""
        base = failure.base_backoff if self.honours_base_backoff else None
        backoff = self.backoff.before(following.attempt, jitter, base=base)
        if now + backoff > deadline:
            return GiveUp("the backoff ends after the deadline", late=True)
        return RetryAt(now + backoff, following, backoff=backoff, cost=1.0)


def deposit_of_success(state: RetryState) -> float:
    """Return the tokens that a successful attempt earns (Adaptive retry policy, rules 1 and 2).

    Obeys CB-8, CB-9.
    """
    return RETRY_TOKEN_RETURN_RATE + (1 if state.attempt > 0 else 0)


def deposit_of_failure(state: RetryState, failure: Failure) -> float:
    """Return the tokens that a failed attempt earns (Adaptive retry policy, rule 3).

    A retry that failed for another reason than overload shows a server healthy enough to answer.

    Obeys CB-10.
    """
    return 1.0 if state.attempt > 0 and not failure.overloaded else 0.0


def worse(previous: DriverError | None, current: DriverError) -> DriverError:
    """Return which of two errors the caller should see (Retryable Writes: Executing).

    The newer one, unless it would hide that a write may have been applied: an error that lets the caller
    infer no attempt, or one labelled NoWritesPerformed, leaves the earlier error standing. If all are
    labelled so, the first stands.

    Obeys CB-6, RW-61, RW-62.
    """
    if previous is None:
        return current
    if not current.attempted or current.has_label(Label.NO_WRITES_PERFORMED):
        return previous
    return current

"""The retry policy: whether a failed command may be sent again, where, and when.

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

**Two kinds of failure.** A lost connection or a primary that stepped down is over by the time that a new
server is selected, so that retry follows at once, and one is enough. An overloaded server did not begin the
command: trying again is always safe, for commands of every kind, and is likely to meet the same overload.
Hence more retries, with waits that grow, at random instants so that refused clients do not come back
together, and with tokens, so that the retries of many clients do not keep the server overloaded.

**One count.** Attempts are counted whatever they are retried for. The first overload sets the limit for all
retries of the operation, and nothing lifts it again: also with timeoutMS, which otherwise retries for as long
as there is time, and would make an overload a storm of retries.

**Nothing is remembered here.** `RetryState` is a value; the caller keeps the newest one per operation. What
outlives an operation is the token bucket (`policy.backpressure`), which the caller asks after the decision:
an operation that has given up pays nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

from driver.policy.backpressure import RETRY_TOKEN_RETURN_RATE, Backoff
from mongowire.codes import Label

if TYPE_CHECKING:
    from driver.editions import Edition
    from driver.errors import DriverError


@dataclass(frozen=True, slots=True)
class Failure:
    """What the policy has to know of an error."""

    overloaded: bool = False
    """Whether it has the label SystemOverloadedError."""
    retryable: bool = False
    """Whether any of the three policies allows a retry after it."""
    server: str | None = None
    """The address that it came from, None before a server was selected."""
    sharded: bool = False
    """Whether the deployment is sharded: then the next attempt avoids that server after any error."""
    base_backoff: float | None = None
    """The server's `baseBackoffMS`, in seconds."""


@dataclass(frozen=True, slots=True)
class RetryState:
    """How far an operation has come."""

    attempt: int = 0
    """The number of the attempt under way; the first one has 0, so that it is the number of retries too."""
    allowed: float = 1
    """The most retries of this operation; infinite with timeoutMS, until an overload is met."""
    overload_seen: bool = False
    """Whether an overload error has ended any attempt, which fixes `allowed`."""
    deprioritized: tuple[str, ...] = ()
    """Servers that the next selection avoids unless there is no other."""

    @staticmethod
    def initial(*, timed: bool) -> RetryState:
        """Return the state before the first attempt: one retry, with timeoutMS as many as fit."""
        return TIMED if timed else UNTIMED


UNTIMED: Final = RetryState()
TIMED: Final = RetryState(allowed=inf)


@dataclass(frozen=True, slots=True)
class RetryAt:
    """Send again at the instant `when`, after `backoff` seconds, if `cost` tokens can be consumed."""

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
        """Return the policy of an edition; its options count only where it has them."""
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
        """Return what to do about the failure of attempt `state.attempt`."""
        if not failure.retryable:
            return GiveUp("the error is not retryable")
        following = self._following(state, failure)
        if following.attempt > following.allowed:
            return GiveUp(f"{state.attempt} retries have been made")
        if not failure.overloaded:
            # At once: server selection waits for a primary if there is none yet.
            late = GiveUp("the deadline has passed", late=True)
            return RetryAt(now, following) if now < deadline else late
        base = failure.base_backoff if self.honours_base_backoff else None
        backoff = self.backoff.before(following.attempt, jitter, base=base)
        # A wait that cannot end in a retry would only keep the caller from its error.
        if now + backoff > deadline:
            return GiveUp("the backoff ends after the deadline", late=True)
        return RetryAt(now + backoff, following, backoff=backoff, cost=1.0)

    def _following(self, state: RetryState, failure: Failure) -> RetryState:
        """Return the next attempt's state; MAX_RETRIES after an overload."""
        overload_seen = state.overload_seen or failure.overloaded
        # A mongos that failed is avoided after any error, as another one serves as well. In a replica set
        # only overload is a reason: a primary that stepped down is found out by discovery.
        avoids = failure.sharded or (failure.overloaded and self.retargets_on_overload)
        deprioritized = state.deprioritized
        if avoids and failure.server is not None and failure.server not in deprioritized:
            deprioritized = (*deprioritized, failure.server)
        return RetryState(
            attempt=state.attempt + 1,
            allowed=self.max_adaptive_retries if overload_seen else state.allowed,
            overload_seen=overload_seen,
            deprioritized=deprioritized,
        )


def deposit_of_success(state: RetryState) -> float:
    """Return the tokens that a successful attempt earns (Adaptive retry policy, rules 1 and 2)."""
    # A retry that succeeds gives back the token that it cost.
    return RETRY_TOKEN_RETURN_RATE + (1 if state.attempt > 0 else 0)


def deposit_of_failure(state: RetryState, failure: Failure) -> float:
    """Return the tokens that a failed attempt earns (Adaptive retry policy, rule 3).

    A retry that failed for another reason than overload shows a server healthy enough to answer.
    """
    return 1.0 if state.attempt > 0 and not failure.overloaded else 0.0


def worse(previous: DriverError | None, current: DriverError) -> DriverError:
    """Return which of two errors the caller should see (Retryable Writes: Executing).

    The newer one, unless it would hide that a write may have been applied: an error that lets the caller
    infer no attempt, or one labelled NoWritesPerformed, leaves the earlier error standing. If all are
    labelled so, the first stands.
    """
    if previous is None:
        return current
    # Such an error would have the caller believe that nothing was written, by this attempt or the one before.
    if not current.attempted or current.has_label(Label.NO_WRITES_PERFORMED):
        return previous
    return current

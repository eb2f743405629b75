"""Strategies of the virtual tier after a failure: the driver's own policy objects.

One client's random numbers are, draw by draw, those that its row in the columns would roll. They hang on
seed, client and number of the draw alone, so a client that is a coroutine, or a thread with a real driver,
waits the same gaps as the one in the model.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from driver.editions import EDITIONS
from driver.policy.retry import (
    Decision,
    Failure,
    GiveUp,
    RetryAt,
    RetryPolicy,
    RetryState,
    deposit_of_failure,
    deposit_of_success,
)
from harness.sim.fleet import columns as c
from harness.sim.fleet.dice import exponential, normal, uniform
from harness.sim.fleet.strategies import Backpressure, Exponential, Fixed, NoRetry

if TYPE_CHECKING:
    from driver.policy.backpressure import NoBudget, TokenBucket
    from harness.sim.fleet.strategies import Strategy


class ClientDice:
    """The dice of a client, by its number."""

    def __init__(self, seed: int, client: int) -> None:
        self._seed = seed
        self._client = client
        self._draws = 0

    def gap(self) -> float:
        """Return an exponential variate of mean 1, for the wait before an operation."""
        return exponential(self._seed, self._client, c.DRAW_GAP, self._next())

    def start(self) -> float:
        """Return a number above 0 and at most 1, for the wait before a first operation."""
        return uniform(self._seed, self._client, c.DRAW_GAP, self._next())

    def normal(self) -> float:
        """Return a standard normal variate, for the wait before a retry."""
        return normal(self._seed, self._client, c.DRAW_RETRY, self._next())

    def jitter(self) -> float:
        """Return a number above 0 and at most 1, for the wait before a retry."""
        return uniform(self._seed, self._client, c.DRAW_RETRY, self._next())

    def _next(self) -> int:
        self._draws += 1
        return self._draws


class Following(Protocol):
    """A client's strategy, followed through its operations."""

    def begin(self, gap: float | None) -> None:
        """Begin an operation; `gap` are the seconds that the client waited for it."""

    def succeed(self) -> None:
        """End it well."""

    def fail(self, *, overloaded: bool) -> float | None:
        """Return the seconds before the next attempt, None where there is none."""


class FollowingWaits:
    """The strategies of an application: none, a fixed interval, exponential backoff."""

    def __init__(self, strategy: NoRetry | Fixed | Exponential, dice: ClientDice) -> None:
        self._strategy = strategy
        self._dice = dice
        self._last: float | None = None

    def begin(self, gap: float | None) -> None:
        own = self._strategy
        self._last = gap if isinstance(own, Exponential) and own.from_gap else None

    def succeed(self) -> None:
        """Owe nobody anything."""

    def fail(self, *, overloaded: bool) -> float | None:  # noqa: ARG002 - applications make no difference
        own = self._strategy
        if isinstance(own, NoRetry):
            return None
        if isinstance(own, Fixed):
            return own.interval
        if self._last is None:
            self._last = own.minimum
        else:
            wait = min(self._last * own.factor, own.maximum)
            self._last = wait + self._dice.normal() * (own.jitter * (wait if own.relative else 1.0))
        return self._last


class FollowingBackpressure:
    """The reference driver's policy and its budget, which clients may share."""

    def __init__(
        self, strategy: Backpressure, dice: ClientDice, budget: TokenBucket | NoBudget, told: float | None
    ) -> None:
        policy, own = RetryPolicy.of(EDITIONS[strategy.edition]), strategy
        self._policy = replace(
            policy,
            max_adaptive_retries=policy.max_adaptive_retries if own.retries is None else own.retries,
            honours_base_backoff=(
                policy.honours_base_backoff
                if own.honours_server_backoff is None
                else own.honours_server_backoff
            ),
        )
        self._jitters = strategy.jitter
        self._dice = dice
        self._budget = budget
        self._told = told
        self._state = RetryState.initial(timed=False)

    def begin(self, gap: float | None) -> None:  # noqa: ARG002 - a driver does not look back
        self._state = RetryState.initial(timed=False)

    def succeed(self) -> None:
        self._budget.deposit(deposit_of_success(self._state))

    def fail(self, *, overloaded: bool) -> float | None:
        failure = Failure(overloaded, retryable=True, base_backoff=self._told)
        self._budget.deposit(deposit_of_failure(self._state, failure))

        decision = self._decide(failure, jitter=1.0)
        if isinstance(decision, RetryAt) and overloaded and self._jitters:
            # Asked twice, as dice are rolled for a wait that there is, and only then.
            decision = self._decide(failure, jitter=self._dice.jitter())
        if isinstance(decision, GiveUp) or not self._budget.consume(decision.cost):
            return None
        self._state = decision.state
        return decision.backoff

    def _decide(self, failure: Failure, *, jitter: float) -> Decision:
        return self._policy.decide(self._state, failure, now=0.0, deadline=math.inf, jitter=jitter)


def has_budget(strategy: Strategy) -> bool:
    """Return whether retries of a strategy are paid for."""
    if not isinstance(strategy, Backpressure):
        return False
    edition = EDITIONS[strategy.edition]
    return edition.has_token_bucket if strategy.token_bucket is None else strategy.token_bucket

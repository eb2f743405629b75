"""The strategies of a fleet's clients: what each does about an error, and the columns that say so.

A strategy is a class of `Strategy` here; its rule is in `retries`, which is compiled. The tests
have a twin of it, made of the driver's own objects.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias

from driver.editions import EDITIONS
from driver.policy.retry import RetryPolicy
from harness.sim.fleet import columns as c


def positive(owner: object, *names: str) -> None:
    """Raise `ValueError` for a field that is not a number above 0."""
    for name in names:
        value = getattr(owner, name)
        if not 0 < value < math.inf:
            raise ValueError(f"{type(owner).__name__}.{name} is {value}: it must be above 0")


def not_negative(owner: object, *names: str) -> None:
    """Raise `ValueError` for a field below 0."""
    for name in names:
        value = getattr(owner, name)
        if not 0 <= value < math.inf:
            raise ValueError(f"{type(owner).__name__}.{name} is {value}: it must be 0 or more")


def at_least(owner: object, least: int, *names: str) -> None:
    """Raise `ValueError` for a field below `least`."""
    for name in names:
        value = getattr(owner, name)
        if value < least:
            raise ValueError(f"{type(owner).__name__}.{name} is {value}: it must be {least} or more")


NO_RETRY: Final = 0
FIXED: Final = 1
EXPONENTIAL: Final = 2
BACKPRESSURE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRetry:
    """An operation is one attempt."""

    kind: ClassVar[int] = NO_RETRY

    def fill(self, numbers: list[int], reals: list[float]) -> None:
        """Put what it says into the columns of a strategy: nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """After each error wait `interval` seconds and ask again, for ever."""

    kind: ClassVar[int] = FIXED

    interval: float = 0.1

    def __post_init__(self) -> None:
        positive(self, "interval")

    def fill(self, _numbers: list[int], reals: list[float]) -> None:
        """Put what it says into the columns of a strategy."""
        reals[c.INTERVAL] = self.interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """Wait, ask again, and wait `factor` times longer after the next error, for ever.

    The waits are `minimum`, then `min(last · factor, maximum)` plus a normal variate whose standard deviation
    is `jitter` times that wait (`relative`), or `jitter` seconds. With `from_gap` the first "last" wait is
    the gap that came before the operation, and `minimum` is not used.
    """

    kind: ClassVar[int] = EXPONENTIAL

    minimum: float = 0.1
    factor: float = 2.7
    maximum: float = 300.0
    jitter: float = 0.1
    relative: bool = True
    from_gap: bool = False

    def __post_init__(self) -> None:
        positive(self, "minimum", "factor", "maximum")
        not_negative(self, "jitter")

    def fill(self, numbers: list[int], reals: list[float]) -> None:
        """Put what it says into the columns of a strategy."""
        numbers[c.FLAGS] = int(self.from_gap) + 2 * int(self.relative)
        reals[c.INTERVAL] = self.minimum
        reals[c.FACTOR] = self.factor
        reals[c.MAXIMUM] = self.maximum
        reals[c.JITTER] = self.jitter


@dataclass(frozen=True, slots=True, kw_only=True)
class Backpressure:
    """The duties of a driver by an edition of Client Backpressure, by the rules of `driver.policy`.

    `token_bucket` None means as the edition says. Clients share a bucket as threads share a driver's client:
    `sharing` of them, by number. `retries`, `honours_server_backoff` and `retargeting` None mean as the
    edition says, too; others than it allows may be set, to see what they would do. Without `jitter` every
    wait is the longest that it could be.
    """

    kind: ClassVar[int] = BACKPRESSURE

    edition: Literal["2026-02-20", "2026-07-08"] = "2026-02-20"
    token_bucket: bool | None = None
    retries: int | None = None
    jitter: bool = True
    retargeting: bool | None = None
    honours_server_backoff: bool | None = None
    sharing: int = 100

    def __post_init__(self) -> None:
        if self.edition not in EDITIONS:
            known = " or ".join(EDITIONS)
            raise ValueError(f"Backpressure.edition is {self.edition!r}: it must be {known}")
        if self.retries is not None:
            at_least(self, 0, "retries")
        at_least(self, 1, "sharing")

    def fill(self, numbers: list[int], reals: list[float]) -> None:
        """Put what it says into the columns of a strategy."""
        edition = EDITIONS[self.edition]
        policy = RetryPolicy.of(edition)
        retargets, honours = self.retargeting, self.honours_server_backoff
        has_bucket = edition.has_token_bucket if self.token_bucket is None else self.token_bucket
        honours = policy.honours_base_backoff if honours is None else honours
        numbers[c.MOST_RETRIES] = policy.max_adaptive_retries if self.retries is None else self.retries
        numbers[c.HAS_BUCKET] = int(has_bucket)
        numbers[c.SHARING] = self.sharing
        numbers[c.RETARGETS] = int(policy.retargets_on_overload if retargets is None else retargets)
        exponent = policy.backoff.first_exponent
        numbers[c.FLAGS] = int(self.jitter) + 2 * int(honours) + 4 * exponent
        reals[c.INTERVAL] = policy.backoff.base
        reals[c.MAXIMUM] = policy.backoff.maximum


Strategy: TypeAlias = NoRetry | Fixed | Exponential | Backpressure


def columns_of(strategy: Strategy) -> tuple[list[int], list[float]]:
    """Return the numbers and the reals of a strategy, without its share and its buckets."""
    numbers, reals = [0] * c.STRATEGY, [0.0] * c.STRATEGY
    numbers[c.KIND] = strategy.kind
    strategy.fill(numbers, reals)
    return numbers, reals

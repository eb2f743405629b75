"""The numbers of the article's simulation: its clients, its server and its scenario, with its defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_SECONDS: Final = 3600.0


class Strategy(StrEnum):
    """The behaviour of a client after a failure: the article's two strategies, then ours to compare with.

    The values are the names on the command line, in tables and in files.
    """

    FIXED = "fixed"
    EXPONENTIAL = "exponential"
    NO_RETRY = "no-retry"
    BACKPRESSURE_FEBRUARY = "backpressure-2026-02-20"
    BACKPRESSURE_FEBRUARY_BUCKET = "backpressure-2026-02-20-bucket"
    BACKPRESSURE_JULY = "backpressure-2026-07-08"
    TOLD_BACKOFF = "told-backoff"
    LIMITED_FIXED = "fixed-limited"


ARTICLE_STRATEGIES: Final = (Strategy.FIXED, Strategy.EXPONENTIAL)


@dataclass(frozen=True, kw_only=True)
class ArticleParameters:
    """The article's parameters, with the values of its text and its program; times are seconds.

    Clients: each waits a gap from an exponential distribution of mean `mean_gap`, asks, and gives up after
    `timeout`. After an error or a timeout it asks again: `simple_delay` later with the fixed interval; with
    exponential backoff after `minimum_delay` the first time, then after `factor` times the last delay, at
    most `maximum_delay`, plus a normal variate of standard deviation `jitter` times that delay.
    `as_the_program` has the two places in which the article's program differs from its text: `factor` is
    applied to the gap before the first attempt, too, so that the first retry does not come after
    `minimum_delay`; and the standard deviation is `jitter` seconds, whatever the delay.

    Server: a request takes `base_delay` while at most `limit` are there at a time, and beyond that
    `base_delay · growth^((concurrency - limit) / k)`, computed anew every `recompute` seconds.

    Scenario: `steady` seconds with a server that runs, `stopped` seconds with one that does not, `resumed`
    seconds with one that runs again. `seed` is that of all random numbers.

    Raises `ValueError` that names the field, its value and its bounds.
    """

    clients: int = 1000
    mean_gap: float = 10.0
    timeout: float = 2.0
    simple_delay: float = 0.1
    minimum_delay: float = 0.1
    factor: float = 2.7
    maximum_delay: float = 300.0
    jitter: float = 0.1
    as_the_program: bool = False
    base_delay: float = 0.1
    limit: int = 30
    growth: float = 1.05
    k: float = 15.0
    recompute: float = 0.05
    steady: float = 30.0
    stopped: float = 20.0
    resumed: float = 60.0
    seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _TIMES and not 0 < value <= LONGEST_SECONDS:
                raise ValueError(
                    f"{field.name} is {value}; it has to be above 0 and at most {LONGEST_SECONDS:.0f} seconds"
                )
        if self.clients < 1:
            raise ValueError(f"clients is {self.clients}; it has to be at least 1")
        if self.limit < 0:
            raise ValueError(f"limit is {self.limit}; it has to be at least 0")
        for name, least in (("factor", 1.0), ("growth", 1.0), ("jitter", 0.0)):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= least):
                raise ValueError(f"{name} is {value}; it has to be a number of at least {least:g}")
        if not (math.isfinite(self.k) and self.k > 0):
            raise ValueError(f"k is {self.k}; it has to be a number above 0")
        if self.maximum_delay < self.minimum_delay:
            raise ValueError(
                f"maximum_delay is {self.maximum_delay}; it has to be at least minimum_delay, "
                f"{self.minimum_delay}"
            )

    @property
    def stops_at(self) -> float:
        """The instant at which the server stops."""
        return self.steady

    @property
    def resumes_at(self) -> float:
        """The instant at which the server runs again."""
        return self.steady + self.stopped

    @property
    def seconds(self) -> float:
        """The length of the whole scenario."""
        return self.steady + self.stopped + self.resumed

    def backoff(self, failures: int, last: float, normal: Callable[[], float]) -> float:
        """Return the seconds to wait after a failure with exponential backoff.

        `failures` counts those in a row, this one included; `last` is what the client waited last: the gap
        before its first attempt, or the delay before its last retry; `normal` draws a standard normal
        variate, if one is needed.
        """
        if failures == 1 and not self.as_the_program:
            return self.minimum_delay
        delay = min(last * self.factor, self.maximum_delay)
        deviation = self.jitter if self.as_the_program else self.jitter * delay
        return max(delay + normal() * deviation, 0.0)

    def service_delay(self, concurrency: int) -> float:
        """Return how long a request takes with so many at a time; infinite beyond what a float holds."""
        beyond = max(concurrency - self.limit, 0) / self.k
        try:
            return self.base_delay * math.pow(self.growth, beyond)
        except OverflowError:
            return math.inf


_TIMES: Final = frozenset(
    {
        "mean_gap",
        "timeout",
        "simple_delay",
        "minimum_delay",
        "maximum_delay",
        "base_delay",
        "recompute",
        "steady",
        "stopped",
        "resumed",
    }
)


OF_THE_APPLICATION: Final = frozenset(
    {Strategy.FIXED, Strategy.LIMITED_FIXED, Strategy.EXPONENTIAL, Strategy.NO_RETRY}
)
"""The strategies of an application, with any driver; the others are those of the reference driver itself."""

LIVE: Final = ArticleParameters(
    clients=200,
    mean_gap=5.0,
    minimum_delay=0.2,
    base_delay=0.4,
    limit=10,
    k=3.5,
    recompute=0.1,
    steady=10.0,
    stopped=20.0,
    resumed=20.0,
)
"""The article's numbers for 200 clients, as many as one machine has room for beside their server.

The server is slower than the article's, so that its best is less than what 200 clients ask for that try again
every 2.1 seconds: real drivers need a moment to connect again, and a server that is fast enough uses it to
recover.
"""

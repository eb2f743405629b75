"""One strategy's run of the article's scenario, as a model or live, and what is measured of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from harness.sim.article.parameters import ArticleParameters, Strategy
    from harness.sim.fleet.outcome import FleetOutcome

WARM_UP_SECONDS: Final = 10.0
"""The steady state is measured from here on, or from a third of its time, where that is earlier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The figures of a trial: successes a second, seconds, numbers of requests.

    `recovery` and `caught_up` count from the instant at which the server runs again: until goodput is what it
    was (`FleetOutcome.recovery_time`), and until the operations that the outage piled up have gone
    (`FleetOutcome.caught_up_after`). They are infinite for a service that does not come to that within the
    scenario, and `attempts_per_success` is without a success.
    """

    before: float
    stopped: float
    after: float
    attempts_per_success: float
    recovery: float
    caught_up: float
    peak_concurrency: float
    median: float
    percentile_99: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleTrial:
    """A run of the scenario with one strategy; `tier` is `model`, or the driver of a live run."""

    parameters: ArticleParameters
    strategy: Strategy
    tier: str
    outcome: FleetOutcome

    @property
    def tier_and_strategy(self) -> str:
        """Its name in pictures and headings."""
        return f"{self.strategy}, {self.tier}"

    def longest_delays(self) -> list[float]:
        """Return the longest delay of each second: that of the most requests at a time, in seconds."""
        return [self.parameters.service_delay(int(most)) for most in self.outcome.columns["peak_concurrency"]]

    def last_delays(self) -> list[float]:
        """Return the delay that the server computed last, at the end of each second, in seconds."""
        columns, own = self.outcome.columns, self.parameters
        # The model does not tell delays apart that are longer than all that it simulates.
        return [
            delay if delay < own.seconds else own.service_delay(int(concurrency))
            for delay, concurrency in zip(columns["delay"], columns["concurrency"], strict=True)
        ]

    def measures(self) -> Measures:
        """Return the figures of this trial."""
        own, outcome = self.parameters, self.outcome
        warm = min(WARM_UP_SECONDS, own.steady / 3)
        before = outcome.goodput(warm, own.stops_at)
        return Measures(
            before=before,
            stopped=outcome.goodput(own.stops_at, own.resumes_at),
            after=outcome.goodput(own.resumes_at, own.seconds),
            attempts_per_success=outcome.attempts_per_success,
            recovery=outcome.recovery_time(own.resumes_at, before=before),
            caught_up=outcome.caught_up_after(own.resumes_at),
            peak_concurrency=outcome.peak_concurrency,
            median=outcome.percentile(0.5),
            percentile_99=outcome.percentile(0.99),
        )


def repeats(trials: Iterable[ArticleTrial]) -> list[Sequence[ArticleTrial]]:
    """Return the trials of each strategy and tier together: they differ in their seeds."""
    found: dict[tuple[Strategy, str], list[ArticleTrial]] = {}
    for trial in trials:
        found.setdefault((trial.strategy, trial.tier), []).append(trial)
    return list(found.values())

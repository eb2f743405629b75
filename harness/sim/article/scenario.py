"""The article's scenario for the model tier, and what each strategy means there.

A trial has one strategy for all clients and one seed; `repeats` puts those of several seeds together again.
The limiter of the strategies that have one admits what the server serves without slowing down, so that they
are compared at their best. Ticks are a millisecond, and longer where a scenario would have more than
`MOST_TICKS` of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from harness.sim.article.parameters import Strategy
from harness.sim.fleet import Engine, simulate, strategies
from harness.sim.fleet import scenario as fleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from harness.sim.article.parameters import ArticleParameters
    from harness.sim.fleet.outcome import FleetOutcome


# One strategy's run of the article's scenario, as a model or live, and what is measured of it.


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


Abandoned: TypeAlias = Literal["at once", "at a check", "never"]
"""When the server notices that a client has gone; the article's never does."""

BACKLOG: Final = 128
"""The connections that a kernel kept for a process that accepted none, when the article was written."""

DRIVER_BACKLOG: Final = 0
"""The same where clients are drivers: they send a request once the server has answered their handshake."""

TOLD_BACKOFF_SECONDS: Final = 0.5
"""What the server of `told-backoff` sends as `baseBackoffMS`: five times the driver's own."""

TICK_SECONDS: Final = 0.001
MOST_TICKS: Final = 4_000_000
"""A scenario of more than an hour is simulated in longer ticks."""

LIMIT_BURST_SECONDS: Final = 0.1
"""What the limiter's bucket holds: the requests that the server serves at a time without slowing down."""

DESCRIPTIONS: Final[Mapping[Strategy, str]] = {
    Strategy.FIXED: "the article's fixed interval",
    Strategy.EXPONENTIAL: "the article's exponential backoff",
    Strategy.NO_RETRY: "a failure is not tried again; the next request comes after the next gap",
    Strategy.LIMITED_FIXED: "the fixed interval, and a request rate limiter in front of the server",
    Strategy.BACKPRESSURE_FEBRUARY: "Client Backpressure 2026-02-20, and the limiter",
    Strategy.BACKPRESSURE_FEBRUARY_BUCKET: "the same with the token bucket",
    Strategy.BACKPRESSURE_JULY: "Client Backpressure 2026-07-08, and the limiter",
    Strategy.TOLD_BACKOFF: "the same, with a base backoff of 500 ms that the server tells",
}


def run_model(
    parameters: ArticleParameters,
    strategy: Strategy,
    *,
    engine: Engine = "plain",
    abandoned: Abandoned = "never",
    backlog: int = BACKLOG,
    on_progress: Callable[[float], None] | None = None,
) -> ArticleTrial:
    """Return the trial of one strategy; `on_progress` hears the simulated seconds."""
    scenario = scenario_of(parameters, strategy, abandoned, backlog)
    outcome = simulate(scenario, engine=engine, on_progress=on_progress)
    return ArticleTrial(parameters=parameters, strategy=strategy, tier="model", outcome=outcome)


def scenario_of(
    parameters: ArticleParameters,
    strategy: Strategy,
    abandoned: Abandoned = "never",
    backlog: int = BACKLOG,
) -> fleet.Scenario:
    """Return the scenario in which every client follows one strategy.

    `backlog` is how many requests of clients that have gone are kept for the stopped server.
    """
    own = parameters
    return fleet.Scenario(
        clients=own.clients,
        seconds=own.seconds,
        arrivals=fleet.Closed(gap=own.mean_gap),
        fleet=((1.0, _clients(own, strategy)),),
        servers=_servers(own, strategy, abandoned, backlog),
        timeout=own.timeout,
        outages=(fleet.Outage(start=own.stops_at, end=own.resumes_at, kind="pause"),),
        seed=own.seed,
        tick=TICK_SECONDS * math.ceil(own.seconds / TICK_SECONDS / MOST_TICKS),
    )


def _clients(own: ArticleParameters, strategy: Strategy) -> strategies.Strategy:
    """Return what the clients do; as in the article they are one process, which has one driver's client."""
    match strategy:
        case Strategy.FIXED | Strategy.LIMITED_FIXED:
            return strategies.Fixed(interval=own.simple_delay)
        case Strategy.EXPONENTIAL:
            return strategies.Exponential(
                minimum=own.minimum_delay,
                factor=own.factor,
                maximum=own.maximum_delay,
                jitter=own.jitter,
                relative=not own.as_the_program,
                from_gap=own.as_the_program,
            )
        case Strategy.NO_RETRY:
            return strategies.NoRetry()
        case Strategy.BACKPRESSURE_FEBRUARY:
            return strategies.Backpressure(edition="2026-02-20", token_bucket=False, sharing=own.clients)
        case Strategy.BACKPRESSURE_FEBRUARY_BUCKET:
            return strategies.Backpressure(edition="2026-02-20", token_bucket=True, sharing=own.clients)
        case Strategy.BACKPRESSURE_JULY | Strategy.TOLD_BACKOFF:
            return strategies.Backpressure(edition="2026-07-08", sharing=own.clients)


def _servers(own: ArticleParameters, strategy: Strategy, abandoned: Abandoned, backlog: int) -> fleet.Servers:
    return fleet.Servers(
        service=fleet.Service(
            base=own.base_delay, limit=own.limit, factor=own.growth, k=own.k, recompute=own.recompute
        ),
        request_limit=_request_limit(own, strategy),
        abandoned=abandoned,
        backlog=backlog,
    )


def _request_limit(own: ArticleParameters, strategy: Strategy) -> fleet.RequestLimit | None:
    """Return the limiter of a strategy that has one: what the server serves without slowing down."""
    if strategy in {Strategy.FIXED, Strategy.EXPONENTIAL, Strategy.NO_RETRY}:
        return None
    return fleet.RequestLimit(
        rate=max(own.limit, 1) / own.base_delay,
        burst_seconds=LIMIT_BURST_SECONDS,
        told_backoff=TOLD_BACKOFF_SECONDS if strategy is Strategy.TOLD_BACKOFF else None,
    )

"""Scenarios of fleets: the article's, scaled to any number of clients, and drawn ones."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from hypothesis import strategies as st
from virtual_fleet import play

from harness.sim.article.parameters import ArticleParameters
from harness.sim.fleet import simulate
from harness.sim.fleet.scenario import (
    Arrivals,
    Closed,
    ConnectionLimit,
    Deploy,
    Diurnal,
    Open,
    Outage,
    RequestLimit,
    Scenario,
    Servers,
    Service,
    Spike,
)
from harness.sim.fleet.strategies import Backpressure, Exponential, Fixed, NoRetry, Strategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.sim.fleet.outcome import FleetOutcome

SMALL = ArticleParameters(clients=40, limit=1, k=0.7, mean_gap=2, steady=4, stopped=5, resumed=6)
"""The article's scenario for 40 clients, five times as busy."""

Tier: TypeAlias = "Callable[[Scenario], FleetOutcome]"

TIERS: dict[str, Tier] = {"plain": partial(simulate, engine="plain"), "virtual": play}
if find_spec("numba"):
    TIERS["compiled"] = partial(simulate, engine="compiled")


def article(clients: int, strategy: Strategy, *, seconds: float = 100.0, seed: int = 0) -> Scenario:
    """Return the article's scenario: 20 s of steady load, 30 s of a stopped server, and what comes after."""
    scale = clients / 1000
    return Scenario(
        clients=clients,
        seconds=seconds,
        arrivals=Closed(gap=10),
        fleet=((1, strategy),),
        servers=Servers(
            service=Service(limit=round(30 * scale), k=15 * scale),
            abandoned="never",
            backlog=round(128 * scale),
        ),
        timeout=2.0,
        outages=(Outage(start=20, end=50),),
        seed=seed,
    )


ARRIVALS: tuple[Arrivals, ...] = (
    Closed(gap=0.3),
    Deploy(within=0.2, gap=0.5),
    Open(rate=40),
    Diurnal(rate=40, swing=0.9, period=2),
    Spike(rate=20, factor=8, start=0.5, end=1),
)
STRATEGIES: tuple[Strategy, ...] = (
    NoRetry(),
    Fixed(interval=0.05),
    Exponential(minimum=0.02, maximum=0.5),
    Exponential(from_gap=True, relative=False, jitter=0.05, maximum=0.5),
    Backpressure(sharing=3),
    Backpressure(edition="2026-07-08", token_bucket=True, sharing=2),
    Backpressure(edition="2026-07-08", retargeting=True, jitter=False),
)
SERVICES = (
    Service(base=0.04, limit=3, factor=1.6, k=2, recompute=0.01),
    Service(base=0.04, limit=3, factor=1.6, k=2, recompute=0),
    Service(base=0.03, workers=3, spread="exponential"),
)


@st.composite
def servers(draw: st.DrawFn) -> Servers:
    """Draw servers with limits small enough to matter."""
    requests = st.builds(
        RequestLimit,
        rate=st.sampled_from([20.0, 90.0]),
        burst_seconds=st.sampled_from([0.01, 0.1]),
        queue=st.sampled_from([0, 10]),
        told_backoff=st.sampled_from([None, 0.02]),
    )
    connections = st.builds(
        ConnectionLimit, rate=st.just(30.0), burst_seconds=st.just(0.1), queue=st.sampled_from([0, 8])
    )
    return Servers(
        members=draw(st.sampled_from([1, 2, 3])),
        mongos=draw(st.sampled_from([0, 0, 2])),
        service=draw(st.sampled_from(SERVICES)),
        request_limit=draw(st.none() | requests),
        connection_limit=draw(st.none() | connections),
        tickets=draw(st.sampled_from([None, 2])),
        abandoned=draw(st.sampled_from(["at once", "at a check", "never"])),
        backlog=draw(st.sampled_from([0, 5, 100])),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Draw a small scenario of any kind."""
    own = draw(servers())
    outages = st.builds(
        Outage,
        start=st.sampled_from([0.3, 0.8]),
        end=st.sampled_from([1.0, 1.4]),
        member=st.sampled_from([None, *range(own.members)]),
        kind=st.sampled_from(["pause", "crash"]),
    )
    return Scenario(
        clients=draw(st.integers(1, 40)),
        seconds=1.6,
        arrivals=draw(st.sampled_from(ARRIVALS)),
        fleet=tuple(
            (1, strategy) for strategy in draw(st.lists(st.sampled_from(STRATEGIES), min_size=1, max_size=3))
        ),
        servers=own,
        timeout=draw(st.sampled_from([None, 0.1, 0.4])),
        outages=tuple(draw(st.lists(outages, max_size=2))),
        seed=draw(st.integers(0, 2**40)),
        tick=draw(st.sampled_from([0.001, 0.002])),
        window=0.5,
    )


@st.composite
def scenarios_of_all_tiers(draw: st.DrawFn) -> Scenario:
    """Draw a small scenario that runs as coroutines, too: one server, which looks at its requests."""
    limits = st.builds(
        RequestLimit,
        rate=st.sampled_from([20.0, 90.0]),
        burst_seconds=st.sampled_from([0.01, 0.1]),
        told_backoff=st.sampled_from([None, 0.02]),
    )
    outages = st.sampled_from([(0.3, 1.0), (0.8, 1.4), (1.0, 1.2), (0.8, 0.801)])
    drawn = draw(st.lists(st.sampled_from(STRATEGIES), min_size=1, max_size=3))
    arrivals: tuple[Arrivals, ...] = (Closed(gap=0.3), Deploy(within=0.2, gap=0.5))
    return Scenario(
        clients=draw(st.integers(1, 40)),
        seconds=1.6,
        arrivals=draw(st.sampled_from(arrivals)),
        fleet=tuple((1, strategy) for strategy in drawn),
        servers=Servers(
            service=draw(
                st.sampled_from(
                    [
                        Service(base=0.04, limit=3, factor=1.6, k=2, recompute=0.01),
                        Service(base=0.033, limit=0, factor=1.05, k=0.5, recompute=0.007),
                        Service(base=0.02, factor=1.0, recompute=0.02),
                    ]
                )
            ),
            request_limit=draw(st.none() | limits),
            abandoned=draw(st.sampled_from(["at once", "at a check", "never"])),
            backlog=draw(st.sampled_from([0, 5, 100])),
        ),
        timeout=draw(st.sampled_from([None, 0.1, 0.4])),
        outages=tuple(Outage(start=start, end=end) for start, end in draw(st.lists(outages, max_size=2))),
        seed=draw(st.integers(0, 2**40)),
        tick=draw(st.sampled_from([0.001, 0.002])),
        window=0.5,
    )

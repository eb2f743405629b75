"""The columns decide as the fake server's and the reference driver's objects do, decision by decision."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driver.editions import EDITIONS
from driver.policy.backpressure import TokenBucket as RetryTokens
from driver.policy.retry import (
    Failure,
    GiveUp,
    RetryPolicy,
    RetryState,
    deposit_of_failure,
    deposit_of_success,
)
from fakeserver.admission.rate_limiter import ADMITTED, REJECTED, RateLimiter, Reserved
from fakeserver.admission.service_model import ServiceParameters
from harness.sim.fleet import columns as c
from harness.sim.fleet import limits
from harness.sim.fleet.building import FleetPlan, service_table
from harness.sim.fleet.retries import decide, succeed
from harness.sim.fleet.running import plain_world
from harness.sim.fleet.scenario import Closed, RequestLimit, Scenario, Servers, Service
from harness.sim.fleet.strategies import Backpressure

_CLOSED = Closed(gap=1000)
_SERVICE = Service(workers=1)


@pytest.mark.slow
@given(
    gaps=st.lists(st.integers(0, 400), max_size=40),
    rate=st.sampled_from([0.7, 3.0, 10.0, 333.0, 5000.0]),
    burst=st.sampled_from([0.0001, 0.3, 1.0, 2.5]),
    queue=st.sampled_from([0, 1, 4, 1000]),
)
def test_admission_by_token_bucket_is_exact(gaps: list[int], rate: float, burst: float, queue: int) -> None:
    real = RateLimiter("requests", rate=rate, burst_seconds=burst, max_queue_depth=queue, now=0.0)
    limit = RequestLimit(rate=rate, burst_seconds=burst, queue=queue)
    scenario = Scenario(
        clients=1,
        seconds=60,
        arrivals=_CLOSED,
        fleet=((1, Backpressure()),),
        servers=Servers(service=_SERVICE, request_limit=limit),
    )
    world = plain_world(FleetPlan(scenario))
    waiting: list[tuple[int, Reserved]] = []
    for gap in gaps:
        world.numbers[c.NOW] += gap
        now = world.numbers[c.NOW]
        while waiting and waiting[0][0] <= now:
            real.mature(waiting.pop(0)[1])
            world.numbers[c.MEMBERS_AT + c.WAIT_REQUEST] -= 1
        verdict = real.acquire(now * scenario.tick)
        wait = limits.acquire_request(world, 0)
        if isinstance(verdict, Reserved):
            assert wait == round((verdict.ready_at - verdict.since) * 1000)
            waiting.append((now + wait, verdict))
        else:
            assert wait == {ADMITTED: 0, REJECTED: limits.REJECTED}[verdict]
        assert world.reals[c.ZEROS_AT] == real._bucket._zero


@pytest.mark.slow
@given(
    edition=st.sampled_from(sorted(EDITIONS)),
    has_bucket=st.booleans(),
    retries=st.sampled_from([None, 0, 3]),
    told=st.sampled_from([None, 0.5]),
    tokens=st.sampled_from([0.0, 0.95, 1.0, 1000.0]),
    ends=st.lists(st.sampled_from(["ok", "overload", "network"]), max_size=25),
)
def test_retries_are_those_of_the_reference_drivers_policy(
    edition: str,
    has_bucket: bool,  # noqa: FBT001
    retries: int | None,
    told: float | None,
    tokens: float,
    ends: list[str],
) -> None:
    rules = EDITIONS[edition]
    policy = RetryPolicy.of(rules, retries=retries)
    strategy = Backpressure(
        edition=edition,  # type: ignore[arg-type]
        token_bucket=has_bucket,
        retries=policy.max_adaptive_retries,
        jitter=False,
        sharing=1,
    )
    scenario = Scenario(
        clients=1,
        seconds=60,
        arrivals=_CLOSED,
        fleet=((1, strategy),),
        servers=Servers(service=_SERVICE, request_limit=RequestLimit(rate=1, told_backoff=told)),
    )
    world = plain_world(FleetPlan(scenario))
    bucket = world.numbers[c.RETRY_TOKENS_AT]
    budget = RetryTokens()
    budget.tokens = tokens
    if has_bucket:
        world.reals[bucket] = tokens
    state = RetryState.initial(timed=False)
    for end in ends:
        world.clients[c.FIRST] = world.numbers[c.NOW]
        if world.clients[c.RETRY] == 0:
            world.clients[c.RULES] = 0
        if end == "ok":
            succeed(world, 0)
            budget.deposit(deposit_of_success(state))
            expected = None
        else:
            failure = Failure(end == "overload", retryable=True, server="0", base_backoff=told)
            decide(world, 0, world.numbers[c.STRATEGIES_AT], int(failure.overloaded))
            budget.deposit(deposit_of_failure(state, failure))
            decision = policy.decide(state, failure, now=0.0, deadline=float("inf"), jitter=1.0)
            pays = isinstance(decision, GiveUp) or not has_bucket or budget.consume(decision.cost)
            expected = None if isinstance(decision, GiveUp) or not pays else decision
        state = RetryState.initial(timed=False) if expected is None else expected.state
        assert world.clients[c.RETRY] == state.attempt
        if expected is not None:
            wait = world.clients[c.DUE] - world.numbers[c.NOW]
            assert wait == max(round(expected.backoff / scenario.tick), 1)
        if has_bucket:
            assert world.reals[bucket] == budget.tokens
        world.numbers[c.NOW] += 1


@pytest.mark.slow
@given(
    limit=st.integers(0, 50),
    factor=st.sampled_from([1.0, 1.05, 2.0]),
    k=st.sampled_from([1.0, 15.0]),
    requests=st.integers(1, 500),
)
def test_service_times_are_the_fakes_own(limit: int, factor: float, k: float, requests: int) -> None:
    own = Service(limit=limit, factor=factor, k=k, recompute=0, longest=5)
    fakes = ServiceParameters(base=own.base, concurrency_limit=limit, factor=factor, k=k, longest=own.longest)
    table = [value for count, value in service_table(own, 0.001, 200_000) for _ in range(count)]
    assert table[min(requests, len(table) - 1)] == pytest.approx(fakes.seconds(requests) * 1000, abs=0.51)

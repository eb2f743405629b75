"""What a server gets done under more load than it can take: alone, limited, and governed."""

from __future__ import annotations

import asyncio

import pytest
from sizes import in_full

from harness.overload import Plan, Report, Trial, ramp, spike, step
from harness.overload.policy import Aimd, FollowThroughput
from harness.overload.trial import Capacity
from harness.sim import run_virtual
from mongowire.system import SeededRng, SystemClock, TcpNetwork

pytestmark = pytest.mark.slow

# A hundred a second can be served. In each plan it is calm for five seconds and busy for ten at least.
PLANS = [step(50, 300, seconds=20), ramp(50, 300, seconds=20), spike(50, 500, seconds=20)]
LIMIT = {
    "ingressRequestRateLimiterEnabled": True,
    "ingressRequestAdmissionRatePerSec": 90,
    "ingressRequestAdmissionBurstCapacitySecs": 0.1,
}


def _virtual(trial: Trial, seed: int = 0) -> Report:
    return run_virtual(
        lambda world: trial.run(network=world.network, clock=world.clock, rng=world.rng), seed=seed
    )


def _live(trial: Trial) -> Report:
    return asyncio.run(trial.run(network=TcpNetwork(), clock=SystemClock(), rng=SeededRng(0)))


@pytest.mark.parametrize("seed", range(len(PLANS)), ids=[plan.name for plan in PLANS])
def test_aimd_holds_goodput_through(seed: int) -> None:
    report = _virtual(Trial(plan=PLANS[seed], policy=Aimd), seed)
    assert report.held() >= 0.85
    assert report.held(5, 15) >= 0.85


@pytest.mark.parametrize(
    "plan", [step(50, 300, seconds=40), spike(50, 500, seconds=40)], ids=lambda plan: plan.name
)
def test_the_naive_policy_does_not(plan: Plan) -> None:
    report = _virtual(Trial(plan=plan, policy=FollowThroughput))
    assert report.held(10, 30) < 0.75
    assert report.window(25, 30).goodput < 20


@in_full("measurements", "repeats at length what others show in short")
def test_aimd_finds_the_capacity_of_a_server_that_is_five_times_as_fast() -> None:
    fast = Capacity(concurrency=25, seconds=0.05)
    report = _virtual(Trial(plan=step(250, 2000, seconds=10), policy=Aimd, capacity=fast))
    assert report.window(5, 10).goodput >= 0.85 * 500


def test_the_same_seed_gives_the_same_trial() -> None:
    trial = Trial(plan=step(50, 300, seconds=4), policy=Aimd)
    assert _virtual(trial, 3).answers == _virtual(trial, 3).answers


@in_full("measurements", "repeats at length what others show in short")
def test_a_limit_keeps_nine_tenths_of_it_at_ten_times_the_load() -> None:
    plan = step(900, 900, seconds=5)
    limited = _virtual(Trial(plan=plan, parameters=LIMIT)).window(0, 5)
    assert limited.goodput >= 0.9 * 90
    assert limited.late == 0
    collapsed = _virtual(Trial(plan=plan)).window(2, 5)
    assert collapsed.goodput < 5


@in_full("measurements", "repeats at length what others show in short")
def test_tickets_beyond_the_best_concurrency_make_the_collapse_a_collapse_of_the_service() -> None:
    plan = step(900, 900, seconds=4)
    assert _virtual(Trial(plan=plan, capacity=Capacity(tickets=128))).window(0, 4).goodput < 20


def test_live_a_limit_rejects_what_is_beyond_it() -> None:
    limit = {**LIMIT, "ingressRequestAdmissionRatePerSec": 20}
    report = _live(Trial(plan=step(200, 200, seconds=2), parameters=limit, patience=20.0))
    window = report.window(0, 2)
    # Two tokens of the burst, and what accrues until the last request, however late that is sent.
    sent_for = max(answer.known for answer in report.answers)
    assert 2 <= window.goodput * 2 <= 2 + 20 * sent_for + 1
    assert window.goodput + window.rejected == pytest.approx(window.offered)


def test_live_the_governor_takes_part() -> None:
    report = _live(Trial(plan=step(100, 100, seconds=2), policy=Aimd, patience=20.0))
    assert len(report.decisions) >= 2
    assert all(each.settings and each.settings.request_rate >= 1 for each in report.decisions)
    window = report.window(0, 2)
    assert window.goodput > 0
    assert window.goodput + window.rejected == pytest.approx(window.offered)

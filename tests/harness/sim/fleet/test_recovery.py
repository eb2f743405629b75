"""When a service has recovered: from when on its goodput keeps to what it was, whatever chance does."""

from __future__ import annotations

import math
import random

import pytest

from harness.sim.fleet.outcome import COLUMNS, FleetOutcome

STOPPED, RESUMED, END = 30, 50, 110
BACK_AFTER = 7.0
SEEDS = 200


def windows(ok: list[float], window: float = 1.0, outage: tuple[float, float] = (4.0, 6.0)) -> FleetOutcome:
    columns = {name: [0.0] * len(ok) for name in COLUMNS}
    columns["time"] = [window * (number + 1) for number in range(len(ok))]
    return FleetOutcome(columns={**columns, "ok": ok}, latencies=(), window=window, outage=outage)


@pytest.mark.parametrize(
    ("after", "seconds"),
    [
        ([100, 100, 100, 100], 0.0),
        ([20, 100, 90, 100], 1.0),
        ([20, 150, 30, 80, 100, 100], 4.0),
        ([400, 95, 92, 91], 0.0),
        # One window that chance made small is no relapse, and one that it made large no recovery.
        ([20, 100, 85, 100, 100], 1.0),
        ([20, 40, 120, 20, 40, 100, 100], 5.0),
        ([0, 0, 0, 0], math.inf),
        ([80, 80, 80, 80, 80], math.inf),
        # A burst is none either, where nothing follows.
        ([0, 0, 0, 99], math.inf),
    ],
)
def test_it_is_the_instant_from_which_on_goodput_stays_at_nine_tenths(
    after: list[float], seconds: float
) -> None:
    assert windows([100, 100, 100, 100, 0, 0, *after]).recovery_time(6.0) == seconds


def test_what_counts_as_before_can_be_told() -> None:
    outcome = windows([100, 100, 100, 100, 0, 0, 50, 50, 50, 50])
    assert outcome.recovery_time(6.0) == math.inf
    assert outcome.recovery_time(6.0, before=50.0) == 0.0


def poisson(rate: float, back_after: float, seed: int, window: float = 0.1) -> FleetOutcome:
    """Return a service whose successes are chance at a rate, but for an outage and the seconds after it."""
    dice = random.Random(seed)
    ok = [0.0] * round(END / window)
    at = 0.0
    while (at := at + dice.expovariate(rate)) < END:
        if not STOPPED <= at < RESUMED + back_after:
            ok[min(int(at / window), len(ok) - 1)] += 1
    return windows(ok, window, outage=(STOPPED, RESUMED))


@pytest.mark.slow
@pytest.mark.parametrize("rate", [36.0, 97.0])
def test_it_is_stable_over_seeds_within_the_error_that_is_stated(rate: float) -> None:
    late = sorted(
        poisson(rate, BACK_AFTER, seed).recovery_time(RESUMED) - BACK_AFTER for seed in range(SEEDS)
    )
    assert late[0] > -0.2
    assert late[SEEDS // 2] <= 20 / rate
    assert late[SEEDS * 9 // 10] <= 200 / rate

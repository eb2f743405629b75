"""What the policies decide, from one sample to the next."""

from __future__ import annotations

from typing import Any

import pytest

from harness.overload.policy import Aimd, FollowThroughput, Sample, Settings


def _sample(
    *,
    delay: float = 0.0,
    rejected: float = 0.0,
    finished: float = 100.0,
    busy: bool = False,
    turned_away: float = 0.0,
) -> Sample:
    return Sample(
        seconds=0.5,
        admitted=finished,
        rejected=rejected,
        finished=finished,
        queue_length=0,
        busy=busy,
        delay=delay,
        turned_away=turned_away,
    )


def _rates(policy: Aimd | FollowThroughput, *samples: Sample) -> list[int]:
    return [policy.decide(sample, float(number)).request_rate for number, sample in enumerate(samples)]


CALM = _sample()
LIMITED = _sample(rejected=50)
BUSY = _sample(delay=0.3, finished=200, busy=True)
BURST = _sample(delay=0.3, finished=50)


@pytest.mark.parametrize(
    ("samples", "rates"),
    [
        pytest.param([CALM, CALM], [20, 20], id="a limit that nobody meets stays"),
        pytest.param([LIMITED, LIMITED], [30, 45], id="before the first queue it grows by half each time"),
        pytest.param(
            [LIMITED] * 6 + [BUSY], [30, 45, 68, 101, 152, 228, 180], id="a queue: below what was done"
        ),
        pytest.param([LIMITED, BURST, LIMITED], [30, 30, 45], id="a queue that has just begun tells nothing"),
        pytest.param([BUSY], [20], id="a queue never makes it grow"),
        pytest.param(
            [LIMITED] * 6 + [BUSY, BUSY, BUSY],
            [30, 45, 68, 101, 152, 228, 180, 180, 180],
            id="while the queue drains it stays, since the server does as much as before",
        ),
        pytest.param(
            [LIMITED] * 6 + [BUSY, LIMITED, LIMITED],
            [30, 45, 68, 101, 152, 228, 180, 185, 190],
            id="after it, by a twentieth of the capacity a second",
        ),
        pytest.param(
            [LIMITED] * 6 + [BUSY, _sample(delay=0.3, finished=100, busy=True)],
            [30, 45, 68, 101, 152, 228, 180, 153],
            id="a slower server is believed little by little",
        ),
    ],
)
def test_aimd_on_queueing_delay(samples: list[Sample], rates: list[int]) -> None:
    assert _rates(Aimd(), *samples) == rates


def test_aimd_never_goes_below_one_request_a_second() -> None:
    assert _rates(Aimd(), _sample(delay=5.0, finished=0.0, busy=True)) == [1]


def test_aimd_may_limit_connections_as_well() -> None:
    settings = Aimd(limits_connections=True).decide(CALM, 0.0)
    assert settings.connection_rate == settings.request_rate == 20


def test_a_limit_of_connections_that_keeps_clients_away_is_raised_as_one_of_requests_is() -> None:
    """Those who are not let in send no request that could be rejected."""
    turned_away = _sample(turned_away=50.0)
    assert _rates(Aimd(limits_connections=True), turned_away, turned_away) == [30, 45]
    assert _rates(Aimd(), turned_away, turned_away) == [20, 20]


def test_the_naive_policy_may_limit_connections_as_well() -> None:
    settings = FollowThroughput(limits_connections=True).decide(BUSY, 0.0)
    assert settings.connection_rate == settings.request_rate == 220


def test_the_naive_policy_lets_in_more_than_the_server_finishes_however_long_the_queue_is() -> None:
    assert _rates(FollowThroughput(), BUSY, BUSY) == [220, 220]


def test_the_naive_policy_begins_above_nothing() -> None:
    assert _rates(FollowThroughput(), _sample(finished=0)) == [20]


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        pytest.param(
            Settings(100),
            {
                "ingressRequestRateLimiterEnabled": True,
                "ingressRequestAdmissionRatePerSec": 100,
                "ingressRequestAdmissionBurstCapacitySecs": 0.1,
            },
            id="requests alone",
        ),
        pytest.param(
            Settings(1, connection_rate=5),
            {
                "ingressRequestRateLimiterEnabled": True,
                "ingressRequestAdmissionRatePerSec": 1,
                "ingressRequestAdmissionBurstCapacitySecs": 2.0,
                "ingressConnectionEstablishmentRateLimiterEnabled": True,
                "ingressConnectionEstablishmentRatePerSec": 5,
                "ingressConnectionEstablishmentBurstCapacitySecs": 1.0,
            },
            id="connections too, and a burst of at least two tokens",
        ),
    ],
)
def test_settings_are_server_parameters(settings: Settings, parameters: dict[str, Any]) -> None:
    assert settings.parameters() == parameters

"""Throughput probing, step by step as the specification's pseudocode has it, and whether it converges."""

from __future__ import annotations

import pytest

from fakeserver.admission.service_model import ServiceParameters
from fakeserver.admission.throughput_probing import (
    Observation,
    ProbingParameters,
    ProbingState,
    ThroughputProbing,
    TicketCounts,
)


def _probing(**parameters: float) -> ThroughputProbing:
    return ThroughputProbing(ProbingParameters(**parameters), cores=8)  # type: ignore[arg-type]


def _seen(throughput: int, peak: TicketCounts | None = None) -> Observation:
    return Observation(finished=throughput, seconds=1.0, peak=peak or TicketCounts(0, 0))


@pytest.mark.spec("SAC-10", "SAC-12", "SAC-15")
@pytest.mark.parametrize(
    ("cores", "parameters", "tickets"),
    [
        pytest.param(8, {}, TicketCounts(8, 8), id="two for each core, shared between the pools"),
        pytest.param(1, {}, TicketCounts(4, 4), id="not below the minimum of each pool"),
        pytest.param(500, {}, TicketCounts(128, 128), id="not above the maximum of each pool"),
        pytest.param(8, {"initial_concurrency": 40}, TicketCounts(20, 20), id="what the parameter says"),
        pytest.param(8, {"read_write_ratio": 0.75}, TicketCounts(12, 4), id="by the ratio of reads"),
    ],
)
def test_it_begins_with(cores: int, parameters: dict[str, float], tickets: TicketCounts) -> None:
    probing = ThroughputProbing(ProbingParameters(**parameters), cores=cores)  # type: ignore[arg-type]
    assert probing.tickets == tickets


@pytest.mark.spec("SAC-14", "SAC-18")
def test_from_stable_it_probes_up_when_a_pool_was_exhausted() -> None:
    probing = _probing(initial_concurrency=40)
    assert probing.probe(_seen(100, TicketCounts(20, 3))) == TicketCounts(22, 22)
    assert probing.state is ProbingState.UP
    assert probing.stable_throughput == 100


@pytest.mark.spec("SAC-19")
def test_from_stable_it_probes_down_when_none_was_exhausted() -> None:
    probing = _probing(initial_concurrency=40)
    assert probing.probe(_seen(100, TicketCounts(19, 19))) == TicketCounts(18, 18)
    assert probing.state is ProbingState.DOWN


@pytest.mark.spec("SAC-11", "SAC-20")
def test_at_the_minimum_and_not_exhausted_it_stays() -> None:
    probing = _probing(initial_concurrency=8)
    assert probing.probe(_seen(100, TicketCounts(3, 3))) == TicketCounts(4, 4)
    assert probing.state is ProbingState.STABLE


@pytest.mark.spec("SAC-11", "SAC-16", "SAC-24")
@pytest.mark.parametrize(
    ("concurrency", "tickets"),
    [
        pytest.param(126, TicketCounts(69, 69), id="below the maximum: up"),
        pytest.param(128, TicketCounts(58, 58), id="at the maximum: down"),
        pytest.param(256, TicketCounts(115, 115), id="with each pool at the maximum: down"),
    ],
)
def test_exhausted_pools_grow_until_both_together_are_at_the_maximum(
    concurrency: int, tickets: TicketCounts
) -> None:
    probing = _probing(initial_concurrency=concurrency)
    assert probing.probe(_seen(100, probing.tickets)) == tickets


@pytest.mark.spec("SAC-22", "SAC-23")
@pytest.mark.parametrize(
    ("peak", "throughput", "stable", "tickets"),
    [
        pytest.param(
            TicketCounts(20, 20), 101, 40.8, TicketCounts(20, 20), id="up and better: a fifth of the way up"
        ),
        pytest.param(TicketCounts(20, 20), 100, 40.0, TicketCounts(20, 20), id="up and no better: back"),
        pytest.param(
            TicketCounts(19, 19),
            101,
            39.2,
            TicketCounts(20, 20),
            id="down and better: a fifth of the way down",
        ),
        pytest.param(TicketCounts(19, 19), 99, 40.0, TicketCounts(20, 20), id="down and worse: back"),
    ],
)
def test_a_trial_ends_in_the_stable_state(
    peak: TicketCounts, throughput: int, stable: float, tickets: TicketCounts
) -> None:
    probing = _probing(initial_concurrency=40)
    probing.probe(_seen(100, peak))
    assert probing.probe(_seen(throughput)) == tickets
    assert probing.state is ProbingState.STABLE
    assert probing.stable_concurrency == pytest.approx(stable)


def test_a_step_that_is_too_small_for_whole_tickets_is_one_ticket() -> None:
    probing = _probing(initial_concurrency=10, step_multiple=0.01)
    assert probing.probe(_seen(100, TicketCounts(5, 5))) == TicketCounts(6, 6)


@pytest.mark.spec("SAC-13", "SAC-21")
def test_a_trial_that_paid_moves_the_stable_concurrency_by_the_weight() -> None:
    probing = _probing(initial_concurrency=100, moving_average_weight=0.2)
    probing.probe(_seen(100, TicketCounts(50, 50)))
    probing.probe(_seen(110, None))
    assert probing.stable_concurrency == pytest.approx(0.8 * 100 + 0.2 * 110)
    assert probing.stable_throughput == 110


def test_what_it_changed_is_counted() -> None:
    probing = _probing(initial_concurrency=100, moving_average_weight=1.0)
    for throughput, peak in (
        (100, TicketCounts(50, 50)),
        (110, None),
        (110, TicketCounts(1, 50)),
        (120, None),
    ):
        probing.probe(_seen(throughput, peak))
    assert probing.stats() == {
        "timesDecreased": 1,
        "timesIncreased": 1,
        "totalAmountDecreased": 10,
        "totalAmountIncreased": 10,
        "timesProbedStable": 2,
        "timesProbedUp": 1,
        "timesProbedDown": 1,
    }


@pytest.mark.parametrize(("start", "settles"), [(8, 60), (40, 60), (250, 126)])
def test_under_a_load_that_never_lets_up_it_climbs_to_the_best_concurrency(start: int, settles: int) -> None:
    """From above it comes down to where growing is allowed again, as specified, and no further."""
    service = ServiceParameters(base=0.01, concurrency_limit=60, factor=2.0, k=20)
    assert service.best_concurrency() == 60
    probing = _probing(initial_concurrency=start)
    for _ in range(4000):
        busy = probing.tickets
        probing.probe(_seen(round(service.throughput(busy.total) * 1000), busy))
    assert probing.stable_concurrency == pytest.approx(settles, rel=0.05)


@pytest.mark.parametrize(
    ("peak", "together", "by_pool"),
    [
        pytest.param(
            TicketCounts(70, 70), ProbingState.DOWN, ProbingState.UP, id="exhausted, together at the maximum"
        ),
        pytest.param(TicketCounts(70, 0), ProbingState.DOWN, ProbingState.UP, id="one of them exhausted"),
        pytest.param(TicketCounts(60, 60), ProbingState.DOWN, ProbingState.DOWN, id="neither exhausted"),
        pytest.param(TicketCounts(4, 4), ProbingState.DOWN, ProbingState.STABLE, id="hardly used"),
    ],
)
def test_newer_servers_compare_pool_by_pool(
    peak: TicketCounts, together: ProbingState, by_pool: ProbingState
) -> None:
    for compares_pools, state in ((False, together), (True, by_pool)):
        probing = _probing(initial_concurrency=140, compares_pools=compares_pools)
        probing.probe(_seen(100, peak))
        assert probing.state is state


def test_a_pool_at_its_maximum_does_not_grow_by_the_newer_rule_either() -> None:
    probing = _probing(initial_concurrency=256, compares_pools=True)
    assert probing.probe(_seen(100, TicketCounts(128, 128))) == TicketCounts(115, 115)

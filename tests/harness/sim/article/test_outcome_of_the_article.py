"""What the article says of the two strategies comes out of the model, and near its figures."""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness.sim.article.parameters import ArticleParameters, Strategy
from harness.sim.article.prints import table
from harness.sim.article.scenario import run_model

if TYPE_CHECKING:
    from harness.sim.article.scenario import ArticleTrial

PAGE = Path(__file__).parents[4] / "docs" / "SIMULATION.md"

OWN = ArticleParameters(steady=20, stopped=20, resumed=30)
pytestmark = pytest.mark.slow


@cache
def run(strategy: Strategy, own: ArticleParameters = OWN) -> ArticleTrial:
    return run_model(own, strategy, engine="plain")


def rate(trial: ArticleTrial, column: str, start: int, end: int) -> float:
    return sum(trial.outcome.columns[column][start:end]) / (end - start)


@pytest.mark.spec("RI-17")
def test_with_the_fixed_interval_the_service_does_not_come_back() -> None:
    measures = run(Strategy.FIXED).measures()
    assert measures.recovery == math.inf
    assert measures.after == 0


@pytest.mark.spec("RI-18")
def test_with_exponential_backoff_it_does() -> None:
    measures = run(Strategy.EXPONENTIAL).measures()
    assert measures.recovery <= 2
    assert measures.after == pytest.approx(measures.before, rel=0.2)


@pytest.mark.spec("RI-9", "RI-14")
@pytest.mark.parametrize("strategy", [Strategy.FIXED, Strategy.EXPONENTIAL])
def test_a_hundred_requests_a_second_are_answered_before(strategy: Strategy) -> None:
    assert run(strategy).measures().before == pytest.approx(99, rel=0.06)


@pytest.mark.spec("RI-1", "RI-10", "RI-11", "RI-15")
def test_timeouts_rise_to_those_of_all_clients_with_the_fixed_interval() -> None:
    fixed = run(Strategy.FIXED)
    rising = [rate(fixed, "timed_out", start, start + 5) for start in (20, 25, 30, 35)]
    # The article prints 22.6, 170.6, 298.8 and 371.2; its windows begin at any time before the stop.
    assert rising == sorted(rising)
    assert rising[1:] == pytest.approx([230, 335, 395], rel=0.1)
    # A client asks every 2.1 s: after two seconds of timeout and the interval.
    assert rate(fixed, "timed_out", 60, 70) == pytest.approx(1000 / 2.1, rel=0.03)


def test_the_server_drowns_in_requests_as_soon_as_it_runs_again() -> None:
    concurrency = run(Strategy.FIXED).outcome.columns["concurrency"]
    # The article prints 1040, 1599, 1925 and 2231.
    assert 1000 < concurrency[40] < 1500
    assert 300 < (concurrency[43] - concurrency[40]) / 3 < 1000 / 2.1


def test_the_programs_backoff_recovers_later_as_its_first_delays_are_longer() -> None:
    own = ArticleParameters(steady=20, stopped=20, resumed=120, as_the_program=True)
    program = run(Strategy.EXPONENTIAL, own).measures()
    assert 20 < program.recovery < 90
    assert program.attempts_per_success < run(Strategy.EXPONENTIAL).measures().attempts_per_success


def test_a_request_limiter_lets_even_the_fixed_interval_come_back() -> None:
    limited = run(Strategy.LIMITED_FIXED)
    assert limited.measures().recovery < 5
    assert limited.measures().peak_concurrency < 100
    assert rate(limited, "rejected", 40, 41) > 0


@pytest.mark.parametrize("strategy", [each for each in Strategy if "backpressure" in each or "told" in each])
def test_client_backpressure_behind_a_limiter_comes_back(strategy: Strategy) -> None:
    assert run(strategy).measures().recovery < 5


def test_without_a_long_enough_stop_even_the_fixed_interval_comes_back() -> None:
    short = ArticleParameters(steady=20, stopped=3, resumed=20)
    assert run(Strategy.FIXED, short).measures().recovery < math.inf


def test_the_page_shows_the_table_that_is_printed_and_its_peak() -> None:
    trials = [run(strategy, ArticleParameters()) for strategy in (Strategy.FIXED, Strategy.EXPONENTIAL)]
    page = PAGE.read_text()
    assert "\n".join(table(trials)) in page
    assert int(trials[1].measures().peak_concurrency) > 600, "all who waited come at once"
    (row,) = re.findall(r"\| `exponential` \|.*\| ([\d,]+) \|", page)
    assert int(row.replace(",", "")) == trials[1].measures().peak_concurrency

"""The article's two formulas, with the numbers that it prints, and what its parameters may be."""

from __future__ import annotations

import math
from typing import Any

import pytest

from harness.sim.article.parameters import ArticleParameters
from harness.sim.article.pictures import ARTICLE_CURVES, intervals
from harness.sim.article.prints import duration
from mongowire.system import SeededRng

PRINTED = [(1040, "2.671s"), (1599, "16.459s"), (1925, "47.524s"), (2231, "2m8.581s")]
"""What the article's server prints once it runs again, to the millisecond."""


@pytest.mark.spec("RI-8", "RI-16")
@pytest.mark.parametrize(("concurrency", "last_delay"), PRINTED)
def test_the_server_takes_as_long_as_the_article_prints(concurrency: int, last_delay: str) -> None:
    assert duration(ArticleParameters().service_delay(concurrency)) == last_delay


@pytest.mark.spec("RI-7")
def test_the_server_is_not_slowed_down_up_to_its_limit() -> None:
    own = ArticleParameters()
    assert [own.service_delay(n) for n in (0, 1, 30)] == [0.1, 0.1, 0.1]
    assert own.service_delay(31) > 0.1
    assert own.service_delay(10**9) == math.inf


@pytest.mark.spec("RI-2", "RI-3", "RI-4", "RI-5")
def test_the_first_delay_is_the_minimum_and_each_is_the_factor_times_the_last() -> None:
    own = ArticleParameters(minimum_delay=0.1, factor=2, maximum_delay=1, jitter=0.1)
    assert own.backoff(1, 42.0, lambda: 3.0) == 0.1
    assert own.backoff(2, 0.1, lambda: 0.0) == pytest.approx(0.2)
    assert own.backoff(2, 0.1, lambda: 1.0) == pytest.approx(0.22)
    assert own.backoff(9, 5.0, lambda: -2.0) == pytest.approx(0.8), "the maximum is without the jitter"
    assert own.backoff(9, 5.0, lambda: -20.0) == 0.0, "no delay is below nothing"


def test_the_programs_first_delay_grows_from_the_gap_and_its_jitter_is_in_seconds() -> None:
    own = ArticleParameters(factor=2.7, jitter=0.1, as_the_program=True)
    assert own.backoff(1, 10.0, lambda: 0.0) == pytest.approx(27)
    assert own.backoff(1, 10.0, lambda: 2.0) == pytest.approx(27.2)
    assert own.backoff(2, 1000.0, lambda: 0.0) == 300


@pytest.mark.spec("RI-6")
@pytest.mark.parametrize("label", ARTICLE_CURVES)
def test_a_curve_rises_by_the_factor_to_the_longest_delay(label: str) -> None:
    own = ARTICLE_CURVES[label]
    many = [intervals(own, 20, SeededRng(seed)) for seed in range(200)]
    means = [sum(each) / len(many) for each in zip(*many, strict=True)]
    assert means[0] == pytest.approx(own.minimum_delay)
    assert means[3] == pytest.approx(own.minimum_delay * own.factor**3, rel=0.1)
    assert means[-1] == pytest.approx(own.maximum_delay, rel=0.1)


@pytest.mark.parametrize(
    ("field", "value", "bound"),
    [
        ("clients", 0, "at least 1"),
        ("timeout", 0.0, "above 0"),
        ("mean_gap", math.nan, "above 0"),
        ("steady", 1e9, "at most 3600 seconds"),
        ("factor", 0.5, "a number of at least 1"),
        ("growth", math.inf, "a number of at least 1"),
        ("jitter", -0.1, "a number of at least 0"),
        ("k", 0.0, "a number above 0"),
        ("limit", -1, "at least 0"),
        ("maximum_delay", 0.01, "at least minimum_delay"),
    ],
)
def test_what_a_parameter_cannot_be_is_said_with_its_bound(field: str, value: Any, bound: str) -> None:
    with pytest.raises(ValueError, match=rf"^{field} is {value}; it has to be .*{bound}"):
        ArticleParameters(**{field: value})

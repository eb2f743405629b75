"""The delays of exponential backoff by attempt, with the two sets of parameters that the article draws."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

from harness.sim.article.parameters import ArticleParameters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mongowire.ports import Rng

DRAWN_ATTEMPTS: Final = 18

ARTICLE_CURVES: Final[Mapping[str, ArticleParameters]] = {
    "MinDelay 100 ms, Factor 2.7, MaxDelay 10 min": ArticleParameters(
        minimum_delay=0.1, factor=2.7, jitter=0.1, maximum_delay=600
    ),
    "MinDelay 1 s, Factor 1.5, MaxDelay 5 min": ArticleParameters(
        minimum_delay=1, factor=1.5, jitter=0.1, maximum_delay=300
    ),
}
"""The article's blue and green curve; both have a Jitter of 0.1."""


def intervals(parameters: ArticleParameters, attempts: int, rng: Rng) -> list[float]:
    """Return the seconds after each of so many failures in a row, for one client that asked after no gap."""
    waited: list[float] = []
    last = 0.0
    for failures in range(1, attempts + 1):
        last = parameters.backoff(failures, last, partial(_normal, rng))
        waited.append(last)
    return waited


def _normal(rng: Rng) -> float:
    """Return a standard normal variate, by the method of Box and Muller."""
    # 1 - x is never 0, of which there is no logarithm.
    return math.sqrt(-2 * math.log(1 - rng.random())) * math.cos(2 * math.pi * rng.random())

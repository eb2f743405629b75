"""Is a driver's jitter uniform? A test of the backoffs that servers saw, with a stated error rate.

The test is made once for all backoffs of a case, and once for those before each retry that are enough.

Each backoff is divided by its bound, so that what is judged lies between 0 and 1 whatever the retry. For n
independent uniform numbers, n at least 40:

- the mean is more than 4 standard errors from 0.5 with a probability below 6.4e-5;
- the least is 0.25 or more, or the greatest 0.75 or less, with one of 0.75^40, 1.1e-5 each.

So one test refuses a driver whose jitter is uniform in less than 1 of 10,000 cases. One whose backoffs are
all equal (no jitter at all, or one factor for all) is refused always, one with another mean once n shows it.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST_BACKOFFS: Final = 40
_STANDARD_DEVIATION: Final = 1 / sqrt(12)
_STANDARD_ERRORS: Final = 4
_LOW, _HIGH = 0.25, 0.75
_EQUAL: Final = 1e-9


def why_not_uniform(factors: Sequence[float]) -> str | None:
    """Return what speaks against jitter factors that are uniform between 0 and 1, None for nothing."""
    if len(factors) < LEAST_BACKOFFS:
        return f"{len(factors)} overload backoffs are too few to judge jitter, {LEAST_BACKOFFS} are needed"
    least, greatest, mean = max(min(factors), 0.0), max(factors), sum(factors) / len(factors)
    if greatest - least < _EQUAL:
        return f"all {len(factors)} backoffs are {least:.2f} of their bound: there is no jitter"
    if least >= _LOW:
        return f"no backoff is shorter than {least:.2f} of its bound"
    if greatest <= _HIGH:
        return f"no backoff is longer than {greatest:.2f} of its bound"
    tolerance = _STANDARD_ERRORS * _STANDARD_DEVIATION / sqrt(len(factors))
    if abs(mean - 0.5) > tolerance:
        return f"the mean is {mean:.3f} of the bound, uniform jitter has 0.5 ± {tolerance:.3f}"
    return None

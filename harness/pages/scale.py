"""Scales of axes: where a value stands between the ends, and which values are written beside the axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["linear", "log", "symlog"]

_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST_DECADES: Final = 6
_TINY: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis from `least` to `most`, which differ.

    `log` has no zero; `symlog` is linear from 0 to 1 and logarithmic beyond, for counts with zeros.
    """

    least: float
    most: float
    kind: Kind = "linear"

    def place(self, value: float) -> float:
        """Return where a value stands: 0 at the least, 1 at the most; what is beyond stands at the end."""
        low, high = self._bent(self.least), self._bent(self.most)
        return min(1.0, max(0.0, (self._bent(value) - low) / (high - low)))

    def ticks(self, about: int = 4) -> list[float]:
        """Return round values from end to end: some `about` of them, or powers of ten."""
        if self.kind == "linear":
            return self._round_values(about)
        first = math.ceil(math.log10(max(self.least, _TINY if self.kind == "log" else 1.0)) - _TINY)
        last = math.floor(math.log10(self.most) + _TINY)
        apart = max(1, math.ceil((last - first) / _MOST_DECADES))
        powers = [10.0**power for power in range(first, last + 1, apart)]
        return [0.0, *powers] if self.kind == "symlog" else powers

    def _bent(self, value: float) -> float:
        if self.kind == "linear":
            return value
        if self.kind == "symlog":
            return value if value <= 1 else 1 + math.log10(value)
        return math.log10(max(value, self.least, _TINY))

    def _round_values(self, about: int) -> list[float]:
        rough = (self.most - self.least) / about
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(each * power for each in _STEPS if each * power >= rough * (1 - _TINY))
        first = math.ceil(self.least / step - _TINY)
        return [round(number * step, 10) for number in range(first, math.floor(self.most / step + _TINY) + 1)]


def written(value: float) -> str:
    """Return a value as an axis shows it: 0.01, 25, 1,500, 2M."""
    for limit, letter in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:,g}" if abs(value) >= 1 or value == 0 else f"{value:g}"


def around(values: list[float], kind: Kind, *, least: float | None, most: float | None) -> Scale:
    """Return the scale that has room for all values: from 0 on, unless `least` is given or it has no zero."""
    finite = [value for value in values if math.isfinite(value)]
    if kind == "log":
        positive = [value for value in finite if value > 0] or [1.0]
        low = least or 10.0 ** math.floor(math.log10(min(positive)))
        high = most or 10.0 ** math.ceil(math.log10(max(positive)))
        return Scale(low, high if high > low else low * 10, kind)
    low = 0.0 if least is None else least
    high = max(finite, default=1.0) * 1.06 if most is None else most
    return Scale(low, high if high > low else low + 1.0, kind)

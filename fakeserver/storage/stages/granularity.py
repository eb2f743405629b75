"""The series of preferred numbers to which `$bucketAuto` rounds its boundaries."""

from __future__ import annotations

import decimal
import math
from bisect import bisect_left, bisect_right
from fractions import Fraction
from typing import Any, Final

from bson import Decimal128

from fakeserver.errors import CommandError
from fakeserver.storage.values.arithmetic import integer
from fakeserver.storage.values.decimal_functions import rounded
from fakeserver.storage.values.types import INT64_MAX, exact, is_finite

_UNKNOWN: Final = 40257
_POWERS: Final = "POWERSOF2"


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


_R40: Final = _numbers(
    "100 106 112 118 125 132 140 150 160 170 180 190 200 212 224 236 250 265 280 300 315 355 375 400 425 450"
    " 475 500 530 560 600 630 670 710 750 800 850 900 950"
)
_E48: Final = _numbers(
    "100 105 110 115 121 127 133 140 147 154 162 169 178 187 196 205 215 226 237 249 261 274 287 301 316 332"
    " 348 365 383 402 422 442 464 487 511 536 562 590 619 649 681 715 750 787 825 866 909 953"
)
_E96_BETWEEN: Final = _numbers(
    "102 107 113 118 124 130 137 143 150 158 165 174 182 191 200 210 221 232 243 255 267 280 294 309 324 340"
    " 357 374 392 412 432 453 475 499 523 549 576 604 634 665 698 732 768 806 845 887 931 976"
)
_E192_BETWEEN: Final = _numbers(
    "101 104 106 109 111 114 117 120 123 126 129 132 135 138 142 145 149 152 156 160 164 167 172 176 180 184"
    " 189 193 198 203 208 213 218 223 229 234 240 246 252 258 264 271 277 284 291 298 305 312 320 328 336 344"
    " 352 361 370 379 388 397 407 417 427 437 448 459 470 481 493 505 517 530 542 556 569 583 597 612 626 642"
    " 657 673 690 706 723 741 759 777 796 816 835 856 876 898 920 942 965 988"
)
_E96: Final = tuple(sorted(_E48 + _E96_BETWEEN))
_SERIES: Final = {
    "R5": _numbers("10 16 25 40 63"),
    "R10": _numbers("100 125 160 200 250 315 400 500 630 800"),
    "R20": _numbers("100 112 125 140 160 180 200 224 250 280 315 355 400 450 500 560 630 710 800 900"),
    "R40": _R40,
    "R80": _numbers(
        "103 109 115 122 128 136 145 155 165 175 185 195 206 218 230 243 258 272 290 307 325 345 365 387 412"
        " 437 462 487 515 545 575 615 650 690 730 775 825 875 925 975"
    ),
    "1-2-5": _numbers("10 20 50"),
    "E6": _numbers("10 15 22 33 47 68"),
    "E12": _numbers("10 12 15 18 22 27 33 39 47 56 68 82"),
    "E24": _numbers("10 11 12 13 15 16 18 20 22 24 27 30 33 36 39 43 47 51 56 62 68 75 82 91"),
    "E48": _E48,
    "E96": _E96,
    "E192": tuple(sorted(_E96 + _E192_BETWEEN)),
}
"""Each a decade of a series, in whole numbers. R40 and R80 leave out what a server's leave out."""


class Rounder:
    """Rounds numbers up and down to those of a series, never to themselves. Raises `CommandError` 40257."""

    def __init__(self, name: str) -> None:
        if name != _POWERS and name not in _SERIES:
            raise CommandError(_UNKNOWN, f"Unknown rounding granularity '{name}'")
        self._series = _SERIES.get(name)

    def up(self, value: Any) -> Any:
        """Return the least number of the series that is greater; zero and infinity stay what they are."""
        if not is_finite(value):
            return value
        number = Fraction(exact(value))
        if number == 0:
            return value
        if self._series is None:
            return _power_of_two(number, value, up=True)
        scale = _decade(number, self._series)
        index = bisect_right(self._series, number / scale)
        found = scale * self._series[index] if index < len(self._series) else scale * 10 * self._series[0]
        return _like(found, value)

    def down(self, value: Any) -> Any:
        """Return the greatest number of the series that is less; zero and infinity stay what they are."""
        if not is_finite(value):
            return value
        number = Fraction(exact(value))
        if number == 0:
            return value
        if self._series is None:
            return _power_of_two(number, value, up=False)
        scale = _decade(number, self._series)
        index = bisect_left(self._series, number / scale) - 1
        found = scale * self._series[index] if index >= 0 else scale / 10 * self._series[-1]
        return _like(found, value)


def _decade(number: Fraction, series: tuple[int, ...]) -> Fraction:
    """Return the power of ten by which the series is multiplied to begin at the number or below it."""
    scale = Fraction(1)
    while number >= scale * 10 * series[0]:
        scale *= 10
    while number < scale * series[0]:
        scale /= 10
    return scale


def _power_of_two(number: Fraction, value: Any, *, up: bool) -> Any:
    power = Fraction(1)
    while power <= number:
        power *= 2
    while power / 2 > number:
        power /= 2
    if not up:
        power /= 2
        if power == number:
            power /= 2
    if isinstance(value, int) and 1 <= power <= INT64_MAX:
        return integer(int(power))
    return _like(power, value)


def _like(number: Fraction, value: Any) -> Any:
    if isinstance(value, Decimal128):
        return rounded(decimal.Context(prec=40).divide(decimal.Decimal(number.numerator), number.denominator))
    try:
        return float(number)
    except OverflowError:  # beyond the largest double
        return math.inf

"""The last ten minutes of requests: by second how many had which verdict, and how long they took.

Durations are counted in classes that are a tenth wide, so a percentile is right to a twentieth and memory is
bounded, however many requests there are.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

KEPT_SECONDS: Final = 600
STEP_SECONDS: Final = 10
"""The width of a row of the history."""
LATENCY_SECONDS: Final = 60
"""The time that the percentiles beside the history are of."""
PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}

_GROWTH: Final = math.log(1.1)
_SHORTEST: Final = 1e-6


@dataclass(slots=True)
class _Second:
    verdicts: Counter[str] = field(default_factory=Counter)
    durations: Counter[int] = field(default_factory=Counter)
    """By class: see `_class_of`."""


class RequestHistory:
    """Takes requests in the order of time, and forgets those that are older than ten minutes."""

    def __init__(self) -> None:
        self._seconds: dict[int, _Second] = {}

    def take(self, at: float, verdict: str, duration: float | None) -> None:
        """Count a request that ended at an instant; None is a duration that says nothing of the server."""
        number = math.floor(at)
        second = self._seconds.get(number)
        if second is None:
            self._forget(number - KEPT_SECONDS)
            second = self._seconds[number] = _Second()
        second.verdicts[verdict] += 1
        if duration is not None:
            second.durations[_class_of(duration)] += 1

    def rows(self, now: float) -> list[dict[str, Any]]:
        """Return a row for each ten seconds in which there was a request, oldest first.

        `from` is where it begins, `verdicts` are counts, `p50`, `p90` and `p99` seconds, or None.
        """
        steps: dict[int, list[_Second]] = {}
        for number, second in self._since(now - KEPT_SECONDS):
            steps.setdefault(number // STEP_SECONDS * STEP_SECONDS, []).append(second)
        return [
            {
                "from": start,
                "verdicts": dict(_sum(each.verdicts for each in seconds)),
                **_percentiles(seconds),
            }
            for start, seconds in steps.items()
        ]

    def latency(self, now: float) -> dict[str, float | None]:
        """Return the percentiles of the last minute in seconds; None without a request."""
        return _percentiles([second for _, second in self._since(now - LATENCY_SECONDS)])

    def _since(self, start: float) -> list[tuple[int, _Second]]:
        return [(number, second) for number, second in self._seconds.items() if number > start]

    def _forget(self, before: int) -> None:
        for number in [number for number in self._seconds if number <= before]:
            del self._seconds[number]


def _class_of(duration: float) -> int:
    return math.floor(math.log(max(duration, _SHORTEST) / _SHORTEST) / _GROWTH)


def _percentiles(seconds: Iterable[_Second]) -> dict[str, float | None]:
    counts = sorted(_sum(each.durations for each in seconds).items())
    total = sum(count for _, count in counts)
    return {name: _percentile(counts, math.ceil(share * total)) for name, share in PERCENTILES.items()}


def _percentile(counts: list[tuple[int, int]], rank: int) -> float | None:
    """Return the middle of the class in which the duration of a rank is; ranks count from one."""
    for number, count in counts:
        rank -= count
        if rank <= 0:
            return _SHORTEST * math.exp((number + 0.5) * _GROWTH)
    return None


def _sum(counters: Iterable[Counter[Any]]) -> Counter[Any]:
    total: Counter[Any] = Counter()
    for counter in counters:
        total.update(counter)
    return total

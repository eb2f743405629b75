"""Requests by verdict: a count of the journal's records that goes on where it stopped.

The journal keeps the newest records only; so whoever counts looks again before they are gone.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fakeserver.deployment.records.events import CommandFinished
from mongowire.codes import Category

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fakeserver.deployment.records.journal import Journal


# The last ten minutes of requests: by second how many had which verdict, and how long they took.
#
# Durations are counted in classes that are a tenth wide, so a percentile is right to a twentieth and memory
# is bounded, however many requests there are.


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
    """By class, which is a span of durations that grows by a tenth: see `RequestHistory.take`."""


class RequestHistory:
    """Takes requests in the order of time, and forgets those that are older than ten minutes."""

    def __init__(self) -> None:
        self._seconds: dict[int, _Second] = {}

    def take(self, at: float, verdict: str, duration: float | None) -> None:
        """Count a request that ended at an instant; None is a duration that says nothing of the server."""
        number = math.floor(at)
        second = self._seconds.get(number)
        if second is None:
            for old in [each for each in self._seconds if each <= number - KEPT_SECONDS]:
                del self._seconds[old]
            second = self._seconds[number] = _Second()
        second.verdicts[verdict] += 1
        if duration is not None:
            second.durations[math.floor(math.log(max(duration, _SHORTEST) / _SHORTEST) / _GROWTH)] += 1

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


VERDICTS: Final = ("ok", "writeError", "error", "rejected", "disconnect", "silence")
"""The verdicts, as `verdict_of` names them."""
_MOST: Final = 500
"""Combinations of verdict, command and code that are told apart: a client may make command names up."""
_HEARTBEATS: Final = frozenset({"hello", "isMaster", "ismaster"})


def verdict_of(event: CommandFinished) -> str:
    """Return the verdict on a request.

    `rejected` is an error of admission control, `error` any other; `writeError` an `ok` reply with errors
    within; `disconnect` and `silence` are requests without a reply.
    """
    if isinstance(event.outcome, int):
        return "rejected" if event.outcome in Category.SYSTEM_OVERLOADED.value else "error"
    if event.outcome == "ok" and (event.write_error or event.write_concern_error):
        return "writeError"
    return event.outcome


class RequestTally:
    """The requests that a journal holds, and those that it held when this looked."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._seq = 0
        self._counted: Counter[tuple[str, str, str]] = Counter()
        self.history = RequestHistory()

    def catch_up(self) -> None:
        """Count what is new."""
        for record in self._journal.since(self._seq):
            event = record.event
            if isinstance(event, CommandFinished):
                code = str(event.outcome) if isinstance(event.outcome, int) else ""
                verdict = verdict_of(event)
                key = verdict, event.name, code
                if key not in self._counted and len(self._counted) >= _MOST:
                    key = verdict, "", ""
                self._counted[key] += 1
                # How long a getMore takes is often for the client to say.
                if event.name not in _HEARTBEATS:
                    details = None if event.name == "getMore" else record.details
                    duration = None if details is None else record.at - details.arrived
                    self.history.take(record.at, verdict, duration)
            self._seq = record.seq

    def __iter__(self) -> Iterator[tuple[tuple[str, str, str], int]]:
        """Iterate over (verdict, command, code) and their counts, sorted."""
        return iter(sorted(self._counted.items()))

    def verdicts(self) -> dict[str, int]:
        """Return the requests by verdict, without the heartbeats of drivers."""
        shown = dict.fromkeys(VERDICTS, 0)
        for (verdict, command, _), number in self:
            if command not in _HEARTBEATS:
                shown[verdict] = shown.get(verdict, 0) + number
        return shown

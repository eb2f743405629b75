"""Measurements of a live run: events as they happen, and windows of them at the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.sim.article.live_clients import LiveAttempt
from harness.sim.fleet.outcome import COLUMNS, FleetOutcome

if TYPE_CHECKING:
    from harness.sim.article.parameters import ArticleParameters

_COLUMN: Final = {
    LiveAttempt.OK: ("ok", "completed"),
    LiveAttempt.TIMED_OUT: ("timed_out", "abandoned"),
    LiveAttempt.REJECTED: ("errors", "rejected"),
    LiveAttempt.ERROR: ("errors",),
}
_ROUNDED_TO: Final = 3
"""Latencies are kept by the millisecond."""


@dataclass
class Measuring:
    """The measurements of a run of so many `seconds`, in windows of `window` seconds from its beginning.

    What happens beyond the end is not counted. A request whose client gave up counts as abandoned: nobody
    outside the server knows whether it was done already.
    """

    seconds: float
    window: float
    columns: dict[str, list[float]] = field(init=False)
    latencies: Counter[float] = field(default_factory=Counter)
    latency_sum: float = 0.0
    events: int = 0
    peak: int = 0
    """The most requests that have been at work at a time, as far as the server was asked."""

    def __post_init__(self) -> None:
        windows = max(round(self.seconds / self.window), 1)
        self.columns = {name: [0.0] * windows for name in COLUMNS}
        self.columns["time"] = [self.window * (number + 1) for number in range(windows)]

    def _count(self, name: str, at: float) -> None:
        number = int(at / self.window)
        if number < len(self.columns[name]):
            self.columns[name][number] += 1

    def offered(self, at: float) -> None:
        """Take note of an operation that begins."""
        self._count("offered", at)

    def started(self, at: float) -> None:
        """Take note of an attempt that begins."""
        self.events += 1
        self._count("started", at)

    def ended(self, attempt: LiveAttempt, at: float) -> None:
        """Take note of the end of an attempt."""
        self.events += 1
        for name in _COLUMN[attempt]:
            self._count(name, at)

    def succeeded(self, began: float, at: float) -> None:
        """Take note of an operation that succeeded, with its first attempt."""
        if at < self.seconds:
            self.latencies[round(at - began, _ROUNDED_TO)] += 1
            self.latency_sum += at - began

    def failed(self, at: float) -> None:
        """Take note of an operation that ended without success."""
        self._count("failed", at)

    def level(self, at: float, concurrency: int, delay: float, peak: int) -> None:
        """Take note of how things stand at the server, and of the most requests at work at a time so far.

        A peak that has grown was in this window or since the one before it that was asked in; in a window in
        which it has not grown, the requests of now are the most that is known. The largest of all windows is
        what the server counted at every arrival and departure, if it is asked at the end.
        """
        number = int(at / self.window)
        if number < len(self.columns["time"]):
            self.columns["concurrency"][number] = concurrency
            self.columns["delay"][number] = delay
        number = min(number, len(self.columns["time"]) - 1)
        most = peak if peak > self.peak else min(concurrency, self.peak)
        self.peak = max(peak, self.peak)
        self.columns["peak_concurrency"][number] = max(self.columns["peak_concurrency"][number], most)

    def outcome(self, parameters: ArticleParameters) -> FleetOutcome:
        """Return the windows and latencies. A live run has no trace: no two are alike."""
        return FleetOutcome(
            columns={name: tuple(values) for name, values in self.columns.items()},
            latencies=tuple(sorted(self.latencies.items())),
            window=self.window,
            latency_sum=self.latency_sum,
            events=self.events,
            outage=(parameters.stops_at, parameters.resumes_at),
        )

"""The outcome of a simulated fleet: a row for each window of time, latencies, and a trace.

Live runs have the same form (`harness.sim.article.live`), with an empty trace. The names in `COUNTS` and
`LEVELS` are the columns of CSV and Parquet files, and their order is that of the engine's columns
(`columns.OFFERED` and on).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from harness.sim import parquet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

COUNTS: Final = (
    "offered",
    "started",
    "ok",
    "errors",
    "timed_out",
    "rejected",
    "abandoned",
    "failed",
    "turned_away",
    "completed",
)
"""The columns that count what happened in a window.

`offered` operations began, and `failed` ended without success. Of the `started` attempts some were `ok`, some
had `errors` (those `rejected` by a limit among them), and some `timed_out`. `abandoned` requests were those
whose client had gone before they were `completed`, which a server's work is, whoever still waits for it.
`turned_away` found no idle client.
"""

LEVELS: Final = ("concurrency", "delay", "queue", "tokens", "retry_tokens", "peak_concurrency")
"""The columns that show how things stood, summed over the members.

All but the last are samples at the end of a window: `concurrency` counts requests at work (with workers also
those that wait for one), `delay` is the longest service time now, in seconds, `queue` counts requests that
wait before their work, `tokens` are those of the request limiters, and `retry_tokens` is the mean of the
drivers' buckets. `peak_concurrency` is the most requests at work at any instant of the window: it is counted
at every arrival and departure.
"""

COLUMNS: Final = ("time", *COUNTS, *LEVELS)

RECOVERED_SHARE: Final = 0.9
"""A service has recovered when its goodput has this share of what it was before."""

ENOUGH_SUCCESSES: Final = 100
"""What has to follow a recovery: so many that chance changes their number by no more than a tenth."""


@dataclass(frozen=True, kw_only=True)
class FleetOutcome:
    """Columns by name, each with a value for each window; `time` is the window's end in seconds.

    `latencies` are pairs of a length in seconds and of how many operations that succeeded took so long, from
    their first attempt on, the shortest first. `waits` is the time that requests waited at servers before
    their work, summed. `trace` is a running hash of all that happened: (64 bits, hexadecimal) the same for
    every engine. `events` is how many of them there were.
    """

    columns: Mapping[str, Sequence[float]]
    latencies: Sequence[tuple[float, int]]
    window: float
    latency_sum: float = 0.0
    waits: float = 0.0
    trace: str = ""
    events: int = 0
    outage: tuple[float, float] | None = None
    """The instants at which the first outage began and the last one ended, in seconds."""

    def total(self, name: str) -> float:
        """Return the sum of a column of `COUNTS`."""
        return sum(self.columns[name])

    @property
    def peak_concurrency(self) -> float:
        """Return the most requests that were at work at a time."""
        return max(self.columns["peak_concurrency"])

    @property
    def attempts_per_success(self) -> float:
        """Return how many attempts were made for an operation that succeeded; infinite without success."""
        succeeded = self.total("ok")
        return self.total("started") / succeeded if succeeded else float("inf")

    @property
    def mean_latency(self) -> float:
        """Return the mean time of operations that succeeded, in seconds; 0 without any."""
        succeeded = self.total("ok")
        return self.latency_sum / succeeded if succeeded else 0.0

    def percentile(self, share: float) -> float:
        """Return the latency in seconds that a share (0 to 1) of operations that succeeded did not exceed.

        It is right to one part in 64. Without success it is infinite.
        """
        wanted = share * sum(count for _, count in self.latencies)
        reached = 0
        for seconds, count in self.latencies:
            reached += count
            if reached >= wanted:
                return seconds
        return float("inf")

    def goodput(self, start: float, end: float) -> float:
        """Return the successes a second in the windows that lie between two instants; 0 without any."""
        windows = zip(pairwise((0.0, *self.columns["time"])), self.columns["ok"], strict=True)
        rates = [
            succeeded / (after - before)
            for (before, after), succeeded in windows
            if before >= start and before + self.window <= end
        ]
        return sum(rates) / len(rates) if rates else 0.0

    def recovery_time(
        self, after: float, share: float = RECOVERED_SHARE, *, before: float | None = None
    ) -> float:
        """Return how long after an instant the service had recovered, in seconds; infinite if it did not.

        From its recovery on goodput, averaged until whatever later instant, is at least `share` of what it
        was `before` (by default the mean before the first outage, before `after` if there was none). So it is
        the instant at which successes lag furthest behind that share, and no single window decides. With
        fewer than `ENOUGH_SUCCESSES` after it there is no telling, and it is no recovery.

        It is right to a window. Chance adds to that: where goodput is back from one instant to the next at
        `rate` a second, and the share is 0.9, half of the runs are at most `20 / rate` seconds late and nine
        in ten `200 / rate` (the maximum of a random walk that drifts down).
        """
        if before is None:
            before = self.goodput(0.0, self.outage[0] if self.outage else after)
        lag = furthest = recovered = since = 0.0
        ends = (0.0, *self.columns["time"])
        for (begin, end), succeeded in zip(pairwise(ends), self.columns["ok"], strict=True):
            if begin < after - self.window / 2:
                continue
            lag += share * before * (end - begin) - succeeded
            since += succeeded
            if lag > furthest:
                furthest, recovered, since = lag, end - after, 0.0
        return recovered if since >= ENOUGH_SUCCESSES else float("inf")

    def caught_up_after(self, instant: float, share: float = 0.9) -> float:
        """Return how long after an instant clients had caught up, in seconds; infinite if they never did.

        Under way are the operations that have begun and not ended, those between two attempts among them. An
        outage piles them up; clients have caught up when a `share` has gone of those that were there at the
        instant on top of the mean before the first outage. It is at most a window too long.
        """
        stops = self.outage[0] if self.outage else instant
        times = self.columns["time"]
        under_way = list(
            accumulate(
                begun - ended - failed
                for begun, ended, failed in zip(
                    self.columns["offered"], self.columns["ok"], self.columns["failed"], strict=True
                )
            )
        )
        steady = [count for end, count in zip(times, under_way, strict=True) if end <= stops]
        usual = sum(steady) / len(steady) if steady else 0.0
        there = [count for end, count in zip(times, under_way, strict=True) if end <= instant]
        most = usual + (1 - share) * (there[-1] - usual) if there else usual
        for end, count in zip(times, under_way, strict=True):
            if end > instant and count <= most:
                return end - instant
        return float("inf")

    def rows(self) -> Iterator[dict[str, float]]:
        """Yield the windows as dictionaries, keys as in `COLUMNS`."""
        for values in zip(*(self.columns[name] for name in COLUMNS), strict=True):
            yield dict(zip(COLUMNS, values, strict=True))

    def write_csv(self, path: Path) -> None:
        """Write the windows as comma-separated values with a line of names. Raises OSError."""
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows())

    def write_parquet(self, path: Path) -> None:
        """Write the windows as a Parquet file. Raises OSError, and ImportError without the extra."""
        parquet.write(path, {name: list(self.columns[name]) for name in COLUMNS})

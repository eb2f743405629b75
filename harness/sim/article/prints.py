"""The output of the article's two programs, and a table that compares strategies."""

from __future__ import annotations

import math
from statistics import median_low
from typing import TYPE_CHECKING, Final

from harness.report.fitting import aligned
from harness.sim.article.scenario import repeats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from harness.sim.article.scenario import ArticleTrial

CLIENT_SECONDS: Final = 5
"""The clients print every five seconds, the server every second."""

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0
_LONGEST: Final = 100 * _HOUR
"""Longer delays are written as powers of ten; nobody reads them in hours."""


def client_lines(trial: ArticleTrial) -> Iterator[str]:
    """Yield the clients' print for each five seconds of a trial, with the instant at which it is due."""
    columns = trial.outcome.columns
    times = columns["time"]
    for first in range(0, len(times), CLIENT_SECONDS):
        part = slice(first, first + CLIENT_SECONDS)
        end = times[part][-1]
        began = times[first - 1] if first else 0.0
        ok, errors, timed_out = (
            sum(columns[name][part]) / (end - began) for name in ("ok", "errors", "timed_out")
        )
        yield (
            f"{end:6.1f} s  OK: {ok:.2f} req/sec, errors: {errors:.2f} req/sec, "
            f"timedout: {timed_out:.2f} req/sec"
        )


def server_lines(trial: ArticleTrial, spans: Sequence[tuple[float, float]]) -> Iterator[str]:
    """Yield the server's print for each second within spans of time; a stopped server prints nothing."""
    parameters, columns = trial.parameters, trial.outcome.columns
    rows = zip(columns["time"], columns["concurrency"], trial.last_delays(), strict=True)
    for end, concurrency, delay in rows:
        stopped = parameters.stops_at < end <= parameters.resumes_at
        if not stopped and any(first <= end <= last for first, last in spans):
            yield f"{end:6.1f} s  concurrency: {int(concurrency):4d}, last delay: {duration(delay)}"


def duration(seconds: float) -> str:
    """Return a length of time as the article's server prints it, to the millisecond."""
    if not seconds < _LONGEST:
        return f"{seconds:.3g}s"
    milliseconds = round(seconds * 1000)
    if milliseconds < 1000:  # noqa: PLR2004 - a second
        return f"{milliseconds}ms"
    whole, rest = divmod(milliseconds / 1000, _MINUTE)
    hours, minutes = divmod(int(whole), 60)
    said = f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{said}"
    return f"{minutes}m{said}" if minutes else said


def table(trials: Sequence[ArticleTrial], width: int | None = None) -> list[str]:
    """Return the comparison of trials as aligned lines, a row for each strategy and tier, or as cards."""
    return aligned([HEADINGS, *map(cells, repeats(trials))], width, words=_WORDS)


HEADINGS: Final = (
    *("strategy", "tier", "OK/s before", "stopped", "after", "attempts per success", "recovers after"),
    *("caught up after", "peak concurrency", "p50 of successes", "p99 of successes"),
)
_WORDS: Final = 2
"""The first columns, which are words; numbers are aligned at their end."""


def cells(trials: Sequence[ArticleTrial]) -> tuple[str, ...]:
    """Return the row of trials that differ in their seeds, as texts in the order of `HEADINGS`.

    They are medians; of recovery, catching up and peak concurrency the least and the most stand behind.
    """
    measures = [trial.measures() for trial in trials]
    recovery = _spread([each.recovery for each in measures], _recovery)
    caught_up = _spread([each.caught_up for each in measures], _caught_up)
    before = median_low([each.before for each in measures])
    if before == 0:
        recovery = caught_up = "-"  # there was nothing to come back to
    attempts = median_low([each.attempts_per_success for each in measures])
    return (
        trials[0].strategy,
        trials[0].tier,
        f"{before:.1f}",
        f"{median_low([each.stopped for each in measures]):.1f}",
        f"{median_low([each.after for each in measures]):.1f}",
        "-" if math.isinf(attempts) else f"{attempts:.2f}",
        recovery,
        caught_up,
        _spread([each.peak_concurrency for each in measures], "{:.0f}".format),
        _latency(median_low([each.median for each in measures])),
        _latency(median_low([each.percentile_99 for each in measures])),
    )


def _spread(values: Sequence[float], text: Callable[[float], str]) -> str:
    """Return the median of values and, where there are several, the least and the most."""
    middle = text(median_low(values))
    least, most = text(min(values)), text(max(values))
    return middle if least == most else f"{middle} ({least} to {most})"


def _recovery(seconds: float) -> str:
    if math.isinf(seconds):
        return "does not recover"
    return f"{seconds:.0f} s" if seconds else "< 1 s"  # it is right to a window


def _caught_up(seconds: float) -> str:
    return "never" if math.isinf(seconds) else f"{seconds:.0f} s"


def _latency(seconds: float) -> str:
    return "-" if math.isinf(seconds) else f"{seconds * 1000:.0f} ms"

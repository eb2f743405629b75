"""The article's pictures, drawn anew, and those that compare strategies: SVG files and parts of a page."""

from __future__ import annotations

import math
from functools import partial
from statistics import median_low
from typing import TYPE_CHECKING, Final

from harness.report.pages import chart
from harness.report.pages.chart import Bars, Instant, Level, Line, Panel, Span
from harness.sim.article.parameters import ArticleParameters
from harness.sim.article.scenario import repeats
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.report.pages.chart import Kind
    from harness.sim.article.scenario import ArticleTrial
    from mongowire.ports import Rng


# The delays of exponential backoff by attempt, with the two sets of parameters that the article draws.


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


TITLES: Final[Mapping[str, str]] = {
    "article-intervals": "Delay of exponential backoff by attempt, five clients each",
    "article-rates": "Answers, timeouts and errors per second",
    "article-concurrency": "Most requests at the server at a time, by second",
    "article-latency": "Longest time of a request at the server, by second",
    "article-attempts": "Attempts per success",
}
"""The pictures by the names of their files."""

_MOST_DELAY: Final = 1000.0
"""Seconds; service times beyond it, which no client sees, are drawn at the edge of the picture."""

_COLUMNS: Final = 2


def pictures(trials: Sequence[ArticleTrial]) -> Iterator[tuple[str, Sequence[Panel | Bars]]]:
    """Yield the name and the panels of every picture.

    Of trials that differ in their seeds the first is drawn, with the recoveries of all.
    """
    groups = repeats(trials)
    trials = [group[0] for group in groups]
    yield "article-intervals", _intervals()
    yield "article-rates", _rates(groups)
    lines = _compared(trials, [trial.outcome.columns["peak_concurrency"] for trial in trials])
    concurrency = _over_time(TITLES["article-concurrency"], trials[0], lines, y="requests", y_kind="symlog")
    yield "article-concurrency", [concurrency]
    yield "article-latency", [_latency(trials)]
    yield "article-attempts", [_attempts(trials)]


def files(trials: Sequence[ArticleTrial]) -> Iterator[tuple[str, str]]:
    """Yield the name and the SVG of every picture."""
    for name, panels in pictures(trials):
        yield name, chart.file(panels, title=TITLES[name], columns=_COLUMNS)


def _intervals() -> list[Panel]:
    attempts = range(1, DRAWN_ATTEMPTS + 1)
    lines = []
    for number, (label, parameters) in enumerate(ARTICLE_CURVES.items()):
        rng = SeededRng(parameters.seed, label)
        for client in range(5):
            waited = intervals(parameters, DRAWN_ATTEMPTS, rng.spawn(str(client)))
            points = list(zip(attempts, waited, strict=True))
            lines.append(Line("" if client else label, points, chart.SERIES[number], dash=number))
    both: tuple[tuple[str, Kind], ...] = (("linear scale", "linear"), ("logarithmic scale", "log"))
    return [
        Panel(
            title=title,
            x="failed attempts in a row",
            y="delay, seconds",
            lines=lines,
            x_least=1,
            x_most=DRAWN_ATTEMPTS,
            y_kind=kind,
        )
        for title, kind in both
    ]


_RATES: Final = (
    ("timed_out", "timed out", "error", 1),
    ("errors", "errors", "rejected", 2),
    ("ok", "OK", "ok", 0),
)
"""The lines of rates: column, name, colour and style."""


def _rates(groups: Sequence[Sequence[ArticleTrial]]) -> list[Panel]:
    trials = [group[0] for group in groups]
    has_errors = any(any(trial.outcome.columns["errors"]) for trial in trials)
    # Of errors there may be a hundred times as many, of which a limiter makes little: they are cut off.
    most = (
        max(max(trial.outcome.columns[name]) for trial in trials for name in ("ok", "timed_out")) * 1.1 or 1.0
    )
    return [
        _over_time(
            name,
            trial,
            [
                Line(
                    label,
                    list(zip(trial.outcome.columns["time"], trial.outcome.columns[column], strict=True)),
                    colour,
                    dash,
                )
                for column, label, colour, dash in _RATES
                if column != "errors" or has_errors
            ],
            y="per second",
            most=most,
            group=group,
        )
        for group, trial, name in zip(groups, trials, _names(trials), strict=True)
    ]


def _over_time(
    title: str,
    trial: ArticleTrial,
    lines: Sequence[Line],
    *,
    y: str,
    y_kind: Kind = "linear",
    most: float | None = None,
    group: Sequence[ArticleTrial] = (),
    levels: Sequence[Level] = (),
) -> Panel:
    """Return a panel over the time of the scenario, in which the server is stopped for a while."""
    own = trial.parameters
    recovered, instants = _recovery(group) if group else ((), ())
    return Panel(
        title=title,
        x="seconds",
        y=y,
        lines=lines,
        spans=[Span(own.stops_at, own.resumes_at, "server stopped"), *recovered],
        instants=instants,
        levels=levels,
        y_kind=y_kind,
        x_least=0.0,
        x_most=own.seconds,
        most=most,
    )


def _recovery(group: Sequence[ArticleTrial]) -> tuple[Sequence[Span], Sequence[Instant]]:
    """Return when the service had recovered: from the least to the most, and the median."""
    resumed = group[0].parameters.resumes_at
    found = [trial.measures().recovery for trial in group]
    middle, least, most = median_low(found), min(found), max(found)
    if math.isinf(middle):
        return [Span(resumed, group[0].parameters.seconds, "does not recover", "plain")], []
    most = min(most, group[0].parameters.seconds - resumed)
    spans = [Span(resumed + least, resumed + most, "", "good")] if most > least else []
    return spans, [Instant(resumed + middle, "recovered", good=True)]


def _latency(trials: Sequence[ArticleTrial]) -> Panel:
    drawn = [[min(delay, _MOST_DELAY) for delay in trial.longest_delays()] for trial in trials]
    levels = [Level(trials[0].parameters.timeout, "clients give up")]
    lines = _compared(trials, drawn)
    return _over_time(
        TITLES["article-latency"],
        trials[0],
        lines,
        y="seconds",
        y_kind="log",
        most=_MOST_DELAY,
        levels=levels,
    )


def _compared(trials: Sequence[ArticleTrial], values: Sequence[Sequence[float]]) -> list[Line]:
    """Return a line for each trial: its strategy's colour, and a style of its own."""
    colours = dict(zip(dict.fromkeys(trial.strategy for trial in trials), chart.SERIES, strict=False))
    return [
        Line(name, list(zip(trial.outcome.columns["time"], line, strict=True)), colours[trial.strategy], dash)
        for dash, (trial, line, name) in enumerate(zip(trials, values, _names(trials), strict=True))
    ]


def _attempts(trials: Sequence[ArticleTrial]) -> Bars:
    measured = [trial.measures().attempts_per_success for trial in trials]
    values = [(0.0, "no success") if math.isinf(value) else (value, f"{value:.2f}") for value in measured]
    return Bars(
        title=TITLES["article-attempts"],
        x="attempts per success, over the whole scenario",
        names=_names(trials),
        series=[("", values)],
    )


def _names(trials: Sequence[ArticleTrial]) -> list[str]:
    """Return what tells trials apart: their strategy and, where there are several tiers, that, too."""
    if len({trial.tier for trial in trials}) == 1:
        return [str(trial.strategy) for trial in trials]
    return [trial.tier_and_strategy for trial in trials]

"""The article's pictures, drawn anew, and those that compare strategies: SVG files and parts of a page."""

from __future__ import annotations

import math
from statistics import median_low
from typing import TYPE_CHECKING, Any, Final

from harness.report import plots
from harness.sim.article.intervals import ARTICLE_CURVES, DRAWN_ATTEMPTS, intervals
from harness.sim.article.trial import repeats
from mongowire.system import SeededRng

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from harness.sim.article.trial import ArticleTrial

TITLES: Final[Mapping[str, str]] = {
    "article-intervals": "Delay of exponential backoff by attempt: two sets of parameters, five clients each",
    "article-rates": "Answers, timeouts and errors per second",
    "article-concurrency": "Most requests at the server at a time, in each second",
    "article-latency": "Longest time that the server takes for a request, in each second",
    "article-attempts": "Attempts per success",
}
"""The pictures by the names of their files."""

_WIDE: Final = (7.0, 3.4)
_PANEL_HEIGHT: Final = 2.1
_MOST_DELAY: Final = 1000.0
"""Seconds; service times beyond it, which no client sees, are drawn at the edge of the picture."""


def pictures(trials: Sequence[ArticleTrial]) -> Iterator[tuple[str, str]]:
    """Yield the name and the SVG of every picture. Raises `MissingPlotsError` without the extra `plots`.

    Of trials that differ in their seeds the first is drawn, with the recoveries of all.
    """
    groups = repeats(trials)
    trials = [group[0] for group in groups]
    yield "article-intervals", plots.svg(_intervals, columns=2, size=_WIDE)
    columns = min(len(trials), 2)
    rows = math.ceil(len(trials) / columns)
    yield (
        "article-rates",
        plots.svg(
            lambda axes: _rates(axes, groups),
            rows=rows,
            columns=columns,
            size=(_WIDE[0], max(rows * _PANEL_HEIGHT, _WIDE[1] - 0.6)),
            share_x=True,
            share_y=True,
        ),
    )
    yield "article-concurrency", plots.svg(lambda axes: _concurrency(axes, trials), size=_WIDE)
    yield "article-latency", plots.svg(lambda axes: _latency(axes, trials), size=_WIDE)
    yield "article-attempts", plots.svg(lambda axes: _attempts(axes, trials), size=_WIDE)


def _intervals(axes: Any) -> None:
    linear, logarithmic = axes
    attempts = range(1, DRAWN_ATTEMPTS + 1)
    for (label, parameters), colour in zip(ARTICLE_CURVES.items(), ("#0072b2", "#009e73"), strict=True):
        rng = SeededRng(parameters.seed, label)
        for client in range(5):
            waited = intervals(parameters, DRAWN_ATTEMPTS, rng.spawn(str(client)))
            for panel in axes:
                panel.plot(attempts, waited, color=colour, linewidth=1, label="" if client else label)
    for panel in axes:
        panel.set_xlabel("failed attempts in a row")
    linear.set_ylabel("delay, seconds")
    linear.set_title("linear", loc="left")
    logarithmic.set_yscale("log")
    logarithmic.set_title("logarithmic", loc="left")
    logarithmic.legend(fontsize=7, loc="lower right")


def _rates(axes: Any, groups: Sequence[Sequence[ArticleTrial]]) -> None:
    trials = [group[0] for group in groups]
    panels = list(axes.flat) if hasattr(axes, "flat") else [axes]
    names = _names(trials)
    has_errors = any(any(trial.outcome.columns["errors"]) for trial in trials)
    # Of errors there may be a hundred times as many, of which a limiter makes little: they are cut off.
    most = max(max(trial.outcome.columns[name]) for trial in trials for name in ("ok", "timed_out"))
    for panel, group, trial, name_of_trial in zip(panels, groups, trials, names, strict=False):
        columns = trial.outcome.columns
        _shade(panel, trial)
        _mark_recovery(panel, group)
        for name, label, colour in (
            ("timed_out", "timed out", "#d55e00"),
            ("errors", "errors", "#8c8c8c"),
            ("ok", "OK", "#0072b2"),
        ):
            if name != "errors" or has_errors:
                panel.plot(columns["time"], columns[name], color=colour, linewidth=1.2, label=label)
        panel.set_title(name_of_trial, loc="left")
        panel.set_ylim(0, most * 1.1 or 1)
        panel.label_outer()
    for panel in panels[len(trials) :]:
        panel.set_visible(False)
    panels[0].set_ylabel("per second")
    panels[len(trials) - 1].set_xlabel("seconds")
    panels[0].legend(fontsize=7)


def _mark_recovery(panel: Any, group: Sequence[ArticleTrial]) -> None:
    """Mark when the service had recovered: the median, and from the least to the most."""
    resumed = group[0].parameters.resumes_at
    found = [trial.measures().recovery for trial in group]
    middle, least, most = median_low(found), min(found), max(found)
    if math.isinf(middle):
        return
    most = min(most, group[0].parameters.seconds - resumed)
    panel.axvspan(resumed + least, resumed + most, color="#009e73", alpha=0.15, linewidth=0)
    panel.axvline(resumed + middle, color="#009e73", linestyle="--", linewidth=1, label="recovered")


def _concurrency(axes: Any, trials: Sequence[ArticleTrial]) -> None:
    _over_time(axes, trials, [trial.outcome.columns["peak_concurrency"] for trial in trials])
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylabel("most requests at a time")


def _latency(axes: Any, trials: Sequence[ArticleTrial]) -> None:
    drawn = [[min(delay, _MOST_DELAY) for delay in trial.longest_delays()] for trial in trials]
    _over_time(axes, trials, drawn)
    axes.set_yscale("log")
    axes.set_ylabel("seconds")
    axes.set_ylim(top=_MOST_DELAY)
    axes.axhline(trials[0].parameters.timeout, color="black", linewidth=0.8, linestyle=":")
    axes.annotate(
        "clients give up", (0, trials[0].parameters.timeout), (2, 2), textcoords="offset points", fontsize=7
    )


def _over_time(axes: Any, trials: Sequence[ArticleTrial], lines: Sequence[Sequence[float]]) -> None:
    """Draw a line for each trial: its strategy's colour, dashed where it was measured live."""
    _shade(axes, trials[0])
    colours = dict(zip(dict.fromkeys(trial.strategy for trial in trials), plots.COLOURS, strict=False))
    for trial, line, label in zip(trials, lines, _names(trials), strict=True):
        axes.plot(
            trial.outcome.columns["time"],
            line,
            color=colours[trial.strategy],
            linestyle="-" if trial.tier == "model" else "--",
            linewidth=1.2,
            label=label,
        )
    axes.set_xlabel("seconds")
    axes.legend(fontsize=7)


def _attempts(axes: Any, trials: Sequence[ArticleTrial]) -> None:
    measured = [trial.measures().attempts_per_success for trial in trials]
    drawn = [0.0 if math.isinf(value) else value for value in measured]
    bars = axes.barh(_names(trials), drawn, color=plots.COLOURS[0])
    axes.bar_label(
        bars, ["no success" if math.isinf(value) else f"{value:.2f}" for value in measured], padding=3
    )
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("attempts per success, over the whole scenario")


def _names(trials: Sequence[ArticleTrial]) -> list[str]:
    """Return what tells trials apart: their strategy and, where there are several tiers, that, too."""
    if len({trial.tier for trial in trials}) == 1:
        return [str(trial.strategy) for trial in trials]
    return [trial.tier_and_strategy for trial in trials]


def _shade(axes: Any, trial: ArticleTrial) -> None:
    """Mark the time in which the server is stopped."""
    axes.axvspan(trial.parameters.stops_at, trial.parameters.resumes_at, color="0.92", linewidth=0)

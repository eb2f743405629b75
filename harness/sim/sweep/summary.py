"""The summary of a sweep: a row for each combination of parameters, over its seeds."""

from __future__ import annotations

import json
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from harness.report.pages import frame
from harness.report.pages.chart import Bars, written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


_MEASURES: Final = {
    "goodput": "good/s",
    "attempts_per_success": "attempts per success",
    "latency_p99": "p99 s",
    "recovery_time": "recovery s",
}
"""The measures of the summary, and the heads of their columns."""


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return a row of texts for each combination of parameters, in the order of their first points.

    A number is the mean over the seeds, with half the range between the least and the largest behind it; of a
    measure that is not there for some seeds, how many; "none" where it is there for none.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(json.dumps(row["parameters"], sort_keys=True), []).append(row)
    return [
        {
            **{name: value if isinstance(value, str) else json.dumps(value) for name, value in told.items()},
            "seeds": str(len(group)),
            **{
                head: _over_seeds([row["measures"].get(name) for row in group])
                for name, head in _MEASURES.items()
            },
        }
        for told, group in ((group[0]["parameters"], group) for group in groups.values())
    ]


def _over_seeds(values: Sequence[float | None]) -> str:
    there = [value for value in values if value is not None]
    if not there:
        return "none"
    half = (max(there) - min(there)) / 2
    text = f"{fmean(there):.4g}" + (f" ±{half:.2g}" if half else "")
    return text if len(there) == len(values) else f"{text} ({len(values) - len(there)} without)"


# The page of a sweep: a table of its points, and bars of what they came to.


_MOST_BARS: Final = 40
"""With more points bars are no picture; the table has them all."""

_DRAWN: Final = (("goodput", "successes per second"), ("attempts_per_success", "attempts per success"))
_LEFT_OUT: Final = ("trace",)


def page(grid: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of a grid's results: rows as `results.table` has them."""
    names = [name for name in rows[0] if name not in _LEFT_OUT]
    # What comes before the measures, of which the number of offered operations is the first.
    parameters = names[: names.index("offered")]
    varied = [name for name in parameters if len({str(row[name]) for row in rows}) > 1]
    labels = [
        ", ".join(f"{name.rpartition('.')[2]} {row[name]}" for name in varied) or "the only point"
        for row in rows
    ]
    table = frame.table(
        ("point", *(name for name in names if name not in varied)),
        [
            (label, *(_cell(row[name]) for name in names if name not in varied))
            for label, row in zip(labels, rows, strict=True)
        ],
        caption="Points and their measures; times are seconds",
    )
    sections = [frame.section("Points", frame.scrolling(table, label="Points and their measures"))]
    if len(rows) <= _MOST_BARS:
        bars = [_bars(title, name, labels, rows) for name, title in _DRAWN]
        sections.insert(0, frame.section("Compared", frame.panels(bars, title=grid.stem)))
    return frame.page(f"Sweep of {grid.name}", sections, facts=f"{len(rows)} points")


def _bars(title: str, name: str, labels: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Bars:
    values = [(row[name] or 0.0, "never" if row[name] is None else _cell(row[name])) for row in rows]
    return Bars(title=title.capitalize(), x=title, names=labels, series=[("", values)])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return written(round(value, 3)) if isinstance(value, int | float) else str(value)

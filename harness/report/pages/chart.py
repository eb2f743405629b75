"""Charts: panels of lines over time and of bars, as SVG; the same numbers give the same bytes.

Each line has a colour and a style of its own, and its name in a legend above. What happened, and for how
long, is named on a strip between the legend and the lines. A file has its panels side by side; in a page each
is an SVG of its own, so that a phone shows one below the other.

A caller describes a `Panel` or `Bars` and calls `file` or `elements`; it knows no pixels. Above a plot stand
the title, the legend and the strip, each as tall as its texts need, so a panel's height is known only when
they have been laid out. Every panel has a description in words as well (`_described`), for readers who do not
see it and for tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from harness.report.pages import markup
from harness.report.pages.markup import escaped, fitted, svg

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


# Scales of axes: where a value stands between the ends, and which values are written beside the axis.


Kind: TypeAlias = Literal["linear", "log", "symlog"]

_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
_MOST_DECADES: Final = 6
# Relative; what a division leaves of a number that is round.
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
            rough = (self.most - self.least) / about
            power = 10.0 ** math.floor(math.log10(rough))
            step = next(each * power for each in _STEPS if each * power >= rough * (1 - _TINY))
            first = math.ceil(self.least / step - _TINY)
            return [
                round(number * step, 10) for number in range(first, math.floor(self.most / step + _TINY) + 1)
            ]
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


SERIES: Final = ("s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8")
"""Colours that tell compared lines apart, in the order of use; those that mean something are `Meaning`."""

Meaning: TypeAlias = Literal["ok", "error", "rejected"]
"""The fate of requests: the colours of the live page."""

Point: TypeAlias = tuple[float, float]

# In pixels; a letter is what a sans-serif font of 12 pixels takes, rather more than less.
_WIDTH: Final = 460
_PLOT: Final = 190
_LEFT: Final = 52
_RIGHT: Final = 14
_LETTER: Final = 6.7
_LEGEND_ROW: Final = 18
_STRIP_ROW: Final = 16
_SWATCH: Final = 26
_BELOW: Final = 38
_GAP: Final = 20
_NAME: Final = 220
_BAR: Final = 26
_THIN_BAR: Final = 18
_DASHES: Final = 6


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its name in the legend, its points, and what its colour is; `dash` numbers its style.

    `dots` marks its points, of which there are few.
    """

    name: str
    points: Sequence[Point]
    colour: str = "s1"
    dash: int = 0
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A length of time with a name, as that in which a server was stopped; a `plain` one is not shaded."""

    start: float
    end: float
    name: str
    shade: Literal["plain", "shaded", "good"] = "shaded"


@dataclass(frozen=True, slots=True)
class Instant:
    """An instant with a name."""

    at: float
    name: str
    good: bool = False


@dataclass(frozen=True, slots=True)
class Level:
    """A value that lines are held against, as a capacity; `around` is a part of it, on both sides."""

    value: float
    name: str
    around: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Lines over one axis of time or of sizes."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    spans: Sequence[Span] = ()
    instants: Sequence[Instant] = ()
    levels: Sequence[Level] = ()
    x_kind: Kind = "linear"
    y_kind: Kind = "linear"
    x_least: float | None = None
    x_most: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A bar for each name, in groups of one or several series, with what is written at its end."""

    title: str
    x: str
    names: Sequence[str]
    series: Sequence[tuple[str, Sequence[tuple[float, str]]]]


class _Drawn(NamedTuple):
    body: str
    height: float


def file(panels: Sequence[Panel | Bars], *, title: str, columns: int = 1) -> str:
    """Return an SVG file of panels, side by side in so many columns."""
    drawn = [_draw(panel) for panel in panels]
    body, top = [], 0.0
    for first in range(0, len(drawn), columns):
        row = drawn[first : first + columns]
        body += [
            f'<g transform="translate({place * (_WIDTH + _GAP)},{top:g})">{each.body}</g>'
            for place, each in enumerate(row)
        ]
        top += max(each.height for each in row)
    across = min(columns, len(drawn))
    return svg(
        "".join(body),
        size=(across * _WIDTH + (across - 1) * _GAP, top),
        title=title,
        description=" ".join(map(_described, panels)),
        kind="chart",
        style=markup.of_picture("chart"),
    )


def elements(panels: Iterable[Panel | Bars], *, title: str) -> Iterator[str]:
    """Yield an SVG for each panel, for a page that has the sheets `palette` and `chart`."""
    for panel in panels:
        drawn = _draw(panel)
        name = f"{title}: {panel.title}" if panel.title != title else title
        yield svg(
            drawn.body, size=(_WIDTH, drawn.height), title=name, description=_described(panel), kind="chart"
        )


def _draw(panel: Panel | Bars) -> _Drawn:
    return _lines(panel) if isinstance(panel, Panel) else _bars(panel)


def _described(panel: Panel | Bars) -> str:
    """Return in words what a panel shows: of each line the first, the least, the most and the last."""
    if isinstance(panel, Bars):
        facts = [
            f"{name}, {series or panel.x}: {said}"
            for series, values in panel.series
            for name, (_, said) in zip(panel.names, values, strict=True)
        ]
        return f"{panel.title}. {'; '.join(facts)}."
    facts = [_told(line) for line in panel.lines if line.name]
    facts += [f"{span.name} from {span.start:g} to {span.end:g}" for span in panel.spans]
    facts += [f"{each.name} at {each.at:g}" for each in panel.instants]
    facts += [f"{level.name} {level.value:g}" for level in panel.levels]
    return f"{panel.title}. {panel.y} over {panel.x}: {'; '.join(facts)}."


def _told(line: Line) -> str:
    values = [y for _, y in line.points if math.isfinite(y)]
    if not values:
        return f"{line.name} has no points"
    ends = (values[0], min(values), max(values), values[-1])
    first, least, most, last = (f"{value:.4g}" for value in ends)
    return f"{line.name} begins at {first}, is {least} to {most}, ends at {last}"


# Lines


def _lines(panel: Panel) -> _Drawn:
    head, top = _head(panel.title, panel.y, _legend_of(panel))
    values = [at for line in panel.lines for at, _ in line.points]
    most = max(values, default=1.0) if panel.x_most is None else panel.x_most
    least = min(values, default=0.0) if panel.x_kind == "log" else panel.x_least
    x = around(values, panel.x_kind, least=least, most=most)
    # After the axis: names stand above their instants, and names that would overlap get a row of their own.
    strip, rows = _strip(panel, x)
    top += rows * _STRIP_ROW + 6
    y = around(
        [value for line in panel.lines for _, value in line.points]
        + [level.value * (1 + level.around) for level in panel.levels],
        panel.y_kind,
        least=None,
        most=panel.most,
    )
    plot = _Plot(x, y, top)
    body = "".join(
        (
            head,
            *(plot.span(span) for span in panel.spans),
            plot.axes(panel.x),
            *(plot.level(level) for level in panel.levels),
            *(plot.instant(each) for each in panel.instants),
            *(plot.line(line) for line in panel.lines),
            f'<g transform="translate(0,{top - rows * _STRIP_ROW - 4:g})">{strip}</g>',
        )
    )
    return _Drawn(body, top + _PLOT + _BELOW)


class _Plot:
    """The place of the lines, between the axes."""

    def __init__(self, x: Scale, y: Scale, top: float) -> None:
        self._x, self._y, self._top = x, y, top
        self._bottom = top + _PLOT

    def across(self, value: float) -> float:
        return _across(self._x, value)

    def up(self, value: float) -> float:
        return round(self._bottom - self._y.place(value) * _PLOT, 1)

    def axes(self, name: str) -> str:
        right = _WIDTH - _RIGHT
        grid = "".join(f"M{_LEFT} {self.up(tick)}H{right}" for tick in self._y.ticks())
        values = "".join(
            f'<text class="tick y" x="{_LEFT - 6}" y="{self.up(tick) + 4}">{written(tick)}</text>'
            for tick in self._y.ticks()
        )
        times = "".join(
            f'<text class="tick x" x="{min(self.across(tick), right - 8)}" y="{self._bottom + 16:g}">'
            f"{written(tick)}</text>"
            for tick in self._x.ticks(5)
        )
        middle = (_LEFT + right) // 2
        return (
            f'<path class="grid" d="{grid}"/><path class="axis" d="M{_LEFT} {self._bottom:g}H{right}"/>'
            f"{values}{times}"
            f'<text class="quiet x" x="{middle}" y="{self._bottom + 32:g}">{escaped(name)}</text>'
        )

    def span(self, span: Span) -> str:
        left, right = self.across(span.start), self.across(span.end)
        if span.shade == "plain":
            return ""
        kind = "band good" if span.shade == "good" else "band"
        return (
            f'<rect class="{kind}" x="{left}" y="{self._top:g}" width="{max(right - left, 1):g}"'
            f' height="{_PLOT}"><title>{escaped(span.name)}</title></rect>'
        )

    def instant(self, each: Instant) -> str:
        kind = "event good" if each.good else "event"
        return f'<path class="{kind}" d="M{self.across(each.at)} {self._top:g}V{self._bottom:g}"/>'

    def level(self, level: Level) -> str:
        line = f'<path class="level" d="M{_LEFT} {self.up(level.value)}H{_WIDTH - _RIGHT}"/>'
        if not level.around:
            return line
        high, low = (self.up(level.value * (1 + sign * level.around)) for sign in (1, -1))
        width = _WIDTH - _RIGHT - _LEFT
        return f'<rect class="band" x="{_LEFT}" y="{high}" width="{width}" height="{low - high:g}"/>{line}'

    def line(self, line: Line) -> str:
        places = list(_thinned((self.across(x), self.up(y)) for x, y in line.points if math.isfinite(y)))
        path = "M" + "L".join(f"{x:g} {y:g}" for x, y in places) if places else ""
        dots = "".join(f'<circle class="{line.colour}" cx="{x:g}" cy="{y:g}" r="2.5"/>' for x, y in places)
        return f'<path class="line {line.colour}{_dash(line)}" d="{path}"/>{dots if line.dots else ""}'


def _across(scale: Scale, value: float) -> float:
    return round(_LEFT + scale.place(value) * (_WIDTH - _LEFT - _RIGHT), 1)


def _thinned(places: Iterable[Point]) -> Iterator[Point]:
    """Yield the places of a line: of a column of pixels the first, the highest, the lowest and the last."""
    column: list[Point] = []
    for place in places:
        if column and int(place[0]) != int(column[0][0]):
            yield from _outline(column)
            column = []
        column.append(place)
    yield from _outline(column)


def _outline(column: list[Point]) -> Iterator[Point]:
    if len(column) <= 4:  # noqa: PLR2004 - as many as below
        yield from column
        return
    heights = [y for _, y in column]
    # More cannot be seen in one column of pixels, and would only make the file larger.
    kept = {0, heights.index(min(heights)), heights.index(max(heights)), len(column) - 1}
    yield from (column[place] for place in sorted(kept))


def _dash(line: Line) -> str:
    number = line.dash % _DASHES
    return f" dash{number}" if number else ""


# What stands above the lines


def _head(title: str, unit: str, legend: Sequence[tuple[str, str]]) -> tuple[str, float]:
    """Return the title with the unit of the axis, and the legend below it; and where it ends."""
    said = f'<text y="16"><tspan class="name">{fitted(title, _WIDTH - len(unit) * _LETTER - 10, 7.4)}</tspan>'
    said += f'<tspan class="quiet" dx="8">{escaped(unit)}</tspan></text>' if unit else "</text>"
    parts, x, y = [said], 0.0, 36.0
    for swatch, name in legend:
        width = _SWATCH + 6 + len(name) * _LETTER + 14
        if x and x + width > _WIDTH:
            x, y = 0.0, y + _LEGEND_ROW
        parts.append(
            f'<g transform="translate({x:g},{y:g})">{swatch}'
            f'<text x="{_SWATCH + 6}">{fitted(name, _WIDTH - _SWATCH - 6, _LETTER)}</text></g>'
        )
        x += width
    return "".join(parts), (y + 8 if legend else 24.0)


def _legend_of(panel: Panel) -> list[tuple[str, str]]:
    """Return a swatch and a name for each line and level that has one; one line alone needs none."""
    line = f"M0-4H{_SWATCH}"
    found = [
        (f'<path class="line {each.colour}{_dash(each)}" d="{line}"/>', each.name)
        for each in panel.lines
        if each.name
    ]
    found += [(f'<path class="level" d="{line}"/>', level.name) for level in panel.levels]
    return found


def _strip(panel: Panel, x: Scale) -> tuple[str, int]:
    """Return the names of what happened, each above its place in a row that has room, and the rows."""
    wanted = [
        ((_across(x, span.start) + _across(x, span.end)) / 2, span.name) for span in panel.spans if span.name
    ]
    wanted += [(_across(x, each.at), each.name) for each in panel.instants if each.name]
    taken: list[float] = []
    parts = []
    for middle, name in sorted(wanted):
        half = len(name) * _LETTER / 2
        place = min(max(middle, half), _WIDTH - half)
        row = next((row for row, end in enumerate(taken) if place - half > end + 6), len(taken))
        taken[row:] = [place + half, *taken[row + 1 :]]
        parts.append(
            f'<text class="quiet mid" x="{place:.1f}" y="{(row + 1) * _STRIP_ROW - 4}">{escaped(name)}</text>'
        )
    return "".join(parts), len(taken)


# Bars


def _bars(bars: Bars) -> _Drawn:
    coloured = list(zip(SERIES, bars.series, strict=False))
    swatch = f'width="{_SWATCH}" height="12" y="-10"'
    legend = [(f'<rect class="bar {colour}" {swatch}/>', name) for colour, (name, _) in coloured if name]
    head, top = _head(bars.title, "", legend)
    left = min(max(map(len, bars.names)) * _LETTER, _NAME) + 8
    said = max(len(text) for _, values in bars.series for _, text in values) * _LETTER + 8
    longest = max((value for _, values in bars.series for value, _ in values), default=0.0) or 1.0
    across, thick = (_WIDTH - left - said) / longest, _BAR if len(coloured) == 1 else _THIN_BAR
    parts, y = [head], top + 8
    for place, name in enumerate(bars.names):
        middle = y + (len(coloured) * thick - 6) / 2 + 4
        parts.append(
            f'<text class="y" x="{left - 8:g}" y="{middle:g}">{fitted(name, left - 8, _LETTER)}</text>'
        )
        for colour, (_, values) in coloured:
            value, text = values[place]
            end = left + value * across
            parts.append(
                f'<rect class="bar {colour}" x="{left:g}" y="{y:g}" width="{end - left:.1f}"'
                f' height="{thick - 6}"/>'
                f'<text class="quiet" x="{end + 6:.1f}" y="{y + thick / 2 + 1:g}">{escaped(text)}</text>'
            )
            y += thick
        y += 4
    parts.append(f'<text class="quiet" x="{left:g}" y="{y + 14:g}">{escaped(bars.x)}</text>')
    return _Drawn("".join(parts), y + 24)

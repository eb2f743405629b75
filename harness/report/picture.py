"""A timeline as a picture: an SVG sequence diagram, made of text.

Lanes are the test, each client and each server. Time goes down the page, in order and not to scale; where
nobody did anything for a while, a break says for how long. The same timeline gives the same bytes.

`harness.explaining.sequence` has read the timeline into rows and lanes; here they get coordinates. A sheet
knows the x of every lane and the y of every row before it draws, because arrows and the bars of servers reach
over rows. Each row is a group at its y with its own coordinates inside, and has the full text of its moments
as its title, which a browser shows when it is pointed at.
"""

from __future__ import annotations

from itertools import pairwise
from math import hypot
from typing import TYPE_CHECKING, Final

from harness.explaining.sequence import WORTH_A_BREAK, Diagram, DiagramRow, Lane, RowKind, counted, read
from harness.report.pages import markup
from harness.report.pages.markup import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.planning.result import Moment

# In pixels. A letter is what a monospaced font of the style's size takes.
_TOP: Final = 70
_ROW: Final = 26
_BREAK: Final = 34
_FIRST_LANE: Final = 120
_LANE: Final = 230
_NARROW_LANE: Final = 190
_IDLE_LANE: Final = 130
_TEST_LANE: Final = 150
_HEAD: Final = 160
_SEVERAL: Final = 5
_TALL: Final = 900
_HEADS: Final = 48
_MARGIN: Final = 270
_STUB: Final = 90
_TIP: Final = 7
_LETTER: Final = 6.95

_NOTHING: Final = '<text x="20" y="35" class="quiet">Nothing happened in this case.</text>'


def svg(timeline: Sequence[Moment], *, title: str, whole: bool = False) -> str:
    """Return the picture as a file of its own, with its style; an empty timeline gives one with a note.

    What comes before the first operation is folded into one row, unless it is wanted `whole`.
    """
    return _drawn(timeline, title, markup.of_picture("sequence"), whole=whole) or markup.svg(
        _NOTHING,
        size=(400, 60),
        title=title,
        description="no moments",
        kind="picture",
        style=markup.of_picture("sequence"),
    )


def drawing(timeline: Sequence[Moment], *, title: str, whole: bool = False) -> str:
    """Return the picture for a page that has the sheet `sequence`; of an empty timeline there is none."""
    return _drawn(timeline, title, "", whole=whole)


def scrolling(timeline: Sequence[Moment], *, title: str) -> str:
    """Return the same with the names of its lanes once more, which stay above it while it scrolls."""
    diagram = read(timeline)
    if not diagram.rows:
        return ""
    sheet = _Sheet(diagram)
    heads = (
        f'<div class="heads" aria-hidden="true"><svg class="picture" width="{sheet.width}" height="{_HEADS}">'
        f"{''.join(sheet.heads(_HEADS - 36))}</svg></div>"
    )
    return heads + drawing(timeline, title=title)


def moment_line(moment: Moment) -> str:
    """Return a moment as a line of text: milliseconds, source, kind and text."""
    text = " ".join(moment.text.split())
    return "  ".join(filter(None, (_milliseconds(moment.at), moment.source, moment.kind, text)))


def summary(diagram: Diagram) -> str:
    """Return a summary of a diagram: counts of commands, failures, retries and fail point hits."""
    commands = [row.command for row in diagram.rows if row.kind is RowKind.ASK and row.command]
    facts = {
        "commands": len(commands),
        "failed": sum(command.failed for command in commands),
        "retries": sum(command.attempt > 1 for command in commands),
        "fail point hits": sum(row.kind is RowKind.HIT for row in diagram.rows),
    }
    counts = ", ".join(f"{name}: {count}" for name, count in facts.items() if count) or "no commands"
    return f"{counts}; {_span(_last(diagram.rows[-1]) - _first(diagram.rows[0]))}"


def _drawn(timeline: Sequence[Moment], title: str, own_style: str, *, whole: bool) -> str:
    diagram = read(timeline, whole=whole)
    if not diagram.rows:
        return ""
    sheet = _Sheet(diagram)
    return markup.svg(
        "".join(sheet.parts()),
        size=(sheet.width, sheet.height),
        title=title,
        description=summary(diagram),
        kind="picture",
        style=own_style,
    )


class _Sheet:
    """The drawing: coordinates of lanes and rows, and the elements at them."""

    def __init__(self, diagram: Diagram) -> None:
        self._rows = diagram.rows
        self._x = _lane_positions(diagram)
        self._y, self._breaks, bottom = _row_positions(diagram.rows)
        self._asked = {row.command: row for row in diagram.rows if row.kind is RowKind.ASK}
        self._ends = (min(self._x.values()), max(self._x.values()))
        self.width = self._ends[1] + _MARGIN  # room for the labels beside the last lane
        self.height = (
            bottom if bottom <= _TALL else bottom + 30
        )  # room for the names of the lanes, which a tall picture repeats

    def parts(self) -> Iterator[str]:
        """Yield the elements, the lowest layer first."""
        # Lifelines first, so that everything else lies above them; heads last, above the lines.
        lines = "".join(f"M{x} 40V{self.height - 12}" for x in self._x.values())
        yield f'<g class="life"><path d="{lines}"/></g><text class="t" x="52" y="30">ms</text>'
        yield from (self._break(y, seconds) for y, seconds in self._breaks)
        yield from map(self._row, self._rows)
        yield from self.heads(12)
        if self.height > _TALL:
            yield from self.heads(self.height - 40)

    def heads(self, y: int) -> Iterator[str]:
        """Yield the names of the lanes, in a row."""
        yield from (_head(lane, x, y) for lane, x in self._x.items())

    def _break(self, y: int, seconds: float) -> str:
        return (
            f'<g class="gap" transform="translate(0,{y})"><rect x="60" y="-11" width="{self.width - 60}"'
            f' height="22"/><path d="M68-11H{self.width - 16}M68 11H{self.width - 16}"/>'
            f'<text x="{sum(self._ends) // 2}" y="4">{_span(seconds)}</text></g>'
        )

    def _row(self, row: DiagramRow) -> str:
        title = escaped("\n".join(map(moment_line, row.moments)))
        return (
            f'<g class="{row.kind}{" bad" if row.bad else ""}" transform="translate(0,{self._y[row]})">'
            f'<title>{title}</title><text class="t" x="60" y="4">{_milliseconds(_first(row))}</text>'
            f"{self._drawing_of(row)}</g>"
        )

    def _drawing_of(self, row: DiagramRow) -> str:
        x = self._x[row.lane]
        match row.kind:
            case RowKind.OPERATION:
                return (
                    f'<rect x="68" y="-11" width="{self.width - 84}" height="22" rx="4"/>{self._dot(x, row)}'
                )
            case RowKind.ASK:
                return self._ask(x, row)
            case RowKind.REPLY:
                return self._reply(x, row)
            case RowKind.SERVED:
                return self._busy(row) + f'<circle cx="{x}" r="3"/>'
            case RowKind.HIT:
                return f'<path d="M{x - 6}-6l12 12m0-12l-12 12"/>{self._beside(x, row)}'
            case RowKind.MARK:
                return self._marks(row)
            case RowKind.ENDED:
                return self._dot(x, row)

    def _marks(self, row: DiagramRow) -> str:
        """Return a dot with its label on each lane; a label ends where the next dot of the row is."""
        marks = sorted((self._x[lane], labels) for lane, labels in row.marks.items())
        ends = [x for x, _ in marks[1:]] + [self.width]
        return "".join(
            f'<circle cx="{x}" r="4"/>{_text(x + 12, counted(labels), end - x - 20)}'
            for (x, labels), end in zip(marks, ends, strict=True)
        )

    def _dot(self, x: int, row: DiagramRow) -> str:
        return f'<circle cx="{x}" r="4"/>{self._beside(x, row)}'

    def _beside(self, x: int, row: DiagramRow) -> str:
        return _text(x + 12, row.label, self.width - x - 28)

    def _ask(self, x: int, row: DiagramRow) -> str:
        assert row.command is not None
        end, attempt = self._far_end(x, row), row.command.attempt
        label = _fitted(row.label, abs(end - x) - 20)
        retry = f' <tspan class="retry">attempt {attempt}</tspan>' if attempt > 1 else ""
        return f'{_arrow(x, 0, end, 0)}<text class="mid" x="{(x + end) // 2}" y="-5">{label}{retry}</text>'

    def _reply(self, x: int, row: DiagramRow) -> str:
        command = row.command
        assert command is not None
        start, rise, busy = self._far_end(x, row), 0, ""
        if command.served is row:
            busy = self._busy(row)
        elif command.served is not None:
            # The arrow leaves the server where the command ended there, which is above the row of the reply.
            rise = min(0, self._y[command.served] - self._y[row])
        label = _fitted(row.label, abs(start - x) - 20)
        middle = f'x="{(x + start) // 2}" y="{rise // 2 - 5}"'
        return f'{busy}{_arrow(start, rise, x, 0)}<text class="mid" {middle}>{label}</text>'

    def _far_end(self, x: int, row: DiagramRow) -> int:
        """Return where an arrow ends at the server's side: a stub if no server reported the command."""
        server = row.command.server if row.command else None
        return self._x[server] if server else x + _STUB

    def _busy(self, row: DiagramRow) -> str:
        """Return the bar for the time that the server worked on a command, relative to the row of its end."""
        command = row.command
        assert command is not None
        assert command.server is not None
        rise = self._y[row] - self._y[self._asked[command]]
        x = self._x[command.server] - 4
        return f'<rect class="busy" x="{x}" y="{-rise}" width="8" height="{rise}" rx="2"/>'


def _lane_positions(diagram: Diagram) -> dict[Lane, int]:
    """Return the x coordinates of the lanes: far apart for lanes with arrows, unless there are many."""
    # Labels stand on the arrows between busy lanes; lanes without arrows need room for their heads alone.
    pitch = _LANE if len(diagram.busy) <= _SEVERAL else _NARROW_LANE
    x = dict.fromkeys(diagram.lanes[:1], _FIRST_LANE)
    for lane, following in pairwise(diagram.lanes):
        near = _TEST_LANE if lane.side == "test" else _IDLE_LANE
        apart = pitch if {lane, following} <= diagram.busy and lane.side != "test" else near
        room = (_head_width(lane) + _head_width(following)) // 2 + 12
        x[following] = x[lane] + max(apart, room)
    return x


def _row_positions(rows: Sequence[DiagramRow]) -> tuple[dict[DiagramRow, int], list[tuple[int, float]], int]:
    """Return the y coordinates of the rows, of the breaks with their seconds, and of the bottom."""
    positions: dict[DiagramRow, int] = {}
    breaks: list[tuple[int, float]] = []
    y, before = _TOP, None
    for row in rows:
        if before is not None and _first(row) - before >= WORTH_A_BREAK:
            breaks.append((y, _first(row) - before))
            y += _BREAK
        positions[row] = y
        before = _last(row)
        y += _ROW
    return positions, breaks, y


def _head(lane: Lane, x: int, y: int) -> str:
    width = _head_width(lane)
    return (
        f'<g class="head {lane.side}"><rect x="{x - width // 2}" y="{y}" width="{width}" height="28" rx="6"/>'
        f'<text x="{x}" y="{y + 18}">{_fitted(lane.name, _HEAD)}</text></g>'
    )


def _head_width(lane: Lane) -> int:
    return max(60, round(min(len(lane.name) * _LETTER, _HEAD)) + 26)


def _arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    """Return a line with a tip at its second end."""
    away = hypot(to_x - x, to_y - y) or 1.0
    dx, dy = (to_x - x) / away * _TIP, (to_y - y) / away * _TIP
    wings = ((-dx - dy / 2, -dy + dx / 2), (-dx + dy / 2, -dy - dx / 2))
    left, right = (f"{to_x + x_off:.1f} {to_y + y_off:.1f}" for x_off, y_off in wings)
    line, tip = f"M{x} {y}L{to_x} {to_y}", f"M{left}L{to_x} {to_y}L{right}"
    return f'<path d="{line}"/><path class="tip" d="{tip}"/>'


def _text(x: int, label: str, room: int) -> str:
    return f'<text x="{x}" y="4">{_fitted(label, room)}</text>'


def _fitted(label: str, room: int) -> str:
    """Return a text, escaped and cut to `room` in pixels."""
    return markup.fitted(label, room, _LETTER)


def _first(row: DiagramRow) -> float:
    return row.moments[0].at


def _last(row: DiagramRow) -> float:
    return row.moments[-1].at


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f}"


def _span(seconds: float) -> str:
    """Return a length of time with its unit, milliseconds or seconds."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s"

"""The explanation of a failure in lines for people: location, mismatch, events side by side, causes."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from harness.explaining.text import shortened, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.running.result import Result, Row

_MARKS: Final = {"same": "=", "differs": "≠", "missing": "-", "extra": "+"}
_COLORS: Final = {"same": "green", "differs": "red", "missing": "red", "extra": "yellow"}
_AGREED_SHOWN: Final = 3
"""How many events that are as expected are shown before the first divergence."""

_ROWS_SHOWN: Final = 20
_VALUE_WIDTH: Final = 2000
_ROW_WIDTH: Final = 240


def explanation(
    result: Result, *, colored: bool = False, whole: bool = False, cut: bool = True
) -> Iterator[str]:
    """Yield the explanation of a failed result; with `whole`, also all events that are as expected.

    Without `cut`, long values and events are shown to their ends.
    """
    first, *others = result.reason.splitlines() or [""]
    location = shown(result.location)
    yield f"{click.style(location, bold=True) if colored else location}: {first}"
    yield from others
    if result.mismatch and result.mismatch not in result.reason:
        yield result.mismatch
    if result.expected is not None:
        expected = shortened(result.expected, _VALUE_WIDTH) if cut else result.expected
        yield f"  expected: {_in_color(expected, 'green', colored=colored)}"
    if result.actual is not None:
        actual = shortened(result.actual, _VALUE_WIDTH) if cut else result.actual
        yield f"  actual:   {_in_color(actual, 'red', colored=colored)}"
    yield from side_by_side(result.comparison, colored=colored, whole=whole, cut=cut)
    if result.causes:
        yield f"likely {'causes' if len(result.causes) > 1 else 'cause'}:"
        yield from (f"  {cause}" for cause in result.causes)
    if result.blame:
        yield result.blame


def side_by_side(
    rows: Sequence[Row], *, colored: bool = False, whole: bool = False, cut: bool = True
) -> Iterator[str]:
    """Yield expected and actual events, client by client, the first divergence marked."""
    for client, group in groupby(rows, key=lambda row: row.client):
        of_client = list(group)
        first = next((index for index, row in enumerate(of_client) if row.verdict != "same"), None)
        yield f"{of_client[0].about} of {client}, expected and actual:"
        start = 0 if whole or first is None else max(0, first - _AGREED_SHOWN)
        if start:
            yield f"  … {start} as expected"
        end = None if whole else start + _ROWS_SHOWN
        for index, row in enumerate(of_client[start:end], start):
            yield from _row(_short(row) if cut else row, is_first=index == first, colored=colored)
        if end is not None and len(of_client) > end:
            yield f"  … {len(of_client) - end} more"


def _short(row: Row) -> Row:
    expected, actual = (text and shortened(text, _ROW_WIDTH) for text in (row.expected, row.actual))
    return row._replace(expected=expected, actual=actual)


def _row(row: Row, *, is_first: bool, colored: bool) -> Iterator[str]:
    color = _COLORS[row.verdict]
    arrow = "→" if is_first else " "
    line = f"  (line {row.line})" if row.line else ""
    head = f"{arrow} {_MARKS[row.verdict]} "
    if row.verdict == "same":
        yield _in_color(f"{head}{row.actual}", color, colored=colored)
        return
    if row.expected is not None:
        yield _in_color(f"{head}expected {row.expected}{line}", color, colored=colored)
        head = "    "
    if row.actual is not None:
        words = {"extra": "extra    ", "differs": "actual   "}
        yield _in_color(f"{head}{words[row.verdict]}{row.actual}", color, colored=colored)
    if row.why:
        yield _in_color(f"    {row.why}", color, colored=colored)


def _in_color(text: str, color: str, *, colored: bool) -> str:
    return click.style(text, fg=color) if colored else text

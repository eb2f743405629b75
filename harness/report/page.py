"""The HTML report: one file that holds everything, opens from a disk and makes no requests.

All data are in it as compressed JSON in base64, so no text of a scenario or a driver can be taken for
markup. The list of cells is unpacked when the page opens, details when a reader opens a cell. A policy in
the page allows its own script and no connection.

The script is four files of the folder `html`, joined in the order of `_SCRIPTS`; `data.js` knows the form of
the data. A row of the index is a list and no document, which would repeat its names in every row:
description, a letter for each column, milliseconds, and where its details are. `_case` here and the script
share that order.
"""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import resources
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from harness.planning.result import ResultStatus
from harness.report.matrix import change_sum, changes_between, is_worse
from harness.report.pages.frame import filled, framed
from harness.report.pages.markup import escaped
from mongowire.package import version
from mongowire.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.report.matrix import CaseKey, Cell, Column, Matrix, Place, RunOutcomes

LETTERS: Final = {
    ResultStatus.PASSED: "P",
    ResultStatus.FAILED: "F",
    ResultStatus.SKIPPED: "S",
    ResultStatus.KNOWN_FAILING: "K",
    ResultStatus.UNEXPECTED_PASS: "U",
    ResultStatus.NOT_RUN: "N",
}
"""The letter of each status in the page's data; `-` is a cell without a result."""

_SCRIPTS: Final = ("data.js", "matrix.js", "case.js", "main.js")
_CHUNK: Final = 1_000_000
"""Characters of details that are packed together: more are packed better, fewer are shown sooner."""


def write(
    path: Path, matrix: Matrix, *, utc: float, compared: tuple[RunOutcomes, RunOutcomes] | None = None
) -> None:
    """Write the page, made at an instant in seconds since 1970. Raises `OSError`."""
    write_whole(path, build(matrix, created=minute_of(utc), compared=compared))


def minute_of(utc: float) -> str:
    """Return an instant in seconds since 1970 as a page shows it."""
    return f"{datetime.fromtimestamp(utc, UTC):%Y-%m-%d %H:%M} UTC"


def build(
    matrix: Matrix,
    *,
    created: str,
    title: str = "Conformance report",
    compared: tuple[RunOutcomes, RunOutcomes] | None = None,
) -> str:
    """Return the page; `created` is when, for readers. Of two runs that are compared it lists the changes."""
    columns, details = matrix.columns, _Details()
    specs = list(_specs(matrix, columns, details))
    details.flush()
    index = {
        "created": created,
        "pushbackd": version(),
        "runs": [{"name": name, **asdict(run)} for run, name in matrix.runs],
        "columns": [{"key": column.key, **asdict(column)} for column in columns],
        "specs": specs,
    }
    packed = _block("index", json.dumps(index, ensure_ascii=False, separators=(",", ":")))
    parts = {
        "title": escaped(title),
        "changes": _changes(*compared) if compared else "",
        "data": "\n".join((packed, *details.blocks)),
    }
    body = filled(_file("report.html"), parts)
    script = "\n".join(map(_file, _SCRIPTS))
    return framed(body, title=title, sheets=("page", "sequence"), own=_file("report.css"), script=script)


def _changes(before: RunOutcomes, after: RunOutcomes) -> str:
    """Return what the terminal says of two runs, as a part of the page that is open if it is worse."""
    found = changes_between(before, after)
    head = f"{after.title} against {before.title}: {change_sum(found)}"
    parts = [f'<details id="changes"{" open" if is_worse(found) else ""}><summary>{escaped(head)}</summary>']
    for change, places in found.items():
        if places:
            rows = "".join(_changed(place, after.ended.get(place, (None, ""))[1]) for place in places)
            parts.append(f"<h2>{escaped(f'{change}: {len(places)}')}</h2><ul>{rows}</ul>")
    return f"{''.join(parts)}</details>"


def _changed(place: Place, reason: str) -> str:
    address = escaped(f"#case={quote(place.row, safe='')}")
    told = f": {escaped(reason)}" if reason else ""
    return f'<li><a href="{address}">{escaped(str(place))}</a>{told}</li>'


class _Details:
    """The details of cells, in rows, packed into chunks of a size that is unpacked in no time."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self._rows: list[str] = []
        self._size = 0

    def add(self, cells: Sequence[Cell | None]) -> tuple[int, int]:
        """Take a row; return the indexes of its chunk and of the row in it."""
        row = f"[{','.join('null' if cell is None else cell.details for cell in cells)}]"
        self._rows.append(row)
        self._size += len(row)
        position = (len(self.blocks), len(self._rows) - 1)
        if self._size > _CHUNK:
            self.flush()
        return position

    def flush(self) -> None:
        """End the chunk."""
        self.blocks.append(_block(f"chunk-{len(self.blocks)}", f"[{','.join(self._rows)}]"))
        self._rows, self._size = [], 0


def _specs(matrix: Matrix, columns: Sequence[Column], details: _Details) -> Iterator[dict[str, Any]]:
    for spec, rows in groupby(matrix.rows(), key=lambda row: row[0].spec):
        files = groupby(rows, key=lambda row: row[0].file)
        listed = [
            {"name": file, "cases": [_case(case, cells, columns, details) for case, cells in of_file]}
            for file, of_file in files
        ]
        yield {"name": spec, "files": listed}


def _case(
    case: CaseKey, cells: Mapping[Column, Cell], columns: Sequence[Column], details: _Details
) -> list[Any]:
    """Return a row of the index: description, statuses, milliseconds, chunk, and index in the chunk."""
    row = [cells.get(column) for column in columns]
    letters = "".join(LETTERS[cell.status] if cell else "-" for cell in row)
    milliseconds = [round(cell.duration_ms, 1) if cell else 0 for cell in row]
    return [case.description, letters, milliseconds, *details.add(row)]


def _block(name: str, text: str) -> str:
    """Return data as an element of the page that the script unpacks."""
    # No time in the header of the packed data: the same results give the same page.
    packed = b64encode(gzip.compress(text.encode(errors="replace"), 9, mtime=0)).decode()
    # A script of an unknown type: browsers neither run nor show it.
    return f'<script type="application/octet-stream" id="{name}">{packed}</script>'


def _file(name: str) -> str:
    return (resources.files("harness.report") / "html" / name).read_text(encoding="utf-8")

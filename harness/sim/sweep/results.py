"""The file of a sweep's results: JSON Lines, a whole line for each point that is finished.

Lines are appended one at a time and flushed to the disk, so whatever ends the sweep, at most the last line is
torn. A sweep that begins finds the finished points in the file, drops a torn line, and runs the others.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from harness.sim.sweep.grid import GridPoint


class ResultsError(Exception):
    """The file is not that of this sweep; the message says why, with file and line."""


@dataclass(slots=True)
class Results:
    """The results by the keys of their points, and the file that takes more.

    `torn` says that the file ended in a part of a line, whose point runs again.
    """

    rows: dict[str, dict[str, Any]]
    torn: bool
    _file: BinaryIO

    def add(self, point: GridPoint, measures: Mapping[str, Any]) -> None:
        """Append a point's line. Raises `OSError`."""
        row = {
            "point": point.key,
            "seed": point.seed,
            "parameters": dict(point.parameters),
            "measures": dict(measures),
        }
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.rows[point.key] = row


@contextmanager
def results_in(path: Path, wanted: Collection[str]) -> Iterator[Results]:
    """Open a file of results, which need not be there, for a sweep whose points have the keys `wanted`.

    Raises `ResultsError` for a file of something else, a point that the sweep does not ask for, and one that
    is there twice; `OSError`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        rows, torn, end = _read(path, file, wanted)
        if torn:
            file.truncate(end)
        yield Results(rows, torn, file)


def _read(path: Path, file: BinaryIO, wanted: Collection[str]) -> tuple[dict[str, dict[str, Any]], bool, int]:
    """Return the rows, whether the last line is torn, and where the whole lines end."""
    rows: dict[str, dict[str, Any]] = {}
    end = 0
    for number, line in enumerate(file, 1):
        if not line.endswith(b"\n"):
            return rows, True, end
        row = _row(line)
        if row is None:
            raise ResultsError(
                f"{path}:{number}: is no result of a sweep (name another file for the results)"
            )
        key = row["point"]
        if key not in wanted:
            raise ResultsError(
                f"{path}:{number}: is of a point that the grid does not ask for"
                " (the grid has changed: name another file for its results)"
            )
        if key in rows:
            raise ResultsError(f"{path}:{number}: repeats a point (remove one of its lines)")
        rows[key] = row
        end += len(line)
    return rows, False, end


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    whole = (
        isinstance(row, dict) and isinstance(row.get("point"), str) and isinstance(row.get("measures"), dict)
    )
    return row if whole else None

"""The file of a sweep's results: JSON Lines, a whole line for each point that is finished.

Lines are appended one at a time and flushed to the disk, so whatever ends the sweep, at most the last line
is torn. A sweep that begins finds the finished points in the file, drops a torn line, and runs the others. A
line has `point` (the key), `seed`, `parameters` (the swept fields) and `measures`; None stands for what is
infinite.
"""

from __future__ import annotations

import csv
import json
import math
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from harness.sim import parquet
from harness.sim.fleet import simulate
from mongowire.whole_file import beside

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from harness.sim.fleet.outcome import FleetOutcome
    from harness.sim.fleet.scenario import Scenario
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
        # A point may have taken hours; a line that the kernel still held would be lost with the machine.
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


def table(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return flat rows: seed, parameters by their paths, measures. What is nested becomes JSON."""
    return [
        {
            "seed": row["seed"],
            **{
                name: json.dumps(value) if isinstance(value, dict | list) else value
                for name, value in row["parameters"].items()
            },
            **row["measures"],
        }
        for row in rows
    ]


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows with a line of names above them. Raises `OSError`."""
    with beside(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows as Parquet; a column that mixes texts with numbers becomes text. Raises `OSError`."""
    with beside(path) as temporary:
        parquet.write(temporary, {name: _column([row[name] for row in rows]) for name in rows[0]})


def _column(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [value if value is None else float(value) for value in values]
    return values if len(kinds) <= 1 else [value if value is None else str(value) for value in values]


# Measures of a point of a sweep: a scenario in, one flat row of numbers out.


_COUNTS: Final = ("offered", "started", "ok", "failed", "timed_out", "rejected", "abandoned")
_PERCENTILES: Final = {"latency_p50": 0.5, "latency_p90": 0.9, "latency_p99": 0.99}


def measure(scenario: Scenario) -> Mapping[str, float | str | None]:
    """Simulate a scenario and return its measures. Raises as `simulate` does.

    Counts are totals, `goodput` is successes a second, latencies and `recovery_time` (after the last outage)
    are seconds; None is what there is no number for: no outage, or never.
    """
    return measures_of(simulate(scenario), scenario)


def measures_of(outcome: FleetOutcome, scenario: Scenario) -> dict[str, float | str | None]:
    """Return the measures of a scenario's outcome; see `measure`."""
    end = max((outage.end for outage in scenario.outages), default=None)
    numbers = {name: outcome.total(name) for name in _COUNTS} | {
        "goodput": outcome.total("ok") / scenario.seconds,
        "attempts_per_success": outcome.attempts_per_success,
        **{name: outcome.percentile(share) for name, share in _PERCENTILES.items()},
        "recovery_time": math.inf if end is None else outcome.recovery_time(end),
    }
    finite = {name: value if math.isfinite(value) else None for name, value in numbers.items()}
    return {**finite, "trace": outcome.trace}

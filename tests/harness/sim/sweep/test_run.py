"""A sweep on the cores of this machine, to its end, to Ctrl-C and beyond, and to a sudden death."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.sim.sweep.grid import GridPoint
from harness.sim.sweep.run import PointFailedError, run_points

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_ROOT = Path(__file__).parents[4]
POINTS = 10
GRID = f"""\
scenario:
  clients: 200
  seconds: 20
  arrivals: {{closed: {{gap: 1}}}}
  fleet: fixed
  timeout: 2
seeds: {POINTS}
"""


def rows_of(path: Path) -> dict[str, Any]:
    """Return the rows of a file of results by their points; none may be there twice."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({row["point"] for row in rows}) == len(rows)
    return {row["point"]: row for row in rows}


def test_points_come_as_they_end_each_with_its_measures() -> None:
    points = [GridPoint(str(number), {}, 0, number) for number in range(5)]
    came: dict[str, Mapping[str, Any]] = {}

    def square(scenario: int) -> Mapping[str, Any]:
        return {"square": scenario**2}

    with ThreadPoolExecutor(2) as executor:
        run_points(points, square, executor, lambda point, measures: came.update({point.key: measures}))
    assert came == {str(number): {"square": number**2} for number in range(5)}


def test_a_point_that_fails_is_named() -> None:
    points = [GridPoint("a", {"clients": 0}, 7, 0)]

    def fail(scenario: int) -> Mapping[str, Any]:
        raise ValueError("no such server")

    with (
        ThreadPoolExecutor(1) as executor,
        pytest.raises(
            PointFailedError, match="the point clients=0, seed=7 failed: ValueError: no such server"
        ),
    ):
        run_points(points, fail, executor, lambda *_: None)


@pytest.mark.slow
def test_a_grid_becomes_a_file_of_lines_and_tables(
    pushbackd: Any, write: Callable[..., Path], tmp_path: Path
) -> None:
    grid = write(
        GRID.replace("clients: 200", "clients: 10").replace(f"seeds: {POINTS}", "seeds: 2"), "grid.yml"
    )
    table = tmp_path / "table.csv"
    result = pushbackd("simulate", "sweep", "--grid", grid, "--csv", table, "--jobs", "1")
    assert result.exit_code == 0, result.output
    said, heads, row = result.stdout.splitlines()
    assert said == f"{tmp_path / 'grid.jsonl'}: 2 points, 2 of them run now"
    assert ("good/s" in heads, row.split()[0]) == (True, "2")
    rows = rows_of(tmp_path / "grid.jsonl").values()
    assert [row["seed"] for row in rows] == [0, 1]
    assert all(row["measures"]["ok"] > 0 and row["measures"]["trace"] for row in rows)
    with table.open() as file:
        assert [float(row["ok"]) for row in csv.DictReader(file)] == [row["measures"]["ok"] for row in rows]
    again = pushbackd("simulate", "sweep", "--grid", grid)
    assert again.stdout.splitlines()[0].endswith("2 points, 0 of them run now")
    assert again.stdout.splitlines()[1:] == [heads, row]


@pytest.mark.slow
def test_a_grid_that_grew_runs_its_new_points_alone_and_one_that_changed_is_refused(
    pushbackd: Any, write: Callable[..., Path], tmp_path: Path
) -> None:
    text = GRID.replace("clients: 200", "clients: 10").replace(f"seeds: {POINTS}", "seeds: [5]")
    pushbackd("simulate", "sweep", "--grid", write(text, "grid.yml"), "--jobs", "1")
    grown = write(text.replace("[5]", "[6, 5]"), "grid.yml")
    result = pushbackd("simulate", "sweep", "--grid", grown, "--jobs", "1")
    assert "2 points, 1 of them run now\n" in result.stdout
    changed = write(text.replace("seconds: 20", "seconds: 10"), "grid.yml")
    result = pushbackd("simulate", "sweep", "--grid", changed, "--jobs", "1")
    assert result.exit_code == 2
    assert result.stderr == (
        f"Error: {tmp_path / 'grid.jsonl'}:1: is of a point that the grid does not ask for"
        " (the grid has changed: name another file for its results)\n"
    )


def test_a_wrong_grid_is_one_line(pushbackd: Any, write: Callable[..., Path]) -> None:
    grid = write(GRID + "sweep: {clients: [one]}\n", "grid.yml")
    result = pushbackd("simulate", "sweep", "--grid", grid)
    assert result.exit_code == 2
    assert result.stderr == (f"Error: {grid}:8:19: scenario.clients: must be a whole number, not 'one'\n")


def test_jobs_and_a_scheduler_contradict_each_other(pushbackd: Any, write: Callable[..., Path]) -> None:
    result = pushbackd("simulate", "sweep", "--grid", write(GRID), "--jobs", "2", "--scheduler", "tcp://h:1")
    assert result.exit_code == 2
    assert "--jobs counts processes of this machine" in result.stderr


class Sweep:
    """A sweep in a process of its own, which tests end early."""

    def __init__(self, grid: Path, results: Path) -> None:
        self._results = results
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "harness", "simulate", "sweep", "--jobs", "2"),
                *("--grid", str(grid), "--results", str(results)),
            ],
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end_after(self, points: int, number: signal.Signals) -> str:
        """Send a signal when so many points are there; return what was said on standard error."""
        while self.process.poll() is None and self._lines() < points:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.02)
        self.process.send_signal(number)
        return self.process.communicate(timeout=60)[1]

    def _lines(self) -> int:
        return self._results.read_bytes().count(b"\n") if self._results.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)], ids=["Ctrl-C", "killed"]
)
def test_a_sweep_that_is_ended_goes_on_without_losing_or_repeating_a_point(
    write: Callable[..., Path], tmp_path: Path, number: signal.Signals, code: int
) -> None:
    grid, path = write(GRID, "grid.yml"), tmp_path / "results.jsonl"
    first = Sweep(grid, path)
    said = first.end_after(2, number)
    assert first.process.returncode == code, said
    finished = path.read_text()
    if number is signal.SIGINT:
        count = finished.count("\n")
        assert said.split("\n", 1) == [
            f"{path}: {count} of {POINTS} points; the same command runs the others",
            "\ninterrupted by SIGINT\n",
        ]
    second = Sweep(grid, path)
    out, error = second.process.communicate(timeout=60)
    assert second.process.returncode == 0, error
    whole = finished[: finished.rfind("\n") + 1]
    assert 2 <= whole.count("\n") < POINTS
    assert out.startswith(f"{path}: {POINTS} points, {POINTS - whole.count(chr(10))} of them run now\n")
    assert path.read_text().startswith(whole)
    assert {row["seed"] for row in rows_of(path).values()} == {*range(POINTS)}

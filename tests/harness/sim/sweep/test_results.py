"""The file of a sweep's results: whole lines, none lost, none repeated."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from harness.sim.sweep.grid import GridPoint
from harness.sim.sweep.results import ResultsError, results_in, table, write_csv, write_parquet

if TYPE_CHECKING:
    from pathlib import Path

A, B = (GridPoint(key, {"clients": number}, 0, None) for number, key in enumerate("ab"))


def _write(path: Path, *points: GridPoint) -> None:
    with results_in(path, {"a", "b"}) as results:
        for point in points:
            results.add(point, {"ok": 1.5})


def test_a_result_is_a_line_with_parameters_seed_and_measures(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "results.jsonl"
    _write(path, A, B)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"point": "a", "seed": 0, "parameters": {"clients": 0}, "measures": {"ok": 1.5}},
        {"point": "b", "seed": 0, "parameters": {"clients": 1}, "measures": {"ok": 1.5}},
    ]


def test_finished_points_are_found_again_and_others_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    _write(path, A)
    before = path.read_text()
    with results_in(path, {"a", "b"}) as results:
        assert (list(results.rows), results.torn) == (["a"], False)
        results.add(B, {})
    assert path.read_text().startswith(before)
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize("kept", [1, 20, -1])
def test_a_torn_last_line_is_dropped(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "results.jsonl"
    _write(path, A)
    whole = path.read_bytes()
    _write(path, B)
    torn = path.read_bytes()
    path.write_bytes(torn[: len(whole) + kept] if kept > 0 else torn[:kept])
    with results_in(path, {"a", "b"}) as results:
        assert (list(results.rows), results.torn) == (["a"], True)
        results.add(B, {"ok": 1.5})
    assert path.read_bytes() == torn


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("words", "is no result of a sweep", id="text"),
        pytest.param("[1]", "is no result of a sweep", id="other JSON"),
        pytest.param(
            '{"point": "z", "measures": {}}', "is of a point that the grid does not ask for", id="other grid"
        ),
        pytest.param('{"point": "a", "measures": {}}', "repeats a point", id="twice"),
    ],
)
def test_a_file_of_something_else_is_refused_in_one_line_and_left_as_it_was(
    tmp_path: Path, line: str, message: str
) -> None:
    path = tmp_path / "results.jsonl"
    _write(path, A)
    content = f"{path.read_text()}{line}\n"
    path.write_text(content)
    with pytest.raises(ResultsError) as raised, results_in(path, {"a", "b"}):
        pass
    assert str(raised.value).startswith(f"{path}:2: {message} (")
    assert path.read_text() == content


def test_the_tables_have_a_row_for_each_point(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs the extra simulation")
    rows = table(
        [
            {"seed": 0, "parameters": {"clients": 1, "fleet": "fixed"}, "measures": {"ok": 1, "p50": None}},
            {
                "seed": 1,
                "parameters": {"clients": 2, "fleet": {"fixed": {}}},
                "measures": {"ok": 0.5, "p50": 2},
            },
        ]
    )
    write_csv(tmp_path / "t.csv", rows)
    assert (tmp_path / "t.csv").read_text() == (
        'seed,clients,fleet,ok,p50\n0,1,fixed,1,\n1,2,"{""fixed"": {}}",0.5,2\n'
    )
    write_parquet(tmp_path / "t.parquet", rows)
    assert parquet.read_table(tmp_path / "t.parquet").to_pylist() == rows

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from scenario_files import scenario_text

from benchmarks.corpus import main, overdue, records, table
from harness.planning.plan import allowance
from harness.unified.loader import load

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def result(name: str, status: str = "passed", *, topology: str = "single", ms: float = 1.0) -> dict[str, Any]:
    return {"id": name, "status": status, "adapter": "pymongo", "topology": topology, "duration_ms": ms}


RESULTS = [
    result("crud/find::a"),
    result("crud/find::b", "skipped"),
    result("change-streams/x::a", "known-failing"),
    result("crud/find::a", "failed", topology="sharded"),
]


def test_the_totals_are_no_results() -> None:
    lines = [json.dumps(each) for each in (*RESULTS, {"summary": {"passed": 1}})]
    assert records(lines) == RESULTS


def test_the_table_counts_by_folder_driver_and_deployment() -> None:
    assert list(table(RESULTS)) == [
        "| folder | pymongo single | pymongo sharded |",
        "|---|---:|---:|",
        "| change-streams | 0 / 1 / 0 | 0 / 0 / 0 |",
        "| crud | 1 / 0 / 1 | 0 / 0 / 0, 1 failed |",
        "| **all** | 1 / 1 / 1 | 0 / 0 / 0, 1 failed |",
    ]


WAITING = """\
[{name: wait, object: testRunner, arguments: {ms: 300}},
 {name: failPoint, object: testRunner, arguments: {client: client, failPoint:
   {configureFailPoint: failCommand, mode: {times: 2}, data: {failCommands: [find], blockTimeMS: 250}}}},
 {name: createEntities, object: testRunner, arguments: {entities:
   [{client: {id: other, uriOptions: {serverSelectionTimeoutMS: 500}}}]}}]
"""


def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "spec" / "tiny.yml"
    path.parent.mkdir()
    path.write_text(scenario_text("a", operations=WAITING))
    return path


def test_a_case_explains_what_it_waits_and_blocks_and_how_long_it_looks_for_servers(tmp_path: Path) -> None:
    (case,) = load(scenario(tmp_path)).cases
    assert allowance(case) == 1.3


def test_what_lasts_a_second_longer_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = scenario(tmp_path)
    (case,) = load(path).cases
    within, beyond = result(case.id, ms=2200.0), result(case.id, ms=2400.0, topology="sharded")
    (told,) = overdue([within, beyond, result("of/another::file", ms=9000.0)], [case])
    assert told[1] is beyond
    (tmp_path / "results.jsonl").write_text("\n".join(map(json.dumps, (within, beyond))))
    main([str(tmp_path / "results.jsonl"), "--corpus", str(path)])
    said = capsys.readouterr()
    assert said.out.startswith("| folder |")
    assert said.err == f"1.1 s  {case.id}  [pymongo, sharded]\n"

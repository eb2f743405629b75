from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner
from made_results import HOSTILE, REAL, VIRTUAL, every_status, failed, result, retried

from harness.commands.report import report as report_command
from harness.planning.result import ResultStatus
from harness.report.matrix import CaseKey, Matrix, details_of
from harness.report.page import build
from harness.report.pages import markup
from harness.report.results_file import ResultsWriter

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from harness.planning.result import Result
    from harness.report.results_file import RunHeader


def page_of(*runs: tuple[RunHeader, Iterable[Result]]) -> str:
    matrix = Matrix()
    for run, results in runs:
        matrix.add(run, results)
    return build(matrix, created="2026-11-21 12:00 UTC")


def block(page: str, name: str) -> Any:
    found = re.search(rf'id="{name}">([A-Za-z0-9+/=]+)</script>', page)
    assert found is not None
    return json.loads(gzip.decompress(b64decode(found[1])))


class Tags(HTMLParser):
    """Lists the elements of a page, as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


# The matrix


def test_a_row_is_a_case_and_a_column_a_driver_with_all_that_it_ran_on() -> None:
    matrix = Matrix()
    matrix.add(VIRTUAL, [result()])
    matrix.add(REAL, [result(adapter="pymongo"), result(adapter="pymongo", topology="sharded")])
    assert [column.key for column in matrix.columns] == [
        "reference/2026-07-08/replicaset/virtual/8.2.3",
        "pymongo/2026-07-08/replicaset/real/8.2.3",
        "pymongo/2026-07-08/sharded/real/8.2.3",
    ]
    assert len(matrix.cells) == 1


def test_in_the_same_column_the_later_run_wins() -> None:
    matrix = Matrix()
    matrix.add(REAL, [failed("a"), result("b")])
    matrix.add(replace(REAL, started="later"), [result("a")])
    [column] = matrix.columns
    statuses = {case.description: row[column].status for case, row in matrix.rows()}
    assert statuses == {"a": ResultStatus.PASSED, "b": ResultStatus.PASSED}


def test_a_run_with_a_name_has_columns_of_its_own() -> None:
    matrix = Matrix()
    matrix.add(REAL, [result()], name="before")
    matrix.add(REAL, [result()], name="after")
    assert [column.run for column in matrix.columns] == ["before", "after"]


def test_two_versions_of_a_driver_are_two_columns() -> None:
    matrix = Matrix()
    for version in ("nodejs 7.8.0", "nodejs 7.9.0"):
        settings = replace(REAL.settings, drivers=(("node", version),))
        matrix.add(replace(REAL, settings=settings), [result(adapter="node")])
    assert [column.key for column in matrix.columns] == [
        "node/2026-07-08/replicaset/real/8.2.3/nodejs 7.8.0",
        "node/2026-07-08/replicaset/real/8.2.3/nodejs 7.9.0",
    ]


def test_a_skipped_case_stands_in_the_column_of_those_that_ran() -> None:
    matrix = Matrix()
    matrix.add(REAL, [result("a", ResultStatus.SKIPPED, server_version=""), result("b")])
    assert [column.server for column in matrix.columns] == ["8.2.3"]


def test_two_cases_of_one_description_are_two_rows() -> None:
    matrix = Matrix()
    matrix.add(REAL, [result("a"), failed("a")])
    matrix.add(VIRTUAL, [result("a"), failed("a")])
    assert [case.description for case, _ in matrix.rows()] == ["a", "a (2)"]
    assert all(len(row) == 2 for _, row in matrix.rows())


def test_the_columns_of_one_driver_stand_together() -> None:
    matrix = Matrix()
    matrix.add(REAL, [result(adapter="a"), result(adapter="b"), result(adapter="a", topology="sharded")])
    assert [column.adapter for column in matrix.columns] == ["a", "a", "b"]


def test_a_row_knows_its_specification_and_file() -> None:
    case = CaseKey("transactions/convenient/retry::commit is retried")
    assert (case.spec, case.file, case.description) == (
        "transactions",
        "convenient/retry",
        "commit is retried",
    )


def test_details_leave_out_what_is_empty_and_tell_how_to_run_the_case_again() -> None:
    details = details_of(result("it's", adapter="node"), REAL.settings)
    assert set(details) == {"place", "again"}
    assert details["again"] == (
        "pushbackd conform retryable-writes/insertOne.yml --adapter 'cmd:node adapter.js'"
        """ --topology replicaset --edition 2026-07-08 --time real --seed 7 -k '"it'"'"'s"'"""
    )


# The page


def test_the_index_has_every_case_with_the_letter_of_each_column() -> None:
    page = page_of((VIRTUAL, every_status()), (REAL, [result(adapter="pymongo")]))
    [spec] = block(page, "index")["specs"]
    [file] = spec["files"]
    assert (spec["name"], file["name"]) == ("retryable-writes", "insertOne")
    assert [case[1] for case in file["cases"]] == ["PP", "F-", "S-", "K-", "U-", "F-"]


def test_the_details_of_a_cell_are_where_the_index_says() -> None:
    page = page_of((REAL, (failed(f"case {number}", timeline=retried() * 30) for number in range(90))))
    cases = block(page, "index")["specs"][0]["files"][0]["cases"]
    chunks = {case[3] for case in cases}
    assert len(chunks) > 1, "many details are packed into several chunks"
    description, _, _, chunk, place = cases[77]
    [details] = block(page, f"chunk-{chunk}")[place]
    assert f"::{description}<" in details["picture"]
    assert details["causes"] == ["The driver took a new transaction number for the retry."]


def test_no_text_of_a_case_becomes_markup() -> None:
    hostile = page_of((REAL, every_status(group=f"{HOSTILE}/x")))
    plain = page_of((REAL, [result()]))
    shape = [tag for tag, _ in Tags(plain).found]
    assert [tag for tag, _ in Tags(hostile).found] == shape
    assert "onerror" not in hostile


def test_the_page_refers_to_nothing_outside_of_itself_and_forbids_it() -> None:
    tags = Tags(page_of((REAL, every_status()))).found
    links = [value for _, attributes in tags for name, value in attributes.items() if name in ("src", "href")]
    assert links == ["data:,"]
    [policy] = [attributes["content"] for tag, attributes in tags if attributes.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")


def test_the_parts_of_the_page_cannot_end_it_early() -> None:
    page = page_of((REAL, [result()]))
    assert page.count("</style>") == 1
    assert page.count("{{") == 0
    assert "</" not in markup.palette() + markup.sheet("page") + markup.sheet("sequence")


def test_the_same_results_give_the_same_page() -> None:
    assert page_of((REAL, every_status())) == page_of((REAL, every_status()))


# The command


def write(path: Path, run: RunHeader, results: Iterable[Result]) -> Path:
    with ResultsWriter(path, run) as writer:
        for each in results:
            writer.add(each)
        writer.end()
    return path


def test_report_merges_files_of_results(tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", VIRTUAL, every_status())
    two = write(tmp_path / "two.jsonl.gz", REAL, every_status(adapter="pymongo"))
    output = tmp_path / "out" / "report.html"
    done = CliRunner().invoke(report_command, [str(one), f"named={two}", "-o", str(output)])
    assert (done.exit_code, done.output) == (0, f"{output}: 6 cases, 2 columns\n")
    index = block(output.read_text(), "index")
    assert [run["name"] for run in index["runs"]] == ["", "named"]


def test_report_names_the_file_that_it_cannot_read_and_writes_nothing(tmp_path: Path) -> None:
    good = write(tmp_path / "good.jsonl", REAL, [result()])
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n")
    output = tmp_path / "report.html"
    done = CliRunner().invoke(report_command, [str(good), str(bad), "-o", str(output)])
    assert done.exit_code == 1  # of click; the command line makes it 2
    assert f"{bad}:1: schema: must be" in done.output
    assert not output.exists()


def test_report_says_so_when_the_page_cannot_be_written(tmp_path: Path) -> None:
    good = write(tmp_path / "good.jsonl", REAL, [result()])
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(report_command, [str(good), "-o", str(tmp_path / "file" / "report.html")])
    assert done.exit_code == 1
    assert f"Error: {tmp_path / 'file' / 'report.html'}: " in done.output

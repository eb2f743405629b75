"""`pushbackd explain`, and what the explanation of a failure says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from harness.cli import cli
from harness.planning.plan import Item, Settings, loaded
from harness.planning.result import ExitCode
from harness.running.executor import ItemExecutor

if TYPE_CHECKING:
    from pathlib import Path

    from harness.planning.result import Result as CaseResult

SCENARIO = """
description: overload
schemaVersion: "1.3"
createEntities:
  - client: {id: client, observeEvents: [commandStartedEvent]}
  - database: {id: db, client: client, databaseName: shop}
  - collection: {id: stock, database: db, collectionName: stock}
initialData:
  - {databaseName: shop, collectionName: stock, documents: [{_id: 1}]}
tests:
  - description: an insert is tried again
    operations:
      - name: failPoint
        object: testRunner
        arguments:
          client: client
          failPoint:
            configureFailPoint: failCommand
            mode: {times: 1}
            data:
              failCommands: [insert]
              errorCode: 462
              errorLabels: [SystemOverloadedError, RetryableError]
      - {name: insertOne, object: stock, arguments: {document: {_id: 2}}}
    expectEvents:
      - client: client
        events:
          - commandStartedEvent: {commandName: insert}
          - commandStartedEvent: {commandName: insert}
  - description: an insert has no number
    operations:
      - {name: insertOne, object: stock, arguments: {document: {_id: 3}}}
    expectEvents:
      - client: client
        events:
          - commandStartedEvent:
              commandName: insert
              command:
                insert: stock
                txnNumber: {$$exists: false}
  - description: a find finds
    operations:
      - name: find
        object: stock
        arguments: {filter: {}}
        expectResult:
          - _id: 1
            qty: 7
  - description: a duplicate is refused
    operations:
      - name: insertOne
        object: stock
        arguments: {document: {_id: 1}}
        expectError:
          isClientError: false
          errorLabelsContain: [RetryableWriteError]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "overload.yml"
    path.write_text(SCENARIO)
    return path


def explain(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["explain", *map(str, arguments)])


def test_a_passing_case_is_shown_with_all_its_events_and_what_both_sides_did(scenario: Path) -> None:
    done = explain(f"{scenario}::an insert is tried again")
    assert done.exit_code == ExitCode.PASSED
    assert done.stdout.startswith("PASSED")
    assert done.output.count("    = commandStartedEvent insert") == 2
    assert "insert on shop txnNumber 1 → error 462" in done.output
    assert "insertOne returned" in done.output


def test_a_case_is_named_by_a_part_of_its_description_that_no_other_has(scenario: Path) -> None:
    assert "an insert has no number" in explain(f"{scenario}::NO NUMBER").stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ("::insert", "'insert' may mean 2 cases; choose one of"),
        ("::update", "no case is called 'update'; choose one of"),
        ("", "it has 4 cases; choose one of"),
    ],
)
def test_a_name_that_is_no_case_or_several_lists_those_there_are(
    scenario: Path, case: str, complaint: str
) -> None:
    done = explain(f"{scenario}{case}")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert complaint in done.output
    assert f"{scenario}::an insert is tried again" in done.output


def test_a_file_that_is_missing_or_broken_is_one_clear_error(tmp_path: Path) -> None:
    missing = explain(f"{tmp_path}/no.yml::a")
    (tmp_path / "broken.yml").write_text("tests: [")
    broken = explain(f"{tmp_path}/broken.yml::a")
    assert [missing.exit_code, broken.exit_code] == [ExitCode.BAD_INPUT] * 2
    assert "no.yml: no such file or folder" in missing.output
    assert "broken.yml:" in broken.output


@pytest.mark.parametrize("wrong", [["--time", "virtual"], ["--edition", "2026-02-20"]])
def test_what_a_driver_cannot_do_is_a_usage_error(scenario: Path, wrong: list[str]) -> None:
    assert explain(f"{scenario}::tried", "--adapter", "pymongo", *wrong).exit_code == ExitCode.BAD_INPUT


@pytest.mark.parametrize(
    ("plain", "option", "environment"),
    [(False, [], {}), (True, ["--no-color"], {}), (True, [], {"NO_COLOR": "1"})],
)
def test_styles_are_left_out_where_nobody_wants_them(
    scenario: Path, option: list[str], environment: dict[str, str], *, plain: bool
) -> None:
    arguments = ["explain", f"{scenario}::a find finds", *option]
    done = CliRunner(env=environment).invoke(cli, arguments, color=True)
    assert ("\x1b[" not in done.output) is plain


def test_a_failing_case_ends_as_a_failing_run_does(scenario: Path) -> None:
    done = explain(f"{scenario}::a find finds")
    assert done.exit_code == ExitCode.FAILED
    assert done.stdout.startswith("FAILED")


@pytest.mark.parametrize("adapter", ["reference", "pymongo", "pymongo-async"])
def test_every_driver_in_this_process_can_be_explained_down_to_the_wire(scenario: Path, adapter: str) -> None:
    done = explain(f"{scenario}::tried again", "--adapter", adapter, "-vv")
    assert done.exit_code == ExitCode.PASSED
    lines = done.stdout.splitlines()
    inserts = [line for line in lines if '{"insert": "stock"' in line and " = " not in line]
    assert ["messageReceived" in line for line in inserts] == [False, True] * 2
    hit = next(place for place, line in enumerate(lines) if "failPointHit" in line)
    assert lines.index(inserts[1]) < hit < lines.index(inserts[2])


# Places


def run(scenario: Path, description: str) -> CaseResult:
    case = next(case for case in loaded(str(scenario)).cases if case.description == description)
    item = Item(case.id, str(scenario), case.index, "reference", "2026-02-20", "replicaset")
    with ItemExecutor(Settings(time="virtual")) as executor:
        return executor.run(item)


@pytest.mark.parametrize(
    ("description", "line"),
    [
        ("an insert has no number", "                txnNumber: {$$exists: false}"),
        ("a find finds", "            qty: 7"),
        ("a duplicate is refused", "          errorLabelsContain: [RetryableWriteError]"),
    ],
)
def test_the_place_of_a_mismatch_is_the_line_of_the_very_value(
    scenario: Path, description: str, line: str
) -> None:
    result = run(scenario, description)
    assert scenario.read_text().splitlines()[result.line - 1] == line


def test_results_of_passing_cases_carry_no_timeline_unless_asked_for(scenario: Path) -> None:
    assert run(scenario, "an insert is tried again").timeline == ()


def test_a_case_that_hangs_is_explained_up_to_where_it_hung(scenario: Path) -> None:
    text = SCENARIO.replace(
        "      - {name: insertOne, object: stock, arguments: {document: {_id: 2}}}",
        "      - {name: wait, object: testRunner, arguments: {ms: 60000}}",
    )
    scenario.write_text(text)
    case = next(
        case for case in loaded(str(scenario)).cases if case.description == "an insert is tried again"
    )
    item = Item(case.id, str(scenario), case.index, "reference", "2026-02-20", "replicaset")
    with ItemExecutor(Settings(time="virtual", case_timeout=5.0)) as executor:
        result = executor.run(item)
    assert result.reason == "the case did not end within 5 seconds"
    assert [moment.text for moment in result.timeline if moment.kind == "operation"][
        -1
    ] == 'wait {"ms": 60000}'

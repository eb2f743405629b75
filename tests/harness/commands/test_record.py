"""What record does with a file: which cases, what of them, where it goes, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.lint.engine import lint_file
from harness.planning.result import ExitCode
from harness.unified.loader import read

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
# Whose comments stay
description: x
schemaVersion: "1.0"
createEntities:
  - client: { id: &client client0, observeEvents: [commandStartedEvent] }
  - database: { id: database, client: *client, databaseName: &db shop }
  - collection: { id: stock, database: database, collectionName: &coll stock }
initialData:
  - { collectionName: *coll, databaseName: *db, documents: [{ _id: 1, qty: 1 }] }
"""
INSERT = "{ name: insertOne, object: stock, arguments: { document: { _id: 2 } } }"
TWICE = """\
      - name: failPoint
        object: testRunner
        arguments:
          client: *client
          failPoint:
            configureFailPoint: failCommand
            mode: { times: 2 }
            data: { failCommands: [insert], errorCode: 8, errorLabels: [RetryableWriteError] }
"""
FIND = """\
          - commandStartedEvent:
              commandName: find
              databaseName: *db
              command: { find: *coll, filter: {} }
"""
EVENTS = """\
    expectEvents:
      - client: *client
        events:
"""


def scenario(*cases: str) -> str:
    return HEAD + "tests:\n" + "".join(cases)


def case(*operations: str, name: str = "a", more: str = "") -> str:
    lines = "".join(f"      - {operation}\n" for operation in operations)
    return f"  - description: {name}\n    operations:  # in order\n{lines}{more}"


@pytest.fixture
def record(pushbackd: Any) -> Any:
    def run(*arguments: object, on: str = "replicaset") -> Any:
        return pushbackd("record", *arguments, "--topology", on)

    return run


@pytest.mark.slow
def test_the_events_come_below_the_operations_in_the_customary_form(write: Any, record: Any) -> None:
    text = scenario(case("{ name: find, object: stock, arguments: { filter: {} } }"))
    done = record(write(text))
    assert done.exit_code == ExitCode.PASSED
    assert done.stdout == text + EVENTS + FIND
    assert done.stderr == ""


@pytest.mark.slow
def test_values_that_differ_from_run_to_run_become_operators(write: Any, record: Any, tmp_path: Path) -> None:
    path = write(scenario(case("{ name: insertOne, object: stock, arguments: { document: { qty: 2 } } }")))
    assert record(path, "--in-place").stdout == f"{path}\n"
    (expected,) = read(path).value["tests"][0]["expectEvents"][0]["events"]
    command = expected["commandStartedEvent"]["command"]
    assert command["documents"] == [{"_id": {"$$type": "objectId"}, "qty": 2}]
    assert command["txnNumber"] == {"$$exists": True}
    assert not command.keys() & {"lsid", "$clusterTime", "$db"}
    assert lint_file(path) == []


@pytest.mark.slow
def test_a_session_of_the_scenario_is_expected_by_its_name(write: Any, record: Any) -> None:
    head = HEAD.replace("initialData", "  - session: { id: &session session0, client: *client }\ninitialData")
    find = "{ name: find, object: stock, arguments: { filter: {}, session: *session } }"
    done = record(write(head + "tests:\n" + case(find, find)))
    assert done.stdout.count("lsid: { $$sessionLsid: *session }") == 2
    assert done.stdout.count("afterClusterTime: { $$type: timestamp }") == 1


@pytest.mark.slow
def test_what_only_one_deployment_has_is_not_expected_of_all(write: Any, pushbackd: Any) -> None:
    path = write(scenario(case(INSERT)))
    alone = pushbackd("record", path, "--topology", "single")
    both = pushbackd("record", path, "--topology", "single", "--topology", "replicaset")
    everywhere = pushbackd("record", path)
    assert (alone.exit_code, both.exit_code) == (ExitCode.PASSED, ExitCode.PASSED)
    assert "txnNumber" not in both.stdout
    assert everywhere.stdout == both.stdout == alone.stdout


@pytest.mark.slow
def test_what_only_one_driver_does_is_not_expected_of_all(write: Any, record: Any) -> None:
    path = write(scenario(case("{ name: listCollections, object: database, arguments: { filter: {} } }")))
    done = record(path, "--adapter", "reference", "--adapter", "pymongo")
    assert done.exit_code == ExitCode.PASSED, done.output
    assert "listCollections: 1" in done.stdout


@pytest.mark.slow
def test_results_errors_and_data_are_recorded_on_request(write: Any, record: Any) -> None:
    update = "name: updateOne, object: stock, arguments: { filter: { _id: 1 }, update: { $inc: { qty: 1 } } }"
    find = "name: find\n        object: stock\n        arguments: { filter: { _id: 1 } }"
    text = scenario(
        case(f"{{ {update} }}", find) + case(INSERT, name="b").replace("order\n", f"order\n{TWICE}")
    )
    done = record(write(text), "--results", "--outcome")
    assert done.exit_code == ExitCode.PASSED, done.output
    result = "expectResult: { matchedCount: 1, modifiedCount: 1, upsertedCount: 0 }"
    assert f"      - {{ {update}, {result} }}\n      - {find}\n        expectResult: [" in done.stdout
    assert "expectResult: [{ _id: 1, qty: 2 }]" in done.stdout
    assert "expectError: { errorCode: 8, errorLabelsContain: [RetryableWriteError] } }" in done.stdout
    assert "    outcome:\n      - collectionName: *coll\n        databaseName: *db\n" in done.stdout.replace(
        "      - { collectionName: *coll, databaseName: *db, documents: [{ _id: 1, qty: 2 }] }\n",
        "      - collectionName: *coll\n        databaseName: *db\n",
    )


@pytest.mark.slow
def test_data_that_differ_from_run_to_run_are_no_outcome(write: Any, record: Any) -> None:
    path = write(scenario(case("{ name: insertOne, object: stock, arguments: { document: { qty: 2 } } }")))
    done = record(path, "--outcome")
    assert done.exit_code == ExitCode.PASSED, done.output
    assert "note: a: shop.stock differs from run to run, so there is no outcome of it" in done.stderr
    assert "outcome" not in done.stdout


@pytest.mark.slow
def test_an_operation_that_fails_unexpectedly_fails_and_nothing_is_written(write: Any, record: Any) -> None:
    text = scenario(case(INSERT).replace("order\n", f"order\n{TWICE}"))
    path = write(text)
    done = record(path, "--in-place")
    assert done.exit_code == ExitCode.FAILED
    assert f"nothing is written: {path}:21: insertOne failed" in done.stderr
    assert path.read_text() == text


@pytest.mark.slow
def test_only_the_case_that_is_named_is_recorded(write: Any, record: Any) -> None:
    path = write(scenario(case(INSERT), case(INSERT, name="b: 2").replace("b: 2", '"b: 2"', 1)))
    done = record(f"{path}::b: 2")
    assert done.stdout.count("expectEvents") == 1
    assert done.stdout.endswith(EVENTS + done.stdout.partition(EVENTS)[2])
    assert EVENTS not in done.stdout.partition("b: 2")[0]


@pytest.mark.slow
def test_what_is_there_is_recorded_again_on_request_only(write: Any, record: Any) -> None:
    path = write(
        scenario(case(INSERT, more="    expectEvents: [{ client: *client, events: [] }]\n    # end\n"))
    )
    kept = record(path)
    assert (kept.exit_code, kept.stdout) == (ExitCode.NOTHING_RAN, "")
    assert "--replace" in kept.stderr
    done = record(path, "--replace")
    assert "expectEvents: [{" not in done.stdout
    assert done.stdout.endswith("    # end\n")
    assert done.stdout.count("commandStartedEvent:") == 1


def test_events_that_other_cases_repeat_are_not_replaced_alone(write: Any, record: Any) -> None:
    first = case(INSERT, more="    expectEvents: &one [{ client: *client, events: [] }]\n")
    second = case(INSERT, name="b", more="    expectEvents: *one\n")
    path = write(scenario(first, second))
    done = record(f"{path}::a", "--replace")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert f"{path}:18: the alias *one stands for something that would be recorded anew" in done.stderr
    assert record(path, "--replace").stdout.count("commandName: insert") == 2


@pytest.mark.slow
def test_events_are_expected_as_far_as_they_are_the_same_in_all_runs(write: Any, record: Any) -> None:
    head = HEAD.replace("[commandStartedEvent]", "[serverDescriptionChangedEvent]")
    done = record(write(head.replace("1.0", "1.10") + "tests:\n" + case(INSERT)), on="all")
    assert done.exit_code == ExitCode.PASSED, done.output
    told = "sdam event 2 is not the same in all runs (nothing, but serverDescriptionChangedEvent with"
    assert f"note: a: client 'client0': {told} reference on replicaset, seed 0)" in done.stderr
    (expected,) = read(write(done.stdout)).value["tests"][0]["expectEvents"]
    assert (expected["eventType"], expected["ignoreExtraEvents"]) == ("sdam", True)
    (event,) = expected["events"]
    assert event["serverDescriptionChangedEvent"]["previousDescription"] == {"type": "Unknown"}


@pytest.mark.slow
def test_a_version_that_does_not_have_what_is_written_is_raised(write: Any, record: Any) -> None:
    thread = "{ name: runOnThread, object: testRunner, arguments: { thread: thread, operation: %s } }"
    head = HEAD.replace("initialData", "  - thread: { id: thread }\ninitialData").replace("1.0", "1.10")
    joined = "{ name: waitForThread, object: testRunner, arguments: { thread: thread } }"
    path = write(head + "tests:\n" + case(thread % INSERT, INSERT.replace("2", "3"), joined))
    done = record(path, "--in-place")
    assert done.exit_code == ExitCode.PASSED, done.output
    assert lint_file(path) == []


@pytest.mark.slow
def test_a_case_that_applies_nowhere_or_sees_nothing_is_told_of(write: Any, record: Any) -> None:
    elsewhere = case(INSERT, more="    runOnRequirements: [{ topologies: [sharded] }]\n")
    path = write(scenario(elsewhere))
    done = record(path)
    assert done.exit_code == ExitCode.NOTHING_RAN
    assert "note: a: does not apply (replicaset: needs topology sharded" in done.stderr
    blind = write(scenario(case(INSERT)).replace(", observeEvents: [commandStartedEvent]", ""))
    assert "note: a: no client observes events" in record(blind).stderr


def test_a_file_that_cannot_be_used_is_refused_with_its_place(write: Any, record: Any) -> None:
    path = write(scenario(case(INSERT.replace("object: stock", "object: stick"))))
    done = record(path)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert f"{path}:13:36: " in done.stderr
    assert "did you mean 'stock'?" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["::z"], "has no case 'z'; its cases:\n  a"),
        (["", "-o", "x.yml", "--in-place"], "use one of them"),
        (["", "--adapter", "oracle"], "neither one of reference"),
        (["", "--adapter", "pymongo", "--edition", "2026-02-20"], "pymongo follows 2026-07-08"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error(
    arguments: list[str], says: str, write: Any, record: Any
) -> None:
    first, *others = arguments
    done = record(f"{write(scenario(case(INSERT)))}{first}", *others)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert says in done.stderr


def test_json_is_written_by_to_json(write: Any, record: Any) -> None:
    done = record(write("{}", "x.json"))
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "to-json writes the JSON" in done.stderr


@pytest.mark.slow
def test_a_byte_order_mark_and_carriage_returns_stay(write: Any, record: Any) -> None:
    path = write("\ufeff" + scenario(case(INSERT)).replace("\n", "\r\n"))
    assert record(path, "--in-place").exit_code == ExitCode.PASSED
    data = path.read_bytes()
    assert data.startswith("\ufeff".encode())
    assert data.count(b"\n") == data.count(b"\r\n")
    assert lint_file(path) == []


def test_what_cannot_be_written_to_is_told(write: Any, record: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = record(write(scenario(case(INSERT))), "-o", tmp_path / "file" / "x.yml")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "Not a directory" in done.stderr

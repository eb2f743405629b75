"""Cases of every format under `pushbackd conform`: planned, run, judged and reported like any other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from format_files import POOL_CASE, RTT, VALID, listed

from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from click.testing import Result

    Pushbackd = Callable[..., Result]

STARTED = {"type": "ConnectionCheckOutStarted"}
IN_VIRTUAL_TIME = ("--time", "virtual", "--jobs", "1")


def write(folder: Path, **documents: Any) -> Path:
    """Write files of the specification `rules`."""
    (folder / "rules").mkdir()
    for name, document in documents.items():
        (folder / "rules" / f"{name}.json").write_text(json.dumps(document, indent=1))
    return folder


def results(done: Result) -> dict[tuple[str, str], str]:
    """Return status by id and deployment of a run with --json."""
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {(each["id"], each["topology"]): each["status"] for each in lines if "id" in each}


def test_a_case_without_servers_runs_once_and_one_of_a_pool_on_each_deployment_too(
    tmp_path: Path, pushbackd: Pushbackd
) -> None:
    folder = write(tmp_path, rtt=RTT, pool=POOL_CASE, wired={**POOL_CASE, "style": "integration"})
    on = ("--topology", "single", "--topology", "sharded+auth")
    done = pushbackd("conform", folder, "--json", *on, *IN_VIRTUAL_TIME)
    assert done.exit_code == ExitCode.PASSED
    assert results(done) == {
        ("rules/pool::a pool", "single"): "passed",
        ("rules/wired::a pool", "single"): "passed",
        ("rules/pool::a pool", "sharded+auth"): "passed",
        ("rules/wired::a pool", "sharded+auth"): "passed",
        ("rules/pool::a pool", "no-server"): "passed",
        ("rules/rtt::average round trip time", "no-server"): "passed",
    }


def test_background_runs_that_are_switched_off_leave_a_case_to_the_state_machine(
    tmp_path: Path, pushbackd: Pushbackd
) -> None:
    folder = write(tmp_path, pool={**POOL_CASE, "poolOptions": {"backgroundThreadIntervalMS": -1}})
    done = pushbackd("conform", folder, "--json", *IN_VIRTUAL_TIME)
    assert results(done) == {("rules/pool::a pool", "no-server"): "passed"}


@pytest.mark.parametrize("adapter", ["pymongo", "pymongo-async"])
def test_the_pool_of_another_driver_is_judged_with_and_without_its_background(
    tmp_path: Path, pushbackd: Pushbackd, adapter: str
) -> None:
    waits = [{"name": "ready"}, {"name": "wait", "ms": 150}, {"name": "close"}]
    events = [{"type": name} for name in ("ConnectionPoolReady", "ConnectionPoolClosed")]
    no_background = {"minPoolSize": 1, "backgroundThreadIntervalMS": -1}
    ignored = {"ignore": ["ConnectionPoolCreated", "ConnectionReady", "ConnectionClosed"]}
    quiet = {**POOL_CASE, **ignored, "operations": waits, "events": events, "poolOptions": no_background}
    busy = {**quiet, "poolOptions": {"minPoolSize": 1, "backgroundThreadIntervalMS": 10}}
    made = {**busy, "events": [events[0], {"type": "ConnectionCreated", "connectionId": 1}, events[1]]}
    folder = write(tmp_path, quiet=quiet, busy=busy, made=made)
    done = pushbackd("conform", folder, "--adapter", adapter, "--topology", "single", "--json", "--jobs", "1")
    assert results(done) == {
        ("rules/quiet::a pool", "single"): "passed",
        ("rules/busy::a pool", "single"): "failed",
        ("rules/made::a pool", "single"): "passed",
    }


def test_a_failure_tells_the_line_the_values_and_what_the_pool_published(
    tmp_path: Path, pushbackd: Pushbackd
) -> None:
    folder = write(tmp_path, pool={**POOL_CASE, "events": [STARTED]})
    done = pushbackd("conform", folder, "--no-color", *IN_VIRTUAL_TIME)
    assert done.exit_code == ExitCode.FAILED
    line = (folder / "rules" / "pool.json").read_text().splitlines().index(' "events": [') + 2
    assert f"pool.json:{line}: events[0]: expected ConnectionCheckOutStarted as event 0" in done.stdout
    assert "→ + extra    poolCreatedEvent" in done.stdout
    assert "= connectionCheckOutStartedEvent" in done.stdout
    assert "driver  poolReadyEvent" in done.stdout
    assert '── main  checkOut {"label": "conn"}' in done.stdout
    assert "--topology no-server" not in done.stdout


def test_a_broken_file_is_one_message_and_the_others_run(tmp_path: Path, pushbackd: Pushbackd) -> None:
    folder = write(tmp_path, rtt=RTT, wrong={**RTT, "new_rtt_ms": "fast"}, odd=listed({**VALID, "uir": ""}))
    done = pushbackd("conform", folder, *IN_VIRTUAL_TIME)
    assert done.exit_code == ExitCode.BAD_INPUT
    rules = folder / "rules"
    assert done.stderr.splitlines() == [
        f"{rules / 'odd.json'}:8:4: tests[0].uir: unknown field (did you mean 'uri'?)",
        f"{rules / 'wrong.json'}:3:16: new_rtt_ms: must be a number, is a string",
    ]
    assert "1 passed" in done.stdout


def test_other_drivers_have_no_such_cases_and_one_line_says_so(tmp_path: Path, pushbackd: Pushbackd) -> None:
    folder = write(tmp_path, rtt=RTT, strings=listed(VALID))
    done = pushbackd("conform", folder, "--adapter", "pymongo", "--no-color")
    assert done.exit_code == ExitCode.NOTHING_RAN
    assert "2 cases of other formats are for reference only, not for pymongo" in done.stdout
    both = pushbackd(
        "conform", folder, "--adapter", "pymongo", "--adapter", "reference", "-k", "rtt", "--jobs", "1"
    )
    assert "1 case of another format is for reference only, not for pymongo" in both.stdout
    assert "1 passed" in both.stdout


def test_a_known_failure_and_an_unexpected_pass_are_judged(tmp_path: Path, pushbackd: Pushbackd) -> None:
    folder = write(tmp_path, rtt={**RTT, "new_avg_rtt": 2}, pool=POOL_CASE)
    book = tmp_path / "book.yml"
    book.write_text('known-failing: [{case: "rules/rtt::*", reason: "It counts otherwise."}]')
    done = pushbackd("conform", folder, "--expectations", book, *IN_VIRTUAL_TIME)
    assert done.exit_code == ExitCode.PASSED
    assert "It counts otherwise." in done.stdout
    book.write_text(
        'known-failing: [{case: "rules/pool::*", reason: "It does not.", topologies: [no-server]}]'
    )
    done = pushbackd("conform", folder, "--expectations", book, "-k", "pool", *IN_VIRTUAL_TIME)
    assert done.exit_code == ExitCode.UNEXPECTED_PASS
    assert "1 passed, 1 unexpected-pass" in done.stdout


@pytest.mark.slow
def test_worker_processes_give_the_same_results(tmp_path: Path, pushbackd: Pushbackd) -> None:
    folder = write(tmp_path, rtt=RTT, pool=POOL_CASE, wrong={**RTT, "new_avg_rtt": 2})
    alone = pushbackd("conform", folder, "--json", *IN_VIRTUAL_TIME)
    spread = pushbackd("conform", folder, "--json", "--time", "virtual", "--jobs", "2")
    assert spread.stdout == alone.stdout
    assert "failed" in results(spread).values()


def test_reports_and_journals_have_these_cases_too(tmp_path: Path, pushbackd: Pushbackd) -> None:
    folder, junit, journals = write(tmp_path, pool=POOL_CASE), tmp_path / "junit.xml", tmp_path / "journals"
    done = pushbackd(
        "conform", folder, "--junit", junit, "--journal", journals, "--durations", "1", *IN_VIRTUAL_TIME
    )
    assert done.exit_code == ExitCode.PASSED
    assert "The longest cases" in done.stdout
    assert junit.read_text().count("<testcase ") == 2
    texts = {path.name.split(".")[-3]: path.read_text() for path in journals.iterdir()}
    assert texts.keys() == {"no-server", "replicaset"}
    kinds = [json.loads(line)["kind"] for line in texts["no-server"].splitlines()]
    assert kinds[:4] == ["poolCreatedEvent", "operation", "poolReadyEvent", "operationEnded"]
    assert any('"source":"node0"' in line for line in texts["replicaset"].splitlines())


@pytest.mark.parametrize(
    ("fields", "on", "reason"),
    [
        ({"runOn": [{"minServerVersion": "99.0"}]}, "single", "needs server 99.0 or newer"),
        ({"runOn": [{"topologies": ["sharded"]}]}, "single", "needs topology sharded"),
        ({}, "load-balanced", "a pool behind a load balancer counts generations by service"),
    ],
)
def test_a_case_of_a_pool_is_skipped_where_it_does_not_apply(
    tmp_path: Path, pushbackd: Pushbackd, fields: dict[str, Any], on: str, reason: str
) -> None:
    folder = write(tmp_path, pool={**POOL_CASE, "style": "integration", **fields})
    done = pushbackd("conform", folder, "--topology", on, *IN_VIRTUAL_TIME)
    assert done.exit_code == ExitCode.NOTHING_RAN
    assert reason in done.stdout


def test_a_fail_point_that_the_server_refuses_fails_the_case(tmp_path: Path, pushbackd: Pushbackd) -> None:
    fail_point = {"configureFailPoint": "noSuchThing", "mode": "alwaysOn"}
    folder = write(tmp_path, pool={**POOL_CASE, "style": "integration", "failPoint": fail_point})
    done = pushbackd("conform", folder, *IN_VIRTUAL_TIME)
    assert done.exit_code == ExitCode.FAILED
    assert "the server refuses the fail point" in done.stdout


def test_a_fail_point_is_off_for_the_next_case(tmp_path: Path, pushbackd: Pushbackd) -> None:
    data = {"failCommands": ["isMaster", "hello"], "errorCode": 91, "appName": "pools"}
    named = {**POOL_CASE, "style": "integration", "poolOptions": {"appName": "pools"}}
    failing = {
        **named,
        "failPoint": {"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data},
        "operations": [
            {"name": "ready"},
            {"name": "start", "target": "unlucky"},
            {"name": "checkOut", "thread": "unlucky"},
            {"name": "waitForEvent", "event": "ConnectionCheckOutFailed", "count": 1},
        ],
    }
    folder = write(tmp_path, a_failing=failing, b_sound=named)
    done = pushbackd("conform", folder, "--time", "real", "--jobs", "1")
    assert done.exit_code == ExitCode.PASSED
    assert "2 passed" in done.stdout


def test_a_case_of_a_pool_that_takes_too_long_is_ended_with_what_it_did(
    tmp_path: Path, pushbackd: Pushbackd
) -> None:
    operations = [*POOL_CASE["operations"], {"name": "wait", "ms": 2000}]
    folder = write(tmp_path, pool={**POOL_CASE, "style": "integration", "operations": operations})
    done = pushbackd("conform", folder, "--case-timeout", "1s", *IN_VIRTUAL_TIME)
    assert done.exit_code == ExitCode.FAILED
    assert "the case did not end within 1 seconds" in done.stdout
    assert '── main  wait {"ms": 2000}' in done.stdout


def test_what_fails_in_a_thread_that_nobody_waits_for_fails_the_case(
    tmp_path: Path, pushbackd: Pushbackd
) -> None:
    operations = [
        *POOL_CASE["operations"],
        {"name": "start", "target": "one"},
        {"name": "start", "target": "two"},
        {"name": "checkOut", "thread": "one", "label": "late"},
        {"name": "checkIn", "thread": "two", "connection": "late"},
    ]
    pool = {**POOL_CASE, "style": "integration", "poolOptions": {"maxPoolSize": 1}, "operations": operations}
    done = pushbackd("conform", write(tmp_path, pool=pool), *IN_VIRTUAL_TIME)
    assert done.exit_code == ExitCode.FAILED
    assert "operations[5].connection: the connection was not checked out" in done.stdout


def test_a_driver_s_error_outside_of_what_a_case_expects_fails_it(
    tmp_path: Path, pushbackd: Pushbackd
) -> None:
    sdam = {
        "description": "a phase",
        "uri": "http://a",
        "phases": [{"outcome": {"topologyType": "Unknown", "servers": {}}}],
    }
    done = pushbackd("conform", write(tmp_path, sdam=sdam), *IN_VIRTUAL_TIME)
    assert done.exit_code == ExitCode.FAILED
    assert "the driver raised ConfigurationError" in done.stdout
    assert "the harness failed" not in done.stdout


def test_lint_and_to_json_know_the_formats(tmp_path: Path, pushbackd: Pushbackd) -> None:
    path = tmp_path / "pool.yml"
    path.write_text(json.dumps(POOL_CASE, indent=1))
    assert pushbackd("lint", tmp_path).exit_code == ExitCode.PASSED
    assert pushbackd("to-json", tmp_path).exit_code == ExitCode.PASSED
    assert json.loads(path.with_suffix(".json").read_text()) == POOL_CASE
    path.write_text(json.dumps({**POOL_CASE, "style": "unti"}))
    done = pushbackd("lint", tmp_path)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "style: 'unti' is not one of unit, integration; did you mean 'unit'? (schema)" in done.stdout
    assert pushbackd("to-json", tmp_path).exit_code != ExitCode.PASSED

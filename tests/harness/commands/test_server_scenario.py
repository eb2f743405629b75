"""`pushbackd conform --server-scenario`: test scenarios on servers of which a file says what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from harness.cli import cli
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

ENTITIES = """\
description: orders
schemaVersion: "1.0"
createEntities:
  - client: {id: client}
  - database: {id: db, client: client, databaseName: shop}
  - collection: {id: orders, database: db, collectionName: orders}
"""

TESTS = (
    ENTITIES
    + """\
tests:
  - &case
    description: the first count fails
    operations:
      - {name: countDocuments, object: orders, arguments: {filter: {}}, expectError: {errorCode: 96}}
      - {name: countDocuments, object: orders, arguments: {filter: {}}, expectResult: 2}
      - {name: countDocuments, object: orders, arguments: {filter: {}}, expectResult: 3}
  - {<<: *case, description: and so it does in the next case}
"""
)

SERVERS = """\
pushbackd: "1.0"
data: {shop.orders: [{_id: 1}, {_id: 2}]}
rules:
  - {when: {command: aggregate}, times: 1, then: [{error: OperationFailed}]}
timeline:
  - after: 2 aggregate requests
    seed: {namespace: shop.orders, documents: [{_id: 3}]}
"""


MISTYPED = (
    ENTITIES
    + """\
tests:
  - &case
    description: the count meets its fault
    operations:
      - &failing
        name: failPoint
        object: testRunner
        arguments:
          client: client
          failPoint: &fault
            configureFailPoint: failCommand
            mode: {times: 1}
            data: {failCommands: [aggregate], errorCode: 96}
      - {name: countDocuments, object: orders, arguments: {filter: {}}, expectError: {errorCode: 96}}
  - description: the fault is for another command
    operations:
      - <<: *failing
        arguments: {client: client, failPoint: {<<: *fault, data: {failCommands: [find], errorCode: 96}}}
      - {name: countDocuments, object: orders, arguments: {filter: {}}, expectResult: 0}
"""
)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    tests, servers = tmp_path / "orders.yml", tmp_path / "servers.yml"
    tests.write_text(TESTS)
    servers.write_text(SERVERS)
    return str(tests), str(servers)


@pytest.mark.slow
@pytest.mark.parametrize("time", ["virtual", "real"])
def test_every_case_meets_the_servers_at_the_beginning_of_the_scenario(
    files: tuple[str, str], time: str
) -> None:
    tests, servers = files
    arguments = ["conform", tests, "--server-scenario", servers, "--time", time, "--jobs", "1"]
    assert cli.main([*arguments, "--topology", "single"], standalone_mode=False) is ExitCode.PASSED


@pytest.mark.slow
@pytest.mark.parametrize("repeated", [(), ("--repeat", "2")], ids=" ".join)
def test_a_run_ends_with_the_verdict_on_the_scenario(
    files: tuple[str, str], repeated: tuple[str, ...]
) -> None:
    tests, servers = files
    arguments = [
        "conform",
        tests,
        "--server-scenario",
        servers,
        "--topology",
        "single",
        "--jobs",
        "1",
        *repeated,
    ]
    run = CliRunner().invoke(cli, arguments, standalone_mode=False)
    verdict, total = run.output.splitlines()[-2:]
    assert verdict == f"verdict on {servers} in 2 cases: 2 steps performed; met rule rule1 2 times"
    assert total.startswith("2 passed")


@pytest.mark.slow
def test_what_happened_in_no_case_is_named(files: tuple[str, str], tmp_path: Path) -> None:
    rule = "{name: mistyped, when: {command: aggregate, namespace: shop.oders}, then: [{error: 96}]}"
    text = SERVERS.replace("after: 2", "after: 9").replace("timeline:", f"  - {rule}\ntimeline:")
    (tmp_path / "servers.yml").write_text(text)
    done = CliRunner().invoke(
        cli, ["conform", files[0], "--server-scenario", files[1], "--topology", "single", "--jobs", "1"]
    )
    lines = done.output.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("verdict on "))
    assert lines[at].endswith(" in 2 cases: met rule rule1 2 times; 2 never met")
    assert lines[at + 1 : at + 3] == [
        "  never met in any case: rule mistyped (command: aggregate, namespace: shop.oders)",
        "  never met in any case: a step of the timeline",
    ]


@pytest.mark.slow
def test_a_failure_is_repeated_with_the_scenario(files: tuple[str, str]) -> None:
    arguments = [
        "conform",
        files[0],
        "--server-scenario",
        "rolling-restart",
        "--time",
        "virtual",
        "--jobs",
        "1",
    ]
    run = CliRunner().invoke(cli, arguments, standalone_mode=False)
    assert run.return_value is ExitCode.FAILED
    assert "--topology replicaset --server-scenario rolling-restart" in run.output


def test_a_scenario_that_does_not_fit_the_topology_is_refused_before_the_first_case(
    files: tuple[str, str],
) -> None:
    run = CliRunner().invoke(
        cli, ["conform", files[0], "--server-scenario", "rolling-restart", "--topology", "single"]
    )
    assert run.exit_code == ExitCode.BAD_INPUT
    assert "rolling-restart.yml:8:21: timeline[0].restart.node: unknown server 'node1'" in run.output
    assert "stepDown is for replica sets and sharded clusters" in run.output


def test_servers_by_uri_have_no_scenario(files: tuple[str, str]) -> None:
    run = CliRunner().invoke(cli, ["conform", files[0], "--server-scenario", "x.yml", "--uri", "mongodb://a"])
    assert run.exit_code == ExitCode.BAD_INPUT
    assert "--server-scenario: not with --uri, because it is for fake servers" in run.output


@pytest.mark.parametrize("repeated", [(), ("--repeat", "2")], ids=" ".join)
@pytest.mark.parametrize("time", ["virtual", "real"])
def test_a_case_that_passes_without_its_fail_point_is_told(
    tmp_path: Path, repeated: tuple[str, ...], time: str
) -> None:
    tests = tmp_path / "orders.yml"
    tests.write_text(MISTYPED)
    arguments = ["conform", str(tests), "--topology", "single", "--time", time, "--jobs", "1", *repeated]
    run = CliRunner().invoke(cli, arguments, standalone_mode=False)
    verdict, never, total = run.output.splitlines()[-3:]
    assert verdict == "verdict on 2 cases with fail points that passed: 1 fail point met; 1 never met"
    assert never.startswith(
        '  never met: fail point failCommand {"failCommands": ["find"], "errorCode": 96}, in'
    )
    assert "the fault is for another command" in never
    assert total.startswith("2 passed")

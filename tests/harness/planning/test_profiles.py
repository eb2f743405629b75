"""Scenarios run on servers of an older or a newer release, which `--profile` names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from harness.adapters.deployment import Topology
from harness.cli import cli
from harness.deployments.targets import names_of, profile_of, targets, topology_of
from harness.planning.discovery import bundled_root
from harness.planning.expectations import parse
from harness.planning.plan import Item, Settings, load_all
from harness.planning.result import ExitCode, ResultStatus
from harness.report.rerun import rerun_command
from harness.unified.loader import read_yaml

if TYPE_CHECKING:
    from pathlib import Path

    from scenario_files import WriteScenario

BEFORE_44 = bundled_root() / "retryable-writes" / "servers-before-4.4.yml"


def conform(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["conform", *map(str, arguments)])


def results(done: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()][:-1]


@pytest.mark.parametrize(
    ("names", "auth", "profiles", "expected"),
    [
        (["single"], False, (), ("single",)),
        (["single"], False, ("8.2",), ("single",)),
        (["single"], True, ("4.2",), ("single+auth@4.2",)),
        (
            ["single", "replicaset"],
            False,
            ("8.2", "4.2"),
            ("single", "replicaset", "single@4.2", "replicaset@4.2"),
        ),
    ],
)
def test_each_deployment_is_run_in_each_profile(
    names: list[str], *, auth: bool, profiles: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert targets(names, auth=auth, profiles=profiles) == expected


def test_the_name_of_a_deployment_tells_its_topology_and_its_profile() -> None:
    assert topology_of("load-balanced+auth@4.2") is Topology.LOAD_BALANCED
    assert (profile_of("single+auth@4.2"), profile_of("single+auth")) == ("4.2", "8.2")


def test_expectations_speak_of_a_deployment_with_its_profile_or_without() -> None:
    assert names_of("single+auth@4.2") == {"single+auth@4.2", "single+auth", "single"}


@pytest.mark.parametrize("time", ["virtual", "real"])
def test_the_servers_are_of_the_release_that_is_asked_for(write_scenario: WriteScenario, time: str) -> None:
    scenario = write_scenario("a")
    text = scenario.read_text()
    scenario.write_text(text.replace("tests:", 'runOnRequirements: [{ maxServerVersion: "4.2.99" }]\ntests:'))
    done = conform(scenario, "--profile", "4.2", "--profile", "9.0", "--time", time, "--json")
    assert [(line["topology"], line["status"]) for line in results(done)] == [
        ("replicaset@4.2", "passed"),
        ("replicaset@9.0", "skipped"),
    ]


@pytest.mark.slow
def test_the_rules_for_servers_before_4_4_are_shown_on_such_servers() -> None:
    done = conform(BEFORE_44, "--profile", "4.2", "--topology", "all", "--time", "virtual", "--json")
    assert done.exit_code == ExitCode.PASSED, done.output
    passed = {line["id"] for line in results(done) if line["status"] == "passed"}
    assert passed == {case.id for case in load_all([BEFORE_44]).cases}


@pytest.mark.slow
def test_pymongo_says_which_servers_are_too_old_for_it() -> None:
    done = conform(
        BEFORE_44, "--profile", "4.2", "--adapter", "pymongo", "--adapter", "pymongo-async", "--json"
    )
    assert done.exit_code == ExitCode.NOTHING_RAN
    reasons = {line["reason"] for line in results(done)}
    assert any("needs servers from 4.4 on, these are 4.2.25" in reason for reason in reasons)


def test_the_command_that_runs_a_case_again_names_the_profile() -> None:
    item = Item("spec/a::b", str(BEFORE_44), 0, "reference", "2026-02-20", "single+auth@4.2")
    again = rerun_command(item.result(ResultStatus.FAILED, "why"), Settings())
    assert "--topology single+auth --profile 4.2" in again


def test_an_entry_for_one_profile_leaves_the_others_alone(tmp_path: Path) -> None:
    text = "known-failing:\n  - { case: 'spec/a::b', reason: later, topologies: [single@4.2] }\n"
    book = parse(read_yaml(text, tmp_path / "expected.yml")[0])
    assert book.find("spec/a::b", "single@4.2", "2026-02-20") is not None
    assert book.find("spec/a::b", "single", "2026-02-20") is None


def test_a_profile_that_nobody_knows_is_a_wrong_command_line(write_scenario: WriteScenario) -> None:
    done = conform(write_scenario("a"), "--profile", "3.6")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "'3.6' is not one of" in done.stderr


def test_servers_by_uri_have_the_release_that_they_have(write_scenario: WriteScenario) -> None:
    done = conform(write_scenario("a"), "--uri", "mongodb://localhost:1", "--profile", "4.2")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "--profile: not with --uri" in done.stderr

"""`pushbackd serve --scenario`: a scenario with a client that is no part of it, and mistakes in its file."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pymongo import MongoClient
from started import Started

from fakeserver.access import UserSpec
from fakeserver.cli.command import options_of
from fakeserver.cli.description import scenario_of
from fakeserver.cli.program import main

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
pushbackd: "1.0"
seed: 5
deployment: {topology: single}
users: [{name: ada, password: x}]
data: {shop.orders: [{_id: 1}]}
parameters: {cursorTimeoutMillis: 1000, logLevel: 1}
timeline:
  - after: 1 insert request
    seed: {namespace: shop.orders, documents: [{_id: 2}]}
  - after: 1 insert request
    resume: {node: node0}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "orders.yml"
    path.write_text(TEXT)
    return str(path)


@pytest.mark.slow
def test_a_served_scenario_is_played_while_a_client_works(file: str) -> None:
    command = [sys.executable, "-m", "harness", "serve", "--scenario", file, "--control", "none"]
    with Started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        uri = process.stdout.readline().strip()
        with MongoClient[Any](uri, serverSelectionTimeoutMS=10_000) as client:
            orders = client.shop.orders
            orders.insert_one({"_id": 3})
            while not orders.count_documents({"_id": 2}):
                pass
            assert orders.count_documents({}) == 3
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    lines = [json.loads(line) for line in errors.splitlines()]
    (verdict,) = [line["attr"] for line in lines if line["msg"] == "Verdict on the scenario"]
    assert (verdict["asExpected"], len(verdict["steps"]["failed"])) == (False, 1)
    (failed,) = [line for line in lines if line["msg"] == "Scenario step failed"]
    assert (failed["s"], failed["attr"]["step"]) == ("E", f"{file}:10")


def test_the_command_line_says_where_and_the_file_says_what(file: str) -> None:
    arguments = ["--scenario", file, "--port", "28000", "--setParameter", "logLevel=2", "--user", "bob:y"]
    spec = scenario_of(options_of(arguments)).spec
    assert (spec.ports, spec.seed, spec.topology) == ((28000,), 5, "single")
    assert spec.parameters == {"cursorTimeoutMillis": 1000, "logLevel": "2"}
    assert spec.users == (UserSpec("bob", "y"), UserSpec("ada", "x"))
    assert scenario_of(options_of(["--scenario", file, "--seed", "9"])).seed == 9


def test_mistakes_in_the_file_are_lines_with_their_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.yml"
    path.write_text('pushbackd: "1.0"\ntimelin: []\ndeployment: {member: 3}\n')
    assert main(["--scenario", str(path)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"Error: {path}:2:1: unknown field 'timelin'; did you mean 'timeline'?"
    assert second.startswith(f"{path}:3:14: deployment: unknown field of deployment 'member'")


@pytest.mark.parametrize(
    ("arguments", "topology", "servers"),
    [
        ([], "single", 1),
        (["--topology", "replicaset"], "replicaset", 3),
        (["--replSet", "rs1", "--members", "5"], "replicaset", 5),
    ],
)
def test_a_scenario_runs_on_another_topology_where_that_is_asked_for(
    file: str, arguments: list[str], topology: str, servers: int
) -> None:
    scenario = scenario_of(options_of(["--scenario", file, *arguments]))
    spec = scenario.spec
    assert (spec.topology, spec.mongos or len(spec.member_specs)) == (topology, servers)
    assert spec.parameters == {"cursorTimeoutMillis": 1000, "logLevel": 1}
    assert (spec.users, spec.seed) == ((UserSpec("ada", "x"),), 5)
    assert len(scenario.timeline) == 2


def test_a_scenario_of_replica_sets_is_refused_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--scenario", "rolling-restart", "--topology", "single"]) == 2
    assert "stepDown is for replica sets and sharded clusters" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--scenario", "retry-strom"], "did you mean 'retry-storm'? scenarios are connection-storm"),
        (["--scenario", "retry-storm", "--tlsMode", "requireTLS"], "the file of --scenario describes"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert complaint in capsys.readouterr().err

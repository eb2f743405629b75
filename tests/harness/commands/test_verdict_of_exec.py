"""`pushbackd exec` ends with a verdict, and fails where nothing of its scenario happened."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli import cli

pytestmark = pytest.mark.slow

INSERTS = """
import os, sys
from pymongo import MongoClient
from pymongo.errors import PyMongoError
with MongoClient(os.environ["MONGODB_URI"]) as client:
    for number in range(3):
        try:
            client.shop.orders.insert_one({"_id": number})
        except PyMongoError:
            pass
sys.exit(int(sys.argv[1]))
"""

SCENARIO = """
pushbackd: "1.0"
deployment: {topology: TOPOLOGY}
rules:
  - name: full
    when: {command: insert, namespace: NAMESPACE}
    then: [{error: 8}]
    times: 1
"""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PUSHBACKD_ID", "TOPOLOGY", "AUTH", "SSL", "MONGODB_VERSION", "LOAD_BALANCER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PUSHBACKD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PUSHBACKD_CACHE_DIR", str(tmp_path / "cache"))


def scenario(folder: Path, *, namespace: str = "shop.orders", topology: str = "replicaset") -> str:
    file = folder / "full.yml"
    file.write_text(SCENARIO.replace("NAMESPACE", namespace).replace("TOPOLOGY", topology))
    return str(file)


def run(*options: str, code: int = 0) -> Result:
    return CliRunner().invoke(cli, ["exec", *options, "--", sys.executable, "-c", INSERTS, str(code)])


def test_the_verdict_says_what_happened_in_lines_in_json_and_on_the_page_of_the_trace(tmp_path: Path) -> None:
    file = tmp_path / "verdict.json"
    done = run("--scenario", scenario(tmp_path), "--json", str(file))
    assert done.exit_code == 0, done.stderr
    head, failed, trace = done.stderr.splitlines()
    assert head == "verdict: met rule full once; 1 of 3 operations failed"
    assert failed == "  failed in the application: insert, 8 UnknownError, once"
    assert trace.startswith(f"  trace: {tmp_path / 'cache'}")
    document = json.loads(file.read_text())
    assert (document["exitCode"], document["verdict"]["asExpected"]) == (0, True)
    assert document["trace"] == trace.removeprefix("  trace: ")
    page = Path(document["trace"]).read_text()
    assert ": as expected</h1>" in page
    assert "● rule full on insert: error" in page
    assert "✗ insert shop.orders -&gt; 8 UnknownError" in page


def test_a_rule_that_nothing_met_is_an_error_with_what_came_near(tmp_path: Path) -> None:
    done = run("--scenario", scenario(tmp_path, namespace="shop.oders"))
    assert done.exit_code == 1
    lines = done.stderr.splitlines()
    assert lines[1] == "  never met: rule full (command: insert, namespace: shop.oders)"
    assert lines[2].endswith("insert shop.orders -> ok at node0: namespace is shop.orders")
    assert lines[-1] == "Error: 1 of its faults and expectations never met; --unmet ignore allows it"


def test_a_scenario_that_outlives_the_command_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "late.yml"
    file.write_text('pushbackd: "1.0"\ntimeline:\n  - at: 1h\n    stepDown:\n')
    done = run("--scenario", str(file), "--quiet")
    assert done.exit_code == 1
    assert done.stderr == "Error: no step of the timeline was performed; --unmet ignore allows it\n"


@pytest.mark.parametrize(
    ("options", "code", "exit_code"), [(["--unmet", "ignore"], 0, 0), ([], 7, 7), (["--quiet"], 0, 1)]
)
def test_the_command_itself_has_the_first_word(
    tmp_path: Path, options: list[str], code: int, exit_code: int
) -> None:
    done = run("--scenario", scenario(tmp_path, namespace="shop.oders"), *options, code=code)
    assert done.exit_code == exit_code
    assert ("verdict:" in done.stderr) is ("--quiet" not in options)


def test_a_scenario_runs_on_the_topology_that_is_asked_for(tmp_path: Path) -> None:
    file, trace = scenario(tmp_path, topology="single"), tmp_path / "trace.html"
    alone = run("--scenario", file)
    replicated = run("--scenario", file, "-t", "replset", "--trace", str(trace))
    assert "● rule full on insert: error" in trace.read_text()
    assert alone.stderr.startswith("note: transactions and change streams cannot run on a standalone server")
    assert replicated.stderr.startswith("verdict: met rule full once")
    assert (alone.exit_code, replicated.exit_code) == (0, 0)


def test_without_a_scenario_the_verdict_judges_nothing() -> None:
    done = run()
    assert (done.exit_code, done.stderr) == (0, "verdict: 0 of 3 operations failed\n")


def test_a_command_that_does_not_find_the_servers_is_told_how_to() -> None:
    for words in (["exec"], ["drill", "--unmet", "ignore"]):
        done = CliRunner().invoke(cli, [*words, "--", sys.executable, "-c", "pass"])
        assert done.exit_code == 0
        assert (
            "  hint: no operation came; the command gets the connection string in MONGODB_URI" in done.stderr
        )


def test_a_command_that_ends_its_server_has_no_verdict() -> None:
    stop = "import sys; from harness.cli import cli; cli(['stop'])"
    done = CliRunner().invoke(cli, ["exec", "--", sys.executable, "-c", stop])
    assert done.exit_code == 0
    assert "no verdict: the server" in done.stderr

"""`pushbackd conform --uri`: the command line, and what is said to the user."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from served import served

from fakeserver import ClusterSpec, UserSpec
from fakeserver.assembly.background import BackgroundCluster
from harness.deployments.external import DeploymentError
from harness.planning.plan import Settings
from harness.planning.result import ExitCode
from harness.running import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scenario_files import WriteScenario

    Pushbackd = Callable[..., Any]

VARIABLES = ("MONGODB_URI", "SINGLE_MONGOS_LB_URI", "MULTI_MONGOS_LB_URI", "LOAD_BALANCER")
NOWHERE = "mongodb://localhost:1/?serverSelectionTimeoutMS=100"
WRONG = (
    "[{name: assertCollectionExists, object: testRunner, arguments: {databaseName: d, collectionName: c}}]"
)


@pytest.fixture(autouse=True)
def _no_servers_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@contextmanager
def standalone() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(ClusterSpec.standalone(auth=True, users=(UserSpec("bob", "pwd123"),))) as cluster:
        yield cluster


def test_a_run_says_where_it_is_and_what_it_drops_there(
    pushbackd: Pushbackd, write_scenario: WriteScenario
) -> None:
    with standalone() as cluster:
        done = pushbackd("conform", write_scenario("a"), "--uri", cluster.uri, "-q")
    assert done.exit_code == ExitCode.PASSED
    address = cluster.nodes[0].address
    assert done.stderr.splitlines() == [
        f"on single+auth+uri, MongoDB 8.2.3, at mongodb://bob:***@{address}/",
        "  the collections that scenarios name are dropped there",
    ]


def test_a_failure_names_the_servers_without_the_password_and_says_that_they_keep_no_journal(
    pushbackd: Pushbackd, write_scenario: WriteScenario
) -> None:
    with standalone() as cluster:
        done = pushbackd("conform", write_scenario("a", operations=WRONG), "--uri", cluster.uri, "-v")
    assert done.exit_code == ExitCode.FAILED
    assert "[reference, single+auth+uri]" in done.stdout
    assert f"--uri 'mongodb://bob:***@{cluster.nodes[0].address}/'" in done.stdout
    assert "pwd123" not in done.output


def test_a_run_goes_where_the_environment_says_when_it_is_told_to(
    pushbackd: Pushbackd, write_scenario: WriteScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BackgroundCluster(ClusterSpec.load_balanced(mongos=2)) as cluster:
        monkeypatch.setenv("SINGLE_MONGOS_LB_URI", cluster.cluster.uri_single)
        monkeypatch.setenv("MULTI_MONGOS_LB_URI", cluster.uri)
        done = pushbackd("conform", write_scenario("a"), "--uri", "env", "-v")
    assert done.exit_code == ExitCode.PASSED
    assert f"on load-balanced+uri, MongoDB 8.2.3, at {cluster.uri}" in done.stderr
    assert "[reference, load-balanced+uri]" in done.stdout


def test_a_variable_alone_changes_nothing_but_is_mentioned(
    pushbackd: Pushbackd, write_scenario: WriteScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONGODB_URI", NOWHERE)
    arguments = ("conform", write_scenario("a"), "--time", "virtual")
    done = pushbackd(*arguments)
    assert done.exit_code == ExitCode.PASSED
    assert "MONGODB_URI is not used; --uri env would run on those servers" in done.stderr
    assert pushbackd(*arguments, "-q").stderr == ""


def test_servers_that_do_not_answer_are_one_error_before_anything_runs(
    pushbackd: Pushbackd, write_scenario: WriteScenario
) -> None:
    done = pushbackd("conform", write_scenario("a"), "--uri", NOWHERE)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert done.stderr.startswith(f"Error: {NOWHERE}: localhost:1: ")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--uri", NOWHERE, "--time", "virtual"], "--time virtual: not with --uri"),
        (["--uri", NOWHERE, "--jobs", "2"], "which disturb each other there"),
        (["--uri", NOWHERE, "--topology", "single"], "--topology: not with --uri"),
        (["--uri", NOWHERE, "--auth"], "--auth: not with --uri"),
        (["--uri", "env"], "--uri: none of MONGODB_URI"),
        (["--uri-multi", NOWHERE], "--uri: the connection string of several mongos needs that of one"),
    ],
)
def test_what_contradicts_servers_by_uri_is_a_wrong_command_line(
    pushbackd: Pushbackd, arguments: list[str], message: str
) -> None:
    done = pushbackd("conform", *arguments)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert message in done.stderr


def test_cases_run_one_at_a_time_on_servers_by_uri(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "processors", lambda: 64)
    assert run.jobs_for(1000, Settings()) > 1
    assert run.jobs_for(1000, Settings(uri=NOWHERE)) == 1


def test_a_run_whose_servers_are_lost_reports_what_it_has_and_says_why_it_ended(
    pushbackd: Pushbackd, write_scenario: WriteScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: Any, **__: Any) -> None:
        raise DeploymentError("mongodb://a/: nobody answers")

    monkeypatch.setattr("harness.running.conformance.run_patiently", lose)
    with standalone() as cluster:
        done = pushbackd("conform", write_scenario("a"), "--uri", cluster.uri)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "1 not-run" in done.stdout
    assert "the servers do not answer any more" in done.stdout
    assert "Error: mongodb://a/: nobody answers" in done.stderr


@pytest.mark.slow
def test_what_serve_prints_is_what_conform_takes(pushbackd: Pushbackd, write_scenario: WriteScenario) -> None:
    with served("--topology", "sharded", "--mongos", "2") as uri:
        done = pushbackd("conform", write_scenario("a"), "--uri", uri, "-v", "--json")
    assert done.exit_code == ExitCode.PASSED
    assert '"topology": "sharded+uri"' in done.stdout or '"topology":"sharded+uri"' in done.stdout

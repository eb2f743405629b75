"""Scenarios as pytest items, on servers that a user gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scenario_files import scenario_text

# Pytester forgets what the runs inside of a test import, and the YAML parser does not bear a second import.
import harness.unified.loader  # noqa: F401
from fakeserver import ClusterSpec, UserSpec
from fakeserver.assembly.background import BackgroundCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

NOWHERE = "mongodb://localhost:1/?serverSelectionTimeoutMS=100"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project with two cases."""
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers --strict-config -p harness.pytest_plugin\n"
        "filterwarnings =\n    error\n    ignore:unclosed <socket:ResourceWarning\n"
        "pushbackd_scenarios = scenarios\npushbackd_time = virtual real\n"
    )
    pytester.mkdir("scenarios").joinpath("tiny.yml").write_text(scenario_text("a", "b"))
    return pytester


@pytest.fixture
def cluster() -> Iterator[BackgroundCluster]:
    with BackgroundCluster(ClusterSpec.standalone(auth=True, users=(UserSpec("bob", "pwd123"),))) as cluster:
        yield cluster


def test_items_are_named_after_the_servers_and_run_in_real_time(
    project: pytest.Pytester, cluster: BackgroundCluster
) -> None:
    done = project.runpytest_inprocess("scenarios", "-v", "--pushbackd-uri", cluster.uri)
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(
        [
            f"pushbackd: *, uri mongodb://bob:[*][*][*]@{cluster.nodes[0].address}/",
            "scenarios/tiny.yml::a[[]reference-single+auth+uri-real[]] PASSED*",
        ]
    )
    assert "pwd123" not in done.stdout.str()


def test_the_ini_file_may_name_the_environment(
    project: pytest.Pytester, cluster: BackgroundCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MONGODB_URI", cluster.uri)
    done = project.runpytest_inprocess("scenarios", "-v", "-o", "pushbackd_uri=env")
    done.assert_outcomes(passed=2)
    assert "single+auth+uri" in done.stdout.str()


def test_workers_would_disturb_each_other_and_are_refused(
    project: pytest.Pytester, cluster: BackgroundCluster
) -> None:
    uri = ("--pushbackd-uri", cluster.uri)
    refused = project.runpytest_inprocess("scenarios", "-n", "2", *uri)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*disturb each other: add -n 0"])
    project.runpytest_inprocess("scenarios", "-n", "0", *uri).assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--pushbackd-uri", NOWHERE],
            f"*Exit: pushbackd uri: {NOWHERE.replace('?', '[?]')}: localhost:1: *",
        ),
        (["--pushbackd-uri", "env"], "*pushbackd uri: none of MONGODB_URI*"),
        (["--pushbackd-uri", NOWHERE, "--pushbackd-time", "virtual"], "*no virtual time*"),
        (["--pushbackd-uri", NOWHERE, "--pushbackd-topology", "single"], "*topology is that of the servers*"),
        (["--pushbackd-uri", NOWHERE, "--pushbackd-profile", "4.2"], "*profile is that of the servers*"),
    ],
)
def test_servers_that_cannot_be_used_are_one_error(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.delenv("MONGODB_URI", raising=False)
    done = project.runpytest_inprocess("scenarios", *arguments)
    assert done.ret in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
    done.stdout.fnmatch_lines([message])

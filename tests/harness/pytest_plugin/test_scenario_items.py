from __future__ import annotations

import shlex
import sys
from pathlib import Path

import adapter_child
import pytest
from scenario_files import scenario_text

import harness

# Pytester forgets what the runs inside of a test import, and neither the YAML parser nor the driver's classes
# bear a second import.
import harness.adapters.reference.adapter
import harness.unified.loader

ON_SHARDED = 'topologies: ["sharded"]'
UNKNOWN_OPERATION = "[{name: frobnicate, object: testRunner}]"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project whose conftest, in the folder `scenarios`, asks for the plugin."""
    pytester.makeini("[pytest]\naddopts = --strict-markers --strict-config\nfilterwarnings = error\n")
    pytester.mkdir("scenarios")
    pytester.makepyfile(**{"scenarios/conftest": 'pytest_plugins = ["harness.pytest_plugin"]'})
    return pytester


def write(
    project: pytest.Pytester, *descriptions: str, path: str = "scenarios/tiny.yml", **parts: str
) -> None:
    file = project.path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(scenario_text(*descriptions, **parts))


def collected(project: pytest.Pytester, *arguments: str) -> list[str]:
    """Return what pytest would run, by its node ids."""
    done = project.runpytest_inprocess("--collect-only", "-q", "-p", "no:cacheprovider", *arguments)
    return [line for line in done.outlines if "::" in line and "[" in line]


def test_a_case_is_an_item_with_a_stable_id(project: pytest.Pytester) -> None:
    write(project, "works", "fails: twice")
    assert collected(project, "scenarios") == [
        "scenarios/tiny.yml::works[reference-replicaset-real]",
        "scenarios/tiny.yml::fails: twice[reference-replicaset-real]",
    ]


def test_yaml_outside_of_the_folder_that_opted_in_is_never_touched(project: pytest.Pytester) -> None:
    write(project, "a")
    write(project, "b", path="elsewhere/other.yml")
    (project.path / "scenarios" / "settings.yml").write_text("schemas: [unclosed")
    assert collected(project, "scenarios", "elsewhere") == [
        "scenarios/tiny.yml::a[reference-replicaset-real]"
    ]


def test_a_file_that_is_named_on_the_command_line_is_collected(project: pytest.Pytester) -> None:
    write(project, "b", path="elsewhere/other.yml")
    found = collected(project, "-p", "harness.pytest_plugin", "elsewhere/other.yml")
    assert found == ["elsewhere/other.yml::b[reference-replicaset-real]"]


@pytest.mark.parametrize("pattern", ["elsewhere", "else*", "elsewhere/*.yml", "**/other.yml"])
def test_the_ini_file_names_folders_or_globs(project: pytest.Pytester, pattern: str) -> None:
    write(project, "a")
    write(project, "b", path="elsewhere/other.yml")
    found = collected(project, "-p", "harness.pytest_plugin", "-o", f"pushbackd_scenarios={pattern}", ".")
    assert found == ["elsewhere/other.yml::b[reference-replicaset-real]"]


@pytest.mark.slow
def test_an_adapter_of_the_users_goes_by_the_name_that_it_says(project: pytest.Pytester) -> None:
    write(project, "a")
    command = shlex.join([sys.executable, str(Path(adapter_child.__file__)), "pymongo-async"])
    done = project.runpytest_inprocess("scenarios", "-v", f"--pushbackd-adapter=cmd:{command}")
    done.assert_outcomes(passed=1)
    assert "scenarios/tiny.yml::a[child-replicaset-real]" in done.stdout.str()


def test_an_adapter_that_cannot_be_started_is_a_usage_error(project: pytest.Pytester) -> None:
    write(project, "a")
    done = project.runpytest_inprocess("scenarios", "--pushbackd-adapter=cmd:/no/such/program")
    assert "pushbackd adapter: the adapter cannot be started" in done.stdout.str() + done.stderr.str()
    assert done.ret != pytest.ExitCode.OK


def test_a_json_twin_is_not_collected(project: pytest.Pytester) -> None:
    write(project, "a")
    (project.path / "scenarios" / "tiny.json").write_text('{"schemaVersion": "1.0"}')
    assert collected(project, "scenarios") == ["scenarios/tiny.yml::a[reference-replicaset-real]"]


def test_a_case_runs_with_each_driver_on_each_topology_in_each_time_that_they_have(
    project: pytest.Pytester,
) -> None:
    write(project, "a")
    options = ("adapter=reference pymongo-async", "topology=standalone replicaset", "time=virtual real")
    ini = [word for option in options for word in ("-o", f"pushbackd_{option}")]
    assert collected(project, "scenarios", *ini) == [
        "scenarios/tiny.yml::a[reference-single-virtual]",
        "scenarios/tiny.yml::a[reference-replicaset-virtual]",
        "scenarios/tiny.yml::a[reference-single-real]",
        "scenarios/tiny.yml::a[reference-replicaset-real]",
        "scenarios/tiny.yml::a[pymongo-async-single-real]",
        "scenarios/tiny.yml::a[pymongo-async-replicaset-real]",
    ]


def test_the_command_line_is_stronger_than_the_ini_file(project: pytest.Pytester) -> None:
    write(project, "a")
    arguments = ("-o", "pushbackd_topology=replicaset", "--pushbackd-topology", "single")
    assert collected(project, "scenarios", *arguments) == ["scenarios/tiny.yml::a[reference-single-real]"]


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("adapter", "oracle", "pushbackd adapter: 'oracle' is none of reference, pymongo, pymongo-async"),
        ("topology", "ring", "pushbackd topology: 'ring' is none of single, replicaset"),
        ("time", "mean", "pushbackd time: 'mean' is none of real, virtual"),
        ("edition", "2020-01-01", "pushbackd edition: '2020-01-01' is none of 2026-02-20, 2026-07-08"),
        ("seed", "x", "pushbackd seed: 'x' is not a number"),
    ],
)
def test_an_option_with_a_wrong_value_is_a_usage_error(
    project: pytest.Pytester, option: str, value: str, message: str
) -> None:
    write(project, "a")
    done = project.runpytest_inprocess("scenarios", f"--pushbackd-{option}", value)
    assert message in "\n".join([*done.outlines, *done.errlines])
    assert done.ret != pytest.ExitCode.OK


def test_a_broken_scenario_is_an_error_of_collection_with_its_line(project: pytest.Pytester) -> None:
    write(project, "a", operations="[{name: ping}]")
    done = project.runpytest_inprocess("scenarios")
    assert done.ret == pytest.ExitCode.INTERRUPTED
    done.stdout.fnmatch_lines(["*tiny.yml:5:*tests?0?.operations?0?*"])


def test_a_case_that_passes_is_a_test_that_passes(project: pytest.Pytester) -> None:
    write(project, "a", "b")
    project.runpytest_inprocess("scenarios").assert_outcomes(passed=2)


def test_a_case_that_cannot_run_here_is_skipped_with_the_reason(project: pytest.Pytester) -> None:
    write(project, "a", requires=ON_SHARDED)
    done = project.runpytest_inprocess("scenarios", "-rs")
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(["SKIPPED * scenarios/tiny.yml:6: *sharded*"])


def test_a_failure_shows_the_line_of_the_scenario_and_not_the_stack_of_the_runner(
    project: pytest.Pytester,
) -> None:
    write(project, "a", operations=UNKNOWN_OPERATION)
    done = project.runpytest_inprocess("scenarios")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*tiny.yml:5*frobnicate*"])
    done.stdout.no_fnmatch_line("*Traceback*")
    done.stdout.no_fnmatch_line("*bench.py*")


def expecting(project: pytest.Pytester, *, kind: str = "known-failing") -> list[str]:
    text = f"{kind}:\n  - {{case: 'scenarios/tiny::a', reason: PYTHON-1}}\n"
    (project.path / "expected.yml").write_text(text)
    return ["scenarios", "-rxXs", "-o", "pushbackd_expectations=expected.yml"]


def test_what_failed_last_runs_by_itself(project: pytest.Pytester) -> None:
    write(project, "a", operations=UNKNOWN_OPERATION)
    write(project, "b", path="scenarios/other.yml")
    project.runpytest_inprocess("scenarios").assert_outcomes(failed=1, passed=1)
    project.runpytest_inprocess("scenarios", "--last-failed").assert_outcomes(failed=1)


def test_a_case_that_is_known_to_fail_is_expected_to_fail(project: pytest.Pytester) -> None:
    write(project, "a", operations=UNKNOWN_OPERATION)
    done = project.runpytest_inprocess(*expecting(project))
    done.assert_outcomes(xfailed=1)
    done.stdout.fnmatch_lines(["XFAIL *tiny.yml::a* PYTHON-1"])


def test_a_case_that_is_known_to_fail_and_passes_fails_the_run(project: pytest.Pytester) -> None:
    write(project, "a")
    done = project.runpytest_inprocess(*expecting(project))
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*XPASS(strict)*PYTHON-1*"])


def test_an_entry_of_an_expectations_file_can_skip_a_case(project: pytest.Pytester) -> None:
    write(project, "a", operations=UNKNOWN_OPERATION)
    project.runpytest_inprocess(*expecting(project, kind="skip")).assert_outcomes(skipped=1)


def test_the_header_says_what_the_cases_run_with(project: pytest.Pytester) -> None:
    write(project, "a")
    done = project.runpytest_inprocess("scenarios", "--pushbackd-seed", "7")
    done.stdout.fnmatch_lines(
        ["pushbackd: adapter reference, topology replicaset, profile 8.2, time real, seed 7, reruns 2"]
    )


def test_every_case_carries_the_marker(project: pytest.Pytester) -> None:
    write(project, "a")
    assert collected(project, "scenarios", "-m", "not pushbackd") == []


@pytest.mark.slow
def test_cases_run_on_the_workers_of_xdist(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xdist")
    monkeypatch.setenv("PYTHONPATH", str(Path(harness.__file__).parents[1]))
    write(project, "a", "b", "c", "d")
    project.runpytest_subprocess("scenarios", "-n", "2").assert_outcomes(passed=4)


POOL_FILE = """\
version: 1
style: unit
description: a pool is ready
operations: [{ name: ready }]
events:
  - { type: ConnectionPoolCreated }
  - { type: ConnectionPoolReady }
"""


def write_pool(project: pytest.Pytester, text: str = POOL_FILE) -> None:
    (project.path / "scenarios" / "pool.yml").write_text(text)


def test_a_file_of_a_pool_gives_items_of_each_driver_and_of_the_state_machine(
    project: pytest.Pytester,
) -> None:
    write_pool(project)
    arguments = ("--pushbackd-adapter=reference", "--pushbackd-adapter=pymongo")
    times = ("--pushbackd-time=virtual", "--pushbackd-time=real")
    assert collected(project, "scenarios", *arguments, *times) == [
        "scenarios/pool.yml::a pool is ready[reference-replicaset-virtual]",
        "scenarios/pool.yml::a pool is ready[reference-no-server-virtual]",
        "scenarios/pool.yml::a pool is ready[reference-replicaset-real]",
        "scenarios/pool.yml::a pool is ready[pymongo-replicaset-real]",
    ]


def test_an_item_of_another_format_is_chosen_by_node_id_and_by_words(project: pytest.Pytester) -> None:
    write_pool(project)
    node = "scenarios/pool.yml::a pool is ready[reference-no-server-real]"
    assert collected(project, node) == [node]
    assert collected(project, "scenarios", "-k", "pool and no-server") == [node]
    project.runpytest_inprocess("scenarios").assert_outcomes(passed=2)


def test_a_failing_item_of_another_format_shows_line_values_and_events(project: pytest.Pytester) -> None:
    write_pool(project, POOL_FILE.replace("ConnectionPoolReady", "ConnectionPoolClosed"))
    done = project.runpytest_inprocess("scenarios", "-k", "no-server")
    done.assert_outcomes(failed=1, deselected=1)
    done.stdout.fnmatch_lines(
        [
            "*pool.yml:7: events[[]1]: expected ConnectionPoolClosed as event 1, got ConnectionPoolReady",
            "*= poolCreatedEvent*",
            "*→ - expected poolClosedEvent*(line 7)*",
            "*+ extra    poolReadyEvent*",
        ]
    )


def test_a_broken_file_of_another_format_says_where(project: pytest.Pytester) -> None:
    write_pool(project, POOL_FILE.replace("name: ready", "name: raedy"))
    done = project.runpytest_inprocess("scenarios")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*pool.yml:4:22: operations[[]0].name: 'raedy' is not one of *"])

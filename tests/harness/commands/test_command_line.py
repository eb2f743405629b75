from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from typing import TYPE_CHECKING

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from harness.cli import SUBCOMMANDS, cli
from harness.commands.subcommands import FORMER
from harness.planning.result import ExitCode

if TYPE_CHECKING:
    from pathlib import Path

    from scenario_files import WriteScenario

VALID = 'description: x\nschemaVersion: "1.0"\ntests:\n  - description: a\n    operations: []\n'
ROOT_MODULES = ("asyncio", "bson", "yaml", "rich", "pymongo", "mongomock", "driver", "fakeserver")


def conform(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["conform", *map(str, arguments)])


def test_the_help_lists_the_subcommands_and_imports_nothing_heavy() -> None:
    script = (
        "import sys; from harness.cli import cli\n"
        "try: cli(['--help'])\n"
        f"finally: print([name for name in {ROOT_MODULES} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.PASSED
    assert all(f"  {name}  " in done.stdout for name in SUBCOMMANDS)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_the_help_of_the_group_and_that_of_a_subcommand_are_of_one_command(name: str) -> None:
    command = cli.get_command(None, name)  # type: ignore[arg-type]  # the group needs no context
    assert command is not None
    assert command.name == name


def test_the_version_is_that_of_the_installed_distribution() -> None:
    done = CliRunner().invoke(cli, ["--version"])
    expected = metadata.version("pushbackd")
    assert (done.exit_code, done.stdout) == (ExitCode.PASSED, f"pushbackd {expected}\n")


def test_serve_is_one_command_under_both_of_its_names() -> None:
    ours = CliRunner().invoke(cli, ["serve", "--help"], prog_name="pushbackd")
    module = [sys.executable, "-m", "fakeserver", "--help"]
    theirs = subprocess.run(module, capture_output=True, text=True, check=True)
    assert ours.stdout.replace("-h, ", "").split() == theirs.stdout.replace("-h, ", "").split()
    assert "--replSet" in ours.stdout


@pytest.mark.parametrize(
    ("words", "incomplete", "completed"),
    [
        (["serve"], "--tlsM", ["--tlsMode"]),
        (["serve", "--topology"], "r", ["replicaset"]),
        (["serve", "--port", "1", "--profile"], "7", ["7.0"]),
        (["node"], "step", ["step-down"]),
        (["rule", "add"], "--name", ["--namespace", "--name"]),
        ([], "ru", ["rule"]),
    ],
)
def test_the_shell_completes_commands_options_and_values(
    words: list[str], incomplete: str, completed: list[str]
) -> None:
    complete = ShellComplete(cli, {}, "pushbackd", "_PUSHBACKD_COMPLETE")
    assert [each.value for each in complete.get_completions(words, incomplete)] == completed


@pytest.mark.parametrize(("words", "title"), [([], "Servers:"), (["rule"], "Commands:")])
def test_a_group_without_a_command_shows_its_help(words: list[str], title: str) -> None:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert done.stderr.startswith("Usage: ")
    assert title in done.stderr


def test_an_unknown_subcommand_is_a_usage_error() -> None:
    assert CliRunner().invoke(cli, ["frobnicate"]).exit_code == ExitCode.BAD_INPUT
    mistyped = CliRunner().invoke(cli, ["nod", "kill"])
    assert mistyped.exit_code == ExitCode.BAD_INPUT
    assert mistyped.stderr.startswith("Error: no such command: 'nod'; did you mean 'node'?\n")


@pytest.mark.parametrize(("former", "now"), FORMER.items())
def test_a_former_name_of_a_command_works_with_a_notice(former: str, now: str) -> None:
    today, before = (CliRunner().invoke(cli, [name, "add", "--help"]) for name in (now, former))
    assert (before.exit_code, before.stdout) == (ExitCode.PASSED, today.stdout)
    assert before.stderr == f"pushbackd {former} is called pushbackd {now} now\n"
    assert former not in CliRunner().invoke(cli, ["--help"]).stdout.split()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--adapter", "oracle"], "'oracle' is neither one of reference, pymongo, pymongo-async nor 'cmd:'"),
        (["--adapter", "cmd: "], "nor 'cmd:' and a command"),
        (["--topology", "ring"], "'ring' is not one of 'single', 'replicaset', 'sharded', 'load-balanced'"),
        (
            ["--adapter", "pymongo-async", "--time", "virtual"],
            "--time virtual: pymongo-async runs on the wall clock only",
        ),
        (["--adapter", "pymongo-async", "--edition", "2026-02-20"], "pymongo-async follows 2026-07-08"),
        (["-k", "insert and"], "-k: in the expression 'insert and': expected a word, found the end"),
        (["--jobs", "0"], "'0' is neither a number of processes (1 to 1000) nor 'auto'"),
        (["--jobs", "many"], "'many' is neither"),
        (["--case-timeout", "0"], "--case-timeout"),
        (["--frobnicate"], "no such option"),
    ],
)
def test_a_wrong_command_line_is_refused_with_a_reason(arguments: list[str], message: str) -> None:
    done = conform(*arguments)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert message in done.stderr
    assert done.stdout == ""


def test_a_path_that_does_not_exist_is_bad_input(tmp_path: Path) -> None:
    done = conform(tmp_path / "missing")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert f"{tmp_path / 'missing'}: no such file or folder" in done.stderr


def test_a_folder_without_scenarios_is_bad_input(tmp_path: Path) -> None:
    done = conform(tmp_path)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "holds no scenarios" in done.stderr


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", ""),
        ("tests: [", ":1"),
        (f"{VALID}    operation: []\n", ":6"),
        ("just words", ":1"),
    ],
)
def test_a_broken_scenario_is_named_with_its_line(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "broken.yml"
    path.write_text(text)
    done = conform(path)
    assert done.exit_code == ExitCode.BAD_INPUT
    assert f"{path}{place}" in done.stderr
    assert done.stdout == ""


def test_a_broken_expectations_file_is_bad_input(tmp_path: Path, write_scenario: WriteScenario) -> None:
    (tmp_path / "expected.yml").write_text("hopeless: []\n")
    done = conform(write_scenario("a"), "--expectations", tmp_path / "expected.yml")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert f"{tmp_path / 'expected.yml'}:1: unknown key 'hopeless'" in done.stderr


def test_an_expectation_of_a_case_that_does_not_exist_is_bad_input(
    tmp_path: Path, write_scenario: WriteScenario
) -> None:
    (tmp_path / "expected.yml").write_text("known-failing:\n  - {case: 'spec/tiny::b', reason: gone}\n")
    done = conform(write_scenario("a"), "--expectations", tmp_path / "expected.yml")
    assert done.exit_code == ExitCode.BAD_INPUT
    assert "no case matches 'spec/tiny::b'" in done.stderr


def test_an_expression_that_selects_nothing_ran_nothing(write_scenario: WriteScenario) -> None:
    done = conform(write_scenario("a"), "-k", "nothing")
    assert done.exit_code == ExitCode.NOTHING_RAN
    assert "no cases" in done.stdout
